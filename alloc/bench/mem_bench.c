/* mem_bench ROW ARM: does one piece of work once with one allocator and prints what it measured, as a
 * line of JSON. `run` calls it again and again, in turn for each arm, each time in a process of its
 * own, so that no arm finds what another has left; another malloc is measured by preloading it.
 * `mem_bench --list` prints rows and arms, `mem_bench --setting` how it was built. */
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <obstack.h>
#if WITH_APR
#include <apr_general.h>
#include <apr_pools.h>
#endif
#if WITH_TALLOC
#include <talloc.h>
#endif

#include "../array.h"
#include "../blocks.h"
#include "../debug.h"
#include "../mem.h"
#include "../pool.h"
#include "bench.h"

static const struct sizes full = {200000, 5000, 3000000, 2000000, 10000000, 1000000, 20000000};
static const struct sizes quick = {20000, 100, 90000, 50000, 200000, 20000, 200000};
struct sizes sizes;
volatile uint64_t sink;

static mem_depot *depot;
static mem_blocks *blocks;

void *must(void *p)
{
    if (!p) {
        fputs("mem_bench: Memory was refused.\n", stderr);
        exit(1);
    }
    return p;
}

double now(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) {
        perror("mem_bench: The thread's CPU clock cannot be read");
        exit(1);
    }
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double anonymous_mib(void)
{
    char line[256];
    double kib = -1;
    FILE *file = must(fopen("/proc/self/smaps_rollup", "r"));
    while (kib < 0 && fgets(line, sizeof line, file))
        (void)sscanf(line, "Anonymous: %lf kB", &kib);
    fclose(file);
    return kib / 1024;
}

size_t mixed_sizes(uint32_t ret_sizes[MIXED], unsigned list, bool small)
{
    static const uint32_t common[] = {24, 24, 24, 32,  32, 40, 56, 64,
                                      72, 16, 8,  128, 96, 12, 48, 256};
    uint64_t random = 42 + list;
    size_t sum = 0;
    for (size_t i = 0; i < MIXED; i++)
        sum += ret_sizes[i] = small ? common[next_random(&random, sizeof common / sizeof *common)]
                                    : 8 + (uint32_t)next_random(&random, 293);
    return sum;
}

static const char *before_member = "{";

void put(const char *name, double value)
{
    printf("%s\"%s\": %.6g", before_member, name, value);
    before_member = ", ";
}

static void put_counts(size_t allocs, size_t resized, size_t moved, size_t frees)
{
    put("allocs", (double)allocs);
    put("resized", (double)resized);
    put("moved", (double)moved);
    put("frees", (double)frees);
}

/* ---- Table A: the array, over a heap (malloc) and over an arena ------------------------------ */

/* `reserve`: 0: none; 1: of the array; 2: one allocation, no array. */
static void fill(mem_context *ctx, int reserve)
{
    mem_array array;
    mem_array_init(&array, ctx, sizeof(struct node));
    if (reserve == 2) {
        struct node *nodes = must(mem_alloc(ctx, sizes.appends * sizeof *nodes));
        for (size_t i = 0; i < sizes.appends; i++)
            nodes[i].key = i;
        mem_free(ctx, nodes, sizes.appends * sizeof *nodes);
        return;
    }
    if (reserve && !mem_array_reserve(&array, sizes.appends))
        must(NULL);
    for (size_t i = 0; i < sizes.appends; i++)
        ((struct node *)must(mem_array_add(&array)))->key = i;
    mem_array_free(&array);
}

static void grow(mem_context *ctx, int reserve)
{
    double best = 0;
    for (int round = 0; round < 10; round++) {
        look();
        double start = now();
        fill(ctx, reserve);
        mem_reset(ctx);
        double spent = now() - start;
        if (round == 1 || (round > 1 && spent < best))
            best = spent;
    }
    put("ms", best * 1e3);
    mem_debug *debug = must(mem_debug_create("count"));
    mem_debug_attach(debug, ctx);
    fill(ctx, reserve);
    mem_counts counts = mem_debug_get_counts(debug);
    put_counts(counts.allocs, counts.resized, counts.moved, counts.frees);
    mem_delete(ctx);
    mem_debug_delete(debug);
}

