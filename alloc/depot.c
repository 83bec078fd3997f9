/* The depot: idle blocks that all magazines share, under one lock that is held for a push or a
 * pop. It decays: what no magazine needed for a whole period goes back to the system. */
#include <pthread.h>
#include <stdlib.h>

#include "internal.h"

/* Idle blocks of one class, newest first. */
struct shelf {
    mem_block *newest, *oldest;
    size_t count;
    size_t low; /* lowest count since the last decay */
};

struct mem_depot {
    pthread_mutex_t lock;
    struct shelf shelves[MEM_RANK_MEASURED];
    size_t idle;
    uint64_t maps, unmaps;
    size_t period; /* mem_count, mem_read */
};

mem_depot *mem_depot_create(void)
{
    mem_depot *depot = calloc(1, sizeof *depot);
    if (depot && pthread_mutex_init(&depot->lock, NULL) != 0) {
        free(depot);
        return NULL;
    }
    return depot;
}

void mem_depot_delete(mem_depot *depot)
{
    if (!depot)
        return;
    (void)mem_depot_clear(depot);
    pthread_mutex_destroy(&depot->lock);
    free(depot);
}

/* A default mutex that its own thread does not hold: locking it cannot fail. */
static void lock(mem_depot *depot)
{
    pthread_mutex_lock(&depot->lock);
}

static void unlock(mem_depot *depot)
{
    pthread_mutex_unlock(&depot->lock);
}

void mem_depot_give(mem_depot *depot, mem_block *block)
{
    struct shelf *shelf = &depot->shelves[mem_rank(block->size)];
    block->prev = NULL;
    lock(depot);
    block->next = shelf->newest;
    *(block->next ? &block->next->prev : &shelf->oldest) = block;
    shelf->newest = block;
    shelf->count++;
    depot->idle += block->size;
    unlock(depot);
}

/* Unlinks `block`, which is at one end of its shelf; under the lock. */
static void unlink_block(mem_depot *depot, struct shelf *shelf, mem_block *block)
{
    *(block->prev ? &block->prev->next : &shelf->newest) = block->next;
    *(block->next ? &block->next->prev : &shelf->oldest) = block->prev;
    depot->idle -= block->size;
    if (--shelf->count < shelf->low)
        shelf->low = shelf->count;
}

mem_block *mem_depot_take(mem_depot *depot, unsigned rank)
{
    struct shelf *shelf = &depot->shelves[rank];
    lock(depot);
    mem_block *block = shelf->newest;
    if (block)
        unlink_block(depot, shelf, block);
    unlock(depot);
    return block;
}

/* Unmaps up to `count` blocks of a shelf, oldest first. The lock is free while the system works. */
static size_t unmap_oldest(mem_depot *depot, struct shelf *shelf, size_t count)
{
    size_t unmapped = 0;
    while (count-- > 0) {
        lock(depot);
        mem_block *block = shelf->oldest;
        if (block) {
            unlink_block(depot, shelf, block);
            depot->unmaps++;
        }
        unlock(depot);
        if (!block)
            break;
        unmapped += block->size;
        (void)mem_unmap(block, block->size);
    }
    return unmapped;
}

size_t mem_depot_decay(mem_depot *depot)
{
    size_t unmapped = 0;
    mem_count(&depot->period, 1);
    for (unsigned rank = 0; rank < MEM_RANK_MEASURED; rank++) {
        struct shelf *shelf = &depot->shelves[rank];
        lock(depot);
        size_t unused = shelf->low;
        unlock(depot);
        unmapped += unmap_oldest(depot, shelf, unused);
        lock(depot);
        shelf->low = shelf->count;
        unlock(depot);
    }
    return unmapped;
}

size_t mem_depot_clear(mem_depot *depot)
{
    size_t unmapped = 0;
    for (unsigned rank = 0; rank < MEM_RANK_MEASURED; rank++)
        unmapped += unmap_oldest(depot, &depot->shelves[rank], SIZE_MAX);
    return unmapped;
}

size_t mem_depot_period(const mem_depot *depot)
{
    return mem_read(&depot->period);
}

void mem_depot_add_counts(mem_depot *depot, uint64_t maps, uint64_t unmaps)
{
    lock(depot);
    depot->maps += maps;
    depot->unmaps += unmaps;
    unlock(depot);
}

mem_blocks_stats mem_depot_get_stats(mem_depot *depot)
{
    lock(depot);
    mem_blocks_stats stats = {.idle = depot->idle, .maps = depot->maps, .unmaps = depot->unmaps};
    unlock(depot);
    return stats;
}
