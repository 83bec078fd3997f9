/* A connection to PostgreSQL, always in libpq's pipeline mode and never blocking inside libpq once it
 * is open: every wait has an end, also when the server's machine stands still. A round is one
 * transaction that is sent as a whole, its end included, so that no lock ever waits for this program.
 * A link is used by the thread that owns it. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../server/clock.h"
#include "../../server/log.h"
#include "postgresql.h"

#define TEXT_OID 25
#define INT8_OID 20
#define ARGUMENTS_FIRST 8
#define KEEPALIVE_PROBES 3
/* What the server is given to say that its own time limit is over. */
#define LATE_MS 1000
#define SIGNAL_POLL_MS 100

/* ---- Opening ---------------------------------------------------------------------------------- */

/* A server that goes says so; of a connection at rest libpq takes that for a notice. */
static void take_notice(void *arg, const PGresult *notice)
{
    pg_link *link = arg;
    const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    link->leaving |=
        (state && strncmp(state, "57P", 3) == 0) || (severity && strcmp(severity, "FATAL") == 0);
}

/* What libpq says of a connection, in one line without its end. */
static void say_why(const PGconn *conn, char error[STORE_ERROR_MAX])
{
    const char *text = conn ? PQerrorMessage(conn) : "no memory";
    (void)snprintf(error, STORE_ERROR_MAX, "%.*s.", (int)strcspn(text, "\n"), text);
}

/* Seconds, at least one; libpq takes less than two as two. */
static unsigned seconds(unsigned ms)
{
    return ms / 1000 ? ms / 1000 : 1;
}

static PGconn *dial(const pg_database *database)
{
    char connect[12], user[12], idle[12], interval[12];
    unsigned ms = database->timeout_ms;
    (void)snprintf(connect, sizeof connect, "%u", seconds(ms));
    (void)snprintf(user, sizeof user, "%u", ms);
    (void)snprintf(idle, sizeof idle, "%u", seconds(ms));
    (void)snprintf(interval, sizeof interval, "%u", seconds(ms / KEEPALIVE_PROBES));
    /* What stands before the address is what it may change, what stands behind is settled. */
    const char *const names[] = {
        "target_session_attrs", "fallback_application_name", "dbname",     "client_encoding",
        "connect_timeout",      "tcp_user_timeout",          "keepalives", "keepalives_idle",
        "keepalives_interval",  "keepalives_count",          NULL};
    const char *const values[] = {"read-write", "slate", database->uri, "UTF8", connect, user,
                                  "1",          idle,    interval,      "3",    NULL};
    static_assert(sizeof names == sizeof values, "each has its value");
    static_assert(KEEPALIVE_PROBES == 3, "as said in words above");
    return PQconnectdbParams(names, values, 1);
}

/* Limits that hold on the server's side, too: a process that has stopped or a machine that is gone
 * must not keep a lock. The schema may take its time. */
static const char settings[] =
    "SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),"
    " set_config('idle_in_transaction_session_timeout', $1, false),"
    " set_config('tcp_user_timeout', $1, false), set_config('tcp_keepalives_idle', $3, false),"
    " set_config('tcp_keepalives_interval', $3, false), set_config('tcp_keepalives_count', '3', false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('cursor_tuple_fraction', '1', false), set_config('jit', 'off', false),"
    " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
    " WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)";

/* What may take long is broken off when its client has gone. Servers before 14 cannot, nor can those
 * of other systems. */
static const char leave_with_client[] =
    "SELECT set_config(name, '1000', false) FROM pg_settings"
    " WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'";

static bool set_up(pg_link *link)
{
    pg_begin(link);
    unsigned ms = link->patient ? 0 : link->database->timeout_ms;
    pg_arguments a = {.link = link};
    char text[3][16];
    /* A lock is waited for half as long, so that there is time to try again. */
    (void)snprintf(text[0], sizeof text[0], "%u", ms);
    (void)snprintf(text[1], sizeof text[1], "%u", ms / 2);
    (void)snprintf(text[2], sizeof text[2], "%u", seconds(link->database->timeout_ms));
    for (size_t i = 0; i < 3; i++)
        pg_add_bytes(&a, (store_text){text[i], strlen(text[i])});
    pg_queue_sql(link, settings, &a);
    if (link->patient)
        pg_queue_sql(link, leave_with_client, NULL);
    for (unsigned i = 0; i < PG_STATEMENTS && !link->patient; i++) {
        char name[12];
        (void)snprintf(name, sizeof name, "s%u", i);
        pg_queue_prepare(link, name, pg_sql[i]);
    }
    pg_send(link);
    return pg_end(link);
}

