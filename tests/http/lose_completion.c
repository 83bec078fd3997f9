/* Preloaded by test_aborts.py: while the file named by LOSE_COMPLETION exists, libmicrohttpd gets no
 * memory. Among what it then cannot make is its own error response, and that is one of the ways in
 * which a request ends without the completion callback. Any thread. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_calloc(size_t count,
                           size_t size); /* glibc's own, of which calloc is an alias */

static int is_armed(void)
{
    const char *file = getenv("LOSE_COMPLETION");
    return file && access(file, F_OK) == 0;
}

void *calloc(size_t count, size_t size)
{
    int error = errno; /* access() must not change what a successful calloc leaves alone */
    Dl_info caller;
    if (is_armed() && dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname &&
        strstr(caller.dli_fname, "libmicrohttpd")) {
        errno = ENOMEM;
        return NULL;
    }
    errno = error;
    return __libc_calloc(count, size);
}
