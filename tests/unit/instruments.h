/* Lets the tests of contexts run behind instruments: those that MEM_DEBUG names, if it is set. */
#ifndef INSTRUMENTS_H
#define INSTRUMENTS_H

#include <stdlib.h>
#include <string.h>

#include "../../alloc/debug.h"

static mem_debug *instruments;

static __attribute__((constructor)) void take_instruments(void)
{
    const char *list = getenv("MEM_DEBUG");
    instruments = list ? mem_debug_create(list) : NULL;
    mem_debug_set_default(instruments);
}

static __attribute__((destructor)) void put_instruments_away(void)
{
    mem_debug_delete(instruments);
}

/* For tests of where an arena puts things, or what it charges for them. */
static inline void needs_bare_contexts(void)
{
    if (getenv("MEM_DEBUG"))
        skip();
}

/* Whether a checker would report a look at memory that is not handed out. */
static inline bool is_checked(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return MEM_ASAN || (preloaded && strstr(preloaded, "vgpreload"));
}

#endif
