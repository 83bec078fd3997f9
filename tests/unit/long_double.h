/* Whether a long double has, in this run, the digits that its type promises. Tests that compute
 * what is right in long doubles leave out what those cannot tell. */
#ifndef TEST_LONG_DOUBLE_H
#define TEST_LONG_DOUBLE_H

#include <stdbool.h>

/* false: it computes as a double does. Under Valgrind it does: that has 64 bits for what the
 * processor has 80 for. Asked of a sum: 2^63 + 1 has 64 binary digits, a double 53. */
static inline bool long_double_is_wide(void)
{
    volatile long double large = 0x1p63L, small = 1;
    return (large + small) - large == small;
}

#endif
