/* JSON Patch: the examples of RFC 6902 and RFC 6901, every way to be malformed or impossible, and the
 * limits. */
#include "json_modes.h"

#include "../../handlers/patch.h"
#include "../../handlers/pointer.h"
#include "../../handlers/tree.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static patch_problem problem;
static json_t *body; /* {"doc": …, "patch": …} of the last patched */

static bool patched(const char *doc, const char *patch)
{
    static char text[512 * 1024];
    int size = snprintf(text, sizeof text, "{\"doc\":%s,\"patch\":%s}", doc, patch);
    assert_in_range(size, 1, sizeof text - 1);
    body = tree_of(text);
    memset(&problem, 0xAA, sizeof problem);
    return patch_apply(&scratch, body, "doc", json_object_get(body, "patch"), &problem);
}

static void end_body(void)
{
    json_bridge_release(body);
    mem_reset(&answers);
    mem_reset(&scratch);
}

static void assert_patched(const char *doc, const char *patch, const char *expected)
{
    if (!patched(doc, patch))
        fail_msg("%s: %s", patch, problem.detail);
    assert_int_equal(problem.status, PATCH_DONE);
    assert_tree(json_object_get(body, "doc"), expected);
    end_body();
}

static void assert_refused(const char *doc, const char *patch, patch_status status,
                           const char *where)
{
    if (patched(doc, patch))
        fail_msg("%s was applied", patch);
    if (problem.status != status || strcmp(problem.pointer, where) != 0)
        fail_msg("%s: status %d at \"%s\": %s", patch, problem.status, problem.pointer,
                 problem.detail);
    size_t length = strlen(problem.detail);
    assert_true(length > 10 && problem.detail[length - 1] == '.');
    json_t *detail = json_string(problem.detail);
    assert_non_null(detail); /* UTF-8 */
    json_bridge_release(detail);
    if (status == PATCH_MALFORMED)
        assert_tree(json_object_get(body, "doc"), doc);
    end_body();
}

/* ---- The examples of the RFCs ------------------------------------------------------------------ */

static void the_examples_of_the_rfc_come_out(void **state)
{
    (void)state;
    /* Appendix A: A.1 to A.7 */
    assert_patched("{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\"}]",
                   "{\"foo\":\"bar\",\"baz\":\"qux\"}");
    assert_patched("{\"foo\":[\"bar\",\"baz\"]}",
                   "[{\"op\":\"add\",\"path\":\"/foo/1\",\"value\":\"qux\"}]",
                   "{\"foo\":[\"bar\",\"qux\",\"baz\"]}");
    assert_patched("{\"baz\":\"qux\",\"foo\":\"bar\"}", "[{\"op\":\"remove\",\"path\":\"/baz\"}]",
                   "{\"foo\":\"bar\"}");
    assert_patched("{\"foo\":[\"bar\",\"qux\",\"baz\"]}",
                   "[{\"op\":\"remove\",\"path\":\"/foo/1\"}]", "{\"foo\":[\"bar\",\"baz\"]}");
    assert_patched("{\"baz\":\"qux\",\"foo\":\"bar\"}",
                   "[{\"op\":\"replace\",\"path\":\"/baz\",\"value\":\"boo\"}]",
                   "{\"baz\":\"boo\",\"foo\":\"bar\"}");
    assert_patched("{\"foo\":{\"bar\":\"baz\",\"waldo\":\"fred\"},\"qux\":{\"corge\":\"grault\"}}",
                   "[{\"op\":\"move\",\"from\":\"/foo/waldo\",\"path\":\"/qux/thud\"}]",
                   "{\"foo\":{\"bar\":\"baz\"},\"qux\":{\"corge\":\"grault\",\"thud\":\"fred\"}}");
    assert_patched("{\"foo\":[\"all\",\"grass\",\"cows\",\"eat\"]}",
                   "[{\"op\":\"move\",\"from\":\"/foo/1\",\"path\":\"/foo/3\"}]",
                   "{\"foo\":[\"all\",\"cows\",\"eat\",\"grass\"]}");
    /* A.8 to A.16 */
    assert_patched("{\"baz\":\"qux\",\"foo\":[\"a\",2,\"c\"]}",
                   "[{\"op\":\"test\",\"path\":\"/baz\",\"value\":\"qux\"},"
                   "{\"op\":\"test\",\"path\":\"/foo/1\",\"value\":2}]",
                   "{\"baz\":\"qux\",\"foo\":[\"a\",2,\"c\"]}");
    assert_refused("{\"baz\":\"qux\"}", "[{\"op\":\"test\",\"path\":\"/baz\",\"value\":\"bar\"}]",
                   PATCH_TEST_FAILED, "/0/value");
    assert_patched("{\"foo\":\"bar\"}",
                   "[{\"op\":\"add\",\"path\":\"/child\",\"value\":{\"grandchild\":{}}}]",
                   "{\"foo\":\"bar\",\"child\":{\"grandchild\":{}}}");
    assert_patched("{\"foo\":\"bar\"}",
                   "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\",\"xyz\":123}]",
                   "{\"foo\":\"bar\",\"baz\":\"qux\"}");
    assert_refused("{\"foo\":\"bar\"}",
                   "[{\"op\":\"add\",\"path\":\"/baz/bat\",\"value\":\"qux\"}]", PATCH_IMPOSSIBLE,
                   "/0/path");
    assert_patched("{\"/\":9,\"~1\":10}", "[{\"op\":\"test\",\"path\":\"/~01\",\"value\":10}]",
                   "{\"/\":9,\"~1\":10}");
    assert_refused("{\"/\":9,\"~1\":10}", "[{\"op\":\"test\",\"path\":\"/~01\",\"value\":\"10\"}]",
                   PATCH_TEST_FAILED, "/0/value");
    assert_patched("{\"foo\":[\"bar\"]}",
                   "[{\"op\":\"add\",\"path\":\"/foo/-\",\"value\":[\"abc\",\"def\"]}]",
                   "{\"foo\":[\"bar\",[\"abc\",\"def\"]]}");
}

