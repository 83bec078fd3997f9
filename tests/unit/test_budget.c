/* Budgets: what is charged, which refusal is given, that it sticks, and that all comes back. */
#include "mem_fixture.h"

#include <pthread.h>
#include <sys/resource.h>

/* Allocates until it is refused; the count. */
static size_t fill(mem_context *ctx, size_t size)
{
    size_t count = 0;
    while (mem_alloc(ctx, size)) {
        count++;
        assert_true(count < 10000000);
    }
    return count;
}

static void what_is_held_is_charged(void **state)
{
    struct fixture *f = *state;
    mem_total total = {.limit = 0};
    mem_budget budget;
    mem_budget_init(&budget, 0, &total);
    mem_context ctx;
    embed(f, &ctx, NULL, "charged");
    mem_set_budget(&ctx, &budget);
    static const size_t sizes[] = {1, 100, 5000, 20000, 300000, 2 * MIB};
    char *p[6];
    for (int i = 0; i < 6; i++) {
        p[i] = mem_alloc(&ctx, sizes[i]);
        assert_non_null(p[i]);
        assert_int_equal(budget.used, mem_total_held(&ctx));
        assert_int_equal(total.used, budget.used);
    }
    p[5] = mem_resize(&ctx, p[5], sizes[5], 4 * MIB);
    assert_int_equal(budget.used, mem_total_held(&ctx));
    size_t peak = budget.used;
    p[5] = mem_resize(&ctx, p[5], 4 * MIB, 3 * MIB);
    assert_int_equal(budget.used, mem_total_held(&ctx));
    mem_free(&ctx, p[5], 3 * MIB);
    mem_free(&ctx, p[4], sizes[4]);
    assert_int_equal(budget.used, mem_total_held(&ctx));
    mem_reset(&ctx);
    assert_int_equal(budget.used, 0);
    assert_int_equal(total.used, 0);
    assert_int_equal(budget.peak, peak);
    assert_int_equal(budget.refused, MEM_GRANTED);
    mem_delete(&ctx);
}

static void limit_is_never_passed(void **state)
{
    struct fixture *f = *state;
    static const size_t limits[] = {1, 100, 4095, 4096, 50000, MIB, 3 * MIB + 5};
    static const size_t sizes[] = {1, 24, 1000, 16384, 20000, 700000};
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            mem_budget budget;
            mem_budget_init(&budget, limits[l], NULL);
            mem_context ctx;
            embed(f, &ctx, NULL, "limited");
            mem_set_budget(&ctx, &budget);
            fill(&ctx, sizes[s]);
            assert_int_equal(budget.refused, MEM_OVER_LIMIT);
            assert_true(budget.peak <= limits[l]);
            assert_true(mem_total_held(&ctx) <= limits[l]);
            mem_delete(&ctx);
            assert_int_equal(budget.used, 0);
        }
    }
}

/* A block of the grown size does not fit any more, a smaller one does: the request is granted. */
static void limit_serves_to_its_end(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_budget budget;
    mem_budget_init(&budget, 100 * KIB, NULL);
    mem_context ctx;
    embed(f, &ctx, NULL, "limited");
    mem_set_budget(&ctx, &budget);
    size_t got = fill(&ctx, 96) * 96;
    assert_true(got > (f->kind == ARENA ? 96 * KIB : 74 * KIB));
    mem_delete(&ctx);
}

static void refusal_sticks_until_it_is_forgotten(void **state)
{
    struct fixture *f = *state;
    mem_budget budget;
    mem_budget_init(&budget, MIB, NULL);
    mem_context parent, child;
    embed(f, &parent, NULL, "parent");
    mem_set_budget(&parent, &budget);
    embed(f, &child, &parent, "child");

    char *kept = mem_alloc(&child, 1000);
    memset(kept, 4, 1000);
    char *newest = mem_alloc(&child, 64);
    assert_null(mem_alloc(&child, 2 * MIB));
    assert_int_equal(budget.refused, MEM_OVER_LIMIT);
    assert_int_equal(mem_get_stats(&child).refusals, 1);
    for (size_t size = 1; size < 100000; size *= 7) { /* room there is, but none is given */
        assert_null(mem_alloc(&child, size));
        assert_null(mem_alloc_aligned(&child, size, 1));
    }
    assert_null(mem_alloc(&parent, 100)); /* it has no window yet: same budget, same answer */
    assert_null(mem_resize(&child, newest, 64, 72));
    mem_free(&child, newest, 64); /* frees what was newest: opens nothing */
    assert_null(mem_alloc(&child, 8));
    assert_true(is_filled(kept, 1000, 4));
    kept = mem_resize(&child, kept, 1000, 900); /* less is possible */
    assert_non_null(kept);
    assert_true(is_filled(kept, 900, 4));

    mem_reset(&parent);
    assert_int_equal(budget.used, 0);
    assert_null(mem_alloc(&parent, 100)); /* still marked */
    mem_reset(&parent);
    mem_budget_reset(&budget);
    assert_int_equal(budget.refused, MEM_GRANTED);
    assert_non_null(mem_alloc(&parent, 100));
    mem_delete(&parent);
    mem_delete(&child);
}

