/* The router: which route a path finds, what its parameters say, and what stands in Allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../server/internal.h"
#include "../../server/log.h"

static slate_result nothing(slate_request *req)
{
    (void)req;
    return SLATE_ANSWERED;
}

static const slate_route table[] = {
    {.path = "/json", .on = {[SLATE_GET] = nothing}},
    {.path = "/db/{collection}", .on = {[SLATE_GET] = nothing, [SLATE_POST] = nothing}},
    {.path = "/db/{collection}/{id}", .on = {[SLATE_PUT] = nothing, [SLATE_DELETE] = nothing}},
    {.path = "/db/all", .on = {[SLATE_GET] = nothing}},
    {.path = "/", .on = {[SLATE_GET] = nothing}},
    {0},
};

static router *create(const slate_route *routes)
{
    const slate_module first = {.name = "first"}, second = {.name = "second", .routes = routes};
    return router_create((const slate_module *const[]){&first, &second, NULL});
}

struct fixture {
    router *routes;
    mem_context heap;
};

static int set_up(void **state)
{
    static struct fixture f;
    f.routes = create(table);
    mem_heap_init(&f.heap, NULL, "test");
    *state = &f;
    return f.routes ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    mem_delete(&f->heap);
    free(f->routes);
    return 0;
}

/* The template that `path` finds, or NULL; parameters as "a|b" into `ret_params`. */
static const char *find(struct fixture *f, const char *path, char ret_params[64])
{
    const char *params[ROUTE_PARAMS] = {0};
    const route *found = router_match(f->routes, path, &f->heap, params, ROUTE_PARAMS);
    snprintf(ret_params, 64, "%s|%s", params[0] ? params[0] : "", params[1] ? params[1] : "");
    return found ? found->is->path : NULL;
}

static void paths_find_their_route(void **state)
{
    static const struct {
        const char *path, *route, *params;
    } rows[] = {
        {"/json", "/json", "|"},
        {"/%6Ason", "/json", "|"},
        {"/", "/", "|"},
        {"/db/people", "/db/{collection}", "people|"},
        {"/db/all", "/db/all", "|"}, /* the plain path wins over the parameter */
        {"/db/people/7", "/db/{collection}/{id}", "people|7"},
        {"/db/a%2Fb/c%20d", "/db/{collection}/{id}", "a/b|c d"}, /* decoded after the split */
        {"/db/a+b/7", "/db/{collection}/{id}", "a+b|7"},         /* a plus is a plus in a path */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char params[64];
        const char *found = find(*state, rows[i].path, params);
        assert_non_null(found);
        assert_string_equal(found, rows[i].route);
        assert_string_equal(params, rows[i].params);
    }
}

static void other_paths_find_nothing(void **state)
{
    static const char *const paths[] = {
        "",          "json",        "/json/", "//json",       "/jso",    "/jsonx",   "/db",
        "/db/",      "/db//7",      "/db/a/", "/db/a/7/more", "/%6aso",  "/js%6Fn/", "*",
        "/db/a%00b", "/db/a%2/b%z", "/JSON",  "/db/a/7/",     "/%2Fjson"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char params[64];
        assert_null(find(*state, paths[i], params));
    }
}

static void allow_follows_from_the_table(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(f->routes->routes[0].allow, "GET, HEAD, OPTIONS");
    assert_string_equal(f->routes->routes[1].allow, "GET, HEAD, POST, OPTIONS");
    assert_string_equal(f->routes->routes[2].allow, "PUT, DELETE, OPTIONS");
}

static void wrong_tables_are_refused(void **state)
{
    (void)state;
    const slate_route relative[] = {{.path = "json", .on = {nothing}}, {0}};
    const slate_route deep[] = {{.path = "/1/2/3/4/5/6/7/8/9", .on = {nothing}}, {0}};
    const slate_route greedy[] = {{.path = "/{a}/{b}/{c}/{d}/{e}", .on = {nothing}}, {0}};
    const slate_route mute[] = {{.path = "/json"}, {0}};
    log_set_level(LOG_ERROR);
    assert_null(create(relative));
    assert_null(create(deep));
    assert_null(create(greedy));
    assert_null(create(mute));
    static const char *const braces[] = {"/q/{",  "/q/}",    "/q/{}",    "/{a}b",
                                         "/b{a}", "/{a}{b}", "/{{a}}/b", "/a/{b/c}"};
    for (size_t i = 0; i < sizeof braces / sizeof *braces; i++) {
        const slate_route wrong[] = {{.path = braces[i], .on = {nothing}}, {0}};
        assert_null(create(wrong));
    }
}

static void a_path_belongs_to_one_route(void **state)
{
    static const struct {
        const char *path;
        bool taken;
    } rows[] = {{"/a", true},      {"/a/b", false},     {"/a/{x}", true},    {"/a/{y}/c", true},
                {"/{x}", false},   {"/a/{x}/d", false}, {"/a/{x}/c", true},  {"/a/", false},
                {"/{x}/b", false}, {"/b/{x}/c", false}, {"/a/{x}/c/", false}};
    static const slate_route first[] = {{.path = "/a", .on = {[SLATE_GET] = nothing}},
                                        {.path = "/a/{id}", .on = {[SLATE_GET] = nothing}},
                                        {.path = "/a/{id}/c", .on = {[SLATE_GET] = nothing}},
                                        {0}};
    (void)state;
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        /* Whatever its methods are: the two tables could not both be asked. */
        const slate_route added[] = {{.path = rows[i].path, .on = {[SLATE_PUT] = nothing}}, {0}};
        const slate_module one = {.name = "one", .routes = first},
                           two = {.name = "two", .routes = added};
        router *r = router_create((const slate_module *const[]){&one, &two, NULL});
        if ((r == NULL) != rows[i].taken)
            fail_msg("%s", rows[i].path);
        free(r);
    }
}

static void escapes_are_decoded_strictly(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(percent_decode(&f->heap, "a%41%7e%C3%A9", 13, NULL), "aA~\xc3\xa9");
    assert_string_equal(percent_decode(&f->heap, "", 0, NULL), "");
    static const char *const wrong[] = {"%", "%4", "%zz", "%4z", "a%00", "%%41"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bool bad = false;
        assert_null(percent_decode(&f->heap, wrong[i], strlen(wrong[i]), &bad));
        assert_true(bad);
        assert_false(percent_valid(wrong[i]));
    }
    assert_true(percent_valid("/a%20b%2F"));
    /* The size counts, not a NUL further on. */
    assert_null(percent_decode(&f->heap, "%41", 2, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(paths_find_their_route, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_paths_find_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(allow_follows_from_the_table, set_up, tear_down),
        cmocka_unit_test(wrong_tables_are_refused),
        cmocka_unit_test(a_path_belongs_to_one_route),
        cmocka_unit_test_setup_teardown(escapes_are_decoded_strictly, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
