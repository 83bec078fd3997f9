/* The arena: how it grows, what it gives back early, what it keeps over a reset, and that it hands
 * out nothing else's memory. */
#include "mem_fixture.h"

#include "../../alloc/internal.h"

static size_t held(struct fixture *f)
{
    return mem_total_held(f->ctx) - MEM_BLOCK_MIN; /* without the context's own block */
}

static void blocks_grow_to_64_kib(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static const size_t expected[] = {4, 20, 84, 148, 212};
    size_t before = 0;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        while (held(f) == before)
            assert_non_null(mem_alloc(f->ctx, 100));
        before = held(f);
        assert_int_equal(before, expected[i] * KIB);
        assert_int_equal(mem_get_stats(f->ctx).blocks, i + 2);
    }
    mem_reset(f->ctx);
    assert_int_equal(held(f), 0);
    assert_int_equal(mem_get_stats(f->ctx).blocks, 1);
    while (held(f) == 0)
        assert_non_null(mem_alloc(f->ctx, 100));
    assert_int_equal(held(f), 64 * KIB); /* as much may be needed again */
    mem_reset(f->ctx);
    assert_int_equal(held(f), 64 * KIB);     /* and is kept */
    assert_non_null(mem_alloc(f->ctx, 100)); /* a round that needs no block: growth starts over */
    mem_reset(f->ctx);
    assert_int_equal(held(f), 0);
    while (held(f) == 0)
        assert_non_null(mem_alloc(f->ctx, 100));
    assert_int_equal(held(f), 4 * KIB);
}

static void growth_begins_with_what_the_round_before_needed(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static const size_t needed[] = {200000, 10, 30000, 20000, 10, 10000, 6000, 0};
    static const size_t expected[] = {64, 4, 32, 32, 4, 16, 8, 4};
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "rounds", f->blocks, NULL, 0);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        assert_non_null(mem_alloc(&ctx, 100000)); /* has a block of its own */
        while (mem_get_stats(&ctx).blocks == 0)
            assert_non_null(mem_alloc(&ctx, 16));
        for (size_t more = 16; more < needed[i]; more += 16)
            assert_non_null(mem_alloc_aligned(&ctx, 16, more % 32 ? 8 : 16));
        mem_reset(&ctx);
        while (mem_total_held(&ctx) == 0)
            assert_non_null(mem_alloc(&ctx, 16));
        assert_int_equal(mem_total_held(&ctx), expected[i] * KIB);
        mem_reset(&ctx);
        assert_int_equal(mem_total_held(&ctx), 0);
    }
    mem_delete(&ctx);
}

static void request_larger_than_the_next_block_gets_one_that_fits(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *p = mem_alloc(f->ctx, MEM_LARGE);
    assert_non_null(p);
    memset(p, 1, MEM_LARGE);
    assert_int_equal(held(f), 20 * KIB);
    assert_int_equal(mem_get_stats(f->ctx).large_blocks, 0);
}

static void size_alone_makes_an_allocation_large(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[100 * KIB];
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "wide", f->blocks, first, sizeof first);
    char *bumped = mem_alloc(&ctx, MEM_LARGE);
    assert_ptr_equal(bumped, first);
    assert_int_equal(mem_total_held(&ctx), 0);
    char *large = mem_alloc(&ctx, MEM_LARGE + 1); /* would fit the first block */
    assert_non_null(large);
    assert_int_equal(mem_get_stats(&ctx).large_blocks, 1);
    mem_free(&ctx, large, MEM_LARGE + 1);
    for (size_t size = 1; size <= MEM_LARGE; size *= 2) { /* all of the first block serves */
        char *p = mem_alloc(&ctx, size);
        assert_true(p > bumped && p + size <= first + sizeof first);
    }
    assert_int_equal(mem_total_held(&ctx), 0);
    mem_delete(&ctx);
}

