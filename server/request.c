/* The life of a request: a context of its own and one that its worker lends, one budget, one answer.
 *
 *   begin > expect_body > receive... > run > (wait > go_on)... > (the answer is sent) > end
 *
 * The request context holds body and answer until the answer has been sent; the scratch context
 * holds the tree and is reset before the first byte goes out, so that a slow reader pins only its
 * own bytes. Nothing here knows which allocator runs, except the one place that chooses. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "internal.h"
#include "log.h"

/* In arena mode each request carries the first block of its context: small ones need no other. */
#define FIRST_BLOCK 1088u
static_assert(sizeof(slate_request) % MEM_ALIGN == 0, "the first block is aligned");
static_assert(FIRST_BLOCK % MEM_ALIGN == 0, "pool cells are aligned");

/* A body of unknown length starts with this much and doubles. */
#define FIRST_BODY 4096u

size_t request_cell_size(alloc_mode mode)
{
    return sizeof(slate_request) + (mode == ALLOC_ARENA ? FIRST_BLOCK : 0);
}

server *request_server(const slate_request *req)
{
    return req->worker->owner;
}

slate_request *request_begin(connection *conn, struct MHD_Connection *mhd)
{
    worker *w = conn->worker;
    server *s = w->owner;
    size_t size = request_cell_size(s->opts.alloc);
    slate_request *req = w->requests ? mem_pool_take(w->requests) : malloc(size);
    if (!req)
        return NULL;
    memset(req, 0, sizeof *req);
    req->worker = w;
    req->conn = conn;
    req->mhd = mhd;
    req->last_header = &req->headers;
    req->begun_ns = clock_ns();
    if (s->opts.alloc == ALLOC_ARENA)
        mem_arena_init(&req->request, &w->context, "request", w->blocks, req + 1, FIRST_BLOCK);
    else
        mem_heap_init(&req->request, &w->context, "request");
    /* The admin listener must answer when the public one has used up everything, and its answers
     * grow with the workers, not with what a client sends. */
    mem_budget_init(&req->budget, w->admin ? 0 : s->opts.request_memory,
                    w->admin ? NULL : &s->in_flight_memory);
    mem_set_budget(&req->request, &req->budget);
    conn->request = req;
    counter_add(&w->begun, 1);
    return req;
}

/* A route that takes no body has it read past, as one whose answer is known already. Without a route
 * it is what follows broken framing, if the library, once told to stop, has dropped the answer. */
static bool keeps_body(const slate_request *req)
{
    return req->early == EARLY_NONE && req->budget.refused == MEM_GRANTED && req->route &&
           req->route->is->consumes[req->verb];
}

bool request_expect_body(slate_request *req, uint64_t length)
{
    size_t limit = request_server(req)->opts.body_limit;
    if (length == 0 || !keeps_body(req))
        return true;
    size_t capacity = length == UNKNOWN_LENGTH ? FIRST_BODY : (size_t)length;
    if (capacity > limit)
        capacity = limit;
    req->body = mem_alloc(&req->request, capacity);
    req->body_capacity = req->body ? capacity : 0;
    return req->body != NULL;
}

void request_drop_body(slate_request *req)
{
    if (req->body)
        mem_free(&req->request, req->body, req->body_capacity);
    req->body = NULL;
    req->body_size = req->body_capacity = 0;
}

/* Makes room for `size` more bytes. false: over the limit, or refused. */
static bool grow_body(slate_request *req, size_t size)
{
    size_t limit = request_server(req)->opts.body_limit;
    if (size > limit - req->body_size) {
        req->early = EARLY_TOO_LARGE;
        return false;
    }
    size_t needed = req->body_size + size;
    if (needed <= req->body_capacity)
        return true;
    size_t capacity = req->body_capacity > limit / 2 ? limit : 2 * req->body_capacity;
    if (capacity < needed)
        capacity = needed;
    char *body = mem_resize(&req->request, req->body, req->body_capacity, capacity);
    if (!body)
        return false;
    req->body = body;
    req->body_capacity = capacity;
    return true;
}

/* What cannot be kept is drained, so that the answer can be read: libmicrohttpd takes no answer in
 * the middle of a body. Beyond a second body limit the connection is given up. */
bool request_receive(slate_request *req, const char *data, size_t size)
{
    size_t limit = request_server(req)->opts.body_limit;
    req->received += size;
    if (keeps_body(req) && grow_body(req, size)) {
        memcpy(req->body + req->body_size, data, size);
        req->body_size += size;
        return true;
    }
    req->drained += req->body_size + size;
    request_drop_body(req);
    if (req->early == EARLY_NONE && req->drained > limit)
        req->early = EARLY_TOO_LARGE;
    return req->drained <= 2 * (uint64_t)limit;
}

/* The header that says which media types a method takes: RFC 5789, section 2.2; the W3C's
 * Accept-Post; and for others RFC 9110, section 12.5.1. */
static const char *accept_header(slate_method verb)
{
    return verb == SLATE_PATCH ? "Accept-Patch" : verb == SLATE_POST ? "Accept-Post" : "Accept";
}