bool pg_connect(pg_link *link, char error[STORE_ERROR_MAX])
{
    link->broken = link->leaving = false;
    link->conn = dial(link->database);
    if (!link->conn || PQstatus(link->conn) != CONNECTION_OK) {
        say_why(link->conn, error);
        PQfinish(link->conn);
        link->conn = NULL;
        return false;
    }
    atomic_fetch_add(&link->database->connections, 1);
    atomic_fetch_add(&link->database->connected, 1);
    (void)PQsetNoticeReceiver(link->conn, take_notice, link);
    if (PQsetnonblocking(link->conn, 1) == 0 && PQenterPipelineMode(link->conn) && set_up(link))
        return true;
    if (link->error.is == PG_NONE)
        say_why(link->conn, error);
    else
        (void)snprintf(error, STORE_ERROR_MAX, "%s", link->error.text);
    pg_disconnect(link);
    return false;
}

void pg_disconnect(pg_link *link)
{
    if (!link->conn)
        return;
    PQfinish(link->conn);
    link->conn = NULL;
    atomic_fetch_sub(&link->database->connections, 1);
}

static bool is_readable(const PGconn *conn)
{
    struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

bool pg_is_alive(pg_link *link)
{
    if (!link->conn || link->broken || PQstatus(link->conn) != CONNECTION_OK)
        return false;
    /* Between two rounds a server has little to say but that it goes. */
    while (is_readable(link->conn)) {
        if (!PQconsumeInput(link->conn) || PQisBusy(link->conn))
            return false;
    }
    return !link->leaving;
}

/* ---- Errors ------------------------------------------------------------------------------------- */

static void lose(pg_link *link, const char *why)
{
    if (!link->broken)
        atomic_fetch_add(&link->database->lost, 1);
    link->broken = true;
    if (link->error.is != PG_NONE)
        return;
    link->error.is = PG_LOST;
    link->error.maybe = link->sent;
    (void)snprintf(link->error.text, sizeof link->error.text, "%s", why);
}

static void lose_connection(pg_link *link)
{
    lose(link, "The connection to PostgreSQL has broken.");
}

void pg_no_memory(pg_link *link)
{
    lose(link, "There is no memory for what is asked of PostgreSQL.");
}

/* An error without a code is libpq's own: the connection has broken. A panic is the server's end, and
 * may come when the transaction is in its log already. */
static void note(pg_link *link, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || (severity && strcmp(severity, "PANIC") == 0)) {
        lose_connection(link);
        return;
    }
    if (link->error.is != PG_NONE)
        return;
    link->error.is = PG_REFUSED;
    (void)snprintf(link->error.state, sizeof link->error.state, "%s", state);
    (void)snprintf(link->error.text, sizeof link->error.text, "%s", text ? text : "");
}

static const struct meaning {
    const char *state; /* SQLSTATE, or how it begins */
    const char *sentence;
} busy[] = {
    {"40001", "Other writers were in the way, several times."},
    {"40P01", "Other writers were in the way, several times."},
    {"55P03", "Another transaction of the database keeps a lock on it."},
    {"57014", "PostgreSQL took longer than the store's time limit allows."},
    {"25P03", "PostgreSQL took longer than the store's time limit allows."},
    {"23505", "Other writers were in the way, several times."},
    {"25006", "PostgreSQL takes no writes at the moment."},
    {"53100", "PostgreSQL's disk is full."},
    {"53300", "PostgreSQL has no connection to spare."},
    {"53", "PostgreSQL is short of memory or other means."},
    {"57P", "PostgreSQL is being stopped, or has just been started."},
    {"08", "The connection to PostgreSQL has broken."},
    {"58030", "PostgreSQL cannot write to its disk."},
};

