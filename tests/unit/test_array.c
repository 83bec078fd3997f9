/* The growable array, over both kinds of context. */
#include "mem_fixture.h"

#include "../../alloc/array.h"

#define MANY 200000u

struct item {
    uint64_t key, value, more;
};

static void add(mem_array *array, size_t i)
{
    struct item *item = mem_array_add(array);
    assert_non_null(item);
    *item = (struct item){i, ~i, i * 3};
}

static void assert_items(const mem_array *array, size_t count)
{
    assert_int_equal(array->count, count);
    const struct item *items = array->items;
    for (size_t i = 0; i < count; i++) {
        if (items[i].key != i || items[i].value != ~i || items[i].more != i * 3)
            fail_msg("item %zu has changed", i);
    }
}

static void appends_grow_it_about_as_often_as_they_double_it(void **state)
{
    struct fixture *f = *state;
    mem_array array;
    mem_array_init(&array, f->ctx, sizeof(struct item));
    for (size_t i = 0; i < MANY; i++)
        add(&array, i);
    assert_items(&array, MANY);
    assert_in_range(array.growths, 15, 40);
}

static void after_a_reserve_it_neither_grows_nor_moves(void **state)
{
    struct fixture *f = *state;
    mem_array array;
    mem_array_init(&array, f->ctx, sizeof(struct item));
    assert_true(mem_array_reserve(&array, MANY));
    const void *items = array.items;
    for (size_t i = 0; i < MANY; i++)
        add(&array, i);
    assert_items(&array, MANY);
    assert_int_equal(array.growths, 1);
    assert_ptr_equal(array.items, items);
    assert_true(mem_array_reserve(&array, 1));
    assert_int_equal(array.growths, 1);
}

static void the_newest_of_an_arena_grows_in_place(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_array array;
    mem_array_init(&array, f->ctx, 8);
    assert_true(mem_array_append(&array, "01234567", 1));
    const void *items = array.items;
    while (array.capacity * array.item_size < 1024)
        assert_true(mem_array_append(&array, "01234567", 1));
    assert_ptr_equal(array.items, items);
    assert_true(array.growths > 3);
}

static void a_large_one_leaves_nothing_of_its_block_unused(void **state)
{
    struct fixture *f = *state;
    mem_array array;
    mem_array_init(&array, f->ctx, 1);
    assert_true(mem_array_reserve(&array, 20 * KIB));
    assert_int_equal(array.capacity, 24 * KIB - MEM_BLOCK_HEADER);
    assert_true(mem_array_reserve(&array, 32 * KIB));
    assert_int_equal(array.capacity, 40 * KIB - MEM_BLOCK_HEADER);
}

static void several_are_appended_at_once(void **state)
{
    struct fixture *f = *state;
    mem_array array;
    mem_array_init(&array, f->ctx, 2);
    char text[1000];
    memset(text, 'x', sizeof text);
    assert_true(mem_array_append(&array, text, 0));
    assert_true(mem_array_append(&array, text, 500));
    assert_true(mem_array_append(&array, "yz", 1));
    assert_int_equal(array.count, 501);
    assert_true(is_filled(array.items, 1000, 'x'));
    assert_memory_equal((char *)array.items + 1000, "yz", 2);
}

static void what_is_not_needed_can_be_given_back(void **state)
{
    struct fixture *f = *state;
    size_t before = mem_get_stats(f->ctx).used;
    mem_array array;
    mem_array_init(&array, f->ctx, sizeof(struct item));
    assert_true(mem_array_reserve(&array, 120));
    for (size_t i = 0; i < 100; i++)
        add(&array, i);
    mem_array_shrink(&array);
    assert_int_equal(array.capacity, 100);
    assert_items(&array, 100);
    mem_array_shrink(&array);
    mem_array_free(&array);
    assert_null(array.items);
    assert_int_equal(mem_get_stats(f->ctx).used, before);
    mem_array_shrink(&array);
    add(&array, 0); /* and it can be used again */
    assert_items(&array, 1);
    array.count = 0;
    mem_array_shrink(&array);
    assert_int_equal(array.capacity, 0);
}

static void a_refusal_changes_nothing(void **state)
{
    struct fixture *f = *state;
    mem_budget budget;
    mem_budget_init(&budget, 256 * KIB, NULL);
    mem_context *ctx = make(f, f->ctx, "limited");
    mem_set_budget(ctx, &budget);
    mem_array array;
    mem_array_init(&array, ctx, sizeof(struct item));
    size_t count = 0;
    for (struct item *item; (item = mem_array_add(&array)); count++)
        *item = (struct item){count, ~count, count * 3};
    assert_int_equal(budget.refused, MEM_OVER_LIMIT);
    assert_true(count > 1000);
    assert_items(&array, count);
    assert_false(mem_array_append(&array, array.items, 1));
    assert_items(&array, count);
    mem_delete(ctx);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    struct fixture *f = *state;
    mem_array array;
    mem_array_init(&array, f->ctx, sizeof(struct item));
    assert_false(mem_array_reserve(&array, SIZE_MAX));
    assert_false(mem_array_reserve(&array, SIZE_MAX / sizeof(struct item)));
    add(&array, 0);
    assert_false(mem_array_grow(&array, SIZE_MAX));
    assert_items(&array, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(appends_grow_it_about_as_often_as_they_double_it),
        BOTH(after_a_reserve_it_neither_grows_nor_moves),
        ONE(the_newest_of_an_arena_grows_in_place),
        BOTH(a_large_one_leaves_nothing_of_its_block_unused),
        BOTH(several_are_appended_at_once),
        BOTH(what_is_not_needed_can_be_given_back),
        BOTH(a_refusal_changes_nothing),
        BOTH(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