static void large_block_returns_at_once(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static const size_t sizes[] = {MEM_LARGE + 1, 100 * KIB, MIB - MEM_BLOCK_HEADER, MIB, 5 * MIB};
    enum { N = sizeof sizes / sizeof *sizes };
    char *p[N];
    for (int i = 0; i < N; i++) {
        size_t before = held(f);
        p[i] = mem_alloc(f->ctx, sizes[i]);
        assert_non_null(p[i]);
        memset(p[i], i, sizes[i]);
        assert_int_equal(held(f) - before, mem_block_size(sizes[i] + MEM_BLOCK_HEADER));
    }
    static const int order[N] = {2, 0, 4, 3, 1}; /* middle, ends */
    for (int i = 0; i < N; i++) {
        size_t before = held(f), size = sizes[order[i]];
        assert_true(is_filled(p[order[i]], size, (unsigned char)order[i]));
        mem_free(f->ctx, p[order[i]], size);
        assert_int_equal(before - held(f), mem_block_size(size + MEM_BLOCK_HEADER));
        assert_int_equal(mem_get_stats(f->ctx).large_blocks, N - 1 - i);
    }
    assert_int_equal(held(f), 0);
    assert_int_equal(mem_get_stats(f->ctx).used, 0);
}

static void newest_grows_in_place(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    assert_non_null(mem_alloc(f->ctx, MEM_LARGE)); /* a 32 KiB block; then one of 64 */
    char *p = mem_alloc(f->ctx, MEM_LARGE);
    assert_non_null(p);
    mem_free(f->ctx, p, MEM_LARGE);
    p = mem_alloc(f->ctx, 1);
    for (size_t size = 1; size < MEM_LARGE; size += 1000) {
        assert_ptr_equal(
            mem_resize(f->ctx, p, size, size + 1000 < MEM_LARGE ? size + 1000 : MEM_LARGE), p);
        memset(p, 3, size);
    }
    char *moved = mem_resize(f->ctx, p, MEM_LARGE, MEM_LARGE + 1); /* now it is large */
    assert_ptr_not_equal(moved, p);
    assert_int_equal(mem_get_stats(f->ctx).large_blocks, 1);
    assert_ptr_equal(mem_alloc(f->ctx, 8), p); /* its old place is free again */
    char *back = mem_resize(f->ctx, moved, MEM_LARGE + 1, 100);
    assert_true(is_filled(back, 100, 3));
    assert_int_equal(mem_get_stats(f->ctx).large_blocks, 0);
}

static void newest_shrinks_and_frees_in_place(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *a = mem_alloc(f->ctx, 96);
    char *b = mem_alloc(f->ctx, 1000);
    assert_ptr_equal(mem_resize(f->ctx, b, 1000, 10), b);
    assert_int_equal(mem_get_stats(f->ctx).used, 96 + 16);
    char *c = mem_alloc(f->ctx, 50);
    assert_true(c < b + 1000);
    mem_free(f->ctx, c, 50);
    mem_free(f->ctx, b, 10);
    mem_free(f->ctx, a, 96);
    assert_int_equal(mem_get_stats(f->ctx).used, 0);
    assert_ptr_equal(mem_alloc(f->ctx, 100), a);
}

static void other_than_the_newest_waits_for_the_reset(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *a = mem_alloc(f->ctx, 100);
    char *b = mem_alloc(f->ctx, 100);
    memset(b, 2, 100);
    mem_free(f->ctx, a, 100);
    assert_ptr_not_equal(mem_alloc(f->ctx, 100), a);
    assert_ptr_equal(mem_resize(f->ctx, b, 100, 40), b);
    char *grown = mem_resize(f->ctx, b, 40, 60);
    assert_ptr_not_equal(grown, b);
    assert_true(is_filled(grown, 40, 2));
}

/* The end of the old allocation, rounded up, must not be taken for another's. */
static void neighbour_is_never_the_newest(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < (size_t)40 * 16 * 4; i++) {
        size_t size = i / 64, other = 1 + i / 4 % 16;
        size_t align = i & 1 ? MEM_ALIGN : 1, other_align = i & 2 ? MEM_ALIGN : 1;
        char *a = mem_alloc_aligned(f->ctx, size, align);
        char *b = mem_alloc_aligned(f->ctx, other, other_align);
        memset(b, 'b', other);
        if (i / 4 & 1) {
            a = mem_resize(f->ctx, a, size, size + 20);
            memset(a, 'a', size + 20);
            mem_free(f->ctx, a, size + 20);
        } else {
            mem_free(f->ctx, a, size);
            memset(mem_alloc_aligned(f->ctx, 100, align), 'c', 100);
        }
        assert_true(is_filled(b, other, 'b'));
        mem_free(f->ctx, b, other);
    }
}

