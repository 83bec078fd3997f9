/* The schema of a SQLite file: which files are ours, the steps from one version to the next, and the
 * declared indexes. Runs at the start, on one thread. */
#include <stdio.h>
#include <string.h>

#include "sqlite.h"

#define APPLICATION_ID 0x736c6174 /* "slat" */

/* Step n leads from version n to n + 1; all are run on a new file. A step that has been released is
 * never changed: a change is another step.
 *
 * Documents have a rowid and an index by name, not a clustered key: SQLite keeps few rows on a page
 * of an index once they are longer than a quarter of it. The counts of collections are kept by the
 * program: with triggers, each statement would first copy the pages that it changes. */
static const char *const steps[] = {
    "CREATE TABLE document (collection TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,"
    "  modified INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (collection, id));"
    "CREATE TABLE counter (only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL);"
    "INSERT INTO counter VALUES (1, 0);",

    "CREATE TABLE collection (name TEXT NOT NULL PRIMARY KEY, documents INTEGER NOT NULL,"
    "  bytes INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO collection SELECT collection, count(*), sum(length(CAST(json AS BLOB)))"
    "  FROM document GROUP BY collection;"
    "CREATE TABLE idempotency (key TEXT NOT NULL PRIMARY KEY, fingerprint BLOB NOT NULL,"
    "  remembered BLOB NOT NULL, revision INTEGER NOT NULL, expires INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX idempotency_expires ON idempotency (expires);",
};

#define VERSION ((int)(sizeof steps / sizeof *steps))

static bool fail(sqlite3 *db, const sqlite_database *d, char error[STORE_ERROR_MAX])
{
    (void)snprintf(error, STORE_ERROR_MAX, "%s: %s.", d->path, sqlite3_errmsg(db));
    return false;
}

static bool run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* The one integer that `sql` asks for. */
static bool ask(sqlite3 *db, const char *sql, int *ret_answer)
{
    sqlite3_stmt *statement = NULL;
    bool answered = sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
                    sqlite3_step(statement) == SQLITE_ROW;
    if (answered)
        *ret_answer = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return answered;
}

/* ---- The schema -------------------------------------------------------------------------------- */

/* Whether the file is new or ours, and not newer than this program. Writes nothing. */
static bool check_file(sqlite3 *db, const sqlite_database *d, int *ret_version,
                       char error[STORE_ERROR_MAX])
{
    int application, version, tables;
    if (!ask(db, "PRAGMA application_id", &application) ||
        !ask(db, "PRAGMA user_version", &version) ||
        !ask(db, "SELECT count(*) FROM sqlite_master", &tables))
        return fail(db, d, error);
    if (application != APPLICATION_ID && (application != 0 || version != 0 || tables != 0)) {
        (void)snprintf(error, STORE_ERROR_MAX,
                       "%s is a SQLite database of another program; name a file of its own.",
                       d->path);
        return false;
    }
    if (version > VERSION) {
        (void)snprintf(error, STORE_ERROR_MAX,
                       "%s has version %d of the schema, but this program knows 1 to %d: it was "
                       "written by a newer one.",
                       d->path, version, VERSION);
        return false;
    }
    *ret_version = version;
    return true;
}

/* In a transaction, so that two programs that start together do it once. */
static bool migrate(sqlite3 *db, const sqlite_database *d, char error[STORE_ERROR_MAX])
{
    char done[80];
    int version;
    if (!check_file(db, d, &version, error))
        return false;
    for (; version < VERSION; version++) {
        if (!run(db, steps[version]))
            return fail(db, d, error);
    }
    (void)snprintf(done, sizeof done, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                   APPLICATION_ID, VERSION);
    return run(db, done) || fail(db, d, error);
}

/* ---- Declared indexes ---------------------------------------------------------------------------- */

/* `text` with each `quote` twice, between quotes. */
static const char *quote(mem_context *ctx, const char *text, size_t size, char quote_with)
{
    char *quoted = mem_alloc(ctx, 2 * size + 3), *at = quoted;
    if (!quoted)
        return NULL;
    *at++ = quote_with;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == quote_with)
            *at++ = quote_with;
        *at++ = text[i];
    }
    *at++ = quote_with;
    *at = '\0';
    return quoted;
}

