/* Router: whole paths first, then those with parameters, segment by segment. Escapes are decoded
 * after the split, so that a %2F stays inside its segment. Read-only once made: any thread. */
#include "router.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "log.h"

static const char *const method_names[SLATE_METHODS] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

static void add_allow(route *r, const char *name)
{
    size_t used = strlen(r->allow);
    int n = snprintf(r->allow + used, sizeof r->allow - used, "%s%s", used > 0 ? ", " : "", name);
    (void)n; /* all seven names fit, see below */
}
static_assert(sizeof "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" <= sizeof((route *)0)->allow,
              "every method fits into Allow");

/* A parameter's braces stand around its whole segment; what has no name, or a brace elsewhere, is
 * more likely a slip than meant. */
static bool add_segment(route *r, const char *text, size_t length)
{
    bool param = length > 2 && text[0] == '{' && text[length - 1] == '}';
    if (param) {
        text++;
        length -= 2;
    }
    if (memchr(text, '{', length) || memchr(text, '}', length))
        return false;
    r->segment[r->segments].param = param;
    r->segment[r->segments].text = text;
    r->segment[r->segments].length = (unsigned)length;
    r->segments++;
    r->params += param;
    return true;
}

static bool compile(route *r, const slate_route *is, const char *module, unsigned index)
{
    r->is = is;
    r->module = module;
    r->index = index;
    r->length = strlen(is->path);
    if (is->path[0] != '/') {
        log_error("Route \"%s\" must begin with a slash.", is->path);
        return false;
    }
    for (const char *at = is->path + 1;;) {
        const char *end = strchrnul(at, '/');
        if (r->segments == SEGMENTS_MAX) {
            log_error("Route \"%s\" has more than %d segments.", is->path, SEGMENTS_MAX);
            return false;
        }
        if (!add_segment(r, at, (size_t)(end - at))) {
            log_error("Route \"%s\": braces stand around a whole segment, and a name, as in "
                      "/items/{id}.",
                      is->path);
            return false;
        }
        if (*end == '\0')
            break;
        at = end + 1;
    }
    if (r->params > ROUTE_PARAMS) {
        log_error("Route \"%s\" has more than %d parameters.", is->path, ROUTE_PARAMS);
        return false;
    }
    for (unsigned m = 0; m < SLATE_METHODS; m++) {
        if (!is->on[m])
            continue;
        add_allow(r, method_names[m]);
        if (m == SLATE_GET)
            add_allow(r, "HEAD");
    }
    if (r->allow[0] == '\0') {
        log_error("Route \"%s\" of module \"%s\" has no handler.", is->path, module);
        return false;
    }
    add_allow(r, "OPTIONS");
    return true;
}

/* Whether both match the same paths, whatever their parameters are called. */
static bool same_paths(const route *a, const route *b)
{
    if (a->segments != b->segments)
        return false;
    for (unsigned i = 0; i < a->segments; i++) {
        if (a->segment[i].param != b->segment[i].param)
            return false;
        if (!a->segment[i].param &&
            (a->segment[i].length != b->segment[i].length ||
             memcmp(a->segment[i].text, b->segment[i].text, a->segment[i].length) != 0))
            return false;
    }
    return true;
}

/* The length of Allow's methods that the table names. */
static int own_methods(const route *r)
{
    return (int)(strlen(r->allow) - strlen(", OPTIONS"));
}

static bool is_new(const router *r, const route *added)
{
    for (const route *before = r->routes; before < added; before++) {
        if (same_paths(before, added)) {
            log_error("Route \"%s\" (%.*s) of module \"%s\" is there already: \"%s\" (%.*s) of "
                      "module \"%s\".",
                      added->is->path, own_methods(added), added->allow, added->module,
                      before->is->path, own_methods(before), before->allow, before->module);
            return false;
        }
    }
    return true;
}

static bool add_routes(router *r, const slate_module *module)
{
    for (const slate_route *is = module->routes; is && is->path; is++) {
        if (r->count == ROUTES_MAX) {
            log_error("There are more than %d routes.", ROUTES_MAX);
            return false;
        }
        if (!compile(&r->routes[r->count], is, module->name, r->count) ||
            !is_new(r, &r->routes[r->count]))
            return false;
        r->count++;
    }
    return true;
}

router *router_create(const slate_module *const modules[])
{
    router *r = calloc(1, sizeof *r);
    if (!r)
        log_error("The routes could not be set up: out of memory.");
    for (; r && *modules; modules++) {
        if (!add_routes(r, *modules)) {
            free(r);
            return NULL;
        }
    }
    return r;
}

/* One segment against one of the pattern; a parameter's value goes to *ret_value. */
static bool match_segment(const route *r, unsigned i, const char *text, size_t length,
                          mem_context *ctx, const char **ret_value)
{
    bool encoded = memchr(text, '%', length) != NULL;
    if (!r->segment[i].param && !encoded)
        return length == r->segment[i].length && memcmp(text, r->segment[i].text, length) == 0;
    if (r->segment[i].param && length == 0)
        return false;
    const char *value =
        encoded ? percent_decode(ctx, text, length, NULL) : mem_copy_string(ctx, text, length);
    if (!value)
        return false;
    if (r->segment[i].param) {
        *ret_value = value;
        return true;
    }
    return strlen(value) == r->segment[i].length &&
           memcmp(value, r->segment[i].text, r->segment[i].length) == 0;
}

/* `path` has as many segments. */
static bool match(const route *r, const char *path, mem_context *ctx, const char **params)
{
    unsigned i = 0, param = 0;
    const char *at = path + 1;
    for (;;) {
        const char *end = strchrnul(at, '/');
        const char *value = NULL;
        if (!match_segment(r, i, at, (size_t)(end - at), ctx, &value))
            return false;
        if (value)
            params[param++] = value;
        i++;
        if (*end == '\0')
            return true;
        at = end + 1;
    }
}

static unsigned count_segments(const char *path)
{
    unsigned segments = 0;
    for (const char *at = path; *at; at = strchrnul(at + 1, '/'))
        segments++;
    return segments;
}

const route *router_match(const router *r, const char *path, mem_context *ctx,
                          const char **ret_params, unsigned max_params)
{
    if (path[0] != '/')
        return NULL;
    size_t length = strlen(path);
    for (unsigned i = 0; i < r->count; i++) {
        const route *candidate = &r->routes[i];
        if (candidate->params == 0 && candidate->length == length &&
            memcmp(candidate->is->path, path, length) == 0)
            return candidate;
    }
    bool encoded = memchr(path, '%', length) != NULL;
    unsigned segments = count_segments(path);
    for (unsigned i = 0; i < r->count; i++) {
        const route *candidate = &r->routes[i];
        if (candidate->segments == segments && (candidate->params > 0 || encoded) &&
            candidate->params <= max_params && match(candidate, path, ctx, ret_params))
            return candidate;
    }
    return NULL;
}
