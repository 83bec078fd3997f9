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
 * of an answer by reference. All functions but slate_wake are for the thread that runs the handler,
 * during the handler. */
#ifndef SLATE_H
#define SLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "json.h"
#include "mem.h"
#include "pool.h"

#define SLATE_ABI 1 /* grows when anything in this header changes meaning */

typedef struct slate_request slate_request;

typedef enum { SLATE_ANSWERED, SLATE_SUSPENDED } slate_result;

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
    const char *path; /* "/db/{collection}/{id}": a segment in braces is a parameter; a brace
                         elsewhere is refused at the start */
    slate_handler *on[SLATE_METHODS]; /* by method; NULL: 405 */
    /* Media types of the body by method, comma-separated; NULL: a body is not read. */
    const char *consumes[SLATE_METHODS];
    const char *summary; /* one sentence, for people */
} slate_route;

/* ---- The request ----------------------------------------------------------------------------- */

mem_context *slate_request_context(slate_request *req);
/* While a handler, a continuation or a producer runs; what it holds is given back at its end. */
mem_context *slate_scratch_context(slate_request *req);

slate_method slate_request_method(const slate_request *req);
/* The path as sent, still percent-encoded. */
const char *slate_path(const slate_request *req);
/* A path parameter, percent-decoded (a %2F stays inside its segment), in the request context.
 * NULL: the route has no such parameter. */
const char *slate_param(const slate_request *req, const char *name);
/* The first query parameter of that name, decoded; "" for a bare name; NULL: absent. */
const char *slate_query(slate_request *req, const char *name);
/* Calls `visit` for each query parameter in their order, decoded ("" for a bare name's value; a '+' is
 * a '+'); false from it ends the walk. The strings live as long as the request. false: it was ended,
 * or memory was refused. */
typedef bool slate_query_visitor(void *arg, const char *name, const char *value);
bool slate_each_query(slate_request *req, slate_query_visitor *visit, void *arg);
/* A request header, or NULL. Valid until the answer has been sent. What is divided over several lines
 * of that name is one list, with commas (RFC 9110, section 5.3). If there is no memory for that it
 * reads as absent, and whatever the handler goes on to answer becomes 503; nor does it get a wait. */
const char *slate_header(slate_request *req, const char *name);

/* The whole body, of `*ret_size` bytes, never NULL; valid until slate_body_json, or until the request
 * has been answered: waits included. */
const char *slate_body(slate_request *req, size_t *ret_size);

/* The body as a tree, owned by the request (do not decref; change it freely). Checks the media
 * type and every limit. NULL: a problem has been answered, return SLATE_ANSWERED. The raw body is
 * released: a tree does not point into it. Once per request. */
json_t *slate_body_json(slate_request *req);
/* The same for a text that stays where it is: the body, to be parsed again after a wait, and as often
 * as needed. This tree, too, is the request's, and ends when the handler returns. */
json_t *slate_read_json(slate_request *req, const char *text, size_t size);
/* Answers with what json_read said. */
slate_result slate_answer_unreadable(slate_request *req, const json_read_problem *problem);

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

/* ---- Waiting, without holding the event loop ---------------------------------------------------- */

typedef enum { SLATE_WOKEN, SLATE_TIMED_OUT } slate_wake_reason;

/* Runs like a handler, on the request's own thread, after a wait: it answers, or waits again. */
typedef slate_result slate_continuation(slate_request *req, void *arg, slate_wake_reason why);

typedef struct slate_wait slate_wait;

/* Begins a wait: the handler that gets one returns SLATE_SUSPENDED. Its scratch context is reset as
 * at any return; request context and body stay. `then` runs once slate_wake has been called, or
 * after `within_ms` (which is looked at ten times a second). If the request ends before (its connection
 * broke, the server stops) `then` does not run: what it would have released belongs into a mem_on_reset
 * callback of the request context. The reaper's clock stands still while a request waits. A handler that
 * returns SLATE_ANSWERED after all has given the wait up, and `then` does not run. NULL: no memory, for
 * this or for something before; a ready-made answer is sent, return SLATE_ANSWERED. */
slate_wait *slate_wait_begin(slate_request *req, unsigned within_ms, slate_continuation *then,
                             void *arg);
/* Ends a wait, from any thread: exactly once for every wait begun, also after it timed out or its
 * request ended. The wait may not be touched afterwards. No thread may be in here any more when its
 * module's `stop` returns. */
void slate_wake(slate_wait *wait);

/* ---- An answer of any length, in constant memory ------------------------------------------------ */

typedef enum {
    SLATE_STREAM_MORE,    /* *ret_size bytes (not 0) are there, more may follow */
    SLATE_STREAM_END,     /* *ret_size bytes are the last */
    SLATE_STREAM_WAITING, /* a wait has been begun (its continuation NULL): ask again after it */
    SLATE_STREAM_BROKEN   /* the answer cannot be completed: the connection is closed */
} slate_stream_state;

