/* The growable array: when it grows, and by how much. */
#include "array.h"

#include <string.h>

#include "internal.h"

#define FIRST_BYTES 64u /* the first growth is no smaller: a cache line */

void mem_array_init(mem_array *array, mem_context *ctx, size_t item_size)
{
    assert(item_size > 0);
    *array = (mem_array){.ctx = ctx, .item_size = item_size};
}

/* Up to the end of the block that an arena would take for it. A size that cannot be is left to the
 * context, which refuses it. */
static size_t fill_block(size_t bytes)
{
    if (bytes <= MEM_LARGE || bytes > SIZE_MAX - MEM_BLOCK_HEADER)
        return bytes;
    size_t block = mem_block_size(bytes + MEM_BLOCK_HEADER);
    return block ? block - MEM_BLOCK_HEADER : bytes;
}

/* Room for exactly `count` items, or for as many as fit into the same block. */
static bool set_capacity(mem_array *array, size_t count)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, array->item_size, &bytes))
        bytes = SIZE_MAX; /* refused by the context, which keeps the reason */
    bytes = fill_block(bytes);
    size_t before = array->capacity * array->item_size;
    size_t now = bytes < SIZE_MAX ? bytes - bytes % array->item_size : bytes;
    void *items = mem_resize(array->ctx, array->items, before, now);
    if (!items)
        return false;
    array->items = items;
    array->capacity = now / array->item_size;
    array->growths++;
    return true;
}

bool mem_array_reserve(mem_array *array, size_t count)
{
    return count <= array->capacity || set_capacity(array, count);
}

bool mem_array_grow(mem_array *array, size_t more)
{
    size_t needed = array->count + more;
    if (needed < more)
        needed = SIZE_MAX;
    if (needed <= array->capacity)
        return true;
    size_t doubled = array->capacity <= SIZE_MAX / 2 ? 2 * array->capacity : needed;
    size_t first = (FIRST_BYTES + array->item_size - 1) / array->item_size;
    if (doubled < first)
        doubled = first;
    return set_capacity(array, doubled > needed ? doubled : needed);
}

bool mem_array_append(mem_array *array, const void *items, size_t count)
{
    if (!mem_array_grow(array, count))
        return false;
    if (count)
        memcpy((char *)array->items + array->count * array->item_size, items,
               count * array->item_size);
    array->count += count;
    return true;
}

void mem_array_shrink(mem_array *array)
{
    if (array->count == 0) {
        mem_array_free(array);
    } else if (array->count < array->capacity) {
        void *items = mem_resize(array->ctx, array->items, array->capacity * array->item_size,
                                 array->count * array->item_size);
        if (!items)
            return; /* a smaller copy was refused: the larger one is as good */
        array->items = items;
        array->capacity = array->count;
    }
}

void mem_array_free(mem_array *array)
{
    mem_free(array->ctx, array->items, array->capacity * array->item_size);
    array->items = NULL;
    array->count = array->capacity = 0;
}
