/* Reading from PostgreSQL. Rows are taken one by one into the answer's bytes, so that libpq holds no
 * more than one. A long list is fetched through a cursor, piece by piece: where its bytes have a limit,
 * the server makes few rows that are not sent. */
#include <stdio.h>
#include <string.h>

#include "postgresql.h"
#include "store_value.h"

#define FIRST_ROWS 64 /* so many are asked for at once */
#define ROW_DEPTH 4   /* of what is written here around documents */
#define ROW_AROUND 80 /* bytes of it, at the most, besides the id */

static void give(store_op *op, json_writer *w)
{
    if (w->failed)
        pg_answer(op, STORE_BUSY, "There is no memory for so long an answer.");
    else
        op->bytes = (store_text){w->text, w->length};
}

/* Into the operation's memory, which outlives the result. */
static store_text keep(store_op *op, store_text text)
{
    return store_op_copy(op, text.at, text.size);
}

/* ---- One document ------------------------------------------------------------------------------ */

static void queue_get(pg_link *link, const store_op *op)
{
    pg_arguments a = {.link = link};
    pg_add_bytes(&a, op->collection);
    pg_add_bytes(&a, op->id);
    pg_queue(link, PG_GET, &a, false);
}

static void take_get(pg_link *link, store_op *op)
{
    PGresult *rows = pg_rows(link);
    if (rows && PQntuples(rows) == 0) {
        pg_answer(op, STORE_NOT_FOUND, "There is no document of that id.");
    } else if (rows) {
        op->bytes = keep(op, pg_value(rows, 0, 0));
        op->revision = pg_number(rows, 0, 1);
        op->modified = (int64_t)pg_number(rows, 0, 2);
        if (!op->bytes.at)
            pg_answer(op, STORE_BUSY, "There is no memory for so long an answer.");
    }
    PQclear(rows);
}

static void get(pg_link *link, store_op *op)
{
    queue_get(link, op);
    pg_send(link);
    take_get(link, op);
    (void)pg_end(link);
}

/* ---- Collections -------------------------------------------------------------------------------- */

static void write_number(json_writer *w, store_text digits)
{
    json_write_raw(w, digits.at, digits.size);
}

static void collections(pg_link *link, store_op *op)
{
    json_writer w;
    json_writer_init(&w, op->memory, 0, ROW_DEPTH, false);
    pg_queue(link, PG_COLLECTIONS, NULL, false);
    pg_send(link);
    pg_expect_single(link);
    json_write_begin_array(&w);
    for (PGresult *row; (row = pg_row(link)) != NULL; PQclear(row)) {
        store_text name = pg_value(row, 0, 0);
        json_write_begin_object(&w);
        json_write_literal_key(&w, "name");
        json_write_string(&w, name.at, name.size);
        json_write_literal_key(&w, "documents");
        write_number(&w, pg_value(row, 0, 1));
        json_write_literal_key(&w, "bytes");
        write_number(&w, pg_value(row, 0, 2));
        json_write_end_object(&w);
    }
    json_write_end_array(&w);
    (void)pg_end(link);
    give(op, &w);
}

/* ---- Lists -------------------------------------------------------------------------------------- */

struct rows {
    pg_link *link;
    store_op *op;
    const store_query *query;
    json_writer writer;
    PGresult *last; /* the row that was taken last */
    size_t seen;    /* rows that came, also those that are not taken */
};

static bool is_full(const struct rows *r)
{
    return r->op->rows >= r->query->limit || (r->query->byte_limit > 0 && r->op->rows > 0 &&
                                              r->writer.length >= r->query->byte_limit);
}

static void write_selected(struct rows *r, store_text body)
{
    json_write_begin_object(&r->writer);
    for (size_t i = 0; i < r->query->select_count; i++) {
        const store_path *path = &r->query->select[i];
        store_text name = path->token[path->count - 1], value = store_find_value(body, path);
        json_write_key(&r->writer, name.at ? name.at : "", name.size);
        if (value.at)
            json_write_raw(&r->writer, value.at, value.size);
        else
            json_write_null(&r->writer);
    }
    json_write_end_object(&r->writer);
}

static void write_row(struct rows *r, const PGresult *row)
{
    json_writer *w = &r->writer;
    store_text id = pg_value(row, 0, 0), body = pg_value(row, 0, 2);
    if (r->op->rows > 0 && !r->query->lines)
        json_write_raw(w, ",", 1);
    if (!w->text) /* the first: a page of one large row is not to be grown for its last bytes */
        w->expected = ROW_AROUND + id.size + body.size;
    json_write_begin_object(w);
    json_write_literal_key(w, "id");
    json_write_string(w, id.at, id.size);
    json_write_literal_key(w, "revision");
    write_number(w, pg_value(row, 0, 1));
    json_write_literal_key(w, "document");
    if (r->query->select_count > 0)
        write_selected(r, body);
    else
        json_write_raw(w, body.at, body.size);
    json_write_end_object(w);
    if (r->query->lines)
        json_write_raw(w, "\n", 1);
}

/* Takes the rows of one statement as far as there is room for them. */
static void take_rows(struct rows *r)
{
    for (PGresult *row; (row = pg_row(r->link)) != NULL;) {
        r->seen++;
        if (is_full(r)) {
            r->op->more = true;
            PQclear(row);
            continue;
        }
        write_row(r, row);
        r->op->rows++;
        PQclear(r->last);
        r->last = row;
    }
}

/* What a list goes on after, from its last row. A number as its document spells it: PostgreSQL would
 * write 1e300 with all its digits. */