/* It lies at the back. Then what was behind it is freed, and the front comes past it. */
static void size_0_is_never_the_newest(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[128];
    mem_context ctx;
    mem_arena_init(&ctx, f->ctx, "inline", f->blocks, first, sizeof first);
    char *behind = mem_alloc_aligned(&ctx, 24, 8);
    char *zero = mem_alloc_aligned(&ctx, 0, 8);
    mem_free(&ctx, behind, 24);
    char *front = mem_alloc(&ctx, 112);
    memset(front, 1, 112);
    char *grown = mem_resize(&ctx, zero, 0, 16);
    memset(grown, 2, 16);
    assert_true(is_filled(front, 112, 1));
    mem_delete(&ctx);
}

static void large_block_grows_within_its_capacity(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *p = mem_alloc(f->ctx, 30000);
    memset(p, 5, 30000);
    size_t capacity = mem_block_size(30000 + MEM_BLOCK_HEADER) - MEM_BLOCK_HEADER;
    assert_ptr_equal(mem_resize(f->ctx, p, 30000, capacity), p);
    assert_int_equal(mem_get_stats(f->ctx).used, capacity);
    assert_ptr_equal(mem_resize(f->ctx, p, capacity, 20000), p);
    char *moved = mem_resize(f->ctx, p, 20000, capacity + 1);
    assert_ptr_not_equal(moved, p);
    assert_true(is_filled(moved, 20000, 5));
    assert_int_equal(held(f), mem_block_size(capacity + 1 + MEM_BLOCK_HEADER));
    assert_int_equal(mem_get_stats(f->ctx).large_blocks, 1);
}

static void mapping_follows_its_size_both_ways(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *other = mem_alloc(f->ctx, 2 * MIB);
    char *p = mem_alloc(f->ctx, 2 * MIB);
    char *third = mem_alloc(f->ctx, 30000);
    memset(p, 6, 2 * MIB);
    memset(other, 1, 2 * MIB);
    memset(third, 2, 30000);
    size_t before = held(f);
    p = mem_resize(f->ctx, p, 2 * MIB, 40 * MIB);
    assert_non_null(p);
    assert_int_equal(held(f) - before, 38 * MIB);
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, mem_total_held(f->ctx));
    assert_true(is_filled(p, 2 * MIB, 6));
    p[40 * MIB - 1] = 1;
    p = mem_resize(f->ctx, p, 40 * MIB, 2 * MIB);
    assert_int_equal(held(f), before);
    assert_true(is_filled(p, 2 * MIB, 6));
    p = mem_resize(f->ctx, p, 2 * MIB, 40000);
    assert_true(held(f) < before - 2 * MIB + 128 * KIB);
    assert_true(is_filled(p, 40000, 6));
    p = mem_resize(f->ctx, p, 40000, 60000);
    assert_true(is_filled(p, 40000, 6));
    mem_free(f->ctx, p, 60000);
    mem_free(f->ctx, third, 30000);
    mem_free(f->ctx, other, 2 * MIB);
    assert_int_equal(held(f), 0);
}

/* 64 MiB, each half with a mark of its own piece. */
static void arena_of_many_mib_grows_by_huge_blocks(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    enum { PIECE = 16000, PIECES = 64 * MIB / PIECE };
    size_t **pieces = malloc(PIECES * sizeof *pieces);
    assert_non_null(pieces);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < PIECES; i++) {
            pieces[i] = mem_alloc_aligned(f->ctx, PIECE, 8);
            assert_non_null(pieces[i]);
            pieces[i][0] = pieces[i][PIECE / sizeof(size_t) - 1] = i;
        }
        for (size_t i = 0; i < PIECES; i++)
            assert_true(pieces[i][0] == i && pieces[i][PIECE / sizeof(size_t) - 1] == i);
        mem_stats stats = mem_get_stats(f->ctx);
        assert_in_range(stats.blocks, 32 * 16, 32 * 16 + 24); /* 32 MiB in 64 KiB, 32 in 2 MiB */
        assert_in_range(stats.total, 64 * MIB, 70 * MIB);
        mem_reset(f->ctx);
        assert_in_range(held(f), 0, 64 * KIB);
    }
    mem_depot_decay(f->depot);
    mem_depot_decay(f->depot);
    assert_int_equal(mem_depot_get_stats(f->depot).idle, 0);
    free(pieces);
}

/* The bytes that pieces of 80 get, until they are refused. */
static size_t take_all(mem_context *ctx)
{
    size_t taken = 0;
    while (mem_alloc(ctx, 80))
        taken += 80;
    return taken;
}

