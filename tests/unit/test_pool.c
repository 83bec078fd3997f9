/* The pool: cells come whole, aligned and apart, cost no byte beyond their size, and their slabs go
 * back when they are empty. */
#include "mem_fixture.h"

#include <sys/mman.h>

#include "../../alloc/internal.h"

#define SLAB (64u * KIB)

static const size_t cell_sizes[] = {1, 8, 9, 16, 24, 100, 240, 1000, 4096, 20000, 32 * KIB};
enum { CELL_SIZES = sizeof cell_sizes / sizeof *cell_sizes };

static void sizes_out_of_range_are_refused(void **state)
{
    struct fixture *f = *state;
    assert_null(mem_pool_create(f->blocks, 0));
    assert_null(mem_pool_create(f->blocks, 32 * KIB + 1));
    assert_null(mem_pool_create(f->blocks, SIZE_MAX));
    mem_pool_delete(NULL);
}

static void cells_are_aligned_and_apart(void **state)
{
    struct fixture *f = *state;
    enum { N = 200 };
    for (int s = 0; s < CELL_SIZES; s++) {
        mem_pool *pool = mem_pool_create(f->blocks, cell_sizes[s]);
        assert_non_null(pool);
        size_t cell = mem_pool_get_stats(pool).cell;
        assert_int_equal(cell, (cell_sizes[s] + 7) / 8 * 8);
        char *cells[N];
        for (int i = 0; i < N; i++) {
            cells[i] = mem_pool_take(pool);
            assert_non_null(cells[i]);
            assert_int_equal((uintptr_t)cells[i] % (cell % 16 ? 8 : 16), 0);
            memset(cells[i], i, cell);
        }
        assert_int_equal(mem_pool_get_stats(pool).live, N);
        for (int i = 0; i < N; i++) {
            assert_true(is_filled(cells[i], cell, (unsigned char)i));
            mem_pool_give(pool, cells[i]);
        }
        assert_int_equal(mem_pool_get_stats(pool).live, 0);
        mem_pool_delete(pool);
    }
}

static void cell_costs_its_size(void **state)
{
    struct fixture *f = *state;
    enum { N = 100000 };
    static void *cells[N];
    mem_pool *pool = mem_pool_create(f->blocks, 24);
    for (int i = 0; i < N; i++)
        cells[i] = mem_pool_take(pool);
    mem_pool_stats stats = mem_pool_get_stats(pool);
    assert_int_equal(stats.held, stats.slabs * SLAB);
    assert_int_equal(stats.slabs, (N + 2727) / 2728); /* (65,536 - 64) / 24 cells a slab */
    for (int i = 0; i < N; i++)
        mem_pool_give(pool, cells[i]);
    mem_pool_delete(pool);
}

static void cell_given_last_is_taken_first(void **state)
{
    struct fixture *f = *state;
    mem_pool *pool = mem_pool_create(f->blocks, 64);
    void *cells[3];
    for (int i = 0; i < 3; i++)
        cells[i] = mem_pool_take(pool);
    for (int i = 0; i < 3; i++)
        mem_pool_give(pool, cells[i]);
    for (int i = 2; i >= 0; i--)
        assert_ptr_equal(mem_pool_take(pool), cells[i]);
    for (int i = 0; i < 3; i++)
        mem_pool_give(pool, cells[i]);
    mem_pool_delete(pool);
}

/* In several orders: as taken, backwards, and scattered. */
static void empty_slabs_go_back_but_one(void **state)
{
    struct fixture *f = *state;
    enum { N = 5003 }; /* a prime: every step below visits each cell once */
    static void *cells[N];
    static const size_t steps[] = {1, N - 1, 1789};
    mem_pool *pool = mem_pool_create(f->blocks, 200);
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < N; i++)
            cells[i] = mem_pool_take(pool);
        assert_true(mem_pool_get_stats(pool).slabs >= 15);
        size_t at = 0;
        for (int i = 0; i < N; i++, at = (at + steps[s]) % N)
            mem_pool_give(pool, cells[at]);
        assert_int_equal(mem_pool_get_stats(pool).slabs, 1);
    }
    mem_pool_delete(pool);
}

