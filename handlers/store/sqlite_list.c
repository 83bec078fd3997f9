/* Lists out of SQLite: the SQL that a query's structure makes, the functions by which it compares
 * values, and the rows. Nothing of a request is part of the SQL: collections, paths, values and
 * limits are bound. Only where a declared index fits are its collection and path written out, as the
 * command line had them, since SQLite recognises an indexed expression by its text. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sqlite.h"
#include "sqlite_key.h"

/* ---- slate_key(json, path), slate_value(json, path) -------------------------------------------- */

static const char path_type[] = "slate path"; /* of pointers to a store_path */

/* The path is bound as a pointer, or is a JSON pointer's text in an index, which is read once. NULL: an
 * error is the function's result. */
static const store_path *path_of(sqlite3_context *ctx, sqlite3_value *value)
{
    store_path *path = sqlite3_value_pointer(value, path_type);
    if (!path)
        path = sqlite3_get_auxdata(ctx, 1);
    if (path)
        return path;
    const char *text = sqlite3_value_blob(value);
    int size = sqlite3_value_bytes(value);
    path = sqlite3_malloc64(sizeof *path + (size_t)size);
    if (path && !store_read_pointer((store_text){text, (size_t)size}, (char *)(path + 1), path)) {
        sqlite3_free(path);
        sqlite3_result_error(ctx, "not a path", -1);
        return NULL;
    }
    if (path) /* without memory it frees the path at once */
        sqlite3_set_auxdata(ctx, 1, path, sqlite3_free);
    path = sqlite3_get_auxdata(ctx, 1);
    if (!path)
        sqlite3_result_error_nomem(ctx);
    return path;
}

/* The text of the value that a function is about. false: it has failed. */
static bool find_value(sqlite3_context *ctx, sqlite3_value **args, store_text *ret_value)
{
    const store_path *path = path_of(ctx, args[1]);
    if (!path)
        return false;
    /* As a blob: text would be copied so as to end in NUL. */
    const char *json = sqlite3_value_blob(args[0]);
    *ret_value = store_find_value((store_text){json, (size_t)sqlite3_value_bytes(args[0])}, path);
    return true;
}

/* The key to sort by. */
static void slate_key(sqlite3_context *ctx, int count, sqlite3_value **args)
{
    char key[KEY_SORT_MAX];
    store_text value;
    (void)count;
    if (find_value(ctx, args, &value))
        sqlite3_result_blob64(ctx, key, key_of_json_to_sort(value, key), SQLITE_TRANSIENT);
}

/* The whole key, to compare with operands that sorting would cut. */
static void slate_value(sqlite3_context *ctx, int count, sqlite3_value **args)
{
    store_text value;
    (void)count;
    if (!find_value(ctx, args, &value))
        return;
    char *key = sqlite3_malloc64(value.size + KEY_EXTRA);
    if (!key) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    size_t size = key_of_json(value, key);
    sqlite3_result_blob64(ctx, key, size, sqlite3_free);
}

int sqlite_add_functions(sqlite3 *db)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int rc =
        sqlite3_create_function_v2(db, "slate_key", 2, flags, NULL, slate_key, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function_v2(db, "slate_value", 2, flags, NULL, slate_value, NULL, NULL,
                                        NULL);
    return rc;
}

/* ---- Bytes that grow --------------------------------------------------------------------------- */

struct buffer {
    mem_context *ctx;
    char *at;
    size_t size, room;
    bool failed; /* no memory; sticks */
};

static void append(struct buffer *b, const void *bytes, size_t size)
{
    if (size > b->room - b->size && !b->failed) {
        size_t more = b->room / 2 > 1000 ? b->room / 2 : 1000, room, need;
        bool known = !__builtin_add_overflow(b->size, size, &need) &&
                     !__builtin_add_overflow(b->room, more, &room);
        room = known ? mem_good_size(b->ctx, room > need ? room : need) : 0;
        char *moved = known ? mem_resize(b->ctx, b->at, b->room, room) : NULL;
        b->failed = !moved;
        if (moved) {
            b->at = moved;
            b->room = room;
        }
    }
    if (b->failed || size == 0)
        return;
    memcpy(b->at + b->size, bytes, size);
    b->size += size;
}

#define append_literal(b, text) append((b), "" text, sizeof(text) - 1)

