/* What the files of alloc/ share and nobody else sees: the kinds of context, budgets, the way of
 * blocks to the system, and what AddressSanitizer and Valgrind are told of memory that is ours but
 * not handed out. */
#ifndef MEM_INTERNAL_H
#define MEM_INTERNAL_H

#include <assert.h>

#include "blocks.h"
#include "debug.h"

#ifndef MEM_VALGRIND
#define MEM_VALGRIND 0
#endif

/* mem_poison: nobody may touch it. mem_unpoison: it may be used again, with what it holds.
 * mem_hand_out: it may be used, and holds nothing yet. */
#if MEM_ASAN
#include <sanitizer/asan_interface.h>
#define mem_poison(p, size) __asan_poison_memory_region((p), (size))
#define mem_unpoison(p, size) __asan_unpoison_memory_region((p), (size))
#define mem_hand_out(p, size) __asan_unpoison_memory_region((p), (size))
#define mem_on_valgrind false
#elif MEM_VALGRIND /* memcheck.h was there at build time */
#include <valgrind/memcheck.h>
extern bool mem_on_valgrind; /* system.c; set before main */
#define MEM_TELL(request, p, size) \
    (__builtin_expect(mem_on_valgrind, 0) ? (void)request(p, size) : (void)0)
#define mem_poison(p, size) MEM_TELL(VALGRIND_MAKE_MEM_NOACCESS, p, size)
#define mem_unpoison(p, size) MEM_TELL(VALGRIND_MAKE_MEM_DEFINED, p, size)
#define mem_hand_out(p, size) MEM_TELL(VALGRIND_MAKE_MEM_UNDEFINED, p, size)
#else
#define mem_poison(p, size) ((void)(p), (void)(size))
#define mem_unpoison(p, size) ((void)(p), (void)(size))
#define mem_hand_out(p, size) ((void)(p), (void)(size))
#define mem_on_valgrind false
#endif

/* ---- Contexts -------------------------------------------------------------------------------- */

/* One kind of context. Sizes are at least 1; `p` is never NULL. */
struct mem_kind {
    const char *name;
    void *(*alloc)(mem_context *ctx, size_t size, size_t align);
    void *(*resize)(mem_context *ctx, void *p, size_t old_size, size_t new_size);
    void (*free)(mem_context *ctx, void *p, size_t size);
    void (*reset)(mem_context *ctx); /* gives back every allocation */
    void (*end)(mem_context *ctx);   /* after reset; releases the struct unless it is embedded */
    /* For instruments: overwrites all that is handed out; whether `p` can be an allocation of `size`
     * bytes of this context. */
    void (*wipe)(mem_context *ctx, int byte);
    bool (*owns)(const mem_context *ctx, const void *p, size_t size);
    mem_debug *debug; /* NULL: no instruments */
};

/* mem_alloc compares addresses as signed numbers. */
static_assert(sizeof(void *) == 8, "no address lies in the upper half");

extern const mem_kind mem_arena_kind, mem_heap_kind;

/* ---- Instruments (debug.c) --------------------------------------------------------------------- */

extern mem_debug *mem_debug_default;
/* `kind` as seen through the instruments. */
const mem_kind *mem_debug_kind(mem_debug *debug, const mem_kind *kind);

/* Fills in an empty context and hangs it into the tree. */
void mem_context_init(mem_context *ctx, mem_context *parent, const char *name,
                      const mem_kind *kind);

/* Of an empty arena: gives back the block that it has kept over resets, if there is one. */
void mem_arena_keep_none(mem_context *ctx);

/* Counts a refusal, closes the bump window, returns NULL. */
void *mem_refuse(mem_context *ctx);

/* Where the newest bump block of an arena, or its first block, begins and ends. */
static inline char *mem_bump_start(const mem_context *ctx)
{
    return ctx->block ? (char *)ctx->block + MEM_BLOCK_HEADER : ctx->first;
}

