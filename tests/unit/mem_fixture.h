/* What the tests of alloc/ share: a depot, a magazine and one context, of either kind. A test that
 * is listed with BOTH runs once on an arena and once on a heap. */
#ifndef MEM_FIXTURE_H
#define MEM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../alloc/blocks.h"
#include "../../alloc/mem.h"
#include "../../alloc/pool.h"
#include "instruments.h"

/* Built with a checker that allocates for itself. */
#if MEM_ASAN || defined __SANITIZE_THREAD__
#define MEM_CHECKED 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define MEM_CHECKED 1
#endif
#endif
#ifndef MEM_CHECKED
#define MEM_CHECKED 0
#endif

#define KIB 1024u
#define MIB (1024u * 1024u)
#define RETAIN (256u * KIB)

/* A malloc that is refused returns NULL in every build. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

typedef enum { ARENA, HEAP } kind;

struct fixture {
    kind kind;
    mem_depot *depot;
    mem_blocks *blocks;
    mem_context *ctx;
};

static inline mem_context *make(struct fixture *f, mem_context *parent, const char *name)
{
    mem_context *ctx = f->kind == ARENA ? mem_arena_create(parent, name, f->blocks)
                                        : mem_heap_create(parent, name);
    assert_non_null(ctx);
    return ctx;
}

static inline void embed(struct fixture *f, mem_context *ctx, mem_context *parent, const char *name)
{
    if (f->kind == ARENA)
        mem_arena_init(ctx, parent, name, f->blocks, NULL, 0);
    else
        mem_heap_init(ctx, parent, name);
}

/* `*state` is the kind to begin with (see BOTH), then the fixture. */
static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->kind = *state ? *(const kind *)*state : ARENA;
    f->depot = mem_depot_create();
    assert_non_null(f->depot);
    f->blocks = mem_blocks_create(f->depot, RETAIN);
    assert_non_null(f->blocks);
    f->ctx = make(f, NULL, "test");
    *state = f;
    return 0;
}

/* Every block must have come back. */
static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    mem_delete(f->ctx);
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, 0);
    mem_blocks_delete(f->blocks);
    mem_depot_clear(f->depot);
    mem_blocks_stats stats = mem_depot_get_stats(f->depot);
    assert_int_equal(stats.idle, 0);
    assert_int_equal(stats.maps, stats.unmaps);
    mem_depot_delete(f->depot);
    free(f);
    return 0;
}

/* Gives the fixture a new magazine that retains `bytes`, nothing idle behind it, and no context. */
static inline void retain(struct fixture *f, size_t bytes)
{
    mem_delete(f->ctx);
    f->ctx = NULL;
    mem_blocks_delete(f->blocks);
    mem_depot_clear(f->depot);
    f->blocks = mem_blocks_create(f->depot, bytes);
    assert_non_null(f->blocks);
}

static inline bool is_filled(const void *bytes, size_t size, unsigned char with)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++) {
        if (p[i] != with)
            return false;
    }
    return true;
}

/* clang-format off */
#define ONE(test) {#test, test, set_up, tear_down, NULL}
#define BOTH(test) \
    {#test " (arena)", test, set_up, tear_down, &(kind){ARENA}}, \
    {#test " (heap)", test, set_up, tear_down, &(kind){HEAP}}
/* clang-format on */

#endif