bool pg_is_transient(const pg_error *error)
{
    /* A taken id that was free a moment before: the next try will see it. */
    return error->is == PG_REFUSED &&
           (strcmp(error->state, "40001") == 0 || strcmp(error->state, "40P01") == 0 ||
            strcmp(error->state, "23505") == 0);
}

void pg_answer(store_op *op, store_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    op->status = status;
    (void)vsnprintf(op->detail, sizeof op->detail, format, args);
    va_end(args);
}

bool pg_drop_late(store_op *op)
{
    if (op->deadline_ms == 0 || clock_ms() < op->deadline_ms)
        return false;
    pg_answer(op, STORE_BUSY, "The store had no time for this within its limit.");
    return true;
}

void pg_answer_error(const pg_link *link, store_op *op)
{
    const pg_error *error = &link->error;
    if (error->is == PG_LOST && error->maybe && op->kind >= STORE_PUT) {
        pg_answer(op, STORE_UNKNOWN,
                  "The connection to PostgreSQL broke while it was writing; whether it was written "
                  "is unknown.");
        return;
    }
    if (error->is == PG_LOST) {
        pg_answer(op, STORE_BUSY, "%s", error->text);
        return;
    }
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++) {
        if (strncmp(error->state, busy[i].state, strlen(busy[i].state)) == 0) {
            pg_answer(op, STORE_BUSY, "%s", busy[i].sentence);
            return;
        }
    }
    log_error("postgresql: %s: %s", error->state, error->text);
    pg_answer(op, STORE_FAILED, "PostgreSQL refused the operation; its log and ours say why.");
}

void pg_pause(pg_link *link, unsigned tries)
{
    atomic_fetch_add(&link->database->repeated, 1);
    /* The clock's nanoseconds are chance enough to part two that collided. */
    long most = 5000000L << (tries < 5 ? tries : 5);
    struct timespec t = {.tv_nsec = (long)(clock_ns() % most)};
    (void)nanosleep(&t, NULL);
}

/* ---- Arguments ------------------------------------------------------------------------------------ */

/* A binary argument is the bytes of a text, a bytea or an array; any other ends in NUL. */
static int add(pg_arguments *a, const char *bytes, size_t size, bool binary)
{
    if (a->count == a->capacity && !a->failed) {
        size_t old = a->capacity, more = old ? old * 2 : ARGUMENTS_FIRST;
        mem_context *memory = a->link->memory;
        const char **values =
            mem_resize(memory, a->values, old * sizeof *values, more * sizeof *values);
        a->values = values ? values : a->values;
        int *sizes = mem_resize(memory, a->sizes, old * sizeof *sizes, more * sizeof *sizes);
        a->sizes = sizes ? sizes : a->sizes;
        int *formats =
            mem_resize(memory, a->formats, old * sizeof *formats, more * sizeof *formats);
        a->formats = formats ? formats : a->formats;
        a->failed = !values || !sizes || !formats;
        a->capacity = more;
    }
    if (size > INT_MAX || a->count >= USHRT_MAX)
        a->failed = true;
    if (a->failed)
        return 1;
    a->values[a->count] = bytes ? bytes : "";
    a->sizes[a->count] = (int)size;
    a->formats[a->count] = binary;
    return (int)++a->count;
}

int pg_add_bytes(pg_arguments *a, store_text bytes)
{
    return add(a, bytes.at, bytes.size, true);
}

int pg_add_literal(pg_arguments *a, store_text literal)
{
    const char *copy = mem_copy_string(a->link->memory, literal.at ? literal.at : "", literal.size);
    a->failed |= !copy;
    return add(a, copy, literal.size, false);
}

int pg_add_integer(pg_arguments *a, int64_t value)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%lld", (long long)value);
    return pg_add_literal(a, (store_text){text, (size_t)length});
}

static char *put_word(char *at, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (char)(word >> shift);
    return at;
}

/* An array as the protocol has it: dimensions, whether there are nulls, the type; length and first
 * index of the one dimension; then each element behind its length. */
