/* Many documents in one body. Of NDJSON one tree is in memory at a time. */
#include "bulk.h"

#include <stdio.h>
#include <string.h>

static bool too_many(slate_request *req)
{
    slate_answer_problem(req, 413, "bulk-too-large", &(slate_where){.limit = DB_BULK_MAX},
                         "There are more than %d documents, the limit of one request.",
                         DB_BULK_MAX);
    return false;
}

static bool none(slate_request *req)
{
    slate_answer_problem(req, 400, "bulk-empty", NULL, "There is no document in the body.");
    return false;
}

/* Room for documents. NULL: a problem has been answered. */
static store_document *make_room(slate_request *req, store_op *op, size_t count)
{
    store_document *documents = mem_alloc_array(op->memory, count, sizeof *documents);
    if (!documents)
        slate_answer_refused(req, &op->budget);
    op->documents = documents;
    return documents;
}

bool db_bulk_array(slate_request *req, store_op *op, const json_t *array)
{
    size_t count = json_array_size(array);
    if (count == 0)
        return none(req);
    if (count > DB_BULK_MAX)
        return too_many(req);
    store_document *documents = make_room(req, op, count);
    for (size_t i = 0; documents && i < count; i++) {
        char pointer[24];
        snprintf(pointer, sizeof pointer, "/%zu", i);
        const slate_where place = {.json_pointer = pointer};
        if (!db_store_json(req, op, json_array_get(array, i), &place, &documents[i].json))
            return false;
    }
    op->count = count;
    return documents != NULL;
}

/* ---- Lines -------------------------------------------------------------------------------------- */

typedef struct lines {
    slate_request *req;
    store_op *op;
    store_document *documents;
    const char *text;
    mem_context *ctx; /* of one line */
} lines;

/* In the words of the line's own problem, but counted from the start of the body. */
static bool answer_bad_line(const lines *l, int line, size_t start, json_read_problem problem)
{
    problem.line = line;
    problem.offset += start;
    slate_answer_unreadable(l->req, &problem);
    return false;
}

static bool is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* The line at `start`, in a context of its own. */
static bool take_line(lines *l, int line, size_t start, size_t size)
{
    json_read_problem problem;
    mem_context *before = mem_switch(l->ctx);
    json_t *tree = json_read(l->text + start, size, db.json_depth, &problem);
    const slate_where place = {.line = line, .column = 1, .offset = start};
    bool stored =
        tree && db_store_json(l->req, l->op, tree, &place, &l->documents[l->op->count].json);
    json_bridge_release(tree);
    mem_switch(before);
    mem_reset(l->ctx);
    if (!tree)
        return answer_bad_line(l, line, start, problem);
    l->op->count++;
    return stored;
}

static size_t line_length(const char *at, size_t left)
{
    const char *end = memchr(at, '\n', left);
    return end ? (size_t)(end - at) : left;
}

/* 0: none; beyond DB_BULK_MAX it stops counting. */
static size_t count_lines(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t at = 0, length; at < size && count <= DB_BULK_MAX; at += length + 1) {
        length = line_length(text + at, size - at);
        count += !is_blank(text + at, length);
    }
    return count;
}

bool db_bulk_lines(slate_request *req, store_op *op, const char *text, size_t size)
{
    size_t count = count_lines(text, size);
    if (count == 0)
        return none(req);
    if (count > DB_BULK_MAX)
        return too_many(req);
    lines l = {.req = req, .op = op, .text = text, .documents = make_room(req, op, count)};
    if (!l.documents)
        return false;
    l.ctx = mem_child_create(slate_scratch_context(req), "line");
    if (!l.ctx) {
        slate_answer_no_memory(req);
        return false;
    }
    bool good = true;
    int line = 1;
    for (size_t at = 0, length; at < size && good; at += length + 1, line++) {
        length = line_length(text + at, size - at);
        good = is_blank(text + at, length) || take_line(&l, line, at, length);
    }
    mem_delete(l.ctx);
    return good;
}
