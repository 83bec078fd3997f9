/* The observer's side of the door, and the wait of a worker that finds it closed. */
#include "door.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_NS 50000 /* a callback takes microseconds to milliseconds */

bool door_needs_fence;

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

void door_setup(void)
{
    door_needs_fence = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
}

void door_init(door *d)
{
    *d = (door){0};
    pthread_mutex_init(&d->lock, NULL); /* default attributes: cannot fail */
}

void door_destroy(door *d)
{
    pthread_mutex_destroy(&d->lock);
}

void door_wait(door *d)
{
    while (__atomic_load_n(&d->wanted, __ATOMIC_ACQUIRE)) {
        door_leave(d);
        pthread_mutex_lock(&d->lock); /* until the observer has looked */
        pthread_mutex_unlock(&d->lock);
        __atomic_store_n(&d->inside, true, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* From here on the worker does not enter; it may be inside still. */
static void hold(door *d)
{
    pthread_mutex_lock(&d->lock);
    __atomic_store_n(&d->wanted, true, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!door_needs_fence)
        (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); /* registered: cannot fail */
}

void door_close(door *d)
{
    hold(d);
    while (__atomic_load_n(&d->inside, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
}

bool door_try_close(door *d)
{
    hold(d);
    if (!__atomic_load_n(&d->inside, __ATOMIC_ACQUIRE))
        return true;
    door_open(d);
    return false;
}

void door_open(door *d)
{
    __atomic_store_n(&d->wanted, false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
}
