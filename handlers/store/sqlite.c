/* The SQLite backend: sessions, and what they read and write. A file is in WAL mode and every commit
 * is on the disk before it is answered (synchronous = FULL); one thread writes, and readers see the
 * last commit. A database in memory is one connection, because connections that share one in memory
 * lock tables against each other; threads take turns with it. */
#include "sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../server/clock.h"
#include "../../server/log.h"

#define SCHEME "sqlite"
#define IN_MEMORY ":memory:"

#define CACHE_KIB 2048                /* of pages, of a session that reads */
#define WRITER_CACHE_KIB 16384        /* … that writes: it reads pages in order to change them */
#define HEAP_BYTES (64 * 1024 * 1024) /* of all sessions: beyond it, caches give pages back */
#define MMAP_BYTES (128 * 1024 * 1024)
#define STATEMENTS_PER_LOOK \
    4000                  /* instructions of SQLite's machine between two looks at the clock */
#define OPEN_WAIT_MS 5000 /* for a lock of another program, at the start */
#define TIDY_WAIT_MS 100
/* After so many pages more, the log is copied into the file; when it has so many, even readers are
 * waited for, since otherwise they could keep it from ever beginning anew. */
#define WAL_PAGES 4000
#define WAL_PAGES_MANY 16000
#define KEY_SECONDS (24 * 60 * 60) /* an idempotency key is remembered for so long */
#define EXPIRE_EVERY_MS 60000
#define EXPIRE_MAX 1000 /* keys at once: writing waits for it */

static const char *const statements[SQL_STATEMENTS] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_BEGIN_WRITING] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_SAVEPOINT] = "SAVEPOINT one",
    [SQL_RELEASE] = "RELEASE one",
    [SQL_ROLLBACK_TO] = "ROLLBACK TO one",
    [SQL_GET] = "SELECT revision, modified, json FROM document WHERE collection = ? AND id = ?",
    [SQL_FIND] = "SELECT rowid, revision, json FROM document WHERE collection = ? AND id = ?",
    [SQL_INSERT] = "INSERT INTO document (collection, id, revision, modified, json)"
                   " VALUES (?, ?, ?, ?, ?)",
    [SQL_REPLACE] = "UPDATE document SET revision = ?, modified = ?, json = ? WHERE rowid = ?",
    [SQL_DELETE] = "DELETE FROM document WHERE rowid = ?",
    [SQL_CLEAR] = "DELETE FROM document WHERE collection = ?",
    [SQL_COLLECTIONS] = "SELECT name, documents, bytes FROM collection ORDER BY name",
    [SQL_COUNT] = "SELECT documents FROM collection WHERE name = ?",
    [SQL_ADD_TO_COUNT] = "INSERT INTO collection VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                         " SET documents = documents + excluded.documents,"
                         " bytes = bytes + excluded.bytes",
    [SQL_DROP_COUNT] = "DELETE FROM collection WHERE name = ?",
    [SQL_DROP_EMPTY] = "DELETE FROM collection WHERE name = ? AND documents = 0",
    [SQL_LAST_REVISION] = "SELECT revision FROM counter",
    [SQL_SET_REVISION] = "UPDATE counter SET revision = ?",
    [SQL_FIND_KEY] = "SELECT fingerprint, remembered, revision FROM idempotency"
                     " WHERE key = ? AND expires > ?",
    [SQL_KEEP_KEY] = "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?)",
    [SQL_EXPIRE_KEYS] = "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency"
                        " WHERE expires <= ? ORDER BY expires LIMIT ?)",
};

/* ---- Statements ---------------------------------------------------------------------------------- */

sqlite3_stmt *sqlite_prepared(sqlite_session *session, sqlite_statement which)
{
    if (!session->fixed[which])
        (void)sqlite3_prepare_v3(session->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                                 &session->fixed[which], NULL);
    return session->fixed[which];
}

