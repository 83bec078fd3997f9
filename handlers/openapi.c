/* /openapi.json: built once, before the first request, from openapi.json and the route tables; a start
 * fails if they do not agree. Plugins are described by their tables alone. */
#include "openapi.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "../server/log.h"
#include "builtin.h"
#include "db/condition.h"

static const char *const method_names[SLATE_METHODS] = {
    [SLATE_GET] = "get",     [SLATE_POST] = "post",     [SLATE_PUT] = "put",
    [SLATE_PATCH] = "patch", [SLATE_DELETE] = "delete",
};

/* ---- Building ---------------------------------------------------------------------------------- */

typedef struct building {
    json_t *paths, *parameters; /* of the document; borrowed */
    size_t operations;          /* that have a route */
    char *error;
} building;

static bool fail(const building *b, const char *what, const char *path, const char *also)
{
    snprintf(b->error, OPENAPI_ERROR_MAX, "openapi.json %s \"%.80s\" %.40s.", what, path, also);
    return false;
}

static bool no_memory(const building *b, const char *path)
{
    return fail(b, "needs more memory for", path, "");
}

/* The parameters in braces, each by reference. */
static bool add_parameters(const building *b, json_t *item, const char *path)
{
    json_t *list = json_array();
    for (const char *at = path; (at = strchr(at, '{')); at++) {
        size_t length = strcspn(at + 1, "}");
        if (!json_object_getn(b->parameters, at + 1, length)) {
            json_decref(list);
            return fail(b, "does not describe a parameter of", path, "");
        }
        json_t *reference = json_pack(
            "{s:o}", "$ref", json_sprintf("#/components/parameters/%.*s", (int)length, at + 1));
        if (json_array_append_new(list, reference) != 0) { /* also if there is none */
            json_decref(list);
            return no_memory(b, path);
        }
    }
    if (json_array_size(list) > 0)
        return json_object_set_new(item, "parameters", list) == 0 || no_memory(b, path);
    json_decref(list);
    return true;
}

/* The body's media types must be those of the table, both ways. */
static bool check_consumes(const building *b, const json_t *operation, const char *consumes,
                           const char *path, const char *method)
{
    const json_t *content = json_object_get(json_object_get(operation, "requestBody"), "content");
    size_t count = 0;
    for (const char *at = consumes; at && *at; count++) {
        size_t length = strcspn(at, ",");
        if (!json_object_getn(content, at, length))
            return fail(b, "does not describe a body of", path, method);
        at += length;
        at += strspn(at, ", ");
    }
    return json_object_size(content) == count || fail(b, "describes another body of", path, method);
}

static bool add_route(building *b, const slate_route *route)
{
    json_t *item = json_object_get(b->paths, route->path);
    if (!item)
        return fail(b, "does not describe", route->path, "");
    for (int method = 0; method < SLATE_METHODS; method++) {
        const json_t *operation = json_object_get(item, method_names[method]);
        if (!route->on[method] != !operation)
            return fail(b, operation ? "describes, but there is no," : "does not describe",
                        route->path, method_names[method]);
        if (!operation)
            continue;
        b->operations++;
        if (!check_consumes(b, operation, route->consumes[method], route->path,
                            method_names[method]))
            return false;
    }
    return add_parameters(b, item, route->path) &&
           (json_object_set_new(item, "summary", json_string(route->summary)) == 0 ||
            no_memory(b, route->path));
}

static size_t count_operations(const json_t *paths)
{
    size_t count = 0;
    for (void *i = json_object_iter((json_t *)paths); i;
         i = json_object_iter_next((json_t *)paths, i))
        for (int method = 0; method < SLATE_METHODS; method++)
            count += json_object_get(json_object_iter_value(i), method_names[method]) != NULL;
    return count;
}

json_t *openapi_build(const char *text, size_t size, const slate_module *const modules[],
                      char error[static OPENAPI_ERROR_MAX])
{
    json_read_problem problem;
    json_t *document = json_read(text, size, JSON_READ_DEPTH_MAX, &problem);
    if (!document) {
        snprintf(error, OPENAPI_ERROR_MAX, "openapi.json: %.180s", problem.detail);
        return NULL;
    }
    building b = {
        .paths = json_object_get(document, "paths"),
        .parameters = json_object_get(json_object_get(document, "components"), "parameters"),
        .error = error,
    };
    bool good = true;
    for (const slate_module *const *module = modules; good && *module; module++)
        for (const slate_route *r = (*module)->routes; good && r && r->path; r++)
            good = add_route(&b, r);
    if (good && count_operations(b.paths) != b.operations)
        good = fail(&b, "describes an operation that has no route, in", "paths", "");
    if (good && json_object_set_new(json_object_get(document, "info"), "version",
                                    json_string(SLATE_VERSION)) != 0)
        good = fail(&b, "has no", "info", "");
    if (good)
        return document;
    json_decref(document);
    return NULL;
}

/* ---- Plugins ------------------------------------------------------------------------------------- */

/* Sets what `value` (taken; NULL: there was no memory for it) is. */
static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

static json_t *media_types(const char *consumes)
{
    json_t *content = json_object();
    for (const char *at = consumes; *at;) {
        size_t length = strcspn(at, ",");
        json_t *type = json_sprintf("%.*s", (int)length, at);
        bool set = type && put(content, json_string_value(type), json_object());
        json_decref(type);
        if (!set) {
            json_decref(content);
            return NULL;
        }
        at += length;
        at += strspn(at, ", ");
    }
    return content;
}