static void limits_are_used_to_their_end_past_huge_blocks(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    for (int shared = 0; shared < 2; shared++) {
        mem_total total = {.limit = shared ? 48 * MIB : 0};
        mem_budget budget;
        mem_budget_init(&budget, shared ? 0 : 48 * MIB, &total);
        mem_set_budget(f->ctx, &budget);
        assert_in_range(take_all(f->ctx), 47 * MIB, 48 * MIB);
        assert_true(budget.used > 48 * MIB - MEM_BLOCK_MIN);
        mem_stats stats = mem_get_stats(f->ctx);
        assert_in_range(stats.blocks, 512, 512 + 4 + 8 * 16 + 64); /* not thousands of 4 KiB */
        mem_reset(f->ctx);
        mem_set_budget(f->ctx, NULL);
    }
}

static void arena_that_holds_little_again_takes_small_blocks(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *p = mem_alloc(f->ctx, 40 * MIB);
    for (int i = 0; i < 4; i++) /* past the context's own block */
        assert_non_null(mem_alloc(f->ctx, 1000));
    mem_free(f->ctx, p, 40 * MIB);
    for (int i = 0; i < 64; i++)
        assert_non_null(mem_alloc(f->ctx, 1000));
    assert_true(held(f) <= 4 * 64 * KIB);
}

/* What is allocated in a row lies in a row, so that the processor sees it coming. */
static void fresh_blocks_continue_one_another(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    assert_non_null(mem_alloc_aligned(f->ctx, 64, 8));
    if (f->ctx->end == f->ctx->cur)
        skip(); /* the window is shut: for Valgrind all comes from the front */
    mem_depot_clear(f->depot);
    char *before = NULL;
    size_t apart = 0;
    for (size_t i = 0; i < 8 * MIB / 64; i++) {
        char *p = mem_alloc_aligned(f->ctx, 64, 8);
        assert_non_null(p);
        apart += before && (p > before || before - p > 256);
        before = p;
    }
    assert_true(apart <= 8 + 3); /* a mapping of the system each MiB, and the blocks at the start */
}

static void first_block_serves_again_after_reset(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[1003];
    mem_context ctx;
    mem_arena_init(&ctx, f->ctx, "inline", f->blocks, first, sizeof first);
    for (int round = 0; round < 3; round++) {
        assert_ptr_equal(mem_alloc(&ctx, 500), first);
        assert_int_equal(mem_total_held(&ctx), 0);
        if (round > 0)
            assert_non_null(mem_alloc(&ctx, 30000)); /* with and without blocks */
        assert_non_null(mem_alloc(&ctx, 480));
        assert_int_equal(mem_total_held(&ctx), round > 0 ? 32 * KIB : 0);
        mem_reset(&ctx);
        assert_int_equal(mem_total_held(&ctx), 0);
    }
    mem_delete(&ctx);
}

static void first_block_may_lie_behind_a_bump_block(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_block *high = mem_blocks_take(f->blocks, MEM_BLOCK_MIN), header = *high;
    mem_block *low = mem_blocks_take(f->blocks, MEM_BLOCK_MIN);
    assert_ptr_equal(high, (char *)low + MEM_BLOCK_MIN);
    mem_blocks_give(f->blocks, low);

    mem_context ctx;
    mem_arena_init(&ctx, NULL, "behind", f->blocks, high, MEM_BLOCK_MIN);
    char *first = mem_alloc(&ctx, MEM_BLOCK_MIN), *other = mem_alloc(&ctx, 16);
    assert_ptr_equal(first, high);
    assert_ptr_equal(other, (char *)low + MEM_BLOCK_HEADER);
    mem_free(&ctx, first, MEM_BLOCK_MIN); /* not the newest: nothing becomes free */
    char *back = mem_alloc_aligned(&ctx, 16, 8);
    assert_true(back > (char *)low && back + 16 <= (char *)high);
    mem_delete(&ctx);
    *high = header;
    mem_blocks_give(f->blocks, high);
}

static void first_block_smaller_than_a_grain_is_none(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[MEM_ALIGN];
    for (size_t size = 0; size <= MEM_ALIGN; size++) {
        mem_context ctx;
        mem_arena_init(&ctx, NULL, "tiny", f->blocks, first, size);
        char *p = mem_alloc(&ctx, 1);
        assert_non_null(p);
        assert_int_equal(p == first, size == MEM_ALIGN);
        assert_non_null(mem_alloc(&ctx, 100));
        mem_delete(&ctx);
    }
}

