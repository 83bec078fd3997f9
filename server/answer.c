/* slate.h, the handler's side: what a handler may ask of its request, and the ways to answer. */
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

mem_context *slate_request_context(slate_request *req)
{
    return &req->request;
}

mem_context *slate_scratch_context(slate_request *req)
{
    return &req->worker->scratch;
}

slate_method slate_request_method(const slate_request *req)
{
    return req->verb;
}

const char *slate_path(const slate_request *req)
{
    return req->path;
}

const char *slate_param(const slate_request *req, const char *name)
{
    unsigned param = 0;
    size_t length = strlen(name);
    for (unsigned i = 0; i < req->route->segments; i++) {
        if (!req->route->segment[i].param)
            continue;
        if (req->route->segment[i].length == length &&
            memcmp(req->route->segment[i].text, name, length) == 0)
            return req->params[param];
        param++;
    }
    return NULL;
}

const char *slate_query(slate_request *req, const char *name)
{
    return http_query(req, name);
}

bool slate_each_query(slate_request *req, slate_query_visitor *visit, void *arg)
{
    return http_each_query(req, visit, arg);
}

const char *slate_header(slate_request *req, const char *name)
{
    return http_header(req, name);
}

const char *slate_body(slate_request *req, size_t *ret_size)
{
    *ret_size = req->body_size;
    return req->body ? req->body : "";
}

slate_result slate_answer_unreadable(slate_request *req, const json_read_problem *problem)
{
    static const struct {
        int status;
        const char *type;
    } answers[] = {
        [JSON_READ_SYNTAX] = {400, "json-syntax"},
        [JSON_READ_DUPLICATE] = {400, "json-duplicate-key"},
        [JSON_READ_REFUSED] = {422, "json-refused"},
    };
    if (problem->status == JSON_READ_MEMORY)
        return slate_answer_no_memory(req);
    slate_where where = {
        .line = problem->line, .column = problem->column, .offset = problem->offset};
    return slate_answer_problem(req, answers[problem->status].status, answers[problem->status].type,
                                &where, "%s", problem->detail);
}

json_t *slate_read_json(slate_request *req, const char *text, size_t size)
{
    json_read_problem problem;
    json_t *tree = json_read(text, size, request_server(req)->opts.json_depth, &problem);
    if (tree)
        return slate_own(req, tree);
    slate_answer_unreadable(req, &problem);
    return NULL;
}

json_t *slate_body_json(slate_request *req)
{
    json_t *tree = slate_read_json(req, req->body ? req->body : "", req->body_size);
    /* The tree has its own copies: from here on the text would only be held for nothing. */
    request_drop_body(req);
    return tree;
}

json_t *slate_own(slate_request *req, json_t *tree)
{
    if (!tree)
        return NULL;
    owned_tree *owned = mem_alloc(&req->worker->scratch, sizeof *owned);
    if (!owned) {
        json_bridge_release(tree);
        return NULL;
    }
    *owned = (owned_tree){tree, req->trees};
    req->trees = owned;
    return tree;
}

bool slate_set_header(slate_request *req, const char *name, const char *value)
{
    static const char *const framing[] = {"content-length", "transfer-encoding", "connection",
                                          "date"};
    for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
        if ((name[0] | 0x20) == framing[i][0] && strcasecmp(name, framing[i]) == 0)
            return false;
    /* A value must not become a header of its own, and libmicrohttpd takes none that is empty. */
    size_t length = strcspn(value, "\r\n");
    if (length == 0 || value[length] != '\0')
        return false;
    answer_header *header = mem_alloc(&req->request, sizeof *header);
    char *copy = header ? mem_copy_string(&req->request, value, length) : NULL;
    if (!copy)
        return false;
    *header = (answer_header){name, copy, NULL};
    *req->last_header = header;
    req->last_header = &header->next;
    return true;
}

slate_result slate_answer_bytes(slate_request *req, int status, const char *media_type,
                                const void *bytes, size_t size)
{
    req->answered = true;
    req->status = status;
    req->answer_type = media_type;
    req->answer_bytes = bytes;
    req->answer_size = size;
    req->produce = NULL;
    return SLATE_ANSWERED;
}

slate_result slate_answer_stream(slate_request *req, int status, const char *media_type,
                                 slate_producer *produce, void *arg)
{
    slate_answer_bytes(req, status, media_type, NULL, 0);
    req->produce = produce;
    req->produce_arg = arg;
    return SLATE_ANSWERED;
}

/* The budget is marked, if it is not yet: http.c sends a ready-made answer then. */
slate_result slate_answer_no_memory(slate_request *req)
{
    if (req->budget.refused == MEM_GRANTED)
        req->budget.refused = MEM_NO_SYSTEM;
    return SLATE_ANSWERED;
}

mem_context *slate_context_create(const slate_request *req, const char *name)
{
    mem_blocks *shared = request_server(req)->shared_blocks;
    return shared ? mem_arena_create(NULL, name, shared) : mem_heap_create(NULL, name);
}

void slate_budget_init(const slate_request *req, mem_budget *ret_budget)
{
    mem_budget_init(ret_budget, req->budget.limit, req->budget.total);
}

