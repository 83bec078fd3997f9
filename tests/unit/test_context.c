/* Contexts: what holds for every kind. The tree, reset and delete, callbacks, sizes, alignment,
 * resizing, copies, the current context; and a random run against a model. */
#include "mem_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* ---- Sizes and alignment --------------------------------------------------------------------- */

static void size_0_takes_nothing_from_others(void **state)
{
    struct fixture *f = *state;
    for (size_t align = 1; align <= MEM_ALIGN; align *= 2) {
        char *zero = mem_alloc_aligned(f->ctx, 0, align);
        char *one = mem_alloc_aligned(f->ctx, 1, align);
        char *other = mem_alloc_aligned(f->ctx, 0, align);
        char *eight = mem_alloc_aligned(f->ctx, 8, align);
        assert_non_null(zero);
        assert_non_null(other);
        memset(one, 1, 1);
        memset(eight, 8, 8);
        mem_free(f->ctx, zero, 0); /* may stand where `one` does: it is not freed with it */
        mem_free(f->ctx, other, 0);
        char *grown = mem_resize(f->ctx, mem_alloc_aligned(f->ctx, 0, align), 0, 100);
        memset(grown, 2, 100);
        char *last = mem_alloc_aligned(f->ctx, 8, align);
        memset(last, 3, 8);
        assert_true(is_filled(one, 1, 1) && is_filled(eight, 8, 8));
        assert_true(is_filled(grown, 100, 2) && is_filled(last, 8, 3));
        assert_non_null(mem_resize(f->ctx, grown, 100, 0));
    }
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 1, SIZE_MAX - 7,   SIZE_MAX - 63,
                                   SIZE_MAX / 2, SIZE_MAX / 4, (size_t)1 << 50};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_null(mem_alloc(f->ctx, sizes[i]));
        assert_null(mem_alloc_aligned(f->ctx, sizes[i], 1));
    }
    assert_int_equal(mem_get_stats(f->ctx).refusals, 14);
    assert_non_null(mem_alloc(f->ctx, 100)); /* nothing sticks without a budget */
}

static void every_alignment_is_kept(void **state)
{
    struct fixture *f = *state;
    for (size_t size = 0; size < 70; size++) {
        for (size_t align = 1; align <= MEM_ALIGN; align *= 2) {
            char *p = mem_alloc_aligned(f->ctx, size, align);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % align, 0);
            memset(p, 0xaa, size);
        }
        assert_int_equal((uintptr_t)mem_alloc(f->ctx, size) % MEM_ALIGN, 0);
    }
    assert_int_equal((uintptr_t)mem_alloc(f->ctx, 5 * MIB) % MEM_ALIGN, 0);
}

static void array_is_zeroed_and_checked(void **state)
{
    struct fixture *f = *state;
    memset(mem_alloc(f->ctx, 3000), 0xff, 3000); /* dirties what comes back after the reset */
    mem_reset(f->ctx);
    uint32_t *array = mem_alloc_array(f->ctx, 500, sizeof *array);
    assert_non_null(array);
    assert_true(is_filled(array, 500 * sizeof *array, 0));

    assert_null(mem_alloc_array(f->ctx, SIZE_MAX, 2));
    assert_null(mem_alloc_array(f->ctx, 2, SIZE_MAX));
    assert_null(mem_alloc_array(f->ctx, SIZE_MAX / 4 + 2, 4)); /* wraps to 4 */
    assert_null(mem_alloc_array(f->ctx, (size_t)1 << 32, (size_t)1 << 32));
    assert_non_null(mem_alloc_array(f->ctx, 0, 8));
    assert_non_null(mem_alloc_array(f->ctx, 8, 0));
}

/* ---- Resize, copy ---------------------------------------------------------------------------- */

static void resize_keeps_contents(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {1,       0,       17,      5,      4000,  16384,
                                   16385,   16384,   30000,   100000, 20000, 900000,
                                   3 * MIB, 9 * MIB, 2 * MIB, 40000,  10,    1};
    char *p = mem_resize(f->ctx, NULL, 0, 1);
    assert_non_null(p);
    *p = 42;
    size_t old_size = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t kept = old_size < sizes[i] ? old_size : sizes[i];
        char *neighbour = mem_alloc(f->ctx, i % 2 ? 24 : 20000);
        p = mem_resize(f->ctx, p, old_size, sizes[i]);
        assert_non_null(p);
        assert_non_null(neighbour);
        memset(neighbour, 0x11, i % 2 ? 24 : 20000);
        assert_true(is_filled(p, kept, 42));
        memset(p, 42, sizes[i]);
        old_size = sizes[i];
    }
}

