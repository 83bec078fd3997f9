/* What the test and the server with faults share: a file, mapped by both. */
#ifndef SLATE_TESTS_FAULT_H
#define SLATE_TESTS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Little-endian words; faults.py has the same. Of the aims, at most one is not 0. */
struct aim {
    uint64_t library;  /* k of the calls to malloc, pools, jansson and libmicrohttpd */
    uint64_t contexts; /* k of the calls to contexts, the store's operations included */
    uint64_t sqlite;   /* k of SQLite's calls while the store works */
    uint64_t opening;  /* OPENING_…: each call of SQLite's while the store opens, one by one */
    uint64_t struck;   /* how many were refused since the request began; atomic */
    uint64_t opened;   /* how many were refused while the store opened */
    uint64_t sessions; /* how many of the store's were opened */
    uint64_t left;     /* of the library's or SQLite's calls, until one is refused; 0: none is */
};

enum { OPENING_NEW = 1, OPENING_OLD = 2 }; /* each time a new file, or the one that is there */

extern struct aim *aim;

static inline void count_struck(uint64_t more)
{
    __atomic_add_fetch(&aim->struck, more, __ATOMIC_RELAXED);
}

#endif
