/* The schema in PostgreSQL: steps from one version to the next, and the declared indexes. Runs at the
 * start, on a connection without time limits, but which heeds signals. An advisory lock lets one process at a time do it,
 * however many start together; what it finds done, it leaves. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../../server/clock.h"
#include "../../server/log.h"
#include "indexes.h"
#include "postgresql.h"
#include "store_value.h"

#define OLDEST_SERVER 130000 /* sorts on from what an index has sorted */
/* Of the advisory lock: "slate" in ASCII. Every slate of a database takes the same one. */
#define LOCK "495857235045"
#define LOCK_POLL_MS 100
/* So many times --db-timeout another process is waited for: by default a minute. */
#define LOCK_LIMITS 12
#define NAME_MAX_BYTES 40

/* jsonb takes no U+0000. Of a text that may have one, U+0001 becomes U+0001 U+0002, and U+0000 becomes
 * U+0001 U+0001: an escape is one if an even number of backslashes stands before it. */
#define ESCAPE(text, digit, replacement)                                                     \
    "regexp_replace(" text ", '(?<!\\\\)((?:\\\\\\\\)*)\\\\u000" digit "', '\\1" replacement \
    "', 'g')"
#define WITHOUT_NUL(text) ESCAPE(ESCAPE(text, "1", "\\\\u0001\\\\u0002"), "0", "\\\\u0001\\\\u0001")

/* Step n leads from version n to n + 1. A step that has been released is never changed: a change is
 * another step. Statements of one step are one transaction. */
static const char *const first_step[] = {
    "CREATE TABLE slate_schema (single boolean PRIMARY KEY DEFAULT true CHECK (single),"
    " version integer NOT NULL)",
    "INSERT INTO slate_schema (version) VALUES (0)",
    "CREATE SEQUENCE slate_revision",
    /* The text is the document; the value is what it says, for filters and sorting. */
    "CREATE TABLE slate_documents ("
    "collection text COLLATE \"C\" NOT NULL, id text COLLATE \"C\" NOT NULL,"
    " revision bigint NOT NULL, made bigint NOT NULL, modified bigint NOT NULL, body text NOT NULL,"
    " value jsonb NOT NULL GENERATED ALWAYS AS (CASE WHEN strpos(body, '\\u000') > 0"
    " THEN " WITHOUT_NUL("body") " ELSE body END::jsonb) STORED,"
                                 " PRIMARY KEY (collection, id))",
    "CREATE TABLE slate_answers (key text COLLATE \"C\" PRIMARY KEY, fingerprint bytea NOT NULL,"
    " revision bigint NOT NULL, answer bytea NOT NULL, since timestamptz NOT NULL DEFAULT now())",
    "CREATE INDEX slate_answers_since ON slate_answers (since)",
    /* What values are compared by. SQL of one expression each, so that it is inlined: a value is not
     * worth a call. */
    "CREATE FUNCTION slate_kind(jsonb) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS"
    " $$SELECT CASE jsonb_typeof($1) WHEN 'number' THEN 3 WHEN 'string' THEN 4"
    " WHEN 'boolean' THEN CASE WHEN $1::boolean THEN 2 ELSE 1 END"
    " WHEN 'array' THEN 5 WHEN 'object' THEN 5 ELSE 0 END::smallint$$",
    "CREATE FUNCTION slate_number(jsonb) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS"
    " $$SELECT CASE jsonb_typeof($1) WHEN 'number' THEN $1::numeric ELSE 0 END$$",
    "CREATE FUNCTION slate_head(jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS"
    " $$SELECT CASE WHEN jsonb_typeof($1) IN ('string', 'array', 'object')"
    " THEN left($1 #>> '{}', 256) ELSE '' END$$",
    NULL,
};
static_assert(STORE_SORT_MAX == 256, "as slate_head says; a change is a step of the schema");

static const char *const *const steps[] = {first_step};
#define VERSION ((uint64_t)(sizeof steps / sizeof *steps))

