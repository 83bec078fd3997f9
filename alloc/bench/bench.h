/* What the parts of mem_bench share: sizes, clocks, and the rows that each arm offers. An arm is an
 * allocator; a row is a piece of work, done the same way by each arm that can (work.h). */
#ifndef MEM_BENCH_H
#define MEM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sizes {
    size_t appends; /* objects of 24 bytes, table A */
    size_t cycles;  /* of 300 mixed objects */
    size_t
        small; /* objects of 16 bytes: allocated and freed; a third of them for resident memory */
    size_t objects; /* of 64 bytes, for what stays resident */
    size_t nodes;   /* of 24 bytes; a quarter of them when interleaved */
    size_t live;    /* cells of 24 bytes that live… */
    size_t turns;   /* …and how often one of them is exchanged */
};
extern struct sizes sizes;

#define MIXED 300
#define MIXED_LISTS 8

struct node {
    struct node *next;
    uint64_t key, value;
};

/* Prints `name` and `value` as a member of the result. */
void put(const char *name, double value);

/* Measures how many additions the core does per cycle at this moment, in some 0.1 ms (gauge.c): for
 * before, after and between what is timed. */
void look(void);
/* Puts "own_lowest", "own_mean" and "own_highest" of the looks so far, additions per cycle; nothing
 * where there is no gauge. */
void put_looks(void);

struct row {
    const char *name;
    void (*run)(void);
};
struct arm {
    const char *name;
    const struct row *rows; /* ended by a NULL name */
};
extern const struct arm pmr_monotonic_arm, pmr_pool_arm; /* pmr.cpp */

void *must(void *p);
double now(void);           /* CPU time of this thread, seconds */
double anonymous_mib(void); /* of this process */
/* One of MIXED_LISTS lists: `small` as a JSON document asks for (nodes, keys, strings, tables), else
 * 8 to 300 bytes evenly. Returns the sum. */
size_t mixed_sizes(uint32_t ret_sizes[MIXED], unsigned list, bool small);
extern volatile uint64_t sink;

/* xorshift64, scaled to 0 … below - 1; a division would be half of what is measured. */
static inline size_t next_random(uint64_t *state, size_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (size_t)((*state >> 32) * (uint64_t)below >> 32);
}

#ifdef __cplusplus
}
#endif

#endif
