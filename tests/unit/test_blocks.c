/* Blocks: sizes and alignment, what a magazine retains, what goes to the depot, how the depot
 * decays, that the system really gets its memory back, and threads that share one depot. The limit
 * that a magazine sets itself has test_retain.c. */
#include "mem_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../../alloc/internal.h"

static const size_t classes[] = {4 * KIB,  8 * KIB,  16 * KIB, 20 * KIB, 24 * KIB, 28 * KIB,
                                 32 * KIB, 40 * KIB, 48 * KIB, 56 * KIB, 64 * KIB};
enum { CLASSES = sizeof classes / sizeof *classes };

static size_t idle_here(struct fixture *f)
{
    return mem_blocks_get_stats(f->blocks).idle;
}

static size_t idle_in_depot(struct fixture *f)
{
    return mem_depot_get_stats(f->depot).idle;
}

static bool is_mapped(void *p)
{
    unsigned char resident;
    return mincore(p, 4096, &resident) == 0 || errno != ENOMEM;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void sizes_are_classes_then_pages(void **state)
{
    (void)state;
    static const struct {
        size_t size, whole;
    } cases[] = {{0, 4096},
                 {1, 4096},
                 {4096, 4096},
                 {4097, 8192},
                 {8193, 16384},
                 {16385, 20480},
                 {28672, 28672},
                 {28673, 32768},
                 {32769, 40960},
                 {57345, 65536},
                 {65535, 65536},
                 {65536, 65536},
                 {65537, 69632},
                 {MIB - 1, MIB},
                 {MIB, MIB},
                 {MIB + 1, MIB + 4096},
                 {2 * MIB, 2 * MIB + 4096},
                 {5 * MIB - 1, 5 * MIB},
                 {SIZE_MAX, 0},
                 {SIZE_MAX - 4096, 0},
                 {SIZE_MAX / 2, 0},
                 {SIZE_MAX / 2 + 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mem_block_size(cases[i].size), cases[i].whole);
    for (unsigned i = 0; i < CLASSES; i++) {
        assert_int_equal(mem_block_size(i > 0 ? classes[i - 1] + 1 : 1), classes[i]);
        assert_int_equal(mem_block_size(classes[i]), classes[i]);
        assert_int_equal(mem_rank(classes[i]), i);
    }
}

static void blocks_are_aligned_and_apart(void **state)
{
    struct fixture *f = *state;
    enum { EACH = 70, N = CLASSES * EACH }; /* more than a batch of the larger ones */
    mem_block *taken[N];
    for (int i = 0; i < N; i++) {
        size_t size = classes[i % CLASSES];
        taken[i] = mem_blocks_take(f->blocks, size - 100);
        assert_non_null(taken[i]);
        assert_int_equal(taken[i]->size, size);
        assert_int_equal((uintptr_t)taken[i] % (size & -size), 0); /* the power of two in it */
        memset((char *)taken[i] + MEM_BLOCK_HEADER, i, size - MEM_BLOCK_HEADER);
    }
    for (int i = 0; i < N; i++) {
        size_t size = taken[i]->size;
        assert_true(is_filled((char *)taken[i] + MEM_BLOCK_HEADER, size - MEM_BLOCK_HEADER,
                              (unsigned char)i));
        mem_blocks_give(f->blocks, taken[i]);
    }
}

static void sizes_that_cannot_be_give_null(void **state)
{
    struct fixture *f = *state;
    assert_null(mem_blocks_take(f->blocks, SIZE_MAX));
    assert_null(mem_blocks_take(f->blocks, SIZE_MAX / 2));
    assert_null(mem_blocks_take(f->blocks, (size_t)1 << 50));
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, MEM_BLOCK_MIN); /* the context's own */
}

/* ---- The magazine ---------------------------------------------------------------------------- */

static void last_in_is_first_out(void **state)
{
    struct fixture *f = *state;
    mem_block *a = mem_blocks_take(f->blocks, 8192), *b = mem_blocks_take(f->blocks, 8192);
    mem_blocks_give(f->blocks, a);
    mem_blocks_give(f->blocks, b);
    assert_ptr_equal(mem_blocks_take(f->blocks, 8192), b);
    assert_ptr_equal(mem_blocks_take(f->blocks, 5000), a);
    mem_block *other = mem_blocks_take(f->blocks, 4096);
    mem_blocks_give(f->blocks, other);
    mem_blocks_give(f->blocks, a);
    mem_blocks_give(f->blocks, b);
}

static void magazine_keeps_what_fits_its_limit(void **state)
{
    struct fixture *f = *state;
    static const size_t limits[] = {0, 1, MEM_BLOCK_HEADER - 1, 4095, 4096, 12 * KIB, 100 * KIB};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        retain(f, limits[i]);
        mem_block *taken[40];
        for (int t = 0; t < 40; t++) {
            taken[t] = mem_blocks_take(f->blocks, 4096);
            assert_non_null(taken[t]);
        }
        for (int t = 0; t < 40; t++) {
            mem_blocks_give(f->blocks, taken[t]);
            assert_true(idle_here(f) <= limits[i]);
        }
        assert_int_equal(idle_here(f), limits[i] / 4096 * 4096);
        assert_int_equal(idle_here(f) + idle_in_depot(f), 40 * 4096);
    }
}

