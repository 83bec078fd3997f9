/* What the files of the PostgreSQL backend share. A link is one connection, owned by the store thread
 * that opened it; nothing else is shared between threads but the counters of the database. */
#ifndef SLATE_STORE_POSTGRESQL_H
#define SLATE_STORE_POSTGRESQL_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "store.h"

typedef struct pg_database {
    mem_context *memory;
    const char *uri; /* holds a password: never shown */
    unsigned timeout_ms;
    atomic_bool told;                                /* that it cannot be reached */
    atomic_size_t connections;                       /* open now */
    atomic_uint_least64_t connected, lost, repeated; /* ever */
} pg_database;

/* Statements that are prepared on every connection that works for the store. */
typedef enum {
    PG_GET,
    PG_COLLECTIONS,
    PG_PUT,         /* whatever is there */
    PG_PUT_ABSENT,  /* … if nothing is */
    PG_PUT_PRESENT, /* … if something is */
    PG_PUT_ONE_OF,
    PG_PUT_NONE_OF,
    PG_DELETE,
    PG_DELETE_ONE_OF,
    PG_DELETE_NONE_OF,
    PG_LOOK, /* the revision, if there is a document */
    PG_INSERT,
    PG_INSERT_KEYED, /* … and remembers an answer by its key */
    PG_RECALL,       /* what is remembered */
    PG_CLEAR,
    PG_FORGET, /* answers that are a day old */
    PG_STATEMENTS
} pg_statement;

/* Why a transaction was not ended as asked. */
typedef struct pg_error {
    enum {
        PG_NONE,
        PG_REFUSED, /* the server said no: nothing of the transaction is written */
        PG_LOST     /* the connection has broken, or the server did not answer in time */
    } is;
    bool maybe;    /* PG_LOST after everything had been sent: it may be written all the same */
    char state[6]; /* PG_REFUSED: SQLSTATE */
    char text[STORE_ERROR_MAX];
} pg_error;

typedef struct pg_link {
    pg_database *database;
    PGconn *conn;        /* NULL: none */
    mem_context *own;    /* of this struct */
    mem_context *memory; /* of one operation or batch: arguments, SQL */
    int64_t deadline_ms; /* for what is asked now; monotonic */
    bool patient;        /* no time limits, but SIGTERM and SIGINT: for the schema */
    bool sent;           /* all that was queued has left */
    bool broken;         /* the connection is of no more use */
    bool leaving;        /* the server has said that it ends it */
    pg_error error;      /* the first since pg_begin */
    int64_t forgot_ms;   /* when old answers were last forgotten; monotonic */
} pg_link;

/* ---- Connections, and what goes over them (postgresql_link.c) ---------------------------------- */

/* `link` is the caller's, with `database` and `patient` set. false: `error` is a sentence. */
bool pg_connect(pg_link *link, char error[STORE_ERROR_MAX]);
void pg_disconnect(pg_link *link);
/* Whether the connection may be used, as far as can be known without asking the server. */
bool pg_is_alive(pg_link *link);

/* Begins a round: statements are queued, sent together as one transaction, and their results are
 * taken in the same order. */
void pg_begin(pg_link *link);

/* Arguments of one statement: $1, $2, … in the order of adding; in `link->memory`. Each function
 * returns the number; memory that was refused shows when the statement is queued. */
typedef struct pg_arguments {
    pg_link *link;
    const char **values;
    int *sizes, *formats;
    size_t count, capacity;
    bool failed;
} pg_arguments;

int pg_add_bytes(pg_arguments *a, store_text bytes);     /* text or bytea */
int pg_add_literal(pg_arguments *a, store_text literal); /* any type, as its text */
int pg_add_integer(pg_arguments *a, int64_t value);
int pg_add_texts(pg_arguments *a, const store_text *texts, size_t count);    /* text[] */
int pg_add_revisions(pg_arguments *a, const uint64_t *values, size_t count); /* bigint[] */

/* Queue a prepared statement, or SQL of its own. Results are text, or with `binary` bytes. */
void pg_queue(pg_link *link, pg_statement statement, const pg_arguments *a, bool binary);
void pg_queue_sql(pg_link *link, const char *sql, const pg_arguments *a);
void pg_queue_prepare(pg_link *link, const char *name, const char *sql);
/* The end of a round's statements: what was queued is done, or nothing of it. */
void pg_send(pg_link *link);
/* The rows of the next statement, all at once; to be cleared by the caller. NULL: there is an error. */
PGresult *pg_rows(pg_link *link);
/* The same row by row: call after the results before have been taken. */
void pg_expect_single(pg_link *link);
PGresult *pg_row(pg_link *link); /* NULL: there is no other, or an error */
/* Takes what is left of the round. true: it was done. */
bool pg_end(pg_link *link);
/* Gives up a transaction that is open between rounds. */
void pg_roll_back(pg_link *link);

/* Fails the round for want of memory. */
void pg_no_memory(pg_link *link);
/* A value of a result; "" where it is null. */
store_text pg_value(const PGresult *rows, int row, int column);
uint64_t pg_number(const PGresult *rows, int row, int column);

/* Whether the same again may go well. */
bool pg_is_transient(const pg_error *error);
/* Answers with what `link->error` means to whoever asked. */
void pg_answer_error(const pg_link *link, store_op *op);
void pg_answer(store_op *op, store_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* true: its time is over, and it is answered BUSY: it must not be sent. */
bool pg_drop_late(store_op *op);
/* Sleeps a moment of random length before the next try, the longer the more there were. */
void pg_pause(pg_link *link, unsigned tries);

/* ---- The rest ---------------------------------------------------------------------------------- */

#define PG_TRIES 4         /* of a transaction that others were in the way of */
#define PG_FORGET_MAX 1000 /* rows that one PG_FORGET removes at the most */

extern const char *const pg_sql[PG_STATEMENTS]; /* postgresql_sql.c */

/* Makes or migrates the schema and the indexes. postgresql_schema.c */
bool pg_migrate(pg_link *link, const char *indexes, char error[STORE_ERROR_MAX]);

/* postgresql_read.c, postgresql_write.c */
#define PG_BATCH 64 /* operations at the most */
void pg_read(pg_link *link, store_op *const ops[], size_t count);
void pg_write(pg_link *link, store_op *const ops[], size_t count);

/* SQL text, in `link->memory`; memory that was refused shows in `text` being NULL. */
typedef struct pg_text {
    pg_link *link;
    char *text; /* ends in NUL */
    size_t length, capacity;
} pg_text;
void pg_append(pg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The SELECT of a list, or of the count of what passes its filters. postgresql_query.c */
const char *pg_list_sql(pg_link *link, const store_op *op, pg_arguments *a);
const char *pg_count_sql(pg_link *link, const store_op *op, pg_arguments *a);

#endif
