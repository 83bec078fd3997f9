/* jansson's allocator, answered from the current context. jansson has one pair of hooks for the
 * whole process and passes no context to them, so they find theirs by thread. The figures kept here
 * are per thread, like the contexts. */
#include "bridge.h"

#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>

#include "json.h"

/* What jansson's structures need; MEM_ALIGN would waste 8 bytes on most of its nodes. */
#define NODE_ALIGN 8
static_assert(_Alignof(json_int_t) <= NODE_ALIGN && _Alignof(double) <= NODE_ALIGN &&
                  _Alignof(void *) <= NODE_ALIGN,
              "jansson's structs hold nothing that is aligned to more");

static bool installed;
static bool walks = true; /* json_bridge_release */

#ifndef NDEBUG
#define ALWAYS_WALKS true /* to find nodes that are referenced elsewhere, or that nobody owns */
#else
#define ALWAYS_WALKS false
#endif

/* jansson's newest allocation on this thread, so that a free of it can be a pop. Nothing has to be
 * forgotten at a reset: jansson frees only what it got from node_alloc, and whatever it got after
 * `newest.at` has replaced it here. So when jansson frees the address `newest.at`, it means this
 * allocation and no earlier or later one, and the size is right. Whether it is still the context's
 * newest, mem_free finds out. */
static __thread struct {
    void *at;
    size_t size;
    mem_context *ctx;
} newest;

static __thread jmp_buf *way_out; /* of jansson's parser, while it runs */

#ifndef NDEBUG
static __thread long outstanding;
#define COUNT(change) (outstanding += (change))
#else
#define COUNT(change) ((void)0)
#endif

static void *node_alloc(size_t size)
{
    mem_context *ctx = mem_current();
    if (!ctx)
        return malloc(size);
    void *at = mem_alloc_aligned(ctx, size, NODE_ALIGN);
    if (at) {
        newest.at = at;
        newest.size = size;
        newest.ctx = ctx;
        COUNT(1);
    } else if (way_out) {
        longjmp(*way_out, 1);
    }
    return at;
}

static void node_free(void *at)
{
    mem_context *ctx = mem_current();
    if (!ctx) {
        free(at);
        return;
    }
    COUNT(-1);
    if (at == newest.at && ctx == newest.ctx) {
        newest.at = NULL;
        mem_free(ctx, at, newest.size);
    }
}

void json_bridge_install(bool walk)
{
    json_set_alloc_funcs(node_alloc, node_free);
    installed = true;
    walks = walk || ALWAYS_WALKS;
}

bool json_bridge_installed(void)
{
    return installed;
}

bool json_bridge_walks(void)
{
    return walks;
}

void json_bridge_release(json_t *tree)
{
    assert(!installed || !tree || tree->refcount == 1 || tree->refcount == (size_t)-1);
    if (walks)
        json_decref(tree);
}

long json_bridge_outstanding(void)
{
#ifndef NDEBUG
    return outstanding;
#else
    return 0;
#endif
}

json_t *json_bridge_load(const char *text, size_t size, size_t flags, json_error_t *ret_error,
                         bool *ret_refused)
{
    jmp_buf refusal;
#ifndef NDEBUG
    const long before = outstanding;
#endif
    *ret_refused = false;
    if (setjmp(refusal) != 0) {
        way_out = NULL;
#ifndef NDEBUG
        outstanding = before;
#endif
        *ret_refused = true;
        return NULL;
    }
    way_out = &refusal;
    json_t *tree = json_loadb(text, size, flags, ret_error);
    way_out = NULL;
    return tree;
}
