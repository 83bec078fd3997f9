/* The JSON writer: its text is checked against expectations in words, against a slow escaper, and
 * by reading it back. */
#include "json_modes.h"

#include <math.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static json_writer w;

static void start(unsigned max_depth, bool pretty)
{
    json_writer_init(&w, &answers, 0, max_depth, pretty);
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static void trees_are_written_without_spaces_in_order(void **state)
{
    static const char *const same[] = {
        "null",
        "true",
        "false",
        "0",
        "\"\"",
        "[]",
        "{}",
        "[[],{},[[]]]",
        "{\"z\":1,\"a\":2,\"m\":[3,{\"y\":null}],\"b\":{}}",
        "[1.5,-0.0,1e+21,-7,\"a\"]",
        "{\"\":{\"\":{}}}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(same); i++) {
        json_t *tree = tree_of(same[i]);
        assert_tree(tree, same[i]);
        json_bridge_release(tree);
    }
}

static void members_stay_in_order_after_changes(void **state)
{
    (void)state;
    json_t *tree = tree_of("{\"a\":1,\"b\":2,\"c\":3}");
    json_object_set_new(tree, "b", json_integer(20));
    json_object_del(tree, "a");
    json_object_set_new(tree, "a", json_integer(10));
    assert_tree(tree, "{\"b\":20,\"c\":3,\"a\":10}");
    json_bridge_release(tree);
}

static void pretty_text_has_two_spaces_a_level(void **state)
{
    (void)state;
    json_t *tree = tree_of("{\"a\":[1,{\"b\":[]},[]],\"c\":{},\"d\":\"x\"}");
    start(10, true);
    json_write_tree(&w, tree);
    assert_written(&w, "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    },\n    []\n  ],\n"
                       "  \"c\": {},\n  \"d\": \"x\"\n}");
    json_bridge_release(tree);
}

static void long_output_grows_the_buffer(void **state)
{
    (void)state;
    json_t *tree = json_array();
    for (int i = 0; i < 200000; i++)
        json_array_append_new(tree, i % 3 ? json_integer(i) : json_string("some \"quoted\" text"));
    start(1, false);
    json_write_tree(&w, tree);
    assert_int_equal(w.failed, JSON_WRITE_OK);
    json_read_problem problem;
    json_t *again = json_read(w.text, w.length, 1, &problem);
    assert_true(json_equal(tree, again));
    json_bridge_release(again);
    json_bridge_release(tree);
}

static void a_right_guess_needs_no_growth(void **state)
{
    (void)state;
    json_t *tree =
        tree_of("[\"0123456789012345678901234567890123456789\",[1,2,3],{\"a\":\"b\\n\"}]");
    json_writer_init(&w, &answers, 64, 10, false);
    json_write_null(&w);
    w.length = 0;
    const char *text = w.text;
    size_t capacity = w.capacity;
    json_write_tree(&w, tree);
    assert_int_equal(w.length, 64);
    assert_ptr_equal(w.text, text);
    assert_int_equal(w.capacity, capacity);
    json_bridge_release(tree);
}

static void real_documents_read_back_equal(void **state)
{
    static const char *const files[] = {"iso_3166-1.json", "iso_639-2.json", "iso_15924.json"};
    static char text[128 * 1024];
    size_t found = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[100];
        snprintf(path, sizeof path, "/usr/share/iso-codes/json/%s", files[i]);
        FILE *f = fopen(path, "rb");
        if (!f)
            continue;
        found++;
        size_t size = fread(text, 1, sizeof text, f);
        fclose(f);
        json_read_problem problem;
        json_t *tree = json_read(text, size, 10, &problem);
        assert_non_null(tree);
        for (int pretty = 0; pretty < 2; pretty++) {
            start(10, pretty);
            json_write_tree(&w, tree);
            json_t *again = json_read(w.text, w.length, 10, &problem);
            assert_true(json_equal(tree, again));
            json_bridge_release(again);
        }
        json_bridge_release(tree);
    }
    if (!found)
        skip();
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* The slow way, character by character. */
static size_t escape(const char *text, size_t size, char *out, size_t room)
{
    static const char named[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    struct text t = {out, out + room};
    text_add(&t, "\"");
    for (size_t i = 0; i < size; i++) {
        const char *name = text[i] ? strchr(named, text[i]) : NULL;
        if (name)
            text_add(&t, "\\%c", letters[name - named]);
        else if ((unsigned char)text[i] < 0x20)
            text_add(&t, "\\u%04x", (unsigned)text[i]);
        else
            text_add(&t, "%c", text[i]);
    }
    text_add(&t, "\"");
    return (size_t)(t.at - out);
}

static void assert_escaped(const char *text, size_t size)
{
    char expected[1024];
    size_t length = escape(text, size, expected, sizeof expected);
    /* An exact copy, so that the sanitizers see a byte read too many. */
    char *exact = malloc(size ? size : 1);
    memcpy(exact, text, size);

    start(1, false);
    json_write_string(&w, exact, size);
    assert_int_equal(w.failed, JSON_WRITE_OK);
    assert_int_equal(w.length, length);
    assert_memory_equal(w.text, expected, length);

    json_t *tree = json_stringn(exact, size);
    start(1, false);
    json_write_tree(&w, tree);
    assert_int_equal(w.length, length);
    assert_memory_equal(w.text, expected, length);
    json_bridge_release(tree);
    free(exact);
}

static void every_character_is_escaped_as_shortly_as_possible(void **state)
{
    (void)state;
    assert_int_equal(escape("\b\f\n\r\t\"\\\x01/\x7f", 10, (char[64]){0}, 64), 24);
    for (int c = 0; c < 128; c++) {
        for (size_t size = 1; size <= 26; size++) {
            for (size_t position = 0; position < size; position++) {
                char text[32];
                memset(text, 'x', size);
                text[position] = (char)c;
                assert_escaped(text, size);
            }
        }
        mem_reset(&answers);
    }
}

static void strings_of_escapes_only_fit(void **state)
{
    char text[100];
    (void)state;
    memset(text, 1, sizeof text);
    for (size_t size = 0; size <= sizeof text; size++)
        assert_escaped(text, size);
}

static void other_characters_stand_for_themselves(void **state)
{
    static const char text[] = "/\x7f h\xC3\xA9llo \xE2\x82\xAC \xF0\x9F\x98\x80";
    (void)state;
    assert_escaped(text, sizeof text - 1);
}

/* What becomes of `text` with so many letters around it. */
static json_write_status written_between(const char *text, size_t before, size_t after)
{
    char all[48];
    size_t length = strlen(text);
    memset(all, 'x', sizeof all);
    memcpy(all + before, text, length);
    start(1, false);
    json_write_string(&w, all, before + length + after);
    return w.failed;
}

static void invalid_utf8_is_refused(void **state)
{
    static const char *const bad[] = {
        "\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xC3",         "\xE2\x82",         "\xF0\x9F\x98",     "\xC3(",
        "\xFF",         "\xE2\x82(",        "\xF0\x9F\x98(",
    };
    static const char *const good[] = {
        "\xC2\x80",     "\xDF\xBF",         "\xE0\xA0\x80",     "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF",
    };
    (void)state;
    for (size_t before = 0; before < 18; before++) {
        for (size_t after = 0; after < 18; after++) {
            for (size_t i = 0; i < COUNT(bad); i++)
                assert_int_equal(written_between(bad[i], before, after), JSON_WRITE_VALUE);
            for (size_t i = 0; i < COUNT(good); i++)
                assert_int_equal(written_between(good[i], before, after), JSON_WRITE_OK);
        }
    }
    start(1, false);
    json_write_begin_object(&w);
    json_write_key(&w, "\xFF", 1);
    assert_int_equal(w.failed, JSON_WRITE_VALUE);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void assert_integer(int64_t value)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%lld", (long long)value);
    start(1, false);
    json_write_integer(&w, value);
    assert_written(&w, expected);
}

static void integers_of_every_length_are_written(void **state)
{
    (void)state;
    for (int bits = 0; bits < 63; bits++) {
        int64_t power = INT64_C(1) << bits;
        for (int64_t n = power - 1; n <= power + 1; n++) {
            assert_integer(n);
            assert_integer(-n);
        }
    }
    int64_t power = 1;
    for (int digits = 1; digits <= 18; digits++, power *= 10) {
        for (int64_t n = power - 1; n <= power + 1; n++) {
            assert_integer(n);
            assert_integer(-n);
        }
    }
    assert_integer(INT64_MAX);
    assert_integer(INT64_MIN);
    for (int64_t n = 0; n < 20000; n++)
        assert_integer(n);
}

static void reals_that_json_cannot_say_are_refused(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        start(1, false);
        json_write_real(&w, bad[i]);
        assert_int_equal(w.failed, JSON_WRITE_VALUE);
    }
    start(1, false);
    json_write_real(&w, 7.6);
    assert_written(&w, "7.6");
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void write_everything(void)
{
    json_t *tree = tree_of("{\"deep\":[1,{}]}");
    json_write_begin_object(&w);
    json_write_literal_key(&w, "rows");
    json_write_begin_array(&w);
    for (int i = 0; i < 2; i++) {
        json_write_begin_object(&w);
        json_write_literal_key(&w, "id");
        json_write_integer(&w, i);
        json_write_literal_key(&w, "k\n");
        json_write_literal(&w, "v\t");
        json_write_end_object(&w);
    }
    json_write_begin_array(&w);
    json_write_end_array(&w);
    json_write_tree(&w, tree);
    json_write_bool(&w, true);
    json_write_end_array(&w);
    json_write_literal_key(&w, "tree");
    json_write_tree(&w, tree);
    json_write_literal_key(&w, "raw");
    json_write_raw(&w, "[ 1 ]", 5);
    json_write_literal_key(&w, "none");
    json_write_null(&w);
    json_write_literal_key(&w, "real");
    json_write_real(&w, 0.5);
    json_write_literal_key(&w, "no");
    json_write_bool(&w, false);
    json_write_literal_key(&w, "empty");
    json_write_begin_object(&w);
    json_write_end_object(&w);
    json_write_end_object(&w);
    json_bridge_release(tree);
}

static void rows_and_trees_mix(void **state)
{
    (void)state;
    start(5, false);
    write_everything();
    assert_written(&w, "{\"rows\":[{\"id\":0,\"k\\n\":\"v\\t\"},{\"id\":1,\"k\\n\":\"v\\t\"},[],"
                       "{\"deep\":[1,{}]},true],\"tree\":{\"deep\":[1,{}]},\"raw\":[ 1 ],"
                       "\"none\":null,\"real\":0.5,\"no\":false,\"empty\":{}}");
}

static void pretty_rows_look_like_a_pretty_tree(void **state)
{
    (void)state;
    start(5, true);
    write_everything();
    json_writer rows = w;
    json_read_problem problem;
    json_t *tree = json_read(rows.text, rows.length, 5, &problem);
    assert_non_null(tree);
    /* The one difference: raw text stays as it is. */
    json_object_set_new(tree, "raw", json_string("@"));
    start(5, true);
    json_write_tree(&w, tree);
    const char *at = memmem(w.text, w.length, "\"@\"", 3);
    assert_non_null(at);
    size_t before = (size_t)(at - w.text), behind = w.length - before - 3;
    assert_int_equal(rows.length, before + 5 + behind);
    assert_memory_equal(rows.text, w.text, before);
    assert_memory_equal(rows.text + before, "[ 1 ]", 5);
    assert_memory_equal(rows.text + before + 5, at + 3, behind);
    json_bridge_release(tree);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void depth_is_bounded_exactly(void **state)
{
    static const struct {
        const char *text;
        unsigned depth;
    } cases[] = {{"1", 0},    {"[]", 1},         {"{}", 1},
                 {"[[]]", 2}, {"{\"a\":[]}", 2}, {"[[1],[[2]]]", 3}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *tree = tree_of(cases[i].text);
        for (unsigned limit = 0; limit < 5; limit++) {
            start(limit, i % 2);
            json_write_tree(&w, tree);
            assert_int_equal(w.failed, limit < cases[i].depth ? JSON_WRITE_DEPTH : JSON_WRITE_OK);
        }
        /* What is open already counts. */
        start(cases[i].depth + 1, false);
        json_write_begin_array(&w);
        json_write_tree(&w, tree);
        json_write_end_array(&w);
        assert_int_equal(w.failed, JSON_WRITE_OK);
        start(cases[i].depth, false);
        json_write_begin_array(&w);
        json_write_tree(&w, tree);
        assert_int_equal(w.failed, JSON_WRITE_DEPTH);
        json_bridge_release(tree);
    }
    start(2, false);
    for (int i = 0; i < 3; i++)
        json_write_begin_array(&w);
    assert_int_equal(w.failed, JSON_WRITE_DEPTH);
}

static void a_cycle_ends_as_too_deep(void **state)
{
    (void)state;
    json_t *array = json_array(), *object = json_object();
    json_object_set_new(object, "array", array);
    json_array_append(array, object);
    start(UINT32_MAX, false);
    json_write_tree(&w, object);
    assert_int_equal(w.failed, JSON_WRITE_DEPTH);
    json_array_clear(array);
    json_bridge_release(object);
}

static void a_failure_sticks(void **state)
{
    (void)state;
    start(2, false);
    json_write_begin_array(&w);
    json_write_integer(&w, 1);
    json_write_real(&w, NAN);
    json_writer before = w;
    json_write_integer(&w, 2);
    json_write_begin_object(&w);
    json_write_literal_key(&w, "k");
    json_write_literal(&w, "v");
    json_write_end_object(&w);
    json_write_end_array(&w);
    assert_int_equal(w.failed, JSON_WRITE_VALUE);
    assert_int_equal(w.length, before.length);
    start(2, false);
    json_write_tree(&w, NULL);
    assert_int_equal(w.failed, JSON_WRITE_VALUE);
}

static void a_refused_growth_is_reported(void **state)
{
    mem_context small;
    mem_budget limit;
    (void)state;
    json_t *tree = json_array();
    for (int i = 0; i < 20000; i++)
        json_array_append_new(tree, json_string("a string"));
    for (size_t kilobytes = 1; kilobytes <= 1024; kilobytes *= 2) {
        init_context(&small, "small");
        mem_budget_init(&limit, kilobytes * 1024, NULL);
        mem_set_budget(&small, &limit);
        json_writer_init(&w, &small, 0, 1, false);
        json_write_tree(&w, tree);
        assert_int_equal(w.failed, kilobytes < 256     ? JSON_WRITE_MEMORY
                                   : kilobytes == 1024 ? JSON_WRITE_OK
                                                       : w.failed);
        if (w.failed == JSON_WRITE_OK)
            assert_int_equal(w.length, 20000 * 11 + 1);
        mem_delete(&small);
    }
    json_writer_init(&w, &answers, SIZE_MAX, 1, false);
    json_write_tree(&w, tree);
    assert_int_equal(w.failed, JSON_WRITE_OK); /* a guess that cannot be kept is no failure */
    json_bridge_release(tree);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_contexts(trees_are_written_without_spaces_in_order),
        in_contexts(members_stay_in_order_after_changes),
        in_contexts(pretty_text_has_two_spaces_a_level),
        in_contexts(long_output_grows_the_buffer),
        in_contexts(a_right_guess_needs_no_growth),
        in_contexts(real_documents_read_back_equal),
        in_contexts(every_character_is_escaped_as_shortly_as_possible),
        in_contexts(strings_of_escapes_only_fit),
        in_contexts(other_characters_stand_for_themselves),
        in_contexts(invalid_utf8_is_refused),
        in_contexts(integers_of_every_length_are_written),
        in_contexts(reals_that_json_cannot_say_are_refused),
        in_contexts(rows_and_trees_mix),
        in_contexts(pretty_rows_look_like_a_pretty_tree),
        in_contexts(depth_is_bounded_exactly),
        in_contexts(a_cycle_ends_as_too_deep),
        in_contexts(a_failure_sticks),
        in_contexts(a_refused_growth_is_reported),
    };
    return choose_mode(argc, argv) ? cmocka_run_group_tests_name("writer", tests, NULL, NULL) : 2;
}
