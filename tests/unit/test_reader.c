/* The JSON reader and jansson's allocation from contexts: what is accepted, what is refused and with
 * which position, and that a refused allocation never yields a wrong tree. */
#include "json_modes.h"

#include "../../alloc/internal.h"

#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static json_read_problem problem;

/* An exact copy of the text, so that the sanitizers see a byte read too many. */
static json_t *read_exact(const char *text, size_t size, unsigned depth)
{
    char *exact = malloc(size ? size : 1);
    memcpy(exact, text, size);
    memset(&problem, 0xAA, sizeof problem);
    json_t *tree = json_read(exact, size, depth, &problem);
    free(exact);
    return tree;
}

/* ---- Accepted -------------------------------------------------------------------------------- */

static void good_texts_become_trees(void **state)
{
    static const char *const cases[][2] = {
        {" 1 ", "1"},
        {"\t\n\r null", "null"},
        {"[ ]", "[]"},
        {"{ \"a\" : [ true , false ] }", "{\"a\":[true,false]}"},
        {"-0", "0"},
        {"-0.0", "-0.0"},
        {"1E2", "100.0"},
        {"1e-2", "0.01"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"1e-400", "0.0"},
        {"\"\\u0041\\n\\/\\\"\\\\\"", "\"A\\n/\\\"\\\\\""},
        {"\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\""},
        {"\"\\u20AC\xE2\x82\xAC\x7F\"", "\"\xE2\x82\xAC\xE2\x82\xAC\x7F\""},
        {"{\"\":1}", "{\"\":1}"},
        {"[\"[[[[[[[[[[[[[[[[[[[\"]", "[\"[[[[[[[[[[[[[[[[[[[\"]"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *tree = read_exact(cases[i][0], strlen(cases[i][0]), 10);
        if (!tree)
            fail_msg("%s: %s", cases[i][0], problem.detail);
        assert_tree(tree, cases[i][1]);
        json_bridge_release(tree);
    }
}

static void escaped_nul_keeps_the_length(void **state)
{
    (void)state;
    json_t *tree = read_exact("\"a\\u0000b\"", 10, 0);
    assert_int_equal(json_string_length(tree), 3);
    assert_memory_equal(json_string_value(tree), "a\0b", 4);
    json_bridge_release(tree);
}

/* ---- Refused --------------------------------------------------------------------------------- */

#define TEXT(literal) literal, sizeof(literal) - 1

static const struct bad {
    const char *text;
    size_t size;
    json_read_status status;
    int line, column;
    size_t offset;
    const char *detail; /* part of it */
} bad[] = {
    {TEXT(""), JSON_READ_SYNTAX, 1, 1, 0, "ends where a value must"},
    {TEXT(" \n "), JSON_READ_SYNTAX, 2, 2, 3, "ends where a value must"},
    {TEXT("["), JSON_READ_SYNTAX, 1, 2, 1, "ends where a value or ']' must"},
    {TEXT("[1"), JSON_READ_SYNTAX, 1, 3, 2, "ends where ',' or ']' must"},
    {TEXT("[1,"), JSON_READ_SYNTAX, 1, 4, 3, "ends where a value must"},
    {TEXT("[1,]"), JSON_READ_SYNTAX, 1, 4, 3, "Found ']' where a value must"},
    {TEXT("[,1]"), JSON_READ_SYNTAX, 1, 2, 1, "Found ',' where a value or ']' must"},
    {TEXT("[1 2]"), JSON_READ_SYNTAX, 1, 4, 3, "Found '2' where ',' or ']' must"},
    {TEXT("[1}"), JSON_READ_SYNTAX, 1, 3, 2, "Found '}' where ',' or ']' must"},
    {TEXT("{\"a\":1]"), JSON_READ_SYNTAX, 1, 7, 6, "Found ']' where ',' or '}' must"},
    {TEXT("{"), JSON_READ_SYNTAX, 1, 2, 1, "ends where a key in double quotes or '}'"},
    {TEXT("{a:1}"), JSON_READ_SYNTAX, 1, 2, 1, "Found 'a' where a key in double quotes or '}'"},
    {TEXT("{'a':1}"), JSON_READ_SYNTAX, 1, 2, 1, "Found \"'\" where a key in double quotes"},
    {TEXT("{\"a\" 1}"), JSON_READ_SYNTAX, 1, 6, 5, "Found '1' where ':' must"},
    {TEXT("{\"a\":}"), JSON_READ_SYNTAX, 1, 6, 5, "Found '}' where a value must"},
    {TEXT("{\"a\":1,}"), JSON_READ_SYNTAX, 1, 8, 7, "Found '}' where a key in double quotes must"},
    {TEXT("{\"a\":1,\n \"b\"\n:\n2 3}"), JSON_READ_SYNTAX, 4, 3, 17, "Found '3' where ',' or '}'"},
    {TEXT("1 2"), JSON_READ_SYNTAX, 1, 3, 2, "Found '2' where the end of the text must"},
    {TEXT("[]]"), JSON_READ_SYNTAX, 1, 3, 2, "Found ']' where the end of the text must"},
    {TEXT("]"), JSON_READ_SYNTAX, 1, 1, 0, "Found ']' where a value must"},
    {TEXT("tru"), JSON_READ_SYNTAX, 1, 1, 0, "Found 'tru' where a value must"},
    {TEXT("[True]"), JSON_READ_SYNTAX, 1, 2, 1, "Found 'True' where a value must"},
    {TEXT("[NaN]"), JSON_READ_SYNTAX, 1, 2, 1, "Found 'NaN' where"},
    {TEXT("nullx"), JSON_READ_SYNTAX, 1, 1, 0, "Found 'nullx' where"},
    {TEXT("01"), JSON_READ_SYNTAX, 1, 1, 0, "leading zeros"},
    {TEXT("-01"), JSON_READ_SYNTAX, 1, 2, 1, "leading zeros"},
    {TEXT("-"), JSON_READ_SYNTAX, 1, 2, 1, "ends where a digit must"},
    {TEXT("+1"), JSON_READ_SYNTAX, 1, 1, 0, "Found '+' where a value must"},
    {TEXT(".5"), JSON_READ_SYNTAX, 1, 1, 0, "Found '.' where a value must"},
    {TEXT("1.e5"), JSON_READ_SYNTAX, 1, 3, 2, "Found 'e' where a digit must"},
    {TEXT("1e+"), JSON_READ_SYNTAX, 1, 4, 3, "ends where a digit must"},
    {TEXT("0x10"), JSON_READ_SYNTAX, 1, 2, 1, "Found 'x' where the end of the text must"},
    {TEXT("\"abc"), JSON_READ_SYNTAX, 1, 5, 4, "ends inside a string"},
    {TEXT("\"a\tb\""), JSON_READ_SYNTAX, 1, 3, 2, "control character 0x09"},
    {TEXT("\"a\nb\""), JSON_READ_SYNTAX, 1, 3, 2, "control character 0x0a"},
    {TEXT("\"\xC3\xA9\xE2\x82\xAC\\q\""), JSON_READ_SYNTAX, 1, 4, 6, "backslash"},
    {TEXT("\"\\u12G4\""), JSON_READ_SYNTAX, 1, 2, 1, "four hexadecimal digits"},
    {TEXT("\"\\u12"), JSON_READ_SYNTAX, 1, 2, 1, "four hexadecimal digits"},
    {TEXT("\"\\"), JSON_READ_SYNTAX, 1, 2, 1, "backslash"},
    {TEXT("\"x\\ud800\""), JSON_READ_SYNTAX, 1, 3, 2, "\\ud800 is half of a surrogate pair"},
    {TEXT("\"\\udc00\""), JSON_READ_SYNTAX, 1, 2, 1, "\\udc00 is half of a surrogate pair"},
    {TEXT("\"\\ud800\\u0041\""), JSON_READ_SYNTAX, 1, 2, 1, "half of a surrogate pair"},
    {TEXT("\"\xFF\""), JSON_READ_SYNTAX, 1, 2, 1, "byte 0xff in a string is not UTF-8"},
    {TEXT("\"\xED\xA0\x80\""), JSON_READ_SYNTAX, 1, 2, 1, "byte 0xed in a string is not UTF-8"},
    {TEXT("\"\xC3"), JSON_READ_SYNTAX, 1, 2, 1, "byte 0xc3 in a string is not UTF-8"},
    {TEXT("[\xC0\xAF]"), JSON_READ_SYNTAX, 1, 2, 1, "byte 0xc0 where a value"},
    {TEXT("[\xE2\x82\xAC]"), JSON_READ_SYNTAX, 1, 2, 1, "Found '\xE2\x82\xAC' where a value"},
    {TEXT("\xEF\xBB\xBF[]"), JSON_READ_SYNTAX, 1, 1, 0, "byte order mark"},
    {TEXT("123\0"), JSON_READ_SYNTAX, 1, 4, 3, "byte 0x00 where the end of the text"},
    {TEXT("\"a\0b\""), JSON_READ_SYNTAX, 1, 3, 2, "control character 0x00"},
    {TEXT("[1,\0]"), JSON_READ_SYNTAX, 1, 4, 3, "byte 0x00 where a value"},
    {TEXT("\0"), JSON_READ_SYNTAX, 1, 1, 0, "byte 0x00 where a value"},
    {TEXT("[/*1*/]"), JSON_READ_SYNTAX, 1, 2, 1, "Found '/' where"},

    {TEXT("{\"a\":1,\"a\":2}"), JSON_READ_DUPLICATE, 1, 8, 7, "\"a\" stands twice"},
    {TEXT("{\"a\":1,\n  \"\\u0061\" :2}"), JSON_READ_DUPLICATE, 2, 3, 10, "stands twice"},
    {TEXT("[{\"k\":{\"a\":1},\"a\":2,\"k\":3}]"), JSON_READ_DUPLICATE, 1, 21, 20,
     "\"k\" stands twice"},

    {TEXT("[9223372036854775808]"), JSON_READ_REFUSED, 1, 2, 1, "9223372036854775808 does not fit"},
    {TEXT("-9223372036854775809"), JSON_READ_REFUSED, 1, 1, 0, "does not fit into 64 bits"},
    {TEXT("{\"a\": 1E400}"), JSON_READ_REFUSED, 1, 7, 6, "1E400 is out of the range"},
    {TEXT("[-1e999,1]"), JSON_READ_REFUSED, 1, 2, 1, "-1e999 is out of the range"},
    {TEXT("{\"a\\u0000b\":1}"), JSON_READ_REFUSED, 1, 2, 1, "key must not contain \\u0000"},
    {TEXT("[[[[[[1]]]]]]"), JSON_READ_REFUSED, 1, 6, 5, "deeper than 5"},
    {TEXT("[[[[[{\"a\":x}]]]]]"), JSON_READ_REFUSED, 1, 6, 5, "deeper than 5"},
    {TEXT("[1E400,1E400,]"), JSON_READ_REFUSED, 1, 2, 1, "1E400"},
    {TEXT("{\"a\":1,\"a\":2"), JSON_READ_DUPLICATE, 1, 8, 7, "stands twice"},
};

static void bad_texts_are_refused_where_they_go_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *tree = read_exact(bad[i].text, bad[i].size, 5);
        assert_null(tree);
        if (problem.status != bad[i].status || problem.line != bad[i].line ||
            problem.column != bad[i].column || problem.offset != bad[i].offset ||
            !strstr(problem.detail, bad[i].detail))
            fail_msg("%s: status %d, line %d, column %d, offset %zu: %s", bad[i].text,
                     problem.status, problem.line, problem.column, problem.offset, problem.detail);
    }
}

