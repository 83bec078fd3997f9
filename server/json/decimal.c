/* Decimal text to the nearest double. The quick way multiplies the digits by a power of ten of 128
 * bits, as Clinger, "How to read floating point numbers accurately" (1990), and Lemire, "Number
 * parsing at a gigabyte per second" (2021) do, and knows when that cannot decide. The slow way,
 * for more than 19 digits and next to the ends of the range, is the C library's. */
#include "decimal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "power.h"

#define FRACTION_BITS 52
#define EXPONENT_BIAS (1023 + FRACTION_BITS) /* of a fraction seen as an integer */
#define EXPONENT_MAX 0x7FF

static_assert(sizeof(double) == 8 && __DBL_MANT_DIG__ == FRACTION_BITS + 1 &&
                  __DBL_MAX_EXP__ == 1024,
              "double is IEEE 754's binary64");

bool decimal_round(uint64_t digits, int64_t exponent, double *ret_value)
{
    if (digits == 0) {
        *ret_value = 0;
        return true;
    }
    if (exponent < POWER_MIN || exponent > POWER_MAX)
        return false;

    /* The product of two numbers with the highest bit set, 64 and 128 bits: 192 bits, in three
     * words. Where the power is not exact it is taken rounded down, so that the true product is
     * larger, but by less than one in the middle word. */
    int n = (int)exponent, zeros = __builtin_clzll(digits);
    power p = power_of_ten(n);
    bool exact = power_is_exact(n);
    if (!exact && p.low-- == 0)
        p.high--;
    digits <<= zeros;
    unsigned __int128 lower = (unsigned __int128)p.low * digits;
    unsigned __int128 upper = (unsigned __int128)p.high * digits + (uint64_t)(lower >> 64);
    uint64_t high = (uint64_t)(upper >> 64), middle = (uint64_t)upper, low = (uint64_t)lower;
    if (!exact && middle == UINT64_MAX)
        return false; /* the one case in which the high word may be too small */

    /* The highest bit of the product is the first or the second of the high word: of that word the
     * upper 53 bits are kept, and the others together with the two words below decide. */
    int shift = 64 - (FRACTION_BITS + 1) - (high >> 63 == 0);
    uint64_t fraction = high >> shift, half = UINT64_C(1) << (shift - 1);
    uint64_t rest = high & (2 * half - 1);
    bool more = middle > 0 || low > 0 || !exact;
    fraction += rest > half || (rest == half && (more || fraction & 1));
    int biased = EXPONENT_BIAS + shift + 1 + log2_of_10(n) - zeros;
    if (fraction >> (FRACTION_BITS + 1)) {
        fraction >>= 1;
        biased++;
    }
    if (biased <= 0 || biased >= EXPONENT_MAX)
        return false; /* subnormal, which keeps fewer bits; or too large */
    uint64_t bits =
        (uint64_t)biased << FRACTION_BITS | (fraction & ((UINT64_C(1) << FRACTION_BITS) - 1));
    memcpy(ret_value, &bits, sizeof bits);
    return true;
}

/* ---- Any number ------------------------------------------------------------------------------ */

/* No double, and no point halfway between two, has more significant digits than 767. So of a longer
 * number it matters only whether there is anything behind. */
#define DIGITS_KEPT 770
#define EXPONENT_LIMIT INT64_C(1000000000000000) /* far beyond what digits in memory make up for */
#define EXPONENT_ROOM 8                          /* "e-99999" */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t read_exponent(const char *at, const char *end)
{
    bool negative = *at == '-';
    int64_t exponent = 0;
    at += *at == '-' || *at == '+';
    for (; at < end; at++) {
        if (exponent < EXPONENT_LIMIT)
            exponent = 10 * exponent + (*at - '0');
    }
    return negative ? -exponent : exponent;
}

/* What is given to strtod has neither a point, so that the locale does not matter, nor more digits
 * than have an effect. */
bool decimal_read(const char *text, size_t size, double *ret_value)
{
    char plain[1 + DIGITS_KEPT + 1 + EXPONENT_ROOM];
    const char *at = text, *end = text + size;
    size_t kept = 0;
    int64_t exponent = 0;
    bool dropped = false, fraction = false;

    for (at += *at == '-'; at < end && (is_digit(*at) || *at == '.'); at++) {
        if (*at == '.') {
            fraction = true;
        } else if (kept < DIGITS_KEPT) {
            if (kept > 0 || *at != '0')
                plain[kept++] = *at;
            exponent -= fraction;
        } else {
            dropped |= *at != '0';
            exponent += !fraction;
        }
    }
    if (at < end)
        exponent += read_exponent(at + 1, end);
    if (kept == 0)
        plain[kept++] = '0';
    if (dropped) {
        plain[kept++] = '1';
        exponent--;
    }
    if (exponent > 99999)
        exponent = 99999;
    if (exponent < -99999)
        exponent = -99999;
    snprintf(plain + kept, sizeof plain - kept, "e%d", (int)exponent);
    double value = strtod(plain, NULL);
    if (isinf(value))
        return false;
    *ret_value = *text == '-' ? -value : value;
    return true;
}
