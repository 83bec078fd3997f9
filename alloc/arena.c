/* The arena: a context that bumps a pointer through blocks of 4, 16, then 64 KiB, at last of 2 MiB,
 * from both ends, after its first block if there is one. Reset gives the blocks back to the magazine;
 * the round after it takes one as large as the round before it needed, up to 64 KiB. An arena that
 * was created, and has no budget, keeps that one as its first block: rounds alike take and give none.
 *
 * One invariant carries the rest. Requests above MEM_LARGE, and only they, have a block of their
 * own: size alone tells where an allocation lives, so it needs no header. */
#include <string.h>

#include "internal.h"

#define GROWTH 4u                       /* each bump block is so many times the one before… */
#define BUMP_BLOCK_MAX MEM_BLOCK_MAX    /* …up to this, until the arena holds… */
#define HUGE_FROM (32u * 1024u * 1024u) /* …so much that a huge block can be its sixteenth */
static_assert(MEM_LARGE + MEM_BLOCK_HEADER <= BUMP_BLOCK_MAX, "any bump request fits a bump block");
static_assert(MEM_BLOCK_HEADER % MEM_ALIGN == 0 && MEM_LARGE % MEM_ALIGN == 0,
              "windows are aligned");

/* Whether every request has to take the slow path, so that somebody sees it. */
static bool is_watched(const mem_context *ctx)
{
    return ctx->kind != &mem_arena_kind || mem_on_valgrind;
}

/* What lies between `cur`, rounded up, and `back` is free. The window stays shut while the budget
 * refuses, also after a free or a reset. */
static void open_window(mem_context *ctx, char *cur, char *back)
{
    ctx->cur = (char *)mem_align_up((uintptr_t)cur, MEM_ALIGN);
    ctx->back = back;
    bool shut = !back || is_watched(ctx) || mem_budget_refused(ctx->budget);
    ctx->end = shut ? ctx->cur : back + 1;
}

/* ---- Bump blocks ----------------------------------------------------------------------------- */

/* Newest first by `next`; `prev` leads back, and from the newest to the oldest. */
static void push_block(mem_context *ctx, mem_block *block)
{
    mem_block *newest = ctx->block;
    block->next = newest;
    block->prev = newest ? newest->prev : block;
    if (newest)
        newest->prev = block;
    ctx->block = block;
}

/* Near a limit, room for what is not asked for must not be why something that is is refused. */
static size_t bump_size(const mem_context *ctx, size_t request)
{
    size_t most = mem_budget_room(ctx->budget) / 4;
    size_t size = ctx->next_size;
    if (size == BUMP_BLOCK_MAX && ctx->held >= HUGE_FROM && MEM_BLOCK_HUGE <= most)
        return MEM_BLOCK_HUGE;
    if (size >= MEM_BLOCK_HEADER + request && size <= most)
        return size;
    return mem_block_size(MEM_BLOCK_HEADER + request);
}

/* Leaves the window shut. */
static bool add_block(mem_context *ctx, size_t request)
{
    mem_budget *budget = ctx->budget;
    size_t size = bump_size(ctx, request);
    if (!mem_budget_charge(budget, size))
        return false;
    mem_block *block = mem_blocks_take_whole(ctx->source, size);
    if (!block) {
        mem_budget_fail(budget, size);
        return false;
    }
    ctx->closed_used += mem_bump_used(ctx);
    push_block(ctx, block);
    ctx->cur = ctx->end = (char *)block + MEM_BLOCK_HEADER;
    ctx->back = (char *)block + size;
    ctx->held += size;
    ctx->blocks++;
    ctx->next_size = size * GROWTH < BUMP_BLOCK_MAX ? size * GROWTH : BUMP_BLOCK_MAX;
    mem_poison(ctx->cur, size - MEM_BLOCK_HEADER);
    return true;
}

/* ---- Large blocks ---------------------------------------------------------------------------- */

static size_t large_size(size_t request)
{
    size_t size =
        request <= SIZE_MAX - MEM_BLOCK_HEADER ? mem_block_size(MEM_BLOCK_HEADER + request) : 0;
    return size ? size : MEM_IMPOSSIBLE;
}

static void *large_payload(mem_block *block, size_t request)
{
    char *payload = (char *)block + MEM_BLOCK_HEADER;
    block->used = request;
    mem_unpoison(payload, request);
    mem_poison(payload + request, block->size - MEM_BLOCK_HEADER - request);
    return payload;
}

