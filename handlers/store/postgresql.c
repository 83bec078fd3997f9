/* The PostgreSQL backend: opening and closing, and the table of its functions. Any number of processes
 * on any number of machines use one database; nothing is kept here but connections. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../server/clock.h"
#include "../../server/log.h"
#include "postgresql.h"

#define SCHEME "postgresql"
#define FORGET_MS 60000

static void end_link(pg_link *link)
{
    pg_disconnect(link);
    mem_delete(link->memory);
    link->memory = NULL;
}

/* ---- The database ---------------------------------------------------------------------------------- */

static void close_database(void *arg)
{
    pg_database *database = arg;
    mem_delete(database->memory);
}

/* libpq's own words for a bad address would show a part of it, perhaps of a password. */
static bool is_address(const char *uri)
{
    PQconninfoOption *parts = PQconninfoParse(uri, NULL);
    bool read = parts;
    PQconninfoFree(parts);
    return read && strstr(uri, "://");
}

static bool prepare(pg_database *database, const char *indexes, char error[STORE_ERROR_MAX])
{
    pg_link link = {.database = database, .patient = true};
    link.memory = mem_heap_create(NULL, "postgresql schema");
    if (!link.memory) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for the database.");
        return false;
    }
    bool done = pg_connect(&link, error) && pg_migrate(&link, indexes, error);
    end_link(&link);
    return done;
}

static void *open_database(const store_settings *settings, char error[STORE_ERROR_MAX])
{
    if (!PQisthreadsafe() || !is_address(settings->uri)) {
        (void)snprintf(error, STORE_ERROR_MAX,
                       "The address of a PostgreSQL database is postgresql://USER@HOST:PORT/NAME, "
                       "with a password behind USER: if need be.");
        return NULL;
    }
    mem_context *memory = mem_heap_create(NULL, "store database");
    pg_database *database = memory ? mem_alloc_array(memory, 1, sizeof *database) : NULL;
    const char *uri = memory ? mem_copy_string(memory, settings->uri, strlen(settings->uri)) : NULL;
    if (!database || !uri) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for the database.");
        mem_delete(memory);
        return NULL;
    }
    database->memory = memory;
    database->uri = uri;
    database->timeout_ms = settings->timeout_ms;
    if (!prepare(database, settings->indexes, error)) {
        close_database(database);
        return NULL;
    }
    return database;
}

static void figures(void *arg, slate_emit_figure *emit, void *emit_arg)
{
    pg_database *database = arg;
    emit(emit_arg, "connections", "Connections to PostgreSQL.", false,
         (double)atomic_load(&database->connections));
    emit(emit_arg, "connected", "Connections that were opened.", true,
         (double)atomic_load(&database->connected));
    emit(emit_arg, "lost", "Connections that broke, or were too slow.", true,
         (double)atomic_load(&database->lost));
    emit(emit_arg, "repeated", "Transactions tried again, others being in the way.", true,
         (double)atomic_load(&database->repeated));
}

/* ---- Sessions ---------------------------------------------------------------------------------------- */

/* What libpq says names machines and users: for the log, not for clients. It is said once for all
 * sessions until one can be opened. */
static bool connect_session(pg_link *link, char error[STORE_ERROR_MAX])
{
    char why[STORE_ERROR_MAX];
    bool connected = pg_connect(link, why);
    if (!connected && !atomic_exchange(&link->database->told, true))
        log_warning("postgresql: %s", why);
    if (connected)
        atomic_store(&link->database->told, false);
    else
        (void)snprintf(error, STORE_ERROR_MAX, "PostgreSQL cannot be reached at the moment.");
    return connected;
}

static void session_close(void *session)
{
    pg_link *link = session;
    end_link(link);
    mem_delete(link->own);
}

static void *session_open(void *arg, bool writes, char error[STORE_ERROR_MAX])
{
    (void)writes;
    mem_context *own = mem_heap_create(NULL, "postgresql session");
    pg_link *link = own ? mem_alloc_array(own, 1, sizeof *link) : NULL;
    if (!link) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for a connection.");
        mem_delete(own);
        return NULL;
    }
    link->own = own;
    link->database = arg;
    link->memory = mem_heap_create(NULL, "postgresql operation");
    if (link->memory && connect_session(link, error))
        return link;
    session_close(link);
    return NULL;
}

/* A connection that broke while nothing was asked has harmed nobody yet: another one is opened before
 * anybody is harmed. */
static bool be_connected(pg_link *link, store_op *const ops[], size_t count)
{
    char error[STORE_ERROR_MAX];
    if (pg_is_alive(link))
        return true;
    pg_disconnect(link);
    if (connect_session(link, error))
        return true;
    for (size_t i = 0; i < count; i++)
        pg_answer(ops[i], STORE_BUSY, "%s", error);
    return false;
}

/* Leaves those out whose time is over by now, perhaps because a connection was opened first. */
static size_t in_time(store_op *const ops[], size_t count, store_op *ret_ops[PG_BATCH])
{
    size_t left = 0;
    assert(count <= PG_BATCH);
    for (size_t i = 0; i < count; i++) {
        if (!pg_drop_late(ops[i]))
            ret_ops[left++] = ops[i];
    }
    return left;
}

static void read_batch(void *session, store_op *const ops[], size_t count)
{
    store_op *left[PG_BATCH];
    if (be_connected(session, ops, count))
        pg_read(session, left, in_time(ops, count, left));
}

static void write_batch(void *session, store_op *const ops[], size_t count)
{
    store_op *left[PG_BATCH];
    if (be_connected(session, ops, count))
        pg_write(session, left, in_time(ops, count, left));
}

/* One process of those that use the database finds old answers first; it is all the same which. */
static void tidy(void *session)
{
    pg_link *link = session;
    int64_t now = clock_ms();
    if (now - link->forgot_ms < FORGET_MS || !pg_is_alive(link))
        return;
    pg_begin(link);
    pg_queue(link, PG_FORGET, NULL, false);
    pg_send(link);
    PGresult *rows = pg_rows(link);
    bool more = rows && strtoull(PQcmdTuples(rows), NULL, 10) >= PG_FORGET_MAX;
    PQclear(rows);
    bool done = pg_end(link);
    if (!done || !more) /* else again after the next batch: more may come than go in a turn */
        link->forgot_ms = now;
}

static bool session_alive(void *session)
{
    return pg_is_alive(session);
}

const store_backend store_postgresql = {
    .scheme = SCHEME,
    .writers = 8,
    .batch = PG_BATCH,
    .open = open_database,
    .close = close_database,
    .session_open = session_open,
    .session_close = session_close,
    .read = read_batch,
    .write = write_batch,
    .tidy = tidy,
    .session_alive = session_alive,
    .figures = figures,
};
