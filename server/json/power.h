/* Powers of ten in 128 bits, which both directions between decimals and doubles multiply by. Worked
 * out once at start-up, in exact arithmetic, rather than kept as 600 lines of constants; read-only
 * from then on. */
#ifndef SLATE_JSON_POWER_H
#define SLATE_JSON_POWER_H

#include <stdbool.h>
#include <stdint.h>

#define POWER_MIN (-342)
#define POWER_MAX 324

/* 10^n scaled by a power of two to 128 bits with the highest set, rounded up. */
typedef struct power {
    uint64_t high, low;
} power;

extern power json_powers[POWER_MAX - POWER_MIN + 1];

static inline power power_of_ten(int n)
{
    return json_powers[n - POWER_MIN];
}

/* Whether nothing was rounded: 5^55 is the largest power of five below 2^128. */
static inline bool power_is_exact(int n)
{
    return n >= 0 && n <= 55;
}

/* floor(log2(10^n)), exact for -400 to 400: 10^n is the power times 2^(this - 127). */
static inline int log2_of_10(int n)
{
    return n * 1741647 >> 19;
}

#endif
