/* The heap: a context in which every allocation is a malloc of its own, behind a header that
 * links it to the others so that reset can free them all. The same interface as the arena, for
 * those who want plain malloc or want to compare. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The header is a mem_block, and `large` lists them all; `size` counts the header. */
#define HEADER sizeof(mem_block)
static_assert(HEADER % MEM_ALIGN == 0, "behind the header an allocation is still aligned");

static size_t whole_size(size_t request)
{
    return request <= (size_t)PTRDIFF_MAX - HEADER ? request + HEADER : MEM_IMPOSSIBLE;
}

static mem_block *header_of(void *p, size_t request)
{
    mem_block *block = (mem_block *)((char *)p - HEADER);
    assert(block->size == request + HEADER);
    (void)request;
    return block;
}

static void *heap_alloc(mem_context *ctx, size_t request, size_t align)
{
    (void)align; /* malloc aligns to MEM_ALIGN */
    size_t size = whole_size(request);
    if (!mem_budget_charge(ctx->budget, size))
        return mem_refuse(ctx);
    mem_block *block = malloc(size);
    if (!block) {
        mem_budget_fail(ctx->budget, size);
        return mem_refuse(ctx);
    }
    block->size = size;
    mem_list_push(&ctx->large, block);
    ctx->held += size;
    ctx->closed_used += request;
    ctx->large_blocks++;
    return (char *)block + HEADER;
}

static void heap_free(mem_context *ctx, void *p, size_t request)
{
    mem_block *block = header_of(p, request);
    mem_list_remove(&ctx->large, block);
    ctx->held -= block->size;
    ctx->closed_used -= request;
    ctx->large_blocks--;
    mem_budget_release(ctx->budget, block->size);
    free(block);
}

static void *heap_resize(mem_context *ctx, void *p, size_t old_request, size_t request)
{
    mem_block *block = header_of(p, old_request);
    size_t old_size = block->size, size = whole_size(request);
    size_t more = size > old_size ? size - old_size : 0;
    if (more && !mem_budget_charge(ctx->budget, size == MEM_IMPOSSIBLE ? size : more))
        return mem_refuse(ctx);
    mem_block *moved = realloc(block, size);
    if (!moved) {
        mem_budget_fail(ctx->budget, more);
        return mem_refuse(ctx);
    }
    moved->size = size;
    mem_list_moved(&ctx->large, moved);
    mem_budget_release(ctx->budget, more ? 0 : old_size - size);
    ctx->held += size - old_size;
    ctx->closed_used += request - old_request;
    return (char *)moved + HEADER;
}

static void heap_reset(mem_context *ctx)
{
    size_t given = 0;
    mem_note_reset(ctx);
    for (mem_block *block = ctx->large; block;) {
        mem_block *next = block->next;
        given += block->size;
        free(block);
        block = next;
    }
    mem_budget_release(ctx->budget, given);
    ctx->held -= given; /* an arena that is guarded also holds the block that it lives in */
    ctx->large = NULL;
    ctx->large_blocks = ctx->closed_used = 0;
}

static void heap_end(mem_context *ctx)
{
    if (!ctx->embedded)
        free(ctx);
}

static void heap_wipe(mem_context *ctx, int byte)
{
    for (mem_block *block = ctx->large; block; block = block->next)
        memset((char *)block + HEADER, byte, block->size - HEADER);
}

static bool heap_owns(const mem_context *ctx, const void *p, size_t size)
{
    for (const mem_block *block = ctx->large; block; block = block->next) {
        if ((const char *)block + HEADER == p)
            return block->size == size + HEADER;
    }
    return false;
}

const mem_kind mem_heap_kind = {
    .name = "heap",
    .alloc = heap_alloc,
    .resize = heap_resize,
    .free = heap_free,
    .reset = heap_reset,
    .end = heap_end,
    .wipe = heap_wipe,
    .owns = heap_owns,
};

void mem_heap_init(mem_context *ctx, mem_context *parent, const char *name)
{
    mem_context_init(ctx, parent, name, &mem_heap_kind);
}

mem_context *mem_heap_create(mem_context *parent, const char *name)
{
    mem_context *ctx = malloc(sizeof *ctx);
    if (!ctx)
        return NULL;
    mem_heap_init(ctx, parent, name);
    ctx->embedded = false;
    return ctx;
}