static void what_does_not_fit_the_magazine_is_shared(void **state)
{
    struct fixture *f = *state;
    retain(f, 0);
    for (int i = 0; i < CLASSES; i++) { /* the depot keeps them all */
        mem_block *block = mem_blocks_take(f->blocks, classes[i]);
        mem_blocks_give(f->blocks, block);
        assert_int_equal(idle_in_depot(f), classes[i]);
        mem_blocks *other = mem_blocks_create(f->depot, 0);
        assert_ptr_equal(mem_blocks_take(other, classes[i]), block);
        assert_int_equal(idle_in_depot(f), 0);
        mem_blocks_give(other, block);
        mem_blocks_delete(other);
        mem_depot_clear(f->depot);
    }
}

static void large_blocks_go_to_the_system(void **state)
{
    struct fixture *f = *state;
    retain(f, 0);
    for (size_t size = 128 * KIB; size <= 8 * MIB; size *= 2) {
        mem_block *block = mem_blocks_take(f->blocks, size);
        uint64_t unmaps = mem_blocks_get_stats(f->blocks).unmaps;
        mem_blocks_give(f->blocks, block);
        assert_int_equal(idle_in_depot(f) + idle_here(f), 0);
        assert_int_equal(mem_blocks_get_stats(f->blocks).unmaps, unmaps + 1);
        assert_false(is_mapped(block));
    }
}

static void huge_blocks_are_aligned_and_shared(void **state)
{
    struct fixture *f = *state;
    retain(f, 0);
    mem_block *block = mem_blocks_take_whole(f->blocks, MEM_BLOCK_HUGE);
    assert_int_equal((uintptr_t)block % MEM_BLOCK_HUGE, 0);
    assert_int_equal(block->size, MEM_BLOCK_HUGE);
    mem_blocks_give(f->blocks, block);
    assert_int_equal(idle_in_depot(f), MEM_BLOCK_HUGE);
    mem_block *other = mem_blocks_take(f->blocks, MEM_BLOCK_HUGE); /* that is mapped to measure */
    assert_int_equal(idle_in_depot(f), MEM_BLOCK_HUGE);
    other = mem_blocks_resize(f->blocks, other, 5 * MIB);
    other = mem_blocks_resize(f->blocks, other, MEM_BLOCK_HUGE); /* and stays so */
    assert_non_null(other);
    assert_ptr_equal(mem_blocks_take_whole(f->blocks, MEM_BLOCK_HUGE), block);
    mem_blocks_give(f->blocks, other);
    assert_int_equal(idle_in_depot(f), 0);
    mem_blocks_give(f->blocks, block);
    mem_depot_decay(f->depot);
    mem_depot_decay(f->depot);
    assert_int_equal(idle_in_depot(f), 0);
    assert_false(is_mapped(block));
}