/* RFC 6901, section 5. */
static void pointers_reach_every_kind_of_key(void **state)
{
    static const char doc[] =
        "{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,\"g|h\":4,"
        "\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8}";
    static const char *const cases[][2] = {
        {"/foo/0", "\"bar\""}, {"/", "0"},       {"/a~1b", "1"},   {"/c%d", "2"}, {"/e^f", "3"},
        {"/g|h", "4"},         {"/i\\\\j", "5"}, {"/k\\\"l", "6"}, {"/ ", "7"},   {"/m~0n", "8"},
    };
    char patch[200];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(patch, sizeof patch, "[{\"op\":\"test\",\"path\":\"%s\",\"value\":%s}]",
                 cases[i][0], cases[i][1]);
        assert_patched(doc, patch, doc);
    }
    assert_patched("{\"m~n\":{\"a/b\":1}}", "[{\"op\":\"remove\",\"path\":\"/m~0n/a~1b\"}]",
                   "{\"m~n\":{}}");
    assert_patched("{}", "[{\"op\":\"add\",\"path\":\"/~0~1~01\",\"value\":1}]", "{\"~/~1\":1}");

    char *encoded = pointer_encode(&scratch, "a~/b", 4);
    assert_string_equal(encoded, "/a~0~1b");
}

/* ---- Operations ------------------------------------------------------------------------------- */

static void the_root_is_a_place(void **state)
{
    (void)state;
    assert_patched("{\"a\":1}", "[{\"op\":\"add\",\"path\":\"\",\"value\":[1]}]", "[1]");
    assert_patched("{\"a\":1}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":null}]", "null");
    assert_patched("{\"a\":[7]}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"\"}]", "[7]");
    assert_patched("{\"a\":[7]}", "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"\"}]", "[7]");
    assert_patched("{\"a\":[]}", "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a/0\"}]",
                   "{\"a\":[{\"a\":[]}]}");
    assert_patched("5", "[{\"op\":\"test\",\"path\":\"\",\"value\":5}]", "5");
    assert_patched("5", "[{\"op\":\"move\",\"from\":\"\",\"path\":\"\"}]", "5");
    assert_patched("5", "[]", "5");
}

