/* mem_bench: arena and pool against malloc, on the work they are made for, in one run. Both arms of
 * a row do the same work and write the same bytes. They take turns, and a row shows each arm's best
 * turn and its median. Times are CPU time of the one thread. Another malloc is compared by
 * preloading it. */
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

#ifndef MEM_BENCH_FLAGS
#define MEM_BENCH_FLAGS "flags unknown"
#endif
#define TURNS_MAX 9

struct sizes {
    size_t turns;   /* of each arm; odd, so that there is a median */
    size_t cycles;  /* of 300 mixed objects */
    size_t nodes;   /* of 24 bytes */
    uint32_t live;  /* cells of 24 bytes that live… */
    size_t churn;   /* …and how often one of them is exchanged */
    size_t objects; /* of 64 bytes, for what stays resident */
};
static const struct sizes full = {7, 20000, 10000000, 1000000, 20000000, 2000000};
static const struct sizes quick = {3, 1000, 200000, 20000, 400000, 100000};
static struct sizes sizes;

enum arm { MALLOC, OURS };

static mem_depot *depot;
static mem_blocks *blocks;

static void *must(void *p)
{
    if (!p) {
        fputs("mem_bench: Memory was refused.\n", stderr);
        exit(1);
    }
    return p;
}

static double now(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) {
        perror("mem_bench: The thread's CPU clock cannot be read");
        exit(1);
    }
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* xorshift64, scaled to 0 … below - 1; a division would be half of what is measured. */
static inline size_t next_random(uint64_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 32) * below >> 32;
}

/* ---- The work: each returns ns per object ---------------------------------------------------- */

#define MIXED 300

/* What a JSON document asks for: nodes, keys, strings, tables. */
static size_t mixed_sizes(uint32_t *ret_sizes)
{
    static const uint32_t common[] = {24, 24, 24, 32,  32, 40, 56, 64,
                                      72, 16, 8,  128, 96, 12, 48, 256};
    uint64_t random = 42;
    size_t sum = 0;
    for (size_t i = 0; i < MIXED; i++)
        sum += ret_sizes[i] = common[next_random(&random, sizeof common / sizeof *common)];
    return sum;
}

static double mixed(enum arm arm)
{
    uint32_t size[MIXED];
    void *objects[MIXED];
    mixed_sizes(size);
    mem_context *arena = must(mem_arena_create(NULL, "mixed", blocks));
    double start = now();
    for (size_t cycle = 0; cycle < sizes.cycles; cycle++) {
        if (arm == OURS) {
            for (size_t i = 0; i < MIXED; i++)
                *(uint64_t *)must(mem_alloc(arena, size[i])) = i;
            mem_reset(arena);
        } else {
            for (size_t i = 0; i < MIXED; i++)
                *(uint64_t *)(objects[i] = must(malloc(size[i]))) = i;
            for (size_t i = 0; i < MIXED; i++)
                free(objects[i]);
        }
    }
    double spent = now() - start;
    mem_delete(arena);
    return spent * 1e9 / (double)(sizes.cycles * MIXED);
}

struct node {
    struct node *next;
    uint64_t key, value;
};

static double nodes(enum arm arm)
{
    mem_context *arena = must(mem_arena_create(NULL, "nodes", blocks));
    struct node *list = NULL;
    double start = now();
    if (arm == OURS) {
        for (size_t i = 0; i < sizes.nodes; i++) {
            struct node *node = must(mem_alloc_aligned(arena, sizeof *node, _Alignof(struct node)));
            *node = (struct node){list, i, i};
            list = node;
        }
        mem_reset(arena);
    } else {
        for (size_t i = 0; i < sizes.nodes; i++) {
            struct node *node = must(malloc(sizeof *node));
            *node = (struct node){list, i, i};
            list = node;
        }
        while (list) {
            struct node *next = list->next;
            free(list);
            list = next;
        }
    }
    double spent = now() - start;
    mem_delete(arena);
    return spent * 1e9 / (double)sizes.nodes;
}

static size_t pool_held; /* bytes of slabs, with all cells live */

static inline struct node *take(mem_pool *pool)
{
    struct node *node = must(pool ? mem_pool_take(pool) : malloc(sizeof *node));
    node->key = 1;
    return node;
}

static inline void give(mem_pool *pool, struct node *node)
{
    if (pool)
        mem_pool_give(pool, node);
    else
        free(node);
}

static double churn(enum arm arm)
{
    mem_pool *pool = arm == OURS ? must(mem_pool_create(blocks, sizeof(struct node))) : NULL;
    struct node **cells = must(calloc(sizes.live, sizeof(struct node *)));
    for (size_t i = 0; i < sizes.live; i++)
        cells[i] = take(pool);
    if (pool)
        pool_held = mem_pool_get_stats(pool).held;
    uint64_t random = 7;
    double start = now();
    for (size_t turn = 0; turn < sizes.churn; turn++) {
        struct node **cell = &cells[next_random(&random, sizes.live)];
        give(pool, *cell);
        *cell = take(pool);
    }
    double spent = now() - start;
    for (size_t i = 0; i < sizes.live; i++)
        give(pool, cells[i]);
    free(cells);
    mem_pool_delete(pool);
    return spent * 1e9 / (double)sizes.churn;
}

