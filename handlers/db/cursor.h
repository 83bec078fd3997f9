/* The opaque `after` of a list: the row after which it goes on. It is a client's, so nothing in it is
 * trusted: it is read like any other input, and could at worst say where to begin in a list that its
 * owner may read from the beginning anyway. */
#ifndef SLATE_DB_CURSOR_H
#define SLATE_DB_CURSOR_H

#include "../store/store.h"
#include "fault.h"

#define DB_CURSOR_MAX 1024 /* bytes of text */
#define DB_CURSOR_PRINT 8  /* bytes of the query's hash that bind it */

typedef enum { DB_CURSOR_WRITTEN, DB_CURSOR_TOO_LONG, DB_CURSOR_MEMORY } db_cursor_result;

/* The cursor of the last row of a list, base64url, as a string in `ctx`. `print`: of the query (at
 * least DB_CURSOR_PRINT bytes); `position`: rows up to and with that one. TOO_LONG: its values do not
 * fit. */
db_cursor_result db_cursor_write(mem_context *ctx, const unsigned char *print,
                                 const store_scalar *values, size_t count, store_text id,
                                 uint64_t position, char **ret_text);

/* Sets `after` and `after_id` of a query whose orders are known; texts lie in `ctx`. false: it is no
 * cursor, or of another query, or memory. */
bool db_cursor_read(mem_context *ctx, const char *text, const unsigned char *print,
                    store_query *query, uint64_t *ret_position, db_fault *fault);

#endif
