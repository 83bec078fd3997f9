/* A list that is being answered, as JSON in one piece or as NDJSON in many. */
#ifndef SLATE_DB_LIST_H
#define SLATE_DB_LIST_H

#include "db.h"
#include "query.h"

/* In the request context. */
typedef struct db_list_state {
    db_query query;
    store_op *page;   /* the operation at hand; ours */
    mem_callback end; /* releases it with the request */
    size_t sent;      /* bytes of the page (stream) */
    size_t left;      /* rows that may still come (stream) */
} db_list_state;

/* Of a stream a page is asked for at a time: rows, and bytes after which it ends. With its last row,
 * and the block's header, it is to fit a block of 64 KiB: a larger one is a mapping of its own. */
#define DB_STREAM_ROWS 1000
#define DB_STREAM_BYTES (56u * 1024u)

/* Answers with a stream that begins with the page that has been read (db_stream.c). */
slate_result db_stream(slate_request *req, db_list_state *list);

#endif
