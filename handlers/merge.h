/* JSON Merge Patch (RFC 7396). */
#ifndef SLATE_MERGE_H
#define SLATE_MERGE_H

#include "../server/slate.h"

/* Merges `patch` into the member `key` of the object `holder`, which exists; it may be replaced.
 * Values move from the patch into the document: the patch is used up, but still its owner's to end.
 * Recursion is as deep as the patch. false: no memory, and the document is half changed. */
bool merge_apply(json_t *holder, const char *key, json_t *patch);

#endif
