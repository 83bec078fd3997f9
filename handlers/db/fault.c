/* Faults of requests to the document API. */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>

bool db_fail(db_fault *fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->detail, sizeof fault->detail, format, args);
    va_end(args);
    return false;
}

bool db_fail_limit(db_fault *fault, size_t limit, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->detail, sizeof fault->detail, format, args);
    va_end(args);
    fault->limit = limit;
    return false;
}

bool db_fail_memory(db_fault *fault)
{
    fault->memory = true;
    return db_fail(fault, "There is not enough memory for this request.");
}