static void refusal_shuts_a_first_block_too(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[4096];
    mem_budget budget;
    mem_budget_init(&budget, 64 * KIB, NULL);
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "inline", f->blocks, first, sizeof first);
    mem_set_budget(&ctx, &budget);
    assert_null(mem_alloc(&ctx, MIB)); /* the very first */
    assert_null(mem_alloc(&ctx, 8));
    assert_int_equal(mem_get_stats(&ctx).used, 0);
    mem_reset(&ctx);
    mem_budget_reset(&budget);
    assert_ptr_equal(mem_alloc(&ctx, 8), first);
    assert_null(mem_alloc(&ctx, MIB));
    assert_null(mem_alloc(&ctx, 8));
    mem_budget_reset(&budget);
    assert_ptr_equal(mem_alloc(&ctx, 8), first + 16); /* goes on where it stood */
    mem_delete(&ctx);
}

static void limit_hit_in_the_middle_of_a_tree_is_undone(void **state)
{
    struct fixture *f = *state;
    mem_total total = {.limit = 0};
    mem_budget budget;
    mem_budget_init(&budget, 2 * MIB, &total);
    mem_context root;
    embed(f, &root, NULL, "root");
    mem_set_budget(&root, &budget);
    for (int round = 0; round < 5; round++) {
        mem_context *a = make(f, &root, "a"), *b = make(f, a, "b"), *c = make(f, a, "c");
        assert_non_null(mem_alloc(&root, 100000));
        assert_non_null(mem_alloc(a, 200000));
        assert_non_null(mem_alloc(c, 300000));
        assert_true(fill(b, 1000) > 500);
        assert_int_equal(budget.refused, MEM_OVER_LIMIT);
        assert_null(mem_alloc(c, 50000));
        assert_null(mem_alloc(a, 50000));
        assert_null(mem_alloc(&root, 50000));
        mem_delete(b); /* gives room, yet the answer stays */
        assert_null(mem_alloc(a, 50000));
        mem_reset(&root);
        assert_int_equal(budget.used, 0);
        assert_int_equal(total.used, 0);
        mem_budget_reset(&budget);
    }
    mem_delete(&root);
}

static void total_refuses_for_all_and_recovers(void **state)
{
    struct fixture *f = *state;
    mem_total total = {.limit = MIB};
    mem_budget budgets[2];
    mem_context contexts[2];
    for (int i = 0; i < 2; i++) {
        mem_budget_init(&budgets[i], 10 * MIB, &total);
        embed(f, &contexts[i], NULL, "under a total");
        mem_set_budget(&contexts[i], &budgets[i]);
    }
    assert_non_null(mem_alloc(&contexts[0], 400000));
    assert_null(mem_alloc(&contexts[1], 700000));
    assert_int_equal(budgets[1].refused, MEM_OVER_TOTAL);
    assert_int_equal(budgets[0].refused, MEM_GRANTED); /* it asked for nothing more */
    assert_int_equal(budgets[1].used, 0);
    mem_reset(&contexts[0]);
    assert_int_equal(total.used, 0);
    mem_budget_reset(&budgets[1]);
    assert_non_null(mem_alloc(&contexts[1], 500000));
    assert_null(mem_alloc(&contexts[1], 11 * MIB)); /* over both: its own limit is named */
    assert_int_equal(budgets[1].refused, MEM_OVER_LIMIT);
    mem_delete(&contexts[0]);
    mem_delete(&contexts[1]);
    assert_int_equal(total.used, 0);
}

