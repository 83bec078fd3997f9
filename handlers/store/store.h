/* store.h: documents by collection and id, in SQLite or PostgreSQL. Three layers, top to bottom:
 *
 *   handlers/db/       HTTP: builds an operation, sleeps, answers from its result; a worker's thread
 *   store.c            the executor: queues, reading threads, writing threads, group commit
 *   sqlite.c, postgresql.c   backends: blocking calls on a session that one store thread owns
 *
 * A document is bytes: serialised, valid JSON, never a tree. An operation has a memory of its own (a
 * context with a budget), which its owner at the time uses: the handler until store_submit, a
 * store thread until it is done, the handler again. So nothing of a request's memory reaches the
 * store, nor the other way round: either side copies. */
#ifndef SLATE_STORE_H
#define SLATE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../alloc/mem.h"
#include "../../server/slate.h"

typedef struct store store;

/* Bytes with a length; not NUL-terminated unless said. */
typedef struct store_text {
    const char *at;
    size_t size;
} store_text;

typedef enum {
    STORE_GET,         /* one document                         read  */
    STORE_LIST,        /* rows of a collection, in order       read  */
    STORE_COLLECTIONS, /* names, counts, bytes                 read  */
    STORE_PUT,         /* make or replace one                  write */
    STORE_DELETE,      /* remove one                           write */
    STORE_INSERT,      /* make `count` new ones, all or none   write */
    STORE_CLEAR        /* remove a whole collection            write */
} store_kind;

typedef enum {
    STORE_OK,
    STORE_NOT_FOUND,
    STORE_PRECONDITION, /* `condition` does not hold; `revision` is the stored one, 0: no document */
    STORE_EXISTS,       /* an id to insert is taken: `index` says which document */
    STORE_REPLAYED,   /* the idempotency key was used before with the same fingerprint: `bytes` and
                           `revision` are what was remembered */
    STORE_KEY_REUSED, /* … with another fingerprint */
    STORE_BUSY,       /* locked, unreachable, no space, or over its time: nothing was written, try
                           again; `detail` says what */
    STORE_NO_MEMORY,  /* `budget` says why its memory was refused: nothing was written */
    STORE_UNKNOWN,    /* the connection broke while committing: may be written or not */
    STORE_FAILED      /* a fault of ours; has been logged */
} store_status;

/* What must hold of the stored document, checked in the writing transaction. */
typedef struct store_condition {
    enum {
        STORE_ANY,     /* no condition */
        STORE_PRESENT, /* If-Match: * */
        STORE_ABSENT,  /* If-None-Match: * */
        STORE_ONE_OF,  /* If-Match: the revision is one of these; never true without a document */
        STORE_NONE_OF  /* If-None-Match: it is none of these; true without a document */
    } is;
    const uint64_t *revisions;
    size_t count;
} store_condition;

/* A JSON scalar, or that there is none. Also the order of kinds when rows are sorted: missing and
 * null first, then false, true, numbers by value, strings by code point, arrays and objects last, by
 * their text. Sorting regards the first STORE_SORT_MAX characters of a string or text, so that rows
 * of an index and cursors are bounded; filters regard all. */
#define STORE_SORT_MAX 256
typedef struct store_scalar {
    enum { STORE_NULL, STORE_FALSE, STORE_TRUE, STORE_NUMBER, STORE_STRING, STORE_COMPOSITE } is;
    store_text text; /* number: its literal as in JSON; string: its bytes, decoded; composite (in
                        `last` and `after` only): its text; else empty */
} store_scalar;

/* A place in a document: the reference tokens of a JSON pointer, decoded. A token of digits means an
 * array's element as well as an object's member of that name. */
#define STORE_PATH_MAX 8
typedef struct store_path {
    store_text token[STORE_PATH_MAX];
    size_t count; /* at least 1 */
} store_path;

/* A document passes if the value at `path` is of the operand's kind and the comparison holds; numbers
 * compare by value, strings by code point. IN: one of the operands; NEQ: everything that EQ refuses,
 * documents without the member included. EQ with null: null or missing. */
