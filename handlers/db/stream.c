/* A list as NDJSON, of any length: a page of rows is read when the one before has been taken, so that
 * one page is in memory at a time, whoever reads how slowly. */
#include "list.h"

#include <stdatomic.h>
#include <string.h>

#include "../../server/clock.h"
#include "../../server/log.h"

#define LOG_EVERY_MS 1000

/* The client sees that it is not whole, but not why. One line a second, of whichever stream. */
static slate_stream_state break_off(const char *why)
{
    static _Atomic int64_t quiet_until;
    int64_t now = clock_ms(), until = atomic_load(&quiet_until);
    if (now >= until && atomic_compare_exchange_strong(&quiet_until, &until, now + LOG_EVERY_MS))
        log_warning("store: a list was broken off in the middle: %s", why);
    return SLATE_STREAM_BROKEN;
}

/* Asks for the page after the one at hand. false: no memory. */
static bool next_page(slate_request *req, db_list_state *list)
{
    store_op *op = db_new_op(req, STORE_LIST), *done = list->page;
    if (!op)
        return false;
    op->query = db_query_copy(op->memory, done->query);
    if (!op->query || !db_query_continue(op->memory, op->query, done)) {
        store_op_release(op);
        return false;
    }
    op->query->limit = list->left < DB_STREAM_ROWS ? list->left : DB_STREAM_ROWS;
    store_op_release(done);
    list->page = op;
    list->sent = 0;
    return store_submit(db.store, op, req, NULL) == SLATE_SUSPENDED;
}

static slate_stream_state produce(slate_request *req, void *arg, char *into, size_t room,
                                  size_t *ret_size, slate_wake_reason why)
{
    db_list_state *list = arg;
    const store_op *page = list->page;
    if (why == SLATE_TIMED_OUT)
        return break_off("The store had no time for the next page within its limit.");
    if (page->status != STORE_OK)
        return break_off(*page->detail ? page->detail : "The store failed.");
    if (list->sent == 0)
        list->left -= page->rows < list->left ? page->rows : list->left;
    bool last = !page->more || list->left == 0;
    size_t rest = page->bytes.size - list->sent;
    if (rest == 0 && !last)
        return next_page(req, list) ? SLATE_STREAM_WAITING
                                    : break_off("There is no memory to ask for the next page.");
    *ret_size = rest < room ? rest : room;
    if (rest > 0)
        memcpy(into, page->bytes.at + list->sent, *ret_size);
    list->sent += *ret_size;
    return last && *ret_size == rest ? SLATE_STREAM_END : SLATE_STREAM_MORE;
}

slate_result db_stream(slate_request *req, db_list_state *list)
{
    return slate_answer_stream(req, 200, "application/x-ndjson", produce, list);
}