static void resize_that_is_refused_keeps_the_allocation(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {100, 20000, 3 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = mem_alloc(f->ctx, sizes[i]);
        assert_non_null(p);
        memset(p, 7, sizes[i]);
        size_t held = mem_total_held(f->ctx);
        assert_null(mem_resize(f->ctx, p, sizes[i], SIZE_MAX));
        assert_null(mem_resize(f->ctx, p, sizes[i], SIZE_MAX - 40));
        assert_null(mem_resize(f->ctx, p, sizes[i], (size_t)1 << 50));
        assert_true(is_filled(p, sizes[i], 7));
        assert_int_equal(mem_total_held(f->ctx), held);
        mem_free(f->ctx, p, sizes[i]);
    }
}

static void free_of_null_does_nothing(void **state)
{
    struct fixture *f = *state;
    mem_free(f->ctx, NULL, 0);
    mem_free(f->ctx, NULL, 100000);
    mem_delete(NULL);
}

static void copies_belong_to_the_context(void **state)
{
    struct fixture *f = *state;
    char source[] = "all of it";
    char *bytes = mem_copy(f->ctx, source, sizeof source);
    char *text = mem_copy_string(f->ctx, source, 3);
    memset(source, 'x', sizeof source);
    assert_string_equal(bytes, "all of it");
    assert_string_equal(text, "all");
    assert_non_null(mem_copy(f->ctx, NULL, 0));
    assert_string_equal(mem_copy_string(f->ctx, NULL, 0), "");
    assert_null(mem_copy_string(f->ctx, source, SIZE_MAX));
}

static void printf_takes_any_length(void **state)
{
    struct fixture *f = *state;
    for (int width = 1; width < 2000; width += 17) {
        size_t length = 0;
        char *text = mem_printf(f->ctx, &length, "%*d|", width, 7);
        assert_non_null(text);
        assert_int_equal(length, width + 1);
        assert_int_equal(strlen(text), length);
        assert_int_equal(text[width - 1], '7');
    }
    assert_string_equal(mem_printf(f->ctx, NULL, "%s", ""), "");
}

/* ---- The tree -------------------------------------------------------------------------------- */

static char order[64];

static void note(void *arg)
{
    size_t length = strlen(order);
    assert_true(length + 1 < sizeof order);
    order[length] = *(const char *)arg;
    order[length + 1] = '\0';
}

static void on_reset(mem_context *ctx, const char *letter)
{
    mem_callback *callback = mem_alloc(ctx, sizeof *callback);
    assert_non_null(callback);
    *callback = (mem_callback){.run = note, .arg = (void *)(uintptr_t)letter};
    mem_on_reset(ctx, callback);
}

static void callbacks_run_once_last_first(void **state)
{
    struct fixture *f = *state;
    order[0] = '\0';
    on_reset(f->ctx, "1");
    on_reset(f->ctx, "2");
    on_reset(f->ctx, "3");
    mem_reset(f->ctx);
    assert_string_equal(order, "321");
    mem_reset(f->ctx);
    assert_string_equal(order, "321");
    mem_context *other = make(f, NULL, "other");
    on_reset(other, "d");
    mem_delete(other);
    assert_string_equal(order, "321d");
}

static void callback_without_allocations_runs(void **state)
{
    struct fixture *f = *state;
    order[0] = '\0';
    mem_callback callback = {.run = note, .arg = (void *)(uintptr_t) "x"};
    mem_on_reset(f->ctx, &callback);
    mem_reset(f->ctx);
    assert_string_equal(order, "x");
}

struct again {
    mem_context *ctx;
    int left;
    mem_callback callback;
};

static void register_again(void *arg)
{
    struct again *again = arg;
    if (again->left-- > 0)
        mem_on_reset(again->ctx, &again->callback);
}

static void callback_may_register_another(void **state)
{
    struct fixture *f = *state;
    struct again again = {.ctx = f->ctx, .left = 3};
    again.callback = (mem_callback){.run = register_again, .arg = &again};
    mem_on_reset(f->ctx, &again.callback);
    mem_reset(f->ctx);
    assert_int_equal(again.left, -1);
}