static mem_context *new_heap(void)
{
    return must(mem_heap_create(NULL, "heap"));
}

static mem_context *new_arena(void)
{
    return must(mem_arena_create(NULL, "arena", blocks));
}

#define ARRAY_ROWS(arm, make)       \
    static void arm##_append(void)  \
    {                               \
        grow(make(), 0);            \
    }                               \
    static void arm##_reserve(void) \
    {                               \
        grow(make(), 1);            \
    }                               \
    static void arm##_at_once(void) \
    {                               \
        grow(make(), 2);            \
    }
ARRAY_ROWS(malloc, new_heap)
ARRAY_ROWS(arena, new_arena)

/* What one object at a time asks of the allocator beneath. */
static void malloc_asked(void)
{
    mem_debug *debug = must(mem_debug_create("count"));
    mem_context *heap = new_heap();
    mem_debug_attach(debug, heap);
    void **objects = must(malloc(sizes.appends * sizeof *objects));
    for (size_t i = 0; i < sizes.appends; i++)
        objects[i] = must(mem_alloc(heap, sizeof(struct node)));
    for (size_t i = 0; i < sizes.appends; i++)
        mem_free(heap, objects[i], sizeof(struct node));
    mem_counts counts = mem_debug_get_counts(debug);
    put_counts(counts.allocs, counts.resized, counts.moved, counts.frees);
    free(objects);
    mem_delete(heap);
    mem_debug_delete(debug);
}

static void put_blocks(size_t count)
{
    put_counts(count, 0, 0, count);
    put("maps", (double)mem_blocks_get_stats(blocks).maps);
}

static void arena_asked(void)
{
    mem_context *arena = new_arena();
    for (size_t i = 0; i < sizes.appends; i++)
        must(mem_alloc_aligned(arena, sizeof(struct node), 8));
    put_blocks(mem_get_stats(arena).blocks);
    mem_delete(arena);
}

static void pool_asked(void)
{
    mem_pool *cells = must(mem_pool_create(blocks, sizeof(struct node)));
    void **objects = must(malloc(sizes.appends * sizeof *objects));
    for (size_t i = 0; i < sizes.appends; i++)
        objects[i] = must(mem_pool_take(cells));
    put_blocks(mem_pool_get_stats(cells).slabs);
    for (size_t i = 0; i < sizes.appends; i++)
        mem_pool_give(cells, objects[i]);
    free(objects);
    mem_pool_delete(cells);
}

/* ---- Table B: enough, and yet not enough ----------------------------------------------------- */

#define KEPT_OF 64 /* one object of so many outlives the others */
#define PIECE 8192

/* Objects of 64 bytes, of which every 64th lives on; then pieces of 8 KiB, half as many bytes as
 * were freed. An arena's survivors live in a context of their own, where they belong. */
static void fragment(bool with_arena)
{
    mem_context *dying = new_arena(), *living = new_arena();
    size_t count = sizes.objects;
    void **objects = must(malloc(count * sizeof *objects));
    memset(objects, 1, count * sizeof *objects); /* resident before it counts */
    double before = anonymous_mib();
    for (size_t i = 0; i < count; i++) {
        bool lives = i % KEPT_OF == 0;
        objects[i] = must(with_arena ? mem_alloc(lives ? living : dying, 64) : malloc(64));
        memset(objects[i], 1, 64);
    }
    double freed = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % KEPT_OF == 0)
            continue;
        freed += 64;
        if (!with_arena)
            free(objects[i]);
    }
    if (with_arena) {
        mem_reset(dying);
        mem_depot_decay(depot);
        mem_depot_decay(depot);
    }
    double after = anonymous_mib();
    put("freed_mib", freed / 1048576);
    put("held_mib", after - before);
    size_t pieces = (size_t)(freed / 2 / PIECE);
    for (size_t i = 0; i < pieces; i++)
        memset(must(with_arena ? mem_alloc(dying, PIECE) : malloc(PIECE)), 1, PIECE);
    put("grown_mib", anonymous_mib() - after);
    put("asked_mib", (double)pieces * PIECE / 1048576);
    free(objects);
    mem_delete(dying);
    mem_delete(living);
}

