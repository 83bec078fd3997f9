/* plain.c: the yardstick. What a good C programmer writes on libmicrohttpd, jansson and malloc when
 * nobody asks for arenas: no contexts, no pools, each thing freed as soon as it is done with. The
 * lab runs it beside slate to see that slate's malloc mode is no straw man. One request struct per
 * request, owned by the request, used on its connection's thread alone.
 *
 *     plain [--listen 127.0.0.1:0] [--threads N] [--body-limit SIZE] [--burn NANOSECONDS]
 *
 * --burn spends that much CPU on every request: the known slowdown that the lab's self-test has to
 * find. SIGUSR1 prints the number of requests answered so far, SIGTERM ends the program. */
#include <arpa/inet.h>
#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BODY_FIRST 4096 /* where the length is not announced */
#define CONNECTION_MEMORY ((size_t)12 * 1024)
#define CONNECTIONS 8192u
#define IDLE_TIMEOUT 15u

static const size_t json_flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;

static size_t body_limit = (size_t)1024 * 1024;
static atomic_ulong answered;
static unsigned long burn_ns;
static struct MHD_Response *fixed; /* /static: made once, so it costs what libmicrohttpd costs */

struct request {
    char *body;
    size_t size, capacity;
    bool too_large;
};

static void burn(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    long long end = t.tv_sec * 1000000000LL + t.tv_nsec + (long long)burn_ns;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000000000LL + t.tv_nsec < end);
}

/* Takes `text`, which MHD frees when it has been sent. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *text)
{
    if (!text)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    enum MHD_Result result =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                status < 400 ? "application/json" : "application/problem+json");
    /* Who sends what nobody wants is not waited for. */
    if (result == MHD_YES && status == MHD_HTTP_CONTENT_TOO_LARGE)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result problem(struct MHD_Connection *connection, unsigned status,
                               const char *title)
{
    json_t *tree = json_pack("{s:i, s:s}", "status", (int)status, "title", title);
    char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    return answer(connection, status, text);
}

static enum MHD_Result hello(struct MHD_Connection *connection)
{
    json_t *tree = json_pack("{s:s}", "message", "Hello, World!");
    char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    return answer(connection, MHD_HTTP_OK, text);
}

/* RFC 7396, section 2, in place. Takes the reference to `target`, which may be NULL; the depth of
 * `patch` is bounded by jansson's parser. */
static json_t *merge(json_t *target, json_t *patch)
{
    if (!json_is_object(patch)) {
        json_decref(target);
        return json_incref(patch);
    }
    if (!json_is_object(target)) {
        json_decref(target);
        target = json_object();
    }
    const char *key;
    json_t *value;
    json_object_foreach(patch, key, value)
    {
        if (json_is_null(value))
            json_object_del(target, key);
        else
            json_object_set_new(target, key,
                                merge(json_incref(json_object_get(target, key)), value));
    }
    return target;
}

