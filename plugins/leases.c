/* Leases: who may do a job that only one may do at a time (the nightly report, the shard's writer).
 *
 *     PUT    /leases/{name}  {"holder": "worker-7", "seconds": 30}   201 taken, 200 renewed
 *     GET    /leases/{name}                                          200, or 404: it is free
 *     DELETE /leases/{name}?holder=worker-7                          204: it is free now
 *
 * A lease ends by itself when it is not renewed. Its `fence` grows with every taking, so that what
 * the job writes to can turn away a holder who has slept through the end of his lease.
 *
 * This is what a pool is for: cells of one size that outlive requests, come and go one by one, and are
 * too many for malloc's header on each. All of them, the table and the counters belong to one lock. It
 * is held for the steps of one look-up; under it nothing is allocated but from the pool, and nothing of
 * slate is called: answers are written from a copy. A thread looks through the table once a second, a few
 * buckets at a time. */
#include <slate/pool.h>
#include <slate/slate.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define NAME_MAX_BYTES 63
#define HOLDER_MAX_BYTES 63
#define SECONDS_MAX 86400
#define LIMIT 100000 /* leases, unless LEASES_MAX in the environment says another number */
#define LIMIT_MAX 10000000
#define BUCKETS 16384    /* a power of two */
#define SWEPT_AT_ONCE 64 /* buckets, before others have a turn at the lock */
#define SWEEP_SECONDS 1

typedef struct lease {
    struct lease *next; /* in its bucket */
    int64_t ends_ms;    /* monotonic */
    int64_t fence;
    unsigned char name_length, holder_length;
    char name[NAME_MAX_BYTES], holder[HOLDER_MAX_BYTES];
} lease;

static unsigned limit;   /* constant while requests run */
static uint64_t secret;  /* so that nobody can aim at a bucket */
static mem_depot *depot; /* has a lock of its own */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows */
static pthread_cond_t stop_asked;
static bool stopping;
static mem_blocks *blocks;
static mem_pool *pool;
static lease *buckets[BUCKETS];
static int64_t last_fence;
static struct {
    uint64_t live, taken, renewed, refused, full, expired;
} figures_now;

static pthread_t sweeper;

static int64_t now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- The table; the caller holds the lock ------------------------------------------------------ */

static lease **bucket_of(const char *name, size_t length)
{
    uint64_t hash = secret;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x9e3779b97f4a7c15 + (hash >> 29);
    return &buckets[(hash ^ hash >> 32) & (BUCKETS - 1)];
}

static void end_lease(lease **at)
{
    lease *ended = *at;
    *at = ended->next;
    mem_pool_give(pool, ended);
    figures_now.live--;
}

/* The lease of that name, or where its bucket ends. What has expired on the way goes. */
static lease **find(const char *name, size_t length, int64_t now)
{
    lease **at = bucket_of(name, length);
    while (*at) {
        if ((*at)->ends_ms <= now) {
            figures_now.expired++;
            end_lease(at);
        } else if ((*at)->name_length == length && memcmp((*at)->name, name, length) == 0) {
            break;
        } else {
            at = &(*at)->next;
        }
    }
    return at;
}

static bool is_held_by(const lease *l, const char *holder, size_t length)
{
    return l->holder_length == length && memcmp(l->holder, holder, length) == 0;
}

typedef enum { TAKEN, RENEWED, HELD, FULL } outcome;

/* Takes or renews what `asked` names, and makes *asked a copy of the lease as it is then. */
static outcome take(lease *asked, int64_t now)
{
    lease **at = find(asked->name, asked->name_length, now), *found = *at;
    if (found && !is_held_by(found, asked->holder, asked->holder_length)) {
        figures_now.refused++;
        *asked = *found;
        return HELD;
    }
    if (found) {
        figures_now.renewed++;
        found->ends_ms = asked->ends_ms;
        asked->fence = found->fence;
        return RENEWED;
    }
    found = figures_now.live < limit ? mem_pool_take(pool) : NULL;
    if (!found) {
        figures_now.full++;
        return FULL;
    }
    figures_now.live++;
    figures_now.taken++;
    asked->fence = ++last_fence;
    *found = *asked;
    found->next = NULL;
    *at = found;
    return TAKEN;
}

/* ---- Requests ----------------------------------------------------------------------------------- */

static slate_result answer_lease(slate_request *req, int status, const lease *l, int64_t now)
{
    json_writer *w = slate_writer(req, 256);
    json_write_begin_object(w);
    json_write_literal_key(w, "name");
    json_write_string(w, l->name, l->name_length);
    json_write_literal_key(w, "holder");
    json_write_string(w, l->holder, l->holder_length);
    json_write_literal_key(w, "fence");
    json_write_integer(w, l->fence);
    json_write_literal_key(w, "milliseconds_left");
    json_write_integer(w, l->ends_ms - now);
    json_write_end_object(w);
    return slate_answer_written(req, status);
}