/* Four measures to a doubling above the classes, but none of 2 MiB, which is that of huge blocks: a
 * mapping is kept as what it measures, whatever is asked for next. */
static void mappings_have_measures(void **state)
{
    struct fixture *f = *state;
    static const struct {
        size_t size, mapped;
    } cases[] = {{65537, 80 * KIB},
                 {80 * KIB, 80 * KIB},
                 {80 * KIB + 1, 96 * KIB},
                 {112 * KIB + 1, 128 * KIB},
                 {128 * KIB + 1, 160 * KIB},
                 {430 * KIB, 448 * KIB},
                 {MIB, MIB},
                 {MIB + 1, MIB + 256 * KIB},
                 {7 * MIB / 4 + 1, 5 * MIB / 2},
                 {2 * MIB, 5 * MIB / 2},
                 {5 * MIB / 2 + 1, 3 * MIB},
                 {13 * MIB, 14 * MIB},
                 {15 * MIB, 16 * MIB}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        retain(f, 16 * MIB);
        mem_block *block = mem_blocks_take(f->blocks, cases[i].size);
        assert_non_null(block);
        assert_int_equal(mem_blocks_get_stats(f->blocks).lent, block->size);
        assert_true(block->size >= cases[i].size && block->size < cases[i].size + 2 * 4096);
        mem_blocks_give(f->blocks, block);
        assert_int_equal(idle_here(f), cases[i].mapped);
        assert_true(is_mapped((char *)block + cases[i].mapped - 4096));
    }
}

static void steps_are_quarters_of_a_doubling(void **state)
{
    (void)state;
    unsigned step = 0;
    for (size_t size = 1; size < 20 * MIB; size += size < 8192 ? 1 : 997) {
        while (size > mem_step_size(step, 4096))
            step++;
        assert_int_equal(mem_step(size, 4096), step);
        assert_int_equal(mem_step(mem_step_size(step, 4096), 4096), step);
    }
    assert_int_equal(mem_step_size(3, 4096), 7168);
    assert_int_equal(mem_step_size(4, 4096), 8192);
    assert_int_equal(mem_step_size(5, 4096), 10240);
}

static void ranks_rise_with_the_measures(void **state)
{
    (void)state;
    unsigned before = mem_rank(MEM_BLOCK_MAX);
    for (size_t size = MEM_BLOCK_MAX + 4096; size <= 16 * MIB; size += 4096) {
        if (size == MEM_BLOCK_HUGE)
            continue;
        unsigned rank = mem_rank(size);
        assert_in_range(rank, MEM_RANK_MEASURED, MEM_RANKS - 1);
        assert_true(rank == before || rank == before + 1 ||
                    (rank == MEM_RANK_MEASURED && before < rank));
        before = rank;
    }
    assert_int_equal(before, MEM_RANKS - 1);
    assert_int_equal(mem_rank(16 * MIB + 4096), MEM_RANKS);
}

static mem_block *take_filled(struct fixture *f, size_t size, unsigned char with)
{
    mem_block *block = mem_blocks_take(f->blocks, size);
    assert_non_null(block);
    memset((char *)block + MEM_BLOCK_HEADER, with, size - MEM_BLOCK_HEADER);
    return block;
}

static bool holds(const mem_block *block, size_t size, unsigned char with)
{
    return is_filled((const char *)block + MEM_BLOCK_HEADER, size - MEM_BLOCK_HEADER, with);
}