static void arrays_shift(void **state)
{
    (void)state;
    assert_patched("[1,2]", "[{\"op\":\"add\",\"path\":\"/2\",\"value\":3}]", "[1,2,3]");
    assert_patched("[1,2]", "[{\"op\":\"add\",\"path\":\"/0\",\"value\":3}]", "[3,1,2]");
    assert_patched("[1,2,3]", "[{\"op\":\"replace\",\"path\":\"/1\",\"value\":[]}]", "[1,[],3]");
    assert_patched("[1,2,3]", "[{\"op\":\"move\",\"from\":\"/0\",\"path\":\"/-\"}]", "[2,3,1]");
    assert_patched("[1,2,3]", "[{\"op\":\"move\",\"from\":\"/2\",\"path\":\"/0\"}]", "[3,1,2]");
    assert_patched("[1,2,3]", "[{\"op\":\"move\",\"from\":\"/1\",\"path\":\"/1\"}]", "[1,2,3]");
    /* After the move's removal, three elements make three places, not four. */
    assert_refused("[1,2,3]", "[{\"op\":\"move\",\"from\":\"/0\",\"path\":\"/3\"}]",
                   PATCH_IMPOSSIBLE, "/0/path");
}

static void replaced_members_keep_their_place(void **state)
{
    (void)state;
    assert_patched("{\"a\":1,\"b\":2,\"c\":3}",
                   "[{\"op\":\"replace\",\"path\":\"/b\",\"value\":9},"
                   "{\"op\":\"add\",\"path\":\"/a\",\"value\":8}]",
                   "{\"a\":8,\"b\":9,\"c\":3}");
}

static void no_operation_changes_two_places(void **state)
{
    (void)state;
    assert_patched("{\"a\":{\"n\":[1]}}",
                   "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"},"
                   "{\"op\":\"add\",\"path\":\"/b/n/-\",\"value\":2},"
                   "{\"op\":\"add\",\"path\":\"/c\",\"value\":{\"m\":[]}},"
                   "{\"op\":\"copy\",\"from\":\"/c\",\"path\":\"/d\"},"
                   "{\"op\":\"add\",\"path\":\"/c/m/0\",\"value\":3},"
                   "{\"op\":\"remove\",\"path\":\"/a/n\"}]",
                   "{\"a\":{},\"b\":{\"n\":[1,2]},\"c\":{\"m\":[3]},\"d\":{\"m\":[]}}");
}

static void every_kind_of_value_is_copied(void **state)
{
    (void)state;
    assert_patched(
        "{\"a\":{\"s\":\"x\\u0000y\",\"i\":-1,\"r\":1.5,\"t\":true,\"f\":false,\"n\":null,"
        "\"e\":[[],{}]}}",
        "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"},{\"op\":\"remove\",\"path\":\"/a\"}]",
        "{\"b\":{\"s\":\"x\\u0000y\",\"i\":-1,\"r\":1.5,\"t\":true,\"f\":false,\"n\":null,"
        "\"e\":[[],{}]}}");
}

static void test_compares_values_not_texts(void **state)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"1", "1.0", true},
        {"1.0", "1", true},
        {"-0.0", "0", true},
        {"1.5", "1", false},
        {"9007199254740993", "9007199254740992.0", false},
        {"9007199254740992", "9007199254740992.0", true},
        {"9223372036854775807", "9223372036854775808.0", false},
        {"-9223372036854775808", "-9223372036854775808.0", true},
        {"-9223372036854775808", "9223372036854775808.0", false},
        {"9223372036854775807", "1e300", false},
        {"1e2", "100", true},
        {"\"a\"", "\"\\u0061\"", true},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"\"1\"", "1", false},
        {"true", "false", false},
        {"null", "null", true},
        {"null", "false", false},
        {"[]", "{}", false},
        {"{\"a\":1,\"b\":[2]}", "{\"b\":[2.0],\"a\":1}", true},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1,2,3]", false},
    };
    char patch[200];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(patch, sizeof patch, "[{\"op\":\"test\",\"path\":\"\",\"value\":%s}]", cases[i].b);
        if (patched(cases[i].a, patch) != cases[i].equal)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
        assert_int_equal(problem.status, cases[i].equal ? PATCH_DONE : PATCH_TEST_FAILED);
        end_body();
    }
}

/* ---- Problems --------------------------------------------------------------------------------- */

