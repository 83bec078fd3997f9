/* Memory contexts: allocations that die together.
 *
 * A context owns everything allocated in it; reset gives all of it back at once, delete also ends
 * the context, and both take the children with them. Two kinds share this one interface: the
 * *arena* bumps a pointer through blocks (arena.c), the *heap* calls malloc for every allocation
 * (heap.c), so that code written once can be run, and measured, on either.
 *
 * A context and its children belong to one thread at a time; nothing here takes a lock, except
 * where blocks.h says so. The rules are in alloc/README.md.
 * After: Hanson, "Fast allocation and deallocation of memory based on object lifetimes" (1990);
 * PostgreSQL's memory contexts. */
#ifndef MEM_H
#define MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* all else in the library is hidden */

/* AddressSanitizer must see every allocation: its builds have no inline path. */
#if defined __SANITIZE_ADDRESS__
#define MEM_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define MEM_ASAN 1
#endif
#endif
#ifndef MEM_ASAN
#define MEM_ASAN 0
#endif

#define MEM_ALIGN 16            /* alignment of mem_alloc, in bytes; the largest supported */
#define MEM_GRAIN 8             /* alignments below it are rounded up to it, in bytes */
#define MEM_LARGE (16u * 1024u) /* requests above this many bytes get a block of their own */

typedef struct mem_context mem_context;
typedef struct mem_kind mem_kind;
typedef struct mem_budget mem_budget;
typedef struct mem_blocks mem_blocks; /* blocks.h: where an arena's blocks come from */
typedef struct mem_block mem_block;
typedef struct mem_debug mem_debug; /* debug.h: instruments */

/* Why an allocation was refused. The first refusal sticks to its budget until mem_budget_reset:
 * every later allocation that leaves the bump window fails too, since callers like jansson do not
 * reliably report a failed malloc. */
typedef enum {
    MEM_GRANTED = 0,
    MEM_OVER_LIMIT, /* the budget's own limit */
    MEM_OVER_TOTAL, /* the limit of the budget above it, shared by all */
    MEM_NO_SYSTEM   /* the system gave no memory, or the size cannot be represented */
} mem_refusal;

/* The limit shared by all budgets below it (for example: everything in flight in the process).
 * Safe from any thread. limit 0 means none. */
typedef struct mem_total {
    size_t limit; /* bytes; constant while in use */
    size_t used;  /* bytes charged now; atomic */
} mem_total;

/* What a context and its children may hold together, in bytes of blocks (arena) or of allocations
 * with their headers (heap). A first block is not charged: it is there in any case. Owned by one
 * thread. */
struct mem_budget {
    size_t limit;        /* bytes; 0: none */
    size_t used;         /* bytes charged now */
    size_t peak;         /* highest `used` since mem_budget_init */
    mem_total *total;    /* NULL: none */
    mem_refusal refused; /* sticky */
};

void mem_budget_init(mem_budget *budget, size_t limit, mem_total *total);
void mem_budget_reset(mem_budget *budget); /* forgets a refusal; `used` stays as charged */

/* Runs when its context is reset or deleted, last registered first, before any memory is given
 * back. The struct is the caller's and usually lives in the context itself. */
typedef struct mem_callback {
    void (*run)(void *arg);
    void *arg;
    struct mem_callback *next;
} mem_callback;

/* Figures of one context, without its children, in bytes where not said otherwise. */
typedef struct mem_stats {
    const char *kind; /* "arena" or "heap" */
    const char *name;
    size_t total;  /* held: blocks and large blocks (arena), allocations with headers (heap) */
    size_t used;   /* handed out since the last reset, also from an inline first block */
    size_t peak;   /* highest `used` seen at a reset or by this call */
    size_t blocks; /* count of bump blocks, without the caller's first block */
    size_t large_blocks; /* count of allocations with a block of their own */
    uint64_t resets;     /* count */
    uint64_t refusals;   /* count */
} mem_stats;

