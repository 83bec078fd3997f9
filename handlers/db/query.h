/* The parameters of a list: filters, order, select, limit, after. */
#ifndef SLATE_DB_QUERY_H
#define SLATE_DB_QUERY_H

#include <nettle/sha2.h>

#include "../store/store.h"
#include "fault.h"

#define DB_QUERY_MAX 2048 /* bytes of all parameters but `after`, as a link writes them */
#define DB_LIMIT 50
#define DB_LIMIT_MAX 1000

typedef struct db_query {
    store_query *query; /* what has been read so far; it and all texts lie in `ctx` */
    mem_context *ctx;
    uint64_t position;      /* rows before these, as the cursor has it */
    const char *limit;      /* the parameters that are read last; NULL: absent */
    const char *after;      /* borrowed until db_query_end */
    bool ordered, selects;  /* `order`, `select` were given */
    size_t size;            /* bytes so far, for DB_QUERY_MAX */
    struct sha256_ctx hash; /* of collection, filters and order */
    unsigned char print[SHA256_DIGEST_SIZE];
} db_query;

/* Begins with the collection, which binds the cursor. false: memory. */
bool db_query_begin(db_query *q, mem_context *ctx, const char *collection);
/* Takes a parameter, decoded. false: a fault. */
bool db_query_add(db_query *q, const char *name, const char *value, db_fault *fault);
/* Takes what depends on all others. `stream`: `limit` may be any number, and is by default none. */
bool db_query_end(db_query *q, bool stream, db_fault *fault);

/* A copy that shares nothing, in `ctx`. NULL: memory. */
store_query *db_query_copy(mem_context *ctx, const store_query *query);
/* Goes on after the last row of a list that has been answered: copies its values. */
bool db_query_continue(mem_context *ctx, store_query *query, const store_op *done);

/* How long a parameter's name or value is as db_query_encode writes it, and that, behind `at`. Only
 * what could be misread in a query or in a Link header is percent-encoded. */
size_t db_query_encoded_size(const char *text);
char *db_query_encode(char *at, const char *text);

#endif
