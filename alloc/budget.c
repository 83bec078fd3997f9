/* Budgets: what a context and its children may hold, under a total that all of them share. A
 * budget belongs to one thread; the total is atomic. A refusal sticks, since not every caller
 * notices the first one. */
#include "internal.h"

void mem_budget_init(mem_budget *budget, size_t limit, mem_total *total)
{
    *budget = (mem_budget){.limit = limit, .total = total};
}

void mem_budget_reset(mem_budget *budget)
{
    budget->refused = MEM_GRANTED;
}

static bool fits(size_t limit, size_t used, size_t bytes)
{
    return limit == 0 || (used <= limit && bytes <= limit - used);
}

/* A loop rather than an addition that is taken back: a huge request that fails must not make the
 * requests of other threads fail for an instant. */
static bool charge_total(mem_total *total, size_t bytes)
{
    size_t used = __atomic_load_n(&total->used, __ATOMIC_RELAXED);
    do {
        if (!fits(total->limit, used, bytes))
            return false;
    } while (bytes != MEM_IMPOSSIBLE &&
             !__atomic_compare_exchange_n(&total->used, &used, used + bytes, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

static size_t room(size_t limit, size_t used)
{
    return limit == 0 ? SIZE_MAX : used < limit ? limit - used : 0;
}

size_t mem_budget_room(const mem_budget *budget)
{
    if (!budget)
        return SIZE_MAX;
    size_t own = room(budget->limit, budget->used);
    if (!budget->total)
        return own;
    size_t all =
        room(budget->total->limit, __atomic_load_n(&budget->total->used, __ATOMIC_RELAXED));
    return own < all ? own : all;
}

bool mem_budget_charge(mem_budget *budget, size_t bytes)
{
    if (!budget)
        return bytes != MEM_IMPOSSIBLE;
    assert(!budget->refused); /* the callers have looked */
    if (!fits(budget->limit, budget->used, bytes))
        budget->refused = MEM_OVER_LIMIT;
    else if (budget->total && !charge_total(budget->total, bytes))
        budget->refused = MEM_OVER_TOTAL;
    else if (bytes == MEM_IMPOSSIBLE)
        budget->refused = MEM_NO_SYSTEM;
    if (budget->refused)
        return false;
    budget->used += bytes;
    if (budget->used > budget->peak)
        budget->peak = budget->used;
    return true;
}

void mem_budget_release(mem_budget *budget, size_t bytes)
{
    if (!budget)
        return;
    assert(bytes <= budget->used);
    budget->used -= bytes;
    if (budget->total)
        __atomic_fetch_sub(&budget->total->used, bytes, __ATOMIC_RELAXED);
}

void mem_budget_fail(mem_budget *budget, size_t bytes)
{
    mem_budget_release(budget, bytes);
    if (budget)
        budget->refused = MEM_NO_SYSTEM;
}