static inline char *mem_bump_end(const mem_context *ctx)
{
    if (ctx->block)
        return (char *)ctx->block + ctx->block->size;
    return ctx->first ? ctx->first + ctx->first_size : NULL;
}

/* Where the back's allocations begin. */
static inline char *mem_bump_back(const mem_context *ctx)
{
    return ctx->end == ctx->cur ? ctx->back : ctx->end - 1;
}

/* Bytes of the newest bump block, or the first block, that are taken, from both ends. */
static inline size_t mem_bump_used(const mem_context *ctx)
{
    return (size_t)(ctx->cur - mem_bump_start(ctx)) +
           (size_t)(mem_bump_end(ctx) - mem_bump_back(ctx));
}

/* Bytes handed out, also in blocks of their own. */
static inline size_t mem_used(const mem_context *ctx)
{
    return ctx->closed_used + mem_bump_used(ctx);
}

/* Takes note of what is used, before it shrinks, and counts the reset. Returns the bytes used. */
static inline size_t mem_note_reset(mem_context *ctx)
{
    size_t used = mem_used(ctx);
    if (used > ctx->peak)
        ctx->peak = used;
    ctx->resets++;
    return used;
}

/* Whether nothing is allocated, at either end. */
static inline bool mem_is_empty(const mem_context *ctx)
{
    return !ctx->block && !ctx->large && mem_bump_used(ctx) == 0;
}

/* Lets every allocation take the slow path. */
static inline void mem_shut_window(mem_context *ctx)
{
    ctx->back = mem_bump_back(ctx);
    ctx->end = ctx->cur;
}

static inline uintptr_t mem_align_up(uintptr_t at, size_t align)
{
    return (at + (align - 1)) & ~(uintptr_t)(align - 1);
}

/* The list of blocks that are freed one by one, newest first. */
static inline void mem_list_push(mem_block **list, mem_block *block)
{
    block->prev = NULL;
    block->next = *list;
    if (block->next)
        block->next->prev = block;
    *list = block;
}

static inline void mem_list_remove(mem_block **list, mem_block *block)
{
    *(block->prev ? &block->prev->next : list) = block->next;
    if (block->next)
        block->next->prev = block->prev;
}

/* Puts `block` where the one stood that it was moved from. */
static inline void mem_list_moved(mem_block **list, mem_block *block)
{
    *(block->prev ? &block->prev->next : list) = block;
    if (block->next)
        block->next->prev = block;
}

/* Sizes by steps, four to a doubling: step 0 is `base`, a power of two, steps 1 to 4 are 1.25, 1.5, 1.75
 * and 2 times that, and so on. mem_step gives the least that holds `size`. */
#define MEM_STEPS 4u
static inline unsigned mem_step(size_t size, size_t base)
{
    if (size <= base)
        return 0;
    unsigned doublings = (unsigned)__builtin_clzl(base) - (unsigned)__builtin_clzl(size - 1);
    size_t step = (base << doublings) / MEM_STEPS, beyond = size - (base << doublings);
    return doublings * MEM_STEPS + (unsigned)((beyond + step - 1) / step);
}

static inline size_t mem_step_size(unsigned step, size_t base)
{
    return (base << step / MEM_STEPS) / MEM_STEPS * (MEM_STEPS + step % MEM_STEPS);
}

/* ---- Budgets (NULL: unlimited) --------------------------------------------------------------- */

#define MEM_IMPOSSIBLE SIZE_MAX /* stands for a size that cannot be represented */

/* For a budget that has not refused yet. false: refused now, and the reason sticks to it. */
bool mem_budget_charge(mem_budget *budget, size_t bytes);
/* Bytes up to the limit, its own or the total's, that is nearer. Other threads charge the total
 * too, so it promises nothing. */
size_t mem_budget_room(const mem_budget *budget);
void mem_budget_release(mem_budget *budget, size_t bytes);
/* The system failed after `bytes` were charged. */
void mem_budget_fail(mem_budget *budget, size_t bytes);

