/* What a magazine retains by itself (MEM_RETAIN_ADAPTIVE): what requests have needed of late, not
 * what a spike or one huge request took; and when nobody needs what it retains. */
#include "mem_fixture.h"

/* A magazine that sets its limit itself. It is the fixture's, and ends with it. */
static mem_blocks *adapt(struct fixture *f)
{
    needs_bare_contexts();
    retain(f, MEM_RETAIN_ADAPTIVE);
    return f->blocks;
}

static size_t idle(const mem_blocks *blocks)
{
    return mem_blocks_get_stats(blocks).idle;
}

/* Requests one after the other: each takes `count` blocks of 64 KiB before it gives any back. */
static void serve(mem_blocks *blocks, int requests, size_t count)
{
    while (requests-- > 0) {
        mem_context ctx;
        mem_arena_init(&ctx, NULL, "request", blocks, NULL, 0);
        for (size_t i = 0; i < 4 * count; i++)
            assert_non_null(mem_alloc(&ctx, 16000));
        mem_delete(&ctx);
    }
}

/* ---- The adaptive limit ---------------------------------------------------------------------- */

static void adaptive_limit_keeps_what_requests_need(void **state)
{
    struct fixture *f = *state;
    mem_blocks *blocks = adapt(f);
    for (int period = 0; period < 4; period++) {
        serve(blocks, 20, 8);
        mem_depot_decay(f->depot);
    }
    assert_in_range(idle(blocks), 8 * 64 * KIB, 9 * 64 * KIB);
    uint64_t maps = mem_blocks_get_stats(blocks).maps;
    serve(blocks, 20, 8);
    assert_int_equal(mem_blocks_get_stats(blocks).maps, maps);
}

/* Takes an array in a context of its own and releases it, by a free or by the reset alone. */
static void use_array(mem_blocks *blocks, size_t size, bool by_free)
{
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "array", blocks, NULL, 0);
    char *array = mem_alloc(&ctx, size);
    assert_non_null(array);
    memset(array, 1, size);
    if (by_free)
        mem_free(&ctx, array, size);
    mem_delete(&ctx);
}

static void adaptive_limit_keeps_large_arrays(void **state)
{
    struct fixture *f = *state;
    for (int by_free = 0; by_free < 2; by_free++) {
        mem_blocks *blocks = adapt(f);
        for (size_t i = 0; i < 20; i++) {
            use_array(blocks, 3 * MIB + i % 3 * 100000, by_free);
            assert_in_range(idle(blocks), 3 * MIB, 4 * MIB);
            assert_int_equal(mem_blocks_get_stats(blocks).maps, 1);
        }
        for (int period = 0; period < 2; period++) { /* nobody needs it: it is parted with */
            mem_depot_decay(f->depot);
            serve(blocks, 1, 1);
        }
        assert_true(idle(blocks) <= 2 * 64 * KIB);
    }
}

static void adaptive_limit_ends_at_16_mib(void **state)
{
    mem_blocks *blocks = adapt(*state);
    for (int i = 0; i < 5; i++)
        use_array(blocks, 16 * MIB - MEM_BLOCK_HEADER, false);
    assert_int_equal(idle(blocks), 16 * MIB);
    for (int i = 0; i < 5; i++)
        use_array(blocks, 16 * MIB, false);
    assert_int_equal(idle(blocks), 16 * MIB); /* the one from before; what is larger is not kept */
    assert_int_equal(mem_blocks_get_stats(blocks).unmaps, 5);
}

/* What one of them needs is kept while many are at work, then twice as much, and not what they hold
 * together. */
static void adaptive_limit_is_not_for_a_spike(void **state)
{
    mem_blocks *blocks = adapt(*state);
    mem_context contexts[40];
    for (int i = 0; i < 40; i++) {
        mem_arena_init(&contexts[i], NULL, "one of many", blocks, NULL, 0);
        for (int piece = 0; piece < 8; piece++)
            assert_non_null(mem_alloc(&contexts[i], 16000));
    }
    for (int i = 0; i < 40; i++) { /* each holds 144 KiB, for which 160 are kept */
        mem_delete(&contexts[i]);
        if (i < 35)
            assert_true(idle(blocks) <= 160 * KIB);
    }
    assert_in_range(idle(blocks), 160 * KIB + 1, 2 * 160 * KIB); /* the spike is over */
}

static void adaptive_limit_is_not_for_one_huge_request(void **state)
{
    struct fixture *f = *state;
    mem_blocks *blocks = adapt(f);
    serve(blocks, 100, 1);
    serve(blocks, 1, 100);
    assert_true(idle(blocks) <= MIB);
    mem_depot_decay(f->depot);
    serve(blocks, 100, 1);
    assert_true(idle(blocks) <= 4 * 64 * KIB);
}

static void adaptive_limit_falls_with_the_traffic(void **state)
{
    struct fixture *f = *state;
    mem_blocks *blocks = adapt(f);
    serve(blocks, 200, 8);
    assert_true(idle(blocks) >= 8 * 64 * KIB);
    size_t before = idle(blocks);
    for (int period = 0; period < 4; period++) {
        serve(blocks, 1, 1);
        mem_depot_decay(f->depot);
        assert_true(idle(blocks) <= before);
        before = idle(blocks);
    }
    assert_true(idle(blocks) <= 3 * 64 * KIB);
}

static void adaptive_limit_forgets_what_was_needed_long_ago(void **state)
{
    struct fixture *f = *state;
    mem_blocks *blocks = adapt(f);
    serve(blocks, 200, 8);
    for (int period = 0; period < 10; period++) {
        mem_depot_decay(f->depot);
        serve(blocks, 40, 1);
    }
    serve(blocks, 1, 8);
    assert_true(idle(blocks) <= 4 * 64 * KIB);
}

/* ---- Neglect --------------------------------------------------------------------------------- */

static void magazine_is_neglected_after_a_period_without_need(void **state)
{
    struct fixture *f = *state;
    needs_bare_contexts();
    const size_t limits[] = {MEM_RETAIN_ADAPTIVE, MIB};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        retain(f, limits[i]);
        mem_depot_decay(f->depot);
        mem_depot_decay(f->depot);
        assert_false(mem_blocks_is_neglected(f->blocks)); /* it has none */
        serve(f->blocks, 1, 1);
        assert_true(idle(f->blocks) > 0);
        assert_false(mem_blocks_is_neglected(f->blocks));
        mem_depot_decay(f->depot);
        assert_false(mem_blocks_is_neglected(f->blocks)); /* used in part of that period */
        serve(f->blocks, 1, 1);
        mem_depot_decay(f->depot);
        assert_false(mem_blocks_is_neglected(f->blocks));
        mem_depot_decay(f->depot);
        assert_true(mem_blocks_is_neglected(f->blocks));
        serve(f->blocks, 1, 1);
        assert_false(mem_blocks_is_neglected(f->blocks));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(adaptive_limit_keeps_what_requests_need),
        ONE(adaptive_limit_keeps_large_arrays),
        ONE(adaptive_limit_ends_at_16_mib),
        ONE(adaptive_limit_is_not_for_a_spike),
        ONE(adaptive_limit_is_not_for_one_huge_request),
        ONE(adaptive_limit_falls_with_the_traffic),
        ONE(adaptive_limit_forgets_what_was_needed_long_ago),
        ONE(magazine_is_neglected_after_a_period_without_need),
    };
    return cmocka_run_group_tests_name("retain", tests, NULL, NULL);
}