/* Reads the name from the path. false: a problem has been answered. */
static bool read_name(slate_request *req, lease *ret_asked)
{
    const char *name = slate_param(req, "name");
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > NAME_MAX_BYTES ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-") !=
            length) {
        slate_answer_problem(req, 422, "lease-name", &(slate_where){.limit = NAME_MAX_BYTES},
                             "A lease's name is 1 to %d letters (ASCII), digits and . _ ~ -.",
                             NAME_MAX_BYTES);
        return false;
    }
    memcpy(ret_asked->name, name, length);
    ret_asked->name_length = (unsigned char)length;
    return true;
}

/* Reads holder and time from the body. false: a problem has been answered. */
static bool read_body(slate_request *req, lease *ret_asked, int64_t now)
{
    const json_t *body = slate_body_json(req);
    if (!body)
        return false;
    const json_t *holder = json_object_get(body, "holder");
    const json_t *seconds = json_object_get(body, "seconds");
    size_t length = json_string_length(holder);
    if (length == 0 || length > HOLDER_MAX_BYTES) {
        slate_answer_problem(req, 422, "lease-holder",
                             &(slate_where){.json_pointer = "/holder", .limit = HOLDER_MAX_BYTES},
                             "/holder must be a string of 1 to %d bytes.", HOLDER_MAX_BYTES);
        return false;
    }
    json_int_t wanted = json_integer_value(seconds);
    if (wanted < 1 || wanted > SECONDS_MAX) {
        slate_answer_problem(req, 422, "lease-seconds",
                             &(slate_where){.json_pointer = "/seconds", .limit = SECONDS_MAX},
                             "/seconds must be an integer from 1 to %d.", SECONDS_MAX);
        return false;
    }
    memcpy(ret_asked->holder, json_string_value(holder), length);
    ret_asked->holder_length = (unsigned char)length;
    ret_asked->ends_ms = now + wanted * 1000;
    return true;
}

static slate_result retry_after(slate_request *req, int64_t milliseconds)
{
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%lld", (long long)((milliseconds + 999) / 1000));
    slate_set_header(req, "Retry-After", seconds);
    return SLATE_ANSWERED;
}

static slate_result put_lease(slate_request *req)
{
    lease asked = {.next = NULL};
    int64_t now = now_ms(CLOCK_MONOTONIC);
    if (!read_name(req, &asked) || !read_body(req, &asked, now))
        return SLATE_ANSWERED;
    pthread_mutex_lock(&lock);
    outcome what = take(&asked, now);
    pthread_mutex_unlock(&lock);
    switch (what) {
    case TAKEN:
    case RENEWED:
        slate_changed(req); /* if the answer finds no memory, the client is told so */
        return answer_lease(req, what == TAKEN ? 201 : 200, &asked, now);
    case HELD:
        retry_after(req, asked.ends_ms - now);
        return slate_answer_problem(req, 409, "lease-held", NULL,
                                    "The lease is held by another for %lld more milliseconds.",
                                    (long long)(asked.ends_ms - now));
    case FULL:
        break;
    }
    retry_after(req, SWEEP_SECONDS * 1000);
    return slate_answer_problem(req, 503, "leases-full", &(slate_where){.limit = limit},
                                "There are %u leases, and no more are given.", limit);
}

static slate_result get_lease(slate_request *req)
{
    lease copy = {.next = NULL};
    int64_t now = now_ms(CLOCK_MONOTONIC);
    if (!read_name(req, &copy))
        return SLATE_ANSWERED;
    pthread_mutex_lock(&lock);
    const lease *found = *find(copy.name, copy.name_length, now);
    if (found)
        copy = *found;
    pthread_mutex_unlock(&lock);
    if (!found)
        return slate_answer_problem(req, 404, "lease-free", NULL, "Nobody holds the lease.");
    return answer_lease(req, 200, &copy, now);
}

/* It may be said twice: what is free stays free. */
static slate_result delete_lease(slate_request *req)
{
    lease asked = {.next = NULL};
    const char *holder = slate_query(req, "holder");
    if (!read_name(req, &asked))
        return SLATE_ANSWERED;
    if (!holder)
        return slate_answer_problem(req, 400, "lease-holder", NULL,
                                    "Who gives the lease back is missing: ?holder=…");
    pthread_mutex_lock(&lock);
    lease **at = find(asked.name, asked.name_length, now_ms(CLOCK_MONOTONIC));
    bool others = *at && !is_held_by(*at, holder, strlen(holder));
    if (*at && !others)
        end_lease(at);
    pthread_mutex_unlock(&lock);
    if (others)
        return slate_answer_problem(req, 409, "lease-held", NULL, "The lease is held by another.");
    slate_changed(req);
    return slate_answer_empty(req, 204);
}

