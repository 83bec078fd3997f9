/* DELETE of a collection: only with If-Match: *, so that a path that is cut short by mistake does not
 * remove more than was meant. */
#include "condition.h"
#include "db.h"

static slate_result cleared(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)why;
    if (op->status != STORE_OK && op->status != STORE_NOT_FOUND)
        return db_answer_status(req, op);
    if (op->status == STORE_NOT_FOUND || op->affected == 0)
        return slate_answer_problem(req, 404, "collection-not-found", NULL,
                                    "There is no document in \"%s\".",
                                    slate_param(req, "collection"));
    return slate_answer_empty(req, 204);
}

slate_result db_clear(slate_request *req)
{
    if (!slate_header(req, "If-Match"))
        return slate_answer_problem(req, 428, "precondition-required", NULL,
                                    "This would remove every document of the collection; send "
                                    "If-Match: * if that is meant.");
    if (!db_collection_proceeds(req))
        return SLATE_ANSWERED;
    store_op *op = db_begin(req, STORE_CLEAR);
    return op ? store_submit(db.store, op, req, cleared) : SLATE_ANSWERED;
}
