/* /debug/memory: who holds what. The tree of contexts (context_tree.c), the blocks that no context
 * uses, the pools, and what the C library and the kernel say. Figures other than the tree's are read
 * from running counters, so they agree with one another exactly only at rest. */
#include <malloc.h>
#include <string.h>

#include "internal.h"

static void member(json_writer *w, const char *name, uint64_t value)
{
    json_write_key(w, name, strlen(name));
    json_write_integer(w, (int64_t)value);
}

static void begin_member(json_writer *w, const char *name)
{
    json_write_key(w, name, strlen(name));
    json_write_begin_object(w);
}

static void write_blocks(json_writer *w, const char *name, const mem_blocks_stats *stats)
{
    begin_member(w, name);
    member(w, "idle_bytes", stats->idle);
    member(w, "lent_bytes", stats->lent);
    member(w, "maps", stats->maps);
    member(w, "unmaps", stats->unmaps);
    json_write_end_object(w);
}

/* ---- Contexts ---------------------------------------------------------------------------------------- */

/* In the columns of PostgreSQL's pg_backend_memory_contexts and a few of ours. */
static void write_row(void *arg, const context_row *row)
{
    json_writer *w = arg;
    json_write_begin_object(w);
    json_write_literal_key(w, "name");
    json_write_string(w, row->name, strlen(row->name));
    if (row->type) {
        json_write_literal_key(w, "type");
        json_write_string(w, row->type, strlen(row->type));
    }
    member(w, "level", row->level);
    if (row->level > 0)
        member(w, "worker", row->worker);
    if (row->count > 0)
        member(w, "count", row->count);
    member(w, "total_bytes", row->total);
    member(w, "free_bytes", row->total - row->used);
    member(w, "used_bytes", row->used);
    if (row->type) {
        member(w, "total_nblocks", row->blocks);
        member(w, "peak_bytes", row->peak);
        member(w, "large_blocks", row->large_blocks);
        member(w, "resets", row->resets);
        member(w, "refusals", row->refusals);
    }
    json_write_end_object(w);
}

static void write_contexts(json_writer *w, server *s)
{
    json_write_literal_key(w, "contexts");
    json_write_begin_array(w);
    contexts_visit(s, write_row, w);
    json_write_end_array(w);
}

/* ---- Pools and blocks ------------------------------------------------------------------------------- */

static void write_pool_stats(json_writer *w, const char *name, mem_pool_stats stats)
{
    begin_member(w, name);
    member(w, "cell_bytes", stats.cell);
    member(w, "live", stats.live);
    member(w, "slabs", stats.slabs);
    member(w, "held_bytes", stats.held);
    json_write_end_object(w);
}

static void write_pool(json_writer *w, const char *name, const mem_pool *pool)
{
    if (pool)
        write_pool_stats(w, name, mem_pool_get_stats(pool));
}

static void add_pool(mem_pool_stats *sum, const mem_pool *pool)
{
    if (!pool)
        return;
    mem_pool_stats stats = mem_pool_get_stats(pool);
    sum->cell = stats.cell;
    sum->live += stats.live;
    sum->slabs += stats.slabs;
    sum->held += stats.held;
}

/* All workers' pools together; the caller holds the server's lock. */
static void write_pools(json_writer *w, const server *s)
{
    mem_pool_stats requests = {0}, connections = {0};
    for (const worker *of = s->workers; of; of = of->next) {
        add_pool(&requests, of->requests);
        add_pool(&connections, of->connections);
    }
    begin_member(w, "pools");
    write_pool_stats(w, "requests", requests);
    write_pool_stats(w, "connections", connections);
    json_write_end_object(w);
}

