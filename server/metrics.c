/* /metrics: Prometheus' text format (version 0.0.4). Counters are written by the workers and summed
 * here; labels come from closed sets: the route's template, never a raw path. */
#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "internal.h"

static const short statuses[STATUS_SLOTS] = {200, 201, 202, 204, 304, 400, 401, 403,
                                             404, 405, 406, 408, 409, 412, 413, 415,
                                             417, 422, 428, 429, 500, 501, 503, 507};

static unsigned status_slot(int status)
{
    for (unsigned i = 0; i < STATUS_SLOTS; i++)
        if (statuses[i] == status)
            return i;
    return STATUS_SLOTS - 4; /* 500: a status that no table knows is a fault of ours */
}

/* Upper bounds in microseconds; the last bucket is +Inf. */
static const unsigned bounds_us[DURATION_BUCKETS - 1] = {
    50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000};

void metrics_count(slate_request *req, int64_t now_ns)
{
    worker *w = req->worker;
    if (req->status == 0)
        return; /* ended without an answer: counted as aborted */
    route_counters *c = &w->by_route[req->route ? req->route->index : w->route_count - 1];
    int64_t ns = now_ns - req->begun_ns;
    unsigned bucket = 0;
    while (bucket < DURATION_BUCKETS - 1 && ns > (int64_t)bounds_us[bucket] * 1000)
        bucket++;
    counter_add(&c->answers[req->method_id][status_slot(req->status)], 1);
    counter_add(&c->duration[bucket], 1);
    counter_add(&c->duration_ns, (uint64_t)ns);
    counter_add(&c->bytes_in, req->received);
    counter_add(&c->bytes_out, req->answer_size);
}

/* ---- Text ----------------------------------------------------------------------------------------- */

typedef struct page {
    mem_context *ctx;
    char *text;
    size_t length, capacity;
    bool failed;
} page;

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line) {
        p->failed = true;
        return;
    }
    if (p->capacity - p->length < (size_t)n) {
        size_t capacity = p->capacity > 0 ? 2 * p->capacity : 16384;
        char *text = mem_resize(p->ctx, p->text, p->capacity, capacity);
        if (!text) {
            p->failed = true;
            return;
        }
        p->text = text;
        p->capacity = capacity;
    }
    memcpy(p->text + p->length, line, (size_t)n);
    p->length += (size_t)n;
}

static void head(page *p, const char *name, const char *type, const char *help)
{
    put(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(page *p, const char *name, const char *type, const char *help, uint64_t value)
{
    head(p, name, type, help);
    put(p, "%s %llu\n", name, (unsigned long long)value);
}

/* ---- Requests ---------------------------------------------------------------------------------------- */

/* The sum over all workers; the caller holds the server's lock. */
static route_counters sum_route(server *s, size_t index)
{
    route_counters sum = {0};
    for (const worker *w = s->workers; w; w = w->next) {
        if (w->admin)
            continue;
        const route_counters *c = &w->by_route[index];
        for (int v = 0; v < METHODS; v++)
            for (int i = 0; i < STATUS_SLOTS; i++)
                sum.answers[v][i] += counter_get(&c->answers[v][i]);
        for (int i = 0; i < DURATION_BUCKETS; i++)
            sum.duration[i] += counter_get(&c->duration[i]);
        sum.duration_ns += counter_get(&c->duration_ns);
        sum.bytes_in += counter_get(&c->bytes_in);
        sum.bytes_out += counter_get(&c->bytes_out);
    }
    return sum;
}

static const char *route_label(const router *routes, size_t index)
{
    return index < routes->count ? routes->routes[index].is->path : "";
}

static void put_answers(page *p, const char *label, const route_counters *sum)
{
    for (int v = 0; v < METHODS; v++)
        for (int i = 0; i < STATUS_SLOTS; i++)
            if (sum->answers[v][i] > 0)
                put(p, "http_requests_total{route=\"%s\",method=\"%s\",code=\"%d\"} %llu\n", label,
                    http_method_names[v], statuses[i], (unsigned long long)sum->answers[v][i]);
}

static void put_durations(page *p, const char *label, const route_counters *sum)
{
    uint64_t cumulative = 0;
    for (int i = 0; i < DURATION_BUCKETS - 1; i++) {
        cumulative += sum->duration[i];
        put(p, "http_request_duration_seconds_bucket{route=\"%s\",le=\"%g\"} %llu\n", label,
            bounds_us[i] / 1e6, (unsigned long long)cumulative);
    }
    cumulative += sum->duration[DURATION_BUCKETS - 1];
    put(p, "http_request_duration_seconds_bucket{route=\"%s\",le=\"+Inf\"} %llu\n", label,
        (unsigned long long)cumulative);
    put(p, "http_request_duration_seconds_sum{route=\"%s\"} %.9f\n", label,
        (double)sum->duration_ns / 1e9);
    put(p, "http_request_duration_seconds_count{route=\"%s\"} %llu\n", label,
        (unsigned long long)cumulative);
}

static void put_requests(page *p, server *s)
{
    const router *routes = s->public.routes;
    size_t count = routes->count + 1u;
    route_counters *sums = mem_alloc_array(p->ctx, count, sizeof *sums);
    if (!sums) {
        p->failed = true;
        return;
    }
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count; i++)
        sums[i] = sum_route(s, i);
    pthread_mutex_unlock(&s->lock);

    head(p, "http_requests_total", "counter", "Answers, by route template and status.");
    for (size_t i = 0; i < count; i++)
        put_answers(p, route_label(routes, i), &sums[i]);
    head(p, "http_request_duration_seconds", "histogram",
         "From the headers to the last byte sent.");
    for (size_t i = 0; i < count; i++)
        put_durations(p, route_label(routes, i), &sums[i]);
    head(p, "http_request_body_bytes_total", "counter", "Bytes of request bodies.");
    for (size_t i = 0; i < count; i++)
        put(p, "http_request_body_bytes_total{route=\"%s\"} %llu\n", route_label(routes, i),
            (unsigned long long)sums[i].bytes_in);
    head(p, "http_response_body_bytes_total", "counter", "Bytes of answers.");
    for (size_t i = 0; i < count; i++)
        put(p, "http_response_body_bytes_total{route=\"%s\"} %llu\n", route_label(routes, i),
            (unsigned long long)sums[i].bytes_out);
}

/* ---- Memory and process -------------------------------------------------------------------------------- */

static void put_memory(page *p, server *s)
{
    pthread_mutex_lock(&s->lock);
    mem_blocks_stats blocks = server_blocks(s);
    pthread_mutex_unlock(&s->lock);
    head(p, "slate_block_bytes", "gauge",
         "Bytes of blocks: in use, or idle in magazines or depot.");
    put(p, "slate_block_bytes{state=\"in_use\"} %llu\n", (unsigned long long)blocks.lent);
    put(p, "slate_block_bytes{state=\"magazine\"} %llu\n", (unsigned long long)blocks.idle);
    put(p, "slate_block_bytes{state=\"depot\"} %llu\n",
        (unsigned long long)mem_depot_get_stats(s->depot).idle);
    one(p, "slate_live_bytes", "gauge", "Bytes charged to the requests in flight.",
        requests_live_bytes(s));
    struct mallinfo2 info = mallinfo2();
    head(p, "slate_malloc_bytes", "gauge", "glibc's mallinfo2, summed over its arenas.");
    put(p, "slate_malloc_bytes{kind=\"in_use\"} %zu\n", info.uordblks);
    put(p, "slate_malloc_bytes{kind=\"free\"} %zu\n", info.fordblks);
    put(p, "slate_malloc_bytes{kind=\"mmapped\"} %zu\n", info.hblkhd);
    put(p, "slate_malloc_bytes{kind=\"top\"} %zu\n", info.keepcost);
}

static uint64_t count_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    uint64_t count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", "..", and the directory itself */
}

