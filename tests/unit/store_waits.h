/* Stands in for the server where a store is tested without one: a request whose waits are looked at,
 * ended or timed out by the test. Include it once per program, after cmocka.h. */
#ifndef STORE_WAITS_H
#define STORE_WAITS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../alloc/blocks.h"
#include "../../handlers/store/store.h"

#define WAITS_MAX 64

struct slate_wait {
    slate_request *req;
    slate_continuation *then;
    void *arg;
    unsigned within_ms;
    int wakes; /* guarded by the request's lock */
};

struct slate_request {
    pthread_mutex_t lock;
    pthread_cond_t woken;
    slate_wait waits[WAITS_MAX];
    size_t count;
    bool refuses; /* there is no memory for a wait */
    bool changed; /* slate_changed has been called */
};

#define REQUEST                                                               \
    {                                                                         \
        .lock = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER, \
    }

/* What an operation lives in, as slate_context_create would make it: with OP_ALLOC=arena in the
 * environment as in that mode. */
static inline mem_context *op_home(void)
{
    static mem_blocks *shared;
    const char *alloc = getenv("OP_ALLOC");
    if (!alloc || strcmp(alloc, "arena") != 0)
        return mem_heap_create(NULL, "store operation");
    if (!shared)
        shared = mem_blocks_create_shared(mem_depot_create(), MEM_RETAIN_ADAPTIVE);
    return mem_arena_create(NULL, "store operation", shared);
}

slate_wait *slate_wait_begin(slate_request *req, unsigned within_ms, slate_continuation *then,
                             void *arg)
{
    if (req->refuses)
        return NULL;
    assert_true(req->count < WAITS_MAX);
    slate_wait *wait = &req->waits[req->count++];
    *wait = (slate_wait){.req = req, .then = then, .arg = arg, .within_ms = within_ms};
    return wait;
}

void slate_wake(slate_wait *wait)
{
    pthread_mutex_lock(&wait->req->lock);
    wait->wakes++;
    pthread_cond_broadcast(&wait->req->woken);
    pthread_mutex_unlock(&wait->req->lock);
}

void slate_changed(slate_request *req)
{
    req->changed = true;
}

/* Blocks until that wait of the request has been ended. */
static inline void await_wake(slate_request *req, size_t which)
{
    pthread_mutex_lock(&req->lock);
    while (req->waits[which].wakes == 0)
        pthread_cond_wait(&req->woken, &req->lock);
    pthread_mutex_unlock(&req->lock);
}

static inline int wakes_of(slate_request *req, size_t which)
{
    pthread_mutex_lock(&req->lock);
    int wakes = req->waits[which].wakes;
    pthread_mutex_unlock(&req->lock);
    return wakes;
}

/* Goes on after a wait, as the server would. */
static inline slate_result go_on(slate_request *req, size_t which, slate_wake_reason why)
{
    return req->waits[which].then(req, req->waits[which].arg, why);
}

#endif
