/* malloc_count.c: preloaded into a server to count its calls of the malloc family and its mappings,
 * in a slot of its own, since counting costs. The counters live in a page that is shared through
 * the file named by MALLOC_COUNT_FILE, so the lab reads them without a word to the server. Any
 * thread may call at any time; counts made before the page is there are kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The order is known to lab/counting.py. */
enum { ALLOCS, REALLOCS, FREES, MAPS, UNMAPS, COUNTERS };

static _Atomic uint64_t before_page[COUNTERS];
static _Atomic(_Atomic uint64_t *) counters = before_page;

/* glibc's own entry points: what its malloc, calloc, ... are when nobody stands before them. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *ptr);

static void count(int which)
{
    atomic_fetch_add_explicit(&atomic_load_explicit(&counters, memory_order_relaxed)[which], 1,
                              memory_order_relaxed);
}

__attribute__((constructor)) static void share(void)
{
    const char *path = getenv("MALLOC_COUNT_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof before_page) == 0) {
        void *page = (void *)syscall(SYS_mmap, NULL, sizeof before_page, PROT_READ | PROT_WRITE,
                                     MAP_SHARED, fd, 0);
        if (page != MAP_FAILED) {
            _Atomic uint64_t *shared = page;
            for (int i = 0; i < COUNTERS; i++)
                shared[i] = before_page[i];
            atomic_store(&counters, shared);
        }
    }
    close(fd);
}

void *malloc(size_t size)
{
    count(ALLOCS);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(ALLOCS);
    return __libc_calloc(n, size);
}

void *realloc(void *ptr, size_t size)
{
    count(ptr ? REALLOCS : ALLOCS);
    return __libc_realloc(ptr, size);
}

void *reallocarray(void *ptr, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(ptr, bytes);
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
    count(ALLOCS);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret_ptr, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
        return EINVAL;
    void *ptr = memalign(alignment, size);
    if (!ptr)
        return ENOMEM;
    *ret_ptr = ptr;
    return 0;
}

void free(void *ptr)
{
    if (ptr)
        count(FREES);
    __libc_free(ptr);
}

/* malloc's own mappings do not come this way: these are the program's. */
void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    count(MAPS);
    return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

int munmap(void *addr, size_t length)
{
    count(UNMAPS);
    return (int)syscall(SYS_munmap, addr, length);
}
