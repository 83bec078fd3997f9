/* Makes the table of powers of ten before main runs. */
#include "power.h"

#include <assert.h>

power json_powers[POWER_MAX - POWER_MIN + 1];

/* An integer of 1,536 bits, lowest limb first: holds 10^324, and 2^1535 / 10^342 to 128 bits and
 * more. */
#define LIMBS 48
typedef struct wide {
    uint32_t limb[LIMBS];
} wide;

static void wide_multiply(wide *n, uint32_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)n->limb[i] * by;
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    assert(carry == 0);
}

static void wide_divide(wide *n, uint32_t by)
{
    uint64_t rest = 0;
    for (int i = LIMBS - 1; i >= 0; i--) {
        rest = rest << 32 | n->limb[i];
        n->limb[i] = (uint32_t)(rest / by);
        rest %= by;
    }
}

/* The 64 bits below bit `top` (exclusive; counted from the lowest); zeros below the lowest. */
static uint64_t wide_bits(const wide *n, int top)
{
    uint64_t bits = 0;
    for (int i = top - 1; i >= top - 64; i--)
        bits = bits << 1 | (i >= 0 ? n->limb[i / 32] >> i % 32 & 1 : 0);
    return bits;
}

/* `n`, whose value is exact unless `rounded`, as a power. */
static power wide_power(const wide *n, bool rounded)
{
    int top = 32 * LIMBS;
    while (!(n->limb[(top - 1) / 32] >> (top - 1) % 32 & 1))
        top--;
    power p = {wide_bits(n, top), wide_bits(n, top - 64)};
    for (int left = top - 128, i = 0; left > 0 && !rounded; left -= 32, i++)
        rounded = left >= 32 ? n->limb[i] != 0 : n->limb[i] << (32 - left) != 0;
    if (rounded && ++p.low == 0)
        p.high++;
    return p;
}

__attribute__((constructor)) static void make_powers(void)
{
    wide n = {.limb = {1}};
    for (int e = 0; e <= POWER_MAX; e++) {
        if (e > 0)
            wide_multiply(&n, 10);
        json_powers[e - POWER_MIN] = wide_power(&n, false);
    }
    /* Dividing again and again rounds down as dividing once by 10^e would. */
    n = (wide){.limb = {[LIMBS - 1] = UINT32_C(1) << 31}};
    for (int e = -1; e >= POWER_MIN; e--) {
        wide_divide(&n, 10);
        json_powers[e - POWER_MIN] = wide_power(&n, true);
    }
}