static json_t *describe_operation(const char *module, const char *consumes)
{
    json_t *operation =
        json_pack("{s:[s],s:{s:{s:s},s:{s:s}}}", "tags", module, "responses", "2XX", "description",
                  "As the summary says.", "default", "$ref", "#/components/responses/Problem");
    if (operation && consumes &&
        !put(operation, "requestBody",
             json_pack("{s:b,s:o}", "required", 1, "content", media_types(consumes)))) {
        json_decref(operation);
        return NULL;
    }
    return operation;
}

/* As they stand in braces: strings. */
static json_t *describe_parameters(const char *path)
{
    json_t *list = json_array();
    for (const char *at = path; (at = strchr(at, '{')); at++) {
        int length = (int)strcspn(at + 1, "}");
        json_t *parameter = json_pack("{s:s%,s:s,s:b,s:{s:s}}", "name", at + 1, (size_t)length,
                                      "in", "path", "required", 1, "schema", "type", "string");
        if (json_array_append_new(list, parameter) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *describe_route(const char *module, const slate_route *route)
{
    json_t *item = json_object();
    bool good = !route->summary || put(item, "summary", json_string(route->summary));
    if (strchr(route->path, '{'))
        good = good && put(item, "parameters", describe_parameters(route->path));
    for (int method = 0; good && method < SLATE_METHODS; method++)
        if (route->on[method])
            good = put(item, method_names[method],
                       describe_operation(module, route->consumes[method]));
    if (good)
        return item;
    json_decref(item);
    return NULL;
}

bool openapi_add(json_t *document, const slate_module *module, char error[static OPENAPI_ERROR_MAX])
{
    json_t *paths = json_object_get(document, "paths");
    bool good = json_array_append_new(json_object_get(document, "tags"),
                                      json_pack("{s:s}", "name", module->name)) == 0;
    for (const slate_route *r = module->routes; good && r && r->path; r++)
        good = put(paths, r->path, describe_route(module->name, r));
    if (!good)
        snprintf(
            error, OPENAPI_ERROR_MAX,
            "The module \"%.80s\" cannot be described: out of memory, or its table is no UTF-8.",
            module->name);
    return good;
}

static bool is_builtin(const slate_module *module)
{
    for (const slate_module *const *at = builtin_modules; *at; at++)
        if (*at == module)
            return true;
    return false;
}

/* ---- Serving ------------------------------------------------------------------------------------ */

/* Made by the main thread before the first request, then only read. */
static struct {
    mem_context *memory;
    json_writer text;
    uint64_t revision; /* of its bytes: the entity tag */
} served;

static void take_revision(void)
{
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx hash;
    sha256_init(&hash);
    sha256_update(&hash, served.text.length, (const uint8_t *)served.text.text);
    sha256_digest(&hash, sizeof digest, digest);
    for (unsigned i = 0; i < sizeof served.revision; i++)
        served.revision = served.revision << 8 | digest[i];
    served.revision += served.revision == 0;
}

static bool start(const struct options *opts)
{
    char error[OPENAPI_ERROR_MAX];
    (void)opts;
    json_t *document = openapi_build(openapi_text, openapi_text_size, builtin_modules, error);
    bool whole = document != NULL;
    for (const slate_module *const *at = slate_modules(); whole && *at; at++)
        whole = is_builtin(*at) || openapi_add(document, *at, error);
    if (!whole) {
        json_decref(document);
        log_error("%s", error);
        return false;
    }
    served.revision = 0;
    served.memory = mem_heap_create(NULL, "openapi");
    if (served.memory) {
        json_writer_init(&served.text, served.memory, 2 * openapi_text_size, JSON_WRITE_DEPTH_MAX,
                         false);
        json_write_tree(&served.text, document);
    }
    json_decref(document);
    if (!served.memory || served.text.failed != JSON_WRITE_OK) {
        log_error("openapi: no memory");
        mem_delete(served.memory);
        return false;
    }
    take_revision();
    return true;
}

static void stop(void)
{
    mem_delete(served.memory);
    served.memory = NULL;
}

static slate_result openapi(slate_request *req)
{
    char tag[24];
    db_conditions conditions;
    db_fault fault = {.limit = 0};
    if (!db_conditions_read(slate_scratch_context(req), NULL, slate_header(req, "If-None-Match"),
                            NULL, NULL, &conditions, &fault))
        return slate_answer_problem(req, 400, "etag-syntax", NULL, "%s", fault.detail);
    snprintf(tag, sizeof tag, "\"%llu\"", (unsigned long long)served.revision);
    slate_set_header(req, "ETag", tag);
    if (db_conditions_check(&conditions, served.revision, 0, true) == DB_NOT_MODIFIED)
        return slate_answer_empty(req, 304);
    return slate_answer_bytes(req, 200, "application/json", served.text.text, served.text.length);
}

static const slate_route routes[] = {
    {.path = "/openapi.json",
     .on[SLATE_GET] = openapi,
     .summary = "Describes this API (OpenAPI 3.1)."},
    {.path = NULL},
};

const slate_module openapi_module = {
    .name = "openapi", .routes = routes, .start = start, .stop = stop};
