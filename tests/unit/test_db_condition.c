/* Preconditions: lists of entity tags, dates, and RFC 9110's order of evaluation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../handlers/db/condition.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define OLD "Sun, 06 Nov 1994 08:49:37 GMT" /* 784111777 */
#define AT 784111777

static mem_context ctx;

static int open_context(void **state)
{
    (void)state;
    mem_heap_init(&ctx, NULL, "tags");
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    mem_delete(&ctx);
    return 0;
}

static db_conditions read_good(const char *match, const char *none_match, const char *modified,
                               const char *unmodified)
{
    db_conditions c;
    db_fault fault = {.limit = 0};
    if (!db_conditions_read(&ctx, match, none_match, modified, unmodified, &c, &fault))
        fail_msg("%s", fault.detail);
    return c;
}

static void tags_are_compared_strongly_and_weakly(void **state)
{
    static const struct {
        const char *tags;
        bool strong, weak; /* against revision 17 */
    } cases[] = {
        {"\"17\"", true, true},
        {"W/\"17\"", false, true},
        {"\"16\", \"17\"", true, true},
        {"\"16\",\t\"18\" , W/\"17\"", false, true},
        {", ,\"17\",,", true, true},
        {"*", true, true},
        {" * ", true, true},
        {"\"16\"", false, false},
        {"\"017\"", false, false},
        {"\"\"", false, false},
        {"\"abc,def\"", false, false},
        {"\"17x\"", false, false},
        {"\"18446744073709551633\"", false, false}, /* 2^64 + 17 */
        {"\"\xe4\"", false, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        db_conditions match = read_good(cases[i].tags, NULL, NULL, NULL);
        db_conditions none = read_good(NULL, cases[i].tags, NULL, NULL);
        bool strong = db_conditions_check(&match, 17, 0, false) == DB_PROCEED;
        bool weak = db_conditions_check(&none, 17, 0, false) == DB_PRECONDITION_FAILED;
        if (strong != cases[i].strong || weak != cases[i].weak)
            fail_msg("%s: strong %d, weak %d", cases[i].tags, strong, weak);
    }
}

static void malformed_tags_are_named(void **state)
{
    static const char *const bad[] = {
        "",        "17",          "\"17",     "17\"",     "\"17\"\"18\"",
        "w/\"1\"", "W/17",        "*, \"1\"", "\"1\", *", "\"1\";",
        "\"a b\"", "\"1\" \"2\"", ",",        "**",       "\"\x7f\""};
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        db_conditions c;
        db_fault fault = {.limit = 0};
        if (db_conditions_read(&ctx, bad[i], NULL, NULL, NULL, &c, &fault))
            fail_msg("%s was taken", bad[i]);
        assert_non_null(strstr(fault.detail, "If-Match"));
        assert_false(db_conditions_read(&ctx, NULL, bad[i], NULL, NULL, &c, &fault));
        assert_non_null(strstr(fault.detail, "If-None-Match"));
        assert_false(fault.memory);
    }
}

static void the_order_is_that_of_the_rfc(void **state)
{
    static const struct {
        const char *match, *none_match, *modified, *unmodified;
        uint64_t revision;
        db_verdict reading, writing;
    } cases[] = {
        {NULL, NULL, NULL, NULL, 17, DB_PROCEED, DB_PROCEED},
        {"\"16\"", NULL, NULL, NULL, 17, DB_PRECONDITION_FAILED, DB_PRECONDITION_FAILED},
        /* If-Match fails before If-None-Match is looked at. */
        {"\"16\"", "\"17\"", NULL, NULL, 17, DB_PRECONDITION_FAILED, DB_PRECONDITION_FAILED},
        {"\"17\"", "\"17\"", NULL, NULL, 17, DB_NOT_MODIFIED, DB_PRECONDITION_FAILED},
        {"*", "\"16\"", NULL, NULL, 17, DB_PROCEED, DB_PROCEED},
        {NULL, "*", NULL, NULL, 17, DB_NOT_MODIFIED, DB_PRECONDITION_FAILED},
        {NULL, "*", NULL, NULL, 0, DB_PROCEED, DB_PROCEED},
        {"*", NULL, NULL, NULL, 0, DB_PRECONDITION_FAILED, DB_PRECONDITION_FAILED},
        /* A tag overrules the date of its side. */
        {NULL, "\"16\"", OLD, NULL, 17, DB_PROCEED, DB_PROCEED},
        {"\"17\"", NULL, NULL, "Sun, 06 Nov 1994 08:49:36 GMT", 17, DB_PROCEED, DB_PROCEED},
        {NULL, NULL, OLD, NULL, 17, DB_NOT_MODIFIED, DB_PROCEED},
        {NULL, NULL, "Sun, 06 Nov 1994 08:49:36 GMT", NULL, 17, DB_PROCEED, DB_PROCEED},
        {NULL, NULL, NULL, OLD, 17, DB_PROCEED, DB_PROCEED},
        {NULL, NULL, NULL, "Sun, 06 Nov 1994 08:49:36 GMT", 17, DB_PRECONDITION_FAILED,
         DB_PRECONDITION_FAILED},
        /* Without a document there is no date to compare with (section 13.1.4). */
        {NULL, NULL, NULL, OLD, 0, DB_PROCEED, DB_PROCEED},
        {NULL, NULL, "yesterday", "yesterday", 17, DB_PROCEED, DB_PROCEED},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        db_conditions c =
            read_good(cases[i].match, cases[i].none_match, cases[i].modified, cases[i].unmodified);
        if (db_conditions_check(&c, cases[i].revision, AT, true) != cases[i].reading ||
            db_conditions_check(&c, cases[i].revision, AT, false) != cases[i].writing)
            fail_msg("case %zu", i);
    }
}

static void what_the_store_can_check_is_left_to_it(void **state)
{
    static const struct {
        const char *match, *none_match;
        int is;
        size_t count;
    } cases[] = {
        {NULL, NULL, STORE_ANY, 0},
        {"*", NULL, STORE_PRESENT, 0},
        {NULL, "*", STORE_ABSENT, 0},
        {"\"17\", \"18\", W/\"19\", \"x\"", NULL, STORE_ONE_OF, 2},
        {"\"x\"", NULL, STORE_ONE_OF, 0},
        {NULL, "\"17\", W/\"18\", \"x\"", STORE_NONE_OF, 2},
    };
    store_condition condition;
    db_fault fault = {.limit = 0};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        db_conditions c = read_good(cases[i].match, cases[i].none_match, NULL, NULL);
        assert_true(db_conditions_for_store(&c, &ctx, &condition, &fault));
        assert_int_equal(condition.is, cases[i].is);
        assert_int_equal(condition.count, cases[i].count);
        if (condition.count > 0) {
            assert_int_equal(condition.revisions[0], 17);
            assert_int_equal(condition.revisions[1], 18);
        }
    }
    db_conditions both = read_good("*", "\"17\"", NULL, NULL),
                  date = read_good(NULL, NULL, NULL, OLD);
    assert_false(db_conditions_for_store(&both, &ctx, &condition, &fault));
    assert_false(db_conditions_for_store(&date, &ctx, &condition, &fault));
    assert_false(fault.memory);
}

int main(void)
{
#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, open_context, close_context)
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(tags_are_compared_strongly_and_weakly),
        IN_CONTEXT(malformed_tags_are_named),
        IN_CONTEXT(the_order_is_that_of_the_rfc),
        IN_CONTEXT(what_the_store_can_check_is_left_to_it),
    };
    return cmocka_run_group_tests_name("db_condition", tests, NULL, NULL);
}
