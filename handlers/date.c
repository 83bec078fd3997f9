/* Dates of HTTP, without locale. */
#include "date.h"

#include <string.h>
#include <time.h>

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* The last two digits of `n`, and what stands behind them. */
static char *put_pair(char *at, int n, char behind)
{
    *at++ = (char)('0' + n / 10 % 10);
    *at++ = (char)('0' + n % 10);
    *at++ = behind;
    return at;
}

bool date_print(int64_t seconds, char ret_text[static DATE_MAX])
{
    struct tm t;
    time_t when = (time_t)seconds;
    if (!gmtime_r(&when, &t) || t.tm_year < 1 - 1900 || t.tm_year > 9999 - 1900)
        return false;
    char *at = mempcpy(ret_text, days + 3 * t.tm_wday, 3);
    at = mempcpy(at, ", ", 2);
    at = put_pair(at, t.tm_mday, ' ');
    at = mempcpy(at, months + 3 * t.tm_mon, 3);
    *at++ = ' ';
    at = put_pair(at, (t.tm_year + 1900) / 100, '\0') - 1;
    at = put_pair(at, t.tm_year + 1900, ' ');
    at = put_pair(at, t.tm_hour, ':');
    at = put_pair(at, t.tm_min, ':');
    at = put_pair(at, t.tm_sec, ' ');
    memcpy(at, "GMT", sizeof "GMT");
    return true;
}

bool date_read(const char *text, int64_t *ret_seconds)
{
    /* IMF-fixdate, and the two obsolete forms that a recipient must read. */
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %d %H:%M:%S %Y"};
    for (unsigned i = 0; i < 3; i++) {
        struct tm t = {0};
        const char *end = strptime(text, forms[i], &t);
        if (end && *end == '\0') {
            *ret_seconds = (int64_t)timegm(&t);
            return true;
        }
    }
    return false;
}
