/* Router: the tables of slate_routes of all modules, compiled once at start-up, then only read. */
#ifndef SLATE_ROUTER_H
#define SLATE_ROUTER_H

#include "slate.h"

#define ROUTES_MAX 64
#define SEGMENTS_MAX 8

typedef struct route {
    const slate_route *is;
    const char *module; /* its name */
    unsigned index;     /* in the router */
    size_t length;      /* of the path */
    unsigned params;    /* 0: a plain path, matched as a whole */
    unsigned segments;
    struct {
        const char *text; /* without '/' and braces */
        unsigned length;
        bool param;
    } segment[SEGMENTS_MAX];
    char allow[64]; /* "GET, HEAD, OPTIONS" */
} route;

typedef struct router {
    unsigned count;
    route routes[ROUTES_MAX];
} router;

/* Compiles the routes of the modules, which are ended by NULL. NULL: one line has been logged, which
 * says what route is wrong and why. A path belongs to one route. Free with free(). */
router *router_create(const slate_module *const modules[]);

/* The route of a raw path. Decoded parameters are put into `ret_params` (in `ctx`), in order of
 * the path. NULL: none. */
const route *router_match(const router *r, const char *path, mem_context *ctx,
                          const char **ret_params, unsigned max_params);

#endif