static enum MHD_Result transform(struct MHD_Connection *connection, struct request *req, bool patch)
{
    json_t *tree = json_loadb(req->body ? req->body : "", req->size, json_flags, NULL);
    free(req->body);
    req->body = NULL;
    if (!tree)
        return problem(connection, MHD_HTTP_BAD_REQUEST, "The body is not valid JSON.");
    if (patch) {
        json_t *doc = json_object_get(tree, "doc"), *change = json_object_get(tree, "patch");
        if (!doc || !change) {
            json_decref(tree);
            return problem(connection, MHD_HTTP_BAD_REQUEST,
                           "The body needs \"doc\" and \"patch\".");
        }
        json_t *merged = merge(json_incref(doc), change);
        json_decref(tree);
        tree = merged;
    }
    char *text = tree ? json_dumps(tree, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(tree);
    return answer(connection, MHD_HTTP_OK, text);
}

/* As RFC 3339 has it, for which %z lacks a colon. */
static bool now(char *ret_text, size_t size)
{
    time_t seconds = time(NULL);
    struct tm local;
    char day_and_time[sizeof "2026-03-14T10:26:53"], offset[sizeof "+0100"];
    if (!localtime_r(&seconds, &local) ||
        strftime(day_and_time, sizeof day_and_time, "%FT%T", &local) == 0 ||
        strftime(offset, sizeof offset, "%z", &local) == 0)
        return false;
    int length = snprintf(ret_text, size, "%s%.3s:%s", day_and_time, offset, offset + 3);
    return length > 0 && (size_t)length < size;
}

/* The strings are the body's; NULL: no memory. */
static char *receipt(const char *from_first, const char *from_last, const char *to_first,
                     const char *to_last, const char *street, const char *city, const char *state,
                     const char *zip, json_int_t amount)
{
    char created[sizeof "2026-03-14T10:26:53+01:00"];
    if (!now(created, sizeof created))
        return NULL;
    json_t *tree =
        json_pack("{s:s++, s:s++, s:s++++++, s:s, s:I}", "from_account", from_first, " ", from_last,
                  "to_account", to_first, " ", to_last, "to_address", street, ", ", city, ", ",
                  state, ", ", zip, "created_on", created, "amount", amount);
    char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
    json_decref(tree);
    return text;
}

/* Without "\u0000" in the body, so that its strings are those of C. */
static enum MHD_Result transfer(struct MHD_Connection *connection, struct request *req)
{
    json_t *tree = json_loadb(req->body ? req->body : "", req->size,
                              json_flags & ~(size_t)JSON_ALLOW_NUL, NULL);
    free(req->body);
    req->body = NULL;
    if (!tree)
        return problem(connection, MHD_HTTP_BAD_REQUEST, "The body is not valid JSON.");
    json_int_t id, amount;
    const char *from_first, *from_last, *to_first, *to_last, *street, *city, *state, *zip, *unused;
    json_error_t error;
    if (json_unpack_ex(tree, &error, 0,
                       "{s:{s:I, s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:s},"
                       " s:{s:I, s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:s}, s:I, s:s}",
                       "from", "id", &id, "firstName", &from_first, "lastName", &from_last,
                       "address", "street", &unused, "city", &unused, "state", &unused, "zip",
                       &unused, "email", &unused, "to", "id", &id, "firstName", &to_first,
                       "lastName", &to_last, "address", "street", &street, "city", &city, "state",
                       &state, "zip", &zip, "email", &unused, "amount", &amount, "sendOn",
                       &unused) != 0) {
        json_decref(tree);
        return problem(connection, MHD_HTTP_UNPROCESSABLE_CONTENT, error.text);
    }
    char *text =
        receipt(from_first, from_last, to_first, to_last, street, city, state, zip, amount);
    json_decref(tree);
    return answer(connection, MHD_HTTP_OK, text);
}

static bool reserve(struct request *req, size_t capacity)
{
    char *body = realloc(req->body, capacity);
    if (!body)
        return false;
    req->body = body;
    req->capacity = capacity;
    return true;
}

/* Once per request, headers only. Nothing is answered here: that would close the connection. */
static struct request *begin(struct MHD_Connection *connection)
{
    struct request *req = calloc(1, sizeof *req);
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!req || !length)
        return req;
    unsigned long long size = strtoull(length, NULL, 10);
    req->too_large = size > body_limit;
    if (!req->too_large && size > 0 && !reserve(req, (size_t)size)) {
        free(req);
        return NULL;
    }
    return req;
}

