/* slate with routes that wait and stream as a test asks, and a thread that wakes them. The segments
 * of a path say who ends each wait, one after the other:
 *
 *     own     the handler itself, before it returns
 *     now     the other thread, as soon as it can
 *     20      the other thread, in 20 milliseconds
 *     never   the module, when it stops
 *     refused nobody: memory has been refused before, and so is the wait
 *
 * ?within=MS: how long a wait may take; ?hold=BYTES: so much of the request context is used. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../handlers/builtin.h"

/* ---- The thread that wakes ------------------------------------------------------------------------ */

typedef struct alarm_clock {
    slate_wait *wait;
    int64_t due_ms;
    struct alarm_clock *next;
} alarm_clock;

static pthread_t waker;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed;
static alarm_clock *alarms;
static bool stopping, unready;
static uint64_t times_asked;              /* atomic: whether it is ready */
static unsigned held, alarm_count, begun; /* atomic */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Takes off one that is due; *ret_next_ms is when the next one is. */
static alarm_clock *take_due(int64_t now, int64_t *ret_next_ms)
{
    *ret_next_ms = now + 1000;
    for (alarm_clock **at = &alarms; *at; at = &(*at)->next) {
        alarm_clock *alarm = *at;
        if (stopping || alarm->due_ms <= now) {
            *at = alarm->next;
            return alarm;
        }
        if (alarm->due_ms < *ret_next_ms)
            *ret_next_ms = alarm->due_ms;
    }
    return NULL;
}

static void *ring(void *arg)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        int64_t next_ms;
        alarm_clock *alarm = take_due(now_ms(), &next_ms);
        if (alarm) {
            pthread_mutex_unlock(&lock);
            slate_wake(alarm->wait);
            free(alarm);
            __atomic_sub_fetch(&alarm_count, 1, __ATOMIC_RELAXED);
            pthread_mutex_lock(&lock);
        } else if (stopping) {
            pthread_mutex_unlock(&lock);
            return arg;
        } else {
            struct timespec until = {next_ms / 1000, next_ms % 1000 * 1000000};
            pthread_cond_timedwait(&changed, &lock, &until);
        }
    }
}

