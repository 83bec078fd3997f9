/* A door to a worker's memory. Callbacks run inside it; an observer (/debug/memory) that wants to see
 * the worker's contexts waits until the worker is outside and keeps it there while it looks.
 *
 * The worker pays a store and a load on the way in and a store on the way out, and no barrier: that
 * is the observer's part, who asks the kernel to run one on the worker's processor (membarrier(2)).
 * Dekker's algorithm made lopsided, as in biased locking. */
#ifndef SLATE_DOOR_H
#define SLATE_DOOR_H

#include <pthread.h>
#include <stdbool.h>

typedef struct door {
    bool inside;          /* atomic; written by the worker */
    bool wanted;          /* atomic; written by the observer who holds `lock` */
    pthread_mutex_t lock; /* held by an observer while it looks */
} door;

/* Once, before any thread. Where the kernel has no membarrier, workers run the barrier themselves. */
void door_setup(void);
extern bool door_needs_fence;

void door_init(door *d);
void door_destroy(door *d);

void door_wait(door *d); /* the slow path of door_enter */

static inline void door_enter(door *d)
{
    __atomic_store_n(&d->inside, true, __ATOMIC_RELAXED);
    if (__builtin_expect(door_needs_fence, false))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the compiler must not swap the two */
    if (__builtin_expect(__atomic_load_n(&d->wanted, __ATOMIC_ACQUIRE), false))
        door_wait(d);
}

static inline void door_leave(door *d)
{
    __atomic_store_n(&d->inside, false, __ATOMIC_RELEASE);
}

/* From another thread than the worker's, for a short look. A callback that is running is waited for. */
void door_close(door *d);
/* The same, but without waiting. false: a callback is running, and the door is as it was. */
bool door_try_close(door *d);
void door_open(door *d);

#endif