/* Up to twice as large: the pages that it has are used again, and no other is mapped. */
static void idle_mapping_serves_for_what_is_about_as_large(void **state)
{
    struct fixture *f = *state;
    static const struct {
        size_t size;
        bool serves;
    } cases[] = {{3 * MIB, true},         {3 * MIB - 4096, true}, {5 * MIB / 2 + 1, true},
                 {3 * MIB / 2 + 1, true}, {3 * MIB + 1, false},   {MIB, false},
                 {65537, false},          {MEM_BLOCK_MAX, false}, {17 * MIB, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        retain(f, 16 * MIB);
        mem_block *idle = take_filled(f, 3 * MIB, 7);
        mem_blocks_give(f->blocks, idle);
        mem_block *block = mem_blocks_take(f->blocks, cases[i].size);
        assert_non_null(block);
        assert_int_equal(block == idle, cases[i].serves);
        assert_int_equal(idle_here(f), cases[i].serves ? 0 : 3 * MIB);
        assert_int_equal(mem_blocks_get_stats(f->blocks).maps, cases[i].serves ? 1 : 2);
        if (cases[i].serves)
            assert_true(holds(block, cases[i].size, 7));
        mem_blocks_give(f->blocks, block);
    }
    assert_null(
        mem_blocks_take(f->blocks, (size_t)1 << 50)); /* nor is the idle one lost track of */
    assert_int_equal(idle_here(f), 3 * MIB);
}

static void mapping_is_resized_within_its_measure(void **state)
{
    struct fixture *f = *state;
    retain(f, 16 * MIB);
    mem_block *block = take_filled(f, 900 * KIB, 3); /* of a mapping of 1 MiB */
    static const size_t sizes[] = {MIB, 901 * KIB, 700 * KIB, 513 * KIB, MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ptr_equal(mem_blocks_resize(f->blocks, block, sizes[i]), block);
        assert_int_equal(block->size, mem_align_up(sizes[i], 4096));
        assert_int_equal(mem_blocks_get_stats(f->blocks).lent, block->size);
        assert_true(holds(block, 513 * KIB, 3));
        assert_true(is_mapped((char *)block + MIB - 4096));
    }
    block = mem_blocks_resize(f->blocks, block, 512 * KIB); /* half of it goes back */
    assert_non_null(block);
    assert_true(holds(block, 512 * KIB, 3));
    assert_false(is_mapped((char *)block + 512 * KIB));
    mem_blocks_give(f->blocks, block);
    assert_int_equal(idle_here(f), 512 * KIB);
}

/* What grows out of its mapping goes to an idle one that has room, else the system moves it. */
static void mapping_that_is_outgrown_changes_places(void **state)
{
    struct fixture *f = *state;
    retain(f, 16 * MIB);
    mem_block *roomy = take_filled(f, 300 * KIB, 1), *block = take_filled(f, 100 * KIB, 5);
    mem_blocks_give(f->blocks, roomy);
    assert_ptr_equal(mem_blocks_resize(f->blocks, block, 200 * KIB), roomy);
    assert_true(holds(roomy, 100 * KIB, 5));
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, 200 * KIB);
    assert_int_equal(idle_here(f), 112 * KIB); /* where it was before */
    block = mem_blocks_resize(f->blocks, roomy, 3 * MIB);
    assert_non_null(block);
    assert_true(holds(block, 100 * KIB, 5));
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, 3 * MIB);
    assert_int_equal(mem_blocks_get_stats(f->blocks).maps, 2);
    assert_null(mem_blocks_resize(f->blocks, block, (size_t)1 << 50)); /* and is still valid */
    assert_true(holds(block, 100 * KIB, 5));
    mem_blocks_give(f->blocks, block);
}

static void ended_magazine_leaves_its_blocks_to_the_depot(void **state)
{
    struct fixture *f = *state;
    mem_blocks *other = mem_blocks_create(f->depot, RETAIN);
    mem_block *small = mem_blocks_take(other, 16 * KIB), *large = mem_blocks_take(other, 128 * KIB);
    mem_blocks_give(other, small);
    mem_blocks_give(other, large);
    assert_int_equal(mem_blocks_get_stats(other).idle, 144 * KIB);
    mem_blocks_delete(other);
    assert_int_equal(idle_in_depot(f), 16 * KIB);
    assert_false(is_mapped(large));
    mem_blocks_delete(NULL);
}

