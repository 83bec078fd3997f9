/* Many documents in one body: the elements of an array, or lines. */
#ifndef SLATE_DB_BULK_H
#define SLATE_DB_BULK_H

#include "db.h"

#define DB_BULK_MAX 10000 /* documents in one request: in one transaction */

/* Each fills in the documents of an INSERT, without their ids. false: a problem has been answered,
 * that of the first bad document, which is named. */
bool db_bulk_array(slate_request *req, store_op *op, const json_t *array);
/* NDJSON: one document a line; empty lines are passed over. */
bool db_bulk_lines(slate_request *req, store_op *op, const char *text, size_t size);

#endif
