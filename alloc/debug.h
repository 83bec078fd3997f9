/* Instruments: what one wants to know, or to have go wrong, while looking for a fault. They are
 * chosen at run time by a list such as "poison,guard,count" and put between a context and its kind,
 * whichever that is; without them nothing is between the two, and nothing is paid. A context with
 * instruments has no inline path: they see every call. */
#ifndef MEM_DEBUG_H
#define MEM_DEBUG_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What a list may hold, in order, ended by a NULL name. */
typedef struct mem_debug_flag {
    const char *name;
    const char *argument; /* what stands behind `name=`, a number from 1; NULL: nothing does */
    const char *help;
} mem_debug_flag;
extern const mem_debug_flag mem_debug_flags[];

/* Whether every word of `list`, separated by commas, is one of these. An empty list is none. */
bool mem_debug_valid(const char *list);

/* Instruments as `list` says. NULL: it is not valid, or no memory. */
mem_debug *mem_debug_create(const char *list);
/* After the last context that has them. NULL is allowed. */
void mem_debug_delete(mem_debug *debug);

/* Gives them to `ctx`, which is empty and has none, and to what is made below it from now on. */
void mem_debug_attach(mem_debug *debug, mem_context *ctx);
/* Gives them to every root that is made from now on, by any thread. NULL: none. */
void mem_debug_set_default(mem_debug *debug);

/* What "count" has counted since mem_debug_create, over all its contexts. */
typedef struct mem_counts {
    uint64_t allocs;
    uint64_t resized; /* resized in place */
    uint64_t moved;   /* resized to another place */
    uint64_t frees;   /* one by one */
    uint64_t resets;  /* of contexts that were not empty */
    uint64_t refused; /* calls that got no memory */
    uint64_t bytes;   /* asked for, growth included */
} mem_counts;
/* Safe from any thread. */
mem_counts mem_debug_get_counts(const mem_debug *debug);

/* Lets the k-th allocation or growth from now on be refused, as if the system had no memory; 0:
 * none. For sweeps: k = 1, 2, … until nothing fails. */
void mem_debug_fail_at(mem_debug *debug, uint64_t k);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
