/* Takes numbers from a text: digits are added up while they are passed, and what they say is known at
 * the last one, unless there are too many. */
#include "number.h"

#include <stdbool.h>
#include <stddef.h>

#include "decimal.h"
#include "scan.h"

/* Takes decimal digits, of which at most 19 are sure to fit into `*digits`. */
static inline const char *take_digits(const char *at, const char *end, uint64_t *digits)
{
    uint64_t n = *digits;
    for (; at < end && (unsigned char)(*at - '0') < 10; at++)
        n = n * 10 + (uint64_t)(*at - '0');
    *digits = n;
    return at;
}

/* The same eight at a time, for fractions. */
static inline const char *take_fraction(const char *at, const char *end, uint64_t *digits)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    while (end - at >= (ptrdiff_t)sizeof word) {
        memcpy(&word, at, sizeof word);
        uint64_t value = word - SCAN_EACH_BYTE('0');
        if ((value | (value + SCAN_EACH_BYTE(0x76))) & SCAN_EACH_BYTE(0x80))
            break; /* not all are digits */
        /* Pairs, in every other byte; then fours; then all eight. */
        value = value * 10 + (value >> 8);
        value = ((value & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x000F424000000064) +
                 (value >> 16 & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x0000271000000001)) >>
                32;
        *digits = *digits * 100000000 + value;
        at += sizeof word;
    }
#endif
    return take_digits(at, end, digits);
}

/* Of the digits from `first` to `end`, in which there may be a point, those that are significant. */
static size_t count_significant(const char *first, const char *end)
{
    size_t count = 0;
    for (; first < end && (*first == '0' || *first == '.'); first++)
        continue;
    for (; first < end; first++)
        count += *first != '.';
    return count;
}

/* A number with a fraction or an exponent. `at` is behind its integer part, whose digits are
 * `digits`. */
static const char *scan_real(const char *start, const char *at, const char *end, uint64_t digits,
                             number *ret_number)
{
    const char *first = start + (*start == '-');
    bool point = *at == '.';
    int64_t exponent = 0;
    if (point) {
        const char *fraction = at + 1;
        at = take_fraction(fraction, end, &digits);
        exponent = fraction - at;
        if (exponent == 0)
            return NULL;
    }
    size_t count = (size_t)(at - first) - point;
    bool quick = count <= DECIMAL_DIGITS || count_significant(first, at) <= DECIMAL_DIGITS;
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        bool negative = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        const char *power = at;
        uint64_t size = 0;
        at = take_digits(at, end, &size);
        if (at == power)
            return NULL;
        if (at - power < DECIMAL_DIGITS)
            exponent += negative ? -(int64_t)size : (int64_t)size;
        else
            quick = false;
    }

    double value;
    ret_number->kind = NUMBER_REAL;
    if (quick && decimal_round(digits, exponent, &value))
        ret_number->real = *start == '-' ? -value : value;
    else if (!decimal_read(start, (size_t)(at - start), &ret_number->real))
        ret_number->kind = NUMBER_OUT_OF_RANGE;
    return at;
}

const char *number_scan(const char *at, const char *end, number *ret_number)
{
    const char *start = at;
    bool negative = at < end && *at == '-';
    at += negative;
    const char *first = at;
    uint64_t digits = 0;
    at = take_digits(at, end, &digits);
    size_t count = (size_t)(at - first);
    if (count == 0 || (count > 1 && *first == '0'))
        return NULL;
    if (at < end && (*at == '.' || (*at | 0x20) == 'e'))
        return scan_real(start, at, end, digits, ret_number);
    if (count > DECIMAL_DIGITS || digits > (uint64_t)INT64_MAX + negative) {
        ret_number->kind = NUMBER_OUT_OF_RANGE;
        return at;
    }
    ret_number->kind = NUMBER_INTEGER;
    ret_number->integer = (int64_t)(negative ? 0 - digits : digits);
    return at;
}