/* Steps one that returns no rows, and lets go of what is bound. */
static int finish(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int no_statement(sqlite_session *session)
{
    int rc = sqlite3_extended_errcode(session->db);
    return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
}

int sqlite_run(sqlite_session *session, sqlite_statement which)
{
    sqlite3_stmt *statement = sqlite_prepared(session, which);
    return statement ? finish(statement) : no_statement(session);
}

int sqlite_begin(sqlite_session *session, sqlite_statement which)
{
    if (!sqlite_prepared(session, SQL_COMMIT) || !sqlite_prepared(session, SQL_ROLLBACK))
        return no_statement(session);
    return sqlite_run(session, which);
}

bool sqlite_bind_text(sqlite3_stmt *statement, int at, store_text text)
{
    return sqlite3_bind_text64(statement, at, text.size ? text.at : "", text.size, SQLITE_STATIC,
                               SQLITE_UTF8) == SQLITE_OK;
}

static bool bind_bytes(sqlite3_stmt *statement, int at, store_text bytes)
{
    return sqlite3_bind_blob64(statement, at, bytes.size ? bytes.at : "", bytes.size,
                               SQLITE_STATIC) == SQLITE_OK;
}

static bool bind_integer(sqlite3_stmt *statement, int at, int64_t n)
{
    return sqlite3_bind_int64(statement, at, n) == SQLITE_OK;
}

/* Copies a column into the operation's memory. false: no memory. */
static bool copy_column(store_op *op, sqlite3_stmt *statement, int column, store_text *ret_text)
{
    const void *bytes = sqlite3_column_blob(statement, column);
    size_t size = (size_t)sqlite3_column_bytes(statement, column);
    if (size > 0)
        *ret_text = store_op_copy(op, bytes, size);
    return size == 0 || ret_text->at;
}

/* ---- Failing --------------------------------------------------------------------------------------- */

/* What SQLite's code means to the one who asked. */
static store_status explain(int rc, const char **ret_sentence)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        *ret_sentence = "The database is locked by another program.";
        return STORE_BUSY;
    case SQLITE_INTERRUPT:
        *ret_sentence = "Reading took longer than the store's time limit.";
        return STORE_BUSY;
    case SQLITE_FULL:
        *ret_sentence = "There is no space left for the database.";
        return STORE_BUSY;
    case SQLITE_NOMEM:
        *ret_sentence = "There is no memory left for the store.";
        return STORE_BUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        *ret_sentence = "The database may not be written to.";
        return STORE_BUSY;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        *ret_sentence = "The database's file cannot be read or written.";
        return STORE_BUSY;
    case SQLITE_TOOBIG:
        *ret_sentence = "This is longer than SQLite can hold.";
        return STORE_FAILED;
    default:
        *ret_sentence = "The database failed; the log says how.";
        return STORE_FAILED;
    }
}

/* Judges a failure: whether the session is of use after it, and whether it is news. */
static void note_failure(sqlite_session *session, int rc)
{
    int kind = rc & 0xff;
    session->broken |= kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_CORRUPT ||
                       kind == SQLITE_NOTADB || kind == SQLITE_PROTOCOL;
    if (kind == SQLITE_BUSY || kind == SQLITE_INTERRUPT || session->ailing)
        return;
    session->ailing = true;
    log_error("store: %s: %s (SQLite's code %d, %s)", session->database->path,
              sqlite3_errmsg(session->db), rc, sqlite3_errstr(rc));
}

static void answer_failure(store_op *op, store_status status, const char *sentence)
{
    op->status = status;
    (void)snprintf(op->detail, sizeof op->detail, "%s", sentence);
}

/* ---- Reading --------------------------------------------------------------------------------------- */

