/* Instruments: what they see, what they let fail, what they catch; over both kinds of context. */
#include "mem_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../alloc/debug.h"

struct instruments {
    mem_debug *debug;
    mem_context *ctx;
};

static struct instruments attach(struct fixture *f, const char *list)
{
    struct instruments i = {mem_debug_create(list), make(f, NULL, "watched")};
    assert_non_null(i.debug);
    mem_debug_attach(i.debug, i.ctx);
    return i;
}

static void detach(struct instruments *i)
{
    mem_delete(i->ctx);
    mem_debug_delete(i->debug);
}

/* ---- The list -------------------------------------------------------------------------------- */

static void a_list_is_words_of_the_table(void **state)
{
    (void)state;
    static const char *const good[] = {"", "count", "poison,guard,count,fail=12,rate=100,trip"};
    static const char *const bad[] = {",",
                                      "count,",
                                      ",count",
                                      "fail",
                                      "fail=",
                                      "fail=0",
                                      "fail=-1",
                                      "count=1",
                                      "counts",
                                      "coun",
                                      "Count",
                                      "count trip",
                                      "rate=1x",
                                      "trip ",
                                      "fail=1,x",
                                      "count,,trip",
                                      "fail=99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(mem_debug_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (mem_debug_valid(bad[i]) || mem_debug_create(bad[i]))
            fail_msg("'%s' is taken", bad[i]);
    }
    for (const mem_debug_flag *flag = mem_debug_flags; flag->name; flag++) {
        char word[32];
        snprintf(word, sizeof word, "%s%s", flag->name, flag->argument ? "=1" : "");
        assert_true(mem_debug_valid(word));
        assert_true(strlen(flag->help) > 0);
    }
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void every_call_is_counted(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "count");
    for (size_t n = 0; n < 100; n++)
        assert_non_null(mem_alloc_aligned(i.ctx, 8, 8)); /* would be inline otherwise */
    void *p = mem_alloc(i.ctx, 100);
    mem_free(i.ctx, p, 100);
    mem_reset(i.ctx);
    mem_reset(i.ctx); /* of an empty context: nothing happens */
    mem_counts counts = mem_debug_get_counts(i.debug);
    assert_int_equal(counts.allocs, 101);
    assert_int_equal(counts.bytes, 900);
    assert_int_equal(counts.frees, 1);
    assert_int_equal(counts.resets, 1);
    assert_int_equal(counts.resized + counts.moved + counts.refused, 0);
    detach(&i);
}

static void growth_in_place_and_moves_are_told_apart(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "count");
    void *p = mem_alloc(i.ctx, 24); /* ends at an odd grain */
    assert_ptr_equal(mem_resize(i.ctx, p, 24, 40), p);
    assert_ptr_equal(mem_resize(i.ctx, p, 40, 16), p);
    assert_non_null(mem_alloc(i.ctx, 8));
    p = mem_resize(i.ctx, p, 16, 64);
    assert_non_null(p);
    mem_counts counts = mem_debug_get_counts(i.debug);
    assert_int_equal(counts.allocs, 2); /* the move is none */
    assert_int_equal(counts.resized, 2);
    assert_int_equal(counts.moved, 1);
    assert_int_equal(counts.bytes, 24 + 16 + 8 + 48);
    mem_free(i.ctx, p, 64);
    assert_ptr_equal(mem_alloc(i.ctx, 64), p); /* the newest was popped */
    detach(&i);
}

static void children_are_counted_too(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "count");
    mem_context *child = make(f, i.ctx, "child");
    assert_non_null(mem_alloc(child, 10));
    mem_delete(child);
    assert_int_equal(mem_debug_get_counts(i.debug).allocs, 1);
    assert_int_equal(mem_debug_get_counts(i.debug).resets, 1);
    detach(&i);
}

static void the_default_is_for_roots_made_from_then_on(void **state)
{
    struct fixture *f = *state;
    mem_debug *debug = mem_debug_create("count");
    assert_non_null(debug);
    mem_debug_set_default(debug);
    mem_context *root = make(f, NULL, "root");
    mem_context *below = make(f, f->ctx, "below"); /* its root was made before */
    mem_debug_set_default(NULL);
    mem_context *after = make(f, NULL, "after");
    mem_context *contexts[] = {root, below, after};
    for (size_t i = 0; i < 3; i++)
        assert_non_null(mem_alloc(contexts[i], 10));
    assert_int_equal(mem_debug_get_counts(debug).allocs, 1);
    for (size_t i = 0; i < 3; i++)
        mem_delete(contexts[i]);
    mem_debug_delete(debug);
}

