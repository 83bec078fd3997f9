/* PATCH: the stored document becomes a tree in the scratch context, is changed there, and is written
 * back if nobody was faster. */
#include <string.h>
#include <strings.h>

#include "../merge.h"
#include "../patch.h"
#include "db.h"

static const char document_key[] = "document"; /* of the object that holds the document */

static bool is_json_patch(slate_request *req)
{
    static const char type[] = "application/json-patch+json";
    const char *sent = slate_header(req, "Content-Type");
    return sent && strncasecmp(sent, type, sizeof type - 1) == 0;
}

/* The stored document, as the member `document_key` of an object. NULL: no memory. */
static json_t *holder_of(slate_request *req, store_text stored)
{
    json_read_problem problem;
    json_t *holder = slate_own(req, json_object());
    json_t *document = json_read(stored.at, stored.size, JSON_READ_DEPTH_MAX, &problem);
    if (json_object_set_new_nocheck(holder, document_key, document) != 0)
        return NULL; /* document NULL is a failure, too */
    return holder;
}

static bool make_patched(slate_request *req, const store_op *read, store_op *op)
{
    patch_problem problem;
    size_t size;
    const char *body = slate_body(req, &size);
    json_t *patch = slate_read_json(req, body, size);
    if (!patch)
        return false;
    json_t *holder = holder_of(req, read->bytes);
    store_document *document = mem_alloc_array(op->memory, 1, sizeof *document);
    bool patched = holder && document;
    if (patched && is_json_patch(req)) {
        if (!patch_apply(slate_scratch_context(req), holder, document_key, patch, &problem)) {
            patch_answer(req, &problem, "");
            return false;
        }
    } else if (patched) {
        patched = merge_apply(holder, document_key, patch);
    }
    if (!patched) {
        slate_answer_refused(req, &op->budget);
        return false;
    }
    document->id = op->id;
    op->documents = document;
    op->count = 1;
    return db_store_json(req, op, json_object_get(holder, document_key), NULL, &document->json);
}

static slate_result patched(slate_request *req, const store_op *op)
{
    return db_answer_written(req, 200, slate_param(req, "id"), op->revision, op->documents[0].json);
}

slate_result db_patch(slate_request *req)
{
    static const db_guard guard = {STORE_PUT, false, make_patched, patched};
    return db_guard_write(req, &guard);
}