struct seen {
    const char *memory;
    bool intact;
};

static void look(void *arg)
{
    struct seen *seen = arg;
    seen->intact = is_filled(seen->memory, 5000, 9);
}

static void callback_still_sees_the_memory(void **state)
{
    struct fixture *f = *state;
    mem_context *child = make(f, f->ctx, "child");
    char *memory = mem_alloc(child, 5000);
    assert_non_null(memory);
    memset(memory, 9, 5000);
    struct seen seen = {.memory = memory};
    mem_callback callback = {.run = look, .arg = &seen};
    mem_on_reset(f->ctx, &callback);
    mem_reset(f->ctx);
    assert_true(seen.intact);
}

static void reset_deletes_the_children(void **state)
{
    struct fixture *f = *state;
    order[0] = '\0';
    mem_context *a = make(f, f->ctx, "a"), *b = make(f, f->ctx, "b");
    mem_context *deep = make(f, a, "deep");
    on_reset(a, "a");
    on_reset(b, "b");
    on_reset(deep, "d");
    on_reset(f->ctx, "p");
    assert_non_null(mem_alloc(deep, 100000));
    size_t held = mem_total_held(f->ctx);
    assert_true(held > 100000);
    mem_reset(f->ctx);
    assert_string_equal(order, "pbad"); /* a parent before its children, the newest child first */
    assert_true(mem_total_held(f->ctx) < held - 100000);
    assert_null(f->ctx->child);
    mem_reset(f->ctx);
    assert_string_equal(order, "pbad");
}

static void a_child_of_its_parents_kind_is_given_back_alone(void **state)
{
    struct fixture *f = *state;
    mem_context *child = mem_child_create(f->ctx, "child");
    assert_non_null(child);
    assert_string_equal(mem_get_stats(child).kind, mem_get_stats(f->ctx).kind);
    assert_non_null(mem_alloc(child, 100));
    size_t with_child = mem_total_held(f->ctx);
    mem_delete(child);
    assert_true(mem_total_held(f->ctx) < with_child);
}

static void a_child_may_have_the_rest_of_a_block(void **state)
{
    struct fixture *f = *state;
    needs_bare_contexts();
    bool arena = f->ctx->source;
    assert_int_equal(arena ? 0 : mem_room(f->ctx), 0);
    mem_context *parent = mem_child_create(f->ctx, "parent"), child;
    size_t room = mem_room(parent);
    assert_true(arena ? room > 3000 && room % MEM_ALIGN == 0 : room == 0);
    size_t blocks = mem_get_stats(parent).blocks;
    char *first = mem_alloc(parent, room);
    assert_int_equal(mem_get_stats(parent).blocks, blocks);
    mem_child_init(&child, parent, "child", first, room);
    char *p = mem_alloc(&child, 1000);
    assert_non_null(p);
    assert_true(!arena || (p >= first && p + 1000 <= first + room));
    assert_non_null(mem_alloc(&child, 5000));
    mem_delete(parent);
    for (int round = 0; round < 20; round++) { /* up to the largest blocks */
        assert_non_null(mem_alloc(f->ctx, 9000));
        size_t held = mem_total_held(f->ctx), rest = mem_room(f->ctx);
        if (rest > 0)
            assert_non_null(mem_alloc(f->ctx, rest));
        assert_int_equal(mem_total_held(f->ctx), held);
    }
}

static void good_sizes_cost_no_more(void **state)
{
    struct fixture *f = *state;
    needs_bare_contexts();
    for (size_t size = 1; size < 3 * MIB; size += size / 3 + 1) {
        size_t good = mem_good_size(f->ctx, size);
        assert_true(good >= size);
        void *p = mem_alloc(f->ctx, size);
        size_t held = mem_total_held(f->ctx);
        mem_reset(f->ctx);
        void *q = mem_alloc(f->ctx, good);
        assert_true(p && q);
        assert_true(mem_total_held(f->ctx) <= held + (good - size) * !f->ctx->source);
        mem_reset(f->ctx);
    }
    assert_int_equal(mem_good_size(f->ctx, SIZE_MAX), SIZE_MAX);
    assert_int_equal(mem_good_size(f->ctx, 32768 - 100),
                     f->ctx->source ? 32768 - MEM_BLOCK_HEADER : 32768 - 100);
}

