/* Prefer and Accept, and the dates of HTTP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../../handlers/date.h"
#include "../../handlers/field.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void a_preference_is_found_among_others(void **state)
{
    static const struct {
        const char *prefer;
        bool minimal;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"return=minimal", true},
        {"return=\"minimal\"", true},
        {"Return = minimal", true},
        {"return=minimal; foo=bar", true},
        {"respond-async, wait=10, return=minimal", true},
        {"foo=\"a, return=minimal\", bar", false},
        {"foo=\"a\\\", return=minimal\"", false},
        {"foo; return=minimal", false}, /* a parameter of foo */
        {"return=representation, return=minimal", false},
        {"return", false},
        {"return=minimally", false},
        {"return=Minimal", false},
        {"returns=minimal", false},
        {",, return=minimal", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        if (field_prefers(cases[i].prefer, "return", "minimal") != cases[i].minimal)
            fail_msg("%s", cases[i].prefer);
}

static void the_most_specific_range_decides(void **state)
{
    static const struct {
        const char *accept;
        unsigned json, lines;
    } cases[] = {
        {NULL, 1000, 1000},
        {"", 1000, 1000},
        {"*/*", 1000, 1000},
        {"application/json", 1000, 0},
        {"APPLICATION/X-NDJSON", 0, 1000},
        {"application/*;q=0.5", 500, 500},
        {"text/html, */*;q=0.1", 100, 100},
        {"text/html", 0, 0},
        {"application/json;q=0.2, application/x-ndjson;q=0.25", 200, 250},
        {"*/*, application/x-ndjson;q=0", 1000, 0},
        {"application/x-ndjson;q=0.001, application/*;q=0.9", 900, 1},
        {"application/json ; charset=utf-8 ; Q=0.3", 300, 0},
        {"application/json;v=\"a,b;q=1\";q=0.3", 300, 0},
        {"application/json;q=1.5", 1000, 0},
        {"application/json;q=x", 0, 0},
        {"application/jsonx", 0, 0},
        {"applicationx/*", 0, 0},
        {"*/*;q=0", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned json = field_quality(cases[i].accept, "application/json");
        unsigned lines = field_quality(cases[i].accept, "application/x-ndjson");
        if (json != cases[i].json || lines != cases[i].lines)
            fail_msg("%s: %u, %u", cases[i].accept, json, lines);
    }
}

static void dates_are_read_in_three_forms_and_written_in_one(void **state)
{
    static const char *const forms[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                        "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun Nov  6 08:49:37 1994"};
    static const char *const others[] = {"",
                                         "now",
                                         "Sun, 06 Nov 1994 08:49:37",
                                         "784111777",
                                         "Sun, 06 Nov 1994 08:49:37 GMT+1",
                                         "Sun, 06 Foo 1994 08:49:37 GMT",
                                         "Thu, 31 Feb 2000 00:00:00 GMT",
                                         "Thu, 29 Feb 2001 00:00:00 GMT",
                                         "Saturday, 31-Apr-94 08:49:37 GMT",
                                         "Sun Jun 31 08:49:37 1994"};
    char text[DATE_MAX];
    int64_t seconds = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(forms); i++) {
        assert_true(date_read(forms[i], &seconds));
        assert_int_equal(seconds, 784111777);
    }
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(date_read(others[i], &seconds));
    assert_true(date_read("Tue, 29 Feb 2000 00:00:00 GMT", &seconds));
    assert_int_equal(seconds, 951782400);
    assert_true(date_read("Thu, 30 Jun 1994 23:59:60 GMT", &seconds)); /* a leap second */
    assert_true(date_print(784111777, text));
    assert_string_equal(text, forms[0]);
    assert_true(date_print(0, text));
    assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_false(date_print(INT64_MAX, text));
    assert_false(date_print(-1, text));
    for (time_t when = 0; when < 253402300800; when += 7 * 86400 + 4321) {
        char expected[DATE_MAX];
        struct tm t;
        int64_t back = -1;
        assert_non_null(gmtime_r(&when, &t));
        assert_true(strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", &t) > 0);
        assert_true(date_print(when, text));
        assert_string_equal(text, expected);
        assert_true(date_read(text, &back));
        assert_int_equal(back, when);
    }
    assert_false(date_print(INT64_C(253402300800), text)); /* the year 10000 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preference_is_found_among_others),
        cmocka_unit_test(the_most_specific_range_decides),
        cmocka_unit_test(dates_are_read_in_three_forms_and_written_in_one),
    };
    return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