/* Writes up to `room` bytes of the answer to `into`: a hundred at least, so what is longer in one piece
 * must be remembered in between. Runs on the request's thread when the client has taken what was before,
 * its scratch context current and reset afterwards. `why` is SLATE_TIMED_OUT after a wait that was not
 * ended in time. The head has been sent, so that nothing can be answered any more: whatever goes wrong
 * is SLATE_STREAM_BROKEN, and so are MORE without a byte, WAITING without a wait, and any memory that
 * was refused, whether the producer noticed or not. A wait that is begun must be returned as WAITING:
 * with any other state it is given up. */
typedef slate_stream_state slate_producer(slate_request *req, void *arg, char *into, size_t room,
                                          size_t *ret_size, slate_wake_reason why);

/* Answers with what `produce` writes, chunked. `arg` must live as long as the request. A client that
 * takes nothing for --idle-timeout is given up; --body-timeout does not bound a stream. */
slate_result slate_answer_stream(slate_request *req, int status, const char *media_type,
                                 slate_producer *produce, void *arg);

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

/* For want of memory: 503 (or 413, if it was the request's own limit), ready-made. */
slate_result slate_answer_no_memory(slate_request *req);
/* Makes a context for what works for the request on other threads, and may outlive it: one thread at a
 * time uses it, any may end it (mem_delete), all before the module's `stop` returns. NULL: no memory. */
mem_context *slate_context_create(const slate_request *req, const char *name);
/* Makes a budget for such a context: as large as the request's own, and below the same total, which is
 * there until modules have stopped. */
void slate_budget_init(const slate_request *req, mem_budget *ret_budget);
/* As slate_answer_no_memory, for what such a budget has refused: 413 if it was its own limit. */
slate_result slate_answer_refused(slate_request *req, const mem_budget *budget);
/* Says that the request has changed something for good, or may have. If memory is refused from here
 * on, the ready-made answer says so (503, "outcome-unknown"), instead of "try again". */
void slate_changed(slate_request *req);

/* ---- The program ------------------------------------------------------------------------------ */

struct options; /* options.h */

/* Takes a figure of a module: a counter or a gauge. Strings live until it returns. */
typedef void slate_emit_figure(void *arg, const char *name, const char *help, bool counter,
                               double value);

/* Routes, and what they share. Every member but `name` may be NULL. */
typedef struct slate_module {
    const char *name;          /* a token: "store" */
    const slate_route *routes; /* ended by one with path NULL */
    bool (*start)(
        const struct options *opts);        /* before the first request; false: one line logged */
    void (*stop)(void);                     /* after the last request; only if it was started */
    bool (*ready)(const char **ret_reason); /* any thread; false: /readyz is 503, with the reason */
    /* Any thread: for /metrics (slate_NAME_…) and /debug/memory. */
    void (*figures)(slate_emit_figure *emit, void *arg);
} slate_module;

/* All modules that run, those of plugins last; ended by NULL. From the first `start` on, any thread. */
const slate_module *const *slate_modules(void);

/* Runs the server with these modules (ended by NULL) until it is told to stop. Returns the exit
 * status: 0 stopped, 1 it could not run, 2 bad usage. */
int slate_main(int argc, char **argv, const slate_module *const modules[])
    __attribute__((visibility("hidden"))); /* a program's, not a plugin's */

/* ---- Plugins ----------------------------------------------------------------------------------- */

/* The one symbol that a plugin exports: its module, and what it was built against, so that --plugin
 * can refuse what does not fit. `abi` stays the first member for ever. */
typedef struct slate_plugin {
    unsigned abi;        /* SLATE_ABI */
    unsigned jansson;    /* JANSSON_VERSION_HEX */
    unsigned asan;       /* MEM_ASAN: whether contexts are used without their inline path */
    unsigned layout[13]; /* SLATE_LAYOUT */
    const slate_module *module;
} slate_plugin;

/* Sizes and places of what both sides look into. */
#define SLATE_LAYOUT                                                                    \
    {                                                                                   \
        sizeof(slate_plugin), sizeof(slate_module), sizeof(slate_route), SLATE_METHODS, \
            sizeof(slate_where), sizeof(json_writer), sizeof(json_read_problem),        \
            sizeof(mem_context), offsetof(mem_context, end), sizeof(mem_budget),        \
            sizeof(mem_stats), sizeof(mem_blocks_stats), sizeof(mem_pool_stats)         \
    }

/* Stands once in a plugin, at the end of a file: SLATE_PLUGIN(module); with a slate_module that lives as
 * long as the process. It is appended to the program's. */
#define SLATE_PLUGIN(its_module)                                                      \
    extern const slate_plugin slate_plugin_record;                                    \
    __attribute__((visibility("default"))) const slate_plugin slate_plugin_record = { \
        SLATE_ABI, JANSSON_VERSION_HEX, MEM_ASAN, SLATE_LAYOUT, &(its_module)}

#endif
