/* Paths and the values at them, for both databases and the handlers: in documents as the bytes they
 * are. Those are JSON that has been checked before, but nothing here reads beyond their end, or
 * recurses, should a file hold something else. */
#ifndef SLATE_STORE_VALUE_H
#define SLATE_STORE_VALUE_H

#include "store.h"

bool store_same_text(store_text a, store_text b);
bool store_same_path(const store_path *a, const store_path *b);
/* Whether a token also is an array's element, and which: as RFC 6901 has it, without a sign or leading
 * zeros; what is beyond 18 digits no array has. `ret_index` may be NULL. */
bool store_is_element(store_text token, uint64_t *ret_index);
/* How many bytes of UTF-8 text the first STORE_SORT_MAX characters are: what sorting regards. */
size_t store_head_size(store_text text);

/* The text of the value at `path`. `at` NULL: there is none. */
store_text store_find_value(store_text json, const store_path *path);
/* What is between the quotes of a string, of which `behind` is the end. */
store_text store_inside_of(const char *string, const char *behind);
/* Decodes one escape, `*at` behind its backslash, to four bytes at the most. Returns behind them. */
char *store_decode_escape(const char **at, const char *end, char *out);

#endif
