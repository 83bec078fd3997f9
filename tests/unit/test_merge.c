/* JSON Merge Patch: the examples of RFC 7396, and what moving values instead of copying them could
 * break. */
#include "json_modes.h"

#include "../../handlers/merge.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_merged(const char *doc, const char *patch, const char *expected)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"doc\":%s,\"patch\":%s}", doc, patch);
    json_t *body = tree_of(text);
    assert_true(merge_apply(body, "doc", json_object_get(body, "patch")));
    assert_tree(json_object_get(body, "doc"), expected);
    json_bridge_release(body);
}

/* Appendix A, in its order. */
static void the_examples_of_the_rfc_come_out(void **state)
{
    static const char *const cases[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_merged(cases[i][0], cases[i][1], cases[i][2]);
    /* Section 3. */
    assert_merged(
        "{\"title\":\"Goodbye!\",\"author\":{\"givenName\":\"John\",\"familyName\":\"Doe\"},"
        "\"tags\":[\"example\",\"sample\"],\"content\":\"This will be unchanged\"}",
        "{\"title\":\"Hello!\",\"phoneNumber\":\"+01-123-456-7890\","
        "\"author\":{\"familyName\":null},\"tags\":[\"example\"]}",
        "{\"title\":\"Hello!\",\"author\":{\"givenName\":\"John\"},\"tags\":[\"example\"],"
        "\"content\":\"This will be unchanged\",\"phoneNumber\":\"+01-123-456-7890\"}");
}

static void nulls_vanish_from_new_objects_but_not_from_arrays(void **state)
{
    (void)state;
    assert_merged("{\"a\":1}", "{\"a\":{\"x\":null,\"y\":{\"z\":null,\"w\":0},\"v\":null}}",
                  "{\"a\":{\"y\":{\"w\":0}}}");
    assert_merged("{}", "{\"a\":[null,{\"b\":null}]}", "{\"a\":[null,{\"b\":null}]}");
    assert_merged("1", "{\"a\":null,\"b\":{\"c\":null}}", "{\"b\":{}}");
    assert_merged("{\"a\":{\"b\":null}}", "{\"a\":{\"c\":1}}", "{\"a\":{\"b\":null,\"c\":1}}");
}

static void members_keep_their_order(void **state)
{
    (void)state;
    assert_merged("{\"a\":1,\"b\":2,\"c\":3}", "{\"d\":4,\"b\":5,\"a\":null}",
                  "{\"b\":5,\"c\":3,\"d\":4}");
}

static void nest(struct text *t, const char *innermost)
{
    text_repeat(t, "{\"a\":", 200);
    text_add(t, "%s", innermost);
    text_repeat(t, "}", 200);
}

static void deep_patches_merge(void **state)
{
    char doc[2000], patch[2000], expected[2000];
    (void)state;
    nest(&text_in(doc), "{\"x\":1}");
    nest(&text_in(patch), "{\"y\":2}");
    nest(&text_in(expected), "{\"x\":1,\"y\":2}");
    assert_merged(doc, patch, expected);
}

static void a_refused_allocation_is_reported(void **state)
{
    char patch[2048], text[4096];
    size_t refused = 0;
    (void)state;
    if (mode == MODE_MALLOC)
        skip(); /* jansson's memory is not the context's */
    struct text t = text_in(patch);
    for (int i = 0; i < 100; i++)
        text_add(&t, "%c\"m%d\":%d", i ? ',' : '{', i, i);
    text_add(&t, "}");
    snprintf(text, sizeof text, "{\"doc\":{},\"patch\":%s}", patch);
    for (size_t more = 1; more < 64 * 1024; more += 512) {
        json_t *body = tree_of(text);
        scratch_budget.limit = scratch_budget.used + more;
        if (!merge_apply(body, "doc", json_object_get(body, "patch")))
            refused++;
        else
            assert_tree(json_object_get(body, "doc"), patch);
        json_bridge_release(body);
        mem_reset(&scratch);
        mem_budget_init(&scratch_budget, 0, NULL);
    }
    assert_in_range(refused, 1, 60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_contexts(the_examples_of_the_rfc_come_out),
        in_contexts(nulls_vanish_from_new_objects_but_not_from_arrays),
        in_contexts(members_keep_their_order),
        in_contexts(deep_patches_merge),
        in_contexts(a_refused_allocation_is_reported),
    };
    return choose_mode(argc, argv) ? cmocka_run_group_tests_name("merge", tests, NULL, NULL) : 2;
}