static inline bool mem_budget_refused(const mem_budget *budget)
{
    return budget && budget->refused != MEM_GRANTED;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Blocks are kept by rank: the classes, those of MEM_BLOCK_HUGE, and what is mapped to measure. */
#define MEM_CLASSES 11  /* 4, 8, 16, 20, 24, 28, 32, 40, 48, 56, 64 KiB (blocks.c) */
#define MEM_MEASURES 32 /* 80, 96, 112, 128, 160… KiB, to 16 MiB */
#define MEM_RANK_HUGE MEM_CLASSES
#define MEM_RANK_MEASURED (MEM_CLASSES + 1u)
#define MEM_RANKS (MEM_RANK_MEASURED + MEM_MEASURES)

/* The header of a block as the magazines know it. */
typedef struct mem_extent {
    mem_block block;
    size_t mapped; /* bytes, `block.size` or more; its rank is by these */
} mem_extent;
static_assert(sizeof(mem_extent) <= MEM_BLOCK_HEADER, "the payload begins behind the header");

/* By the bytes that a block is mapped with. MEM_RANKS: too large to be kept. */
unsigned mem_rank(size_t mapped);

/* mem_blocks_take for a size that mem_block_size has given, or MEM_BLOCK_HUGE: aligned to as many
 * bytes, and no other block has that size. NULL: no memory. */
mem_block *mem_blocks_take_whole(mem_blocks *blocks, size_t whole);

/* Gives back all that an arena has, which holds `held` bytes: its bump blocks, as push_block chains
 * them (arena.c), and its large ones, chained by `next`; NULL: none. Returns the bytes given. */
size_t mem_blocks_give_all(mem_blocks *blocks, mem_block *newest, mem_block *large, size_t held);

/* Makes `block`, mapped to measure, `size` bytes with its header, also larger than that; it
 * may move. NULL: no memory, and `block` is still valid. */
mem_block *mem_blocks_resize(mem_blocks *blocks, mem_block *block, size_t size);

/* An arena that holds so many bytes is about to give them back, or a large block of them: a peak of
 * its work. */
void mem_blocks_note_peak(mem_blocks *blocks, size_t held);

/* The adaptive limit of a magazine (retain.c). */
#define MEM_PEAK_STEPS 49 /* from 4 KiB to 16 MiB */
struct mem_retention {
    uint32_t peaks[MEM_PEAK_STEPS]; /* how many, by their size; half as many each period */
    size_t low;                     /* lowest idle bytes in this period */
    size_t period; /* the depot's, that these figures are of; written relaxed, mem_read */
};
void mem_retention_note(struct mem_retention *retention, size_t peak);
void mem_retention_age(struct mem_retention *retention); /* once a period */
/* What is to be kept from now on. */
size_t mem_retention_limit(const struct mem_retention *retention);

/* Counts the calls of mem_depot_decay. From any thread. */
size_t mem_depot_period(const mem_depot *depot);

/* The depot's side. `block` is idle: all but its header is poisoned. */
void mem_depot_give(mem_depot *depot, mem_block *block);
mem_block *mem_depot_take(mem_depot *depot, unsigned rank); /* NULL: the depot has none */
void mem_depot_add_counts(mem_depot *depot, uint64_t maps, uint64_t unmaps);

/* Pages of the system, of sizes that are multiples of the page. MEM_BLOCK_HUGE bytes with that
 * alignment are one huge page where the system has one to give. */
void *mem_map(size_t size, size_t align); /* NULL: no memory */
void *mem_remap(void *p, size_t old_size, size_t new_size);
/* false: the system could not split a mapping. The pages are given back, the addresses are not. */
bool mem_unmap(void *p, size_t size);

/* A counter that its owner writes and any thread may read. */
static inline void mem_count(size_t *counter, size_t add)
{
    __atomic_store_n(counter, *counter + add, __ATOMIC_RELAXED);
}

#define mem_read(counter) __atomic_load_n((counter), __ATOMIC_RELAXED)

#endif