static void a_context_works_as_ever_behind_instruments(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "count,poison,trip");
    unsigned char *kept[200];
    for (int round = 0; round < 3; round++) {
        for (size_t n = 0; n < 200; n++) {
            size_t size = n * n + n % 7;
            assert_non_null(kept[n] = mem_alloc_aligned(i.ctx, size, (size_t)1 << n % 5));
            memset(kept[n], (int)n, size);
            if (n % 3 == 0) {
                assert_non_null(kept[n] = mem_resize(i.ctx, kept[n], size, 2 * size));
                assert_non_null(kept[n] = mem_resize(i.ctx, kept[n], 2 * size, size));
            }
        }
        for (size_t n = 0; n < 200; n++)
            assert_true(is_filled(kept[n], n * n + n % 7, (unsigned char)n));
        for (size_t n = 0; n < 200; n += 2)
            mem_free(i.ctx, kept[n], n * n + n % 7);
        for (size_t n = 1; n < 200; n += 2)
            assert_true(is_filled(kept[n], n * n + n % 7, (unsigned char)n));
        mem_reset(i.ctx);
    }
    assert_int_equal(mem_get_stats(i.ctx).used, 0);
    detach(&i);
}

/* ---- Failing --------------------------------------------------------------------------------- */

static void the_kth_call_fails_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "fail=3,count");
    void *p = mem_alloc(i.ctx, 8);
    assert_non_null(p);
    assert_non_null(p = mem_resize(i.ctx, p, 8, 16));
    assert_non_null(p = mem_resize(i.ctx, p, 16, 8)); /* shrinking is no such call */
    assert_null(mem_resize(i.ctx, p, 8, 16));
    assert_non_null(mem_resize(i.ctx, p, 8, 16));
    assert_int_equal(mem_debug_get_counts(i.debug).refused, 1);
    assert_int_equal(mem_get_stats(i.ctx).refusals, 1);
    mem_debug_fail_at(i.debug, 1);
    assert_null(mem_alloc(i.ctx, 8));
    assert_non_null(mem_alloc(i.ctx, 8));
    mem_debug_fail_at(i.debug, 1);
    mem_debug_fail_at(i.debug, 0);
    assert_non_null(mem_alloc(i.ctx, 8));
    detach(&i);
}

static void a_failure_sticks_to_the_budget(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "fail=2");
    mem_budget budget;
    mem_budget_init(&budget, MIB, NULL);
    mem_set_budget(i.ctx, &budget);
    assert_non_null(mem_alloc(i.ctx, 8));
    assert_null(mem_alloc(i.ctx, 8));
    assert_int_equal(budget.refused, MEM_NO_SYSTEM);
    assert_null(mem_alloc(i.ctx, 8));
    mem_reset(i.ctx);
    mem_budget_reset(&budget);
    assert_non_null(mem_alloc(i.ctx, 8));
    detach(&i);
}

static void a_rate_lets_about_so_many_fail(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "rate=10");
    size_t refused = 0;
    for (size_t n = 0; n < 10000; n++)
        refused += !mem_alloc(i.ctx, 8);
    assert_in_range(refused, 800, 1200);
    detach(&i);
}

/* ---- Catching -------------------------------------------------------------------------------- */

static void what_is_freed_or_reset_is_overwritten(void **state)
{
    struct fixture *f = *state;
    if (is_checked())
        skip(); /* it would report the look */
    mem_debug *debug = mem_debug_create("poison");
    static _Alignas(16) unsigned char first[256];
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "poisoned", f->blocks, first, sizeof first);
    mem_debug_attach(debug, &ctx);
    memset(first, 1, sizeof first);
    unsigned char *freed = mem_alloc(&ctx, 32), *kept = mem_alloc(&ctx, 32);
    mem_free(&ctx, freed, 32);
    assert_true(is_filled(freed, 32, 0x7f));
    assert_true(is_filled(kept, 32, 1));
    assert_non_null(mem_alloc(&ctx, 1000)); /* beyond the first block */
    mem_reset(&ctx);
    assert_true(is_filled(first, 64, 0x7f));
    mem_delete(&ctx);
    mem_debug_delete(debug);
}