static int get(sqlite_session *session, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_GET);
    if (!statement)
        return no_statement(session);
    if (!sqlite_bind_text(statement, 1, op->collection) || !sqlite_bind_text(statement, 2, op->id))
        return SQLITE_NOMEM;
    int rc = sqlite3_step(statement);
    op->status = STORE_NOT_FOUND;
    if (rc == SQLITE_ROW) {
        op->status = STORE_OK;
        op->revision = (uint64_t)sqlite3_column_int64(statement, 0);
        op->modified = sqlite3_column_int64(statement, 1);
        rc = copy_column(op, statement, 2, &op->bytes) ? SQLITE_DONE : SQLITE_NOMEM;
    }
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int list_collections(sqlite_session *session, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_COLLECTIONS);
    if (!statement)
        return no_statement(session);
    json_writer w;
    json_writer_init(&w, op->memory, 256, 2, false);
    json_write_begin_array(&w);
    int rc;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = sqlite3_column_blob(statement, 0);
        json_write_begin_object(&w);
        json_write_literal_key(&w, "name");
        json_write_string(&w, name, (size_t)sqlite3_column_bytes(statement, 0));
        json_write_literal_key(&w, "documents");
        json_write_integer(&w, sqlite3_column_int64(statement, 1));
        json_write_literal_key(&w, "bytes");
        json_write_integer(&w, sqlite3_column_int64(statement, 2));
        json_write_end_object(&w);
    }
    json_write_end_array(&w);
    (void)sqlite3_reset(statement);
    op->status = STORE_OK;
    op->bytes = (store_text){w.text, w.length};
    if (rc != SQLITE_DONE)
        return rc;
    return w.failed ? SQLITE_NOMEM : SQLITE_OK;
}

/* In memory, all threads have the same session. */
static void take_turn(sqlite_session *session)
{
    if (session->database->shared)
        pthread_mutex_lock(&session->database->turn);
}

static void end_turn(sqlite_session *session)
{
    if (session->database->shared)
        pthread_mutex_unlock(&session->database->turn);
}

static void read_one(sqlite_session *session, store_op *op)
{
    session->deadline_ms = op->deadline_ms;
    session->reading = true;
    int rc = op->kind == STORE_GET    ? get(session, op)
             : op->kind == STORE_LIST ? sqlite_list(session, op)
                                      : list_collections(session, op);
    session->reading = false;
    if (rc == SQLITE_OK) {
        session->ailing = false;
    } else {
        const char *sentence;
        store_status status = explain(rc, &sentence);
        note_failure(session, rc);
        answer_failure(op, status, sentence);
    }
}

/* Ends a transaction that is still open; if that fails too, the session is given up. */
static void roll_back(sqlite_session *session)
{
    if (!sqlite3_get_autocommit(session->db))
        (void)sqlite_run(session, SQL_ROLLBACK);
    session->broken |= !sqlite3_get_autocommit(session->db);
}

/* Several GETs share a transaction, which costs about as much as a GET. If it cannot be begun, each
 * has its own. */
static void read_batch(void *arg, store_op *const ops[], size_t count)
{
    sqlite_session *session = arg;
    take_turn(session);
    bool shared = count > 1 && sqlite_begin(session, SQL_BEGIN) == SQLITE_OK;
    for (size_t i = 0; i < count; i++)
        read_one(session, ops[i]);
    if (shared && sqlite_run(session, SQL_COMMIT) != SQLITE_OK)
        roll_back(session);
    end_turn(session);
}

/* ---- Writing: one operation ------------------------------------------------------------------------ */

#define CHANGES_MAX 16

/* What a batch has changed in the count of a collection so far: written at its end, or to make room
 * for another. */
struct change {
    store_text collection;
    int64_t documents, bytes;
};

/* A batch while it is written. */
struct batch {
    sqlite_session *session;
    int64_t now;       /* seconds since 1970 */
    uint64_t revision; /* the last that was given */
    struct change changes[CHANGES_MAX];
    size_t change_count;
};

static struct change *find_change(struct batch *batch, store_text collection)
{
    for (size_t i = 0; i < batch->change_count; i++) {
        if (store_same_text(batch->changes[i].collection, collection))
            return &batch->changes[i];
    }
    return NULL;
}

