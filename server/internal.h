/* The server's own structures: server > worker (one per event-loop thread) > connection > request.
 * Everything below a worker is touched by that worker's thread only, except where a comment names
 * another. Handlers see none of this: they include slate.h. */
#ifndef SLATE_INTERNAL_H
#define SLATE_INTERNAL_H

#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>

#include "../alloc/blocks.h"
#include "../alloc/debug.h"
#include "../alloc/mem.h"
#include "../alloc/pool.h"
#include "door.h"
#include "options.h"
#include "router.h"
#include "slate.h"

static_assert(MEM_RETAIN_ADAPTIVE == SIZE_MAX, "--retain auto is SIZE_MAX");

struct MHD_Connection;
struct MHD_Daemon;

typedef struct server server;
typedef struct worker worker;
typedef struct listener listener;
typedef struct connection connection;

/* ---- Counters: written by one worker, read by any thread -------------------------------------- */

typedef uint64_t counter;

static inline void counter_add(counter *c, uint64_t n)
{
    __atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

static inline uint64_t counter_get(const counter *c)
{
    return __atomic_load_n(c, __ATOMIC_RELAXED);
}

#define DURATION_BUCKETS 15
#define STATUS_SLOTS 24

/* The methods that are told apart; their names are in head.c. */
typedef enum {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_PATCH,
    METHOD_DELETE,
    METHOD_OPTIONS,
    METHOD_OTHER,
    METHODS
} http_method;

typedef struct route_counters {
    counter answers[METHODS][STATUS_SLOTS]; /* statuses by metrics.c's table */
    counter duration[DURATION_BUCKETS];     /* requests, not cumulative; the last is +Inf */
    counter duration_ns;                    /* sum */
    counter bytes_in, bytes_out;            /* of bodies */
} route_counters;

#define NEWEST_ANSWER_MAX 240u /* bytes of type and body that are looked at */

/* What a route has answered last, if it was small and plain (repeat.c). The worker's; while a response
 * is asked for, the housekeeper's. */
typedef struct newest_answer {
    void *response;               /* struct MHD_Response; NULL: there is none yet */
    bool asked;                   /* atomic: it came twice */
    size_t type_size, size;       /* 0, 0: none */
    char text[NEWEST_ANSWER_MAX]; /* the media type with its NUL, the body */
} newest_answer;

/* ---- Server ------------------------------------------------------------------------------------ */

/* Answers that need no memory when they are sent: built at start-up. */
typedef enum {
    READY_MADE_TOO_LARGE,
    READY_MADE_OVERLOADED,
    READY_MADE_UNKNOWN, /* the same, after the request has changed something */
    READY_MADE_FAILED,
    READY_MADE
} ready_made;

/* One address that is listened on, with its routes. */
struct listener {
    server *owner;
    router *routes;
    bool admin;
    int fd;                    /* -1: closed */
    int64_t refuses_ms;        /* draining: since when no more clients come; 0: they do */
    struct MHD_Daemon **loops; /* one per worker thread */
    unsigned loop_count;
};

#define PLUGINS_MAX OPTION_FILES_MAX

typedef struct plugin {
    char *file; /* as --plugin names it */
    const slate_module *module;
} plugin;

#define ADMIN_CONNECTIONS 64
#define LINGER_MAX 256

typedef struct lingering_sockets {
    unsigned count;
    struct {
        int fd;
        int64_t until_ms;
    } socket[LINGER_MAX];
} lingering_sockets;

struct server {
    options opts;
    const slate_module *const *modules; /* of the program, then of the plugins; ended by NULL */
    const slate_module **joined;        /* the same, if there are plugins */
    plugin plugins[PLUGINS_MAX];
    unsigned plugin_count;
    unsigned modules_started; /* the first ones */
    listener public, admin;
    mem_depot *depot;
    mem_blocks *shared_blocks;  /* arena: of contexts that pass from thread to thread; else NULL */
    mem_debug *mem_debug;       /* NULL: no instruments */
    mem_total in_flight_memory; /* what all requests together hold */
    bool draining;              /* atomic: set once by the main thread */
    bool waits_refused;         /* atomic: the same */
    int64_t started_ms;         /* wall clock */
    struct {
        void *response; /* struct MHD_Response */
        int status;
        size_t size;
    } ready_made[READY_MADE];

    struct {
        pthread_mutex_t lock; /* guards `added`, to which workers append */
        lingering_sockets added;
        lingering_sockets read; /* the housekeeper's own */
    } lingering;

    pthread_mutex_t lock; /* guards `workers` and the fields of ended workers */
    worker *workers;      /* never shrinks while the server runs, so that counters stay */
    pthread_key_t worker_key;
};

static inline bool server_draining(const server *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_RELAXED);
}

