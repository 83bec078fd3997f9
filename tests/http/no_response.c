/* Preloaded into a server under test: while the file that NO_RESPONSE names exists, no response
 * object can be made, as if memory had run out. When libmicrohttpd itself fails to make its answer
 * to a malformed chunk, it drops the connection without calling the completion callback of the
 * request that is in flight. */
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct MHD_Response *maker(size_t, void *, enum MHD_ResponseMemoryMode);

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *buffer,
                                                     enum MHD_ResponseMemoryMode mode)
{
    static maker *next;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "MHD_create_response_from_buffer");
    const char *flag = getenv("NO_RESPONSE");
    return flag && access(flag, F_OK) == 0 ? NULL : next(size, buffer, mode);
}
