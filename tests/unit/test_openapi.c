/* The description and the route tables: that they agree, and that every way not to is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../handlers/builtin.h"
#include "../../handlers/openapi.h"

static slate_result nothing(slate_request *req)
{
    (void)req;
    return SLATE_ANSWERED;
}

static const slate_route routes[] = {
    {.path = "/things/{id}",
     .on = {[SLATE_GET] = nothing, [SLATE_PATCH] = nothing},
     .consumes[SLATE_PATCH] = "application/a, application/b",
     .summary = "Things."},
    {.path = NULL},
};
static const slate_module module = {.name = "things", .routes = routes};
static const slate_module without_routes = {.name = "none"};
static const slate_module *const modules[] = {&without_routes, &module, NULL};

#define DOCUMENT(things, more)                                   \
    "{\"info\":{},\"paths\":{\"/things/{id}\":{" things "}" more \
    "},\"components\":{\"parameters\":{\"id\":{}}}}"
#define BODY(types) "\"patch\":{\"requestBody\":{\"content\":{" types "}}}"
#define GOOD "\"get\":{}," BODY("\"application/a\":{},\"application/b\":{}")

static json_t *build(const char *text, char error[static OPENAPI_ERROR_MAX])
{
    *error = '\0';
    return openapi_build(text, strlen(text), modules, error);
}

static void the_program_is_described(void **state)
{
    char error[OPENAPI_ERROR_MAX] = "";
    (void)state;
    json_t *document = openapi_build(openapi_text, openapi_text_size, builtin_modules, error);
    assert_string_equal(error, "");
    assert_non_null(document);
    json_decref(document);
}

static void a_path_gets_summary_and_parameters(void **state)
{
    char error[OPENAPI_ERROR_MAX];
    (void)state;
    json_t *document = build(DOCUMENT(GOOD, ""), error);
    assert_string_equal(error, "");
    json_t *item = json_object_get(json_object_get(document, "paths"), "/things/{id}");
    assert_string_equal(json_string_value(json_object_get(item, "summary")), "Things.");
    const json_t *parameter = json_array_get(json_object_get(item, "parameters"), 0);
    assert_string_equal(json_string_value(json_object_get(parameter, "$ref")),
                        "#/components/parameters/id");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(document, "info"), "version")),
        SLATE_VERSION);
    json_decref(document);
}

static void every_disagreement_is_an_error(void **state)
{
    static const char *const texts[] = {
        "{",
        "{}",
        "{\"paths\":{}}",
        /* A method too few or too many, a path too many, a body too few or too many, a parameter. */
        DOCUMENT("\"get\":{}", ""),
        DOCUMENT(GOOD ",\"put\":{}", ""),
        DOCUMENT(GOOD, ",\"/other\":{\"get\":{}}"),
        DOCUMENT("\"get\":{}," BODY("\"application/a\":{}"), ""),
        DOCUMENT("\"get\":{}," BODY("\"application/a\":{},\"application/c\":{}"), ""),
        DOCUMENT(
            "\"get\":{}," BODY("\"application/a\":{},\"application/b\":{},\"application/c\":{}"),
            ""),
        DOCUMENT("\"get\":{\"requestBody\":{\"content\":{\"application/a\":{}}}}," BODY(
                     "\"application/a\":{},\"application/b\":{}"),
                 ""),
        "{\"info\":{},\"paths\":{\"/things/{id}\":{" GOOD "}},\"components\":{}}",
        "{\"paths\":{\"/things/{id}\":{" GOOD "}},\"components\":{\"parameters\":{\"id\":{}}}}",
    };
    char error[OPENAPI_ERROR_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (build(texts[i], error))
            fail_msg("%s was taken", texts[i]);
        assert_non_null(strstr(error, "openapi.json"));
    }
}

/* ---- What openapi.json does not describe -------------------------------------------------------- */

#define EMPTY "{\"info\":{},\"tags\":[],\"paths\":{},\"components\":{}}"

static json_t *build_with_plugin(char error[static OPENAPI_ERROR_MAX])
{
    static const slate_module *const none[] = {&without_routes, NULL};
    json_t *document = openapi_build(EMPTY, sizeof EMPTY - 1, none, error);
    if (document && openapi_add(document, &module, error))
        return document;
    json_decref(document);
    return NULL;
}

static void a_plugin_is_described_by_its_table(void **state)
{
    static const char expected[] =
        "{\"summary\":\"Things.\",\"parameters\":[{\"name\":\"id\",\"in\":\"path\","
        "\"required\":true,\"schema\":{\"type\":\"string\"}}],"
        "\"get\":{\"tags\":[\"things\"],\"responses\":{\"2XX\":{\"description\":"
        "\"As the summary says.\"},\"default\":{\"$ref\":\"#/components/responses/Problem\"}}},"
        "\"patch\":{\"tags\":[\"things\"],\"responses\":{\"2XX\":{\"description\":"
        "\"As the summary says.\"},\"default\":{\"$ref\":\"#/components/responses/Problem\"}},"
        "\"requestBody\":{\"required\":true,\"content\":"
        "{\"application/a\":{},\"application/b\":{}}}}}";
    char error[OPENAPI_ERROR_MAX] = "";
    (void)state;
    json_t *document = build_with_plugin(error);
    assert_string_equal(error, "");
    json_t *item = json_loads(expected, 0, NULL);
    assert_true(
        json_equal(json_object_get(json_object_get(document, "paths"), "/things/{id}"), item));
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(document, "tags"), 0), "name")),
                        "things");
    json_decref(item);
    json_decref(document);
}

/* How many allocations are granted before one is refused; all later ones are granted again. */
static unsigned granted;

static void *refuse_one(size_t size)
{
    return granted-- == 0 ? NULL : malloc(size);
}

static void want_of_memory_is_an_error(void **state)
{
    json_t *document = NULL;
    unsigned refusals = 0;
    (void)state;
    for (; !document; refusals++) {
        char error[OPENAPI_ERROR_MAX];
        json_set_alloc_funcs(refuse_one, free);
        granted = refusals;
        document = build(DOCUMENT(GOOD, ""), error);
        json_set_alloc_funcs(malloc, free);
        assert_true(document || *error);
    }
    assert_true(refusals > 20);
    const json_t *item = json_object_get(json_object_get(document, "paths"), "/things/{id}");
    assert_int_equal(json_array_size(json_object_get(item, "parameters")), 1);
    json_decref(document);
}

static void want_of_memory_for_a_plugin_is_an_error(void **state)
{
    json_t *document = NULL;
    unsigned refusals = 0;
    (void)state;
    for (; !document; refusals++) {
        char error[OPENAPI_ERROR_MAX] = "";
        json_set_alloc_funcs(refuse_one, free);
        granted = refusals;
        document = build_with_plugin(error);
        json_set_alloc_funcs(malloc, free);
        assert_true(document || *error);
    }
    assert_true(refusals > 60);
    const json_t *item = json_object_get(json_object_get(document, "paths"), "/things/{id}");
    assert_int_equal(json_object_size(item), 4);
    assert_int_equal(
        json_object_size(json_object_get(
            json_object_get(json_object_get(item, "patch"), "requestBody"), "content")),
        2);
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_is_described),
        cmocka_unit_test(a_path_gets_summary_and_parameters),
        cmocka_unit_test(every_disagreement_is_an_error),
        cmocka_unit_test(a_plugin_is_described_by_its_table),
        cmocka_unit_test(want_of_memory_is_an_error),
        cmocka_unit_test(want_of_memory_for_a_plugin_is_an_error),
    };
    return cmocka_run_group_tests_name("openapi", tests, NULL, NULL);
}
