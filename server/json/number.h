/* Numbers of RFC 8259's grammar, as they stand in a text (number.c). */
#ifndef SLATE_JSON_NUMBER_H
#define SLATE_JSON_NUMBER_H

#include <stdint.h>

typedef struct number {
    enum {
        NUMBER_INTEGER, /* no fraction and no exponent; -0 is 0 */
        NUMBER_REAL,
        NUMBER_OUT_OF_RANGE /* an integer of more than 64 bits, or beyond the largest double */
    } kind;
    union {
        int64_t integer;
        double real; /* the nearest */
    };
} number;

/* Takes the number at `at`, of a text that ends at `end`. Returns what is behind it; NULL: there is
 * none, or it breaks off. */
const char *number_scan(const char *at, const char *end, number *ret_number);

#endif
