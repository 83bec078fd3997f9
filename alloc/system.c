/* The pages under the blocks: anonymous private mappings, named so that /proc/self/smaps tells who
 * holds what. Any thread; the kernel does the locking. */
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "internal.h"

#if MEM_VALGRIND && !MEM_ASAN
bool mem_on_valgrind;

static __attribute__((constructor)) void look_for_valgrind(void)
{
    mem_on_valgrind = RUNNING_ON_VALGRIND != 0;
}
#endif

static void *map_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A name is a courtesy: kernels before 5.17, or built without it, refuse, and nothing is lost. */
static void name_pages(void *p, size_t size)
{
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, size, "slate: blocks");
}

static bool is_aligned(const void *p, size_t align)
{
    return ((uintptr_t)p & (align - 1)) == 0;
}

void *mem_map(size_t size, size_t align)
{
    char *p = map_pages(size);
    /* The kernel places mappings side by side, so after the first one most are aligned already. */
    if (p && !is_aligned(p, align)) {
        (void)mem_unmap(p, size);
        if (size > SIZE_MAX - align || !(p = map_pages(size + align)))
            return NULL;
        char *start = (char *)mem_align_up((uintptr_t)p, align);
        size_t before = (size_t)(start - p);
        if (before)
            (void)mem_unmap(p, before);
        if (before < align)
            (void)mem_unmap(start + size, align - before);
        p = start;
    }
    if (p)
        name_pages(p, size);
    if (p && size == MEM_BLOCK_HUGE && align == size)
        (void)madvise(p, size, MADV_HUGEPAGE); /* a courtesy too */
    return p;
}

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer does not see mremap: what came to an address would race with what was there. */
void *mem_remap(void *p, size_t old_size, size_t new_size)
{
    if (new_size <= old_size) {
        if (new_size < old_size)
            (void)mem_unmap((char *)p + new_size, old_size - new_size);
        return p;
    }
    void *moved = mem_map(new_size, 1);
    if (moved) {
        memcpy(moved, p, old_size);
        (void)mem_unmap(p, old_size);
    }
    return moved;
}
#else
void *mem_remap(void *p, size_t old_size, size_t new_size)
{
    void *moved = mremap(p, old_size, new_size, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}
#endif

bool mem_unmap(void *p, size_t size)
{
    mem_unpoison(p, size);
    if (munmap(p, size) == 0)
        return true;
    (void)madvise(p, size, MADV_DONTNEED);
    return false;
}