static bool holds(const store_condition *condition, bool found, uint64_t revision)
{
    bool listed = false;
    for (size_t i = 0; found && i < condition->count; i++)
        listed |= condition->revisions[i] == revision;
    switch (condition->is) {
    case STORE_PRESENT:
        return found;
    case STORE_ABSENT:
        return !found;
    case STORE_ONE_OF:
        return listed;
    case STORE_NONE_OF:
        return !listed;
    default:
        return true;
    }
}

/* A document that is stored. `row` 0: there is none. */
struct found {
    int64_t row, bytes;
};

/* Finds the document of a PUT or DELETE and checks the condition. */
static int find(struct batch *batch, store_op *op, struct found *ret_found)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_FIND);
    if (!statement)
        return no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->collection) || !sqlite_bind_text(statement, 2, op->id))
        return SQLITE_NOMEM;
    int rc = sqlite3_step(statement);
    *ret_found = (struct found){0};
    op->revision = 0;
    if (rc == SQLITE_ROW) {
        ret_found->row = sqlite3_column_int64(statement, 0);
        ret_found->bytes = sqlite3_column_bytes(statement, 2);
        op->revision = (uint64_t)sqlite3_column_int64(statement, 1);
    }
    op->status = STORE_OK;
    if (!holds(&op->condition, rc == SQLITE_ROW, op->revision))
        op->status = STORE_PRECONDITION;
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Writes what has changed in the count of a collection, and forgets it. */
static int write_change(struct batch *batch, struct change *change)
{
    sqlite3_stmt *add = sqlite_prepared(batch->session, SQL_ADD_TO_COUNT);
    sqlite3_stmt *drop = sqlite_prepared(batch->session, SQL_DROP_EMPTY);
    if (!add || !drop)
        return no_statement(batch->session);
    if (!sqlite_bind_text(add, 1, change->collection) || !bind_integer(add, 2, change->documents) ||
        !bind_integer(add, 3, change->bytes) || !sqlite_bind_text(drop, 1, change->collection))
        return SQLITE_NOMEM;
    int rc = change->documents || change->bytes ? finish(add) : SQLITE_OK;
    if (rc == SQLITE_OK && change->documents < 0)
        rc = finish(drop);
    *change = batch->changes[--batch->change_count];
    return rc;
}

/* So many more documents and bytes are in the operation's collection. */
static int add_to_count(struct batch *batch, const store_op *op, int64_t documents, int64_t bytes)
{
    struct change *change = find_change(batch, op->collection);
    if (!change) {
        int rc = SQLITE_OK;
        if (batch->change_count == CHANGES_MAX)
            rc = write_change(batch, &batch->changes[0]);
        if (rc != SQLITE_OK) /* there may still be no room */
            return rc;
        change = &batch->changes[batch->change_count++];
        *change = (struct change){.collection = op->collection};
    }
    change->documents += documents;
    change->bytes += bytes;
    return SQLITE_OK;
}

static int insert_one(struct batch *batch, store_op *op, store_text id, store_text json)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_INSERT);
    if (!statement)
        return no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->collection) || !sqlite_bind_text(statement, 2, id) ||
        !bind_integer(statement, 3, (int64_t)op->revision) ||
        !bind_integer(statement, 4, batch->now) || !sqlite_bind_text(statement, 5, json))
        return SQLITE_NOMEM;
    return finish(statement);
}

static int replace(struct batch *batch, store_op *op, int64_t row)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_REPLACE);
    if (!statement)
        return no_statement(batch->session);
    if (!bind_integer(statement, 1, (int64_t)op->revision) ||
        !bind_integer(statement, 2, batch->now) ||
        !sqlite_bind_text(statement, 3, op->documents->json) || !bind_integer(statement, 4, row))
        return SQLITE_NOMEM;
    return finish(statement);
}