/* The SQL of one. false: no memory. */
static bool write_index(sqlite_database *d, const store_index *declared, sqlite_index *ret_index)
{
    mem_context *ctx = d->memory;
    store_text text = declared->declared, collection = declared->collection;
    const char *pointer = collection.at + collection.size + 1;
    size_t name_size;
    char *name = mem_printf(ctx, &name_size, "by %.*s", (int)text.size, text.at);
    const char *only = quote(ctx, collection.at, collection.size, '\'');
    const char *path = quote(ctx, pointer, text.size - collection.size - 1, '\'');
    if (!name || !only || !path)
        return false;
    ret_index->declared = declared;
    ret_index->name = quote(ctx, name, name_size, '"');
    ret_index->key = mem_printf(ctx, NULL, "slate_key(json, %s)", path);
    ret_index->only_for = mem_printf(ctx, NULL, "collection = %s", only);
    return ret_index->name && ret_index->key && ret_index->only_for;
}

bool sqlite_read_indexes(sqlite_database *d, const char *list, char error[STORE_ERROR_MAX])
{
    store_index *declared;
    size_t count;
    if (!store_read_indexes(d->memory, list, &declared, &count, error))
        return false;
    d->indexes = mem_alloc_array(d->memory, count, sizeof *d->indexes);
    for (; d->indexes && d->index_count < count; d->index_count++) {
        if (!write_index(d, &declared[d->index_count], &d->indexes[d->index_count]))
            break;
    }
    if (d->index_count == count && d->indexes)
        return true;
    (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for the declared indexes.");
    return false;
}

static bool is_declared(const sqlite_database *d, const char *quoted_name)
{
    for (size_t i = 0; i < d->index_count; i++) {
        if (strcmp(d->indexes[i].name, quoted_name) == 0)
            return true;
    }
    return false;
}

/* The statements that drop the indexes which are declared no longer; NULL: no memory. */
static const char *list_drops(sqlite3 *db, const sqlite_database *d)
{
    sqlite3_stmt *statement = NULL;
    const char *drops = "";
    if (sqlite3_prepare_v2(db,
                           "SELECT '\"' || replace(name, '\"', '\"\"') || '\"' FROM sqlite_master"
                           " WHERE type = 'index' AND name GLOB 'by *'",
                           -1, &statement, NULL) != SQLITE_OK)
        return NULL;
    while (drops && sqlite3_step(statement) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        if (name && !is_declared(d, name))
            drops = mem_printf(d->memory, NULL, "%sDROP INDEX %s;", drops, name);
    }
    return sqlite3_finalize(statement) == SQLITE_OK ? drops : NULL;
}

static bool make_indexes(sqlite3 *db, const sqlite_database *d, char error[STORE_ERROR_MAX])
{
    const char *drops = list_drops(db, d);
    if (!drops || !run(db, drops))
        return fail(db, d, error);
    for (size_t i = 0; i < d->index_count; i++) {
        const sqlite_index *index = &d->indexes[i];
        const char *sql = mem_printf(d->memory, NULL,
                                     "CREATE INDEX IF NOT EXISTS %s ON document (%s, id) WHERE %s",
                                     index->name, index->key, index->only_for);
        if (!sql || !run(db, sql))
            return fail(db, d, error);
    }
    return true;
}

/* SQLite says which mode it is in then: a database in memory has none, a file must have this one. */
static bool use_wal(sqlite3 *db, const sqlite_database *d, char error[STORE_ERROR_MAX])
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA journal_mode = WAL", -1, &statement, NULL);
    if (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        const char *mode = (const char *)sqlite3_column_text(statement, 0);
        bool good = mode && (strcmp(mode, "wal") == 0 || strcmp(mode, "memory") == 0);
        sqlite3_finalize(statement);
        if (!good)
            (void)snprintf(error, STORE_ERROR_MAX,
                           "%s is where SQLite cannot keep a write-ahead log; name a file on a "
                           "local disk.",
                           d->path);
        return good;
    }
    fail(db, d, error);
    sqlite3_finalize(statement);
    return false;
}

bool sqlite_make_schema(sqlite3 *db, const sqlite_database *d, char error[STORE_ERROR_MAX])
{
    int version;
    if (!check_file(db, d, &version, error)) /* before anything is written to it */
        return false;
    if (!use_wal(db, d, error))
        return false;
    if (!run(db, "BEGIN IMMEDIATE"))
        return fail(db, d, error);
    if (!migrate(db, d, error) || !make_indexes(db, d, error)) {
        (void)run(db, "ROLLBACK"); /* closing the connection would do it too */
        return false;
    }
    return run(db, "COMMIT") || fail(db, d, error);
}
