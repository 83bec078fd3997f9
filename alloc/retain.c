/* The adaptive limit of a magazine: it keeps what 31 of 32 recent contexts needed, so that one huge
 * request is not kept for, and gives back half of what a whole period did not need (blocks.c). What
 * a context needed is what it holds when it is about to be reset, before anything is given back:
 * afterwards there is nothing left to see. That many are at work at once is a spike, and what they
 * hold together is not kept. */
#include <limits.h>

#include "internal.h"

#define UPPER 32u /* one peak in so many may be larger than what is kept */
#define RANK_MIN (4u * 1024u)
#define LIMIT_MIN (64u * 1024u)
#define LIMIT_MAX (16u * 1024u * 1024u)
static_assert((size_t)RANK_MIN << (MEM_PEAK_RANKS - 1) >= LIMIT_MAX, "every limit has a rank");

void mem_retention_note(struct mem_retention *retention, size_t peak)
{
    size_t times = peak > 0 ? (peak - 1) / RANK_MIN : 0; /* beyond the first RANK_MIN */
    unsigned rank = times ? CHAR_BIT * sizeof(long) - (unsigned)__builtin_clzl(times) : 0;
    retention->peaks[rank < MEM_PEAK_RANKS ? rank : MEM_PEAK_RANKS - 1]++;
}

void mem_retention_age(struct mem_retention *retention)
{
    for (unsigned i = 0; i < MEM_PEAK_RANKS; i++)
        retention->peaks[i] /= 2;
}

size_t mem_retention_limit(const struct mem_retention *retention)
{
    uint64_t all = 0, above = 0;
    for (unsigned rank = 0; rank < MEM_PEAK_RANKS; rank++)
        all += retention->peaks[rank];
    unsigned rank = MEM_PEAK_RANKS - 1;
    while (rank > 0 && (above += retention->peaks[rank]) * UPPER <= all)
        rank--;
    size_t limit = (size_t)RANK_MIN << rank;
    return limit < LIMIT_MIN ? LIMIT_MIN : limit > LIMIT_MAX ? LIMIT_MAX : limit;
}