typedef enum {
    STORE_EQ,
    STORE_NEQ,
    STORE_LT,
    STORE_LTE,
    STORE_GT,
    STORE_GTE,
    STORE_IN
} store_comparison;

typedef struct store_filter {
    store_path path;
    store_comparison op;
    const store_scalar *operands;
    size_t count; /* 1, but for IN */
} store_filter;

typedef struct store_order {
    store_path path;
    bool descending;
} store_order;

#define STORE_FILTERS_MAX 16
#define STORE_ORDERS_MAX 4
#define STORE_SELECT_MAX 32

/* What a list is of. Rows come by `order`, then by id, ascending: a total order, so that a list goes
 * on after any row (keyset paging), whatever has been inserted meanwhile. */
typedef struct store_query {
    store_filter filters[STORE_FILTERS_MAX];
    size_t filter_count;
    store_order orders[STORE_ORDERS_MAX];
    size_t order_count;
    store_path select[STORE_SELECT_MAX]; /* none: whole documents; else "document" is an object of
                                            these values by their last token, null where missing */
    size_t select_count;
    bool has_after; /* begin after the row of these values of `orders` and this id, as in `last` */
    store_scalar after[STORE_ORDERS_MAX];
    store_text after_id;
    size_t limit;      /* rows at the most */
    size_t byte_limit; /* stop after the row that reaches so many bytes; 0: no such limit */
    bool lines;        /* rows are ended by a newline each (NDJSON), not divided by commas */
    bool count_all;    /* count what passes the filters, whatever the limit */
} store_query;

typedef struct store_document {
    store_text id, json;
} store_document;

typedef struct store_op {
    /* ---- Asked: filled in by the handler, in `memory` */
    store_kind kind;
    store_text collection, id;
    store_condition condition;       /* PUT, DELETE */
    const store_document *documents; /* PUT: one; INSERT: `count` */
    size_t count;
    store_query *query; /* LIST */
    /* Idempotency (INSERT): key "" if none; SHA-256 or the like of the request; what to remember. */
    store_text key, fingerprint, remember;
    /* Monotonic: when the time is over of those that share one limit. 0: it has one of its own, and
     * store_submit fills this in. */
    int64_t until_ms;

    /* ---- Answered: filled in by the store thread, in `memory` */
    store_status status;
    char detail[200];  /* a sentence for people, if not OK */
    uint64_t revision; /* GET, PUT, DELETE (the one removed): the document's; INSERT: of all of its
                            documents. Grows with every write, never given to another one */
    int64_t modified;  /* GET: seconds since 1970 */
    bool created;      /* PUT: there was none before */
    uint64_t affected; /* CLEAR: documents removed; LIST with count_all: that count */
    size_t index;      /* EXISTS */
    size_t rows;       /* LIST: rows in `bytes` */
    bool more;         /* LIST: there are rows after these */
    store_scalar last[STORE_ORDERS_MAX]; /* LIST: of the last row, to go on after it: strings and
                                            texts cut at STORE_SORT_MAX */
    store_text last_id;
    store_text
        bytes; /* GET: the document. LIST: {"id":…,"revision":…,"document":…} each. COLLECTIONS:
                         a JSON array of {"name":…,"documents":…,"bytes":…} */

    mem_context *memory; /* of whoever owns the operation now */
    mem_budget budget;   /* of `memory`; without a limit, until it is given one before it is used */
    void *user;          /* the handler's own */

    /* ---- The executor's own (store.c) */
    mem_context *home, own; /* what holds this struct; below it, what `memory` is */
    int64_t deadline_ms;    /* monotonic; a backend that keeps it answers in time; 0: none */
    int state;              /* atomic, changes under the queue's lock */
    int references;         /* atomic */
    struct store_queue *queue;
    slate_wait *wait;
    slate_continuation *then;
    struct store_op *next;
    _Alignas(MEM_ALIGN) char room[]; /* what `own` hands out first */
} store_op;

/* ---- For handlers: on a worker's thread ------------------------------------------------------ */