static void deleted_child_leaves_its_siblings(void **state)
{
    struct fixture *f = *state;
    mem_context *children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = make(f, f->ctx, "child");
        assert_non_null(mem_alloc(children[i], 1000));
    }
    mem_delete(children[1]);
    assert_ptr_equal(f->ctx->child, children[2]);
    assert_ptr_equal(children[2]->next, children[0]);
    assert_ptr_equal(children[0]->prev, children[2]);
    mem_delete(children[2]);
    mem_delete(children[0]);
    assert_null(f->ctx->child);
}

static void embedded_child_is_emptied_and_let_go(void **state)
{
    struct fixture *f = *state;
    mem_context child, grandchild;
    embed(f, &child, f->ctx, "child");
    embed(f, &grandchild, &child, "grandchild");
    assert_non_null(mem_alloc(&child, 50000));
    assert_non_null(mem_alloc(&grandchild, 50));
    mem_reset(f->ctx);
    assert_null(f->ctx->child);
    assert_null(child.parent);
    assert_null(grandchild.parent);
    assert_int_equal(mem_total_held(&child), 0);
    assert_non_null(mem_alloc(&child, 10)); /* it is a root now */
    mem_delete(&child);
}

static void embedded_child_may_live_in_its_parent(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 3; round++) {
        mem_context *child = mem_alloc(f->ctx, sizeof *child);
        assert_non_null(child);
        embed(f, child, f->ctx, "child");
        assert_non_null(mem_alloc(child, 70000));
        mem_reset(f->ctx);
    }
}

