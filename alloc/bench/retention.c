/* retention: what a magazine's limit costs and what it keeps, a fixed one beside the adaptive rule, on
 * traffic of one worker. A period is a second of a server: after it the depot decays. Prints CPU time
 * and page faults a request, and the idle bytes at rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "../blocks.h"
#include "../mem.h"

#define KIB 1024u
#define PERIODS 12
#define TURNS 5
#define BURST_MAX 64

/* A request: a body of its own block, a tree of small nodes, an answer as large as the body. */
typedef struct load {
    size_t body, nodes;
} load;

static const load small = {2 * KIB, 300}, medium = {100 * KIB, 12000}, huge = {1024 * KIB, 200000};

static mem_depot *depot;
static mem_blocks *blocks;
static size_t requests;

static void *must(void *p)
{
    if (!p) {
        fputs("retention: Memory was refused.\n", stderr);
        exit(1);
    }
    return p;
}

static void work(mem_context *ctx, load of)
{
    memset(must(mem_alloc(ctx, of.body)), 1, of.body);
    for (size_t i = 0; i < of.nodes; i++)
        *(uint64_t *)must(mem_alloc(ctx, 48)) = i;
    memset(must(mem_alloc(ctx, of.body)), 1, of.body);
    requests++;
}

/* `count` requests in flight at once. */
static void serve(load of, size_t count)
{
    mem_context ctx[BURST_MAX];
    for (size_t i = 0; i < count; i++) {
        mem_arena_init(&ctx[i], NULL, "request", blocks, NULL, 0);
        work(&ctx[i], of);
    }
    for (size_t i = 0; i < count; i++)
        mem_delete(&ctx[i]);
}

static void many(load of, size_t count)
{
    for (size_t i = 0; i < count; i++)
        serve(of, 1);
}

static void steady_small(int period)
{
    (void)period;
    many(small, 2000);
}

static void steady_medium(int period)
{
    (void)period;
    many(medium, 60);
}

static void steady_huge(int period)
{
    (void)period;
    many(huge, 6);
}

static void mixed(int period)
{
    (void)period;
    for (int i = 0; i < 30; i++) {
        many(small, 19);
        many(medium, 1);
    }
}

static void spiky(int period)
{
    many(small, 1000);
    if (period % 4 == 1)
        serve(medium, BURST_MAX);
    many(small, 1000);
}

static void one_huge(int period)
{
    many(small, 1000);
    if (period == 3)
        serve(huge, 1);
    many(small, 1000);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

typedef struct result {
    double us, faults, idle, at_rest;
} result;

static result run(void (*traffic)(int period), size_t retain)
{
    depot = must(mem_depot_create());
    blocks = must(mem_blocks_create(depot, retain));
    requests = 0;
    double start = now(), idle = 0;
    long faults_before = faults();
    for (int period = 0; period < PERIODS; period++) {
        traffic(period);
        idle += (double)(mem_blocks_get_stats(blocks).idle + mem_depot_get_stats(depot).idle);
        mem_depot_decay(depot);
    }
    result r = {.us = (now() - start) / (double)requests,
                .faults = (double)(faults() - faults_before) / (double)requests,
                .idle = idle / PERIODS / KIB};
    mem_depot_decay(depot); /* two quiet periods; then a housekeeper would clear the magazine */
    mem_depot_decay(depot);
    r.at_rest = (double)(mem_blocks_get_stats(blocks).idle + mem_depot_get_stats(depot).idle) / KIB;
    mem_blocks_delete(blocks);
    mem_depot_delete(depot);
    return r;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*traffic)(int period);
    } rows[] = {{"steady, 2 KiB bodies", steady_small}, {"steady, 100 KiB bodies", steady_medium},
                {"steady, 1 MiB bodies", steady_huge},  {"1 in 20 of 100 KiB", mixed},
                {"spikes of 64 at once", spiky},        {"one of 1 MiB", one_huge}};
    static const struct {
        const char *name;
        size_t retain;
    } arms[] = {
        {"0", 0}, {"256K", 256 * KIB}, {"1M", 1024 * KIB}, {"adaptive", MEM_RETAIN_ADAPTIVE}};
    printf("%-24s %-9s %11s %11s %14s %13s\n", "traffic of one worker", "retain", "us/request",
           "faults/req", "idle KiB, mean", "KiB at rest");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        result best[sizeof arms / sizeof *arms] = {{0}};
        for (int turn = 0; turn < TURNS; turn++) {
            for (size_t a = 0; a < sizeof arms / sizeof *arms; a++) {
                result r = run(rows[i].traffic, arms[a].retain);
                if (turn == 0 || r.us < best[a].us)
                    best[a] = r;
            }
        }
        for (size_t a = 0; a < sizeof arms / sizeof *arms; a++)
            printf("%-24s %-9s %11.2f %11.3f %14.0f %13.0f\n", a ? "" : rows[i].name, arms[a].name,
                   best[a].us, best[a].faults, best[a].idle, best[a].at_rest);
    }
    return 0;
}
