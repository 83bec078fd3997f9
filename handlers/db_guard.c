/* Optimistic writing: read, check, write under the condition that nothing has changed, or begin anew. */
#include "db.h"
#include "db_condition.h"

#define TRIES_MAX 20 /* others may be faster so many times */

/* In the request context. */
typedef struct attempt {
    const db_guard *guard;
    unsigned tries;
} attempt;

static slate_result read_again(slate_request *req, attempt *a);

static slate_result written(slate_request *req, void *arg, slate_wake_reason why)
{
    store_op *op = arg;
    attempt *a = op->user;
    (void)why;
    if (op->status == STORE_OK)
        return a->guard->done(req, op);
    if (op->status == STORE_PRECONDITION || op->status == STORE_NOT_FOUND)
        return read_again(req, a);
    return db_answer_status(req, op);
}

static slate_result write_after(slate_request *req, attempt *a, const store_op *read)
{
    store_op *op = db_begin(req, a->guard->kind);
    if (!op)
        return SLATE_ANSWERED;
    op->user = a;
    op->condition = (store_condition){.is = STORE_ABSENT};
    if (read->status == STORE_OK) {
        uint64_t *revision = mem_copy(op->memory, &read->revision, sizeof read->revision);
        if (!revision)
            return slate_answer_no_memory(req);
        op->condition = (store_condition){STORE_ONE_OF, revision, 1};
    }
    if (a->guard->make && !a->guard->make(req, read, op))
        return SLATE_ANSWERED;
    return store_submit(db.store, op, req, written);
}

static slate_result was_read(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    attempt *a = op->user;
    db_conditions conditions;
    db_fault fault = {.limit = 0};
    (void)why;
    if (op->status != STORE_OK && !(op->status == STORE_NOT_FOUND && a->guard->creates))
        return db_answer_status(req, op);
    uint64_t revision = op->status == STORE_OK ? op->revision : 0;
    if (!db_conditions_of(req, &conditions, &fault))
        return db_answer_fault(req, "etag-syntax", &fault);
    bool unconditional = !db_conditions_bind(&conditions);
    if ((db.require_precondition && unconditional && revision != 0) ||
        db_conditions_check(&conditions, revision, op->modified, false) != DB_PROCEED)
        return db_answer_precondition(req, revision);
    return write_after(req, a, op);
}

static slate_result read_again(slate_request *req, attempt *a)
{
    if (a->tries++ == TRIES_MAX) {
        slate_set_header(req, "Retry-After", "1");
        return slate_answer_problem(req, 503, "store-busy", NULL,
                                    "Others have changed the document %d times while this change "
                                    "was made; nothing was written.",
                                    TRIES_MAX);
    }
    store_op *op = db_begin(req, STORE_GET);
    if (!op)
        return SLATE_ANSWERED;
    op->user = a;
    return store_submit(db.store, op, req, was_read);
}

slate_result db_guard_write(slate_request *req, const db_guard *guard)
{
    attempt *a = mem_alloc_array(slate_request_context(req), 1, sizeof *a);
    if (!a)
        return SLATE_ANSWERED;
    a->guard = guard;
    return read_again(req, a);
}