static int put(struct batch *batch, store_op *op)
{
    struct found old;
    int rc = find(batch, op, &old);
    if (rc != SQLITE_OK || op->status != STORE_OK)
        return rc;
    store_text json = op->documents->json;
    op->created = old.row == 0;
    op->revision = ++batch->revision;
    rc = op->created ? insert_one(batch, op, op->id, json) : replace(batch, op, old.row);
    if (rc != SQLITE_OK)
        return rc;
    return add_to_count(batch, op, op->created, (int64_t)json.size - old.bytes);
}

static int delete_one(struct batch *batch, store_op *op)
{
    struct found old;
    int rc = find(batch, op, &old);
    if (rc != SQLITE_OK || op->status != STORE_OK)
        return rc;
    if (old.row == 0) {
        op->status = STORE_NOT_FOUND;
        return SQLITE_OK;
    }
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_DELETE);
    if (!statement)
        return no_statement(batch->session);
    rc = bind_integer(statement, 1, old.row) ? finish(statement) : SQLITE_NOMEM;
    return rc == SQLITE_OK ? add_to_count(batch, op, -1, -old.bytes) : rc;
}

/* A statement of the operation's collection alone. */
static int run_for_collection(struct batch *batch, const store_op *op, sqlite_statement which)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, which);
    if (!statement)
        return no_statement(batch->session);
    return sqlite_bind_text(statement, 1, op->collection) ? finish(statement) : SQLITE_NOMEM;
}

static int clear(struct batch *batch, store_op *op)
{
    struct change *change = find_change(batch, op->collection);
    int rc = run_for_collection(batch, op, SQL_CLEAR);
    op->status = STORE_OK;
    op->affected = (uint64_t)sqlite3_changes64(batch->session->db);
    if (change)
        *change = batch->changes[--batch->change_count];
    return rc == SQLITE_OK ? run_for_collection(batch, op, SQL_DROP_COUNT) : rc;
}

/* Looks the idempotency key up. `*ret_used`: the operation has been answered from it. */
static int find_key(struct batch *batch, store_op *op, bool *ret_used)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_FIND_KEY);
    if (!statement)
        return no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->key) || !bind_integer(statement, 2, batch->now))
        return SQLITE_NOMEM;
    int rc = sqlite3_step(statement);
    *ret_used = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW) {
        const void *bytes = sqlite3_column_blob(statement, 0);
        store_text fingerprint = {bytes, (size_t)sqlite3_column_bytes(statement, 0)};
        op->status = STORE_KEY_REUSED;
        rc = SQLITE_DONE;
        if (store_same_text(op->fingerprint, fingerprint)) {
            op->status = STORE_REPLAYED;
            op->revision = (uint64_t)sqlite3_column_int64(statement, 2);
            rc = copy_column(op, statement, 1, &op->bytes) ? SQLITE_DONE : SQLITE_NOMEM;
        }
    }
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int keep_key(struct batch *batch, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_KEEP_KEY);
    if (!statement)
        return no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->key) || !bind_bytes(statement, 2, op->fingerprint) ||
        !bind_bytes(statement, 3, op->remember) ||
        !bind_integer(statement, 4, (int64_t)op->revision) ||
        !bind_integer(statement, 5, batch->now + KEY_SECONDS))
        return SQLITE_NOMEM;
    return finish(statement);
}

/* All or none: what has been inserted before an id that is taken is undone. */
static int insert_all(struct batch *batch, store_op *op)
{
    bool many = op->count > 1;
    int rc = many ? sqlite_run(batch->session, SQL_SAVEPOINT) : SQLITE_OK;
    int64_t bytes = 0;
    for (size_t i = 0; i < op->count && rc == SQLITE_OK; i++) {
        rc = insert_one(batch, op, op->documents[i].id, op->documents[i].json);
        bytes += (int64_t)op->documents[i].json.size;
        op->index = i;
    }
    if (rc == SQLITE_OK)
        rc = add_to_count(batch, op, (int64_t)op->count, bytes);
    bool taken = rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE;
    if (taken) {
        op->status = STORE_EXISTS;
        rc = many ? sqlite_run(batch->session, SQL_ROLLBACK_TO) : SQLITE_OK;
    }
    if (many && rc == SQLITE_OK)
        rc = sqlite_run(batch->session, SQL_RELEASE);
    return rc;
}