static enum MHD_Result receive(struct request *req, const char *data, size_t size)
{
    req->too_large |= size > body_limit - req->size;
    if (req->too_large)
        return MHD_YES; /* read on without keeping it, so that the 413 can be read */
    if (size > req->capacity - req->size) {
        size_t capacity = req->capacity ? req->capacity : BODY_FIRST;
        while (capacity < req->size + size)
            capacity *= 2;
        if (!reserve(req, capacity))
            return MHD_NO;
    }
    memcpy(req->body + req->size, data, size);
    req->size += size;
    return MHD_YES;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **req_cls)
{
    (void)arg, (void)version;
    struct request *req = *req_cls;
    if (!req) {
        *req_cls = req = begin(connection);
        return req ? MHD_YES : MHD_NO;
    }
    if (*data_size > 0) {
        enum MHD_Result result = receive(req, data, *data_size);
        *data_size = 0;
        return result;
    }
    atomic_fetch_add_explicit(&answered, 1, memory_order_relaxed);
    if (burn_ns > 0)
        burn();
    bool get = !strcmp(method, "GET"), post = !strcmp(method, "POST");
    if (req->too_large)
        return problem(connection, MHD_HTTP_CONTENT_TOO_LARGE, "The body is over the limit.");
    if (get && !strcmp(url, "/json"))
        return hello(connection);
    if (get && !strcmp(url, "/static"))
        return MHD_queue_response(connection, MHD_HTTP_OK, fixed);
    if (post && !strcmp(url, "/echo"))
        return transform(connection, req, false);
    if (post && !strcmp(url, "/transform/merge"))
        return transform(connection, req, true);
    if (post && !strcmp(url, "/transfer"))
        return transfer(connection, req);
    return problem(connection, MHD_HTTP_NOT_FOUND, "There is no such route.");
}

static void completed(void *arg, struct MHD_Connection *connection, void **req_cls,
                      enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)connection, (void)why;
    struct request *req = *req_cls;
    if (req)
        free(req->body);
    free(req);
    *req_cls = NULL;
}

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: %s [--listen ADDRESS:PORT] [--threads 1..256] [--body-limit 1..1023[K|M]] "
            "[--burn NANOSECONDS]\n",
            name);
    return 2;
}

/* 0: it is not of that form. */
static size_t read_size(const char *text)
{
    char *unit;
    unsigned long n = strtoul(text, &unit, 10);
    unsigned shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
    return n < 1024 && unit[shift > 0] == '\0' ? n << shift : 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned threads = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        char *value = argv[i + 1], *colon = strrchr(value, ':');
        if (!strcmp(argv[i], "--listen") && colon) {
            *colon = '\0';
            if (inet_pton(AF_INET, value, &address.sin_addr) != 1)
                return usage(argv[0]);
            address.sin_port = htons((uint16_t)atoi(colon + 1));
        } else if (!strcmp(argv[i], "--threads") && atoi(value) >= 1 && atoi(value) <= 256) {
            threads = (unsigned)atoi(value);
        } else if (!strcmp(argv[i], "--body-limit") && read_size(value) > 0) {
            body_limit = read_size(value);
        } else if (!strcmp(argv[i], "--burn")) {
            burn_ns = strtoul(value, NULL, 10);
        } else {
            return usage(argv[0]);
        }
    }
    if (argc % 2 == 0)
        return usage(argv[0]);

    sigset_t signals; /* blocked before any thread is made, so that all come to sigwait below */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    static char text[] = "{\"message\":\"Hello, World!\"}";
    fixed = MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    if (!fixed ||
        MHD_add_response_header(fixed, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json") != MHD_YES)
        return 1;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
                                    {MHD_OPTION_END, 0, NULL}};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, NULL,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_ARRAY, threads > 1 ? pool : pool + 1,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
        CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT, MHD_OPTION_NOTIFY_COMPLETED,
        completed, NULL, MHD_OPTION_END);
    if (!daemon)
        return 1;
    char host[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
    fprintf(stderr, "listening on http://%s:%u\n", host,
            (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);

    int signal = SIGUSR1;
    while (signal == SIGUSR1 && sigwait(&signals, &signal) == 0)
        fprintf(stderr, "answered %lu\n", atomic_load(&answered));
    MHD_stop_daemon(daemon);
    MHD_destroy_response(fixed);
    return 0;
}
