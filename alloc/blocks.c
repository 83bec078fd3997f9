/* The magazine: one thread's idle blocks, last in, first out. A block that is asked for comes
 * from the magazine, else from the depot, else from the system; one that is given back stays if
 * the retain limit allows, else goes to the depot. */
#include <pthread.h>
#include <stdlib.h>

#include "internal.h"

#define PAGE 4096u
#define BATCH (1024u * 1024u) /* classes are mapped so many bytes at a time, or a little less */
#define MEASURED_MAX 2u       /* mappings to measure that are kept: of a body and of its answer */

/* Addresses that are mapped but have never been touched, so they cost no memory. */
struct fresh {
    char *start, *end;
};

struct mem_blocks {
    mem_depot *depot;
    bool shared;
    pthread_mutex_t lock; /* if shared: guards all that follows */
    size_t retain;
    bool adaptive;
    struct mem_retention retention; /* its peaks: if adaptive */
    mem_block *idle_blocks[MEM_RANKS];
    struct fresh fresh[MEM_CLASSES];
    unsigned measured; /* idle blocks that were mapped to measure */
    size_t idle, lent; /* these and the next two: mem_count, mem_read */
    size_t maps, unmaps;
};

/* The classes by their pages, and the least class of so many pages: above 16 KiB four classes to a
 * doubling, so that what is large fills at least four fifths of its block. */
static const uint8_t class_pages[MEM_CLASSES] = {1, 2, 4, 5, 6, 7, 8, 10, 12, 14, 16};
static const uint8_t class_of[] = {0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10};
static_assert(MEM_BLOCK_MIN == PAGE && MEM_BLOCK_MAX == (sizeof class_of - 1) * PAGE,
              "the tables end where the classes do");

static unsigned class_for(size_t size)
{
    return class_of[(size + PAGE - 1) / PAGE];
}

unsigned mem_rank(size_t size)
{
    if (size <= MEM_BLOCK_MAX)
        return class_for(size);
    return size == MEM_BLOCK_HUGE ? MEM_RANK_HUGE : MEM_RANK_MEASURED;
}

size_t mem_block_size(size_t size)
{
    if (size <= MEM_BLOCK_MAX)
        return class_pages[class_for(size)] * (size_t)PAGE;
    if (size > (size_t)PTRDIFF_MAX - 2 * PAGE)
        return 0;
    size_t whole = mem_align_up(size, PAGE);
    return whole == MEM_BLOCK_HUGE ? whole + PAGE : whole; /* so that its size tells a huge block */
}

mem_blocks *mem_blocks_create(mem_depot *depot, size_t retain)
{
    mem_blocks *blocks = calloc(1, sizeof *blocks);
    if (blocks) {
        blocks->depot = depot;
        blocks->adaptive = retain == MEM_RETAIN_ADAPTIVE;
        if (blocks->adaptive)
            retain = mem_retention_limit(&blocks->retention);
        blocks->retain = retain;
    }
    return blocks;
}

mem_blocks *mem_blocks_create_shared(mem_depot *depot, size_t retain)
{
    mem_blocks *blocks = mem_blocks_create(depot, retain);
    if (blocks) {
        pthread_mutex_init(&blocks->lock, NULL); /* default attributes: cannot fail */
        blocks->shared = true;
    }
    return blocks;
}

static void enter(mem_blocks *blocks)
{
    if (blocks->shared)
        pthread_mutex_lock(&blocks->lock);
}

static void leave(mem_blocks *blocks)
{
    if (blocks->shared)
        pthread_mutex_unlock(&blocks->lock);
}

static mem_block *pop(mem_blocks *blocks, unsigned rank)
{
    mem_block *block = blocks->idle_blocks[rank];
    if (block) {
        blocks->idle_blocks[rank] = block->next;
        mem_count(&blocks->idle, -block->size);
        blocks->measured -= rank == MEM_RANK_MEASURED;
        if (blocks->idle < blocks->retention.low)
            blocks->retention.low = blocks->idle;
    }
    return block;
}

