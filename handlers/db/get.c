/* Reading one document, and the list of collections. */
#include "../date.h"
#include "condition.h"
#include "db.h"

static slate_result answer_document(slate_request *req, const store_op *op)
{
    db_fault fault = {.limit = 0};
    db_conditions conditions;
    char date[DATE_MAX];
    if (!db_conditions_of(req, &conditions, &fault))
        return db_answer_fault(req, "etag-syntax", &fault);
    db_verdict verdict = db_conditions_check(&conditions, op->revision, op->modified, true);
    if (verdict == DB_PRECONDITION_FAILED)
        return db_answer_precondition(req, op->revision);
    db_set_etag(req, op->revision);
    if (date_print(op->modified, date))
        slate_set_header(req, "Last-Modified", date);
    if (verdict == DB_NOT_MODIFIED)
        return slate_answer_empty(req, 304);
    return db_answer_copy(req, 200, op->bytes);
}

static slate_result got(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)why; /* the status says it */
    return op->status == STORE_OK ? answer_document(req, op) : db_answer_status(req, op);
}

slate_result db_get(slate_request *req)
{
    store_op *op = db_begin(req, STORE_GET);
    return op ? store_submit(db.store, op, req, got) : SLATE_ANSWERED;
}

static slate_result counted(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)why;
    return op->status == STORE_OK ? db_answer_copy(req, 200, op->bytes) : db_answer_status(req, op);
}

slate_result db_collections(slate_request *req)
{
    store_op *op = db_begin(req, STORE_COLLECTIONS);
    return op ? store_submit(db.store, op, req, counted) : SLATE_ANSWERED;
}
