/* The admin listener's routes: for operators and the load tests, never on the public address. */
#include <gnu/libc-version.h>
#include <malloc.h>
#include <string.h>

#include "internal.h"

static slate_result healthz(slate_request *req)
{
    return slate_answer_bytes(req, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void text_member(json_writer *w, const char *name, const char *value)
{
    json_write_key(w, name, strlen(name));
    json_write_string(w, value, strlen(value));
}

static void check_member(void *arg, const slate_module *module, const char *reason)
{
    text_member(arg, module->name, reason ? "fail" : "pass");
}

static void reason_member(void *arg, const slate_module *module, const char *reason)
{
    if (reason)
        text_member(arg, module->name, reason);
}

static slate_result readyz(slate_request *req)
{
    server *s = request_server(req);
    bool draining = server_draining(s);
    json_writer *w = slate_writer(req, 256);
    json_write_begin_object(w);
    json_write_literal_key(w, "checks");
    json_write_begin_object(w);
    text_member(w, "drain", draining ? "fail" : "pass");
    bool ready = modules_ready(s, check_member, w) && !draining;
    json_write_end_object(w);
    if (!ready) {
        json_write_literal_key(w, "reasons");
        json_write_begin_object(w);
        if (draining)
            text_member(w, "drain", "The server has been told to stop.");
        modules_ready(s, reason_member, w);
        json_write_end_object(w);
    }
    text_member(w, "status", ready ? "pass" : "fail");
    json_write_end_object(w);
    return slate_answer_written(req, ready ? 200 : 503);
}

static void option_member(void *arg, const char *name, const char *value)
{
    text_member(arg, name, value);
}

static slate_result version(slate_request *req)
{
    const server *s = request_server(req);
    const options *opts = &s->opts;
    json_writer *w = slate_writer(req, 2048);
    json_write_begin_object(w);
    text_member(w, "name", "slate");
    text_member(w, "version", slate_version);
    text_member(w, "alloc", alloc_mode_name(opts->alloc));
    json_write_literal_key(w, "pool");
    json_write_bool(w, opts->pool);
    json_write_literal_key(w, "threads");
    json_write_integer(w, opts->threads);
    text_member(w, "json_reader", opts->json_reader == READER_JANSSON ? "jansson" : "slate");
    json_write_literal_key(w, "json_walk");
    json_write_bool(w, json_bridge_walks());
    text_member(w, "libmicrohttpd", microhttpd_version());
    text_member(w, "jansson", jansson_version_str());
    text_member(w, "libc", gnu_get_libc_version());
    json_write_literal_key(w, "connection_memory");
    json_write_integer(w, (int64_t)opts->connection_memory);
    json_write_literal_key(w, "plugins");
    json_write_begin_array(w);
    for (unsigned i = 0; i < s->plugin_count; i++) {
        json_write_begin_object(w);
        text_member(w, "module", s->plugins[i].module->name);
        text_member(w, "file", s->plugins[i].file);
        json_write_end_object(w);
    }
    json_write_end_array(w);
    json_write_literal_key(w, "options");
    json_write_begin_object(w);
    options_each(opts, option_member, w);
    json_write_end_object(w);
    json_write_end_object(w);
    return slate_answer_written(req, 200);
}

static slate_result trim(slate_request *req)
{
    size_t unmapped = mem_depot_clear(request_server(req)->depot);
    int trimmed = malloc_trim(0);
    json_writer *w = slate_writer(req, 128);
    json_write_begin_object(w);
    json_write_literal_key(w, "depot_bytes_unmapped");
    json_write_integer(w, (int64_t)unmapped);
    json_write_literal_key(w, "malloc_trimmed");
    json_write_bool(w, trimmed != 0);
    json_write_end_object(w);
    return slate_answer_written(req, 200);
}

static const slate_route routes[] = {
    {.path = "/healthz", .on = {[SLATE_GET] = healthz}, .summary = "The process is alive."},
    {.path = "/readyz", .on = {[SLATE_GET] = readyz}, .summary = "It takes requests."},
    {.path = "/version",
     .on = {[SLATE_GET] = version},
     .summary = "What runs, with which options."},
    {.path = "/metrics", .on = {[SLATE_GET] = metrics_handler}, .summary = "Prometheus metrics."},
    {.path = "/debug/memory", .on = {[SLATE_GET] = memory_handler}, .summary = "Who holds memory."},
    {.path = "/trim", .on = {[SLATE_POST] = trim}, .summary = "Gives idle memory back now."},
    {0},
};

const slate_module admin_module = {.name = "admin", .routes = routes};
