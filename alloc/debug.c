/* Instruments: a kind that stands before another kind. mem_context_init, or mem_debug_attach, hangs
 * it into the context; nothing asks whether it is there. One set of instruments may serve contexts
 * of several threads, so its figures are atomic. */
#include "debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define POISON 0x7f /* as a pointer it faults, as text it shows, as a number it is large */

enum instrument { COUNT, FAIL, RATE, POISONING, GUARD, TRIP, INSTRUMENTS };

const mem_debug_flag mem_debug_flags[INSTRUMENTS + 1] = {
    [COUNT] = {"count", NULL, "count calls, and bytes asked for"},
    [FAIL] = {"fail", "N", "refuse the N-th allocation or growth"},
    [RATE] = {"rate", "N", "refuse one allocation or growth in N, at random"},
    [POISONING] = {"poison", NULL, "overwrite what is freed or reset with 0x7f"},
    [GUARD] = {"guard", NULL, "make a malloc of each allocation, for AddressSanitizer or Valgrind"},
    [TRIP] = {"trip", NULL, "stop with a message at a pointer that its context does not own"},
};

/* A kind as seen through instruments: what is asked of it goes on to `under`. */
struct layer {
    mem_kind kind;
    const mem_kind *under;
};

struct mem_debug {
    bool on[INSTRUMENTS];
    uint64_t rate;
    int64_t left;      /* atomic: calls until one fails; 0 or less: none does */
    uint64_t calls;    /* atomic: since the start, for `rate` */
    mem_counts counts; /* each atomic */
    struct layer arena, heap;
};

mem_debug *mem_debug_default;

/* ---- The list -------------------------------------------------------------------------------- */

static bool read_number(const char *text, size_t length, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || number > UINT64_MAX / 100)
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_number = number;
    return number > 0;
}

static bool read_word(const char *word, size_t length, bool on[INSTRUMENTS],
                      uint64_t numbers[INSTRUMENTS])
{
    for (unsigned i = 0; i < INSTRUMENTS; i++) {
        const mem_debug_flag *flag = &mem_debug_flags[i];
        size_t name = strlen(flag->name);
        if (length < name || memcmp(word, flag->name, name) != 0)
            continue;
        bool has_number = length > name && word[name] == '=';
        if (flag->argument
                ? !has_number || !read_number(word + name + 1, length - name - 1, &numbers[i])
                : length != name)
            return false;
        on[i] = true;
        return true;
    }
    return false;
}

static bool read_list(const char *list, bool on[INSTRUMENTS], uint64_t numbers[INSTRUMENTS])
{
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (!read_word(list, length, on, numbers))
            return false;
        list += length;
        if (*list == ',' && *++list == '\0')
            return false;
    }
    return true;
}

bool mem_debug_valid(const char *list)
{
    bool on[INSTRUMENTS] = {false};
    uint64_t numbers[INSTRUMENTS];
    return read_list(list, on, numbers);
}

/* ---- Tripping -------------------------------------------------------------------------------- */

/* The context of this tree that owns `p`, if any: a walk without recursion. */
static const mem_context *find_owner(const mem_context *ctx, const void *p, size_t size)
{
    const mem_context *root = ctx;
    while (root->parent)
        root = root->parent;
    for (const mem_context *at = root;;) {
        if (at->kind->owns(at, p, size))
            return at;
        if (at->child) {
            at = at->child;
            continue;
        }
        while (at != root && !at->next)
            at = at->parent;
        if (at == root)
            return NULL;
        at = at->next;
    }
}

static void check_owner(const mem_context *ctx, const char *call, const void *p, size_t size)
{
    if (!ctx->kind->debug->on[TRIP] || ctx->kind->owns(ctx, p, size))
        return;
    const mem_context *owner = find_owner(ctx, p, size);
    if (owner)
        fprintf(stderr,
                "slatemem: %s of %p, %zu bytes, in context \"%s\": it belongs to context \"%s\".\n",
                call, p, size, ctx->name, owner->name);
    else
        fprintf(stderr,
                "slatemem: %s of %p, %zu bytes, in context \"%s\": no context of its tree has such "
                "an allocation. It is from elsewhere, was freed before, or had another size.\n",
                call, p, size, ctx->name);
    abort();
}

/* ---- The kind -------------------------------------------------------------------------------- */

static const mem_kind *under(const mem_context *ctx)
{
    return ((const struct layer *)ctx->kind)->under;
}