static void either_end_alone_is_given_back(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[1024];
    mem_context ctx;
    mem_arena_init(&ctx, f->ctx, "inline", f->blocks, first, sizeof first);
    for (uint64_t round = 1; round <= 8; round++) {
        char *p = mem_alloc_aligned(&ctx, 400, round % 2 ? 1 : MEM_ALIGN);
        assert_true(p >= first && p < first + sizeof first);
        assert_int_equal(mem_get_stats(&ctx).used, 400);
        mem_reset(&ctx);
        assert_int_equal(mem_get_stats(&ctx).used, 0);
        assert_int_equal(mem_get_stats(&ctx).resets, round);
#if MEM_ASAN
        assert_true(__asan_address_is_poisoned(p));
#endif
    }
    mem_reset(&ctx); /* it is empty */
    assert_int_equal(mem_get_stats(&ctx).resets, 8);
    mem_delete(&ctx);
}

static void own_block_is_kept_over_resets(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    char *p = mem_alloc(f->ctx, 1000);
    uint64_t maps = mem_blocks_get_stats(f->blocks).maps;
    for (int i = 0; i < 10; i++) {
        mem_reset(f->ctx);
        assert_ptr_equal(mem_alloc(f->ctx, 1000), p);
    }
    assert_int_equal(mem_total_held(f->ctx), MEM_BLOCK_MIN);
    assert_int_equal(mem_blocks_get_stats(f->blocks).maps, maps);
}

static void take_bytes(mem_context *ctx, size_t bytes)
{
    for (size_t taken = 0; taken < bytes; taken += 96) {
        char *p = mem_alloc(ctx, 96);
        assert_non_null(p);
        memset(p, 1, 96);
    }
}

/* Three rounds of each size; then what is kept, in KiB. The arena grows to what it needs, and shrinks. */
static void created_arena_keeps_a_block_that_its_rounds_need(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static const struct {
        size_t bytes, kept;
    } rounds[] = {{3000, 0},   {9000, 16},   {46000, 64}, {20000, 64}, {15000, 16},
                  {60000, 64}, {300000, 64}, {17000, 64}, {10000, 16}, {4500, 16},
                  {200, 0},    {3900, 8},    {200, 0}};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        for (int round = 0; round < 3; round++) {
            size_t lent = mem_blocks_get_stats(f->blocks).lent;
            take_bytes(f->ctx, rounds[i].bytes);
            if (round == 2 && rounds[i].bytes < 64 * KIB) /* no other block is needed by now */
                assert_int_equal(mem_blocks_get_stats(f->blocks).lent, lent);
            mem_reset(f->ctx);
        }
        assert_int_equal(held(f), rounds[i].kept * KIB);
        assert_int_equal(mem_get_stats(f->ctx).blocks, rounds[i].kept ? 2 : 1);
        assert_int_equal(mem_get_stats(f->ctx).used, 0);
    }
    take_bytes(f->ctx, 46000);
    mem_reset(f->ctx);
    take_bytes(f->ctx, 46000);
    mem_reset(f->ctx);
    mem_context *other = mem_arena_create(f->ctx, "child", f->blocks);
    take_bytes(other, 300000);
    mem_delete(other);
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, (64 + 4) * KIB);
}

/* What its magazine keeps beside follows what its rounds need, though they take nothing. */
static void rounds_in_a_kept_block_count_as_peaks(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_blocks *blocks = mem_blocks_create(f->depot, MEM_RETAIN_ADAPTIVE);
    assert_non_null(blocks);
    mem_context *ctx = mem_arena_create(NULL, "adaptive", blocks);
    assert_non_null(ctx);
    take_bytes(ctx, 8 * MIB);
    mem_reset(ctx);
    assert_true(mem_blocks_get_stats(blocks).idle >= 4 * MIB);
    for (int round = 0; round < 40; round++) {
        take_bytes(ctx, 46000);
        mem_reset(ctx);
        mem_depot_decay(f->depot);
    }
    assert_true(mem_blocks_get_stats(blocks).idle <= 256 * KIB);
    mem_delete(ctx);
    mem_blocks_delete(blocks);
}

