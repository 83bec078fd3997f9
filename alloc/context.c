/* Memory contexts: the tree, reset and delete, callbacks, statistics, and the calls that are the
 * same for every kind. A context and all below it belong to one thread at a time. */
#include "mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

__thread mem_context *mem_current_context;

/* ---- The tree -------------------------------------------------------------------------------- */

void mem_context_init(mem_context *ctx, mem_context *parent, const char *name, const mem_kind *kind)
{
    mem_debug *debug =
        parent ? parent->kind->debug : __atomic_load_n(&mem_debug_default, __ATOMIC_RELAXED);
    if (debug)
        kind = mem_debug_kind(debug, kind);
    *ctx = (mem_context){.kind = kind, .name = name, .embedded = true};
    if (parent)
        mem_attach(ctx, parent);
}

/* A block that an empty arena keeps was charged to nobody. */
static void charge_to(mem_context *ctx, mem_budget *budget)
{
    if (budget && ctx->source)
        mem_arena_keep_none(ctx);
    ctx->budget = budget;
}

void mem_attach(mem_context *ctx, mem_context *parent)
{
    assert(!ctx->parent && !ctx->child && mem_is_empty(ctx));
    charge_to(ctx, parent->budget);
    ctx->parent = parent;
    ctx->next = parent->child;
    if (ctx->next)
        ctx->next->prev = ctx;
    parent->child = ctx;
    if (mem_budget_refused(ctx->budget))
        mem_shut_window(ctx);
}

static void leave_tree(mem_context *ctx)
{
    if (ctx->prev)
        ctx->prev->next = ctx->next;
    else if (ctx->parent)
        ctx->parent->child = ctx->next;
    if (ctx->next)
        ctx->next->prev = ctx->prev;
    ctx->parent = ctx->prev = ctx->next = NULL;
}

static void run_callbacks(mem_context *ctx)
{
    while (ctx->callbacks) {
        mem_callback *callback = ctx->callbacks;
        ctx->callbacks = callback->next; /* before it runs: it may register another, or be freed */
        callback->run(callback->arg);
    }
}

static void release(mem_context *ctx)
{
    if (!mem_is_empty(ctx))
        ctx->kind->reset(ctx);
}

static void end(mem_context *ctx)
{
    assert(mem_current_context != ctx);
    release(ctx);
    leave_tree(ctx);
    ctx->kind->end(ctx);
}

/* Runs the callbacks of ctx and ends all below it, deepest first, without recursion: a parent is
 * visited again after each child. */
static void end_dependents(mem_context *ctx)
{
    mem_context *at = ctx;
    for (;;) {
        run_callbacks(at);
        if (at->child) {
            at = at->child;
        } else if (at != ctx) {
            mem_context *ended = at;
            at = at->parent;
            end(ended);
        } else {
            return;
        }
    }
}

void mem_reset(mem_context *ctx)
{
    if (ctx->callbacks || ctx->child)
        end_dependents(ctx);
    release(ctx);
}

void mem_detach(mem_context *ctx)
{
    assert(mem_current_context != ctx);
    mem_reset(ctx);
    leave_tree(ctx);
    ctx->budget = NULL;
}

void mem_delete(mem_context *ctx)
{
    if (!ctx)
        return;
    end_dependents(ctx);
    end(ctx);
}

void mem_on_reset(mem_context *ctx, mem_callback *callback)
{
    callback->next = ctx->callbacks;
    ctx->callbacks = callback;
}

