/* Waits: a handler sleeps while others work for it, and its event loop goes on.
 *
 * A wait is a struct of its own, which two own: the request, until it goes on or ends, and whoever
 * is to call slate_wake, which may be later than that. Its state, and the list of those asleep, are
 * guarded by the worker's lock, so every race is decided by who gets it first:
 *
 *   - a wake before the handler has returned finds WAIT_BEGUN, and leaves a note (`woken`): the
 *     connection is never suspended. After that it finds WAIT_ASLEEP, since suspending happens in
 *     the same hold of the lock as the change of state: no wake is lost;
 *   - wake, time-out and the end of the server each resume only what is WAIT_ASLEEP and make it
 *     WAIT_OVER: nothing is resumed twice, and libmicrohttpd never touches (closes, frees) a
 *     connection that is asleep, so what is resumed is there;
 *   - libmicrohttpd goes on using its daemon a little after a resumed connection may run. That is
 *     within the lock, too: once waits_refuse has had it, no thread is in there, none will come, and
 *     the daemon may be stopped, which it must not be while a connection is suspended;
 *   - a request that ends with its wait still out leaves the wait to its waker, and a waker that is
 *     done first leaves it to the request: the second one frees.
 *
 * A thread that wakes must have been joined when its module has stopped: the lock is the worker's,
 * which lives until then. The housekeeper runs the time-outs. */
#include <stdlib.h>
#include <sys/socket.h>

#include "clock.h"
#include "internal.h"

typedef enum {
    WAIT_BEGUN,  /* the handler is still running */
    WAIT_ASLEEP, /* in the worker's list, the connection suspended */
    WAIT_OVER    /* resumed, or never suspended: the event loop will take it from here */
} wait_state;

struct slate_wait {
    worker *worker;
    slate_continuation *then;
    void *arg;
    int64_t deadline_ms;

    /* Guarded by the worker's lock: */
    slate_request *req; /* NULL: it does not wait any more */
    bool woken;         /* slate_wake has been called */
    bool slept;         /* the connection has been suspended */
    bool hopeless;      /* WAIT_OVER: the connection is to be closed */
    wait_state state;
    slate_wake_reason why; /* WAIT_OVER */
    slate_wait *prev, *next;
};

slate_wait *slate_wait_begin(slate_request *req, unsigned within_ms, slate_continuation *then,
                             void *arg)
{
    assert(!req->wait && "a request waits for one thing at a time");
    /* What was refused before may be what the request is about: others must not begin to work for it. */
    slate_wait *wait = req->budget.refused == MEM_GRANTED ? malloc(sizeof *wait) : NULL;
    if (!wait) {
        slate_answer_no_memory(req);
        return NULL;
    }
    *wait = (slate_wait){.worker = req->worker,
                         .then = then,
                         .arg = arg,
                         .deadline_ms = clock_ms() + within_ms,
                         .req = req};
    req->wait = wait;
    return wait;
}

/* ---- Under the worker's lock -------------------------------------------------------------------- */

static void count_asleep(worker *w, int change)
{
    __atomic_store_n(&w->waits.asleep, w->waits.asleep + (unsigned)change, __ATOMIC_RELAXED);
}

static void put_to_sleep(slate_wait *wait)
{
    worker *w = wait->worker;
    wait->state = WAIT_ASLEEP;
    wait->slept = true;
    wait->next = w->waits.first;
    if (wait->next)
        wait->next->prev = wait;
    w->waits.first = wait;
    count_asleep(w, 1);
    http_suspend(wait->req);
}

/* The event loop will go on with the request; the lock keeps the daemon until then. */
static void rouse(slate_wait *wait, slate_wake_reason why, bool hopeless)
{
    worker *w = wait->worker;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        w->waits.first = wait->next;
    if (wait->next)
        wait->next->prev = wait->prev;
    wait->prev = wait->next = NULL;
    count_asleep(w, -1);
    wait->state = WAIT_OVER;
    wait->why = why;
    wait->hopeless = hopeless;
    http_resume(wait->req);
}

/* ---- On the request's thread ---------------------------------------------------------------------- */

bool wait_sleep(slate_request *req)
{
    slate_wait *wait = req->wait;
    worker *w = req->worker;
    pthread_mutex_lock(&w->waits.lock);
    if (wait->state == WAIT_BEGUN) {
        wait->hopeless = __atomic_load_n(&w->owner->waits_refused, __ATOMIC_RELAXED);
        if (wait->woken || wait->hopeless)
            wait->state = WAIT_OVER; /* SLATE_WOKEN */
        else
            put_to_sleep(wait);
    }
    bool asleep = wait->state == WAIT_ASLEEP;
    pthread_mutex_unlock(&w->waits.lock);
    return asleep;
}

/* Parts request and wait. */
static void detach(slate_request *req)
{
    slate_wait *wait = req->wait;
    worker *w = req->worker;
    pthread_mutex_lock(&w->waits.lock);
    assert(wait->state != WAIT_ASLEEP && "a suspended connection is left alone");
    wait->req = NULL;
    bool last = wait->woken;
    pthread_mutex_unlock(&w->waits.lock);
    req->wait = NULL;
    if (last)
        free(wait);
}

bool wait_over(slate_request *req, awakening *ret_next)
{
    const slate_wait *wait = req->wait;
    *ret_next = (awakening){wait->then, wait->arg, wait->why}; /* nobody changes them any more */
    /* The library has not looked at the socket meanwhile, and might write to a client that is gone.
     * One that has only ended its side is given up, too: the library does that, if it comes to read
     * first. */
    bool hopeless = wait->hopeless || (wait->slept && connection_has_ended(req->conn));
    detach(req);
    return !hopeless;
}

void wait_abandon(slate_request *req)
{
    if (req->wait)
        detach(req);
}

/* ---- On other threads ----------------------------------------------------------------------------- */

void slate_wake(slate_wait *wait)
{
    worker *w = wait->worker;
    pthread_mutex_lock(&w->waits.lock);
    wait->woken = true;
    if (wait->state == WAIT_ASLEEP)
        rouse(wait, SLATE_WOKEN, false);
    bool last = !wait->req;
    pthread_mutex_unlock(&w->waits.lock);
    if (last)
        free(wait);
}

static worker *first_worker(server *s)
{
    pthread_mutex_lock(&s->lock);
    worker *first = s->workers;
    pthread_mutex_unlock(&s->lock);
    return first;
}

void waits_expire(server *s, int64_t now_ms)
{
    for (worker *w = first_worker(s); w; w = w->next) {
        if (worker_asleep(w) == 0)
            continue;
        pthread_mutex_lock(&w->waits.lock);
        for (slate_wait *wait = w->waits.first, *next; wait; wait = next) {
            next = wait->next;
            if (now_ms >= wait->deadline_ms)
                rouse(wait, SLATE_TIMED_OUT, false);
        }
        pthread_mutex_unlock(&w->waits.lock);
    }
}

/* A worker that is made after the walk sees the flag: it has taken the server's lock since. */
void waits_refuse(server *s)
{
    __atomic_store_n(&s->waits_refused, true, __ATOMIC_RELAXED);
    for (worker *w = first_worker(s); w; w = w->next) {
        pthread_mutex_lock(&w->waits.lock);
        while (w->waits.first)
            rouse(w->waits.first, SLATE_TIMED_OUT, true);
        pthread_mutex_unlock(&w->waits.lock);
    }
}
