/* Writing to SQLite: a batch is one transaction, in which each operation succeeds or fails by itself;
 * and what is tidied after one. */
#include <string.h>
#include <time.h>

#include "../../server/clock.h"
#include "sqlite.h"

#define KEY_SECONDS (24 * 60 * 60) /* an idempotency key is remembered for so long */
#define EXPIRE_EVERY_MS 60000
#define EXPIRE_MAX 1000 /* keys at once: writing waits for it */
#define TIDY_WAIT_MS 100
/* When the log has so many pages, even readers are waited for, since otherwise they could keep it from
 * ever beginning anew. */
#define WAL_PAGES_MANY 16000

/* ---- One operation --------------------------------------------------------------------------------- */

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
        return sqlite_no_statement(batch->session);
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
        return sqlite_no_statement(batch->session);
    if (!sqlite_bind_text(add, 1, change->collection) ||
        !sqlite_bind_integer(add, 2, change->documents) ||
        !sqlite_bind_integer(add, 3, change->bytes) ||
        !sqlite_bind_text(drop, 1, change->collection))
        return SQLITE_NOMEM;
    int rc = change->documents || change->bytes ? sqlite_finish(add) : SQLITE_OK;
    if (rc == SQLITE_OK && change->documents < 0)
        rc = sqlite_finish(drop);
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
        return sqlite_no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->collection) || !sqlite_bind_text(statement, 2, id) ||
        !sqlite_bind_integer(statement, 3, (int64_t)op->revision) ||
        !sqlite_bind_integer(statement, 4, batch->now) || !sqlite_bind_text(statement, 5, json))
        return SQLITE_NOMEM;
    return sqlite_finish(statement);
}

static int replace(struct batch *batch, store_op *op, int64_t row)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_REPLACE);
    if (!statement)
        return sqlite_no_statement(batch->session);
    if (!sqlite_bind_integer(statement, 1, (int64_t)op->revision) ||
        !sqlite_bind_integer(statement, 2, batch->now) ||
        !sqlite_bind_text(statement, 3, op->documents->json) ||
        !sqlite_bind_integer(statement, 4, row))
        return SQLITE_NOMEM;
    return sqlite_finish(statement);
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
        return sqlite_no_statement(batch->session);
    rc = sqlite_bind_integer(statement, 1, old.row) ? sqlite_finish(statement) : SQLITE_NOMEM;
    return rc == SQLITE_OK ? add_to_count(batch, op, -1, -old.bytes) : rc;
}

/* A statement of the operation's collection alone. */
static int run_for_collection(struct batch *batch, const store_op *op, sqlite_statement which)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, which);
    if (!statement)
        return sqlite_no_statement(batch->session);
    return sqlite_bind_text(statement, 1, op->collection) ? sqlite_finish(statement) : SQLITE_NOMEM;
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
        return sqlite_no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->key) || !sqlite_bind_integer(statement, 2, batch->now))
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
            rc = sqlite_copy_column(op, statement, 1, &op->bytes) ? SQLITE_DONE : SQLITE_NOMEM;
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
        return sqlite_no_statement(batch->session);
    if (!sqlite_bind_text(statement, 1, op->key) ||
        !sqlite_bind_bytes(statement, 2, op->fingerprint) ||
        !sqlite_bind_bytes(statement, 3, op->remember) ||
        !sqlite_bind_integer(statement, 4, (int64_t)op->revision) ||
        !sqlite_bind_integer(statement, 5, batch->now + KEY_SECONDS))
        return SQLITE_NOMEM;
    return sqlite_finish(statement);
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

/* ---- A batch --------------------------------------------------------------------------------------- */

static int last_revision(struct batch *batch)
{
    sqlite3_stmt *statement = sqlite_prepared(batch->session, SQL_LAST_REVISION);
    if (!statement)
        return sqlite_no_statement(batch->session);
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
        return sqlite_no_statement(batch->session);
    return sqlite_bind_integer(statement, 1, (int64_t)batch->revision) ? sqlite_finish(statement)
                                                                       : SQLITE_NOMEM;
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
    return rc == SQLITE_OK ? sqlite_look_for_file(batch->session, true) : rc;
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

void sqlite_write(void *arg, store_op *const ops[], size_t count)
{
    sqlite_session *session = arg;
    struct batch batch = {.session = session, .now = time(NULL)};
    const char *sentence;
    sqlite_take_turn(session);
    session->deadline_ms = earliest_deadline(ops, count);
    int rc = write_all(&batch, ops, count);
    bool committing = rc == SQLITE_OK;
    if (committing)
        rc = sqlite_run(session, SQL_COMMIT);
    if (rc == SQLITE_OK) {
        session->ailing = false;
        sqlite_end_turn(session);
        return;
    }
    store_status status = sqlite_explain(rc, &sentence);
    sqlite_note_failure(session, rc);
    sqlite_roll_back(session);
    /* All is in the log, but whether it is on the disk nobody knows. */
    if (committing && (rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC)) {
        status = STORE_UNKNOWN;
        sentence = "The disk did not confirm the write; whether it was written is unknown.";
    }
    for (size_t i = 0; i < count; i++)
        sqlite_answer_failure(ops[i], status, sentence);
    sqlite_end_turn(session);
}

/* ---- After a batch ----------------------------------------------------------------------------------- */

/* Forgets keys that are over. If there are more of them than go in a turn, or it fails, it is done
 * again after the next batch. */
static void expire_keys(sqlite_session *session, int64_t now_ms)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_EXPIRE_KEYS);
    if (!statement || !sqlite_bind_integer(statement, 1, time(NULL)) ||
        !sqlite_bind_integer(statement, 2, EXPIRE_MAX))
        return;
    if (sqlite_finish(statement) == SQLITE_OK && sqlite3_changes64(session->db) < EXPIRE_MAX)
        session->expired_ms = now_ms;
}

/* Keys that are over, and the log into the file; if either fails now it is tried again. */
void sqlite_tidy(void *arg)
{
    sqlite_session *session = arg;
    sqlite_take_turn(session);
    int64_t now_ms = clock_ms();
    session->deadline_ms = now_ms + TIDY_WAIT_MS;
    if (now_ms - session->expired_ms >= EXPIRE_EVERY_MS)
        expire_keys(session, now_ms);
    if (session->wal_pages >= session->checkpoint_at) {
        session->checkpoint_at = session->wal_pages + SQLITE_WAL_PAGES;
        int mode = session->wal_pages >= WAL_PAGES_MANY ? SQLITE_CHECKPOINT_RESTART
                                                        : SQLITE_CHECKPOINT_PASSIVE;
        (void)sqlite3_wal_checkpoint_v2(session->db, NULL, mode, NULL, NULL);
    }
    sqlite_end_turn(session);
}
