/* The pool: cells of one size in slabs of 64 KiB. A slab is aligned to its size, so the address of
 * a cell tells its slab; the free list runs through the free cells of each slab. Before that, the
 * cells given back last wait on a short stack, so that taking and giving in turn touches no slab.
 * Owned by one thread. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define SLAB MEM_BLOCK_MAX
#define CELL_MAX (32u * 1024u)
#define RECENT 32u

struct cell {
    struct cell *next;
};

/* Stands at the start of a slab, in the room of the block's header. */
struct slab {
    mem_extent extent; /* its block's next, prev: in the list of slabs with a free cell */
    struct cell *free; /* cells given back */
    uint32_t fresh;    /* offset of the first cell that was never used: memory follows use */
    uint32_t taken;    /* cells that are live or wait on the stack */
};
static_assert(sizeof(struct slab) <= MEM_BLOCK_HEADER, "cells begin behind the header");

struct mem_pool {
    size_t recent_count;  /* mem_count, mem_read */
    size_t recent_room;   /* as many cells may wait on the stack now */
    void *recent[RECENT]; /* the stack; its cells are taken from their slabs, but not live */
    mem_blocks *source;
    mem_block *open; /* slabs with a free cell, the newest first */
    size_t cell, per_slab;
    size_t empty;        /* slabs of which no cell is taken: 0 or 1 */
    size_t taken, slabs; /* mem_count, mem_read */
};

mem_pool *mem_pool_create(mem_blocks *source, size_t cell_size)
{
    if (cell_size == 0 || cell_size > CELL_MAX)
        return NULL;
    mem_pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->source = source;
        pool->cell = mem_align_up(cell_size, sizeof(struct cell));
        pool->per_slab = (SLAB - MEM_BLOCK_HEADER) / pool->cell;
    }
    return pool;
}

/* ---- Slabs ----------------------------------------------------------------------------------- */

static struct slab *slab_of(const void *cell)
{
    return (struct slab *)((uintptr_t)cell & ~(uintptr_t)(SLAB - 1));
}

static struct slab *add_slab(mem_pool *pool)
{
    mem_block *block = mem_blocks_take(pool->source, SLAB);
    if (!block)
        return NULL;
    struct slab *slab = (struct slab *)block;
    slab->free = NULL;
    slab->fresh = MEM_BLOCK_HEADER;
    slab->taken = 0;
    mem_list_push(&pool->open, block);
    mem_count(&pool->slabs, 1);
    pool->empty++;
    mem_poison((char *)slab + MEM_BLOCK_HEADER, SLAB - MEM_BLOCK_HEADER);
    return slab;
}

static void give_slab(mem_pool *pool, struct slab *slab)
{
    mem_list_remove(&pool->open, &slab->extent.block);
    mem_count(&pool->slabs, (size_t)-1);
    pool->empty--;
    mem_blocks_give(pool->source, &slab->extent.block);
}

/* After a cell has been taken from a slab or given to one. While half of the pool is live, cells
 * may wait on the stack; below that it is shrinking, and none of them may hold its slab. One slab
 * is kept in any case. */
static void count_taken(mem_pool *pool, size_t add)
{
    mem_count(&pool->taken, add);
    size_t half = pool->slabs > 1 ? (pool->slabs * pool->per_slab + 1) / 2 : 0;
    size_t above = pool->taken > half ? pool->taken - half : 0;
    pool->recent_room = above < RECENT ? above : RECENT;
}

static __attribute__((noinline)) void *take_from_slab(mem_pool *pool)
{
    struct slab *slab = (struct slab *)pool->open;
    if (!slab && !(slab = add_slab(pool)))
        return NULL;
    struct cell *cell = slab->free;
    if (cell) {
        mem_unpoison(cell, sizeof *cell);
        slab->free = cell->next;
    } else {
        cell = (struct cell *)((char *)slab + slab->fresh);
        slab->fresh += (uint32_t)pool->cell;
    }
    if (slab->taken++ == 0)
        pool->empty--;
    if (slab->taken == pool->per_slab)
        mem_list_remove(&pool->open, &slab->extent.block);
    count_taken(pool, 1);
    mem_hand_out(cell, pool->cell);
    return cell;
}

static void give_to_slab(mem_pool *pool, void *p)
{
    struct slab *slab = slab_of(p);
    struct cell *cell = p;
    if (slab->taken == pool->per_slab)
        mem_list_push(&pool->open, &slab->extent.block);
    mem_unpoison(cell, sizeof *cell);
    cell->next = slab->free;
    mem_poison(cell, sizeof *cell);
    slab->free = cell;
    if (--slab->taken == 0 && ++pool->empty > 1)
        give_slab(pool, slab);
    count_taken(pool, (size_t)-1);
}

static void push_recent(mem_pool *pool, void *cell)
{
    pool->recent[pool->recent_count] = cell;
    mem_count(&pool->recent_count, 1);
}

/* The stack has no room: its older half goes to the slabs; all of it if the pool is shrinking. */
static __attribute__((noinline)) void give_past_room(mem_pool *pool, void *cell)
{
    bool shrinking = pool->recent_room < RECENT;
    size_t count = shrinking ? pool->recent_count : RECENT / 2;
    for (size_t i = 0; i < count; i++)
        give_to_slab(pool, pool->recent[i]);
    mem_count(&pool->recent_count, -count);
    memmove(pool->recent, pool->recent + count, pool->recent_count * sizeof *pool->recent);
    if (shrinking)
        give_to_slab(pool, cell);
    else
        push_recent(pool, cell);
}

void mem_pool_delete(mem_pool *pool)
{
    if (!pool)
        return;
    for (size_t i = 0; i < pool->recent_count; i++)
        give_to_slab(pool, pool->recent[i]);
    assert(pool->taken == 0);
    while (pool->open)
        give_slab(pool, (struct slab *)pool->open);
    free(pool);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

void *mem_pool_take(mem_pool *pool)
{
    size_t count = pool->recent_count;
    if (count == 0)
        return take_from_slab(pool);
    mem_count(&pool->recent_count, (size_t)-1);
    mem_hand_out(pool->recent[count - 1], pool->cell);
    return pool->recent[count - 1];
}

/* For assertions: whether `cell` can be given back, as far as that is cheap to tell. */
static __attribute__((unused)) bool is_live(const mem_pool *pool, const void *cell)
{
    const struct slab *slab = slab_of(cell);
    size_t offset = (size_t)((const char *)cell - (const char *)slab);
    for (size_t i = 0; i < pool->recent_count; i++) {
        if (pool->recent[i] == cell)
            return false;
    }
    return slab->taken > 0 && slab->free != cell && offset < slab->fresh &&
           (offset - MEM_BLOCK_HEADER) % pool->cell == 0;
}

void mem_pool_give(mem_pool *pool, void *cell)
{
    assert(is_live(pool, cell));
    mem_poison(cell, pool->cell);
    if (pool->recent_count < pool->recent_room)
        push_recent(pool, cell);
    else
        give_past_room(pool, cell);
}

/* The counts are read one after the other: another thread may see a cell twice for an instant. */
mem_pool_stats mem_pool_get_stats(const mem_pool *pool)
{
    size_t slabs = mem_read(&pool->slabs);
    size_t taken = mem_read(&pool->taken), recent = mem_read(&pool->recent_count);
    return (mem_pool_stats){
        .cell = pool->cell,
        .live = taken > recent ? taken - recent : 0,
        .slabs = slabs,
        .held = slabs * SLAB,
    };
}