static void answer_media_type(slate_request *req)
{
    const char *consumes = req->route->is->consumes[req->verb];
    slate_set_header(req, accept_header(req->verb), consumes);
    slate_answer_problem(req, 415, "media-type", NULL,
                         "The body is \"%.100s\"; accepted are: %s, in UTF-8.",
                         req->media_type ? req->media_type : "of no stated type", consumes);
}

static void answer_options(slate_request *req)
{
    const route *r = req->route;
    slate_set_header(req, "Allow", r ? r->allow : "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    if (r && r->is->on[SLATE_PATCH] && r->is->consumes[SLATE_PATCH])
        slate_set_header(req, "Accept-Patch", r->is->consumes[SLATE_PATCH]);
    slate_answer_empty(req, 204);
}

static void answer_early(slate_request *req)
{
    const route *r = req->route;
    switch (req->early) {
    case EARLY_NONE:
        break;
    case EARLY_NOT_FOUND:
        slate_answer_problem(req, 404, "not-found", NULL, "There is nothing at \"%.200s\".",
                             req->path);
        break;
    case EARLY_NOT_ALLOWED:
        slate_set_header(req, "Allow", r->allow);
        slate_answer_problem(req, 405, "method-not-allowed", NULL,
                             "%.40s is not possible here; allowed are %s.", req->method, r->allow);
        break;
    case EARLY_OPTIONS:
        answer_options(req);
        break;
    case EARLY_MEDIA_TYPE:
        answer_media_type(req);
        break;
    case EARLY_EXPECTATION:
        slate_answer_problem(req, 417, "expectation", NULL,
                             "The only expectation that can be met is 100-continue.");
        break;
    case EARLY_TOO_LARGE: {
        size_t limit = request_server(req)->opts.body_limit;
        slate_answer_problem(req, 413, "body-too-large", &(slate_where){.limit = limit},
                             "The body is larger than %zu bytes, the limit of this server.", limit);
        break;
    }
    }
}

static void release_trees(slate_request *req)
{
    for (owned_tree *t = req->trees; t; t = t->next)
        json_bridge_release(t->tree);
    req->trees = NULL;
    assert(json_bridge_outstanding() == 0 && "a handler made a tree and did not slate_own it");
}

/* Lends the worker's scratch context to the request. Returns what was current before. */
static mem_context *open_scratch(slate_request *req)
{
    mem_attach(&req->worker->scratch, &req->request);
    return mem_switch(&req->worker->scratch);
}

static void close_scratch(slate_request *req, mem_context *before)
{
    release_trees(req);
    mem_switch(before);
    mem_detach(&req->worker->scratch);
}

/* After a handler or a continuation. false: the request waits. */
static bool settle(slate_request *req, slate_result result, mem_context *before)
{
    bool granted = req->budget.refused == MEM_GRANTED;
    if (result == SLATE_SUSPENDED && req->wait && granted) {
        close_scratch(req, before);
        return false;
    }
    if (!req->answered && granted)
        slate_answer_problem(req, 500, "no-answer", NULL, "The handler gave no answer.");
    close_scratch(req, before);
    wait_abandon(req);
    request_drop_body(req);
    return true;
}

bool request_run(slate_request *req)
{
    mem_context *before = open_scratch(req);
    slate_result result = SLATE_ANSWERED;
    if (req->budget.refused == MEM_GRANTED) {
        if (req->early != EARLY_NONE)
            answer_early(req);
        else
            result = req->route->is->on[req->verb](req);
    }
    return settle(req, result, before);
}

bool request_go_on(slate_request *req, const awakening *next)
{
    mem_context *before = open_scratch(req);
    return settle(req, next->then(req, next->arg, next->why), before);
}

slate_stream_state request_produce(slate_request *req, char *into, size_t room, size_t *ret_size,
                                   slate_wake_reason why)
{
    *ret_size = 0;
    mem_context *before = open_scratch(req);
    slate_stream_state state = req->produce(req, req->produce_arg, into, room, ret_size, why);
    close_scratch(req, before);
    return state;
}

void request_end(slate_request *req, bool sent, int64_t now_ns)
{
    worker *w = req->worker;
    server *s = w->owner;
    if (req->method_id == METHOD_HEAD)
        req->answer_size = 0; /* it was not sent */
    if (!w->admin)
        metrics_count(req, now_ns);
    if (s->opts.access_log != ACCESS_OFF && !w->admin)
        access_log(req, now_ns, sent);
    if (!sent)
        counter_add(&w->aborted, 1);
    wait_abandon(req);
    req->conn->request = NULL;
    mem_delete(&req->request);
    if (w->requests)
        mem_pool_give(w->requests, req);
    else
        free(req);
    counter_add(&w->completed, 1);
}

size_t requests_live_bytes(server *s)
{
    return __atomic_load_n(&s->in_flight_memory.used, __ATOMIC_RELAXED);
}

const char *request_id(slate_request *req)
{
    if (req->id)
        return req->id;
    worker *w = req->worker;
    uint64_t n = (w->next_id++ << 8 | (w->number & 0xff)) ^ w->id_seed;
    req->id = mem_printf(&req->request, NULL, "%016llx", (unsigned long long)n);
    return req->id ? req->id : "-";
}