/* ---- The module --------------------------------------------------------------------------------- */

/* A mutex that is given back and taken at once seldom goes to another: this waits a moment. */
static void let_others(void)
{
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    pthread_mutex_lock(&lock);
}

/* What expires without being asked for, so that memory goes back with no traffic. */
static void *sweep(void *arg)
{
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    pthread_mutex_lock(&lock);
    while (!stopping) {
        due.tv_sec += SWEEP_SECONDS;
        while (!stopping && pthread_cond_timedwait(&stop_asked, &lock, &due) != ETIMEDOUT)
            ;
        int64_t now = now_ms(CLOCK_MONOTONIC);
        for (unsigned i = 0; i < BUCKETS && !stopping && figures_now.live > 0; i++) {
            for (lease **at = &buckets[i]; *at;) {
                if ((*at)->ends_ms <= now) {
                    figures_now.expired++;
                    end_lease(at);
                } else {
                    at = &(*at)->next;
                }
            }
            if (i % SWEPT_AT_ONCE == SWEPT_AT_ONCE - 1)
                let_others();
        }
        pthread_mutex_unlock(&lock);
        mem_depot_decay(depot); /* has a lock of its own */
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return arg;
}

static bool read_limit(void)
{
    const char *text = getenv("LEASES_MAX");
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : LIMIT;
    if (text && (end == text || *end != '\0' || value < 1 || value > LIMIT_MAX)) {
        fprintf(stderr, "leases: LEASES_MAX is '%.32s'; it takes a number from 1 to %d.\n", text,
                LIMIT_MAX);
        return false;
    }
    limit = (unsigned)value;
    return true;
}

static void release(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        while (buckets[i])
            end_lease(&buckets[i]);
    mem_pool_delete(pool);
    mem_blocks_delete(blocks);
    mem_depot_delete(depot);
    pthread_cond_destroy(&stop_asked);
}

static bool start(const struct options *opts)
{
    (void)opts;
    if (!read_limit())
        return false;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stop_asked, &monotonic);
    pthread_condattr_destroy(&monotonic);
    last_fence = now_ms(CLOCK_REALTIME) * 1000; /* above those of the process before */
    depot = mem_depot_create();
    blocks = depot ? mem_blocks_create(depot, 0) : NULL;
    pool = blocks ? mem_pool_create(blocks, sizeof(lease)) : NULL;
    if (pool && getrandom(&secret, sizeof secret, 0) == sizeof secret &&
        pthread_create(&sweeper, NULL, sweep, NULL) == 0)
        return true;
    fprintf(stderr, "leases: no memory, no randomness or no thread.\n");
    release();
    return false;
}

static void stop(void)
{
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_signal(&stop_asked);
    pthread_mutex_unlock(&lock);
    pthread_join(sweeper, NULL);
    release();
}

static void figures(slate_emit_figure *emit, void *arg)
{
    pthread_mutex_lock(&lock);
    __typeof__(figures_now) now = figures_now;
    mem_pool_stats held = mem_pool_get_stats(pool);
    pthread_mutex_unlock(&lock);
    emit(arg, "live", "Leases that are held.", false, (double)now.live);
    emit(arg, "limit", "How many may be held.", false, limit);
    emit(arg, "pool_bytes", "Memory of the pool that they lie in.", false, (double)held.held);
    emit(arg, "taken", "Leases taken.", true, (double)now.taken);
    emit(arg, "renewed", "Leases renewed by their holder.", true, (double)now.renewed);
    emit(arg, "refused", "Refusals because another holds the lease.", true, (double)now.refused);
    emit(arg, "full", "Refusals because the limit is reached.", true, (double)now.full);
    emit(arg, "expired", "Leases that ended by themselves.", true, (double)now.expired);
}

static const slate_route routes[] = {
    {.path = "/leases/{name}",
     .on = {[SLATE_GET] = get_lease, [SLATE_PUT] = put_lease, [SLATE_DELETE] = delete_lease},
     .consumes[SLATE_PUT] = "application/json",
     .summary = "A lease: who may do what only one may do at a time."},
    {.path = NULL},
};

static const slate_module module = {
    .name = "leases", .routes = routes, .start = start, .stop = stop, .figures = figures};
SLATE_PLUGIN(module);
