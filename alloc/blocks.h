/* Blocks: where arenas and pools get their memory, and how it goes back to the system.
 *
 * Blocks are mapped (never malloc'd: an arena on top of malloc inherits malloc's retention), in
 * size classes from 4 to 64 KiB, above 16 KiB four to a doubling, and of 2 MiB; others are mapped
 * to measure, in steps of as many. A *magazine* (mem_blocks) belongs to one thread: last in, first
 * out, so that the next request gets the block that is still hot in cache. (One for work that
 * passes from thread to thread is *shared*: the same, under a lock.) What is above its retain
 * limit goes to the *depot*, which all magazines share under a lock; a housekeeping thread calls
 * mem_depot_decay, which unmaps what lay unused for a whole period, with no traffic needed. What
 * was mapped to measure is kept by magazines only, up to 16 MiB each, and serves again for what is
 * half as large or more; beyond the retain limit it goes to the system at once. */
#ifndef MEM_BLOCKS_H
#define MEM_BLOCKS_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define MEM_BLOCK_MIN (4u * 1024u)     /* smallest class, bytes */
#define MEM_BLOCK_MAX (64u * 1024u)    /* largest class, bytes; its blocks are aligned to it */
#define MEM_BLOCK_HUGE (2048u * 1024u) /* a class too: what arenas of many MiB grow by */

/* Stands at the start of every block. */
struct mem_block {
    mem_block *next, *prev;
    size_t size; /* of the whole block with this header, bytes */
    size_t used; /* for the owner: bytes handed out from it */
};
#define MEM_BLOCK_HEADER 64u /* payload starts here: one cache line */

typedef struct mem_depot mem_depot;

/* A depot. NULL: no memory. Safe from any thread; outlives its magazines. */
mem_depot *mem_depot_create(void);
/* All magazines are closed before. NULL is allowed. */
void mem_depot_delete(mem_depot *depot);
/* Unmaps the blocks that no magazine needed since the last call (the low watermark of the period,
 * per class). Called once a decay period; after two calls without traffic nothing is left.
 * Returns the bytes unmapped. */
size_t mem_depot_decay(mem_depot *depot);
/* Unmaps everything idle now. Returns the bytes unmapped. */
size_t mem_depot_clear(mem_depot *depot);

typedef struct mem_blocks_stats {
    size_t idle;     /* bytes lying in the depot or magazine */
    size_t lent;     /* magazine: bytes in use by its arenas and pools */
    uint64_t maps;   /* blocks got from the system since start, by this magazine; for a depot: by
                        magazines that have ended */
    uint64_t unmaps; /* blocks given back to the system, likewise; for a depot: also by decay */
} mem_blocks_stats;
mem_blocks_stats mem_depot_get_stats(mem_depot *depot);
/* Of one magazine. Safe from any thread: figures are written by the owner, read relaxed. */
mem_blocks_stats mem_blocks_get_stats(const mem_blocks *blocks);

/* A magazine on `depot` that keeps up to `retain` bytes for itself; 0 keeps none, and
 * MEM_RETAIN_ADAPTIVE what its arenas have lately needed. Owned by the calling thread. NULL: no
 * memory. */
#define MEM_RETAIN_ADAPTIVE SIZE_MAX
mem_blocks *mem_blocks_create(mem_depot *depot, size_t retain);
/* The same, but owned by nobody: blocks may be taken, given and cleared on any thread, so that the
 * contexts that have them may pass from one to another. NULL: no memory. */
mem_blocks *mem_blocks_create_shared(mem_depot *depot, size_t retain);
/* Parts with every idle block, as mem_blocks_clear does, and ends the magazine; all lent blocks are
 * back before. NULL is allowed. */
void mem_blocks_delete(mem_blocks *blocks);

/* Whether it keeps blocks though for a whole decay period no arena that had some was reset, or ended.
 * An owner that has been busy with one for that long is taken for idle. From any thread. */
bool mem_blocks_is_neglected(const mem_blocks *blocks);
/* Parts with every idle block: to the depot, or to the system if it was mapped to measure. By the
 * owner, or by another thread while the owner is kept out; of a shared one by any. */
void mem_blocks_clear(mem_blocks *blocks);
/* A block of at least `size` bytes, header included; `size` in it is filled in, contents are not
 * zeroed. What it is mapped with may be up to twice as much, and resident if it was used before.
 * NULL: no memory, or size cannot be represented. */
mem_block *mem_blocks_take(mem_blocks *blocks, size_t size);
void mem_blocks_give(mem_blocks *blocks, mem_block *block);
/* The bytes that mem_blocks_take(size) will really hold. 0: cannot be represented. */
size_t mem_block_size(size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