/* Beyond the retain limit: to the depot; what is of no class, to the system. */
static void part_with(mem_blocks *blocks, mem_block *block)
{
    if (mem_rank(block->size) == MEM_RANK_MEASURED) {
        (void)mem_unmap(block, block->size);
        mem_count(&blocks->unmaps, 1);
        return;
    }
    mem_poison((char *)block + MEM_BLOCK_HEADER, block->size - MEM_BLOCK_HEADER);
    mem_depot_give(blocks->depot, block);
}

static void part_with_all(mem_blocks *blocks)
{
    for (unsigned rank = 0; rank < MEM_RANKS; rank++)
        for (mem_block *block; (block = pop(blocks, rank));)
            part_with(blocks, block);
}

/* Parts with `bytes` of idle blocks or a little more: mappings to measure first, then the largest. */
static void shed(mem_blocks *blocks, size_t bytes)
{
    size_t parted = 0;
    for (unsigned rank = MEM_RANKS; rank-- > 0;) {
        for (mem_block *block; parted < bytes && (block = pop(blocks, rank));) {
            parted += block->size;
            part_with(blocks, block);
        }
    }
}

static void note_peak(mem_blocks *blocks, size_t held)
{
    struct mem_retention *retention = &blocks->retention;
    size_t period = mem_depot_period(blocks->depot);
    bool is_over = period != retention->period;
    if (is_over)
        __atomic_store_n(&retention->period, period, __ATOMIC_RELAXED);
    if (!blocks->adaptive)
        return;
    mem_retention_note(retention, held);
    if (!is_over && held <= blocks->retain)
        return;
    blocks->retain = mem_retention_limit(retention);
    if (!is_over)
        return;
    size_t over = blocks->idle > blocks->retain ? blocks->idle - blocks->retain : 0;
    size_t unused = retention->low / 2;
    shed(blocks, over > unused ? over : unused);
    retention->low = blocks->idle;
    mem_retention_age(retention);
}

void mem_blocks_note_peak(mem_blocks *blocks, size_t held)
{
    enter(blocks);
    note_peak(blocks, held);
    leave(blocks);
}

bool mem_blocks_is_neglected(const mem_blocks *blocks)
{
    return mem_read(&blocks->idle) > 0 &&
           mem_depot_period(blocks->depot) - mem_read(&blocks->retention.period) > 1;
}

void mem_blocks_clear(mem_blocks *blocks)
{
    enter(blocks);
    part_with_all(blocks);
    leave(blocks);
}

void mem_blocks_delete(mem_blocks *blocks)
{
    if (!blocks)
        return;
    assert(blocks->lent == 0);
    part_with_all(blocks);
    for (unsigned rank = 0; rank < MEM_CLASSES; rank++) {
        struct fresh *fresh = &blocks->fresh[rank];
        if (fresh->start != fresh->end)
            (void)mem_unmap(fresh->start, (size_t)(fresh->end - fresh->start));
    }
    mem_depot_add_counts(blocks->depot, blocks->maps, blocks->unmaps);
    if (blocks->shared)
        pthread_mutex_destroy(&blocks->lock);
    free(blocks);
}

/* A block that was never used. Of a class a batch is one mapping, so that the system is not called
 * for each; each is unmapped for itself. The highest addresses come first, as in an arena and in the
 * system's mappings, so that what is allocated in a row lies in a row. */
static mem_block *take_fresh(mem_blocks *blocks, size_t size, unsigned rank)
{
    if (rank >= MEM_CLASSES)
        return mem_map(size, rank == MEM_RANK_HUGE ? size : PAGE);
    struct fresh *fresh = &blocks->fresh[rank];
    if (fresh->start == fresh->end) {
        size_t whole = BATCH - BATCH % size;
        char *batch = mem_map(whole, size & -size); /* aligned to the power of two in it */
        if (!batch)
            return NULL;
        *fresh = (struct fresh){batch, batch + whole};
    }
    fresh->end -= size;
    return (mem_block *)fresh->end;
}

