/* PUT and DELETE of a document. The store checks the condition as it writes; the few that it cannot
 * check (a date, or both If-Match and If-None-Match) are checked against a document that is read
 * first. */
#include "condition.h"
#include "db.h"

/* The conditions of a write, as the store checks them. */
typedef enum { FOR_STORE, FOR_GUARD, REFUSED } way;

static way choose_way(slate_request *req, store_op *op)
{
    db_conditions conditions;
    db_fault fault = {.limit = 0};
    if (!db_conditions_of(req, &conditions, &fault)) {
        db_answer_fault(req, "etag-syntax", &fault);
        return REFUSED;
    }
    if (!db_conditions_for_store(&conditions, op->memory, &op->condition, &fault)) {
        if (fault.memory)
            slate_answer_refused(req, &op->budget);
        return fault.memory ? REFUSED : FOR_GUARD;
    }
    /* What would change a document without any condition must not find one. */
    if (db.require_precondition && !db_conditions_bind(&conditions))
        op->condition.is = op->kind == STORE_PUT ? STORE_ABSENT : STORE_ONE_OF;
    return FOR_STORE;
}

/* ---- PUT ---------------------------------------------------------------------------------------- */

/* With `read`, it may have to be made again: then the body must stay. */
static bool make_document(slate_request *req, const store_op *read, store_op *op)
{
    size_t size;
    const char *body = slate_body(req, &size);
    json_t *tree = read ? slate_read_json(req, body, size) : slate_body_json(req);
    store_document *document = mem_alloc_array(op->memory, 1, sizeof *document);
    if (!tree)
        return false;
    if (!document) {
        slate_answer_refused(req, &op->budget);
        return false;
    }
    document->id = op->id;
    op->documents = document;
    op->count = 1;
    return db_store_json(req, op, tree, NULL, &document->json);
}

static slate_result was_put(slate_request *req, const store_op *op)
{
    const char *id = slate_param(req, "id");
    if (op->created)
        db_set_location(req, id);
    return db_answer_written(req, op->created ? 201 : 200, id, op->revision, op->documents[0].json);
}

static slate_result put(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)why;
    return op->status == STORE_OK ? was_put(req, op) : db_answer_status(req, op);
}

slate_result db_put(slate_request *req)
{
    static const db_guard guard = {STORE_PUT, true, make_document, was_put};
    store_op *op = db_begin(req, STORE_PUT);
    switch (op ? choose_way(req, op) : REFUSED) {
    case FOR_STORE:
        return make_document(req, NULL, op) ? store_submit(db.store, op, req, put) : SLATE_ANSWERED;
    case FOR_GUARD:
        return db_guard_write(req, &guard);
    default:
        return SLATE_ANSWERED;
    }
}

/* ---- DELETE ------------------------------------------------------------------------------------- */

static slate_result was_deleted(slate_request *req, const store_op *op)
{
    (void)op;
    return slate_answer_empty(req, 204);
}

static slate_result deleted(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)why;
    if (op->status == STORE_OK)
        return was_deleted(req, op);
    /* RFC 9110, section 13.2.1: a condition does not turn 404 into something else. */
    if (op->status == STORE_PRECONDITION && op->revision == 0)
        return db_answer_not_found(req);
    return db_answer_status(req, op);
}

slate_result db_delete(slate_request *req)
{
    static const db_guard guard = {STORE_DELETE, false, NULL, was_deleted};
    store_op *op = db_begin(req, STORE_DELETE);
    switch (op ? choose_way(req, op) : REFUSED) {
    case FOR_STORE:
        return store_submit(db.store, op, req, deleted);
    case FOR_GUARD:
        return db_guard_write(req, &guard);
    default:
        return SLATE_ANSWERED;
    }
}