static void append_number(struct buffer *b, int64_t n)
{
    char text[24];
    append(b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, n));
}

/* ---- SQL --------------------------------------------------------------------------------------- */

/* What takes the place of a question mark. */
struct bound {
    enum { TEXT, KEY, PATH, INTEGER } is;
    store_text text; /* TEXT, KEY */
    const store_path *path;
    int64_t integer;
};

/* A statement in the making. */
struct sql {
    store_op *op;
    const sqlite_index *index; /* that is to be taken; NULL: none fits */
    struct buffer text;
    struct bound *bound;
    size_t count, room;
};

static void add(struct sql *sql, const char *text)
{
    append(&sql->text, text, strlen(text));
}

static void add_bound(struct sql *sql, struct bound bound)
{
    if (sql->count == sql->room) {
        size_t room = sql->room ? 2 * sql->room : 32;
        struct bound *moved = mem_resize(sql->op->memory, sql->bound, sql->room * sizeof *moved,
                                         room * sizeof *moved);
        if (!moved) {
            sql->text.failed = true;
            return;
        }
        sql->bound = moved;
        sql->room = room;
    }
    sql->bound[sql->count++] = bound;
    add(sql, "?");
}

/* The expression of a value's key: for sorting, or the whole of it. */
static void add_key(struct sql *sql, const store_path *path, bool whole)
{
    if (!whole && sql->index && store_same_path(&sql->index->declared->path, path)) {
        add(sql, sql->index->key);
        return;
    }
    add(sql, whole ? "slate_value(json, " : "slate_key(json, ");
    add_bound(sql, (struct bound){.is = PATH, .path = path});
    add(sql, ")");
}

/* A scalar's key, or the first key after it. */
static void add_scalar(struct sql *sql, const store_scalar *scalar, bool after)
{
    char *key = mem_alloc_aligned(sql->op->memory, scalar->text.size + KEY_EXTRA + 1, 1);
    size_t size = key ? key_of_scalar(scalar, key) : 0;
    if (key && after)
        key[size++] = '\0';
    sql->text.failed |= !key;
    add_bound(sql, (struct bound){.is = KEY, .text = {key, size}});
}

/* What is before every key of the scalar's kind, or behind them all. */
static void add_kind(struct sql *sql, const store_scalar *scalar, bool behind)
{
    char *bound = mem_alloc_aligned(sql->op->memory, 1, 1);
    if (bound)
        *bound = (char)(key_kind((int)scalar->is) + behind);
    sql->text.failed |= !bound;
    add_bound(sql, (struct bound){.is = KEY, .text = {bound, 1}});
}

/* All four comparisons are ranges that hold their first key and not their last. */
static void add_range(struct sql *sql, const store_filter *filter, bool whole)
{
    const store_scalar *operand = filter->operands;
    add_key(sql, &filter->path, whole);
    add(sql, " >= ");
    if (filter->op == STORE_GT || filter->op == STORE_GTE)
        add_scalar(sql, operand, filter->op == STORE_GT);
    else
        add_kind(sql, operand, false);
    add(sql, " AND ");
    add_key(sql, &filter->path, whole);
    add(sql, " < ");
    if (filter->op == STORE_LT || filter->op == STORE_LTE)
        add_scalar(sql, operand, filter->op == STORE_LTE);
    else
        add_kind(sql, operand, true);
}

static bool is_range(const store_filter *filter)
{
    return filter->op != STORE_EQ && filter->op != STORE_NEQ && filter->op != STORE_IN;
}

/* Whether one of its operands is so long that keys for sorting do not tell. */
static bool is_long(const store_filter *filter)
{
    for (size_t i = 0; i < filter->count; i++) {
        if (!key_is_short(&filter->operands[i]))
            return true;
    }
    return false;
}

static void add_filter(struct sql *sql, const store_filter *filter)
{
    bool whole = is_long(filter);
    if (is_range(filter)) {
        add_range(sql, filter, whole);
        return;
    }
    add_key(sql, &filter->path, whole);
    add(sql, filter->op == STORE_EQ ? " = " : filter->op == STORE_NEQ ? " <> " : " IN (");
    for (size_t i = 0; i < filter->count; i++) {
        add(sql, i > 0 ? ", " : "");
        add_scalar(sql, &filter->operands[i], false);
    }
    add(sql, filter->op == STORE_IN ? ")" : "");
}