#define ARRAY_HEADER 20

static char *begin_array(pg_arguments *a, size_t size, size_t count, uint32_t type)
{
    char *bytes = count <= INT_MAX ? mem_alloc(a->link->memory, size) : NULL;
    if (!bytes) {
        a->failed = true;
        return NULL;
    }
    char *at = put_word(bytes, 1);
    at = put_word(at, 0);
    at = put_word(at, type);
    at = put_word(at, (uint32_t)count);
    put_word(at, 1);
    return bytes;
}

int pg_add_texts(pg_arguments *a, const store_text *texts, size_t count)
{
    size_t size = ARRAY_HEADER;
    for (size_t i = 0; i < count; i++) {
        if (texts[i].size > INT_MAX || __builtin_add_overflow(size, texts[i].size + 4, &size)) {
            a->failed = true;
            return 1;
        }
    }
    char *bytes = begin_array(a, size, count, TEXT_OID);
    if (!bytes)
        return 1;
    char *at = bytes + ARRAY_HEADER;
    for (size_t i = 0; i < count; i++) {
        at = put_word(at, (uint32_t)texts[i].size);
        if (texts[i].size)
            memcpy(at, texts[i].at, texts[i].size);
        at += texts[i].size;
    }
    return add(a, bytes, size, true);
}

/* A revision that the column cannot hold is none that it holds. */
int pg_add_revisions(pg_arguments *a, const uint64_t *values, size_t count)
{
    size_t held = 0, size;
    for (size_t i = 0; i < count; i++)
        held += values[i] <= INT64_MAX;
    if (__builtin_mul_overflow(held, 4 + sizeof *values, &size) ||
        __builtin_add_overflow(size, ARRAY_HEADER, &size)) {
        a->failed = true;
        return 1;
    }
    char *bytes = begin_array(a, size, held, INT8_OID);
    if (!bytes)
        return 1;
    char *at = bytes + ARRAY_HEADER;
    for (size_t i = 0; i < count; i++) {
        if (values[i] > INT64_MAX)
            continue;
        at = put_word(at, sizeof *values);
        at = put_word(at, (uint32_t)(values[i] >> 32));
        at = put_word(at, (uint32_t)values[i]);
    }
    return add(a, bytes, size, true);
}

/* ---- A round --------------------------------------------------------------------------------------- */

void pg_begin(pg_link *link)
{
    link->error = (pg_error){.is = PG_NONE};
    link->sent = false;
    link->deadline_ms = clock_ms() + link->database->timeout_ms + LATE_MS;
}

static const pg_arguments none;

/* Whether a statement can be queued; what libpq then refuses is memory, or the connection. */
static bool may_queue(pg_link *link, const pg_arguments *a)
{
    if (link->broken)
        lose_connection(link);
    else if (a->failed)
        pg_no_memory(link);
    return link->error.is == PG_NONE;
}

void pg_queue(pg_link *link, pg_statement statement, const pg_arguments *a, bool binary)
{
    char name[12];
    (void)snprintf(name, sizeof name, "s%u", (unsigned)statement);
    a = a ? a : &none;
    if (may_queue(link, a) && !PQsendQueryPrepared(link->conn, name, (int)a->count, a->values,
                                                   a->sizes, a->formats, binary))
        lose_connection(link);
}

void pg_queue_sql(pg_link *link, const char *sql, const pg_arguments *a)
{
    a = a ? a : &none;
    if (!sql)
        pg_no_memory(link);
    else if (may_queue(link, a) && !PQsendQueryParams(link->conn, sql, (int)a->count, NULL,
                                                      a->values, a->sizes, a->formats, 0))
        lose_connection(link);
}

void pg_queue_prepare(pg_link *link, const char *name, const char *sql)
{
    if (may_queue(link, &none) && !PQsendPrepare(link->conn, name, sql, 0, NULL))
        lose_connection(link);
}

/* Sends what can be sent. The end of the round leaves last: before, nothing can be written. */
static bool flush(pg_link *link)
{
    int left = PQflush(link->conn);
    if (left == 0)
        link->sent = true;
    return left > 0;
}