/* An idle mapping becomes one of another measure: what it has of pages, up to that, stays. */
static mem_block *remeasure(mem_blocks *blocks, mem_block *block, size_t size)
{
    mem_unpoison(block, block->size);
    mem_block *moved = mem_remap(block, block->size, size);
    if (!moved) {
        (void)mem_unmap(block, block->size);
        mem_count(&blocks->unmaps, 1);
    }
    return moved;
}

static mem_block *take(mem_blocks *blocks, size_t whole)
{
    unsigned rank = mem_rank(whole);
    mem_block *block = pop(blocks, rank);
    if (block && block->size != whole)
        block = remeasure(blocks, block, whole);
    if (!block && rank != MEM_RANK_MEASURED)
        block = mem_depot_take(blocks->depot, rank);
    if (!block && (block = take_fresh(blocks, whole, rank)))
        mem_count(&blocks->maps, 1);
    if (!block)
        return NULL;
    mem_unpoison(block, whole);
    block->size = whole;
    mem_count(&blocks->lent, whole);
    return block;
}

mem_block *mem_blocks_take_whole(mem_blocks *blocks, size_t whole)
{
    enter(blocks);
    mem_block *block = take(blocks, whole);
    leave(blocks);
    return block;
}

mem_block *mem_blocks_take(mem_blocks *blocks, size_t size)
{
    size_t whole = mem_block_size(size);
    return whole ? mem_blocks_take_whole(blocks, whole) : NULL;
}

/* Whether an idle block of that size may stay. Used again, a mapping is resident from its start, and
 * what is filled slowly, like a body, would not be: so there are few. */
static bool has_room(const mem_blocks *blocks, size_t size, unsigned rank)
{
    if (rank == MEM_RANK_MEASURED && blocks->measured == MEASURED_MAX)
        return false;
    return size <= blocks->retain && blocks->idle <= blocks->retain - size;
}

static void give(mem_blocks *blocks, mem_block *block)
{
    size_t size = block->size;
    unsigned rank = mem_rank(size);
    mem_count(&blocks->lent, -size);
    if (!has_room(blocks, size, rank)) {
        part_with(blocks, block);
        return;
    }
    mem_poison((char *)block + MEM_BLOCK_HEADER, size - MEM_BLOCK_HEADER);
    blocks->measured += rank == MEM_RANK_MEASURED;
    block->next = blocks->idle_blocks[rank];
    blocks->idle_blocks[rank] = block;
    mem_count(&blocks->idle, size);
}

void mem_blocks_give(mem_blocks *blocks, mem_block *block)
{
    enter(blocks);
    give(blocks, block);
    leave(blocks);
}

/* Oldest first: the small blocks that every request begins with stay in the magazine, and what is
 * too much goes to the depot. */
size_t mem_blocks_give_all(mem_blocks *blocks, mem_block *newest, mem_block *large, size_t held)
{
    size_t given = 0;
    enter(blocks);
    note_peak(blocks, held);
    for (mem_block *block = newest ? newest->prev : NULL; block;) {
        mem_block *newer = block != newest ? block->prev : NULL;
        given += block->size;
        give(blocks, block);
        block = newer;
    }
    while (large) {
        mem_block *next = large->next;
        given += large->size;
        give(blocks, large);
        large = next;
    }
    leave(blocks);
    return given;
}

mem_block *mem_blocks_resize(mem_blocks *blocks, mem_block *block, size_t size)
{
    size_t old_size = block->size, whole = mem_block_size(size);
    assert(old_size > MEM_BLOCK_MAX && whole > MEM_BLOCK_MAX);
    mem_unpoison(block, old_size);
    mem_block *moved = mem_remap(block, old_size, whole);
    if (!moved)
        return NULL;
    moved->size = whole;
    enter(blocks);
    mem_count(&blocks->lent, whole - old_size);
    leave(blocks);
    return moved;
}

mem_blocks_stats mem_blocks_get_stats(const mem_blocks *blocks)
{
    return (mem_blocks_stats){
        .idle = mem_read(&blocks->idle),
        .lent = mem_read(&blocks->lent),
        .maps = mem_read(&blocks->maps),
        .unmaps = mem_read(&blocks->unmaps),
    };
}