static void cleared_magazine_parts_with_all_that_is_idle(void **state)
{
    struct fixture *f = *state;
    retain(f, MIB);
    mem_block *small = mem_blocks_take(f->blocks, 4 * KIB);
    mem_block *large = mem_blocks_take(f->blocks, 256 * KIB);
    mem_block *lent = mem_blocks_take(f->blocks, 16 * KIB);
    assert_true(small && large && lent);
    mem_blocks_give(f->blocks, small);
    mem_blocks_give(f->blocks, large);
    assert_int_equal(idle_here(f), 260 * KIB);
    mem_blocks_clear(f->blocks);
    assert_int_equal(idle_here(f), 0);
    assert_int_equal(idle_in_depot(f), 4 * KIB);
    assert_false(is_mapped(large));
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, 16 * KIB);
    mem_blocks_give(f->blocks, lent); /* it goes on as before */
    assert_int_equal(idle_here(f), 16 * KIB);
}

static void lent_follows_resizing(void **state)
{
    struct fixture *f = *state;
    size_t before = mem_blocks_get_stats(f->blocks).lent;
    mem_block *block = mem_blocks_take(f->blocks, 3 * MIB);
    ((char *)block)[3 * MIB - 1] = 3;
    block = mem_blocks_resize(f->blocks, block, 100 * MIB);
    assert_non_null(block);
    assert_int_equal(block->size, 100 * MIB);
    assert_int_equal(((char *)block)[3 * MIB - 1], 3);
    assert_null(mem_blocks_resize(f->blocks, block, (size_t)1 << 50));
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, before + 100 * MIB);
    block = mem_blocks_resize(f->blocks, block, MIB);
    assert_int_equal(block->size, MIB);
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, before + MIB);
    mem_blocks_give(f->blocks, block);
    assert_int_equal(mem_blocks_get_stats(f->blocks).lent, before);
}

/* ---- Decay ----------------------------------------------------------------------------------- */

#define SPIKE 512

static void **take_spike(struct fixture *f, size_t size)
{
    void **taken = calloc(SPIKE, sizeof *taken);
    assert_non_null(taken);
    for (int i = 0; i < SPIKE; i++) {
        mem_block *block = mem_blocks_take(f->blocks, size);
        assert_non_null(block);
        memset((char *)block + MEM_BLOCK_HEADER, 1, size - MEM_BLOCK_HEADER);
        taken[i] = block;
    }
    return taken;
}

static void give_spike(struct fixture *f, void **taken)
{
    for (int i = 0; i < SPIKE; i++)
        mem_blocks_give(f->blocks, taken[i]);
}

static size_t mapped_count(void **taken)
{
    size_t count = 0;
    for (int i = 0; i < SPIKE; i++)
        count += is_mapped(taken[i]);
    return count;
}

static void two_idle_periods_return_everything(void **state)
{
    struct fixture *f = *state;
    retain(f, 0);
    void **taken = take_spike(f, 64 * KIB);
    give_spike(f, taken);
    assert_int_equal(idle_in_depot(f), SPIKE * 64 * KIB);
    assert_int_equal(mem_depot_decay(f->depot), 0); /* all of it was in use during the period */
    assert_int_equal(mapped_count(taken), SPIKE);
    assert_int_equal(mem_depot_decay(f->depot), SPIKE * 64 * KIB);
    assert_int_equal(idle_in_depot(f), 0);
    assert_int_equal(mapped_count(taken), 0);
    assert_int_equal(mem_depot_decay(f->depot), 0);
    free(taken);
}

static void what_is_in_use_survives_decay(void **state)
{
    struct fixture *f = *state;
    retain(f, 0);
    void **taken = take_spike(f, 16 * KIB);
    give_spike(f, taken);
    mem_depot_decay(f->depot);
    for (int period = 0; period < 3; period++) {
        mem_block *now[10];
        for (int i = 0; i < 10; i++)
            now[i] = mem_blocks_take(f->blocks, 16 * KIB);
        for (int i = 9; i >= 0; i--)
            mem_blocks_give(f->blocks, now[i]);
        /* At the low point ten were away: those ten stay, the rest goes at the first chance. */
        size_t unmapped = mem_depot_decay(f->depot);
        assert_int_equal(unmapped, period == 0 ? (SPIKE - 10) * 16 * KIB : 0);
        assert_int_equal(idle_in_depot(f), 10 * 16 * KIB);
    }
    mem_block *newest = mem_blocks_take(f->blocks, 16 * KIB);
    assert_ptr_equal(newest, taken[SPIKE - 1]); /* the oldest went, not the ones in use */
    mem_blocks_give(f->blocks, newest);
    free(taken);
}