#define TRIM_WORTH 16u /* connections: when so many have gone, their memory may go back */

/* ---- Worker (worker.c) -------------------------------------------------------------------------- */

struct worker {
    server *owner;
    unsigned number;
    bool admin;
    door door;           /* callbacks run inside it */
    mem_context context; /* the worker level of the tree: parent of its requests */
    mem_blocks *blocks;
    mem_context scratch;              /* of the request whose handler runs: one at a time */
    mem_block *scratch_block;         /* arena: its first block, always hot */
    mem_pool *requests, *connections; /* NULL with --pool off */
    uint64_t next_id;                 /* of requests; with id_seed, unique in the process */
    uint64_t id_seed;

    pthread_mutex_t lock; /* guards open_connections: the reaper reads it */
    connection *open_connections;

    struct {
        pthread_mutex_t lock; /* guards the list, and the state of waits (wait.c) */
        slate_wait *first;    /* those asleep */
        unsigned asleep;      /* their number; read without the lock, too */
    } waits;

    counter accepted, closed; /* connections */
    uint64_t most_open;       /* of them at once, since half of them were gone (connection.c) */
    counter begun, completed; /* requests: begun - completed are in flight */
    counter aborted, refused; /* requests without an answer; requests refused for memory */
    counter log_lines_lost;   /* of the access log */
    route_counters *by_route; /* router count + 1: the last is for unknown paths */
    newest_answer *newest;    /* likewise */
    size_t route_count;
    worker *next;
};

/* Requests whose connections are suspended. From any thread. */
static inline unsigned worker_asleep(const worker *w)
{
    return __atomic_load_n(&w->waits.asleep, __ATOMIC_RELAXED);
}

/* The calling thread's worker, made at its first callback and ended with the thread. NULL: no memory. */
worker *worker_current(listener *on);
bool workers_init(server *s);
/* Parts with what the public listener's workers, and the shared magazine, keep and have not needed for
 * a whole decay period. From the housekeeper. */
void workers_clear_neglected(server *s);
/* Of all magazines together; the caller holds the server's lock. */
mem_blocks_stats server_blocks(server *s);
/* After every event loop has ended. */
void workers_free(server *s);

/* ---- Connection (connection.c) ------------------------------------------------------------------ */

/* What the server waits for on a connection, and so whether its client may have left unseen. */
typedef enum {
    AWAITS_NOTHING, /* it is the server's turn, or the library will see the end */
    AWAITS_REST,    /* of the first request's head, or of a body */
    AWAITS_NEXT,    /* an answer is sent: whatever came with its request is here */
    AWAITS_END      /* the reaper has seen the client's end, and shuts it if it is so next time */
} connection_awaits;

struct connection {
    worker *worker;
    listener *listener;
    slate_request
        *request; /* the one in flight, or NULL: released with the connection at the latest */
    int fd;       /* valid while in the worker's list */
    int64_t deadline_ms; /* atomic; monotonic; when the reaper shuts it: the next request's headers
                               (or, with a request, its body) must be complete by then; 0: it is
                               the server's turn, or it has been shut */
    int64_t look_ms;     /* the reaper's: when it next looks whether the client is silent */
    connection_awaits awaits; /* atomic */
    bool idle;                /* atomic; before the first request's headers, or between two */
    bool linger;              /* the answer closes it while the client may still be sending */
    char *query;              /* the newest target's (http_on_target); NULL: it has none */
    char query_start;         /* its first byte */
    bool answered;            /* the newest request's answer was sent whole */
    connection *prev, *next;
    struct sockaddr_in6 remote; /* or the sockaddr_in that fits into it */
};

/* `address`: the client's, or NULL. NULL: no memory. */
connection *connection_open(listener *on, int fd, const struct sockaddr *address);
#define REMOTE_MAX 64
/* "192.0.2.1:49152", "[2001:db8::1]:49152", or "-". */
void connection_remote(const connection *conn, char out[REMOTE_MAX]);
void connection_close(connection *conn);
/* Whether the client has ended its side and all that it sent has been read, or the connection broke. */
bool connection_has_ended(const connection *conn);
void connection_await(connection *conn, connection_awaits what);
void connection_set_idle(connection *conn, bool idle);
/* Sets the time from now at which the connection is shut; 0: none, and the client may be silent. */
void connection_set_deadline(connection *conn, int64_t now_ms, unsigned in_ms);
/* Shuts connections that are past their deadline, or have one and were silent for the idle time-out,
 * or whose client has ended its side unseen: libmicrohttpd 0.9.75 does not see an end that comes
 * together with data; with `room_ms`, public ones that have been idle for so long, too. From the
 * housekeeper. */
void connections_reap(server *s, int64_t now_ms, unsigned room_ms);

