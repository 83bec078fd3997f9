/* The server as a whole: start, housekeeping, drain, stop. The main thread does no request: it waits
 * for signals, and between them it is the housekeeper that lets memory go back to the system. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "clock.h"
#include "internal.h"
#include "log.h"
#include "notify.h"

const char *const slate_version = SLATE_VERSION;

/* ---- Housekeeping --------------------------------------------------------------------------------- */

typedef struct housekeeper {
    int64_t next_decay_ms, next_reap_ms;
    int64_t tick_ms;
    unsigned room_ms; /* idle for so long, it makes room for who waits; 0: none does */
    totals last;      /* as of the last decay */
    bool spent;       /* something has run since the last trim */
    uint64_t most;    /* connections that one period has seen since then */
} housekeeper;

#define EXPIRE_EVERY_MS 100 /* waits */
#define REAP_EVERY_MS 250
#define SOON_MS 10 /* while sockets linger, or the server drains */

/* Gives back what malloc keeps; once a period. libmicrohttpd's connections, closed by now, have left
 * their memory with it. Two things say that it is more than will be needed again: the server is at
 * rest (a whole period without a request or a connection come or gone, and none in flight), or the
 * period has seen at most half of the connections that one before has. So a steady load is
 * never trimmed, which would stall threads that allocate and be undone at once, and one that falls
 * is each time it has halved. */
static void trim(server *s, housekeeper *keeper)
{
    totals t = server_totals(s, false);
    bool rest = t.begun == t.completed && memcmp(&t, &keeper->last, sizeof t) == 0;
    uint64_t seen = t.accepted - keeper->last.closed;
    bool fallen = seen <= keeper->most / 2 && keeper->most - seen >= TRIM_WORTH;
    if ((rest && keeper->spent) || fallen) {
        malloc_trim(0);
        keeper->spent = false;
        keeper->most = 0;
    }
    if (!rest)
        keeper->spent = true;
    if (seen > keeper->most)
        keeper->most = seen;
    keeper->last = t;
}

/* Returns how long to wait until the next time, in milliseconds. */
static int64_t keep_house(server *s, housekeeper *keeper)
{
    int64_t now = clock_ms();
    int64_t wait = linger_turn(s, now) ? SOON_MS : keeper->tick_ms;
    waits_expire(s, now);
    repeats_make(s);
    if (now >= keeper->next_reap_ms) {
        keeper->next_reap_ms = now + REAP_EVERY_MS;
        connections_reap(s, now, keeper->room_ms);
    }
    if (now < keeper->next_decay_ms)
        return wait;
    keeper->next_decay_ms = now + s->opts.decay;
    workers_clear_neglected(s);
    mem_depot_decay(s->depot);
    if (s->opts.idle_trim)
        trim(s, keeper);
    return wait;
}

/* Waits up to `wait_ms` for a signal of the set. 0: none came. */
static int wait_signal(const sigset_t *set, int64_t wait_ms)
{
    struct timespec t = {wait_ms / 1000, wait_ms % 1000 * 1000000};
    int sig = sigtimedwait(set, NULL, &t);
    return sig > 0 ? sig : 0;
}

static void serve(server *s, housekeeper *keeper, const sigset_t *set)
{
    for (int64_t wait = 0;; wait = keep_house(s, keeper)) {
        int sig = wait_signal(set, wait);
        if (sig == SIGTERM || sig == SIGINT)
            return;
        if (sig == SIGUSR1)
            contexts_dump(s);
    }
}

/* ---- Draining -------------------------------------------------------------------------------------- */

/* Connections that are idle may be about to send: they are given this long, before they make room for
 * clients that wait, and once no request is left. */
#define QUIET_MS 250

/* Lets what is in flight end, and serves who has connected. A second signal, or the time-out, cuts it
 * short. */
static void drain(server *s, housekeeper *keeper, const sigset_t *set)
{
    log_info("Draining: no new connections, up to %u ms for the requests in flight.",
             s->opts.drain_timeout);
    __atomic_store_n(&s->draining, true, __ATOMIC_RELAXED);
    int64_t quiet_since = clock_ms(), end = quiet_since + s->opts.drain_timeout;
    uint64_t begun = 0, accepted = 0;
    for (;;) {
        unsigned waiting;
        bool refuses = listener_refuse(&s->public, clock_ms(), &waiting);
        keeper->room_ms = waiting > 0 ? QUIET_MS : 0;
        int sig = wait_signal(set, SOON_MS);
        if (sig == SIGTERM || sig == SIGINT) {
            log_warning("A second signal: stopping at once.");
            return;
        }
        if (sig == SIGUSR1)
            contexts_dump(s);
        (void)keep_house(s, keeper); /* and again soon, whatever it says */
        int64_t now = clock_ms();
        totals t = server_totals(s, false);
        bool lingering = linger_turn(s, now); /* after the totals, so with all that have closed */
        if (t.accepted == t.closed && !lingering && refuses)
            return;
        if (t.begun != t.completed || t.begun != begun || t.accepted != accepted || lingering)
            quiet_since = now;
        begun = t.begun;
        accepted = t.accepted;
        if (now - quiet_since >= QUIET_MS && refuses)
            return;
        if (now >= end) {
            log_warning("The drain time-out ends %llu requests in flight; %u clients wait.",
                        (unsigned long long)(t.begun - t.completed), waiting);
            return;
        }
    }
}

/* ---- Start and stop ---------------------------------------------------------------------------------- */

