/* Workers: libmicrohttpd has no hook for the start of a thread, so a worker is made at the first
 * callback on its thread and ended by a thread-specific key. Its counters stay until the server
 * ends; its memory goes back to the depot with the thread. */
#include <stdlib.h>
#include <sys/random.h>

#include "internal.h"
#include "log.h"

#define SCRATCH_BLOCK (16u * 1024u) /* bytes: the tree of a body of some 2 KB */

static __thread worker *this_worker;

static void release_memory(worker *w)
{
    repeats_forget(w);
    mem_pool_delete(w->requests);
    mem_pool_delete(w->connections);
    if (w->scratch_block)
        mem_blocks_give(w->blocks, w->scratch_block);
    mem_blocks_delete(w->blocks);
}

/* The thread is over, and its connections with it. */
static void worker_end(void *arg)
{
    worker *w = arg;
    /* Statistics are read under the server's lock, which keeps these pointers valid for them. */
    pthread_mutex_lock(&w->owner->lock);
    mem_delete(&w->context);
    release_memory(w);
    w->requests = w->connections = NULL;
    w->scratch_block = NULL;
    w->blocks = NULL;
    pthread_mutex_unlock(&w->owner->lock);
    this_worker = NULL;
}

static void worker_free(worker *w)
{
    if (!w)
        return;
    release_memory(w);
    free(w->by_route);
    free(w->newest);
    pthread_mutex_destroy(&w->waits.lock);
    pthread_mutex_destroy(&w->lock);
    door_destroy(&w->door);
    free(w);
}

static worker *worker_create(listener *on)
{
    server *s = on->owner;
    worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL); /* default attributes: cannot fail */
    pthread_mutex_init(&w->waits.lock, NULL);
    door_init(&w->door);
    w->owner = s;
    w->admin = on->admin;
    w->route_count = on->routes->count + 1u;
    w->by_route = calloc(w->route_count, sizeof *w->by_route);
    w->newest = calloc(w->route_count, sizeof *w->newest);
    w->blocks = mem_blocks_create(s->depot, s->opts.retain); /* SIZE_MAX: adaptive */
    bool arena = s->opts.alloc == ALLOC_ARENA, pools = true;
    if (arena && w->blocks)
        w->scratch_block = mem_blocks_take(w->blocks, SCRATCH_BLOCK);
    if (s->opts.pool && w->blocks) {
        w->requests = mem_pool_create(w->blocks, request_cell_size(s->opts.alloc));
        w->connections = mem_pool_create(w->blocks, sizeof(connection));
        pools = w->requests && w->connections;
    }
    if (!w->by_route || !w->newest || !w->blocks || !pools || (arena && !w->scratch_block)) {
        worker_free(w);
        return NULL;
    }
    if (getrandom(&w->id_seed, sizeof w->id_seed, GRND_NONBLOCK) != sizeof w->id_seed)
        w->id_seed = (uintptr_t)w ^ (uint64_t)s->started_ms;
    if (arena) {
        mem_arena_init(&w->context, NULL, "worker", w->blocks, NULL, 0);
        mem_arena_init(&w->scratch, NULL, "scratch", w->blocks,
                       (char *)w->scratch_block + MEM_BLOCK_HEADER,
                       w->scratch_block->size - MEM_BLOCK_HEADER);
    } else {
        mem_heap_init(&w->context, NULL, "worker");
        mem_heap_init(&w->scratch, NULL, "scratch");
    }
    return w;
}

worker *worker_this(void)
{
    return this_worker;
}

static __attribute__((noinline)) worker *begin_worker(listener *on)
{
    worker *w = worker_create(on);
    if (!w)
        return NULL;
    server *s = on->owner;
    pthread_mutex_lock(&s->lock);
    w->number = s->workers ? s->workers->number + 1 : 0;
    w->next = s->workers;
    s->workers = w;
    pthread_mutex_unlock(&s->lock);
    /* If the key cannot be set, the worker's memory is given back with the server instead. */
    if (pthread_setspecific(s->worker_key, w) != 0)
        log_warning("Worker %u gives its memory back only when the server stops.", w->number);
    this_worker = w;
    return w;
}

worker *worker_current(listener *on)
{
    return this_worker ? this_worker : begin_worker(on);
}

bool workers_init(server *s)
{
    if (pthread_key_create(&s->worker_key, worker_end) != 0)
        return false;
    pthread_mutex_init(&s->lock, NULL); /* default attributes: cannot fail */
    pthread_mutex_init(&s->lingering.lock, NULL);
    return true;
}

void workers_clear_neglected(server *s)
{
    pthread_mutex_lock(&s->lock); /* keeps a thread that ends from taking its magazine away */
    for (worker *w = s->workers; w; w = w->next) {
        if (w->admin || !w->blocks || !mem_blocks_is_neglected(w->blocks))
            continue;
        if (!door_try_close(&w->door)) /* it is at work, perhaps for long: not neglected */
            continue;
        mem_blocks_clear(w->blocks);
        door_open(&w->door);
    }
    pthread_mutex_unlock(&s->lock);
    if (s->shared_blocks && mem_blocks_is_neglected(s->shared_blocks))
        mem_blocks_clear(s->shared_blocks);
}

mem_blocks_stats server_blocks(server *s)
{
    mem_blocks_stats sum = {0};
    if (s->shared_blocks)
        sum = mem_blocks_get_stats(s->shared_blocks);
    for (const worker *w = s->workers; w; w = w->next) {
        if (!w->blocks)
            continue;
        mem_blocks_stats stats = mem_blocks_get_stats(w->blocks);
        sum.idle += stats.idle;
        sum.lent += stats.lent;
        sum.maps += stats.maps;
        sum.unmaps += stats.unmaps;
    }
    return sum;
}

void workers_free(server *s)
{
    while (s->workers) {
        worker *w = s->workers;
        s->workers = w->next;
        worker_free(w);
    }
    pthread_key_delete(s->worker_key);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->lingering.lock);
}

totals server_totals(server *s, bool admin)
{
    totals sum = {0};
    pthread_mutex_lock(&s->lock);
    for (const worker *w = s->workers; w; w = w->next) {
        if (w->admin != admin)
            continue;
        /* `completed` before `begun`: the difference is never below the truth. */
        sum.completed += counter_get(&w->completed);
        sum.closed += counter_get(&w->closed);
        sum.begun += counter_get(&w->begun);
        sum.accepted += counter_get(&w->accepted);
        sum.aborted += counter_get(&w->aborted);
        sum.refused += counter_get(&w->refused);
        sum.log_lines_lost += counter_get(&w->log_lines_lost);
        sum.asleep += worker_asleep(w);
    }
    pthread_mutex_unlock(&s->lock);
    return sum;
}