/* One cell that stays holds its own slab, and no other. */
static void shrinks_although_one_cell_lives(void **state)
{
    struct fixture *f = *state;
    enum { N = 3000 };
    static void *cells[N];
    for (int survivor = 0; survivor < N; survivor += 599) {
        mem_pool *pool = mem_pool_create(f->blocks, 500);
        for (int i = 0; i < N; i++)
            cells[i] = mem_pool_take(pool);
        for (int i = 0; i < N; i++) {
            if (i != survivor)
                mem_pool_give(pool, cells[i]);
        }
        assert_true(mem_pool_get_stats(pool).slabs <= 2); /* its own and the one that is kept */
        mem_pool_give(pool, cells[survivor]);
        assert_int_equal(mem_pool_get_stats(pool).slabs, 1);
        mem_pool_delete(pool);
    }
}

static void unused_cells_are_not_touched(void **state)
{
    struct fixture *f = *state;
    mem_pool *pool = mem_pool_create(f->blocks, 1000);
    char *cell = mem_pool_take(pool);
    unsigned char resident[16];
    char *slab = (char *)((uintptr_t)cell & ~(uintptr_t)(SLAB - 1));
    assert_int_equal(mincore(slab, SLAB, resident), 0);
    int count = 0;
    for (int i = 0; i < 16; i++)
        count += resident[i] & 1;
    assert_int_equal(count, 1);
    mem_pool_give(pool, cell);
    mem_pool_delete(pool);
}

static void random_turns_agree_with_a_model(void **state)
{
    struct fixture *f = *state;
    enum { N = 4000, TURNS = MEM_CHECKED ? 40000 : 200000 };
    static unsigned char *cells[N];
    static unsigned char marks[N];
    for (int s = 0; s < CELL_SIZES; s += 3) {
        mem_pool *pool = mem_pool_create(f->blocks, cell_sizes[s]);
        uint64_t random = 88172645463325252u;
        size_t live = 0;
        memset(cells, 0, sizeof cells);
        for (int turn = 0; turn < TURNS; turn++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t i = random % N;
            bool growing = turn / 20000 % 2 == 0; /* waves, so that slabs fill and empty */
            if (!cells[i] && (growing || random >> 60 == 0)) {
                cells[i] = mem_pool_take(pool);
                assert_non_null(cells[i]);
                marks[i] = (unsigned char)(random >> 40);
                memset(cells[i], marks[i], cell_sizes[s]);
                live++;
            } else if (cells[i] && (!growing || random >> 60 == 0)) {
                assert_true(is_filled(cells[i], cell_sizes[s], marks[i]));
                mem_pool_give(pool, cells[i]);
                cells[i] = NULL;
                live--;
            }
            assert_int_equal(mem_pool_get_stats(pool).live, live);
        }
        for (int i = 0; i < N; i++) {
            if (cells[i])
                mem_pool_give(pool, cells[i]);
        }
        assert_int_equal(mem_pool_get_stats(pool).slabs, 1);
        mem_pool_delete(pool);
    }
}

#if MEM_ASAN
static void free_cells_are_poisoned(void **state)
{
    struct fixture *f = *state;
    mem_pool *pool = mem_pool_create(f->blocks, 40);
    char *a = mem_pool_take(pool), *b = mem_pool_take(pool);
    assert_null(__asan_region_is_poisoned(a, 40));
    assert_null(__asan_region_is_poisoned(b, 40));
    assert_true(__asan_address_is_poisoned(b + 40));
    mem_pool_give(pool, a);
    assert_true(__asan_address_is_poisoned(a));
    assert_true(__asan_address_is_poisoned(a + 39));
    assert_null(__asan_region_is_poisoned(mem_pool_take(pool), 40));
    mem_pool_give(pool, b);
    mem_pool_give(pool, a);
    mem_pool_delete(pool);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(sizes_out_of_range_are_refused),
        ONE(cells_are_aligned_and_apart),
        ONE(cell_costs_its_size),
        ONE(cell_given_last_is_taken_first),
        ONE(empty_slabs_go_back_but_one),
        ONE(shrinks_although_one_cell_lives),
        ONE(unused_cells_are_not_touched),
        ONE(random_turns_agree_with_a_model),
#if MEM_ASAN
        ONE(free_cells_are_poisoned),
#endif
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