static void deep_tree_ends_without_recursion(void **state)
{
    struct fixture *f = *state;
    mem_context *at = f->ctx;
    for (int i = 0; i < 20000; i++) {
        at = make(f, at, "level");
        assert_non_null(mem_alloc(at, 16));
    }
    assert_true(mem_total_held(f->ctx) >= 20000 * 16);
    mem_reset(f->ctx);
    assert_null(f->ctx->child);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static void stats_follow_use(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_context ctx;
    embed(f, &ctx, NULL, "figures");
    mem_stats stats = mem_get_stats(&ctx);
    assert_string_equal(stats.kind, f->kind == ARENA ? "arena" : "heap");
    assert_string_equal(stats.name, "figures");
    assert_int_equal(stats.total + stats.used + stats.peak + stats.blocks + stats.large_blocks, 0);

    for (int i = 0; i < 100; i++)
        assert_non_null(mem_alloc(&ctx, 1600));
    char *large = mem_alloc(&ctx, 200000);
    assert_non_null(large);
    stats = mem_get_stats(&ctx);
    assert_int_equal(stats.used, 360000);
    assert_int_equal(stats.peak, 360000);
    assert_true(stats.total >= stats.used);
    assert_int_equal(stats.large_blocks, f->kind == ARENA ? 1 : 101);
    mem_free(&ctx, large, 200000);
    assert_int_equal(mem_get_stats(&ctx).used, 160000);

    mem_reset(&ctx);
    stats = mem_get_stats(&ctx);
    assert_int_equal(stats.used + stats.total + stats.blocks + stats.large_blocks, 0);
    assert_int_equal(stats.peak, 160000); /* of the reset: nobody looked… */
    assert_int_equal(stats.resets, 1);
    mem_reset(&ctx); /* of an empty context: nothing happens */
    assert_int_equal(mem_get_stats(&ctx).resets, 1);
    mem_delete(&ctx);
}

/* ---- The current context --------------------------------------------------------------------- */

static void *current_elsewhere(void *arg)
{
    mem_context *before = mem_current();
    mem_switch(arg);
    return before;
}

static void current_context_is_of_the_thread(void **state)
{
    struct fixture *f = *state;
    mem_context *child = make(f, f->ctx, "child");
    assert_null(mem_current());
    assert_null(mem_switch(f->ctx));
    assert_ptr_equal(mem_switch(child), f->ctx);
    assert_ptr_equal(mem_current(), child);

    pthread_t thread;
    void *seen = f;
    assert_int_equal(pthread_create(&thread, NULL, current_elsewhere, f->ctx), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_null(seen);
    assert_ptr_equal(mem_current(), child);
    assert_ptr_equal(mem_switch(NULL), child);
}

/* ---- A random run against a model ------------------------------------------------------------ */

#define ITEMS 200
#define STEPS (MEM_CHECKED ? 3000 : 20000) /* checked builds are some fifty times slower here */

struct item {
    unsigned char *p;
    size_t size;
    unsigned char with;
};

static uint64_t random_state;

static uint64_t any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* Mostly small, sometimes about a threshold, seldom large. */
static size_t any_size(void)
{
    static const size_t around[] = {64,         MEM_LARGE,     4096 - 64, 16384 - 64,
                                    65536 - 64, 2 * MEM_LARGE, MIB - 64,  MIB};
    uint64_t dice = any(100);
    if (dice < 70)
        return any(300);
    if (dice < 90)
        return any(5000);
    if (dice < 97)
        return around[any(8)] - 20 + any(40);
    return any(2 * MIB);
}

static uint64_t seed(void)
{
    const char *given = getenv("SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t number = given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_nsec;
    return number ? number : 1;
}

static void random_steps_agree_with_a_model(void **state)
{
    struct fixture *f = *state;
    uint64_t start = seed();
    print_message("SEED=%llu\n", (unsigned long long)start);
    random_state = start;

    mem_budget budget;
    mem_budget_init(&budget, 0, NULL);
    static _Alignas(MEM_ALIGN) char first[1000];
    mem_context ctx;
    if (f->kind == ARENA)
        mem_arena_init(&ctx, NULL, "random", f->blocks, first, sizeof first);
    else
        mem_heap_init(&ctx, NULL, "random");
    mem_set_budget(&ctx, &budget);

    static struct item items[ITEMS];
    memset(items, 0, sizeof items);
    for (int step = 0; step < STEPS; step++) {
        struct item *item = &items[any(ITEMS)];
        assert_true(is_filled(item->p, item->size, item->with));
        uint64_t dice = any(1000);
        if (dice < 3) {
            for (int i = 0; i < ITEMS; i++)
                assert_true(is_filled(items[i].p, items[i].size, items[i].with));
            mem_reset(&ctx);
            memset(items, 0, sizeof items);
            assert_int_equal(mem_get_stats(&ctx).used, 0);
            assert_int_equal(mem_total_held(&ctx), 0);
            assert_int_equal(budget.used, 0);
            continue;
        }
        size_t size = any_size(), kept = 0;
        if (!item->p) {
            size_t align = (size_t)1 << any(5);
            item->p = mem_alloc_aligned(&ctx, size, align);
            assert_int_equal((uintptr_t)item->p % align, 0);
        } else if (dice < 400) {
            mem_free(&ctx, item->p, item->size);
            *item = (struct item){0};
            continue;
        } else {
            kept = size < item->size ? size : item->size;
            item->p = mem_resize(&ctx, item->p, item->size, size);
        }
        assert_non_null(item->p);
        assert_true(is_filled(item->p, kept, item->with));
        item->size = size;
        item->with = (unsigned char)any(256);
        memset(item->p, item->with, size);
        assert_int_equal(budget.used, mem_total_held(&ctx));
        mem_stats stats = mem_get_stats(&ctx);
        assert_true(stats.used <= stats.total + sizeof first);
    }
    mem_delete(&ctx);
    assert_int_equal(budget.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(size_0_takes_nothing_from_others),
        BOTH(sizes_that_cannot_be_are_refused),
        BOTH(every_alignment_is_kept),
        BOTH(array_is_zeroed_and_checked),
        BOTH(resize_keeps_contents),
        BOTH(resize_that_is_refused_keeps_the_allocation),
        BOTH(free_of_null_does_nothing),
        BOTH(copies_belong_to_the_context),
        BOTH(printf_takes_any_length),
        BOTH(callbacks_run_once_last_first),
        BOTH(callback_without_allocations_runs),
        BOTH(callback_may_register_another),
        BOTH(callback_still_sees_the_memory),
        BOTH(reset_deletes_the_children),
        BOTH(a_child_of_its_parents_kind_is_given_back_alone),
        BOTH(a_child_may_have_the_rest_of_a_block),
        BOTH(good_sizes_cost_no_more),
        BOTH(deleted_child_leaves_its_siblings),
        BOTH(embedded_child_is_emptied_and_let_go),
        BOTH(embedded_child_may_live_in_its_parent),
        BOTH(deep_tree_ends_without_recursion),
        BOTH(stats_follow_use),
        BOTH(current_context_is_of_the_thread),
        BOTH(random_steps_agree_with_a_model),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
