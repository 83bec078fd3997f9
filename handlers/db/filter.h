/* The words of a query: paths, values, and filters made of them. Everything is copied into `ctx`;
 * false: `*fault` says what is wrong with which parameter, or that memory was refused. Texts are
 * UTF-8 and hold no NUL. */
#ifndef SLATE_DB_FILTER_H
#define SLATE_DB_FILTER_H

#include "../store/store.h"
#include "fault.h"

/* A parameter that is being read: its name is for faults. */
typedef struct db_words {
    mem_context *ctx;
    const char *name; /* of the parameter, decoded */
    db_fault *fault;
} db_words;

/* "/address/city" is a JSON pointer; "city" the member of that name. */
bool db_path_read(const db_words *words, store_text text, store_path *ret_path);

/* Takes the next item of a comma-separated list, which is not empty. One that begins with a quote is
 * a JSON string, and may contain commas. `*rest` is what follows its comma, `at` NULL at the end. */
bool db_item_next(const db_words *words, store_text *rest, store_text *ret_item);
/* The text of an item: without its quotes and escapes, if it has any. */
bool db_item_text(const db_words *words, store_text item, store_text *ret_text);

#define DB_IN_MAX 200 /* values of in.(…) */

/* A JSON scalar is one of that kind; what is no JSON is a string: 18, true, null, "18", Bonn. */
bool db_scalar_read(const db_words *words, store_text text, store_scalar *ret_scalar);

/* name=operator.value, where words->name is the name. */
bool db_filter_read(const db_words *words, const char *value, store_filter *ret_filter);

#endif
