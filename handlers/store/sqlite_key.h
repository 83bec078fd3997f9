/* Values of documents as SQLite is to compare them: a value's key is bytes whose order (memcmp) is
 * the order of values that store.h describes, numbers compared exactly whether integer or real. */
#ifndef SLATE_SQLITE_KEY_H
#define SLATE_SQLITE_KEY_H

#include "store_value.h"

/* Bytes of a key beside those of a string or text, at the most. */
#define KEY_EXTRA 12
/* … of one that is cut for sorting: a character has at most four. */
#define KEY_SORT_MAX (KEY_EXTRA + 4 * (size_t)STORE_SORT_MAX)

/* Writes the key of a value's JSON text (`at` NULL: missing), KEY_EXTRA bytes more than the text has
 * at the most. Returns its length. */
size_t key_of_json(store_text value, char *into);
/* The same, of no more than STORE_SORT_MAX characters and KEY_SORT_MAX bytes. */
size_t key_of_json_to_sort(store_text value, char into[KEY_SORT_MAX]);

/* The key of a scalar. */
size_t key_of_scalar(const store_scalar *scalar, char *into);
/* Whether the key is the same when it is cut for sorting, and so is every comparison with it. */
bool key_is_short(const store_scalar *scalar);
/* A key for sorting as a scalar again; what its text needs is allocated in `ctx`. false: no memory. */
bool key_to_scalar(store_text key, mem_context *ctx, store_scalar *ret_scalar);

/* A key begins with its kind. Between two kinds there is room for a bound that is no key. */
static inline char key_kind(int scalar_kind)
{
    return (char)(2 * scalar_kind + 1);
}

#endif