static int insert(struct batch *batch, store_op *op)
{
    bool used = false;
    int rc = op->key.size > 0 ? find_key(batch, op, &used) : SQLITE_OK;
    if (rc != SQLITE_OK || used)
        return rc;
    op->status = STORE_OK;
    op->revision = ++batch->revision;
    rc = insert_all(batch, op);
    if (rc == SQLITE_OK && op->status == STORE_OK && op->key.size > 0)
        rc = keep_key(batch, op);
    return rc;
}

/* ---- Writing: a batch ------------------------------------------------------------------------------ */

static int last_revision(struct batch *batch)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_LAST_REVISION);
    if (!statement)
        return no_statement(batch->session);
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        batch->revision = (uint64_t)sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

static int set_revision(struct batch *batch)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_SET_REVISION);
    if (!statement)
        return no_statement(batch->session);
    return bind_integer(statement, 1, (int64_t)batch->revision) ? finish(statement) : SQLITE_NOMEM;
}

static int write_one(struct batch *batch, store_op *op)
{
    switch (op->kind) {
    case STORE_PUT:
        return put(batch, op);
    case STORE_DELETE:
        return delete_one(batch, op);
    case STORE_INSERT:
        return insert(batch, op);
    case STORE_CLEAR:
        return clear(batch, op);
    default:
        return SQLITE_MISUSE;
    }
}

/* All up to the commit. What goes wrong with one operation alone is its status, not an error. */
static int write_all(struct batch *batch, store_op *const ops[], size_t count)
{
    int rc = sqlite_begin(batch->session, SQL_BEGIN_WRITING);
    if (rc == SQLITE_OK)
        rc = last_revision(batch);
    uint64_t before = batch->revision;
    for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
        rc = write_one(batch, ops[i]);
    while (batch->change_count > 0 && rc == SQLITE_OK)
        rc = write_change(batch, &batch->changes[0]);
    if (rc == SQLITE_OK && batch->revision != before)
        rc = set_revision(batch);
    return rc;
}

/* The end of what the earliest operation may take. */
static int64_t earliest_deadline(store_op *const ops[], size_t count)
{
    int64_t earliest = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t deadline = ops[i]->deadline_ms;
        if (deadline != 0 && (earliest == 0 || deadline < earliest))
            earliest = deadline;
    }
    return earliest;
}

static void write_batch(void *arg, store_op *const ops[], size_t count)
{
    sqlite_session *session = arg;
    struct batch batch = {.session = session, .now = time(NULL)};
    const char *sentence;
    take_turn(session);
    session->deadline_ms = earliest_deadline(ops, count);
    int rc = write_all(&batch, ops, count);
    bool committing = rc == SQLITE_OK;
    if (committing)
        rc = sqlite_run(session, SQL_COMMIT);
    if (rc == SQLITE_OK) {
        session->ailing = false;
        end_turn(session);
        return;
    }
    store_status status = explain(rc, &sentence);
    note_failure(session, rc);
    roll_back(session);
    /* All is in the log, but whether it is on the disk nobody knows. */
    if (committing && (rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC)) {
        status = STORE_UNKNOWN;
        sentence = "The disk did not confirm the write; whether it was written is unknown.";
    }
    for (size_t i = 0; i < count; i++)
        answer_failure(ops[i], status, sentence);
    end_turn(session);
}

/* Forgets keys that are over. If there are more of them than go in a turn, or it fails, it is done
 * again after the next batch. */
