/* slate with faults that a test aims: while FAULT_FILE, mapped, says so, the k-th call for memory that
 * a request makes is refused, also after a wait. The linker puts these functions between the server and what it calls
 * (--wrap), so every checker still sees its own malloc. jansson's calls come by its hooks, and
 * libmicrohttpd's objects, which are made of malloc too, fail whole. Each thread serves one request at
 * a time here, so one count is enough. */
#include <fcntl.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../alloc/internal.h"
#include "../../alloc/pool.h"
#include "../../server/slate.h"
#include "fault.h"

struct aim *aim;

static __thread bool in_callback;
static uint64_t refused_before;

static bool strikes(void)
{
    if (!in_callback || !aim->library || aim->left == 0 || --aim->left > 0)
        return false;
    count_struck(1);
    return true;
}

static void *hooked_malloc(size_t size)
{
    return strikes() ? NULL : malloc(size);
}

static __attribute__((constructor)) void take_aim(void)
{
    const char *name = getenv("FAULT_FILE");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    void *p = mmap(NULL, sizeof *aim, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || p == MAP_FAILED) {
        fputs("fault: FAULT_FILE must name a file for struct aim.\n", stderr);
        exit(1);
    }
    close(file);
    aim = p;
    json_set_alloc_funcs(hooked_malloc, free); /* with --alloc arena the server sets its own */
}

/* ---- What the linker calls instead ------------------------------------------------------------ */

/* clang-format off */
#define WRAP(result, name, parameters, arguments, refused)              \
    result __real_##name parameters;                                    \
    result __wrap_##name parameters;                                    \
    result __wrap_##name parameters                                     \
    {                                                                   \
        return strikes() ? (refused) : __real_##name arguments;         \
    }
/* clang-format on */

WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *p, size_t size), (p, size), NULL)
WRAP(void *, mem_pool_take, (mem_pool * pool), (pool), NULL)
WRAP(struct MHD_Response *, MHD_create_response_from_buffer,
     (size_t size, void *buffer, enum MHD_ResponseMemoryMode mode), (size, buffer, mode), NULL)
WRAP(struct MHD_Response *, MHD_create_response_from_callback,
     (uint64_t size, size_t block, MHD_ContentReaderCallback read, void *arg,
      MHD_ContentReaderFreeCallback end),
     (size, block, read, arg, end), NULL)
WRAP(enum MHD_Result, MHD_add_response_header,
     (struct MHD_Response * response, const char *name, const char *value), (response, name, value),
     MHD_NO)

/* ---- A request ---------------------------------------------------------------------------------- */

static void leave(void)
{
    in_callback = false;
    uint64_t refused = mem_debug_get_counts(mem_debug_default).refused; /* --mem-debug=count */
    count_struck(refused - refused_before);
    refused_before = refused;
}

typedef enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *size, void **state);
on_request __real_http_on_request, __wrap_http_on_request;

enum MHD_Result __wrap_http_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                       const char *method, const char *version, const char *data,
                                       size_t *size, void **state)
{
    if (!*state) {
        aim->left = aim->library ? aim->library : aim->sqlite;
        aim->struck = 0;
        refused_before = mem_debug_get_counts(mem_debug_default).refused;
        mem_debug_fail_at(mem_debug_default, aim->contexts);
    }
    in_callback = true;
    enum MHD_Result result =
        __real_http_on_request(arg, mhd, url, method, version, data, size, state);
    leave();
    return result;
}

/* The pieces of a stream are asked for outside. */
typedef slate_stream_state produce(slate_request *req, char *into, size_t room, size_t *ret_size,
                                   slate_wake_reason why);
produce __real_request_produce, __wrap_request_produce;

slate_stream_state __wrap_request_produce(slate_request *req, char *into, size_t room,
                                          size_t *ret_size, slate_wake_reason why)
{
    in_callback = true;
    slate_stream_state state = __real_request_produce(req, into, room, ret_size, why);
    leave();
    return state;
}
