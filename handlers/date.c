/* Dates of HTTP, without locale. */
#include "date.h"

#include <string.h>
#include <time.h>

static const char day_names[] = "SunMonTueWedThuFriSat";
static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* The last two digits of `n`, and what stands behind them. */
static char *put_pair(char *at, unsigned n, char behind)
{
    *at++ = (char)('0' + n / 10 % 10);
    *at++ = (char)('0' + n % 10);
    *at++ = behind;
    return at;
}

#define DAY 86400
#define LAST (INT64_C(253402300800) - 1) /* the last second of the year 9999 */

/* Without gmtime_r, which takes a lock. A year is counted from March, so that the day that not every
 * year has is its last one. */
bool date_print(int64_t seconds, char ret_text[static DATE_MAX])
{
    if (seconds < 0 || seconds > LAST)
        return false;
    unsigned days = (unsigned)(seconds / DAY), second = (unsigned)(seconds % DAY);
    unsigned since = days + 719468; /* since 1 March of the year 0 */
    unsigned era = since / 146097, of_era = since % 146097;
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned from_march = (5 * of_year + 2) / 153;
    unsigned day = of_year - (153 * from_march + 2) / 5 + 1;
    unsigned month = from_march < 10 ? from_march + 2 : from_march - 10; /* 0: January */
    unsigned year = 400 * era + year_of_era + (month < 2);

    char *at = mempcpy(ret_text, day_names + 3 * ((days + 4) % 7), 3);
    at = mempcpy(at, ", ", 2);
    at = put_pair(at, day, ' ');
    at = mempcpy(at, month_names + 3 * month, 3);
    *at++ = ' ';
    at = put_pair(at, year / 100, '\0') - 1;
    at = put_pair(at, year, ' ');
    at = put_pair(at, second / 3600, ':');
    at = put_pair(at, second / 60 % 60, ':');
    at = put_pair(at, second % 60, ' ');
    memcpy(at, "GMT", sizeof "GMT");
    return true;
}

/* strptime takes any day up to the 31st. */
static bool month_has_day(const struct tm *t)
{
    struct tm day = {.tm_year = t->tm_year, .tm_mon = t->tm_mon, .tm_mday = t->tm_mday};
    (void)timegm(&day); /* a day too many is one of the next month then */
    return day.tm_mon == t->tm_mon;
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
            bool is_date = month_has_day(&t);
            if (is_date)
                *ret_seconds = (int64_t)timegm(&t);
            return is_date;
        }
    }
    return false;
}