static void expire_keys(sqlite_session *session, int64_t now_ms)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_EXPIRE_KEYS);
    if (!statement || !bind_integer(statement, 1, time(NULL)) ||
        !bind_integer(statement, 2, EXPIRE_MAX))
        return;
    if (finish(statement) == SQLITE_OK && sqlite3_changes64(session->db) < EXPIRE_MAX)
        session->expired_ms = now_ms;
}

/* Keys that are over, and the log into the file; if either fails now it is tried again. */
static void tidy(void *arg)
{
    sqlite_session *session = arg;
    take_turn(session);
    int64_t now_ms = clock_ms();
    session->deadline_ms = now_ms + TIDY_WAIT_MS;
    if (now_ms - session->expired_ms >= EXPIRE_EVERY_MS)
        expire_keys(session, now_ms);
    if (session->wal_pages >= session->checkpoint_at) {
        session->checkpoint_at = session->wal_pages + WAL_PAGES;
        int mode = session->wal_pages >= WAL_PAGES_MANY ? SQLITE_CHECKPOINT_RESTART
                                                        : SQLITE_CHECKPOINT_PASSIVE;
        (void)sqlite3_wal_checkpoint_v2(session->db, NULL, mode, NULL, NULL);
    }
    end_turn(session);
}

/* ---- Sessions -------------------------------------------------------------------------------------- */

static bool session_alive(void *arg)
{
    const sqlite_session *session = arg;
    return session->database->shared || !session->broken;
}

/* Another program holds the lock: waits a little, until the deadline. */
static int on_busy(void *arg, int times)
{
    const sqlite_session *session = arg;
    if (session->deadline_ms != 0 && clock_ms() >= session->deadline_ms)
        return 0;
    usleep(times < 10 ? 500 : 5000);
    return 1;
}

static int on_progress(void *arg)
{
    const sqlite_session *session = arg;
    return session->reading && session->deadline_ms != 0 && clock_ms() >= session->deadline_ms;
}

static int on_commit(void *arg, sqlite3 *db, const char *schema, int pages)
{
    sqlite_session *session = arg;
    (void)db;
    (void)schema;
    if (pages < session->wal_pages) /* it has begun anew */
        session->checkpoint_at = WAL_PAGES;
    session->wal_pages = pages;
    return SQLITE_OK;
}

static void session_end(sqlite_session *session)
{
    for (size_t i = 0; i < SQL_STATEMENTS; i++)
        sqlite3_finalize(session->fixed[i]);
    for (size_t i = 0; i < SQLITE_LISTS_KEPT; i++)
        sqlite3_finalize(session->lists[i]);
    (void)sqlite3_close(session->db); /* cannot be busy: every statement is finalized */
    mem_delete(session->memory);
}

static void session_close(void *arg)
{
    sqlite_session *session = arg;
    if (session && session != session->database->shared)
        session_end(session);
}

static bool set_up(sqlite_session *session, bool writes)
{
    char pragmas[160];
    (void)snprintf(pragmas, sizeof pragmas,
                   "PRAGMA synchronous = FULL; PRAGMA cache_size = -%d; PRAGMA mmap_size = %d",
                   writes ? WRITER_CACHE_KIB : CACHE_KIB, MMAP_BYTES);
    sqlite3_extended_result_codes(session->db, 1);
    sqlite3_progress_handler(session->db, STATEMENTS_PER_LOOK, on_progress, session);
    sqlite3_wal_hook(session->db, on_commit, session);
    session->deadline_ms = clock_ms() + OPEN_WAIT_MS;
    return sqlite3_busy_handler(session->db, on_busy, session) == SQLITE_OK &&
           sqlite_add_functions(session->db) == SQLITE_OK &&
           sqlite3_exec(session->db, pragmas, NULL, NULL, NULL) == SQLITE_OK;
}

