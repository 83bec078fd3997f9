/* Reading from SQLite: documents, and the names of collections. Lists are in sqlite_list.c. */
#include "sqlite.h"

static int get(sqlite_session *session, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_GET);
    if (!statement)
        return sqlite_no_statement(session);
    if (!sqlite_bind_text(statement, 1, op->collection) || !sqlite_bind_text(statement, 2, op->id))
        return SQLITE_NOMEM;
    int rc = sqlite3_step(statement);
    op->status = STORE_NOT_FOUND;
    if (rc == SQLITE_ROW) {
        op->status = STORE_OK;
        op->revision = (uint64_t)sqlite3_column_int64(statement, 0);
        op->modified = sqlite3_column_int64(statement, 1);
        rc = sqlite_copy_column(op, statement, 2, &op->bytes) ? SQLITE_DONE : SQLITE_NOMEM;
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

static void read_one(sqlite_session *session, store_op *op)
{
    session->deadline_ms = op->deadline_ms;
    session->reading = true;
    int rc = sqlite_look_for_file(session, false);
    if (rc == SQLITE_OK)
        rc = op->kind == STORE_GET    ? get(session, op)
             : op->kind == STORE_LIST ? sqlite_list(session, op)
                                      : list_collections(session, op);
    session->reading = false;
    if (rc == SQLITE_OK) {
        session->ailing = false;
    } else {
        const char *sentence;
        store_status status = sqlite_explain(rc, &sentence);
        sqlite_note_failure(session, rc);
        sqlite_answer_failure(op, status, sentence);
    }
}

/* Several GETs share a transaction, which costs about as much as a GET. If it cannot be begun, each
 * has its own. */
void sqlite_read(void *arg, store_op *const ops[], size_t count)
{
    sqlite_session *session = arg;
    sqlite_take_turn(session);
    bool shared = count > 1 && sqlite_begin(session, SQL_BEGIN) == SQLITE_OK;
    for (size_t i = 0; i < count; i++)
        read_one(session, ops[i]);
    if (shared && sqlite_run(session, SQL_COMMIT) != SQLITE_OK)
        sqlite_roll_back(session);
    sqlite_end_turn(session);
}
