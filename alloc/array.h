/* A growable array over any context: it doubles, so that n items cost about log2 n growths, and it
 * grows in place where its context can. The items are contiguous and move when the array grows; a
 * reserve beforehand keeps pointers to them valid. Owned by its context's thread. */
#ifndef MEM_ARRAY_H
#define MEM_ARRAY_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The caller's struct. It needs no end: the items go with their context. Fields are for reading. */
typedef struct mem_array {
    void *items;  /* NULL before the first growth; aligned to MEM_ALIGN */
    size_t count; /* items in use; may be lowered by the caller */
    size_t capacity;
    size_t item_size; /* bytes */
    mem_context *ctx;
    size_t growths; /* how often memory was asked for */
} mem_array;

/* An empty array of items of `item_size` bytes (at least 1). Allocates nothing. */
void mem_array_init(mem_array *array, mem_context *ctx, size_t item_size);

/* Makes room for `count` items in all: until then the array does not grow. A growth also takes what
 * its block would leave unused. false: refused, and nothing has changed. */
bool mem_array_reserve(mem_array *array, size_t count);

/* Makes room for `more` items beyond `count`, doubling at the least. false: refused. */
bool mem_array_grow(mem_array *array, size_t more);

/* One more item, uninitialised: `*(T *)mem_array_add(&array) = value`. NULL: refused. */
static inline void *mem_array_add(mem_array *array)
{
    if (array->count == array->capacity && !mem_array_grow(array, 1))
        return NULL;
    return (char *)array->items + array->item_size * array->count++;
}

/* Copies `count` items behind the last; they must not be the array's own. false: refused, and none
 * was added. */
bool mem_array_append(mem_array *array, const void *items, size_t count);

/* Gives back what is beyond `count`, where the context can; the items may move. */
void mem_array_shrink(mem_array *array);

/* Gives the items back early and leaves the array empty. */
void mem_array_free(mem_array *array);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