static void sentences_show_at_most_a_part_of_a_long_token(void **state)
{
    char key[400], text[900];
    (void)state;
    for (size_t i = 0; i < 100; i++)
        memcpy(key + 3 * i, "\xE2\x82\xAC", 4);
    int size = snprintf(text, sizeof text, "{\"%s\":1,\"%s\":1}", key, key);
    assert_null(read_exact(text, (size_t)size, 5));
    assert_int_equal(problem.status, JSON_READ_DUPLICATE);
    key[60] = '\0';
    snprintf(text, sizeof text, "The key \"%s\" stands twice in one object.", key);
    assert_string_equal(problem.detail, text);

    memset(text, '9', sizeof text);
    assert_null(read_exact(text, sizeof text, 5));
    assert_int_equal(problem.status, JSON_READ_REFUSED);
    assert_true(strlen(problem.detail) < sizeof problem.detail - 1);
}

/* ---- Depth ----------------------------------------------------------------------------------- */

static void assert_depth(const char *open, const char *close, unsigned depth, unsigned limit)
{
    static char text[64 * 1024];
    struct text t = text_in(text);
    text_repeat(&t, open, depth);
    text_add(&t, "1");
    text_repeat(&t, close, depth);

    json_t *tree = read_exact(text, (size_t)(t.at - text), limit);
    if (depth <= limit) {
        assert_non_null(tree);
    } else {
        assert_null(tree);
        assert_int_equal(problem.status, JSON_READ_REFUSED);
        assert_int_equal(problem.offset, limit * strlen(open));
    }
    json_bridge_release(tree);
}