/* Opens the file, which is made only where that is said. */
static sqlite_session *session_begin(sqlite_database *database, int flags, bool writes,
                                     char error[STORE_ERROR_MAX])
{
    mem_context *memory = mem_heap_create(NULL, "store session");
    sqlite_session *session = memory ? mem_alloc_array(memory, 1, sizeof *session) : NULL;
    if (!session) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for a session.");
        mem_delete(memory);
        return NULL;
    }
    session->memory = memory;
    session->database = database;
    session->checkpoint_at = WAL_PAGES;
    int rc = sqlite3_open_v2(database->path, &session->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | flags, NULL);
    if (rc == SQLITE_OK && set_up(session, writes))
        return session;
    int number = session->db ? sqlite3_system_errno(session->db) : 0;
    (void)snprintf(error, STORE_ERROR_MAX, "%s cannot be opened: %s%s%s.", database->path,
                   session->db ? sqlite3_errmsg(session->db) : sqlite3_errstr(rc),
                   number ? ", " : "", number ? strerrordesc_np(number) : "");
    session_end(session);
    return NULL;
}

static void *session_open(void *arg, bool writes, char error[STORE_ERROR_MAX])
{
    sqlite_database *database = arg;
    return database->shared ? database->shared : session_begin(database, 0, writes, error);
}

/* ---- The database ---------------------------------------------------------------------------------- */

static void close_database(void *arg)
{
    sqlite_database *database = arg;
    if (database->shared)
        session_end(database->shared);
    pthread_mutex_destroy(&database->turn);
    mem_delete(database->memory);
}

static bool open_first(sqlite_database *database, char error[STORE_ERROR_MAX])
{
    sqlite_session *session = session_begin(database, SQLITE_OPEN_CREATE, true, error);
    if (!session)
        return false;
    if (!sqlite_make_schema(session->db, database, error)) {
        session_end(session);
        return false;
    }
    if (strcmp(database->path, IN_MEMORY) == 0)
        database->shared = session;
    else
        session_end(session);
    return true;
}

static void *open_database(const store_settings *settings, char error[STORE_ERROR_MAX])
{
    const char *path = settings->uri + sizeof SCHEME; /* behind the colon */
    if (!*path) {
        (void)snprintf(error, STORE_ERROR_MAX,
                       "sqlite: needs the path of a file behind it, or :memory:.");
        return NULL;
    }
    mem_context *memory = mem_heap_create(NULL, "store database");
    sqlite_database *database = memory ? mem_alloc_array(memory, 1, sizeof *database) : NULL;
    if (!database || !(path = mem_copy_string(memory, path, strlen(path)))) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for the database.");
        mem_delete(memory);
        return NULL;
    }
    database->memory = memory;
    database->path = path;
    pthread_mutex_init(&database->turn, NULL);
    sqlite3_soft_heap_limit64(HEAP_BYTES);
    if (!sqlite_read_indexes(database, settings->indexes, error) || !open_first(database, error)) {
        close_database(database);
        return NULL;
    }
    return database;
}

static double file_size(const char *path, const char *suffix)
{
    char name[4096];
    struct stat file;
    int length = snprintf(name, sizeof name, "%s%s", path, suffix);
    return length > 0 && (size_t)length < sizeof name && stat(name, &file) == 0
               ? (double)file.st_size
               : 0;
}

static void figures(void *arg, slate_emit_figure *emit, void *emit_arg)
{
    const sqlite_database *database = arg;
    emit(emit_arg, "sqlite_memory_bytes", "Memory that SQLite holds.", false,
         (double)sqlite3_memory_used());
    emit(emit_arg, "sqlite_memory_peak_bytes", "The most memory that SQLite has held.", false,
         (double)sqlite3_memory_highwater(0));
    emit(emit_arg, "file_bytes", "Size of the database's file.", false,
         file_size(database->path, ""));
    emit(emit_arg, "wal_bytes", "Size of the database's write-ahead log.", false,
         file_size(database->path, "-wal"));
}

const store_backend store_sqlite = {
    .scheme = SCHEME,
    .writers = 1,
    .batch = 256,
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