void pg_send(pg_link *link)
{
    if (link->error.is == PG_NONE && !PQpipelineSync(link->conn))
        lose_connection(link);
}

/* At the start, signals are blocked until the main thread serves. */
static bool is_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* Waits until a result can be taken without waiting, or something is wrong with the connection, which
 * PQgetResult then says. false: it took too long, or if that is allowed, a signal came. */
static bool await(pg_link *link)
{
    for (;;) {
        bool left = flush(link);
        if (!PQisBusy(link->conn))
            return true;
        int64_t ms = link->patient ? SIGNAL_POLL_MS : link->deadline_ms - clock_ms();
        if (ms <= 0 || (link->patient && is_to_end()))
            return false;
        struct pollfd fd = {.fd = PQsocket(link->conn), .events = left ? POLLIN | POLLOUT : POLLIN};
        if (poll(&fd, 1, ms < INT_MAX ? (int)ms : -1) < 0 && errno != EINTR)
            return true;
        if ((fd.revents & ~POLLOUT) && !PQconsumeInput(link->conn))
            return true;
    }
}

/* libpq's next result; NULL is the end of a statement's, or `link->error`. */
static PGresult *next(pg_link *link)
{
    if (link->broken)
        return NULL;
    if (!await(link)) {
        lose(link, link->patient ? "A signal ended the wait for PostgreSQL."
                                 : "PostgreSQL did not answer in time.");
        return NULL;
    }
    PGresult *result = PQgetResult(link->conn);
    ExecStatusType status = PQresultStatus(result);
    if (result && (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE))
        note(link, result);
    else if (PQstatus(link->conn) != CONNECTION_OK)
        lose_connection(link);
    return result;
}

static bool has_rows(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_SINGLE_TUPLE;
}

PGresult *pg_rows(pg_link *link)
{
    PGresult *result = next(link);
    if (result)
        PQclear(next(link)); /* the end of the statement */
    if (result && has_rows(result))
        return result;
    PQclear(result);
    return NULL;
}

void pg_expect_single(pg_link *link)
{
    if (link->error.is == PG_NONE && !PQsetSingleRowMode(link->conn))
        lose_connection(link);
}

PGresult *pg_row(pg_link *link)
{
    PGresult *result = next(link);
    if (result && PQresultStatus(result) == PGRES_SINGLE_TUPLE)
        return result;
    if (result)
        PQclear(next(link)); /* the end of the statement */
    PQclear(result);
    return NULL;
}

bool pg_end(pg_link *link)
{
    while (!link->broken) {
        PGresult *result = next(link);
        bool over = result && PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        if (over)
            break;
    }
    return link->error.is == PG_NONE;
}

void pg_roll_back(pg_link *link)
{
    if (link->broken || PQtransactionStatus(link->conn) == PQTRANS_IDLE)
        return;
    pg_error before = link->error;
    pg_begin(link);
    pg_queue_sql(link, "ROLLBACK", NULL);
    pg_send(link);
    if (pg_end(link))
        link->error = before;
}

store_text pg_value(const PGresult *rows, int row, int column)
{
    return (store_text){PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column)};
}

uint64_t pg_number(const PGresult *rows, int row, int column)
{
    return strtoull(PQgetvalue(rows, row, column), NULL, 10);
}

/* ---- SQL text ---------------------------------------------------------------------------------------- */

void pg_append(pg_text *t, const char *format, ...)
{
    for (;;) {
        size_t room = t->capacity - t->length;
        va_list args;
        va_start(args, format);
        int length = vsnprintf(t->text ? t->text + t->length : NULL, room, format, args);
        va_end(args);
        if (length < 0 || t->link->broken)
            return;
        if ((size_t)length < room) {
            t->length += (size_t)length;
            return;
        }
        size_t capacity = t->capacity * 2 + (size_t)length + 512;
        char *text = mem_resize(t->link->memory, t->text, t->capacity, capacity);
        if (!text) {
            pg_no_memory(t->link);
            return;
        }
        t->text = text;
        t->capacity = capacity;
    }
}