slate_result slate_answer_refused(slate_request *req, const mem_budget *budget)
{
    if (req->budget.refused == MEM_GRANTED)
        req->budget.refused = budget->refused;
    return slate_answer_no_memory(req);
}

void slate_changed(slate_request *req)
{
    req->changed = true;
}

slate_result slate_answer_empty(slate_request *req, int status)
{
    return slate_answer_bytes(req, status, NULL, NULL, 0);
}

json_writer *slate_writer(slate_request *req, size_t expected)
{
    json_writer_init(&req->writer, &req->request, expected, JSON_WRITE_DEPTH_MAX, false);
    return &req->writer;
}

#define SPARE_KEPT 512u /* bytes that are not worth a call */

/* What was reserved and not needed is given back: the answer may wait for a slow reader. */
static void trim_answer(json_writer *w)
{
    size_t spare = w->capacity - w->length;
    if (spare <= w->capacity / 8 || spare < SPARE_KEPT)
        return;
    char *text = mem_resize(w->ctx, w->text, w->capacity, w->length);
    if (text) {
        w->text = text;
        w->capacity = w->length;
    }
}

static slate_result answer_written(slate_request *req, int status, const char *media_type)
{
    json_writer *w = &req->writer;
    switch (w->failed) {
    case JSON_WRITE_OK:
        trim_answer(w);
        return slate_answer_bytes(req, status, media_type, w->text, w->length);
    case JSON_WRITE_MEMORY: /* the budget is marked: a ready-made answer is sent */
        return SLATE_ANSWERED;
    case JSON_WRITE_DEPTH:
        return slate_answer_problem(req, 422, "json-refused", &(slate_where){.limit = w->max_depth},
                                    "The result is nested deeper than %u levels.", w->max_depth);
    case JSON_WRITE_VALUE:
        return slate_answer_problem(req, 500, "json-value", NULL,
                                    "The answer holds a value that JSON cannot express.");
    }
    return SLATE_ANSWERED;
}

slate_result slate_answer_written(slate_request *req, int status)
{
    return answer_written(req, status, "application/json");
}

/* Most answers that carry a tree are about as long as the body that it came from. A guess must not
 * use up the budget, or the refusal would stick: an arena's block may be twice as large as what is
 * asked for, and half of what is left is for other things. */
static size_t guess_length(const slate_request *req)
{
    const mem_budget *budget = &req->budget;
    size_t most = budget->limit > 0 ? (budget->limit - budget->used) / 4 : SIZE_MAX;
    return req->received < most ? (size_t)req->received : most;
}

slate_result slate_answer_json(slate_request *req, int status, const json_t *tree)
{
    json_writer_init(&req->writer, &req->request, guess_length(req),
                     request_server(req)->opts.json_depth, slate_query(req, "pretty") != NULL);
    json_write_tree(&req->writer, tree);
    return answer_written(req, status, "application/json");
}

static void write_where(json_writer *w, const slate_where *where)
{
    if (where->json_pointer) {
        json_write_literal_key(w, "json_pointer");
        json_write_string(w, where->json_pointer, strlen(where->json_pointer));
    }
    if (where->line > 0) {
        json_write_literal_key(w, "line");
        json_write_integer(w, where->line);
        json_write_literal_key(w, "column");
        json_write_integer(w, where->column);
        json_write_literal_key(w, "offset");
        json_write_integer(w, (int64_t)where->offset);
    }
    if (where->limit > 0) {
        json_write_literal_key(w, "limit");
        json_write_integer(w, (int64_t)where->limit);
    }
}

/* A detail that quotes a client's bytes and is not UTF-8 (or was cut within a character). */
static void make_quotable(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0x80 || (unsigned char)text[i] < 0x20)
            text[i] = '?';
}

slate_result slate_answer_problem(slate_request *req, int status, const char *type,
                                  const slate_where *where, const char *format, ...)
{
    char detail[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    size_t detail_length = length < 0 ? 0 : (size_t)length;
    if (detail_length >= sizeof detail)
        detail_length = sizeof detail - 1;

    json_writer w; /* not the request's: that may hold the half-written answer */
    for (bool quoted = false;; quoted = true) {
        const char *title = problem_title(type, status);
        json_writer_init(&w, &req->request, 512, JSON_WRITE_DEPTH_MAX, false);
        json_write_begin_object(&w);
        json_write_literal_key(&w, "type");
        const char *uri = mem_printf(&req->request, NULL, "/problems/%s", type);
        if (!uri)
            return SLATE_ANSWERED; /* refused: a ready-made answer is sent */
        json_write_string(&w, uri, strlen(uri));
        json_write_literal_key(&w, "title");
        json_write_string(&w, title, strlen(title));
        json_write_literal_key(&w, "status");
        json_write_integer(&w, status);
        json_write_literal_key(&w, "detail");
        json_write_string(&w, detail, detail_length);
        json_write_literal_key(&w, "instance");
        json_write_string(&w, request_id(req), strlen(request_id(req)));
        if (where)
            write_where(&w, where);
        json_write_end_object(&w);
        if (w.failed != JSON_WRITE_VALUE || quoted)
            break;
        make_quotable(detail, detail_length);
    }
    if (w.failed != JSON_WRITE_OK)
        return SLATE_ANSWERED;
    return slate_answer_bytes(req, status, "application/problem+json", w.text, w.length);
}