/* ---- What stays resident --------------------------------------------------------------------- */

static double anonymous_mib(void)
{
    char line[256];
    double kib = -1;
    FILE *file = must(fopen("/proc/self/smaps_rollup", "r"));
    while (kib < 0 && fgets(line, sizeof line, file))
        (void)sscanf(line, "Anonymous: %lf kB", &kib);
    fclose(file);
    return kib / 1024;
}

/* Three rounds of objects that are allocated, written and freed in the order they came. */
static double left_behind(enum arm arm)
{
    mem_context *arena = must(mem_arena_create(NULL, "left", blocks));
    void **objects = must(malloc(sizes.objects * sizeof *objects));
    memset(objects, 1, sizes.objects * sizeof *objects);
    double before = anonymous_mib();
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizes.objects; i++) {
            objects[i] = must(arm == OURS ? mem_alloc(arena, 64) : malloc(64));
            memset(objects[i], 1, 64);
        }
        for (size_t i = 0; arm == MALLOC && i < sizes.objects; i++)
            free(objects[i]);
        mem_reset(arena);
    }
    mem_depot_decay(depot); /* two periods of the housekeeper */
    mem_depot_decay(depot);
    return anonymous_mib() - before;
}

/* In a process of its own, so that neither arm finds what the other has left. */
static double in_child(double (*measure)(enum arm arm), enum arm arm)
{
    int ends[2];
    double result = 0;
    int status = 0;
    bool ok = pipe2(ends, O_CLOEXEC) == 0;
    pid_t child = ok ? fork() : -1;
    if (child == 0) {
        result = measure(arm);
        _exit(write(ends[1], &result, sizeof result) != (ssize_t)sizeof result);
    }
    if (child < 0 || read(ends[0], &result, sizeof result) != (ssize_t)sizeof result ||
        waitpid(child, &status, 0) != child || status != 0) {
        fputs("mem_bench: A child process failed.\n", stderr);
        exit(1);
    }
    close(ends[0]);
    close(ends[1]);
    return result;
}

/* ---- The table ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const char *what, double (*work)(enum arm arm))
{
    double turns[2][TURNS_MAX];
    for (size_t turn = 0; turn < sizes.turns; turn++) {
        enum arm first = turn % 2 ? OURS : MALLOC; /* neither is always the one that comes second */
        turns[first][turn] = work(first);
        turns[!first][turn] = work(!first);
    }
    for (enum arm arm = MALLOC; arm <= OURS; arm++)
        qsort(turns[arm], sizes.turns, sizeof(double), by_value);
    size_t middle = sizes.turns / 2;
    printf("%-44s %8.2f %8.2f   %8.2f %8.2f   %6.1f\n", what, turns[MALLOC][0],
           turns[MALLOC][middle], turns[OURS][0], turns[OURS][middle],
           turns[MALLOC][middle] / turns[OURS][middle]);
    fflush(stdout);
}

static void print_setting(void)
{
    const char *preload = getenv("LD_PRELOAD");
    uint32_t size[MIXED];
    printf("malloc     %s%s\n", preload ? "preloaded: " : "glibc ",
           preload ? preload : gnu_get_libc_version());
#ifdef __clang__
    printf("compiler   clang %s, ", __clang_version__);
#else
    printf("compiler   gcc %s, ", __VERSION__);
#endif
#ifdef NDEBUG
    printf(MEM_BENCH_FLAGS ", assertions off%s\n", MEM_ASAN ? ", AddressSanitizer" : "");
#else
    printf(MEM_BENCH_FLAGS ", assertions ON%s\n", MEM_ASAN ? ", AddressSanitizer" : "");
#endif
    printf("sizes      mixed: %zu times %d objects, %zu bytes; nodes: %zu; cells: %u,\n"
           "           %zu turns; resident: 3 times %zu objects\n",
           sizes.cycles, MIXED, mixed_sizes(size), sizes.nodes, sizes.live, sizes.churn,
           sizes.objects);
    printf("method     %zu turns an arm, in alternation; CPU time of one thread\n\n", sizes.turns);
}

int main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--quick") != 0)) {
        fprintf(stderr, "mem_bench: The only argument allowed is --quick.\n");
        return 2;
    }
    sizes = argc == 2 ? quick : full;
    depot = must(mem_depot_create());
    blocks = must(mem_blocks_create(depot, 256 * 1024));

    print_setting();
    double left[] = {in_child(left_behind, MALLOC), in_child(left_behind, OURS)};
    printf("%-44s %17s   %17s   %6s\n", "", "malloc", "arena, pool", "ratio");
    printf("%-44s %8s %8s   %8s %8s   %6s\n", "", "min", "median", "min", "median", "median");
    print_row("300 mixed objects, then none: ns an object", mixed);
    print_row("nodes of 24 bytes, then none: ns a node", nodes);
    print_row("cells of 24 bytes, one exchanged: ns a turn", churn);
    printf("%-44s %17s   %17.3f\n", "  bytes of memory a live cell", "",
           (double)pool_held / (double)sizes.live);
    printf("%-44s %17.1f   %17.1f\n", "objects of 64 bytes, freed: MiB left resident", left[MALLOC],
           left[OURS]);

    mem_blocks_delete(blocks);
    mem_depot_delete(depot);
    return 0;
}
