/* The adaptive limit of a magazine: it keeps twice what 31 of 32 recent contexts needed, so that one
 * huge request is not kept for, and gives back half of what a whole period did not need (blocks.c). What
 * a context needed is what it holds when it is about to be reset, before anything is given back:
 * afterwards there is nothing left to see. That many are at work at once is a spike, and what they
 * hold together is not kept. */
#include "internal.h"

#define UPPER 32u  /* one peak in so many may be larger than what is kept */
#define AT_WORK 2u /* contexts that give and take in turn: a request and its scratch, or the next */
#define STEP_MIN ((size_t)4 * 1024)
#define LIMIT_MIN ((size_t)64 * 1024)
#define LIMIT_MAX ((size_t)16 * 1024 * 1024)
static_assert(STEP_MIN << (MEM_PEAK_STEPS - 1) / MEM_STEPS == LIMIT_MAX, "every limit has a step");

void mem_retention_note(struct mem_retention *retention, size_t peak)
{
    retention->peaks[mem_step(peak < LIMIT_MAX ? peak : LIMIT_MAX, STEP_MIN)]++;
}

void mem_retention_age(struct mem_retention *retention)
{
    for (unsigned i = 0; i < MEM_PEAK_STEPS; i++)
        retention->peaks[i] /= 2;
}

size_t mem_retention_limit(const struct mem_retention *retention)
{
    uint64_t all = 0, above = 0;
    for (unsigned step = 0; step < MEM_PEAK_STEPS; step++)
        all += retention->peaks[step];
    unsigned step = MEM_PEAK_STEPS - 1;
    while (step > 0 && (above += retention->peaks[step]) * UPPER <= all)
        step--;
    size_t limit = AT_WORK * mem_step_size(step, STEP_MIN);
    return limit < LIMIT_MIN ? LIMIT_MIN : limit > LIMIT_MAX ? LIMIT_MAX : limit;
}