/* ---- Lingering (linger.c) -------------------------------------------------------------------------- */

/* Keeps a copy of the socket open until the client has stopped sending, 2 seconds at the most. From
 * any worker. */
void linger_add(server *s, int fd);
/* Reads and discards. From the housekeeper. true: sockets are left, come back soon. */
bool linger_turn(server *s, int64_t now_ms);

/* ---- Request (request.c) ------------------------------------------------------------------------- */

/* Problems known from the headers alone that leave the framing intact: answered after the body has
 * been drained, so that the connection lives on. */
typedef enum {
    EARLY_NONE,
    EARLY_NOT_FOUND,
    EARLY_NOT_ALLOWED,
    EARLY_OPTIONS,
    EARLY_MEDIA_TYPE,
    EARLY_EXPECTATION,
    EARLY_TOO_LARGE
} early_answer;

typedef struct answer_header {
    const char *name, *value;
    struct answer_header *next;
} answer_header;

typedef struct owned_tree {
    json_t *tree;
    struct owned_tree *next;
} owned_tree;

#define UNKNOWN_LENGTH UINT64_MAX
#define REQUEST_ID_MAX 64
#define ROUTE_PARAMS 4

typedef struct query_parameter {
    const char *name, *value; /* decoded */
} query_parameter;

struct slate_request {
    _Alignas(MEM_ALIGN) mem_context request; /* aligned, as the first blocks follow the struct */
    mem_budget budget;
    worker *worker;
    connection *conn;
    struct MHD_Connection *mhd;

    const char *method, *path; /* libmicrohttpd's memory, valid until completion */
    const char *query;         /* likewise, as sent, until it is split; NULL: there is none */
    const query_parameter *parameters; /* in the request context */
    size_t parameter_count;
    http_method method_id; /* as far as it is told apart */
    bool http_1_0;
    slate_method verb;  /* HEAD is SLATE_GET */
    const route *route; /* NULL: unknown path */
    const char *params[ROUTE_PARAMS];
    const char *media_type; /* Content-Type header or NULL */
    const char *id;         /* X-Request-Id, given or made; NULL: not yet made */
    bool id_given;
    early_answer early;
    int64_t begun_ns;

    char *body;
    size_t body_size, body_capacity;
    uint64_t drained; /* bytes received and thrown away */
    uint64_t received;
    owned_tree *trees;
    slate_wait *wait; /* begun and not yet over */

    bool answered;
    bool changed; /* something for good, or perhaps */
    int status;
    const char *answer_type;
    const void *answer_bytes;
    size_t answer_size;      /* of a stream: what has been sent */
    slate_producer *produce; /* of a stream */
    void *produce_arg;
    bool stream_ended; /* the producer has nothing more */
    answer_header *headers, **last_header;
    json_writer writer;
};

/* Bytes of one pooled request; in arena mode the first block of its context follows the struct. */
size_t request_cell_size(alloc_mode mode);

/* A request on this connection. NULL: no memory. */
slate_request *request_begin(connection *conn, struct MHD_Connection *mhd);
/* Room for the whole body, reserved once. false: refused. */
bool request_expect_body(slate_request *req, uint64_t length);
/* A piece of the body. false: give up on the connection. */
bool request_receive(slate_request *req, const char *data, size_t size);
/* Gives the body back before the request ends. */
void request_drop_body(slate_request *req);
/* What follows a wait. */
typedef struct awakening {
    slate_continuation *then;
    void *arg;
    slate_wake_reason why;
} awakening;

/* Runs the handler (or the early answer). The scratch context is empty afterwards, and the answer
 * stands in the request context. false: it waits, for wait_sleep to see. */
bool request_run(slate_request *req);
/* The same with what follows a wait. */
bool request_go_on(slate_request *req, const awakening *next);
/* Runs the producer of a stream. */
slate_stream_state request_produce(slate_request *req, char *into, size_t room, size_t *ret_size,
                                   slate_wake_reason why);
/* `sent`: the answer was sent whole. Counts, logs, and gives everything back. */
void request_end(slate_request *req, bool sent, int64_t now_ns);
/* The request's id, made if the client gave none. */
const char *request_id(slate_request *req);
/* What all requests in flight hold, in bytes. */
size_t requests_live_bytes(server *s);

/* ---- Waits (wait.c) ------------------------------------------------------------------------------- */

/* Suspends the connection of a request that has begun a wait. false: the wait is over already. */
bool wait_sleep(slate_request *req);
/* Takes the wait, which is over, off the request. false: give up on the connection. */
bool wait_over(slate_request *req, awakening *ret_next);
/* Of a request that ends; it need not wait. */
void wait_abandon(slate_request *req);
/* Ends waits that have taken too long. From the housekeeper. */
void waits_expire(server *s, int64_t now_ms);
/* Gives up on all that wait, and lets none begin. Before the event loops are stopped. */
void waits_refuse(server *s);