static void *alloc_large(mem_context *ctx, size_t request)
{
    size_t size = large_size(request);
    if (!mem_budget_charge(ctx->budget, size))
        return mem_refuse(ctx);
    mem_block *block = mem_blocks_take(ctx->source, size);
    if (!block) {
        mem_budget_fail(ctx->budget, size);
        return mem_refuse(ctx);
    }
    mem_list_push(&ctx->large, block);
    ctx->held += size;
    ctx->large_blocks++;
    ctx->closed_used += request;
    return large_payload(block, request);
}

static mem_block *large_block(void *p, size_t request)
{
    mem_block *block = (mem_block *)((char *)p - MEM_BLOCK_HEADER);
    assert(block->used == request);
    (void)request;
    return block;
}

static void free_large(mem_context *ctx, mem_block *block)
{
    size_t size = block->size;
    mem_list_remove(&ctx->large, block);
    ctx->held -= size;
    ctx->large_blocks--;
    ctx->closed_used -= block->used;
    mem_blocks_give(ctx->source, block);
    mem_budget_release(ctx->budget, size);
}

/* A mapping to measure, to another measure: the system moves pages, not bytes. */
static mem_block *remap_large(mem_context *ctx, mem_block *block, size_t size)
{
    size_t old_size = block->size;
    size_t more = size > old_size ? size - old_size : 0;
    if (more && !mem_budget_charge(ctx->budget, more))
        return NULL;
    mem_block *moved = mem_blocks_resize(ctx->source, block, size);
    if (!moved) {
        mem_budget_fail(ctx->budget, more);
        return NULL;
    }
    mem_list_moved(&ctx->large, moved);
    mem_budget_release(ctx->budget, more ? 0 : old_size - size);
    ctx->held += size - old_size;
    return moved;
}

static void *resize_large(mem_context *ctx, void *p, size_t old_request, size_t request)
{
    mem_block *block = large_block(p, old_request);
    size_t size = large_size(request);
    bool mapped = block->size > MEM_BLOCK_MAX;
    if (mapped && size <= MEM_BLOCK_MAX) /* it stays one, the smallest */
        size = mem_block_size(MEM_BLOCK_MAX + 1);
    if (mapped && size != MEM_IMPOSSIBLE) {
        if (size != block->size && !(block = remap_large(ctx, block, size)))
            return mem_refuse(ctx);
    } else if (size > block->size) {
        void *moved = alloc_large(ctx, request);
        if (moved) {
            memcpy(moved, p, old_request);
            free_large(ctx, block);
        }
        return moved;
    }
    ctx->closed_used += request - old_request;
    return large_payload(block, request);
}

/* ---- The kind -------------------------------------------------------------------------------- */

static void *arena_alloc(mem_context *ctx, size_t size, size_t align)
{
    if (size > MEM_LARGE)
        return alloc_large(ctx, size);
    bool from_front = align > MEM_GRAIN || is_watched(ctx);
    size_t whole = mem_align_up(size, from_front ? MEM_ALIGN : MEM_GRAIN);
    if ((!ctx->cur || whole > (size_t)(mem_bump_back(ctx) - ctx->cur)) && !add_block(ctx, size))
        return mem_refuse(ctx);
    char *back = mem_bump_back(ctx), *at = from_front ? ctx->cur : back - whole;
    open_window(ctx, from_front ? at + whole : ctx->cur, from_front ? back : at);
    mem_hand_out(at, size);
    return at;
}

/* The newest from the front; the newest from the back lies at mem_bump_back. What has no byte took
 * no place, so what ends there now is another's. */
static bool is_newest(const mem_context *ctx, const void *p, size_t size)
{
    return size > 0 && mem_align_up((uintptr_t)p + size, MEM_ALIGN) == (uintptr_t)ctx->cur;
}

static void arena_free(mem_context *ctx, void *p, size_t size)
{
    if (size > MEM_LARGE) {
        mem_blocks_note_peak(ctx->source, ctx->held);
        free_large(ctx, large_block(p, size));
        return;
    }
    if (size == 0)
        return;
    mem_poison(p, size);
    char *back = mem_bump_back(ctx);
    if (is_newest(ctx, p, size))
        open_window(ctx, p, back);
    else if (p == back && back < mem_bump_end(ctx)) /* behind it the caller's block may begin */
        open_window(ctx, ctx->cur, back + mem_align_up(size, MEM_GRAIN));
}

