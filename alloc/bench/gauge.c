/* Tells whether the core was ours. A core that runs two threads shares its units between them: while
 * another program has its other thread, a loop that is limited by how many instructions the core
 * takes per cycle runs slower by half and more, one that waits for memory or its own results hardly
 * at all. On a virtual machine the other may be a stranger, of whom no clock or counter tells, and
 * the ratio of two allocators then depends on the hour. So we look: an addition that needs the result
 * of the one before takes a cycle, whoever shares the core, and so measures the cycle; of additions
 * that need nothing of one another the core does as many at once as it has units free. The quotient
 * of the two is additions per cycle: some 4, say, where the core is ours, 2 where its other thread is
 * as busy. turns.py judges by it. */
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

/* An addition of two registers: one of a constant may cost a processor no cycle at all. */
#if defined __x86_64__
#define ADD(sum) "add %[one], %[" #sum "]\n"
#elif defined __aarch64__
#define ADD(sum) "add %[" #sum "], %[" #sum "], %[one]\n"
#endif

#ifdef ADD
#define FOUR(what) what what what what
#define EIGHT ADD(a) ADD(b) ADD(c) ADD(d) ADD(e) ADD(f) ADD(g) ADD(h)
#define CHAIN_ADDS (256 * 16)
#define WIDE_ADDS (256 * 64)
#define PIECES 16 /* of either kind, in turn: some 0.1 ms in all */

static double lowest = DBL_MAX, highest, sum;
static int looks;

static double clock_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) {
        perror("mem_bench: The clock cannot be read");
        exit(1);
    }
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns an addition that waits for the one before */
static double chain(void)
{
    uint64_t a = 0, one = 1;
    double start = clock_ns();
    for (int i = 0; i < CHAIN_ADDS / 16; i++)
        __asm__ volatile(FOUR(FOUR(ADD(a))) : [a] "+r"(a) : [one] "r"(one) : "cc");
    return (clock_ns() - start) / CHAIN_ADDS;
}

/* ns an addition that waits for none of the seven before */
static double wide(void)
{
    uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, one = 1;
    double start = clock_ns();
    for (int i = 0; i < WIDE_ADDS / 64; i++)
        __asm__ volatile(FOUR(EIGHT EIGHT)
                         : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [e] "+r"(e),
                           [f] "+r"(f), [g] "+r"(g), [h] "+r"(h)
                         : [one] "r"(one)
                         : "cc");
    return (clock_ns() - start) / WIDE_ADDS;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* An interruption lengthens a piece or two, so of the chains the shortest counts; of the wide ones
 * the upper quartile, which a neighbour who comes and goes reaches too. */
void look(void)
{
    double cycle = DBL_MAX, times[PIECES];
    for (int i = 0; i < PIECES; i++) {
        double time = chain();
        cycle = time < cycle ? time : cycle;
        times[i] = wide();
    }
    qsort(times, PIECES, sizeof *times, ascending);
    double adds = cycle / times[PIECES * 3 / 4 - 1];
    lowest = adds < lowest ? adds : lowest;
    highest = adds > highest ? adds : highest;
    sum += adds;
    looks++;
}

void put_looks(void)
{
    put("own_lowest", lowest);
    put("own_mean", sum / looks);
    put("own_highest", highest);
}
#else
void look(void)
{
}

void put_looks(void)
{
}
#endif
