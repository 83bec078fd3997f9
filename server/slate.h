/* slate.h: what a handler sees. A handler gets a request, answers it, and never frees: what it
 * allocates lives in the request's contexts, whether those are arenas or plain malloc.
 *
 *     static slate_result echo(slate_request *req)
 *     {
 *         json_t *doc = slate_body_json(req);   // NULL: the problem is already answered
 *         return doc ? slate_answer_json(req, 200, doc) : SLATE_ANSWERED;
 *     }
 *
 * Two lifetimes. The *request* context holds the answer and lives until it has been sent. The
 * *scratch* context is current while the handler runs, holds the parsed tree and temporaries, and
 * is reset as soon as the handler returns, before the first byte is sent: nothing in it may be part
 * of an answer by reference. All functions are for the thread that runs the handler, during the
 * handler. */
#ifndef SLATE_H
#define SLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "../alloc/mem.h"
#include "json/json.h"

#define SLATE_ABI 1 /* grows when anything in this header changes meaning */

typedef struct slate_request slate_request;

typedef enum { SLATE_ANSWERED } slate_result;

typedef slate_result slate_handler(slate_request *req);

typedef enum {
    SLATE_GET,
    SLATE_POST,
    SLATE_PUT,
    SLATE_PATCH,
    SLATE_DELETE,
    SLATE_METHODS
} slate_method;

/* One route. HEAD follows from GET; OPTIONS, 404 and 405 (with Allow) follow from the table. */
typedef struct slate_route {
    const char *path; /* "/db/{collection}/{id}": a segment in braces is a parameter */
    slate_handler *on[SLATE_METHODS]; /* by method; NULL: 405 */
    const char *consumes; /* media types of the body, comma-separated; NULL: a body is not read */
    const char *summary;  /* one sentence, for people */
} slate_route;

/* ---- The request ----------------------------------------------------------------------------- */

mem_context *slate_request_context(slate_request *req);
mem_context *slate_scratch_context(slate_request *req);

slate_method slate_request_method(const slate_request *req);
/* The path as sent, still percent-encoded. */
const char *slate_path(const slate_request *req);
/* A path parameter, percent-decoded (a %2F stays inside its segment), in the request context.
 * NULL: the route has no such parameter. */
const char *slate_param(const slate_request *req, const char *name);
/* The first query parameter of that name, decoded; "" for a bare name; NULL: absent. */
const char *slate_query(slate_request *req, const char *name);
/* A request header, or NULL. Valid until the answer has been sent. */
const char *slate_header(slate_request *req, const char *name);

/* The whole body; valid until slate_body_json or the end of the handler. */
const char *slate_body(slate_request *req, size_t *ret_size);

/* The body as a tree, owned by the request (do not decref; change it freely). Checks the media
 * type and every limit. NULL: a problem has been answered, return SLATE_ANSWERED. The raw body is
 * released: a tree does not point into it. Once per request. */
json_t *slate_body_json(slate_request *req);

/* Hands over a tree that the handler made: ended with the request. Returns the tree; NULL passes. */
json_t *slate_own(slate_request *req, json_t *tree);

/* ---- The answer: exactly one per request ------------------------------------------------------ */

/* Adds a header to the answer that follows. `name` is a static token, `value` is copied. Framing
 * headers (Content-Length, Transfer-Encoding, Connection, Date) are the server's. false: refused. */
bool slate_set_header(slate_request *req, const char *name, const char *value);

/* Serialises `tree` (still owned by whoever owned it) as application/json; pretty with `?pretty`. */
slate_result slate_answer_json(slate_request *req, int status, const json_t *tree);

/* A writer for rows without a tree; into the request context. `expected`: a guess of the length. */
json_writer *slate_writer(slate_request *req, size_t expected);
/* Answers with what slate_writer's writer holds. */
slate_result slate_answer_written(slate_request *req, int status);

/* Answers with bytes that live in the request context or for ever. */
slate_result slate_answer_bytes(slate_request *req, int status, const char *media_type,
                                const void *bytes, size_t size);
/* No body: 204, 304. */
slate_result slate_answer_empty(slate_request *req, int status);

/* Where in the input a problem lies; every member may be left out (NULL, 0). */
typedef struct slate_where {
    const char *json_pointer; /* RFC 6901 */
    int line, column;         /* from 1 */
    size_t offset;            /* bytes; meaningful with a line */
    size_t limit;             /* the limit that was exceeded */
} slate_where;

/* Answers with an RFC 9457 problem of that status: `type` is a slug ("json-syntax"), `detail` a
 * sentence for people in printf form. `where` may be NULL. */
slate_result slate_answer_problem(slate_request *req, int status, const char *type,
                                  const slate_where *where, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- The program ------------------------------------------------------------------------------ */

/* Runs the server on these routes (ended by one with path NULL) until it is told to stop. Returns
 * the exit status: 0 stopped, 1 it could not run, 2 bad usage. */
int slate_main(int argc, char **argv, const slate_route *routes);

#endif