static void guarded_allocations_are_each_their_own(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "guard");
    unsigned char *p[3];
    for (size_t n = 0; n < 3; n++)
        assert_non_null(p[n] = mem_alloc(i.ctx, 24));
    assert_int_equal(mem_get_stats(i.ctx).large_blocks, 3);
    assert_non_null(p[0] = mem_resize(i.ctx, p[0], 24, 100 * KIB));
    mem_free(i.ctx, p[1], 24);
    assert_int_equal(mem_get_stats(i.ctx).large_blocks, 2);
    mem_reset(i.ctx);
    assert_int_equal(mem_get_stats(i.ctx).used, 0);
    assert_non_null(mem_alloc(i.ctx, 8));
    detach(&i);
}

/* Runs `act` in a child that is expected to die of it; what it wrote to stderr. */
static void assert_dies(void (*act)(struct instruments *), struct instruments *i, char text[2048])
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would go on in the child */
        dup2(ends[1], STDERR_FILENO);
        act(i);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length < 2047 && (got = read(ends[0], text + length, 2047 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_not_equal(status, 0);
}

static void overflow(struct instruments *i)
{
    volatile unsigned char *p = mem_alloc(i->ctx, 24);
    (void)mem_alloc(i->ctx, 24);
    p[24] = 1;
}

static void an_overflow_by_one_byte_is_seen(void **state)
{
    if (!MEM_ASAN)
        skip(); /* nobody watches */
    struct fixture *f = *state;
    struct instruments i = attach(f, "guard");
    char text[2048];
    assert_dies(overflow, &i, text);
    assert_non_null(strstr(text, "AddressSanitizer"));
    detach(&i);
}

static mem_context *sibling;

static void free_a_siblings(struct instruments *i)
{
    mem_free(i->ctx, mem_alloc(sibling, 40), 40);
}

static void resize_what_is_on_the_stack(struct instruments *i)
{
    char local[16];
    (void)mem_resize(i->ctx, local, sizeof local, 32);
}

static void free_with_another_size(struct instruments *i)
{
    mem_free(i->ctx, mem_alloc(i->ctx, 20 * KIB), 30 * KIB);
}

static void a_foreign_pointer_is_named(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "trip");
    mem_context *mine = make(f, i.ctx, "mine");
    sibling = make(f, i.ctx, "sibling");
    struct instruments at_child = {i.debug, mine};
    char text[2048];
    assert_dies(free_a_siblings, &at_child, text);
    assert_non_null(strstr(text, "mem_free of 0x"));
    assert_non_null(strstr(text, "in context \"mine\": it belongs to context \"sibling\""));
    assert_dies(resize_what_is_on_the_stack, &at_child, text);
    assert_non_null(strstr(text, "mem_resize of 0x"));
    assert_non_null(strstr(text, "no context of its tree"));
    assert_dies(free_with_another_size, &at_child, text);
    assert_non_null(strstr(text, "had another size"));
    detach(&i);
}

static void an_allocation_of_no_byte_is_never_foreign(void **state)
{
    struct fixture *f = *state;
    struct instruments i = attach(f, "trip,poison");
    void *before = mem_alloc(i.ctx, 64), *zero = mem_alloc(i.ctx, 0);
    mem_free(i.ctx, before, 64);
    assert_non_null(zero = mem_resize(i.ctx, zero, 0, 0));
    mem_free(i.ctx, zero, 0);
    detach(&i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(a_list_is_words_of_the_table),
        BOTH(every_call_is_counted),
        ONE(growth_in_place_and_moves_are_told_apart),
        BOTH(children_are_counted_too),
        BOTH(the_default_is_for_roots_made_from_then_on),
        BOTH(a_context_works_as_ever_behind_instruments),
        BOTH(the_kth_call_fails_and_no_other),
        BOTH(a_failure_sticks_to_the_budget),
        BOTH(a_rate_lets_about_so_many_fail),
        ONE(what_is_freed_or_reset_is_overwritten),
        BOTH(guarded_allocations_are_each_their_own),
        BOTH(an_overflow_by_one_byte_is_seen),
        BOTH(a_foreign_pointer_is_named),
        BOTH(an_allocation_of_no_byte_is_never_foreign),
    };
    mem_debug_set_default(NULL); /* the tests attach their own */
    return cmocka_run_group_tests_name("debug", tests, NULL, NULL);
}
