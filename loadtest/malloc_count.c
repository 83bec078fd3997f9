/* malloc_count.c: preloaded into a server to count its calls of the malloc family and its mappings,
 * and what is live, in a slot of its own, since counting costs. The counters live in a page that is
 * shared through the file named by MALLOC_COUNT_FILE, so the lab reads them, and sets the peak back,
 * without a word to the server. Any thread may call at any time; counts made before the page is
 * there are kept. Bytes are those that malloc made of what was asked for. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The order is known to lab/counting.py. */
enum { ALLOCS, REALLOCS, FREES, MAPS, UNMAPS, BYTES, LIVE, PEAK, SIZES, COUNTERS = SIZES + 20 };

static _Atomic uint64_t before_page[COUNTERS];
static _Atomic(_Atomic uint64_t *) counters = before_page;

/* glibc's own entry points: what its malloc, calloc, ... are when nobody stands before them. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *ptr);

static uint64_t add(int which, uint64_t n)
{
    return n +
           atomic_fetch_add_explicit(&atomic_load_explicit(&counters, memory_order_relaxed)[which],
                                     n, memory_order_relaxed);
}

static void count(int which)
{
    add(which, 1);
}

/* 0: at most 16 bytes, 1: at most 32, ... */
static int size_class(size_t size)
{
    int class = size <= 16 ? 0 : 60 - __builtin_clzll((unsigned long long)size - 1);
    return class < COUNTERS - SIZES ? class : COUNTERS - SIZES - 1;
}

static void grow(uint64_t n)
{
    _Atomic uint64_t *peak = &atomic_load_explicit(&counters, memory_order_relaxed)[PEAK];
    uint64_t live = add(LIVE, n), seen = atomic_load_explicit(peak, memory_order_relaxed);
    add(BYTES, n);
    while (live > seen && !atomic_compare_exchange_weak_explicit(
                              peak, &seen, live, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Passes on what has been allocated. */
static void *born(void *ptr)
{
    if (ptr) {
        size_t size = malloc_usable_size(ptr);
        count(SIZES + size_class(size));
        grow(size);
    }
    return ptr;
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
    return born(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    count(ALLOCS);
    return born(__libc_calloc(n, size));
}

void *realloc(void *ptr, size_t size)
{
    if (!ptr)
        return malloc(size);
    size_t before = malloc_usable_size(ptr);
    count(REALLOCS);
    void *moved = __libc_realloc(ptr, size);
    if (!moved) {
        if (size == 0)
            add(LIVE, -(uint64_t)before);
        return NULL;
    }
    size_t after = malloc_usable_size(moved);
    if (after >= before)
        grow(after - before);
    else
        add(LIVE, -(uint64_t)(before - after));
    return moved;
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
    return born(__libc_memalign(alignment, size));
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
    if (ptr) {
        count(FREES);
        add(LIVE, -(uint64_t)malloc_usable_size(ptr));
    }
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