/* The server's sentences have no full stop, ours do. */
static bool say(const pg_link *link, char error[STORE_ERROR_MAX])
{
    size_t length = strnlen(link->error.text, 180);
    bool stopped = length > 0 && link->error.text[length - 1] == '.';
    (void)snprintf(error, STORE_ERROR_MAX, "PostgreSQL: %.*s%s", (int)length, link->error.text,
                   stopped ? "" : ".");
    return false;
}

/* ---- Asking ------------------------------------------------------------------------------------- */

static bool run(pg_link *link, const char *sql)
{
    pg_begin(link);
    pg_queue_sql(link, sql, NULL);
    pg_send(link);
    return pg_end(link);
}

/* The one number that `sql` asks for; "t" is 1. `name` is $1, if not NULL. */
static bool ask(pg_link *link, const char *sql, const char *name, uint64_t *ret_answer)
{
    pg_arguments a = {.link = link};
    if (name)
        pg_add_bytes(&a, (store_text){name, strlen(name)});
    pg_begin(link);
    pg_queue_sql(link, sql, &a);
    pg_send(link);
    PGresult *rows = pg_rows(link);
    if (rows && PQntuples(rows) > 0)
        *ret_answer = PQgetvalue(rows, 0, 0)[0] == 't' ? 1 : pg_number(rows, 0, 0);
    PQclear(rows);
    return pg_end(link);
}

/* ---- One process at a time ------------------------------------------------------------------------ */

/* Asks again and again: one that waited inside a statement would be waited for by the making of an
 * index. */
static bool lock(pg_link *link, char error[STORE_ERROR_MAX])
{
    const struct timespec pause = {.tv_nsec = LOCK_POLL_MS * 1000000L};
    int64_t limit_ms = (int64_t)link->database->timeout_ms * LOCK_LIMITS;
    int64_t end_ms = clock_ms() + limit_ms;
    uint64_t locked = 0;
    for (unsigned tries = 0; clock_ms() < end_ms; tries++) {
        if (!ask(link, "SELECT pg_try_advisory_lock(" LOCK ")", NULL, &locked))
            return say(link, error);
        if (locked)
            return true;
        if (tries == 10)
            log_info("store: waiting for another process, which prepares the database");
        (void)nanosleep(&pause, NULL);
    }
    (void)snprintf(error, STORE_ERROR_MAX,
                   "PostgreSQL: another process has been preparing the database for %lld ms, which "
                   "is %d times --db-timeout; start again once it is done.",
                   (long long)limit_ms, LOCK_LIMITS);
    return false;
}

/* ---- Versions ---------------------------------------------------------------------------------------- */

static bool take_step(pg_link *link, uint64_t version)
{
    pg_arguments a = {.link = link};
    pg_begin(link);
    for (const char *const *sql = steps[version]; *sql; sql++)
        pg_queue_sql(link, *sql, NULL);
    pg_add_integer(&a, (int64_t)version + 1);
    pg_queue_sql(link, "UPDATE slate_schema SET version = $1::integer", &a);
    pg_send(link);
    return pg_end(link);
}

static bool migrate(pg_link *link, char error[STORE_ERROR_MAX])
{
    uint64_t version = 0, there = 0;
    if (!ask(link, "SELECT to_regclass('slate_schema') IS NOT NULL", NULL, &there) ||
        (there && !ask(link, "SELECT version FROM slate_schema", NULL, &version)))
        return say(link, error);
    if (version > VERSION) {
        (void)snprintf(error, STORE_ERROR_MAX,
                       "PostgreSQL: the database has version %llu of the schema, but this program "
                       "knows 1 to %llu: it was made by a newer one.",
                       (unsigned long long)version, (unsigned long long)VERSION);
        return false;
    }
    for (; version < VERSION; version++) {
        if (!take_step(link, version))
            return say(link, error);
    }
    return true;
}

