/* Reals: the layout by table; that the text reads back and is the shortest, by printf and strtod.
 * Run under a comma locale too, if the system has one. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../server/json/json.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *printed(double value)
{
    static char text[JSON_REAL_MAX + 1];
    memset(text, '#', sizeof text);
    size_t length = json_real_print(value, text);
    assert_in_range(length, 3, JSON_REAL_MAX);
    assert_int_equal(text[JSON_REAL_MAX], '#');
    text[length] = '\0';
    return text;
}

static double of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void known_hard_cases_come_out_as_in_ecmascript(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {-1.0, "-1.0"},
        {0.1, "0.1"},
        {7.6, "7.6"},
        {0.3, "0.3"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {2.0 / 3, "0.6666666666666666"},
        {100.0, "100.0"},
        {123456.789, "123456.789"},
        {9007199254740991.0, "9007199254740991.0"},
        {9007199254740993.0, "9007199254740992.0"},
        {123456789012345680.0, "123456789012345680.0"},
        {1e20, "100000000000000000000.0"},
        {123456789012345680000.0, "123456789012345680000.0"},
        {1e21, "1e+21"},
        {1.5e21, "1.5e+21"},
        {1e22, "1e+22"},
        {1e23, "1e+23"},
        {9.999999999999997e22, "9.999999999999997e+22"},
        {1e-5, "0.00001"},
        {1e-6, "0.000001"},
        {1.5e-6, "0.0000015"},
        {1e-7, "1e-7"},
        {-1.25e-7, "-1.25e-7"},
        {5e-324, "5e-324"},
        {1e-323, "1e-323"},
        {1.5e-323, "1.5e-323"},
        {2.225073858507201e-308, "2.225073858507201e-308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {-1.7976931348623157e308, "-1.7976931348623157e+308"},
        {5.684341886080802e-14, "5.684341886080802e-14"},
        {9.5367431640625e-7, "9.5367431640625e-7"},
        {4.35, "4.35"},
        {2.98023223876953125e-8, "2.9802322387695312e-8"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(printed(cases[i].value), cases[i].text);
}

/* The significant digits of a decimal, without leading and trailing zeros, and the exponent of the
 * first. */
static int digits_of(const char *text, char *digits)
{
    int exponent = -1, point = 0, count = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9') {
            point = *text == '-' ? point : 1;
            continue;
        }
        if (count > 0 || *text != '0')
            digits[count++] = *text;
        if (!point && count > 0)
            exponent++;
        else if (point && count == 0)
            exponent--;
    }
    while (count > 0 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';
    return *text == 'e' ? exponent + atoi(text + 1) : exponent;
}

/* printf gives the nearest decimal of a length; the shortest length that reads back is what we must
 * have. Just above a power of two, where doubles stand closer below, a decimal that is not the
 * nearest may be shorter yet. */
static void assert_shortest(double value)
{
    const char *text = printed(value);
    char *end, expected[40], ours[40], theirs[40];
    assert_true(strtod(text, &end) == value && *end == '\0');
    assert_true(signbit(strtod(text, NULL)) == signbit(value));
    if (value == 0)
        return;

    /* Whatever has fewer digits than 15 is found at 15, with zeros; subnormals have no such rule. */
    int length = fabs(value) < 0x1p-1022 ? 1 : 15;
    do
        snprintf(expected, sizeof expected, "%.*e", length - 1, value);
    while (strtod(expected, NULL) != value && ++length <= 17);
    int exponent = digits_of(text, ours), expected_exponent = digits_of(expected, theirs);
    if (exponent == expected_exponent && strcmp(ours, theirs) == 0)
        return;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits << 12 != 0 || strlen(ours) >= strlen(theirs))
        fail_msg("printed %s, not %s", text, expected);
}

static uint64_t random_bits(void)
{
    static uint64_t s = 1;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s * 0x2545F4914F6CDD1Du;
}

static void random_bit_patterns_are_shortest_and_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        double value = of_bits(random_bits());
        if (isfinite(value))
            assert_shortest(value);
    }
}

static void the_edges_of_every_binade_are_shortest(void **state)
{
    (void)state;
    for (uint64_t exponent = 0; exponent < 2047; exponent++) {
        uint64_t power = exponent << 52;
        assert_shortest(of_bits(power | (exponent == 0)));
        assert_shortest(of_bits(power + 1));
        assert_shortest(of_bits(power + 2));
        assert_shortest(of_bits(power | ((UINT64_C(1) << 52) - 1)));
    }
}

static void subnormals_are_shortest(void **state)
{
    (void)state;
    for (uint64_t bits = 1; bits < 2000; bits++)
        assert_shortest(of_bits(bits));
    for (int i = 0; i < 20000; i++)
        assert_shortest(of_bits(random_bits() >> (12 + i % 52)));
}

static void decimals_that_people_write_stay_as_they_are(void **state)
{
    (void)state;
    uint64_t scale = 1;
    for (int places = 1; places <= 10; places++) {
        scale *= 10;
        for (int i = 0; i < 3000; i++) {
            char text[40];
            uint64_t digits = random_bits() % 1000000000;
            snprintf(text, sizeof text, "%d.%0*llu", (int)(random_bits() % 10000), places,
                     (unsigned long long)(digits % scale));
            size_t length = strlen(text);
            while (text[length - 1] == '0' && text[length - 2] != '.')
                text[--length] = '\0';
            double value = strtod(text, NULL);
            if (value >= 1e-6 || value == 0)
                assert_string_equal(printed(value), text);
        }
    }
}

static void whole_numbers_are_shortest(void **state)
{
    (void)state;
    for (int bits = 1; bits <= 64; bits++) {
        for (int i = 0; i < 500; i++)
            assert_shortest((double)(random_bits() >> (64 - bits)));
    }
}

static void the_locale_does_not_matter(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                        "ru_RU.UTF-8", "de_DE",      "fr_FR"};
    (void)state;
    bool found = false;
    for (size_t i = 0; i < COUNT(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) && *localeconv()->decimal_point == ',';
    if (!found)
        skip();
    const char *text = printed(1234.5);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "1234.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_hard_cases_come_out_as_in_ecmascript),
        cmocka_unit_test(random_bit_patterns_are_shortest_and_read_back),
        cmocka_unit_test(the_edges_of_every_binade_are_shortest),
        cmocka_unit_test(subnormals_are_shortest),
        cmocka_unit_test(decimals_that_people_write_stay_as_they_are),
        cmocka_unit_test(whole_numbers_are_shortest),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests_name("real", tests, NULL, NULL);
}
