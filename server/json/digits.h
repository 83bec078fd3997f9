/* Decimal digits of an unsigned integer, two at a time. */
#ifndef SLATE_JSON_DIGITS_H
#define SLATE_JSON_DIGITS_H

#include <stdint.h>
#include <string.h>

#define DIGITS_MAX 20 /* of UINT64_MAX */

static inline unsigned digits_count(uint64_t n)
{
    static const uint64_t power[DIGITS_MAX] = {
        0, /* so that 0 has one digit */
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    unsigned bits = 64 - (unsigned)__builtin_clzll(n | 1);
    unsigned low = bits * 1233 >> 12; /* floor(bits * log10(2)) for 1 to 64 bits */
    return low + (n >= power[low]);
}

/* Prints up to DIGITS_MAX bytes, no leading zero. Returns the end. */
static inline char *digits_print(char *at, uint64_t n)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char *end = at + digits_count(n), *to = end;
    for (; n >= 100; n /= 100) {
        to -= 2;
        memcpy(to, pairs + 2 * (n % 100), 2);
    }
    if (n >= 10)
        memcpy(to - 2, pairs + 2 * n, 2);
    else
        to[-1] = (char)('0' + n);
    return end;
}

#endif
