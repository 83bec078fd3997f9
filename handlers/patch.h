/* JSON Patch (RFC 6902). */
#ifndef SLATE_PATCH_H
#define SLATE_PATCH_H

#include "../server/slate.h"

#define PATCH_OPERATIONS_MAX 1000
#define PATCH_COPIED_NODES_MAX 100000          /* that all `copy` operations together may add */
#define PATCH_COPIED_BYTES_MAX (1024u * 1024u) /* of keys and strings, likewise */
#define PATCH_DEPTH_MAX 1024                   /* of the document, at any time */

typedef enum {
    PATCH_DONE = 0,
    PATCH_MALFORMED,   /* the patch is no JSON Patch; the document is untouched */
    PATCH_TEST_FAILED, /* a `test` operation */
    PATCH_IMPOSSIBLE,  /* an operation does not fit the document */
    PATCH_LIMIT,       /* one of the limits above */
    PATCH_MEMORY       /* an allocation was refused */
} patch_status;

typedef struct patch_problem {
    patch_status status;
    char pointer[32]; /* JSON Pointer into the patch: "/3/path"; "" for the patch itself */
    size_t limit;     /* PATCH_LIMIT: which */
    char detail[300]; /* a sentence */
} patch_problem;

/* Applies `patch` to the member `key` of the object `holder`, which exists and is what the pointer ""
 * names; it may be replaced. Values move from the patch into the document: the patch is used up, but
 * still its owner's to end. Temporaries lie in `ctx`. false: `*ret_problem` says why, and the
 * document is half changed unless the patch was malformed. */
bool patch_apply(mem_context *ctx, json_t *holder, const char *key, json_t *patch,
                 patch_problem *ret_problem);

/* Answers with what patch_apply said. `at` is where the patch lies in the body: "" or "/patch". */
slate_result patch_answer(slate_request *req, const patch_problem *problem, const char *at);

#endif
