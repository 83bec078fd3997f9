/* GET of a collection: the rows that the store has written, copied once into the answer. */
#include "list.h"

#include <stdio.h>
#include <string.h>

#include "../field.h"
#include "condition.h"
#include "cursor.h"

static void release_page(void *arg)
{
    db_list_state *list = arg;
    store_op_release(list->page);
}

/* NULL: a problem has been answered. */
static db_list_state *begin(slate_request *req)
{
    mem_context *ctx = slate_request_context(req);
    db_list_state *list = mem_alloc_array(ctx, 1, sizeof *list);
    store_op *op = list ? db_new_op(req, STORE_LIST) : NULL;
    if (!op)
        return NULL;
    list->page = op;
    list->end = (mem_callback){.run = release_page, .arg = list};
    mem_on_reset(ctx, &list->end);
    op->user = list;
    if (!db_query_begin(&list->query, op->memory, slate_param(req, "collection"))) {
        slate_answer_refused(req, &op->budget);
        return NULL;
    }
    op->query = list->query.query;
    return list;
}

typedef struct reading {
    db_query *query;
    db_fault *fault;
} reading;

static bool take_parameter(void *arg, const char *name, const char *value)
{
    reading *r = arg;
    return db_query_add(r->query, name, value, r->fault);
}

/* false: a problem has been answered. */
static bool read_parameters(slate_request *req, db_list_state *list, bool stream)
{
    db_fault fault = {.limit = 0};
    if (slate_each_query(req, take_parameter, &(reading){&list->query, &fault}) &&
        db_query_end(&list->query, stream, &fault))
        return true;
    if (fault.memory || !*fault.detail)
        slate_answer_refused(req, &list->page->budget);
    else
        db_answer_fault(req, "db-query", &fault);
    return false;
}

/* ---- The answer --------------------------------------------------------------------------------- */

static bool put_parameter(void *arg, const char *name, const char *value)
{
    char **at = arg;
    if (strcmp(name, "after") == 0)
        return true;
    *at = db_query_encode(*at, name);
    *(*at)++ = '=';
    *at = db_query_encode(*at, value);
    *(*at)++ = '&';
    return true;
}

/* The same list after the last row. */
static bool set_link(slate_request *req, const char *cursor)
{
    mem_context *scratch = slate_scratch_context(req);
    char *parameters = mem_alloc_aligned(scratch, DB_QUERY_MAX + 1, 1); /* measured when read */
    char *at = parameters;
    if (!parameters || !slate_each_query(req, put_parameter, &at))
        return false;
    *at = '\0';
    char *link = mem_printf(scratch, NULL, "</db/%s?%safter=%s>; rel=\"next\"",
                            slate_param(req, "collection"), parameters, cursor);
    return link && slate_set_header(req, "Link", link);
}

/* Of the next page, if there is one. false: a problem has been answered. */
static bool link_next(slate_request *req, const db_list_state *list)
{
    const store_op *op = list->page;
    char *cursor;
    if (!op->more)
        return true;
    switch (db_cursor_write(slate_scratch_context(req), list->query.print, op->last,
                            op->query->order_count, op->last_id, list->query.position + op->rows,
                            &cursor)) {
    case DB_CURSOR_WRITTEN:
        return set_link(req, cursor);
    case DB_CURSOR_TOO_LONG:
        slate_answer_problem(req, 422, "db-cursor", &(slate_where){.limit = DB_CURSOR_MAX},
                             "What the list is ordered by is too long in the document \"%.*s\" to "
                             "go on after it. Order by less, or ask for a stream: "
                             "Accept: application/x-ndjson.",
                             (int)op->last_id.size, op->last_id.at);
        return false;
    case DB_CURSOR_MEMORY:
        break;
    }
    return false;
}

static void set_range(slate_request *req, const db_list_state *list)
{
    const store_op *op = list->page;
    unsigned long long first = list->query.position, count = op->affected;
    char range[80];
    if (op->rows > 0)
        snprintf(range, sizeof range, "items %llu-%llu/%llu", first, first + op->rows - 1, count);
    else
        snprintf(range, sizeof range, "items */%llu", count);
    slate_set_header(req, "Content-Range", range);
    slate_set_header(req, "Preference-Applied", "count=exact");
}

static slate_result answer_rows(slate_request *req, const db_list_state *list)
{
    const store_op *op = list->page;
    if (!link_next(req, list))
        return SLATE_ANSWERED;
    if (op->query->count_all)
        set_range(req, list);
    size_t size = op->bytes.size + 2;
    char *text = mem_alloc_aligned(slate_request_context(req), size, 1);
    if (!text)
        return SLATE_ANSWERED;
    text[0] = '[';
    if (op->bytes.size > 0)
        memcpy(text + 1, op->bytes.at, op->bytes.size);
    text[size - 1] = ']';
    return slate_answer_bytes(req, 200, "application/json", text, size);
}

static slate_result listed(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    db_list_state *list = op->user;
    (void)why;
    if (op->status != STORE_OK)
        return db_answer_status(req, op);
    slate_set_header(req, "Vary", "Accept");
    return op->query->lines ? db_stream(req, list) : answer_rows(req, list);
}

slate_result db_list(slate_request *req)
{
    const char *accept = slate_header(req, "Accept");
    unsigned json = field_quality(accept, "application/json");
    unsigned lines = field_quality(accept, "application/x-ndjson");
    if (json == 0 && lines == 0)
        return slate_answer_problem(req, 406, "not-acceptable", NULL,
                                    "A list can be had as application/json or as "
                                    "application/x-ndjson, but Accept is \"%.200s\".",
                                    accept);
    bool stream = lines > json;
    db_list_state *list = begin(req);
    if (!list || !read_parameters(req, list, stream) || !db_collection_proceeds(req))
        return SLATE_ANSWERED;
    store_query *query = list->page->query;
    query->lines = stream;
    query->byte_limit = stream && db.page_bytes > DB_STREAM_BYTES ? DB_STREAM_BYTES : db.page_bytes;
    query->count_all = !stream && field_prefers(slate_header(req, "Prefer"), "count", "exact");
    if (stream) {
        list->left = query->limit;
        query->limit = list->left < DB_STREAM_ROWS ? list->left : DB_STREAM_ROWS;
    }
    return store_submit(db.store, list->page, req, listed);
}