static void log_option(void *arg, const char *name, const char *value)
{
    (void)arg;
    log_debug("%s=%s", name, value);
}

/* Files that are open besides the public connections: sockets of the admin listener and those that
 * linger; three a loop of libmicrohttpd's; the standard ones, the two that listen, and some to spare. */
#define OTHER_FILES(threads) (ADMIN_CONNECTIONS + 2 * LINGER_MAX + 3 * ((threads) + 1) + 16)

/* Sockets are what limits connections first. */
static void raise_file_limit(const options *opts)
{
    struct rlimit files;
    rlim_t needed = (rlim_t)opts->max_connections + OTHER_FILES(opts->threads);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed)
        return;
    files.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < needed)
        log_warning("--max-connections %u needs %llu open files, and %llu are allowed.",
                    opts->max_connections, (unsigned long long)needed,
                    (unsigned long long)files.rlim_cur);
}

/* With arenas little lives on malloc's heaps, so almost every free is at the top of one, and glibc
 * would give back what the next request asks for again. A MiB of each heap is what malloc_trim leaves
 * at the tops of the threads' heaps, so no more. Both limits, since setting either ends glibc's
 * adapting of them; the environment's are overruled.
 *
 * And no fast bins: they hold small chunks as if in use, between large ones that are free. It would be
 * malloc_trim that joins them all, into the top of a thread's heap, of which it gives nothing back;
 * joined when they are freed, the heap shrinks. */
static void calm_malloc(void)
{
    (void)mallopt(M_MXFAST, 0);
    (void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
    (void)mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
}

static bool prepare(server *s)
{
    door_setup();
    if (s->opts.alloc == ALLOC_ARENA && s->opts.idle_trim)
        calm_malloc();
    if (s->opts.alloc == ALLOC_ARENA)
        json_bridge_install(s->opts.json_walk);
    json_reader_select(s->opts.json_reader == READER_JANSSON ? JSON_READER_JANSSON
                                                             : JSON_READER_SLATE);
    json_object_seed(0); /* static memory; before any thread */
    s->in_flight_memory.limit = s->opts.memory_limit;
    s->depot = mem_depot_create();
    if (s->depot && s->opts.alloc == ALLOC_ARENA &&
        !(s->shared_blocks = mem_blocks_create_shared(s->depot, s->opts.retain)))
        return false;
    if (s->opts.mem_debug) {
        s->mem_debug = mem_debug_create(s->opts.mem_debug);
        if (!s->mem_debug)
            return false;
        mem_debug_set_default(s->mem_debug);
    }
    return s->depot && http_make_ready(s);
}

/* false: one line has been logged. */
static bool plan_routes(server *s)
{
    static const slate_module *const admin[] = {&admin_module, NULL};
    s->public = (listener){.owner = s, .fd = -1, .routes = router_create(s->modules)};
    if (!s->public.routes)
        return false;
    s->admin = (listener){.owner = s, .fd = -1, .routes = router_create(admin), .admin = true};
    return s->admin.routes != NULL;
}

static bool start(server *s)
{
    const options *opts = &s->opts;
    /* Both addresses first, so that one in use is the only thing said. */
    return listener_open(&s->public, opts->listen) &&
           (!opts->admin || listener_open(&s->admin, opts->admin)) && modules_start(s) &&
           listener_start(&s->public, opts->threads) &&
           (!opts->admin || listener_start(&s->admin, 1));
}

static int run(server *s, const sigset_t *set)
{
    housekeeper keeper = {.tick_ms =
                              s->opts.decay < EXPIRE_EVERY_MS ? s->opts.decay : EXPIRE_EVERY_MS};
    bool started = start(s);
    if (started) {
        log_info("Serving with --alloc %s, %u worker thread%s.", alloc_mode_name(s->opts.alloc),
                 s->opts.threads, s->opts.threads == 1 ? "" : "s");
        plugins_log(s);
        notify_send("READY=1");
        serve(s, &keeper, set);
        notify_send("STOPPING=1");
        drain(s, &keeper, set);
    }
    waits_refuse(s);
    listener_stop(&s->public);
    listener_stop(&s->admin);
    modules_stop(s);
    linger_turn(s, INT64_MAX); /* closes what is left */
    if (started)
        log_info("Stopped.");
    return started ? 0 : 1;
}

int slate_main(int argc, char **argv, const slate_module *const modules[])
{
    static server s; /* one a process: jansson's hooks are global too */
    switch (options_parse(&s.opts, argc, argv)) {
    case OPTIONS_RUN:
        break;
    case OPTIONS_EXIT_OK:
        return 0;
    case OPTIONS_EXIT_USAGE:
        return 2;
    }
    log_set_level(s.opts.log_level);
    options_each(&s.opts, log_option, NULL);
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) == 0)
        s.started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;

    /* Blocked before any thread exists, so that only the main thread takes them. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        log_error("Signals cannot be set up: %s.", strerror(errno));
        return 1;
    }
    raise_file_limit(&s.opts);
    int status = 1;
    if (plugins_load(&s, modules) && plan_routes(&s) && workers_init(&s)) {
        if (prepare(&s))
            status = run(&s, &set);
        else
            log_error("The server could not be set up: out of memory.");
        http_free_ready(&s);
        workers_free(&s);
        mem_blocks_delete(s.shared_blocks);
        mem_depot_delete(s.depot);
        mem_debug_delete(s.mem_debug);
    }
    free(s.public.routes);
    free(s.admin.routes);
    plugins_free(&s);
    options_free(&s.opts);
    return status;
}