static void add(uint64_t *counter, uint64_t more)
{
    __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

/* splitmix64's finish: whether this call is the one in `rate` depends on its number alone. */
static bool is_unlucky(uint64_t call, uint64_t rate)
{
    call *= 0x9e3779b97f4a7c15;
    call = (call ^ (call >> 30)) * 0xbf58476d1ce4e5b9;
    call = (call ^ (call >> 27)) * 0x94d049bb133111eb;
    return (call ^ (call >> 31)) % rate == 0;
}

static bool is_to_fail(mem_debug *debug)
{
    if (__atomic_load_n(&debug->left, __ATOMIC_RELAXED) > 0 &&
        __atomic_sub_fetch(&debug->left, 1, __ATOMIC_RELAXED) == 0)
        return true;
    return debug->on[RATE] &&
           is_unlucky(__atomic_add_fetch(&debug->calls, 1, __ATOMIC_RELAXED), debug->rate);
}

static void *fail(mem_context *ctx)
{
    mem_budget_fail(ctx->budget, 0);
    return mem_refuse(ctx);
}

static void *debug_alloc(mem_context *ctx, size_t size, size_t align)
{
    mem_debug *debug = ctx->kind->debug;
    void *p = is_to_fail(debug) ? fail(ctx) : under(ctx)->alloc(ctx, size, align);
    if (debug->on[COUNT]) {
        add(p ? &debug->counts.allocs : &debug->counts.refused, 1);
        add(&debug->counts.bytes, p ? size : 0);
    }
    return p;
}

static void *debug_resize(mem_context *ctx, void *p, size_t old_size, size_t new_size)
{
    mem_debug *debug = ctx->kind->debug;
    check_owner(ctx, "mem_resize", p, old_size);
    uintptr_t before = (uintptr_t)p;
    bool grows = new_size > old_size;
    void *now =
        grows && is_to_fail(debug) ? fail(ctx) : under(ctx)->resize(ctx, p, old_size, new_size);
    if (debug->on[COUNT]) {
        add(!now                       ? &debug->counts.refused
            : (uintptr_t)now == before ? &debug->counts.resized
                                       : &debug->counts.moved,
            1);
        add(&debug->counts.bytes, now && grows ? new_size - old_size : 0);
    }
    return now;
}

static void debug_free(mem_context *ctx, void *p, size_t size)
{
    mem_debug *debug = ctx->kind->debug;
    check_owner(ctx, "mem_free", p, size);
    if (debug->on[POISONING])
        memset(p, POISON, size);
    if (debug->on[COUNT])
        add(&debug->counts.frees, 1);
    under(ctx)->free(ctx, p, size);
}

static void debug_reset(mem_context *ctx)
{
    mem_debug *debug = ctx->kind->debug;
    if (debug->on[POISONING])
        under(ctx)->wipe(ctx, POISON);
    if (debug->on[COUNT])
        add(&debug->counts.resets, 1);
    under(ctx)->reset(ctx);
}

static void make_layer(struct layer *layer, mem_debug *debug, const mem_kind *of)
{
    layer->under = debug->on[GUARD] ? &mem_heap_kind : of;
    layer->kind = (mem_kind){
        .name = of->name,
        .alloc = debug_alloc,
        .resize = debug_resize,
        .free = debug_free,
        .reset = debug_reset,
        .end = of->end, /* also when it is guarded: its struct is where its own kind put it */
        .wipe = layer->under->wipe,
        .owns = layer->under->owns,
        .debug = debug,
    };
}

const mem_kind *mem_debug_kind(mem_debug *debug, const mem_kind *kind)
{
    return kind == &mem_heap_kind ? &debug->heap.kind : &debug->arena.kind;
}

mem_debug *mem_debug_create(const char *list)
{
    uint64_t numbers[INSTRUMENTS] = {0};
    mem_debug *debug = calloc(1, sizeof *debug);
    if (!debug || !read_list(list, debug->on, numbers)) {
        free(debug);
        return NULL;
    }
    debug->rate = numbers[RATE];
    mem_debug_fail_at(debug, numbers[FAIL]);
    make_layer(&debug->arena, debug, &mem_arena_kind);
    make_layer(&debug->heap, debug, &mem_heap_kind);
    return debug;
}

void mem_debug_delete(mem_debug *debug)
{
    free(debug);
}

void mem_debug_attach(mem_debug *debug, mem_context *ctx)
{
    assert(!ctx->kind->debug && mem_is_empty(ctx));
    ctx->kind = mem_debug_kind(debug, ctx->kind);
    mem_shut_window(ctx);
}

void mem_debug_set_default(mem_debug *debug)
{
    __atomic_store_n(&mem_debug_default, debug, __ATOMIC_RELAXED);
}

void mem_debug_fail_at(mem_debug *debug, uint64_t k)
{
    __atomic_store_n(&debug->left, k <= INT64_MAX ? (int64_t)k : INT64_MAX, __ATOMIC_RELAXED);
}

mem_counts mem_debug_get_counts(const mem_debug *debug)
{
    const mem_counts *counts = &debug->counts;
    return (mem_counts){
        .allocs = mem_read(&counts->allocs),
        .resized = mem_read(&counts->resized),
        .moved = mem_read(&counts->moved),
        .frees = mem_read(&counts->frees),
        .resets = mem_read(&counts->resets),
        .refused = mem_read(&counts->refused),
        .bytes = mem_read(&counts->bytes),
    };
}
