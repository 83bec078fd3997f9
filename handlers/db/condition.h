/* Preconditions (RFC 9110, section 13): If-Match, If-None-Match, If-Modified-Since and
 * If-Unmodified-Since. The entity tag of a document is its revision: "17". */
#ifndef SLATE_DB_CONDITION_H
#define SLATE_DB_CONDITION_H

#include "../store/store.h"
#include "fault.h"

typedef struct db_etag {
    uint64_t revision; /* 0: a tag that no document of ours has */
    bool weak;
} db_etag;

typedef struct db_etags {
    bool given, any; /* any: "*" */
    db_etag *tags;
    size_t count;
} db_etags;

typedef struct db_conditions {
    db_etags match, none_match;
    bool has_modified,
        has_unmodified; /* the two dates: already left out where a tag overrules them */
    int64_t modified_since, unmodified_since;
} db_conditions;

/* The four headers, each NULL if absent; the tags lie in `ctx`. A date that is none is ignored, as
 * the RFC asks. false: a tag is malformed, or memory. */
bool db_conditions_read(mem_context *ctx, const char *match, const char *none_match,
                        const char *modified, const char *unmodified, db_conditions *ret_conditions,
                        db_fault *fault);

/* Those of a request; the tags lie in its scratch context. */
bool db_conditions_of(slate_request *req, db_conditions *ret_conditions, db_fault *fault);

/* Checks those of a request for a collection. false: it has been answered. */
bool db_collection_proceeds(slate_request *req);

/* Whether there is any that a write has to keep. */
bool db_conditions_bind(const db_conditions *c);

typedef enum { DB_PROCEED, DB_NOT_MODIFIED, DB_PRECONDITION_FAILED } db_verdict;

/* Section 13.2.2, in its order. `revision` 0: there is no document. `reading`: GET or HEAD. */
db_verdict db_conditions_check(const db_conditions *c, uint64_t revision, int64_t modified,
                               bool reading);

/* The same as one condition for the store to check as it writes; revisions lie in `ctx`. false: they
 * are more than one condition can say, and must be checked against a document that has been read, or
 * memory (fault->memory). */
bool db_conditions_for_store(const db_conditions *c, mem_context *ctx,
                             store_condition *ret_condition, db_fault *fault);

#endif