static void depth_is_bounded_exactly(void **state)
{
    static const unsigned limits[] = {0, 1, 2, 5, 127, 128, 129, 300, 1024, 2046};
    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++) {
        for (unsigned more = 0; more < 5; more++) {
            unsigned depth = limits[i] + more >= 2 ? limits[i] + more - 2 : 0;
            assert_depth("[", "]", depth, limits[i]);
            assert_depth("{\"a\":", "}", depth, limits[i]);
        }
    }
    assert_null(json_read("[[]]", 4, 1, &problem));
}

static void many_brackets_are_not_depth(void **state)
{
    static char text[64 * 1024];
    size_t size = 0;
    (void)state;
    text[size++] = '[';
    while (size < sizeof text - 10) {
        memcpy(text + size, "[[]],{},", 8);
        size += 8;
    }
    memcpy(text + size, "1]", 2);
    json_t *tree = read_exact(text, size + 2, 3);
    assert_non_null(tree);
    json_bridge_release(tree);
    assert_null(read_exact(text, size + 2, 2));
    assert_int_equal(problem.status, JSON_READ_REFUSED);
    assert_int_equal(problem.offset, 2);
}

/* ---- Against jansson ------------------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

/* What stands before the fault must be good as far as it goes: read alone, it is good or ends too
 * early; or it ends in a number out of range, which jansson notices after the byte behind it. */