/* A new operation, all zero but `kind`, with one reference: the caller's. It lives in `home`, a context
 * that any thread may end (slate_context_create), and takes that along when it ends, or at once if
 * there is no memory: NULL. `home` may be NULL, for the same reason. */
store_op *store_op_create(mem_context *home, store_kind kind);
/* Gives up the caller's reference, in any state: before it was submitted, when it is done, or in
 * between, because the request has ended (then the executor's own reference keeps it). NULL passes. */
void store_op_release(store_op *op);
/* Copies into its memory. `at` NULL in the result: no memory (and `size` not 0). */
store_text store_op_copy(store_op *op, const void *bytes, size_t size);
/* Hands it to the store and sleeps: return its result from the handler. `then` runs like a handler on
 * the same thread when the operation is done, with `op` as its argument; or, if that takes longer
 * than the store's time limit, with `op` cancelled and its status BUSY (it had not begun) or UNKNOWN
 * (it had). The request may end without `then`: the caller's reference is best released by a
 * mem_on_reset callback of the request context. `then` NULL: in a producer (slate_answer_stream),
 * which returns SLATE_STREAM_WAITING if this returns SLATE_SUSPENDED and is asked again after it;
 * if that was SLATE_TIMED_OUT, `op` may only be released. */
slate_result store_submit(store *s, store_op *op, slate_request *req, slate_continuation *then);

/* ---- For the program --------------------------------------------------------------------------- */

typedef struct store_settings {
    const char *uri;     /* "sqlite:PATH", "sqlite::memory:", "postgresql://…" */
    unsigned threads;    /* readers, and with PostgreSQL writers */
    unsigned timeout_ms; /* of one operation, waiting included */
    const char *indexes; /* "people:/age,people:/address/city": to be there, or NULL */
} store_settings;

/* Opens, migrates the schema, starts the threads. NULL: one line has been logged. */
store *store_open(const store_settings *settings);
/* After the last request has ended. */
void store_close(store *s);
/* From any thread. false: and why, a static string. */
bool store_ready(store *s, const char **ret_reason);
/* Queue lengths, operations, batches, the library's memory, file size. From any thread. */
void store_figures(store *s, slate_emit_figure *emit, void *arg);

/* ---- For backends: blocking, on a store thread ------------------------------------------------- */

#define STORE_ERROR_MAX 320
#define STORE_READ_BATCH 16 /* GETs that a thread reads at once */

typedef struct store_backend {
    const char *scheme; /* "sqlite" */
    /* Threads that write at the same time (`threads` at the most), and operations in one
     * transaction of theirs. */
    unsigned writers, batch;
    /* Checks the address, makes or migrates the schema and the declared indexes. NULL: `error` is a
     * sentence. */
    void *(*open)(const store_settings *settings, char error[STORE_ERROR_MAX]);
    void (*close)(void *database);
    /* Nobody waits for answers any more: what waits for others, or reads, is to give up. From any
     * thread, before the sessions are closed. NULL: nothing does. */
    void (*hurry)(void *database);
    /* A connection for the calling thread. NULL: `error`; the executor tries again, with back-off. */
    void *(*session_open)(void *database, bool writes, char error[STORE_ERROR_MAX]);
    void (*session_close)(void *session);
    /* Fills in the answers of reading operations; more than one are GETs, which may be of the same
     * moment. */
    void (*read)(void *session, store_op *const ops[], size_t count);
    /* Writes a batch in one transaction, which is durable on return. Each operation succeeds or fails
     * by itself (an INSERT all or none); if the transaction as a whole fails, all say so. */
    void (*write)(void *session, store_op *const ops[], size_t count);
    /* After a batch's answers are out: what need not be waited for. NULL: nothing. */
    void (*tidy)(void *session);
    /* false: the session is of no more use. */
    bool (*session_alive)(void *session);
    void (*figures)(void *database, slate_emit_figure *emit, void *arg);
} store_backend;

extern const store_backend store_sqlite, store_postgresql;

#endif