/* Public only so that mem_alloc can be inlined and contexts embedded: use the functions. An arena
 * hands out its newest block from both ends: what is aligned to MEM_ALIGN from the front, the rest
 * from the back, so that neither has to pad for the other. A heap's window is shut, so that it
 * always takes the slow path. */
struct mem_context {
    char *cur; /* the front: next free byte, MEM_ALIGN-aligned */
    char *end; /* open: one byte behind where what is free ends, MEM_GRAIN-aligned; shut: cur */
    const mem_kind *kind;
    mem_blocks *source; /* arena: where blocks come from; not owned */
    mem_budget *budget; /* NULL: unlimited; inherited from the parent */
    char *back;         /* arena, shut: where what is free ends */
    mem_block *block;   /* arena: bump blocks, newest first */
    mem_block *large;   /* arena: large blocks; heap: every allocation, newest first */
    char *first;        /* arena: the first block, or NULL; owned by the caller, or kept by an
                           arena that was created */
    size_t first_size;
    size_t next_size; /* arena: size of the next bump block */
    mem_callback *callbacks;
    mem_context *parent, *child, *prev, *next; /* tree; child: the newest */
    const char *name;                          /* static string */
    size_t closed_used;                        /* bytes used outside the newest bump block */
    size_t held, peak;
    size_t blocks, large_blocks;
    uint64_t resets, refusals;
    bool embedded; /* the struct is the caller's: delete does not free it */
};

/* ---- Making and ending contexts ------------------------------------------------------------ */

/* Makes `ctx`, the caller's struct, an empty arena under `parent` (NULL: a root). `first`, if not
 * NULL, is the caller's memory used before any block is taken: `first_size` bytes,
 * MEM_ALIGN-aligned, alive until mem_delete. Blocks come from `source` (blocks.h), which must
 * outlive the context. Cannot fail. */
void mem_arena_init(mem_context *ctx, mem_context *parent, const char *name, mem_blocks *source,
                    void *first, size_t first_size);
/* Makes `ctx` an empty heap: every allocation is a malloc of its own, freed at reset. */
void mem_heap_init(mem_context *ctx, mem_context *parent, const char *name);

/* The same, with the struct allocated too: an arena's lives in its first block, which is kept over
 * resets. While it has no budget, an arena also keeps one block of up to MEM_BLOCK_MAX bytes that its
 * rounds need, until one that allocated has not used a quarter of it. NULL: no memory. End it with
 * mem_delete. */
mem_context *mem_arena_create(mem_context *parent, const char *name, mem_blocks *source);
mem_context *mem_heap_create(mem_context *parent, const char *name);
/* The same, of the kind of its parent: for what is to be given back in the middle of its work. */
mem_context *mem_child_create(mem_context *parent, const char *name);
/* Makes `ctx`, the caller's struct, such a child. If `parent` is an arena, `first` is its first block,
 * as above. */
void mem_child_init(mem_context *ctx, mem_context *parent, const char *name, void *first,
                    size_t first_size);
/* The bytes that one mem_alloc could have of `ctx` without another block: 0 in a heap. With instruments
 * that put something around an allocation, a few less. */
size_t mem_room(const mem_context *ctx);
/* The bytes that an allocation of `size` may as well be: as many cost no more, instruments apart. For
 * buffers that grow. */
size_t mem_good_size(const mem_context *ctx, size_t size);

/* Runs the callbacks, deletes the children, gives back every allocation. An empty context is left
 * alone at no cost. */
void mem_reset(mem_context *ctx);
/* Reset, then leaves the tree; frees the struct unless it was embedded. NULL is allowed. */
void mem_delete(mem_context *ctx);

/* Hangs `ctx`, an empty root, under `parent`, and charges it to the parent's budget. It must be of the
 * parent's thread. */
void mem_attach(mem_context *ctx, mem_context *parent);
/* Reset, with callbacks and children, then leaves the tree and the budget: an empty root again. */
void mem_detach(mem_context *ctx);