static void wake_later(slate_wait *wait, int64_t due_ms)
{
    alarm_clock *alarm = malloc(sizeof *alarm);
    if (!alarm) {
        slate_wake(wait);
        return;
    }
    __atomic_add_fetch(&alarm_count, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    *alarm = (alarm_clock){wait, due_ms, alarms};
    alarms = alarm;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* ---- Waiting ---------------------------------------------------------------------------------------- */

#define WAITS_MAX 60

typedef struct chain {
    mem_callback released;
    const char *at; /* the words to come */
    unsigned within_ms;
    char ended[WAITS_MAX + 1]; /* w: woken; t: timed out */
    unsigned count;
    uint64_t position, size; /* of a stream */
    uint64_t every, next;    /* bytes between waits; where the next one is */
    bool broken;             /* it ends too early */
} chain;

static void release(void *arg)
{
    (void)arg;
    __atomic_sub_fetch(&held, 1, __ATOMIC_RELAXED);
}

static uint64_t number(slate_request *req, const char *name, uint64_t fallback)
{
    const char *text = slate_query(req, name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static chain *make_chain(slate_request *req, const char *words)
{
    chain *c = mem_alloc(slate_request_context(req), sizeof *c);
    size_t hold = number(req, "hold", 0);
    if (!c || (hold > 0 && !mem_alloc(slate_request_context(req), hold)))
        return NULL;
    *c = (chain){.at = words, .within_ms = (unsigned)number(req, "within", 60000)};
    c->released = (mem_callback){.run = release};
    mem_on_reset(slate_request_context(req), &c->released);
    __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
    return c;
}

/* Begins the next wait of the chain. */
static bool begin(slate_request *req, chain *c, slate_continuation *then)
{
    const char *word = c->at;
    if (strncmp(word, "refused", 7) == 0)
        slate_answer_no_memory(req);
    slate_wait *wait = slate_wait_begin(req, c->within_ms, then, c);
    if (!wait)
        return false;
    __atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
    c->at += strcspn(word, ",");
    c->at += *c->at == ',';
    if (strncmp(word, "own", 3) == 0)
        slate_wake(wait);
    else if (strncmp(word, "never", 5) == 0)
        wake_later(wait, INT64_MAX);
    else
        wake_later(wait, now_ms() + strtol(word, NULL, 10));
    return true;
}

static void note(chain *c, slate_wake_reason why)
{
    if (c->count < WAITS_MAX)
        c->ended[c->count++] = why == SLATE_WOKEN ? 'w' : 't';
}

static slate_result answer(slate_request *req, const chain *c)
{
    char waits[sizeof c->ended + 1];
    snprintf(waits, sizeof waits, "%s", c->count > 0 ? c->ended : "-");
    slate_set_header(req, "X-Waits", waits);
    if (slate_request_method(req) != SLATE_POST)
        return slate_answer_bytes(req, 200, "text/plain", c->ended, c->count);
    json_t *body = slate_body_json(req); /* it has been kept all the time */
    return body ? slate_answer_json(req, 200, body) : SLATE_ANSWERED;
}

static slate_result go_on(slate_request *req, void *arg, slate_wake_reason why)
{
    chain *c = arg;
    note(c, why);
    if (*c->at == '\0')
        return answer(req, c);
    return begin(req, c, go_on) ? SLATE_SUSPENDED : SLATE_ANSWERED;
}

static slate_result wait(slate_request *req)
{
    chain *c = make_chain(req, slate_param(req, "waits"));
    return c && begin(req, c, go_on) ? SLATE_SUSPENDED : SLATE_ANSWERED;
}

/* A wait that turns out not to be needed. */
static slate_result forget(slate_request *req)
{
    chain *c = make_chain(req, slate_param(req, "waits"));
    return c && begin(req, c, go_on) ? answer(req, c) : SLATE_ANSWERED;
}

/* ---- Streaming -------------------------------------------------------------------------------------- */

/* Byte number `i` of every stream is 'a' + i % 23. */
static slate_stream_state produce(slate_request *req, void *arg, char *into, size_t room,
                                  size_t *ret_size, slate_wake_reason why)
{
    chain *c = arg;
    if (why == SLATE_TIMED_OUT || !mem_alloc(slate_scratch_context(req), 1000))
        return SLATE_STREAM_BROKEN;
    if (c->position >= c->next && *c->at != '\0') {
        c->next = c->position + c->every;
        return begin(req, c, NULL) ? SLATE_STREAM_WAITING : SLATE_STREAM_BROKEN;
    }
    uint64_t end = *c->at != '\0' && c->next < c->size ? c->next : c->size;
    while (*ret_size < room && c->position < end)
        into[(*ret_size)++] = (char)('a' + c->position++ % 23);
    if (c->position < c->size)
        return SLATE_STREAM_MORE;
    return c->broken ? SLATE_STREAM_BROKEN : SLATE_STREAM_END;
}

static slate_result stream(slate_request *req)
{
    chain *c = make_chain(req, slate_param(req, "waits"));
    if (!c)
        return SLATE_ANSWERED;
    if (strcmp(c->at, "none") == 0)
        c->at = "";
    c->size = number(req, "size", 0);
    c->every = number(req, "every", 1);
    c->broken = slate_query(req, "broken") != NULL;
    return slate_answer_stream(req, 200, "text/plain", produce, c);
}

/* ---- The module --------------------------------------------------------------------------------------- */

static bool write_parameter(void *arg, const char *name, const char *value)
{
    json_write_begin_array(arg);
    json_write_string(arg, name, strlen(name));
    json_write_string(arg, value, strlen(value));
    json_write_end_array(arg);
    return strcmp(name, "stop") != 0;
}

static slate_result query(slate_request *req)
{
    json_writer *w = slate_writer(req, 256);
    json_write_begin_array(w);
    json_write_bool(w, slate_each_query(req, write_parameter, w));
    json_write_end_array(w);
    return slate_answer_written(req, 200);
}

static slate_result take(slate_request *req)
{
    size_t size;
    slate_body(req, &size);
    json_writer *w = slate_writer(req, 32);
    json_write_integer(w, (json_int_t)size);
    return slate_answer_written(req, 200);
}

/* ?status=, ?type= and ?text=, the last two in the request context; ?note= is a header. */
static slate_result say(slate_request *req)
{
    const char *note = slate_query(req, "note");
    if (note)
        slate_set_header(req, "X-Note", note);
    const char *type = slate_query(req, "type"), *text = slate_query(req, "text");
    return slate_answer_bytes(req, (int)number(req, "status", 200), type, text ? text : "",
                              text ? strlen(text) : 0);
}

static slate_result set_unready(slate_request *req)
{
    pthread_mutex_lock(&lock);
    unready = slate_request_method(req) == SLATE_PUT;
    pthread_mutex_unlock(&lock);
    return slate_answer_empty(req, 204);
}

/* Holds its worker up until /readyz has been asked. */
static slate_result busy(slate_request *req)
{
    uint64_t before = __atomic_load_n(&times_asked, __ATOMIC_ACQUIRE);
    while (__atomic_load_n(&times_asked, __ATOMIC_ACQUIRE) == before)
        (void)usleep(1000);
    return slate_answer_empty(req, 204);
}

static const slate_route routes[] = {
    {.path = "/busy", .on[SLATE_GET] = busy},
    {.path = "/wait/{waits}",
     .on = {[SLATE_GET] = wait, [SLATE_POST] = wait},
     .consumes = {[SLATE_POST] = "application/json"}},
    {.path = "/forget/{waits}", .on[SLATE_GET] = forget},
    {.path = "/stream/{waits}", .on[SLATE_GET] = stream},
    {.path = "/query", .on[SLATE_GET] = query},
    {.path = "/say", .on[SLATE_GET] = say},
    {.path = "/take",
     .on = {[SLATE_GET] = take,
            [SLATE_POST] = take,
            [SLATE_PUT] = take,
            [SLATE_PATCH] = take,
            [SLATE_DELETE] = take},
     .consumes = {[SLATE_POST] = "application/json",
                  [SLATE_PUT] = "text/plain",
                  [SLATE_PATCH] = "application/merge-patch+json, application/json-patch+json"}},
    {.path = "/unready", .on = {[SLATE_PUT] = set_unready, [SLATE_DELETE] = set_unready}},
    {0},
};

static bool start(const struct options *opts)
{
    (void)opts;
    if (getenv("WAITING_CANNOT_START")) {
        fputs("The module cannot start.\n", stderr);
        return false;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return pthread_create(&waker, NULL, ring, NULL) == 0;
}

static void stop(void)
{
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(waker, NULL);
    pthread_cond_destroy(&changed);
    fprintf(stderr, "The module has stopped with %u requests held.\n",
            __atomic_load_n(&held, __ATOMIC_RELAXED));
}

static bool ready(const char **ret_reason)
{
    pthread_mutex_lock(&lock);
    bool is = !unready;
    pthread_mutex_unlock(&lock);
    __atomic_fetch_add(&times_asked, 1, __ATOMIC_RELEASE);
    if (!is)
        *ret_reason = "It was told to be unready.";
    return is;
}

static void figures(slate_emit_figure *emit, void *arg)
{
    emit(arg, "held", "Requests that have something to release.", false,
         __atomic_load_n(&held, __ATOMIC_RELAXED));
    emit(arg, "alarms", "Waits to be woken.", false,
         __atomic_load_n(&alarm_count, __ATOMIC_RELAXED));
    emit(arg, "waits", "Waits begun.", true, __atomic_load_n(&begun, __ATOMIC_RELAXED));
}

static const slate_module waiting_module = {.name = "waiting",
                                            .routes = routes,
                                            .start = start,
                                            .stop = stop,
                                            .ready = ready,
                                            .figures = figures};

int main(int argc, char **argv)
{
    return slate_main(argc, argv,
                      (const slate_module *const[]){&builtin_module, &waiting_module, NULL});
}