static void clear_returns_everything_now(void **state)
{
    struct fixture *f = *state;
    retain(f, 0);
    void **taken = take_spike(f, 4 * KIB);
    give_spike(f, taken);
    assert_int_equal(mem_depot_clear(f->depot), SPIKE * 4 * KIB);
    assert_int_equal(idle_in_depot(f), 0);
    assert_int_equal(mapped_count(taken), 0);
    assert_int_equal(mem_depot_clear(f->depot), 0);
    free(taken);
    mem_depot_delete(NULL);
}

/* ---- The system's own figures ---------------------------------------------------------------- */

static size_t resident(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    assert_non_null(file);
    char line[256];
    size_t kib = 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = sscanf(line, "Anonymous: %zu kB", &kib) == 1;
    fclose(file);
    assert_true(found);
    return kib * KIB;
}

/* The first round is for what a checker (a sanitizer, Valgrind) keeps about memory once touched. */
static void resident_memory_comes_back(void **state)
{
    needs_bare_contexts();
    struct fixture *f = *state;
    enum { BYTES = 48 * MIB };
    size_t before = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t got = 0; got < BYTES; got += 64) {
            char *p = mem_alloc(f->ctx, 64);
            assert_non_null(p);
            memset(p, 1, 64);
        }
        size_t peak = resident();
        mem_reset(f->ctx);
        mem_depot_decay(f->depot);
        mem_depot_decay(f->depot);
        size_t after = resident();
        if (round == 0) {
            before = after;
            continue;
        }
        assert_true(peak > before + BYTES / 2);
        assert_true(after <= before + MIB);
    }
}

/* A block that was taken but not used is one page, however large. */
static void untouched_memory_is_not_resident(void **state)
{
    struct fixture *f = *state;
    size_t before = resident();
    mem_block *taken[30];
    for (int i = 0; i < 30; i++)
        taken[i] = mem_blocks_take(f->blocks, MIB);
    assert_true(resident() < before + MIB);
    for (int i = 0; i < 30; i++)
        mem_blocks_give(f->blocks, taken[i]);
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 400

struct worker {
    mem_depot *depot;
    mem_blocks *blocks;
    unsigned char mark;
    bool damaged;
};

static void *exchange(void *arg)
{
    struct worker *worker = arg;
    mem_block *taken[16];
    for (int round = 0; round < ROUNDS; round++) {
        int count = 1 + (round * 7 + worker->mark) % 16;
        for (int i = 0; i < count; i++) {
            size_t size = classes[(round + i) % CLASSES];
            taken[i] = mem_blocks_take(worker->blocks, size);
            if (!taken[i]) {
                worker->damaged = true;
                return NULL;
            }
            memset((char *)taken[i] + MEM_BLOCK_HEADER, worker->mark, 512);
        }
        for (int i = 0; i < count; i++) {
            if (!is_filled((char *)taken[i] + MEM_BLOCK_HEADER, 512, worker->mark))
                worker->damaged = true;
            mem_blocks_give(worker->blocks, taken[i]);
        }
    }
    return NULL;
}

static void threads_exchange_through_one_depot(void **state)
{
    struct fixture *f = *state;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.depot = f->depot, .mark = (unsigned char)(i + 1)};
        workers[i].blocks = mem_blocks_create(f->depot, i % 2 ? 0 : 32 * KIB);
        assert_non_null(workers[i].blocks);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &workers[i]), 0);
    for (int period = 0; period < 50; period++) { /* the housekeeper, and a reader of figures */
        mem_depot_decay(f->depot);
        for (int i = 0; i < THREADS; i++)
            (void)mem_blocks_get_stats(workers[i].blocks);
        (void)mem_depot_get_stats(f->depot);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(workers[i].damaged);
        assert_int_equal(mem_blocks_get_stats(workers[i].blocks).lent, 0);
        mem_blocks_delete(workers[i].blocks);
    }
    mem_depot_decay(f->depot);
    mem_depot_decay(f->depot);
    assert_int_equal(idle_in_depot(f), 0);
}

