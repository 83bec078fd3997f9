/* Pool: cells of one size, which are freed one by one.
 *
 * The free list lives in the free cells themselves, so a cell costs no byte beyond its size; take
 * and give are O(1). Cells come from 64 KiB slabs (blocks.h); a slab whose cells are all free goes
 * back to the magazine (one is kept), so a pool shrinks after a spike without any traffic.
 * Owned by one thread, no lock. */
#ifndef MEM_POOL_H
#define MEM_POOL_H

#include "blocks.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct mem_pool mem_pool;

typedef struct mem_pool_stats {
    size_t cell;  /* bytes per cell */
    size_t live;  /* cells in use */
    size_t slabs; /* count */
    size_t held;  /* bytes of slabs */
} mem_pool_stats;

/* Cells of `cell_size` bytes (1 to 32 KiB), rounded up to 8; aligned to 16 if a multiple of 16,
 * else to 8. NULL: no memory or a size out of range. */
mem_pool *mem_pool_create(mem_blocks *source, size_t cell_size);
/* All cells are given back before. NULL is allowed. */
void mem_pool_delete(mem_pool *pool);

/* Uninitialised. NULL: no memory. */
void *mem_pool_take(mem_pool *pool);
void mem_pool_give(mem_pool *pool, void *cell);

/* Safe from any thread: written by the owner, read relaxed. */
mem_pool_stats mem_pool_get_stats(const mem_pool *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
