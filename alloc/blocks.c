/* The magazine: one thread's idle blocks, last in, first out. A block that is asked for comes
 * from the magazine, else from the depot, else from the system; one that is given back stays if
 * the retain limit allows, else goes to the depot. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PAGE 4096u
#define BATCH (1024u * 1024u) /* classes are mapped so many bytes at a time, or a little less */
#define MEASURE_MAX (MEM_BLOCK_MAX << MEM_MEASURES / MEM_STEPS) /* no larger mapping is kept */
static_assert(MEM_MEASURES % MEM_STEPS == 0, "the measures end with a doubling");

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

/* What a block of `size` bytes, as mem_block_size gives them, is mapped with. Above the classes it
 * is the step's size, so that one mapping serves for all that is about as large; what is not touched
 * of it costs addresses, no memory. */
static size_t mapping_size(size_t size)
{
    if (size <= MEM_BLOCK_MAX || size == MEM_BLOCK_HUGE || size > MEASURE_MAX)
        return size;
    unsigned step = mem_step(size, MEM_BLOCK_MAX);
    size_t mapped = mem_step_size(step, MEM_BLOCK_MAX);
    return mapped == MEM_BLOCK_HUGE ? mem_step_size(step + 1, MEM_BLOCK_MAX) : mapped;
}

unsigned mem_rank(size_t mapped)
{
    if (mapped <= MEM_BLOCK_MAX)
        return class_for(mapped);
    if (mapped == MEM_BLOCK_HUGE)
        return MEM_RANK_HUGE;
    return mapped <= MEASURE_MAX ? MEM_RANK_HUGE + mem_step(mapped, MEM_BLOCK_MAX) : MEM_RANKS;
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

static mem_extent *extent_of(mem_block *block)
{
    return (mem_extent *)block;
}

static mem_block *pop(mem_blocks *blocks, unsigned rank)
{
    mem_block *block = blocks->idle_blocks[rank];
    if (block) {
        blocks->idle_blocks[rank] = block->next;
        mem_count(&blocks->idle, -extent_of(block)->mapped);
        if (blocks->idle < blocks->retention.low)
            blocks->retention.low = blocks->idle;
    }
    return block;
}

/* Beyond the retain limit: to the depot; what is of no class, to the system. */
static void part_with(mem_blocks *blocks, mem_block *block)
{
    size_t mapped = extent_of(block)->mapped;
    if (mem_rank(mapped) >= MEM_RANK_MEASURED) {
        (void)mem_unmap(block, mapped);
        mem_count(&blocks->unmaps, 1);
        return;
    }
    mem_poison((char *)block + MEM_BLOCK_HEADER, mapped - MEM_BLOCK_HEADER);
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
            parted += extent_of(block)->mapped;
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
static mem_block *map_fresh(mem_blocks *blocks, size_t size, unsigned rank)
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

static mem_block *take_fresh(mem_blocks *blocks, size_t size, unsigned rank)
{
    mem_block *block = map_fresh(blocks, size, rank);
    if (!block)
        return NULL;
    mem_unpoison(block, MEM_BLOCK_HEADER);
    extent_of(block)->mapped = size;
    mem_count(&blocks->maps, 1);
    return block;
}

/* Of a class, or of a measure or the next ones, up to twice as large: a body's mapping serves for its
 * answer, which is shorter as a rule. */
static mem_block *take_idle(mem_blocks *blocks, unsigned rank)
{
    mem_block *block = NULL;
    unsigned last = rank < MEM_RANK_MEASURED ? rank : rank + MEM_STEPS;
    for (; !block && rank <= last && rank < MEM_RANKS; rank++)
        block = pop(blocks, rank);
    return block;
}

static mem_block *take(mem_blocks *blocks, size_t whole)
{
    size_t mapped = mapping_size(whole);
    unsigned rank = mem_rank(mapped);
    mem_block *block = take_idle(blocks, rank);
    if (!block && rank < MEM_RANK_MEASURED)
        block = mem_depot_take(blocks->depot, rank);
    if (!block && !(block = take_fresh(blocks, mapped, rank)))
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

/* The adaptive limit is for contexts that give and take in turn. In a spike, when those at work hold
 * twice as much, half of it: what lies idle then is on top of the peak. */
static bool has_room(const mem_blocks *blocks, size_t mapped)
{
    size_t limit = blocks->retain;
    if (blocks->adaptive && blocks->lent / 2 > limit)
        limit /= 2;
    return mapped <= MEASURE_MAX && mapped <= limit && blocks->idle <= limit - mapped;
}

static void give(mem_blocks *blocks, mem_block *block)
{
    size_t mapped = extent_of(block)->mapped;
    mem_count(&blocks->lent, -block->size);
    if (!has_room(blocks, mapped)) {
        part_with(blocks, block);
        return;
    }
    mem_poison((char *)block + MEM_BLOCK_HEADER, mapped - MEM_BLOCK_HEADER);
    unsigned rank = mem_rank(mapped);
    block->next = blocks->idle_blocks[rank];
    blocks->idle_blocks[rank] = block;
    mem_count(&blocks->idle, mapped);
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

/* A mapping that is large enough, and not twice what is needed, stays as it is. What it is too small
 * for is copied to one that lies idle: pages that move must be found anew by the processor, which
 * costs more. Else the system adds or takes pages. */
static mem_block *remeasure(mem_blocks *blocks, mem_block *block, size_t whole)
{
    size_t have = extent_of(block)->mapped, mapped = mapping_size(whole);
    mem_unpoison(block, have);
    if (whole <= have && mapped > have / 2)
        return block;
    mem_block *other = whole > have ? take_idle(blocks, mem_rank(mapped)) : NULL;
    if (other) {
        mem_unpoison(other, extent_of(other)->mapped);
        *other = *block;
        memcpy((char *)other + MEM_BLOCK_HEADER, (char *)block + MEM_BLOCK_HEADER,
               block->size - MEM_BLOCK_HEADER);
        mem_count(&blocks->lent, other->size);
        give(blocks, block);
        return other;
    }
    mem_block *moved = mem_remap(block, have, mapped);
    if (moved)
        extent_of(moved)->mapped = mapped;
    return moved;
}

mem_block *mem_blocks_resize(mem_blocks *blocks, mem_block *block, size_t size)
{
    size_t old_size = block->size, whole = mem_block_size(size);
    assert(old_size > MEM_BLOCK_MAX && whole > MEM_BLOCK_MAX);
    enter(blocks);
    mem_block *now = remeasure(blocks, block, whole);
    if (now) {
        now->size = whole;
        mem_poison((char *)now + whole, extent_of(now)->mapped - whole);
        mem_count(&blocks->lent, whole - old_size);
    }
    leave(blocks);
    return now;
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
