/* handover.c: how long one CPU takes to hand a cache line to another, in ns: the state that decides
 * how fast a server and its client on two CPUs can be, and that no counter of a virtual machine
 * shows. Two threads pass a turn back and forth; the median of some batches is printed.
 *
 *     handover CPU CPU */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 15
#define TURNS 400 /* per batch: about 0.1 ms, so that one preemption spoils one batch only */

static _Alignas(64) atomic_uint turn;

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *reply(void *cpu)
{
    pin(*(int *)cpu);
    for (unsigned i = 0; i < BATCHES * TURNS; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&turn, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s CPU CPU\n", argv[0]);
        return 2;
    }
    int here = atoi(argv[1]), there = atoi(argv[2]);
    pthread_t other;
    pin(here);
    if (here == there || pthread_create(&other, NULL, reply, &there) != 0)
        return 1;
    double ns[BATCHES];
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (unsigned i = batch * TURNS; i < (batch + 1) * TURNS; i++) {
            atomic_store_explicit(&turn, 2 * i + 1, memory_order_release);
            while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i + 2)
                ;
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        ns[batch] =
            ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (2.0 * TURNS);
    }
    pthread_join(other, NULL);
    qsort(ns, BATCHES, sizeof ns[0], ascending);
    printf("%.1f\n", ns[BATCHES / 2]);
    return 0;
}