void mem_set_budget(mem_context *ctx, mem_budget *budget)
{
    assert(mem_is_empty(ctx));
    charge_to(ctx, budget);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

mem_stats mem_get_stats(const mem_context *ctx)
{
    size_t now = mem_used(ctx);
    return (mem_stats){
        .kind = ctx->kind->name,
        .name = ctx->name,
        .total = ctx->held,
        .used = now,
        .peak = now > ctx->peak ? now : ctx->peak,
        .blocks = ctx->blocks,
        .large_blocks = ctx->large_blocks,
        .resets = ctx->resets,
        .refusals = ctx->refusals,
    };
}

size_t mem_total_held(const mem_context *ctx)
{
    size_t held = ctx->held;
    for (const mem_context *at = ctx;;) {
        if (at->child) {
            at = at->child;
        } else {
            while (at != ctx && !at->next)
                at = at->parent;
            if (at == ctx)
                return held;
            at = at->next;
        }
        held += at->held;
    }
}

/* ---- Allocating ------------------------------------------------------------------------------ */

void *mem_refuse(mem_context *ctx)
{
    ctx->refusals++;
    mem_shut_window(ctx);
    return NULL;
}

void *mem_alloc_slow(mem_context *ctx, size_t size, size_t align)
{
    assert(align > 0 && align <= MEM_ALIGN && (align & (align - 1)) == 0);
    if (mem_budget_refused(ctx->budget))
        return mem_refuse(ctx);
    return ctx->kind->alloc(ctx, size, align);
}

void *mem_resize(mem_context *ctx, void *p, size_t old_size, size_t new_size)
{
    if (!p)
        return mem_alloc(ctx, new_size);
    if (new_size > old_size && mem_budget_refused(ctx->budget))
        return mem_refuse(ctx);
    mem_refusal before = ctx->budget ? ctx->budget->refused : MEM_GRANTED;
    void *now = ctx->kind->resize(ctx, p, old_size, new_size);
    if (!now && new_size <= old_size && ctx->budget) /* nobody lacks it: `p` serves as it is */
        ctx->budget->refused = before;
    return now;
}

void mem_free(mem_context *ctx, void *p, size_t size)
{
    if (p)
        ctx->kind->free(ctx, p, size);
}

mem_context *mem_child_create(mem_context *parent, const char *name)
{
    return parent->source ? mem_arena_create(parent, name, parent->source)
                          : mem_heap_create(parent, name);
}

void mem_child_init(mem_context *ctx, mem_context *parent, const char *name, void *first,
                    size_t first_size)
{
    if (parent->source)
        mem_arena_init(ctx, parent, name, parent->source, first, first_size);
    else
        mem_heap_init(ctx, parent, name);
}

size_t mem_room(const mem_context *ctx)
{
    if (mem_budget_refused(ctx->budget))
        return 0;
    size_t room = (size_t)(mem_bump_back(ctx) - ctx->cur) & ~(size_t)(MEM_ALIGN - 1);
    return room < MEM_LARGE ? room : MEM_LARGE;
}

size_t mem_good_size(const mem_context *ctx, size_t size)
{
    bool has_block = ctx->source && size > MEM_LARGE && size <= (size_t)PTRDIFF_MAX;
    size_t whole = has_block ? mem_block_size(MEM_BLOCK_HEADER + size) : 0;
    return whole ? whole - MEM_BLOCK_HEADER : size;
}

void *mem_alloc_array(mem_context *ctx, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return mem_alloc_slow(ctx, SIZE_MAX, MEM_ALIGN);
    void *p = mem_alloc(ctx, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *mem_copy(mem_context *ctx, const void *bytes, size_t size)
{
    void *p = mem_alloc(ctx, size);
    if (p && size)
        memcpy(p, bytes, size);
    return p;
}

char *mem_copy_string(mem_context *ctx, const char *text, size_t length)
{
    char *p = mem_alloc_aligned(ctx, length < SIZE_MAX ? length + 1 : length, 1);
    if (!p)
        return NULL;
    if (length)
        memcpy(p, text, length);
    p[length] = '\0';
    return p;
}

char *mem_printf(mem_context *ctx, size_t *ret_length, const char *format, ...)
{
    char small[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length < 0)
        return NULL;

    size_t size = (size_t)length + 1;
    char *text = mem_alloc_aligned(ctx, size, 1);
    if (!text)
        return NULL;
    if (size <= sizeof small) {
        memcpy(text, small, size);
    } else {
        va_start(args, format);
        (void)vsnprintf(text, size, format, args);
        va_end(args);
    }
    if (ret_length)
        *ret_length = (size_t)length;
    return text;
}
