/* Reading from SQLite: documents, and the names of collections. Lists are in sqlite_list.c. */
#include <assert.h>

#include "sqlite.h"

static bool take_document(store_op *op, sqlite3_stmt *statement)
{
    op->status = STORE_OK;
    op->revision = (uint64_t)sqlite3_column_int64(statement, 0);
    op->modified = sqlite3_column_int64(statement, 1);
    return sqlite_copy_column(op, statement, 2, &op->bytes);
}

static int get(sqlite_session *session, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_GET);
    if (!statement)
        return sqlite_no_statement(session);
    if (!sqlite_bind_text(statement, 1, op->collection) || !sqlite_bind_text(statement, 2, op->id))
        return SQLITE_NOMEM;
    op->status = STORE_NOT_FOUND;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        rc = take_document(op, statement) ? SQLITE_DONE : SQLITE_NOMEM;
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static bool bind_names(sqlite3_stmt *statement, store_op *const ops[], size_t count)
{
    bool bound = sqlite_bind_integer(statement, 3 * STORE_READ_BATCH + 1, (int64_t)count);
    for (size_t i = 0; i < count && bound; i++) {
        int at = 3 * (int)i + 1;
        bound = sqlite_bind_integer(statement, at, (int64_t)i) &&
                sqlite_bind_text(statement, at + 1, ops[i]->collection) &&
                sqlite_bind_text(statement, at + 2, ops[i]->id);
    }
    return bound;
}

/* Places without names find nothing, and the walk ends before them once all are found. */
static int get_many(sqlite_session *session, store_op *const ops[], size_t count)
{
    assert(count <= STORE_READ_BATCH);
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_GET_MANY);
    if (!statement)
        return sqlite_no_statement(session);
    int rc = bind_names(statement, ops, count) ? SQLITE_ROW : SQLITE_NOMEM;
    for (size_t i = 0; i < count; i++)
        ops[i]->status = STORE_NOT_FOUND;
    while (rc == SQLITE_ROW && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!take_document(ops[sqlite3_column_int(statement, 3)], statement))
            rc = SQLITE_NOMEM;
    }
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int list_collections(sqlite_session *session, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_COLLECTIONS);
    if (!statement)
        return sqlite_no_statement(session);
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

static int read_ops(sqlite_session *session, store_op *const ops[], size_t count)
{
    store_op *op = ops[0];
    int rc = sqlite_look_for_file(session, false);
    if (rc != SQLITE_OK)
        return rc;
    if (count > 1)
        return get_many(session, ops, count);
    return op->kind == STORE_GET    ? get(session, op)
           : op->kind == STORE_LIST ? sqlite_list(session, op)
                                    : list_collections(session, op);
}

/* One, or several GETs, within the time of the one that has the least. SQLite's code. */
static int read_in_time(sqlite_session *session, store_op *const ops[], size_t count)
{
    session->deadline_ms = ops[0]->deadline_ms;
    for (size_t i = 1; i < count; i++) {
        if (ops[i]->deadline_ms < session->deadline_ms)
            session->deadline_ms = ops[i]->deadline_ms;
    }
    session->reading = true;
    int rc = read_ops(session, ops, count);
    session->reading = false;
    session->ailing &= rc != SQLITE_OK;
    return rc;
}

static void read_one(sqlite_session *session, store_op *op)
{
    int rc = read_in_time(session, &op, 1);
    if (rc == SQLITE_OK)
        return;
    const char *sentence;
    store_status status = sqlite_explain(rc, &sentence);
    if (op->budget.refused == MEM_GRANTED) /* else the fault is not SQLite's */
        sqlite_note_failure(session, rc);
    sqlite_answer_failure(op, status, sentence);
}

/* Charged once, not twice. */
static void forget_document(store_op *op)
{
    mem_free(op->memory, (char *)op->bytes.at, op->bytes.size);
    op->bytes = (store_text){NULL, 0};
}

/* Several GETs are one statement, a quarter cheaper for each. If it fails, it fails for a reason of one
 * of them or of all: each is read by itself then, and says so. */
void sqlite_read(void *arg, store_op *const ops[], size_t count)
{
    sqlite_session *session = arg;
    sqlite_take_turn(session);
    if (count == 1 || read_in_time(session, ops, count) != SQLITE_OK) {
        for (size_t i = 0; i < count; i++) {
            forget_document(ops[i]);
            read_one(session, ops[i]);
        }
    }
    sqlite_end_turn(session);
}
