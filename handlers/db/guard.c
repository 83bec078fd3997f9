/* Optimistic writing: read, check, write under the condition that nothing has changed, or begin anew. */
#include "condition.h"
#include "db.h"

#define TRIES_MAX 20 /* others may be faster so many times */

/* In the request context. */
typedef struct attempt {
    const db_guard *guard;
    unsigned tries;
    store_op *op;     /* the operation at hand; ours */
    mem_callback end; /* releases it with the request */
} attempt;

static slate_result read_again(slate_request *req, attempt *a);

static void release(void *arg)
{
    attempt *a = arg;
    store_op_release(a->op);
}

/* The next operation, in the time that is left for all of them. NULL: a problem has been answered. */
static store_op *next_op(slate_request *req, attempt *a, store_kind kind)
{
    store_op *op = db_new_op(req, kind);
    if (!op)
        return NULL;
    op->user = a;
    op->until_ms = a->op ? a->op->until_ms : 0;
    return op;
}

static slate_result submit(slate_request *req, attempt *a, store_op *op, slate_continuation *then)
{
    store_op_release(a->op);
    a->op = op;
    return store_submit(db.store, op, req, then);
}

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

/* Makes of what has been read what is to be written. false: a problem has been answered. */
static bool make(slate_request *req, const attempt *a, store_op *op)
{
    const store_op *read = a->op;
    op->condition = (store_condition){.is = STORE_ABSENT};
    if (read->status == STORE_OK) {
        uint64_t *revision = mem_copy(op->memory, &read->revision, sizeof read->revision);
        op->condition = (store_condition){STORE_ONE_OF, revision, 1};
        if (!revision) {
            slate_answer_refused(req, &op->budget);
            return false;
        }
    }
    return !a->guard->make || a->guard->make(req, read, op);
}

static slate_result write_after(slate_request *req, attempt *a)
{
    store_op *op = next_op(req, a, a->guard->kind);
    if (op && make(req, a, op))
        return submit(req, a, op, written);
    store_op_release(op);
    return SLATE_ANSWERED;
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
    return write_after(req, a);
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
    store_op *op = next_op(req, a, STORE_GET);
    return op ? submit(req, a, op, was_read) : SLATE_ANSWERED;
}

slate_result db_guard_write(slate_request *req, const db_guard *guard)
{
    attempt *a = mem_alloc_array(slate_request_context(req), 1, sizeof *a);
    if (!a)
        return SLATE_ANSWERED;
    a->guard = guard;
    a->end = (mem_callback){.run = release, .arg = a};
    mem_on_reset(slate_request_context(req), &a->end);
    return read_again(req, a);
}
