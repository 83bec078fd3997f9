/* What is wrong with a request to the document API, for the problem that is answered. */
#ifndef SLATE_DB_FAULT_H
#define SLATE_DB_FAULT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct db_fault {
    char detail[400]; /* a sentence: what, where, what is allowed */
    size_t limit;     /* the limit that was exceeded, or 0 */
    bool memory;      /* nothing is wrong: an allocation was refused */
} db_fault;

/* Fills it in. Always false, so that it can be returned. */
bool db_fail(db_fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool db_fail_limit(db_fault *fault, size_t limit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool db_fail_memory(db_fault *fault);

#endif