static void malloc_fragment(void)
{
    fragment(false);
}

static void arena_fragment(void)
{
    fragment(true);
}

/* ---- The arms -------------------------------------------------------------------------------- */

#define nothing(p) ((void)(p))

#define ARM malloc
#define ARM_RESETS 0
#define ARM_FREES 1
#define arm_begin(size) nothing(size)
#define arm_end() ((void)0)
#define arm_alloc(size) malloc(size)
#define arm_node(size) malloc(size)
#define arm_reset() ((void)0)
#define arm_free(p, size) ((void)(size), free(p))
#define arm_rest() ((void)0)
#define MORE_ROWS                                                                        \
    {"append", malloc_append}, {"reserve", malloc_reserve}, {"at_once", malloc_at_once}, \
        {"asked", malloc_asked}, {"fragment", malloc_fragment},
#include "work.h"

/* What a housekeeper does in four idle periods. */
static void keep_house(void)
{
    for (int period = 0; period < 4; period++) {
        if (mem_blocks_is_neglected(blocks))
            mem_blocks_clear(blocks);
        mem_depot_decay(depot);
    }
}

static mem_context *arena;

#define ARM arena
#define ARM_RESETS 1
#define ARM_FREES 0
#define arm_begin(size) (nothing(size), arena = new_arena())
#define arm_end() mem_delete(arena)
#define arm_alloc(size) mem_alloc(arena, size)
#define arm_node(size) mem_alloc_aligned(arena, size, 8)
#define arm_reset() mem_reset(arena)
#define arm_free(p, size) ((void)(p), (void)(size))
#define arm_rest() keep_house()
#define MORE_ROWS                                                                     \
    {"append", arena_append}, {"reserve", arena_reserve}, {"at_once", arena_at_once}, \
        {"asked", arena_asked}, {"fragment", arena_fragment},
#include "work.h"

static mem_pool *pool;

#define ARM pool
#define NODES_ONLY
#define ARM_RESETS 0
#define ARM_FREES 1
#define arm_begin(size) (pool = must(mem_pool_create(blocks, size)))
#define arm_end() mem_pool_delete(pool)
#define arm_alloc(size) (nothing(size), mem_pool_take(pool))
#define arm_node(size) (nothing(size), mem_pool_take(pool))
#define arm_reset() ((void)0)
#define arm_free(p, size) ((void)(size), mem_pool_give(pool, p))
#define arm_rest() keep_house()
#define MORE_ROWS {"asked", pool_asked},
#include "work.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
static struct obstack stack;
static void *stack_start;

#define ARM obstack
#define ARM_RESETS 1
#define ARM_FREES 0
#define arm_begin(size) \
    (nothing(size), obstack_init(&stack), stack_start = obstack_alloc(&stack, 1))
#define arm_end() obstack_free(&stack, NULL)
#define arm_alloc(size) obstack_alloc(&stack, size)
#define arm_node(size) obstack_alloc(&stack, size)
#define arm_reset() (obstack_free(&stack, stack_start), stack_start = obstack_alloc(&stack, 1))
#define arm_free(p, size) ((void)(p), (void)(size))
#define arm_rest() ((void)0)
#include "work.h"

#if WITH_APR
static apr_pool_t *apr;

static void begin_apr(void)
{
    if (apr_initialize() != APR_SUCCESS || apr_pool_create(&apr, NULL) != APR_SUCCESS)
        must(NULL);
}

