/* /transform/patch and /transform/merge: a document and a patch in, the changed document out. The
 * body's own tree is changed in place, so that nothing is copied and nothing is left to free. */
#include <string.h>

#include "builtin.h"
#include "merge.h"
#include "patch.h"
#include "pointer.h"

static const char shape[] = "transform-body"; /* the type of problems with {"doc": …, "patch": …} */

/* The body, an object with exactly these two members. NULL: a problem has been answered. */
static json_t *body_with_doc_and_patch(slate_request *req)
{
    static const char *const members[] = {"doc", "patch"};
    json_t *body = slate_body_json(req);
    if (!body)
        return NULL;
    if (!json_is_object(body)) {
        slate_answer_problem(req, 422, shape, &(slate_where){.json_pointer = ""},
                             "The body must be an object with the members \"doc\" and \"patch\".");
        return NULL;
    }
    for (size_t i = 0; i < 2; i++) {
        if (!json_object_get(body, members[i])) {
            slate_answer_problem(req, 422, shape, &(slate_where){.json_pointer = ""},
                                 "The body must have the member \"%s\".", members[i]);
            return NULL;
        }
    }
    for (void *i = json_object_iter(body); i; i = json_object_iter_next(body, i)) {
        const char *key = json_object_iter_key(i);
        if (strcmp(key, members[0]) != 0 && strcmp(key, members[1]) != 0) {
            slate_where where = {.json_pointer = pointer_encode(slate_request_context(req), key,
                                                                json_object_iter_key_len(i))};
            slate_answer_problem(req, 422, shape, &where,
                                 "The body must not have members besides \"doc\" and \"patch\".");
            return NULL;
        }
    }
    return body;
}

slate_result transform_patch(slate_request *req)
{
    patch_problem problem;
    json_t *body = body_with_doc_and_patch(req);
    if (!body)
        return SLATE_ANSWERED;
    if (!patch_apply(slate_scratch_context(req), body, "doc", json_object_get(body, "patch"),
                     &problem))
        return patch_answer(req, &problem, "/patch");
    return slate_answer_json(req, 200, json_object_get(body, "doc"));
}

slate_result transform_merge(slate_request *req)
{
    json_t *body = body_with_doc_and_patch(req);
    if (!body)
        return SLATE_ANSWERED;
    if (!merge_apply(body, "doc", json_object_get(body, "patch")))
        return slate_answer_no_memory(req);
    return slate_answer_json(req, 200, json_object_get(body, "doc"));
}
