/* Dates of HTTP (RFC 9110, section 5.6.7). */
#ifndef SLATE_DATE_H
#define SLATE_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define DATE_MAX 32 /* bytes of a written date, with its NUL */

/* Writes seconds since 1970, to the year 9999, as "Sun, 06 Nov 1994 08:49:37 GMT". false: out of
 * range. */
bool date_print(int64_t seconds, char ret_text[static DATE_MAX]);
/* Reads one of the three forms. false: it is none. */
bool date_read(const char *text, int64_t *ret_seconds);

#endif
