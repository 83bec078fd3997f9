/* The heap: every allocation is malloc's, and all of them come back. */
#include "mem_fixture.h"

#include <malloc.h>

static kind heap = HEAP;

static int set_up_heap(void **state)
{
    *state = &heap;
    return set_up(state);
}

static void nothing_is_bumped(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 10; i++) {
        assert_non_null(mem_alloc(f->ctx, 10));
        assert_ptr_equal(f->ctx->cur, f->ctx->end);
    }
    mem_reset(f->ctx);
    assert_ptr_equal(f->ctx->cur, f->ctx->end);
}

static void held_counts_headers(void **state)
{
    struct fixture *f = *state;
    char *p = mem_alloc(f->ctx, 1000);
    assert_int_equal(mem_total_held(f->ctx), 1032);
    char *q = mem_alloc(f->ctx, 0);
    assert_int_equal(mem_total_held(f->ctx), 1032 + 32);
    p = mem_resize(f->ctx, p, 1000, 5000);
    assert_int_equal(mem_total_held(f->ctx), 5032 + 32);
    p = mem_resize(f->ctx, p, 5000, 10);
    assert_int_equal(mem_total_held(f->ctx), 42 + 32);
    mem_free(f->ctx, p, 10);
    mem_free(f->ctx, q, 0);
    assert_int_equal(mem_total_held(f->ctx), 0);
    assert_int_equal(mem_get_stats(f->ctx).used, 0);
}

static void blocks_are_not_touched(void **state)
{
    struct fixture *f = *state;
    for (size_t size = 1; size < 3 * MIB; size *= 3)
        assert_non_null(mem_alloc(f->ctx, size));
    assert_int_equal(mem_blocks_get_stats(f->blocks).maps, 0);
}

/* Frees and moves at both ends and in the middle of the list, then lets reset do the rest. */
static void reset_frees_what_is_left(void **state)
{
    struct fixture *f = *state;
    /* Above what the C library keeps in its thread cache and still counts as in use. */
    enum { N = 300, SIZE = 2000 };
    static char *p[N];
    size_t before = mallinfo2().uordblks;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            p[i] = mem_alloc(f->ctx, SIZE);
            assert_non_null(p[i]);
            memset(p[i], i, SIZE);
        }
        for (int i = 0; i < N; i += 3)
            mem_free(f->ctx, p[i], SIZE);
        for (int i = 1; i < N; i += 3) {
            p[i] = mem_resize(f->ctx, p[i], SIZE, 5000);
            assert_non_null(p[i]);
        }
        for (int i = 0; i < N; i++)
            assert_true(i % 3 == 0 || is_filled(p[i], SIZE, (unsigned char)i));
        assert_int_equal(mem_get_stats(f->ctx).large_blocks, N / 3 * 2);
        mem_reset(f->ctx);
    }
    assert_int_equal(mallinfo2().uordblks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_bumped, set_up_heap, tear_down),
        cmocka_unit_test_setup_teardown(held_counts_headers, set_up_heap, tear_down),
        cmocka_unit_test_setup_teardown(blocks_are_not_touched, set_up_heap, tear_down),
        cmocka_unit_test_setup_teardown(reset_frees_what_is_left, set_up_heap, tear_down),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