static void *arena_resize(mem_context *ctx, void *p, size_t old_size, size_t new_size)
{
    bool was_large = old_size > MEM_LARGE, is_large = new_size > MEM_LARGE;
    if (was_large && is_large)
        return resize_large(ctx, p, old_size, new_size);
    if (!was_large && !is_large) {
        char *back = mem_bump_back(ctx);
        if (is_newest(ctx, p, old_size) &&
            mem_align_up(new_size, MEM_ALIGN) <= (size_t)(back - (char *)p)) {
            mem_poison(p, old_size);
            open_window(ctx, (char *)p + new_size, back);
            mem_unpoison(p, new_size);
            return p;
        }
        if (new_size <= old_size) {
            mem_poison((char *)p + new_size, old_size - new_size);
            return p;
        }
    }
    if (mem_budget_refused(ctx->budget))
        return mem_refuse(ctx);
    void *moved = arena_alloc(ctx, new_size, MEM_ALIGN);
    if (!moved)
        return NULL;
    memcpy(moved, p, old_size < new_size ? old_size : new_size);
    arena_free(ctx, p, old_size);
    return moved;
}

/* ---- The first block of an arena that was created: at first what its struct leaves of its block -- */

static char *behind_struct(const mem_context *ctx)
{
    return (char *)mem_align_up((uintptr_t)(ctx + 1), MEM_ALIGN);
}

static bool is_behind_struct(const mem_context *ctx)
{
    return ctx->first == behind_struct(ctx);
}

static void begin_behind_struct(mem_context *ctx)
{
    mem_block *block = (mem_block *)((char *)ctx - MEM_BLOCK_HEADER);
    ctx->first = behind_struct(ctx);
    ctx->first_size = (size_t)((char *)block + block->size - ctx->first);
}

static void give_first(mem_context *ctx)
{
    if (is_behind_struct(ctx))
        return;
    mem_block *block = (mem_block *)(ctx->first - MEM_BLOCK_HEADER);
    ctx->held -= block->size;
    mem_blocks_give(ctx->source, block);
    begin_behind_struct(ctx);
}

/* The least that a block has to have room for to be the first instead. */
#define WORTH_KEEPING(first_size) ((first_size) + MEM_BLOCK_MIN)

/* After a round that took `used` bytes of bump blocks. The oldest of them, if that is more, is the first
 * block of the next round; one of which not a quarter was used goes back. Under a budget there is none,
 * since it would have to be charged when nothing is allocated. */
static void choose_first(mem_context *ctx, size_t used)
{
    mem_block *newest = ctx->block, *oldest = newest ? newest->prev : NULL;
    if (ctx->budget || (!oldest && used < ctx->first_size / 4))
        give_first(ctx);
    if (ctx->budget || !oldest || oldest->size > MEM_BLOCK_MAX ||
        oldest->size - MEM_BLOCK_HEADER < WORTH_KEEPING(ctx->first_size))
        return;
    if (oldest == newest) {
        ctx->block = NULL;
    } else {
        newest->prev = oldest->prev;
        newest->prev->next = NULL;
    }
    give_first(ctx);
    mem_poison(ctx->first, ctx->first_size);
    ctx->first = (char *)oldest + MEM_BLOCK_HEADER;
    ctx->first_size = oldest->size - MEM_BLOCK_HEADER;
}

void mem_arena_keep_none(mem_context *ctx)
{
    if (ctx->embedded || is_behind_struct(ctx))
        return;
    give_first(ctx);
    ctx->blocks = 1;
    mem_poison(ctx->first, ctx->first_size);
    open_window(ctx, mem_bump_start(ctx), mem_bump_end(ctx));
}

/* ---- Reset ----------------------------------------------------------------------------------- */

static void give_all(mem_context *ctx)
{
    size_t given = mem_blocks_give_all(ctx->source, ctx->block, ctx->large, ctx->held);
    ctx->held -= given;
    mem_budget_release(ctx->budget, given);
    ctx->block = ctx->large = NULL;
    ctx->large_blocks = 0;
}

/* The next round is likely to need as much as this one, which took `used` bytes of bump blocks: one for
 * it spares the growth. In an arena that keeps its blocks it is to replace the first. */
static size_t next_size(const mem_context *ctx, size_t used)
{
    bool replaces = !ctx->embedded && !ctx->budget && used <= BUMP_BLOCK_MAX - MEM_BLOCK_HEADER;
    size_t needed = used > ctx->first_size ? used - ctx->first_size : 0;
    if (replaces && needed > 0)
        needed = used > WORTH_KEEPING(ctx->first_size) ? used : WORTH_KEEPING(ctx->first_size);
    if (needed > BUMP_BLOCK_MAX - MEM_BLOCK_HEADER)
        return BUMP_BLOCK_MAX;
    size_t size = MEM_BLOCK_MIN; /* times a power of two, so that other rounds can use it too */
    while (size < MEM_BLOCK_HEADER + needed)
        size *= 2;
    return size;
}