/* Rows behind `after`: later by the first order, or equal there and later by the next, … */
static void add_after(struct sql *sql)
{
    const store_query *query = sql->op->query;
    for (size_t i = 0; i < query->order_count; i++) {
        const store_order *order = &query->orders[i];
        add(sql, " AND ");
        if (i == 0) { /* it follows from the rest, and lets an index begin there */
            add_key(sql, &order->path, false);
            add(sql, order->descending ? " <= " : " >= ");
            add_scalar(sql, &query->after[i], false);
            add(sql, " AND ");
        }
        add(sql, "(");
        add_key(sql, &order->path, false);
        add(sql, order->descending ? " < " : " > ");
        add_scalar(sql, &query->after[i], false);
        add(sql, " OR (");
        add_key(sql, &order->path, false);
        add(sql, " = ");
        add_scalar(sql, &query->after[i], false);
    }
    add(sql, " AND id > ");
    add_bound(sql, (struct bound){.is = TEXT, .text = query->after_id});
    for (size_t i = 0; i < query->order_count; i++)
        add(sql, "))");
}

static void add_from(struct sql *sql)
{
    const store_query *query = sql->op->query;
    add(sql, " FROM document");
    if (sql->index) {
        add(sql, " INDEXED BY ");
        add(sql, sql->index->name);
        add(sql, " WHERE ");
        add(sql, sql->index->only_for);
    } else {
        add(sql, " WHERE collection = ");
        add_bound(sql, (struct bound){.is = TEXT, .text = sql->op->collection});
    }
    for (size_t i = 0; i < query->filter_count; i++) {
        add(sql, " AND ");
        add_filter(sql, &query->filters[i]);
    }
}

/* How many of a list's first columns are its own; the keys of its orders follow. */
enum { COLUMN_ID, COLUMN_REVISION, COLUMN_JSON, COLUMN_KEYS };

static void make_list(struct sql *sql)
{
    const store_query *query = sql->op->query;
    char column[16];
    add(sql, "SELECT id, revision, json");
    for (size_t i = 0; i < query->order_count; i++) {
        add(sql, ", ");
        add_key(sql, &query->orders[i].path, false);
    }
    add_from(sql);
    if (query->has_after)
        add_after(sql);
    add(sql, " ORDER BY ");
    for (size_t i = 0; i < query->order_count; i++) {
        (void)snprintf(column, sizeof column, "%zu", COLUMN_KEYS + i + 1);
        add(sql, column);
        add(sql, query->orders[i].descending ? " DESC, " : ", ");
    }
    add(sql, "id LIMIT ");
    /* One more than asked for, to know whether there is one. */
    int64_t limit = query->limit < INT64_MAX ? (int64_t)query->limit + 1 : INT64_MAX;
    add_bound(sql, (struct bound){.is = INTEGER, .integer = limit});
}

static void make_count(struct sql *sql)
{
    add(sql, "SELECT count(*)");
    add_from(sql);
}

static const sqlite_index *find_index(const sqlite_session *session, const store_op *op,
                                      const store_path *path)
{
    const sqlite_database *d = session->database;
    for (size_t i = 0; i < d->index_count; i++) {
        const store_index *declared = d->indexes[i].declared;
        if (store_same_text(declared->collection, op->collection) &&
            store_same_path(&declared->path, path))
            return &d->indexes[i];
    }
    return NULL;
}

/* The declared index that leaves the fewest rows to look at, as far as the query alone tells: one
 * for an equality, else one for a range, else one that is in the wanted order. */
static const sqlite_index *choose_index(const sqlite_session *session, const store_op *op)
{
    const store_query *query = op->query;
    const sqlite_index *chosen = NULL;
    for (size_t i = 0; i < query->filter_count; i++) {
        const store_filter *filter = &query->filters[i];
        const sqlite_index *index = find_index(session, op, &filter->path);
        if (!index || filter->op == STORE_NEQ || is_long(filter))
            continue;
        if (!is_range(filter))
            return index;
        chosen = chosen ? chosen : index;
    }
    if (!chosen && query->order_count > 0)
        chosen = find_index(session, op, &query->orders[0].path);
    return chosen;
}

/* ---- Statements of lists, which are kept ------------------------------------------------------- */