/* Contexts that go from hand to hand, on blocks of one magazine. */
struct ring {
    mem_blocks *blocks;
    pthread_mutex_t lock; /* guards the slots */
    struct parcel {
        mem_context *ctx;
        char *text;
    } slots[8];
    bool damaged; /* atomic */
};

static struct parcel swap(struct ring *ring, unsigned slot, struct parcel mine)
{
    pthread_mutex_lock(&ring->lock);
    struct parcel found = ring->slots[slot];
    ring->slots[slot] = mine;
    pthread_mutex_unlock(&ring->lock);
    return found;
}

static void *pass_on(void *arg)
{
    struct ring *ring = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct parcel mine = {.ctx = mem_arena_create(NULL, "parcel", ring->blocks)};
        if (mine.ctx)
            mine.text = mem_copy_string(mine.ctx, "made on one thread", 18);
        if (!mine.text) {
            __atomic_store_n(&ring->damaged, true, __ATOMIC_RELAXED);
            return NULL;
        }
        struct parcel found = swap(ring, round % 8, mine);
        if (!found.ctx)
            continue;
        char *more = mem_alloc(found.ctx, round % 7 == 0 ? 40000 : 5000);
        if (!more || strcmp(found.text, "made on one thread") != 0)
            __atomic_store_n(&ring->damaged, true, __ATOMIC_RELAXED);
        else
            memset(more, 'x', 5000);
        mem_delete(found.ctx);
    }
    return NULL;
}

static void contexts_pass_between_threads_on_shared_blocks(void **state)
{
    struct fixture *f = *state;
    struct ring ring = {.blocks = mem_blocks_create_shared(f->depot, MEM_RETAIN_ADAPTIVE),
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    assert_non_null(ring.blocks);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pass_on, &ring), 0);
    for (int period = 0; period < 50; period++) { /* the housekeeper */
        mem_depot_decay(f->depot);
        mem_blocks_clear(ring.blocks);
        (void)mem_blocks_get_stats(ring.blocks);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(ring.damaged);
    for (unsigned slot = 0; slot < 8; slot++)
        mem_delete(ring.slots[slot].ctx);
    assert_int_equal(mem_blocks_get_stats(ring.blocks).lent, 0);
    mem_blocks_delete(ring.blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(sizes_are_classes_then_pages),
        ONE(blocks_are_aligned_and_apart),
        ONE(sizes_that_cannot_be_give_null),
        ONE(last_in_is_first_out),
        ONE(magazine_keeps_what_fits_its_limit),
        ONE(what_does_not_fit_the_magazine_is_shared),
        ONE(large_blocks_go_to_the_system),
        ONE(huge_blocks_are_aligned_and_shared),
        ONE(mappings_have_measures),
        ONE(steps_are_quarters_of_a_doubling),
        ONE(ranks_rise_with_the_measures),
        ONE(idle_mapping_serves_for_what_is_about_as_large),
        ONE(mapping_is_resized_within_its_measure),
        ONE(mapping_that_is_outgrown_changes_places),
        ONE(ended_magazine_leaves_its_blocks_to_the_depot),
        ONE(cleared_magazine_parts_with_all_that_is_idle),
        ONE(lent_follows_resizing),
        ONE(two_idle_periods_return_everything),
        ONE(what_is_in_use_survives_decay),
        ONE(clear_returns_everything_now),
        ONE(resident_memory_comes_back),
        ONE(untouched_memory_is_not_resident),
        ONE(threads_exchange_through_one_depot),
        ONE(contexts_pass_between_threads_on_shared_blocks),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
