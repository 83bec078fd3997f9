/* The pool: cells of one size in slabs of 64 KiB. A slab is aligned to its size, so the address of
 * a cell tells its slab; the free list runs through the free cells of each slab. Owned by one
 * thread. */
#include "pool.h"

#include <stdlib.h>

#include "internal.h"

#define SLAB MEM_BLOCK_ALIGN
#define CELL_MAX (32u * 1024u)

struct cell {
    struct cell *next;
};

/* Stands at the start of a slab, in the room of the block's header. */
struct slab {
    mem_block block;   /* next, prev: in the list of slabs with a free cell */
    struct cell *free; /* cells given back */
    uint32_t fresh;    /* offset of the first cell that was never used: RSS follows use */
    uint32_t live;     /* cells in use */
};
static_assert(sizeof(struct slab) <= MEM_BLOCK_HEADER, "cells begin behind the header");

struct mem_pool {
    mem_blocks *source;
    mem_block *open;  /* slabs with a free cell; the newest first */
    size_t cell;
    size_t empty;     /* slabs without a live cell: 0 or 1 */
    size_t live, slabs; /* mem_count, mem_read */
};

mem_pool *mem_pool_create(mem_blocks *source, size_t cell_size)
{
    if (cell_size == 0 || cell_size > CELL_MAX)
        return NULL;
    mem_pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->source = source;
        pool->cell = mem_align_up(cell_size, sizeof(struct cell));
    }
    return pool;
}

static void give_slab(mem_pool *pool, struct slab *slab)
{
    mem_list_remove(&pool->open, &slab->block);
    mem_count(&pool->slabs, (size_t)-1);
    mem_blocks_give(pool->source, &slab->block);
}

void mem_pool_delete(mem_pool *pool)
{
    if (!pool)
        return;
    assert(pool->live == 0);
    while (pool->open)
        give_slab(pool, (struct slab *)pool->open);
    free(pool);
}

static bool is_full(const mem_pool *pool, const struct slab *slab)
{
    return !slab->free && slab->fresh + pool->cell > SLAB;
}

static struct slab *add_slab(mem_pool *pool)
{
    mem_block *block = mem_blocks_take(pool->source, SLAB);
    if (!block)
        return NULL;
    struct slab *slab = (struct slab *)block;
    slab->free = NULL;
    slab->fresh = MEM_BLOCK_HEADER;
    slab->live = 0;
    mem_list_push(&pool->open, block);
    mem_count(&pool->slabs, 1);
    pool->empty++;
    mem_poison((char *)slab + MEM_BLOCK_HEADER, SLAB - MEM_BLOCK_HEADER);
    return slab;
}

void *mem_pool_take(mem_pool *pool)
{
    struct slab *slab = (struct slab *)pool->open;
    if (!slab && !(slab = add_slab(pool)))
        return NULL;
    struct cell *cell = slab->free;
    if (cell) {
        mem_unpoison(cell, pool->cell);
        slab->free = cell->next;
    } else {
        cell = (struct cell *)((char *)slab + slab->fresh);
        slab->fresh += (uint32_t)pool->cell;
        mem_unpoison(cell, pool->cell);
    }
    if (slab->live++ == 0)
        pool->empty--;
    if (is_full(pool, slab))
        mem_list_remove(&pool->open, &slab->block);
    mem_count(&pool->live, 1);
    return cell;
}

void mem_pool_give(mem_pool *pool, void *p)
{
    struct slab *slab = (struct slab *)((uintptr_t)p & ~(uintptr_t)(SLAB - 1));
    struct cell *cell = p;
    assert(slab->live > 0 && cell != slab->free);
    assert(((uintptr_t)p - (uintptr_t)slab - MEM_BLOCK_HEADER) % pool->cell == 0);
    if (is_full(pool, slab))
        mem_list_push(&pool->open, &slab->block);
    cell->next = slab->free;
    slab->free = cell;
    mem_poison(cell, pool->cell);
    mem_count(&pool->live, (size_t)-1);
    if (--slab->live == 0 && pool->empty++ > 0) {
        pool->empty--;
        give_slab(pool, slab);
    }
}

mem_pool_stats mem_pool_get_stats(const mem_pool *pool)
{
    size_t slabs = mem_read(&pool->slabs);
    return (mem_pool_stats){
        .cell = pool->cell,
        .live = mem_read(&pool->live),
        .slabs = slabs,
        .held = slabs * SLAB,
    };
}