/* Puts `statement` before the others; the last one makes room if it is new. */
static void keep_first(sqlite_session *session, sqlite3_stmt *statement)
{
    size_t at = 0;
    while (at < SQLITE_LISTS_KEPT - 1 && session->lists[at] != statement)
        at++;
    if (session->lists[at] != statement)
        sqlite3_finalize(session->lists[at]);
    memmove(&session->lists[1], &session->lists[0], at * sizeof session->lists[0]);
    session->lists[0] = statement;
}

/* SQLite's code. */
static int prepare(sqlite_session *session, struct sql *sql, sqlite3_stmt **ret_statement)
{
    sqlite3_stmt *statement = NULL;
    append_literal(&sql->text, "\0");
    if (sql->text.failed || sql->text.size > INT_MAX)
        return SQLITE_NOMEM;
    for (size_t i = 0; i < SQLITE_LISTS_KEPT && !statement; i++) {
        if (session->lists[i] && strcmp(sqlite3_sql(session->lists[i]), sql->text.at) == 0)
            statement = session->lists[i];
    }
    int rc = SQLITE_OK;
    if (!statement)
        rc = sqlite3_prepare_v3(session->db, sql->text.at, (int)sql->text.size,
                                SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (rc != SQLITE_OK)
        return rc;
    keep_first(session, statement);
    for (size_t i = 0; i < sql->count && rc == SQLITE_OK; i++) {
        const struct bound *bound = &sql->bound[i];
        int at = (int)i + 1;
        switch (bound->is) {
        case TEXT:
            rc = sqlite_bind_text(statement, at, bound->text) ? SQLITE_OK : SQLITE_NOMEM;
            break;
        case KEY:
            rc =
                sqlite3_bind_blob64(statement, at, bound->text.at, bound->text.size, SQLITE_STATIC);
            break;
        case PATH:
            rc = sqlite3_bind_pointer(statement, at, (void *)(uintptr_t)bound->path, path_type,
                                      NULL);
            break;
        case INTEGER:
            rc = sqlite3_bind_int64(statement, at, bound->integer);
            break;
        }
    }
    *ret_statement = statement;
    return rc;
}

/* The operation's memory is let go of. */
static int finish(sqlite3_stmt *statement)
{
    int rc = sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc;
}

/* ---- Rows -------------------------------------------------------------------------------------- */

/* A list while its rows come. */
struct rows {
    store_op *op;
    struct buffer text;
    store_text names[STORE_SELECT_MAX]; /* of what is selected: "name": */
    struct buffer keys;                 /* of the last row, one behind the other */
    size_t key_sizes[STORE_ORDERS_MAX];
    char id[128]; /* of the last row */
    size_t id_size;
};

static bool name_selected(struct rows *rows)
{
    const store_query *query = rows->op->query;
    for (size_t i = 0; i < query->select_count; i++) {
        const store_path *path = &query->select[i];
        const store_text *last = &path->token[path->count - 1];
        json_writer w;
        json_writer_init(&w, rows->op->memory, last->size + 8, 1, false);
        json_write_string(&w, last->at, last->size);
        json_write_raw(&w, ":", 1);
        if (w.failed)
            return false;
        rows->names[i] = (store_text){w.text, w.length};
    }
    return true;
}

static void append_selected(struct rows *rows, store_text json)
{
    const store_query *query = rows->op->query;
    for (size_t i = 0; i < query->select_count; i++) {
        store_text value = store_find_value(json, &query->select[i]);
        append(&rows->text, i == 0 ? "{" : ",", 1);
        append(&rows->text, rows->names[i].at, rows->names[i].size);
        append(&rows->text, value.at ? value.at : "null", value.at ? value.size : 4);
    }
    append_literal(&rows->text, "}");
}

static store_text column_bytes(sqlite3_stmt *statement, int column)
{
    const char *at = sqlite3_column_blob(statement, column);
    return (store_text){at, (size_t)sqlite3_column_bytes(statement, column)};
}

static void append_row(struct rows *rows, sqlite3_stmt *statement)
{
    store_op *op = rows->op;
    store_text id = column_bytes(statement, COLUMN_ID);
    store_text json = column_bytes(statement, COLUMN_JSON);
    if (op->rows > 0 && !op->query->lines)
        append_literal(&rows->text, ",");
    append_literal(&rows->text, "{\"id\":\"");
    append(&rows->text, id.at, id.size);
    append_literal(&rows->text, "\",\"revision\":");
    append_number(&rows->text, sqlite3_column_int64(statement, COLUMN_REVISION));
    append_literal(&rows->text, ",\"document\":");
    if (op->query->select_count > 0)
        append_selected(rows, json);
    else
        append(&rows->text, json.at, json.size);
    append_literal(&rows->text, "}");
    if (op->query->lines)
        append_literal(&rows->text, "\n");
    op->rows++;

    rows->id_size = id.size < sizeof rows->id ? id.size : sizeof rows->id;
    memcpy(rows->id, id.at, rows->id_size);
    rows->keys.size = 0;
    for (size_t i = 0; i < op->query->order_count; i++) {
        store_text key = column_bytes(statement, COLUMN_KEYS + (int)i);
        append(&rows->keys, key.at, key.size);
        rows->key_sizes[i] = key.size;
    }
}

static bool is_full(const struct rows *rows)
{
    const store_query *query = rows->op->query;
    return rows->op->rows == query->limit ||
           (query->byte_limit > 0 && rows->text.size >= query->byte_limit);
}

/* Says what the last row was. */
static bool set_last(struct rows *rows)
{
    store_op *op = rows->op;
    const char *key = rows->keys.at;
    op->last_id = store_op_copy(op, rows->id, rows->id_size);
    for (size_t i = 0; i < op->query->order_count; i++) {
        if (!key_to_scalar((store_text){key, rows->key_sizes[i]}, op->memory, &op->last[i]))
            return false;
        key += rows->key_sizes[i];
    }
    return op->last_id.at;
}

static int take_rows(store_op *op, sqlite3_stmt *statement)
{
    struct rows rows = {.op = op, .text.ctx = op->memory, .keys.ctx = op->memory};
    int rc = SQLITE_DONE;
    if (!name_selected(&rows))
        return SQLITE_NOMEM;
    while (!op->more && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (is_full(&rows))
            op->more = true;
        else
            append_row(&rows, statement);
        if (rows.text.failed || rows.keys.failed)
            return SQLITE_NOMEM;
    }
    if (!op->more && rc != SQLITE_DONE)
        return rc;
    op->bytes = (store_text){rows.text.at, rows.text.size};
    return op->rows == 0 || set_last(&rows) ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- The answer -------------------------------------------------------------------------------- */

static int list(sqlite_session *session, store_op *op, const sqlite_index *index)
{
    struct sql sql = {.op = op, .index = index, .text.ctx = op->memory};
    sqlite3_stmt *statement = NULL;
    make_list(&sql);
    int rc = prepare(session, &sql, &statement);
    if (rc == SQLITE_OK)
        rc = take_rows(op, statement);
    if (statement)
        (void)finish(statement); /* an error of it has been returned by the step */
    return rc;
}

static int count(sqlite_session *session, store_op *op, const sqlite_index *index)
{
    struct sql sql = {.op = op, .index = index, .text.ctx = op->memory};
    sqlite3_stmt *statement = NULL;
    make_count(&sql);
    int rc = prepare(session, &sql, &statement);
    if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        op->affected = (uint64_t)sqlite3_column_int64(statement, 0);
        rc = SQLITE_OK;
    }
    if (statement)
        (void)finish(statement);
    return rc;
}

/* All documents of a collection have been counted. */
static int count_all(sqlite_session *session, store_op *op)
{
    sqlite3_stmt *statement = sqlite_prepared(session, SQL_COUNT);
    if (!statement || !sqlite_bind_text(statement, 1, op->collection))
        return SQLITE_NOMEM;
    int rc = sqlite3_step(statement);
    op->affected = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
    (void)sqlite3_reset(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_list(sqlite_session *session, store_op *op)
{
    const sqlite_index *index = choose_index(session, op);
    int rc;
    op->status = STORE_OK;
    if (!op->query->count_all)
        return list(session, op, index);
    /* In a transaction, so that the list and its count are of the same moment. */
    rc = sqlite_begin(session, SQL_BEGIN);
    if (rc == SQLITE_OK)
        rc = op->query->filter_count > 0 ? count(session, op, index) : count_all(session, op);
    if (rc == SQLITE_OK)
        rc = list(session, op, index);
    if (sqlite3_get_autocommit(session->db))
        return rc;
    int end = sqlite_run(session, SQL_COMMIT);
    return rc == SQLITE_OK ? end : rc;
}