static void reason_is_the_limit_however_large_the_request(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {2 * MIB, SIZE_MAX / 2, SIZE_MAX - 40, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        static const struct {
            size_t limit, total;
            mem_refusal expected;
        } cases[] = {
            {MIB, 0, MEM_OVER_LIMIT}, {MIB, MIB, MEM_OVER_LIMIT}, {0, MIB, MEM_OVER_TOTAL}};
        for (size_t c = 0; c < 3; c++) {
            mem_total total = {.limit = cases[c].total};
            mem_budget budget;
            mem_budget_init(&budget, cases[c].limit, &total);
            mem_context ctx;
            embed(f, &ctx, NULL, "limited");
            mem_set_budget(&ctx, &budget);
            assert_non_null(mem_alloc(&ctx, 1000)); /* a sum would overflow */
            assert_null(mem_alloc(&ctx, sizes[i]));
            assert_int_equal(budget.refused, cases[c].expected);
            mem_delete(&ctx);
            assert_int_equal(total.used, 0);
        }
    }
}

static void system_failure_is_told_and_not_charged(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {(size_t)1 << 50, SIZE_MAX / 2 - 4096, SIZE_MAX / 2, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        mem_total total = {.limit = 0};
        mem_budget budget;
        mem_budget_init(&budget, 0, &total);
        mem_context ctx;
        embed(f, &ctx, NULL, "unlimited");
        mem_set_budget(&ctx, &budget);
        char *p = mem_alloc(&ctx, 2 * MIB);
        assert_non_null(p);
        size_t used = budget.used;
        if (i % 2)
            assert_null(mem_alloc(&ctx, sizes[i]));
        else
            assert_null(mem_resize(&ctx, p, 2 * MIB, sizes[i]));
        assert_int_equal(budget.refused, MEM_NO_SYSTEM);
        assert_int_equal(budget.used, used);
        assert_int_equal(total.used, used);
        assert_null(mem_alloc(&ctx, 50000));
        mem_delete(&ctx);
        assert_int_equal(total.used, 0);
    }
}

#if !MEM_CHECKED /* a checker needs the system's memory for itself */
/* No page is left when the first block is asked for. */
static void block_that_the_system_refuses_is_not_charged(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_blocks *blocks = mem_blocks_create(f->depot, 0);
    mem_total total = {.limit = 0};
    mem_budget budget;
    mem_budget_init(&budget, 0, &total);
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "unlimited", blocks, NULL, 0);
    mem_set_budget(&ctx, &budget);

    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    void *p = mem_alloc(&ctx, 100);
    mem_context *created = mem_arena_create(NULL, "none", blocks);
    mem_pool *pool = mem_pool_create(blocks, 100);
    void *cell = pool ? mem_pool_take(pool) : NULL;
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);

    assert_null(p);
    assert_null(created);
    assert_null(cell);
    assert_int_equal(budget.refused, MEM_NO_SYSTEM);
    assert_int_equal(total.used, 0);
    assert_int_equal(budget.used, 0);
    mem_reset(&ctx);
    mem_budget_reset(&budget);
    assert_non_null(mem_alloc(&ctx, 100)); /* memory is back */
    mem_delete(&ctx);
    mem_pool_delete(pool);
    mem_blocks_delete(blocks);
}
#endif

/* One context in turn for two that have budgets; the refusal of one is none of the other. */
static void lent_context_is_charged_to_whom_it_is_lent(void **state)
{
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[1000];
    mem_context lent;
    if (f->kind == ARENA)
        mem_arena_init(&lent, NULL, "lent", f->blocks, first, sizeof first);
    else
        mem_heap_init(&lent, NULL, "lent");
    for (int round = 0; round < 4; round++) {
        mem_budget budget;
        mem_budget_init(&budget, round % 2 ? MIB : 1, NULL);
        mem_context borrower;
        embed(f, &borrower, NULL, "borrower");
        mem_set_budget(&borrower, &budget);
        mem_attach(&lent, &borrower);
        assert_ptr_equal(borrower.child, &lent);
        if (round % 2) {
            assert_non_null(mem_alloc(&lent, 100));
            assert_non_null(mem_alloc(&lent, 5000));
            assert_true(budget.used > 0);
            assert_int_equal(mem_total_held(&borrower), budget.used);
            assert_int_equal(budget.refused, MEM_GRANTED);
        } else {
            while (mem_alloc(&lent, 100)) {
            }
            assert_int_equal(budget.refused, MEM_OVER_LIMIT);
            mem_detach(&lent);
            mem_attach(&lent, &borrower); /* the refusal sticks to the budget */
            assert_null(mem_alloc(&lent, 100));
        }
        mem_detach(&lent);
        assert_null(borrower.child);
        assert_int_equal(budget.used, 0);
        mem_delete(&borrower);
        assert_non_null(mem_alloc(&lent, 100)); /* it is on its own, and owes nobody */
        mem_reset(&lent);
    }
    mem_delete(&lent);
}