static void malformed_patches_change_nothing(void **state)
{
    static const char *const cases[][2] = {
        {"{}", ""},
        {"null", ""},
        {"[1]", "/0"},
        {"[[]]", "/0"},
        {"[{}]", "/0/op"},
        {"[{\"op\":1,\"path\":\"\"}]", "/0/op"},
        {"[{\"op\":\"Add\",\"path\":\"\",\"value\":1}]", "/0/op"},
        {"[{\"op\":\"add\\u0000\",\"path\":\"\",\"value\":1}]", "/0/op"},
        {"[{\"op\":\"add\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":null,\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"a\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/a~\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/a~2\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/a\"}]", "/0/value"},
        {"[{\"op\":\"replace\",\"path\":\"/a\"}]", "/0/value"},
        {"[{\"op\":\"test\",\"path\":\"/a\"}]", "/0/value"},
        {"[{\"op\":\"move\",\"path\":\"/a\"}]", "/0/from"},
        {"[{\"op\":\"copy\",\"path\":\"/a\",\"from\":\"b\"}]", "/0/from"},
        /* The whole patch is looked at before the first operation is applied. */
        {"[{\"op\":\"add\",\"path\":\"/b\",\"value\":1},{\"op\":\"remove\"}]", "/1/path"},
        {"[{\"op\":\"test\",\"path\":\"/a\",\"value\":0},{\"op\":\"drop\",\"path\":\"/a\"}]",
         "/1/op"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused("{\"a\":1}", cases[i][0], PATCH_MALFORMED, cases[i][1]);
}

static void impossible_operations_are_refused(void **state)
{
    static const char doc[] = "{\"a\":[1,2],\"o\":{\"k\":{}},\"s\":\"text\"}";
    static const char *const cases[][2] = {
        {"[{\"op\":\"remove\",\"path\":\"/b\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/2\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/-\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/-1\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/01\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/1e0\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/18446744073709551616\"}]", "/0/path"},
        {"[{\"op\":\"remove\",\"path\":\"/a/92233720368547758081\"}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/a/3\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/a/x\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/s/0\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/x/y\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/a/-/x\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"add\",\"path\":\"/o/\\u0000\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"replace\",\"path\":\"/o/x\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"replace\",\"path\":\"/a/-\",\"value\":1}]", "/0/path"},
        {"[{\"op\":\"test\",\"path\":\"/o/x\",\"value\":null}]", "/0/path"},
        {"[{\"op\":\"move\",\"from\":\"/x\",\"path\":\"/y\"}]", "/0/from"},
        {"[{\"op\":\"move\",\"from\":\"/o\",\"path\":\"/o/k\"}]", "/0/path"},
        {"[{\"op\":\"move\",\"from\":\"/o\",\"path\":\"/o/k/x\"}]", "/0/path"},
        {"[{\"op\":\"move\",\"from\":\"\",\"path\":\"/o\"}]", "/0/path"},
        {"[{\"op\":\"move\",\"from\":\"/o/k\",\"path\":\"/x/y\"}]", "/0/path"},
        {"[{\"op\":\"copy\",\"from\":\"/a/2\",\"path\":\"/x\"}]", "/0/from"},
        {"[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/s/x\"}]", "/0/path"},
        {"[{\"op\":\"test\",\"path\":\"/a/0\",\"value\":1},{\"op\":\"remove\",\"path\":\"/z\"}]",
         "/1/path"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(doc, cases[i][0], PATCH_IMPOSSIBLE, cases[i][1]);
    /* A longer name is no child. */
    assert_patched("{\"a\":1,\"ab\":{}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/ab/x\"}]",
                   "{\"ab\":{\"x\":1}}");
}

static void long_pointers_are_shown_in_part(void **state)
{
    char patch[2000];
    struct text t = text_in(patch);
    (void)state;
    text_add(&t, "[{\"op\":\"remove\",\"path\":\"/");
    text_repeat(&t, "\xE2\x82\xAC", 300);
    text_add(&t, "\"}]");
    assert_refused("{}", patch, PATCH_IMPOSSIBLE, "/0/path");
    assert_true(strlen(problem.detail) < 200);
}

/* ---- Limits ------------------------------------------------------------------------------------ */

/* The same operation, many times. */
static char *repeated(const char *operation, size_t times)
{
    static char patch[256 * 1024];
    struct text t = text_in(patch);
    for (size_t i = 0; i < times; i++)
        text_add(&t, "%c%s", i ? ',' : '[', operation);
    text_add(&t, "]");
    return patch;
}

static void operations_are_counted(void **state)
{
    static const char operation[] = "{\"op\":\"test\",\"path\":\"\",\"value\":1}";
    (void)state;
    assert_patched("1", repeated(operation, PATCH_OPERATIONS_MAX), "1");
    assert_refused("1", repeated(operation, PATCH_OPERATIONS_MAX + 1), PATCH_LIMIT, "");
    assert_int_equal(problem.limit, PATCH_OPERATIONS_MAX);
}

static void copies_that_double_a_tree_end_soon(void **state)
{
    (void)state;
    /* 2, 4, 8, … values: the sixteenth operation would pass 100,000. */
    assert_refused("[]", repeated("{\"op\":\"copy\",\"from\":\"\",\"path\":\"/-\"}", 20),
                   PATCH_LIMIT, "/16");
    assert_int_equal(problem.limit, PATCH_COPIED_NODES_MAX);
    /* The same in bytes: 1,024 and twice as many each time. */
    char doc[1200];
    memset(doc, 'x', sizeof doc);
    memcpy(doc, "[\"", 2);
    memcpy(doc + 1026, "\"]", 3);
    assert_refused(doc, repeated("{\"op\":\"copy\",\"from\":\"\",\"path\":\"/-\"}", 20),
                   PATCH_LIMIT, "/10");
    assert_int_equal(problem.limit, PATCH_COPIED_BYTES_MAX);
    /* Keys are bytes too: 512 times 2,048 fit. */
    char with_key[2200] = "{\"a\":{\"";
    memset(with_key + 7, 'x', 2048);
    memcpy(with_key + 7 + 2048, "\":1}}", sizeof "\":1}}");
    assert_refused(with_key, repeated("{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"}", 600),
                   PATCH_LIMIT, "/512");
}

static void many_small_copies_fit(void **state)
{
    (void)state;
    assert_true(patched("{\"a\":[1,2,3]}",
                        repeated("{\"op\":\"copy\",\"from\":\"/a/0\",\"path\":\"/a/-\"}", 1000)));
    assert_int_equal(json_array_size(json_object_get(json_object_get(body, "doc"), "a")), 1003);
    end_body();
}

static void copies_that_double_the_depth_end_soon(void **state)
{
    static char patch[16 * 1024];
    struct text t = text_in(patch);
    (void)state;
    for (size_t i = 0, depth = 2; i < 11; i++, depth *= 2) {
        text_add(&t, "%c{\"op\":\"copy\",\"from\":\"\",\"path\":\"", i ? ',' : '[');
        text_repeat(&t, "/n", depth);
        text_add(&t, "\"}");
    }
    text_add(&t, "]");
    /* From two levels to four, eight, …, 1,024. */
    assert_refused("{\"n\":{}}", patch, PATCH_LIMIT, "/9");
    assert_int_equal(problem.limit, PATCH_DEPTH_MAX);
}

/* `levels` objects in each other, the innermost empty. */
static void chain(struct text *t, size_t levels)
{
    text_repeat(t, "{\"n\":", levels - 1);
    text_add(t, "{}");
    text_repeat(t, "}", levels - 1);
}

static void deep_values_are_added_up_to_the_limit(void **state)
{
    static char doc[16 * 1024], patch[16 * 1024];
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct text d = text_in(doc), p = text_in(patch);
        chain(&d, 900);
        text_add(&p, "[{\"op\":\"add\",\"path\":\"");
        text_repeat(&p, "/n", 900);
        text_add(&p, "\",\"value\":");
        chain(&p, PATCH_DEPTH_MAX - 900 + more);
        text_add(&p, "}]");
        if (more) {
            assert_refused(doc, patch, PATCH_LIMIT, "/0");
        } else {
            assert_true(patched(doc, patch));
            assert_int_equal(tree_depth(json_object_get(body, "doc")), PATCH_DEPTH_MAX);
            end_body();
        }
    }
}

static void moves_chain_up_to_the_limit(void **state)
{
    enum { CHAINS = 40, LEVELS = 60 };
    static char doc[32 * 1024], patch[128 * 1024];
    struct text d = text_in(doc), p = text_in(patch);
    (void)state;
    for (int i = 0; i < CHAINS; i++) {
        text_add(&d, "%c\"c%d\":", i ? ',' : '{', i);
        chain(&d, LEVELS);
    }
    text_add(&d, "}");
    for (int i = 1; i < CHAINS; i++) {
        text_add(&p, "%c{\"op\":\"move\",\"from\":\"/c%d\",\"path\":\"/c0", i > 1 ? ',' : '[', i);
        text_repeat(&p, "/n", LEVELS * (size_t)i);
        text_add(&p, "\"}");
    }
    text_add(&p, "]");
    /* One level, and 60 for each chain: 17 chains make 1,021. */
    assert_refused(doc, patch, PATCH_LIMIT, "/16");
    assert_int_equal(problem.limit, PATCH_DEPTH_MAX);
}

static void a_thousand_moves_of_a_flat_document_are_no_depth(void **state)
{
    static char doc[64 * 1024], patch[256 * 1024];
    struct text d = text_in(doc), p = text_in(patch);
    (void)state;
    for (int i = 0; i < 1000; i++)
        text_add(&d, "%c\"k%d\":%d", i ? ',' : '{', i, i);
    text_add(&d, ",\"x\":{\"y\":{\"z\":{}}}}");
    for (int i = 0; i < 1000; i++)
        text_add(&p, "%c{\"op\":\"move\",\"from\":\"/k%d\",\"path\":\"/x/y/z/k%d\"}", i ? ',' : '[',
                 i, i);
    text_add(&p, "]");
    assert_true(patched(doc, patch));
    assert_int_equal(tree_depth(json_object_get(body, "doc")), 4);
    end_body();
}

static void a_refused_allocation_is_reported(void **state)
{
    static const char doc[] = "{\"a\":[1,\"two\",{\"three\":3}],\"b~\":{}}";
    static const char patch[] = "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b~0/c\"},"
                                "{\"op\":\"add\",\"path\":\"/d\",\"value\":[1,2,3]},"
                                "{\"op\":\"move\",\"from\":\"/a/2\",\"path\":\"/e\"}]";
    size_t refused = 0, done = 0;
    (void)state;
    if (mode == MODE_MALLOC)
        skip(); /* jansson's memory is not the context's */
    for (size_t more = 0; more < 8192; more += 8) {
        char text[1000];
        snprintf(text, sizeof text, "{\"doc\":%s,\"patch\":%s}", doc, patch);
        body = tree_of(text);
        /* Fill the window, so that the budget is asked each time. */
        if (mode == MODE_ARENA)
            while (scratch.end - scratch.cur > 8)
                mem_alloc_aligned(&scratch, 8, 8);
        scratch_budget.limit = scratch_budget.used + more;
        if (patch_apply(&scratch, body, "doc", json_object_get(body, "patch"), &problem)) {
            done++;
            assert_tree(json_object_get(body, "doc"),
                        "{\"a\":[1,\"two\"],\"b~\":{\"c\":[1,\"two\",{\"three\":3}]},\"d\":[1,2,3],"
                        "\"e\":{\"three\":3}}");
        } else {
            refused++;
            assert_int_equal(problem.status, PATCH_MEMORY);
        }
        end_body();
        mem_budget_init(&scratch_budget, 0, NULL);
    }
    assert_true(refused > 0 && done > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_contexts(the_examples_of_the_rfc_come_out),
        in_contexts(pointers_reach_every_kind_of_key),
        in_contexts(the_root_is_a_place),
        in_contexts(arrays_shift),
        in_contexts(replaced_members_keep_their_place),
        in_contexts(no_operation_changes_two_places),
        in_contexts(every_kind_of_value_is_copied),
        in_contexts(test_compares_values_not_texts),
        in_contexts(malformed_patches_change_nothing),
        in_contexts(impossible_operations_are_refused),
        in_contexts(long_pointers_are_shown_in_part),
        in_contexts(operations_are_counted),
        in_contexts(copies_that_double_a_tree_end_soon),
        in_contexts(many_small_copies_fit),
        in_contexts(copies_that_double_the_depth_end_soon),
        in_contexts(deep_values_are_added_up_to_the_limit),
        in_contexts(moves_chain_up_to_the_limit),
        in_contexts(a_thousand_moves_of_a_flat_document_are_no_depth),
        in_contexts(a_refused_allocation_is_reported),
    };
    return choose_mode(argc, argv) ? cmocka_run_group_tests_name("patch", tests, NULL, NULL) : 2;
}