#define ARM apr
#define ARM_RESETS 1
#define ARM_FREES 0
#define arm_begin(size) (nothing(size), begin_apr())
#define arm_end() apr_pool_destroy(apr)
#define arm_alloc(size) apr_palloc(apr, size)
#define arm_node(size) apr_palloc(apr, size)
#define arm_reset() apr_pool_clear(apr)
#define arm_free(p, size) ((void)(p), (void)(size))
#define arm_rest() ((void)0)
#include "work.h"
#endif

#if WITH_TALLOC
static void *parent;

#define ARM talloc
#define ARM_RESETS 1
#define ARM_FREES 1
#define arm_begin(size) (nothing(size), parent = must(talloc_new(NULL)))
#define arm_end() talloc_free(parent)
#define arm_alloc(size) talloc_size(parent, size)
#define arm_node(size) talloc_size(parent, size)
#define arm_reset() talloc_free_children(parent)
#define arm_free(p, size) ((void)(size), talloc_free(p))
#define arm_rest() ((void)0)
#include "work.h"
#endif

static const struct arm *const arms[] = {
    &(const struct arm){"malloc", malloc_rows},
    &(const struct arm){"arena", arena_rows},
    &(const struct arm){"pool", pool_rows},
    &(const struct arm){"obstack", obstack_rows},
#if WITH_APR
    &(const struct arm){"APR", apr_rows},
#endif
#if WITH_TALLOC
    &(const struct arm){"talloc", talloc_rows},
#endif
#if WITH_PMR
    &pmr_monotonic_arm,
    &pmr_pool_arm,
#endif
};
#define ARMS (sizeof arms / sizeof *arms)

static int list(void)
{
    for (size_t a = 0; a < ARMS; a++) {
        for (const struct row *row = arms[a]->rows; row->name; row++)
            printf("%s\t%s\n", row->name, arms[a]->name);
    }
    return 0;
}

static int print_setting(void)
{
#ifdef __clang__
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    uint32_t size[MIXED];
    printf(
        "{\"libc\": \"glibc %s\", \"compiler\": \"%s\", \"flags\": \"%s%s\", \"mixed_bytes\": %zu, "
        "\"mostly_small_bytes\": %zu, \"appends\": %zu, \"cycles\": %zu, \"small\": %zu, "
        "\"objects\": %zu, \"nodes\": %zu, \"live\": %zu, \"turns\": %zu}\n",
        gnu_get_libc_version(), compiler, MEM_BENCH_FLAGS,
#ifdef NDEBUG
        ", assertions off",
#else
        ", assertions on",
#endif
        mixed_sizes(size, 0, false), mixed_sizes(size, 0, true), sizes.appends, sizes.cycles,
        sizes.small, sizes.objects, sizes.nodes, sizes.live, sizes.turns);
    return 0;
}

static int run(const char *row_name, const char *arm_name)
{
    for (size_t a = 0; a < ARMS; a++) {
        if (strcmp(arms[a]->name, arm_name) != 0)
            continue;
        for (const struct row *row = arms[a]->rows; row->name; row++) {
            if (strcmp(row->name, row_name) != 0)
                continue;
            depot = must(mem_depot_create());
            blocks = must(mem_blocks_create(depot, MEM_RETAIN_ADAPTIVE));
            look();
            row->run();
            look();
            put_looks();
            puts("}");
            mem_blocks_delete(blocks);
            mem_depot_delete(depot);
            return 0;
        }
    }
    fprintf(stderr, "mem_bench: There is no row %s of arm %s; --list shows what there is.\n",
            row_name, arm_name);
    return 2;
}

int main(int argc, char **argv)
{
    sizes = full;
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        sizes = quick;
        argc--;
        argv++;
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc == 2 && strcmp(argv[1], "--setting") == 0)
        return print_setting();
    if (argc == 3)
        return run(argv[1], argv[2]);
    fputs("Usage: mem_bench [--quick] ROW ARM, or --list, or --setting.\n", stderr);
    return 2;
}