static void overflowing_array_is_a_refusal_too(void **state)
{
    struct fixture *f = *state;
    mem_budget budget;
    mem_budget_init(&budget, MIB, NULL);
    mem_context ctx;
    embed(f, &ctx, NULL, "limited");
    mem_set_budget(&ctx, &budget);
    assert_null(mem_alloc_array(&ctx, SIZE_MAX / 8, 16));
    assert_int_equal(budget.refused, MEM_OVER_LIMIT);
    mem_delete(&ctx);
}

/* ---- One total, many threads ----------------------------------------------------------------- */

#define THREADS 4

struct worker {
    struct fixture *f;
    mem_total *total;
    bool passed; /* the total was seen above its limit */
    size_t granted;
};

static void *compete(void *arg)
{
    struct worker *worker = arg;
    mem_blocks *blocks = mem_blocks_create(worker->f->depot, 0);
    struct fixture mine = {.kind = worker->f->kind, .blocks = blocks};
    mem_budget budget;
    mem_budget_init(&budget, 0, worker->total);
    mem_context ctx;
    embed(&mine, &ctx, NULL, "competitor");
    mem_set_budget(&ctx, &budget);
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 6; i++)
            worker->granted += mem_alloc(&ctx, 60000) != NULL;
        if (__atomic_load_n(&worker->total->used, __ATOMIC_RELAXED) > worker->total->limit)
            worker->passed = true;
        mem_reset(&ctx);
        mem_budget_reset(&budget);
    }
    mem_delete(&ctx);
    mem_blocks_delete(blocks);
    return NULL;
}

static void threads_never_pass_the_total(void **state)
{
    struct fixture *f = *state;
    mem_total total = {.limit = MIB};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.f = f, .total = &total};
        assert_int_equal(pthread_create(&threads[i], NULL, compete, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    size_t granted =
        0; /* one alone may be out of luck, if the others hold their own while they wait */
    for (int i = 0; i < THREADS; i++) {
        assert_false(workers[i].passed);
        granted += workers[i].granted;
    }
    assert_true(granted > 0);
    assert_int_equal(total.used, 0);
}

static void a_shrink_that_finds_no_room_refuses_nobody(void **state)
{
    struct fixture *f = *state;
    mem_budget budget;
    mem_budget_init(&budget, 32 * 1024 + 1024, NULL);
    mem_context ctx;
    embed(f, &ctx, NULL, "shrunk");
    mem_set_budget(&ctx, &budget);
    /* The block of its own leaves an arena no room for the bump block that the rest would move to. */
    char *p = mem_alloc(&ctx, 20000);
    assert_non_null(p);
    memset(p, 7, 20000);
    char *less = mem_resize(&ctx, p, 20000, 10000);
    assert_int_equal(budget.refused, MEM_GRANTED);
    p = less ? less : p; /* as it was, or moved */
    assert_int_equal(p[9999], 7);
    mem_delete(&ctx);
    assert_int_equal(budget.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(what_is_held_is_charged),
        BOTH(limit_is_never_passed),
        BOTH(limit_serves_to_its_end),
        BOTH(a_shrink_that_finds_no_room_refuses_nobody),
        BOTH(refusal_sticks_until_it_is_forgotten),
        ONE(refusal_shuts_a_first_block_too),
        BOTH(limit_hit_in_the_middle_of_a_tree_is_undone),
        BOTH(total_refuses_for_all_and_recovers),
        BOTH(reason_is_the_limit_however_large_the_request),
        BOTH(system_failure_is_told_and_not_charged),
#if !MEM_CHECKED
        ONE(block_that_the_system_refuses_is_not_charged),
#endif
        BOTH(lent_context_is_charged_to_whom_it_is_lent),
        BOTH(overflowing_array_is_a_refusal_too),
        BOTH(threads_never_pass_the_total),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
