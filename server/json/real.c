/* Reals as the shortest decimal that reads back as the same double, and of those the nearest.
 * After: Giulietti, "The Schubfach way to render doubles" (2020). It needs neither printf nor the
 * locale: three multiplications by a power of ten decide. */
#include <assert.h>
#include <string.h>

#include "digits.h"
#include "json.h"
#include "power.h"

/* A double is c * 2^q with 0 < c < 2^53. */
#define FRACTION_BITS 52
#define HIDDEN_BIT (UINT64_C(1) << FRACTION_BITS)
#define EXPONENT_MASK 0x7FF
#define EXPONENT_BIAS (1023 + FRACTION_BITS)

static_assert(sizeof(double) == 8 && __DBL_MANT_DIG__ == FRACTION_BITS + 1 &&
                  __DBL_MAX_EXP__ == 1024,
              "double is IEEE 754's binary64");

/* floor(log10(2^n)) and floor(log10(3/4 * 2^n)), exact where they are used. */
static int log10_of_2(int n)
{
    return n * 1262611 >> 22;
}

static int log10_of_three_quarters_2(int n)
{
    return (n * 1262611 - 524031) >> 22;
}

/* ---- Shortest decimal ------------------------------------------------------------------------ */

typedef struct decimal {
    uint64_t digits; /* not a multiple of ten */
    int exponent;    /* the value is digits * 10^exponent */
} decimal;

/* The upper 64 bits of the 192-bit product, with the last bit set if anything was cut off ("rounded
 * to odd"), so that comparisons with it come out as with the exact value. A single unit in the lower
 * half is the error of the power that was rounded up. */
static uint64_t multiply_to_odd(power p, uint64_t n)
{
    unsigned __int128 low = (unsigned __int128)p.low * n;
    unsigned __int128 high = (unsigned __int128)p.high * n + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

static decimal without_zeros(uint64_t digits, int exponent)
{
    for (; digits % 100000000 == 0; exponent += 8)
        digits /= 100000000;
    for (; digits % 100 == 0; exponent += 2)
        digits /= 100;
    if (digits % 10 == 0) {
        digits /= 10;
        exponent++;
    }
    return (decimal){digits, exponent};
}

/* c * 2^q, c > 0. */
static decimal shortest(uint64_t c, int q, bool lower_is_closer)
{
    /* All in quarters of 2^q: every decimal between `lower` and `upper` reads back as the value; the
     * bounds themselves do if c is even. Below a power of two the spacing is half as wide. */
    uint64_t odd = c & 1;
    int k = lower_is_closer ? log10_of_three_quarters_2(q) : log10_of_2(q);
    int shift = q + log2_of_10(-k) + 1;
    power p = power_of_ten(-k);
    uint64_t lower = multiply_to_odd(p, (4 * c - 2 + lower_is_closer) << shift) + odd;
    uint64_t value = multiply_to_odd(p, 4 * c << shift);
    uint64_t upper = multiply_to_odd(p, (4 * c + 2) << shift) - odd;

    /* In units of 10^k, of which at least one lies between the bounds: first with a digit less. */
    uint64_t unit = value / 4;
    if (unit >= 10) {
        uint64_t ten = unit / 10;
        bool below = lower <= 40 * ten, above = 40 * ten + 40 <= upper;
        if (below != above)
            return without_zeros(ten + above, k + 1);
    }
    bool below = lower <= 4 * unit, above = 4 * unit + 4 <= upper;
    if (below == above) /* both: take the nearer, of two equally near the even one */
        above = value > 4 * unit + 2 || (value == 4 * unit + 2 && unit & 1);
    return without_zeros(unit + above, k);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

static char *put(char *at, const char *text, int size)
{
    memcpy(at, text, (size_t)size);
    return at + size;
}

static char *put_zeros(char *at, int count)
{
    memset(at, '0', (size_t)count);
    return at + count;
}

static char *put_decimal(char *at, decimal d)
{
    char digits[DIGITS_MAX];
    int count = (int)(digits_print(digits, d.digits) - digits);
    int before = count + d.exponent; /* places of the first digit before the point */

    if (before > 21 || before <= -6) {
        int exponent = before - 1;
        *at++ = digits[0];
        if (count > 1) {
            *at++ = '.';
            at = put(at, digits + 1, count - 1);
        }
        *at++ = 'e';
        *at++ = exponent < 0 ? '-' : '+';
        return digits_print(at, (uint64_t)(exponent < 0 ? -exponent : exponent));
    }
    if (before <= 0) {
        at = put_zeros(put(at, "0.", 2), -before);
        return put(at, digits, count);
    }
    if (before < count) {
        at = put(at, digits, before);
        *at++ = '.';
        return put(at, digits + before, count - before);
    }
    at = put_zeros(put(at, digits, count), before - count);
    return put(at, ".0", 2);
}

size_t json_real_print(double value, char out[JSON_REAL_MAX])
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & (HIDDEN_BIT - 1);
    int exponent = (int)(bits >> FRACTION_BITS & EXPONENT_MASK);
    assert(exponent != EXPONENT_MASK); /* finite */

    char *at = out;
    if (bits >> 63)
        *at++ = '-';
    if (exponent > 0) {
        at = put_decimal(at, shortest(fraction | HIDDEN_BIT, exponent - EXPONENT_BIAS,
                                      fraction == 0 && exponent > 1));
    } else if (fraction > 0) {
        at = put_decimal(at, shortest(fraction, 1 - EXPONENT_BIAS, false));
    } else {
        at = put(at, "0.0", 3);
    }
    return (size_t)(at - out);
}
