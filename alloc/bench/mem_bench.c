/* mem_bench: arenas and pools against malloc, on the work they are made for, in one run. Both arms
 * of a row do the same work and touch the same bytes; they take turns, and each row gives the best
 * and the median turn. What is compared is the program's malloc: preload another one to measure
 * it. Times are CPU time of the one thread. */
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../mem.h"
#include "../pool.h"

#define TURNS_MAX 15
#define ARMS 2

struct sizes {
    size_t turns;        /* each arm, each row */
    size_t cycles;       /* of 300 objects */
    size_t nodes;        /* of 24 bytes */
    size_t live, churn;  /* cells that live, turns of give and take */
    size_t objects;      /* of 64 bytes */
};
static const struct sizes full = {9, 20000, 10000000, 1000000, 20000000, 2000000};
static const struct sizes quick = {3, 1000, 200000, 20000, 400000, 100000};

struct bench {
    struct sizes sizes;
    mem_depot *depot;
    mem_blocks *blocks;
    mem_context *arena;
    size_t cell_bytes; /* of the pool's memory, per live cell */
};

static void fail(const char *what)
{
    fprintf(stderr, "mem_bench: %s.\n", what);
    exit(1);
}

static void *must(void *p)
{
    if (!p)
        fail("Memory was refused");
    return p;
}

static double seconds(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        fail("The thread's CPU clock cannot be read");
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* xorshift64: the same sequence for both arms. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- A request's worth of objects, then none ------------------------------------------------- */

#define MIXED 300

/* What a JSON document of that many values asks for: nodes, keys, strings, tables. */
static void mixed_sizes(uint32_t *sizes)
{
    static const uint16_t common[] = {24, 24, 24, 32, 32, 40, 56, 64, 72, 16, 8, 128, 96, 12, 48, 256};
    uint64_t random = 42;
    for (size_t i = 0; i < MIXED; i++)
        sizes[i] = common[next_random(&random) % (sizeof common / sizeof *common)];
}

static size_t mixed_malloc(struct bench *bench)
{
    uint32_t sizes[MIXED];
    void *objects[MIXED];
    mixed_sizes(sizes);
    for (size_t cycle = 0; cycle < bench->sizes.cycles; cycle++) {
        for (size_t i = 0; i < MIXED; i++) {
            objects[i] = must(malloc(sizes[i]));
            *(uint64_t *)objects[i] = i;
        }
        for (size_t i = 0; i < MIXED; i++)
            free(objects[i]);
    }
    return bench->sizes.cycles * MIXED;
}

static size_t mixed_arena(struct bench *bench)
{
    uint32_t sizes[MIXED];
    mixed_sizes(sizes);
    for (size_t cycle = 0; cycle < bench->sizes.cycles; cycle++) {
        for (size_t i = 0; i < MIXED; i++) {
            uint64_t *object = must(mem_alloc(bench->arena, sizes[i]));
            *object = i;
        }
        mem_reset(bench->arena);
    }
    return bench->sizes.cycles * MIXED;
}

/* ---- Many small nodes, then none ------------------------------------------------------------- */

struct node {
    struct node *next;
    uint64_t key, value;
};

static size_t nodes_malloc(struct bench *bench)
{
    struct node *list = NULL;
    for (size_t i = 0; i < bench->sizes.nodes; i++) {
        struct node *node = must(malloc(sizeof *node));
        *node = (struct node){list, i, i};
        list = node;
    }
    while (list) {
        struct node *next = list->next;
        free(list);
        list = next;
    }
    return bench->sizes.nodes;
}

static size_t nodes_arena(struct bench *bench)
{
    struct node *list = NULL;
    for (size_t i = 0; i < bench->sizes.nodes; i++) {
        struct node *node = must(mem_alloc_aligned(bench->arena, sizeof *node, _Alignof(struct node)));
        *node = (struct node){list, i, i};
        list = node;
    }
    mem_reset(bench->arena);
    return bench->sizes.nodes;
}

/* ---- Cells that come and go ------------------------------------------------------------------ */

static void *take(mem_pool *pool)
{
    void *cell = must(pool ? mem_pool_take(pool) : malloc(sizeof(struct node)));
    ((struct node *)cell)->key = 1;
    return cell;
}

static void give(mem_pool *pool, void *cell)
{
    if (pool)
        mem_pool_give(pool, cell);
    else
        free(cell);
}

static inline __attribute__((always_inline)) double churn(const struct bench *bench, void **cells,
                                                          mem_pool *pool)
{
    uint64_t random = 7;
    double start = seconds();
    for (size_t turn = 0; turn < bench->sizes.churn; turn++) {
        void **cell = &cells[next_random(&random) % bench->sizes.live];
        give(pool, *cell);
        *cell = take(pool);
    }
    return seconds() - start;
}