/* Nobody would be charged for it. */
static void arena_with_a_budget_keeps_none(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    mem_budget budget;
    mem_budget_init(&budget, MIB, NULL);
    for (int round = 0; round < 6; round++) {
        if (round == 3) {
            assert_int_equal(held(f), 64 * KIB);
            mem_set_budget(f->ctx, &budget);
        }
        take_bytes(f->ctx, 46000);
        if (round >= 3)
            assert_true(budget.used >= 46000 - MEM_BLOCK_MIN);
        mem_reset(f->ctx);
        if (round >= 3)
            assert_int_equal(held(f), 0);
        assert_int_equal(budget.used, 0);
    }
    mem_set_budget(f->ctx, NULL);
}

static void next_round_gets_the_same_blocks(void **state)
{
    struct fixture *f = *state;
    uint64_t maps = 0;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 700; i++)
            assert_non_null(mem_alloc(f->ctx, 100));
        assert_non_null(mem_alloc(f->ctx, 50000));
        mem_reset(f->ctx);
        if (round == 1)
            maps = mem_blocks_get_stats(f->blocks).maps;
    }
    assert_int_equal(mem_blocks_get_stats(f->blocks).maps, maps);
}

#if MEM_ASAN
/* What AddressSanitizer must know: memory that is not handed out is out of bounds. */
static void unused_memory_is_poisoned(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    static _Alignas(MEM_ALIGN) char first[1024];
    mem_context ctx;
    mem_arena_init(&ctx, NULL, "poison", f->blocks, first, sizeof first);
    char *inside = mem_alloc(&ctx, 100), *large = mem_alloc(&ctx, 50000);
    char *bumped = mem_alloc(&ctx, 5000);
    assert_ptr_equal(inside, first);
    assert_null(__asan_region_is_poisoned(inside, 100));
    assert_null(__asan_region_is_poisoned(large, 50000));
    assert_null(__asan_region_is_poisoned(bumped, 5000));
    assert_true(__asan_address_is_poisoned(inside + 100));
    assert_true(__asan_address_is_poisoned(large + 50000));
    assert_true(__asan_address_is_poisoned(bumped + 5000));
    bumped = mem_resize(&ctx, bumped, 5000, 4000);
    assert_true(__asan_address_is_poisoned(bumped + 4000));
    bumped = mem_resize(&ctx, bumped, 4000, 4500);
    assert_null(__asan_region_is_poisoned(bumped, 4500));
    mem_free(&ctx, inside, 100);
    assert_true(__asan_address_is_poisoned(inside));
    mem_reset(&ctx);
    assert_true(__asan_address_is_poisoned(bumped));
    assert_true(__asan_address_is_poisoned(large));
    assert_true(__asan_address_is_poisoned(first));
    mem_delete(&ctx);
    assert_null(__asan_region_is_poisoned(first, sizeof first)); /* the caller's again */

    char *behind_struct = mem_alloc(f->ctx, 100), *kept = mem_alloc(f->ctx, 9000);
    mem_reset(f->ctx);
    assert_true(mem_total_held(f->ctx) > MEM_BLOCK_MIN);
    assert_true(__asan_address_is_poisoned(behind_struct));
    assert_true(__asan_address_is_poisoned(kept));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(blocks_grow_to_64_kib),
        ONE(growth_begins_with_what_the_round_before_needed),
        ONE(request_larger_than_the_next_block_gets_one_that_fits),
        ONE(size_alone_makes_an_allocation_large),
        ONE(large_block_returns_at_once),
        ONE(newest_grows_in_place),
        ONE(newest_shrinks_and_frees_in_place),
        ONE(other_than_the_newest_waits_for_the_reset),
        ONE(neighbour_is_never_the_newest),
        ONE(size_0_is_never_the_newest),
        ONE(large_block_grows_within_its_capacity),
        ONE(mapping_follows_its_size_both_ways),
        ONE(arena_of_many_mib_grows_by_huge_blocks),
        ONE(limits_are_used_to_their_end_past_huge_blocks),
        ONE(arena_that_holds_little_again_takes_small_blocks),
        ONE(fresh_blocks_continue_one_another),
        ONE(first_block_serves_again_after_reset),
        ONE(first_block_may_lie_behind_a_bump_block),
        ONE(first_block_smaller_than_a_grain_is_none),
        ONE(either_end_alone_is_given_back),
        ONE(own_block_is_kept_over_resets),
        ONE(created_arena_keeps_a_block_that_its_rounds_need),
        ONE(rounds_in_a_kept_block_count_as_peaks),
        ONE(arena_with_a_budget_keeps_none),
        ONE(next_round_gets_the_same_blocks),
#if MEM_ASAN
        ONE(unused_memory_is_poisoned),
#endif
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