/* Registers `callback` (the caller's struct) to run at the next reset. */
void mem_on_reset(mem_context *ctx, mem_callback *callback);

/* Charges `ctx`, and children made from now on, to `budget`. Only while the context is empty. */
void mem_set_budget(mem_context *ctx, mem_budget *budget);

mem_stats mem_get_stats(const mem_context *ctx);
/* Sum over ctx and all below it. */
size_t mem_total_held(const mem_context *ctx);

/* ---- Allocating ----------------------------------------------------------------------------- */

/* Slow path of mem_alloc and mem_alloc_aligned; not to be called directly. */
void *mem_alloc_slow(mem_context *ctx, size_t size, size_t align);

/* `size` bytes, uninitialised, aligned to `align` (a power of two up to MEM_ALIGN), alive until
 * reset. Size 0: a pointer to no byte, perhaps not the only one to its address. NULL: refused (see
 * mem_refusal). */
static inline void *mem_alloc_aligned(mem_context *ctx, size_t size, size_t align)
{
    bool from_front = align > MEM_GRAIN;
    size_t grain = from_front ? MEM_ALIGN : MEM_GRAIN;
    size_t whole = (size + (grain - 1)) & ~(grain - 1);
    uintptr_t cur = (uintptr_t)ctx->cur, end = (uintptr_t)ctx->end;
    /* Signed, as a shut window may lie at 0. */
    bool fits = from_front ? cur + whole < end : (intptr_t)(end - whole) > (intptr_t)cur;
    if (!MEM_ASAN && size <= MEM_LARGE && __builtin_expect(fits, 1)) {
        uintptr_t at = from_front ? cur : end - whole - 1;
        if (from_front)
            ctx->cur = (char *)(cur + whole);
        else
            ctx->end = (char *)(end - whole);
        if (at == 0)
            __builtin_unreachable(); /* spares the caller a test for NULL */
        return (void *)at;
    }
    return mem_alloc_slow(ctx, size, align);
}

static inline void *mem_alloc(mem_context *ctx, size_t size)
{
    return mem_alloc_aligned(ctx, size, MEM_ALIGN);
}

/* Zeroed; `count * size` is checked for overflow. */
void *mem_alloc_array(mem_context *ctx, size_t count, size_t size);

/* Makes the allocation `p` of `old_size` bytes (as last asked for; p NULL: a new one) `new_size`
 * bytes, in place where possible: the newest of an arena's that are aligned to MEM_ALIGN, and a
 * large block within its capacity, do not move. What moves is aligned to MEM_ALIGN. Contents are kept
 * up to the smaller size. NULL: refused, and `p` is still valid. */
void *mem_resize(mem_context *ctx, void *p, size_t old_size, size_t new_size);

/* Gives one allocation of `size` bytes (as last asked for) back early: a large block and a heap
 * allocation return at once, the newest of either end of an arena is popped, any other waits for the
 * reset. */
void mem_free(mem_context *ctx, void *p, size_t size);

/* Copies into the context. NULL: refused. mem_copy_string adds the final NUL. */
void *mem_copy(mem_context *ctx, const void *bytes, size_t size);
char *mem_copy_string(mem_context *ctx, const char *text, size_t length);
/* printf into the context; `ret_length` (may be NULL) gets the length. NULL: refused. */
char *mem_printf(mem_context *ctx, size_t *ret_length, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- The current context --------------------------------------------------------------------- */

extern __thread mem_context *mem_current_context;

/* The calling thread's current context, or NULL. Set it on entry to a callback and restore it on
 * the way out: between callbacks other requests run on the same thread. */
static inline mem_context *mem_current(void)
{
    return mem_current_context;
}

/* Makes `ctx` (may be NULL) current; returns the one before. */
static inline mem_context *mem_switch(mem_context *ctx)
{
    mem_context *before = mem_current_context;
    mem_current_context = ctx;
    return before;
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
