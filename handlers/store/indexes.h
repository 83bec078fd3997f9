/* The indexes that the command line declares: COLLECTION:/JSON/POINTER, divided by commas. */
#ifndef SLATE_STORE_INDEXES_H
#define SLATE_STORE_INDEXES_H

#include "store.h"

#define STORE_INDEXES_MAX 64

typedef struct store_index {
    store_text declared; /* as it stands in the list */
    store_text collection;
    store_path path;
} store_index;

/* Reads a list (NULL or "": none) into an array in `ctx`. false: `error` is a sentence. */
bool store_read_indexes(mem_context *ctx, const char *list, store_index **ret_indexes,
                        size_t *ret_count, char error[STORE_ERROR_MAX]);

/* Decodes a pointer's tokens into `room`, which has as many bytes as the pointer. false: it is none,
 * or has more than STORE_PATH_MAX. */
bool store_read_pointer(store_text pointer, char *room, store_path *ret_path);

#endif
