/* Time: monotonic nanoseconds and milliseconds. */
#ifndef SLATE_CLOCK_H
#define SLATE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock and a valid pointer */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t clock_ms(void)
{
    return clock_ns() / 1000000;
}

#endif
