// The C++ library's counterparts: a monotonic buffer over static memory, and the unsynchronized pool.
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <new>

#include "bench.h"

alignas(16) static char buffer[64 * 1024];

/* An object, not a pointer to one: its calls need no virtual table. */
static std::pmr::monotonic_buffer_resource monotonic(buffer, sizeof buffer);

#define ARM monotonic
#define ARM_RESETS 1
#define ARM_FREES 0
#define arm_begin(size) ((void)(size))
#define arm_end() monotonic.release()
#define arm_alloc(size) monotonic.allocate((size), 16)
#define arm_node(size) monotonic.allocate((size), 8)
#define arm_reset() monotonic.release()
#define arm_free(p, size) ((void)(p), (void)(size))
#define arm_rest() ((void)0)
#include "work.h"
extern "C" const struct arm pmr_monotonic_arm = {"pmr monotonic", monotonic_rows};

static std::pmr::unsynchronized_pool_resource *pool;

#define ARM pools
#define ARM_RESETS 0
#define ARM_FREES 1
#define arm_begin(size) ((void)(size), pool = new std::pmr::unsynchronized_pool_resource())
#define arm_end() (delete pool)
#define arm_alloc(size) pool->allocate((size), 16)
#define arm_node(size) pool->allocate((size), 8)
#define arm_reset() ((void)0)
#define arm_free(p, size) pool->deallocate((p), (size), (size) % 16 ? 8 : 16)
#define arm_rest() ((void)0)
#include "work.h"
extern "C" const struct arm pmr_pool_arm = {"pmr pool", pools_rows};