static void assert_first_fault(const char *text)
{
    json_read_problem found = problem;
    json_t *tree = read_exact(text, found.offset, 100);
    if (!tree && problem.status != JSON_READ_REFUSED && problem.offset != found.offset)
        fail_msg("at %zu: %s\nbut at %zu: %s\n%s", found.offset, found.detail, problem.offset,
                 problem.detail, text);
    json_bridge_release(tree);
}

static void mutants_are_judged_as_by_jansson(void **state)
{
    static const char *const seeds[] = {
        "{\"a\":[1,-2.5e+3,true,false,null],\"b\":{\"c\":\"x\\n\\u20ac\\ud83d\\ude00\"},\"d\":[]}",
        "[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\",{\"k\":0,\"kk\":[[[]]]},9223372036854775807]",
        "[ 1.0 , 10E2 ,\n{ } ,\t[ ] , \"\\\"\\\\\\/\\b\\f\\r\\t\" ]",
    };
    static const char pieces[] =
        "{}[]\",:0123456789.eE+-\\untfalser \n\t\x80\xC3\xE2\xED\xF0\xFF\x01\x7F";
    unsigned refused = 0;
    (void)state;
    random_state = 42;
    for (unsigned round = 0; round < 60000; round++) {
        char text[200];
        const char *seed = seeds[round % COUNT(seeds)];
        size_t size = strlen(seed);
        memcpy(text, seed, size);
        for (unsigned i = random_below(4); i > 0 && size > 1; i--) {
            size_t at = random_below((uint32_t)size), other = random_below((uint32_t)size);
            switch (random_below(5)) {
            case 0:
                text[at] = pieces[random_below(sizeof pieces - 1)];
                break;
            case 1:
                memmove(text + at, text + at + 1, size - at - 1);
                size--;
                break;
            case 2:
                memmove(text + at + 1, text + at, size - at);
                text[at] = pieces[random_below(sizeof pieces - 1)];
                size++;
                break;
            case 3:
                text[at] = text[other];
                break;
            case 4:
                size = at > 0 ? at : 1;
                break;
            }
        }
        text[size] = '\0';

        json_error_t error;
        json_t *expected = json_loadb(
            text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        json_t *tree = read_exact(text, size, 100);
        if ((expected != NULL) != (tree != NULL))
            fail_msg("jansson: %s; %s\n%s", expected ? "good" : error.text, problem.detail, text);
        if (tree) {
            assert_true(json_equal(tree, expected));
        } else {
            refused++;
            assert_int_not_equal(problem.status, JSON_READ_OK);
            assert_int_not_equal(problem.status, JSON_READ_MEMORY);
            assert_true(problem.offset <= size && problem.line >= 1 && problem.column >= 1);
            if (problem.status == JSON_READ_SYNTAX)
                assert_first_fault(text);
        }
        json_bridge_release(expected);
        json_bridge_release(tree);
        mem_reset(&scratch);
    }
    assert_true(refused > 20000 && refused < 50000); /* both kinds were tried */
}

/* ---- Allocation ------------------------------------------------------------------------------- */

/* Keys and strings of all lengths, so that jansson's token buffer grows in the middle of them. */
static size_t make_document(char *text, size_t size, int members)
{
    struct text t = {text, text + size};
    text_add(&t, "{");
    for (int i = 1; i <= members; i++) {
        text_add(&t, "%s\"%0*d\":[\"", i > 1 ? "," : "", i * 3, i);
        for (int k = 0; k < i * 7; k++)
            text_add(&t, "%c", 'a' + k % 26);
        text_add(&t, "\",%d,%d.5,{\"x\":[]}]", i, i);
    }
    text_add(&t, "}");
    return (size_t)(t.at - text);
}

static void a_spent_budget_never_yields_a_wrong_tree(void **state)
{
    static char text[64 * 1024];
    size_t size = make_document(text, sizeof text, 60), refused = 0, limit = 512;
    (void)state;
    if (mode == MODE_MALLOC)
        skip(); /* jansson's memory is not the context's */
    json_t *tree = NULL;
    for (; !tree && limit < 1024 * 1024; limit += limit < 8192 ? 64 : 1024) {
        mem_reset(&scratch);
        mem_budget_reset(&scratch_budget);
        scratch_budget.limit = limit;
        tree = json_read(text, size, 10, &problem);
        if (!tree) {
            refused++;
            assert_int_equal(problem.status, JSON_READ_MEMORY);
            assert_int_equal(json_bridge_outstanding(), 0);
        }
    }
    assert_true(refused > 20);
    assert_non_null(tree);
    mem_switch(
        &answers); /* another context, with room: a good tree is equal to the one read there */
    json_t *again = json_read(text, size, 10, &problem);
    assert_true(json_equal(tree, again));
    json_bridge_release(again);
    mem_switch(&scratch);
    json_bridge_release(tree);
}

/* jansson puts the character behind a number or a word back, and asserts that it is the one that it
 * took: unless its token buffer could not grow. */
static void a_budget_may_end_within_any_token(void **state)
{
    static char text[20 * 1024];
    (void)state;
    if (mode == MODE_MALLOC || reader == JSON_READER_SLATE)
        skip(); /* ours has no such buffer */
    for (size_t i = 0; i < 3; i++) {
        size_t refused = 0, limit = 512;
        memset(text, "1xx"[i], sizeof text);
        text[0] = '[';
        text[1] = "1x\""[i];
        text[sizeof text - 1] = i == 2 ? '\n' : ']';
        do {
            mem_reset(&scratch);
            mem_budget_reset(&scratch_budget);
            scratch_budget.limit = limit += 64;
            assert_null(json_read(text, sizeof text, 10, &problem));
            refused += problem.status == JSON_READ_MEMORY;
        } while (problem.status == JSON_READ_MEMORY && limit < 1024 * 1024);
        assert_true(problem.status != JSON_READ_MEMORY);
        assert_true(refused > 20);
    }
}

/* Heaps, of which one allocation fails and the later ones do not: jansson then drops a character of
 * its token buffer, and would go on. */
static const mem_kind *sound;
static size_t failing; /* the how manyeth; counts down */

static void *alloc_but_one(mem_context *ctx, size_t size, size_t align)
{
    return failing-- == 1 ? NULL : sound->alloc(ctx, size, align);
}

static void a_single_failed_allocation_never_yields_a_wrong_tree(void **state)
{
    needs_bare_contexts();
    static char text[8 * 1024];
    size_t size = make_document(text, sizeof text, 15), tries = 0;
    (void)state;
    if (mode != MODE_HEAP)
        skip();
    sound = scratch.kind;
    mem_kind unsound = *sound;
    unsound.alloc = alloc_but_one;
    scratch.kind = &unsound;
    json_t *tree = NULL;
    while (!tree) {
        failing = ++tries;
        tree = json_read(text, size, 10, &problem);
        if (!tree) {
            assert_int_equal(problem.status, JSON_READ_MEMORY);
            assert_int_equal(json_bridge_outstanding(), 0);
        } else if (failing == 0 || failing > tries) {
            fail_msg("allocation %zu failed unnoticed", tries);
        }
        if (!tree)
            mem_reset(&scratch);
    }
    assert_true(tries > 15 * 10);
    scratch.kind = sound;
    json_bridge_release(tree);
}

static void a_refusal_before_reading_is_reported_too(void **state)
{
    (void)state;
    if (mode == MODE_MALLOC)
        skip();
    scratch_budget.limit = 64 * 1024;
    assert_null(mem_alloc(&scratch, 1024 * 1024));
    assert_null(json_read("[1]", 3, 1, &problem));
    assert_int_equal(problem.status, JSON_READ_MEMORY);
}

static void a_freed_tree_leaves_nothing_outstanding(void **state)
{
    static char text[64 * 1024];
    size_t size = make_document(text, sizeof text, 60);
    (void)state;
    json_t *tree = json_read(text, size, 10, &problem);
    assert_non_null(tree);
#ifndef NDEBUG
    if (mode == MODE_MALLOC)
        assert_int_equal(json_bridge_outstanding(), 0);
    else
        assert_true(json_bridge_outstanding() > 60 * 10);
#endif
    json_bridge_release(tree);
    assert_int_equal(json_bridge_outstanding(), 0);
    json_bridge_release(NULL);
    json_bridge_release(json_true());
}

static json_malloc_t plain_alloc;
static json_free_t plain_free;
static long allocated, freed;

static void *count_alloc(size_t size)
{
    allocated++;
    return plain_alloc(size);
}

static void count_free(void *at)
{
    freed += at != NULL;
    plain_free(at);
}

static void a_walk_frees_each_node_of_a_tree_and_the_reset_needs_none(void **state)
{
    static char text[64 * 1024];
    size_t size = make_document(text, sizeof text, 60);
    (void)state;
    json_get_alloc_funcs(&plain_alloc, &plain_free);
    json_set_alloc_funcs(count_alloc, count_free);
    allocated = freed = 0;
    json_t *tree = json_read(text, size, 10, &problem);
    long while_read = freed; /* tables that grew */
    json_bridge_release(tree);
    json_set_alloc_funcs(plain_alloc, plain_free);
    assert_non_null(tree);
    assert_true(allocated > while_read + 60 * 10);
#ifndef NDEBUG
    walk = true;
#endif
    assert_int_equal(json_bridge_walks(), walk);
    assert_int_equal(freed, walk ? allocated : while_read);
}

static void only_the_newest_node_is_popped(void **state)
{
    (void)state;
    if (mode != MODE_ARENA)
        skip();
    json_t *first = json_integer(1);
    const char *cur = scratch.cur;
    json_t *second = json_integer(2);
    json_decref(second);
    assert_ptr_equal(scratch.cur, cur);

    second = json_integer(2);
    char *bytes = mem_alloc(&scratch, 100); /* no longer the newest */
    memset(bytes, 'x', 100);
    cur = scratch.cur;
    json_decref(second);
    json_decref(first);
    assert_ptr_equal(scratch.cur, cur);
    assert_int_equal(bytes[0] + bytes[99], 2 * 'x');
}

static void another_context_frees_nothing(void **state)
{
    (void)state;
    json_t *node = json_integer(1);
    size_t used = mem_get_stats(&scratch).used;
    mem_switch(&answers);
    void *bytes = mem_alloc(&answers, 24);
    size_t other_used = mem_get_stats(&answers).used;
    json_decref(node);
    assert_non_null(bytes);
    assert_int_equal(mem_get_stats(&answers).used, other_used);
    assert_int_equal(mem_get_stats(&scratch).used, used);
    mem_switch(&scratch);
}

static void without_a_context_nodes_are_plain_malloc(void **state)
{
    (void)state;
    size_t held = mem_get_stats(&scratch).used;
    mem_switch(NULL);
    json_t *tree = tree_of("{\"a\":[1,2,3]}");
    json_decref(tree); /* the sanitizer sees to the rest */
    mem_switch(&scratch);
    assert_int_equal(mem_get_stats(&scratch).used, held);
    assert_int_equal(json_bridge_installed(), mode != MODE_MALLOC);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_contexts(good_texts_become_trees),
        in_contexts(escaped_nul_keeps_the_length),
        in_contexts(bad_texts_are_refused_where_they_go_wrong),
        in_contexts(sentences_show_at_most_a_part_of_a_long_token),
        in_contexts(depth_is_bounded_exactly),
        in_contexts(many_brackets_are_not_depth),
        in_contexts(mutants_are_judged_as_by_jansson),
        in_contexts(a_spent_budget_never_yields_a_wrong_tree),
        in_contexts(a_budget_may_end_within_any_token),
        in_contexts(a_single_failed_allocation_never_yields_a_wrong_tree),
        in_contexts(a_refusal_before_reading_is_reported_too),
        in_contexts(a_freed_tree_leaves_nothing_outstanding),
        in_contexts(a_walk_frees_each_node_of_a_tree_and_the_reset_needs_none),
        in_contexts(only_the_newest_node_is_popped),
        in_contexts(another_context_frees_nothing),
        in_contexts(without_a_context_nodes_are_plain_malloc),
    };
    return choose_mode(argc, argv) ? cmocka_run_group_tests_name("reader", tests, NULL, NULL) : 2;
}
