/* Decimal text to the nearest double (decimal.c). */
#ifndef SLATE_JSON_DECIMAL_H
#define SLATE_JSON_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIMAL_DIGITS 19 /* so many always fit into 64 bits */

/* The double nearest to digits * 10^exponent, of two equally near the even one. false: this quick
 * way cannot tell; then `*ret_value` is untouched. */
bool decimal_round(uint64_t digits, int64_t exponent, double *ret_value);

/* The same for any number of RFC 8259's grammar, however long. false: beyond the largest double. */
bool decimal_read(const char *text, size_t size, double *ret_value);

#endif