static bool keep_last(struct rows *r)
{
    store_op *op = r->op;
    op->last_id = keep(op, pg_value(r->last, 0, 0));
    bool kept = op->last_id.at;
    for (size_t i = 0; i < r->query->order_count; i++) {
        int column = 3 + 2 * (int)i;
        store_scalar *last = &op->last[i];
        *last = (store_scalar){.is = (int)pg_number(r->last, 0, column)};
        if (last->is < STORE_NUMBER)
            continue;
        last->text = keep(op, last->is == STORE_NUMBER ? store_find_value(pg_value(r->last, 0, 2),
                                                                          &r->query->orders[i].path)
                                                       : pg_value(r->last, 0, column + 1));
        kept &= last->text.at != NULL;
    }
    return kept;
}

static void queue_fetch(struct rows *r, size_t count)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "FETCH FORWARD %zu FROM slate_list", count);
    pg_queue_sql(r->link, sql, NULL);
}

/* How many rows more may be wanted, as far as those before tell their size: so many as have room, and
 * one, to know whether there is one. */
static size_t next_count(const struct rows *r)
{
    size_t left = r->query->limit - r->op->rows, length = r->writer.length;
    if (r->query->byte_limit > length && length >= r->op->rows && r->op->rows > 0) {
        size_t room = (r->query->byte_limit - length) / (length / r->op->rows);
        left = room < left ? room : left;
    }
    return left < INT32_MAX ? left + 1 : INT32_MAX;
}

/* The cursor needs a transaction that goes over several rounds. */
static void take_through_cursor(struct rows *r, const char *sql, const pg_arguments *a)
{
    pg_text declare = {.link = r->link};
    pg_append(&declare, "DECLARE slate_list NO SCROLL CURSOR FOR %s", sql ? sql : "");
    pg_queue_sql(r->link, "BEGIN READ ONLY", NULL);
    pg_queue_sql(r->link, declare.text, a);
    size_t asked = FIRST_ROWS;
    queue_fetch(r, asked);
    pg_send(r->link);
    PQclear(pg_rows(r->link));
    PQclear(pg_rows(r->link));
    for (;;) {
        size_t before = r->seen;
        pg_expect_single(r->link);
        take_rows(r);
        if (!pg_end(r->link) || r->op->more || r->seen - before < asked)
            break;
        asked = next_count(r);
        pg_begin(r->link);
        queue_fetch(r, asked);
        pg_send(r->link);
    }
    pg_roll_back(r->link);
}

static void count_all(pg_link *link, store_op *op)
{
    PGresult *rows = pg_rows(link);
    if (rows)
        op->affected = pg_number(rows, 0, 0);
    PQclear(rows);
}

static void list(pg_link *link, store_op *op)
{
    struct rows r = {.link = link, .op = op, .query = op->query};
    pg_arguments a = {.link = link}, counted = {.link = link};
    json_writer_init(&r.writer, op->memory, 0, ROW_DEPTH, false);
    const char *sql = pg_list_sql(link, op, &a);
    if (op->query->count_all)
        pg_queue_sql(link, pg_count_sql(link, op, &counted), &counted);
    if (op->query->limit >= FIRST_ROWS && op->query->byte_limit > 0) {
        if (op->query->count_all) {
            pg_send(link);
            count_all(link, op);
            if (!pg_end(link))
                return;
            pg_begin(link);
        }
        take_through_cursor(&r, sql, &a);
    } else {
        pg_queue_sql(link, sql, &a);
        pg_send(link);
        if (op->query->count_all)
            count_all(link, op);
        pg_expect_single(link);
        take_rows(&r);
        (void)pg_end(link);
    }
    give(op, &r.writer);
    if (r.last && !keep_last(&r))
        pg_answer(op, STORE_BUSY, "There is no memory for so long an answer.");
    PQclear(r.last);
}

/* ---- All of them ---------------------------------------------------------------------------------- */

static void clear_answer(store_op *op)
{
    op->status = STORE_OK;
    op->rows = 0;
    op->more = false;
    op->bytes = op->last_id = (store_text){NULL, 0};
}

/* Only a standby, or a transaction level that is not ours, asks a reader to try again. */
static void read_alone(pg_link *link, store_op *op)
{
    for (unsigned tries = 1;; tries++) {
        clear_answer(op);
        pg_begin(link);
        if (op->kind == STORE_GET)
            get(link, op);
        else if (op->kind == STORE_LIST)
            list(link, op);
        else
            collections(link, op);
        mem_reset(link->memory);
        if (!pg_is_transient(&link->error) || tries == PG_TRIES)
            break;
        pg_pause(link, tries);
    }
    if (link->error.is != PG_NONE)
        pg_answer_error(link, op);
}

/* GETs in one round, so that none waits for another's way to the server and back. false: it failed. */
static bool get_together(pg_link *link, store_op *const ops[], size_t count)
{
    pg_begin(link);
    for (size_t i = 0; i < count; i++)
        queue_get(link, ops[i]);
    pg_send(link);
    for (size_t i = 0; i < count; i++) {
        clear_answer(ops[i]);
        take_get(link, ops[i]);
    }
    bool done = pg_end(link);
    mem_reset(link->memory);
    return done;
}

/* One that the server refuses fails a round, but not the others: each is then asked for alone. */
void pg_read(pg_link *link, store_op *const ops[], size_t count)
{
    if (count > 1 && get_together(link, ops, count))
        return;
    for (size_t i = 0; i < count; i++) {
        if (link->broken)
            pg_answer_error(link, ops[i]);
        else if (!pg_drop_late(ops[i]))
            read_alone(link, ops[i]);
    }
}