static void write_worker(json_writer *w, const worker *of)
{
    json_write_begin_object(w);
    member(w, "worker", of->number);
    json_write_literal_key(w, "listener");
    if (of->admin)
        json_write_literal(w, "admin");
    else
        json_write_literal(w, "public");
    uint64_t completed = counter_get(&of->completed), closed = counter_get(&of->closed);
    member(w, "requests_in_flight", counter_get(&of->begun) - completed);
    member(w, "requests_suspended", worker_asleep(of));
    member(w, "requests", completed);
    member(w, "connections", counter_get(&of->accepted) - closed);
    member(w, "refused", counter_get(&of->refused));
    if (of->blocks) {
        mem_blocks_stats stats = mem_blocks_get_stats(of->blocks);
        write_blocks(w, "magazine", &stats);
    }
    begin_member(w, "pools");
    write_pool(w, "requests", of->requests);
    write_pool(w, "connections", of->connections);
    json_write_end_object(w);
    json_write_end_object(w);
}

/* What --mem-debug=count has counted. */
static void write_counts(json_writer *w, const server *s)
{
    if (!s->mem_debug)
        return;
    mem_counts counts = mem_debug_get_counts(s->mem_debug);
    begin_member(w, "mem_debug");
    json_write_literal_key(w, "instruments");
    json_write_string(w, s->opts.mem_debug, strlen(s->opts.mem_debug));
    member(w, "allocs", counts.allocs);
    member(w, "resized", counts.resized);
    member(w, "moved", counts.moved);
    member(w, "frees", counts.frees);
    member(w, "resets", counts.resets);
    member(w, "refused", counts.refused);
    member(w, "bytes", counts.bytes);
    json_write_end_object(w);
}

static void write_figure(void *arg, const char *name, const char *help, bool is_counter,
                         double value)
{
    (void)help;
    (void)is_counter;
    json_write_key(arg, name, strlen(name));
    json_write_real(arg, value);
}

static void write_modules(json_writer *w, const server *s)
{
    begin_member(w, "modules");
    for (const slate_module *const *at = s->modules; *at; at++) {
        if (!(*at)->figures)
            continue;
        begin_member(w, (*at)->name);
        (*at)->figures(write_figure, w);
        json_write_end_object(w);
    }
    json_write_end_object(w);
}

static void write_mallinfo(json_writer *w)
{
    struct mallinfo2 info = mallinfo2();
    begin_member(w, "mallinfo2");
    member(w, "arena", info.arena);
    member(w, "uordblks", info.uordblks);
    member(w, "fordblks", info.fordblks);
    member(w, "hblkhd", info.hblkhd);
    member(w, "keepcost", info.keepcost);
    json_write_end_object(w);
}

/* The kernel's sums over all mappings, in bytes. */
static void write_smaps(json_writer *w)
{
    begin_member(w, "smaps_rollup");
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[128], name[64];
    unsigned long long kib;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63[A-Za-z_]: %llu kB", name, &kib) == 2)
            member(w, name, kib * 1024);
    if (file)
        fclose(file);
    json_write_end_object(w);
}

slate_result memory_handler(slate_request *req)
{
    server *s = request_server(req);
    json_writer *w = slate_writer(req, 8192);
    json_write_begin_object(w);
    json_write_literal_key(w, "alloc");
    const char *alloc = alloc_mode_name(s->opts.alloc);
    json_write_string(w, alloc, strlen(alloc));
    member(w, "live_bytes", requests_live_bytes(s));
    mem_blocks_stats depot = mem_depot_get_stats(s->depot);
    write_blocks(w, "depot", &depot);
    if (s->shared_blocks) {
        mem_blocks_stats shared = mem_blocks_get_stats(s->shared_blocks);
        write_blocks(w, "shared", &shared);
    }
    json_write_literal_key(w, "workers");
    json_write_begin_array(w);
    pthread_mutex_lock(&s->lock);
    for (const worker *of = s->workers; of; of = of->next)
        write_worker(w, of);
    json_write_end_array(w);
    write_pools(w, s);
    write_contexts(w, s);
    pthread_mutex_unlock(&s->lock);
    write_counts(w, s);
    write_modules(w, s);
    write_mallinfo(w);
    write_smaps(w);
    json_write_end_object(w);
    return slate_answer_written(req, 200);
}