/* ---- Translation to libmicrohttpd (http.c, repeat.c, stream.c, listener.c) ------------------------- */

const char *microhttpd_version(void);
/* "GET", …; "other" */
extern const char *const http_method_names[METHODS];
const char *http_header(slate_request *req, const char *name);
const char *http_query(slate_request *req, const char *name);
bool http_each_query(slate_request *req, slate_query_visitor *visit, void *arg);
/* The one on the request's thread, from a callback; the other on any while it is suspended. */
void http_suspend(slate_request *req);
void http_resume(slate_request *req);
/* Sends ready-made answers' bodies; built once. false: no memory. */
bool http_make_ready(server *s);
void http_free_ready(server *s);

/* Makes the responses that workers have asked for (repeat.c). From the housekeeper. */
void repeats_make(server *s);
/* Gives up those that the worker keeps. On its thread, under the server's lock, or when all has ended. */
void repeats_forget(worker *w);

/* Binds. false: one line has been logged. */
bool listener_open(listener *l, const char *address);
/* Starts the event loops. false: one line has been logged. */
bool listener_start(listener *l, unsigned threads);
/* Takes no new connections; who waits in the backlog is still served. Again and again while draining: a
 * loop that was at its connection limit may have begun to listen since. `*ret_waiting`: how many wait.
 * Returns whether that was the end, and clients are refused from now on. */
bool listener_refuse(listener *l, int64_t now_ms, unsigned *ret_waiting);
/* Closes all connections and joins the threads. One that never started is allowed. */
void listener_stop(listener *l);

/* ---- The tree of contexts (context_tree.c) -------------------------------------------------------- */

/* Figures of one context, in bytes where not said otherwise. */
typedef struct context_row {
    const char *name;
    const char *type; /* "arena", "heap"; NULL: a sum, which has no figure below `used` */
    unsigned level;   /* 0: the process, 1: a worker, 2: a request, 3: below a request */
    unsigned worker;  /* its number; of level 1 and below */
    size_t count;     /* of contexts, if this row is the sum of those that are not shown; else 0 */
    size_t total, used;
    size_t peak;
    size_t blocks, large_blocks; /* counts */
    uint64_t resets, refusals;   /* counts */
} context_row;

typedef void context_visitor(void *arg, const context_row *row);
/* Parents before children, at most 100 children of each; the caller holds the server's lock. */
void contexts_visit(server *s, context_visitor *visit, void *arg);
/* Writes the tree to standard error, a line per context. */
void contexts_dump(server *s);

/* ---- Modules (modules.c) --------------------------------------------------------------------------- */

/* Before the first request. false: one line has been logged. */
bool modules_start(server *s);
/* After the last request: those that were started, the last first. */
void modules_stop(server *s);
/* Calls `visit` with every module that has a `ready`, and why it is not ready (NULL: it is). false:
 * at least one is not. */
bool modules_ready(server *s,
                   void (*visit)(void *arg, const slate_module *module, const char *reason),
                   void *arg);

/* ---- Plugins (plugins.c) --------------------------------------------------------------------------- */

/* Loads what --plugin names, and joins it with the modules of the program. false: one line has been
 * logged. */
bool plugins_load(server *s, const slate_module *const program[]);
/* Logs a line for each. */
void plugins_log(const server *s);
/* Forgets the list. What has been loaded stays, since its code may still be on a stack. */
void plugins_free(server *s);

/* ---- Others ---------------------------------------------------------------------------------------- */

/* Decodes percent escapes of `size` bytes into the context, NUL-terminated. NULL: refused, or a bad
 * escape or NUL (*ret_bad, may be NULL). */
char *percent_decode(mem_context *ctx, const char *text, size_t size, bool *ret_bad);
bool percent_valid(const char *text);

/* The problem answers of the server itself, in the words of problem.c's table. */
const char *problem_title(const char *slug, int status);
const char *status_phrase(int status);

void metrics_count(slate_request *req, int64_t now_ns);
slate_result metrics_handler(slate_request *req);
slate_result memory_handler(slate_request *req);
extern const slate_module admin_module;
void access_log(slate_request *req, int64_t now_ns, bool sent);

/* "slate 0.1.0" and friends. */
extern const char *const slate_version __attribute__((visibility("hidden")));
server *request_server(const slate_request *req);

/* Sums over workers. Take no lock that a worker holds for long. */
typedef struct totals {
    uint64_t accepted, closed, begun, completed, aborted, refused, log_lines_lost;
    uint64_t asleep;
} totals;
totals server_totals(server *s, bool admin);

/* The calling thread's worker if it has one yet, or NULL. */
worker *worker_this(void);

#endif