/* ---- Modules ------------------------------------------------------------------------------------------- */

typedef struct module_page {
    page *p;
    const char *module;
} module_page;

static void put_figure(void *arg, const char *name, const char *help, bool is_counter, double value)
{
    const module_page *on = arg;
    char full[128];
    int n =
        snprintf(full, sizeof full, "slate_%s_%s%s", on->module, name, is_counter ? "_total" : "");
    if (n < 0 || (size_t)n >= sizeof full) {
        on->p->failed = true;
        return;
    }
    head(on->p, full, is_counter ? "counter" : "gauge", help);
    put(on->p, "%s %.15g\n", full, value);
}

static void put_modules(page *p, server *s)
{
    for (const slate_module *const *at = s->modules; *at; at++)
        if ((*at)->figures)
            (*at)->figures(put_figure, &(module_page){p, (*at)->name});
}

static void put_process(page *p, server *s)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    head(p, "process_cpu_seconds_total", "counter", "User and system time.");
    put(p, "process_cpu_seconds_total %.6f\n",
        (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
            (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm) {
        if (fscanf(statm, "%*u %lu", &pages) != 1)
            pages = 0;
        fclose(statm);
    }
    one(p, "process_resident_memory_bytes", "gauge", "Resident set size.",
        (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE));
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    one(p, "process_open_fds", "gauge", "Open file descriptors.", count_open_files());
    one(p, "process_max_fds", "gauge", "Limit of file descriptors.", files.rlim_cur);
    head(p, "process_start_time_seconds", "gauge", "Since the epoch.");
    put(p, "process_start_time_seconds %.3f\n", (double)s->started_ms / 1000);
}

slate_result metrics_handler(slate_request *req)
{
    server *s = request_server(req);
    page p = {.ctx = slate_request_context(req)};
    head(&p, "slate_build_info", "gauge", "What runs; always 1.");
    put(&p, "slate_build_info{version=\"%s\",alloc=\"%s\",pool=\"%s\",jansson=\"%s\"} 1\n",
        slate_version, alloc_mode_name(s->opts.alloc), s->opts.pool ? "on" : "off",
        jansson_version_str());
    put_requests(&p, s);
    totals t = server_totals(s, false);
    one(&p, "slate_requests_in_flight", "gauge", "Requests begun and not yet ended.",
        t.begun - t.completed);
    one(&p, "slate_requests_suspended", "gauge", "Those of them that wait for something.",
        t.asleep);
    one(&p, "slate_requests_aborted_total", "counter", "Requests whose answer was not sent whole.",
        t.aborted);
    one(&p, "slate_requests_refused_total", "counter", "Requests refused for want of memory.",
        t.refused);
    one(&p, "slate_access_log_lines_lost_total", "counter",
        "Lines of the access log that stdout did not take.", t.log_lines_lost);
    one(&p, "slate_connections", "gauge", "Open connections.", t.accepted - t.closed);
    one(&p, "slate_connections_total", "counter", "Connections accepted.", t.accepted);
    put_memory(&p, s);
    put_modules(&p, s);
    put_process(&p, s);
    if (p.failed)
        return slate_answer_problem(req, 500, "no-answer", NULL, "The metrics do not fit.");
    return slate_answer_bytes(req, 200, "text/plain; version=0.0.4; charset=utf-8", p.text,
                              p.length);
}