static bool check_server(pg_link *link, char error[STORE_ERROR_MAX])
{
    uint64_t unicode = 0;
    if (PQserverVersion(link->conn) < OLDEST_SERVER) {
        (void)snprintf(error, STORE_ERROR_MAX, "PostgreSQL: version %d or a later one is needed.",
                       OLDEST_SERVER / 10000);
        return false;
    }
    if (!ask(link, "SELECT current_setting('server_encoding') = 'UTF8'", NULL, &unicode))
        return say(link, error);
    if (!unicode)
        (void)snprintf(error, STORE_ERROR_MAX,
                       "PostgreSQL: the database must have been created with ENCODING 'UTF8'.");
    return unicode;
}

/* ---- Declared indexes --------------------------------------------------------------------------------- */

/* The same declaration has the same name in every process, and another one another. */
static void name_index(const store_index *index, char name[NAME_MAX_BYTES])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < index->declared.size; i++)
        hash = (hash ^ (unsigned char)index->declared.at[i]) * UINT64_C(0x100000001b3);
    (void)snprintf(name, NAME_MAX_BYTES, "slate_by_%016llx", (unsigned long long)hash);
}

/* The declaration is the operator's, not a client's, and an index takes no arguments: it is quoted by
 * libpq. */
static void append_literal(pg_text *t, store_text text)
{
    char *literal = PQescapeLiteral(t->link->conn, text.at ? text.at : "", text.size);
    if (literal)
        pg_append(t, "%s", literal);
    else
        pg_no_memory(t->link);
    PQfreemem(literal);
}

/* The expressions are those of postgresql_query.c, with constants in the place of arguments. */
static const char *index_sql(pg_link *link, const store_index *index, const char *name)
{
    pg_text x = {.link = link}, sql = {.link = link};
    pg_append(&x, "(value");
    for (size_t i = 0; i < index->path.count; i++) {
        bool element = store_is_element(index->path.token[i], NULL);
        pg_append(&x, element ? " #> ARRAY[" : " -> ");
        append_literal(&x, index->path.token[i]);
        pg_append(&x, element ? "::text]" : "::text");
    }
    pg_append(&x, ")");
    const char *value = x.text ? x.text : "";
    pg_append(&sql,
              "CREATE INDEX CONCURRENTLY %s ON slate_documents (slate_kind(%s), slate_number(%s),"
              " (slate_head(%s) COLLATE \"C\"), id) WHERE collection = ",
              name, value, value, value);
    append_literal(&sql, index->collection);
    return sql.text;
}

/* Made while others write. One whose making was broken off is there, but of no use. */
static bool make_index(pg_link *link, const store_index *index)
{
    char name[NAME_MAX_BYTES], drop[NAME_MAX_BYTES + 40];
    uint64_t there = 0, valid = 0;
    name_index(index, name);
    if (!ask(link, "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass($1)", name,
             &there) ||
        !ask(link,
             "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid",
             name, &valid))
        return false;
    if (valid)
        return true;
    (void)snprintf(drop, sizeof drop, "DROP INDEX CONCURRENTLY %s", name);
    if (there && !run(link, drop))
        return false;
    log_info("store: making the index %.*s", (int)index->declared.size, index->declared.at);
    pg_begin(link);
    pg_queue_sql(link, index_sql(link, index, name), NULL);
    pg_send(link);
    return pg_end(link);
}

static bool make_indexes(pg_link *link, const char *list, char error[STORE_ERROR_MAX])
{
    store_index *indexes;
    size_t count;
    if (!store_read_indexes(link->memory, list, &indexes, &count, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!make_index(link, &indexes[i]))
            return say(link, error);
    }
    /* What an index knows of its expressions comes from this. */
    return count == 0 || run(link, "ANALYZE slate_documents") || say(link, error);
}

bool pg_migrate(pg_link *link, const char *indexes, char error[STORE_ERROR_MAX])
{
    if (!check_server(link, error) || !lock(link, error))
        return false;
    /* The lock ends with the connection. */
    bool done = migrate(link, error) && make_indexes(link, indexes, error);
    mem_reset(link->memory);
    return done;
}