static void arena_reset(mem_context *ctx)
{
    size_t used = mem_note_reset(ctx);
    for (const mem_block *block = ctx->large; block; block = block->next)
        used -= block->used;
    if (!ctx->embedded)
        choose_first(ctx, used);
    ctx->next_size = next_size(ctx, used);
    if (ctx->block || ctx->large)
        give_all(ctx);
    else if (!ctx->embedded && !is_behind_struct(ctx))
        mem_blocks_note_peak(ctx->source, ctx->held);
    ctx->blocks = ctx->embedded ? 0 : is_behind_struct(ctx) ? 1 : 2;
    ctx->closed_used = 0;
    mem_poison(ctx->first, ctx->first_size);
    open_window(ctx, mem_bump_start(ctx), mem_bump_end(ctx));
}

static void arena_end(mem_context *ctx)
{
    mem_unpoison(ctx->first, ctx->first_size);
    if (ctx->embedded)
        return;
    mem_blocks_note_peak(ctx->source, ctx->held);
    give_first(ctx);
    mem_blocks_give(ctx->source, (mem_block *)((char *)ctx - MEM_BLOCK_HEADER));
}

static void wipe(char *from, size_t size, int byte)
{
    if (size == 0)
        return;
    mem_unpoison(from, size);
    memset(from, byte, size);
}

static void arena_wipe(mem_context *ctx, int byte)
{
    char *start = mem_bump_start(ctx), *back = mem_bump_back(ctx);
    wipe(start, (size_t)(ctx->cur - start), byte);
    wipe(back, (size_t)(mem_bump_end(ctx) - back), byte);
    for (mem_block *block = ctx->block; block; block = block->next) {
        if (block != ctx->block)
            wipe((char *)block + MEM_BLOCK_HEADER, block->size - MEM_BLOCK_HEADER, byte);
    }
    if (ctx->block && ctx->first)
        wipe(ctx->first, ctx->first_size, byte);
    for (mem_block *block = ctx->large; block; block = block->next)
        wipe((char *)block + MEM_BLOCK_HEADER, block->used, byte);
}

static bool is_within(const void *p, size_t size, const char *from, const char *to)
{
    return (const char *)p >= from && (const char *)p <= to &&
           size <= (size_t)(to - (const char *)p);
}

static bool arena_owns(const mem_context *ctx, const void *p, size_t size)
{
    if (size > MEM_LARGE) {
        for (const mem_block *block = ctx->large; block; block = block->next) {
            if ((const char *)block + MEM_BLOCK_HEADER == p)
                return block->used == size;
        }
        return false;
    }
    /* What has no byte keeps no place: what it stood behind may be free again. */
    char *front = size > 0 ? ctx->cur : mem_bump_end(ctx);
    if (is_within(p, size, mem_bump_start(ctx), front) ||
        is_within(p, size, mem_bump_back(ctx), mem_bump_end(ctx)))
        return true;
    for (const mem_block *block = ctx->block; block; block = block->next) {
        const char *start = (const char *)block;
        if (block != ctx->block &&
            is_within(p, size, start + MEM_BLOCK_HEADER, start + block->size))
            return true;
    }
    return ctx->block && ctx->first && is_within(p, size, ctx->first, ctx->first + ctx->first_size);
}

const mem_kind mem_arena_kind = {
    .name = "arena",
    .alloc = arena_alloc,
    .resize = arena_resize,
    .free = arena_free,
    .reset = arena_reset,
    .end = arena_end,
    .wipe = arena_wipe,
    .owns = arena_owns,
};

void mem_arena_init(mem_context *ctx, mem_context *parent, const char *name, mem_blocks *source,
                    void *first, size_t first_size)
{
    assert((uintptr_t)first % MEM_ALIGN == 0);
    mem_context_init(ctx, parent, name, &mem_arena_kind);
    ctx->source = source;
    ctx->next_size = MEM_BLOCK_MIN;
    if (first) {
        ctx->first = first;
        ctx->first_size = first_size & ~(size_t)(MEM_ALIGN - 1);
        mem_poison(ctx->first, ctx->first_size);
    }
    open_window(ctx, mem_bump_start(ctx), mem_bump_end(ctx));
}

mem_context *mem_arena_create(mem_context *parent, const char *name, mem_blocks *source)
{
    mem_block *block = mem_blocks_take(source, MEM_BLOCK_MIN);
    if (!block)
        return NULL;
    mem_context *ctx = (mem_context *)((char *)block + MEM_BLOCK_HEADER);
    char *first = behind_struct(ctx);
    mem_arena_init(ctx, parent, name, source, first, (size_t)((char *)block + block->size - first));
    ctx->embedded = false;
    ctx->held = block->size;
    ctx->blocks = 1;
    return ctx;
}
