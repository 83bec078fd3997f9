/* /debug/memory: who holds what. The tree of contexts, seen while its worker stands still for it; the
 * blocks that no context uses, the pools, and what the C library and the kernel say. The other
 * figures are read from running counters, so they agree with one another exactly only at rest. */
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

/* One row, in the columns of PostgreSQL's pg_backend_memory_contexts and a few of ours. */
static void write_context(json_writer *w, const worker *of, const mem_context *ctx, unsigned level)
{
    mem_stats stats = mem_get_stats(ctx);
    /* The first block of an embedded context is part of the pooled request, and counts here too. */
    size_t total = stats.total + (ctx->embedded ? ctx->first_size : 0);
    json_write_begin_object(w);
    json_write_literal_key(w, "name");
    json_write_string(w, stats.name, strlen(stats.name));
    json_write_literal_key(w, "type");
    json_write_string(w, stats.kind, strlen(stats.kind));
    member(w, "level", level);
    member(w, "worker", of->number);
    member(w, "total_bytes", total);
    member(w, "total_nblocks", stats.blocks + stats.large_blocks);
    member(w, "free_bytes", total - stats.used);
    member(w, "used_bytes", stats.used);
    member(w, "peak_bytes", stats.peak);
    member(w, "large_blocks", stats.large_blocks);
    member(w, "resets", stats.resets);
    member(w, "refusals", stats.refusals);
    json_write_end_object(w);
}

#define CHILDREN_SHOWN 100 /* of one worker; the rest is told as a sum */

static void write_rest(json_writer *w, const worker *of, const mem_context *first)
{
    size_t count = 0, total = 0;
    for (const mem_context *ctx = first; ctx; ctx = ctx->next) {
        count++;
        total += mem_total_held(ctx);
    }
    if (count == 0)
        return;
    json_write_begin_object(w);
    json_write_literal_key(w, "name");
    json_write_literal(w, "more requests");
    member(w, "level", 2);
    member(w, "worker", of->number);
    member(w, "count", count);
    member(w, "total_bytes", total);
    member(w, "used_bytes", total);
    json_write_end_object(w);
}

/* The worker's context, its requests, and what they have below them. */
static void write_tree(json_writer *w, const worker *of)
{
    write_context(w, of, &of->context, 1);
    const mem_context *request = of->context.child;
    for (unsigned i = 0; request && i < CHILDREN_SHOWN; i++, request = request->next) {
        write_context(w, of, request, 2);
        for (const mem_context *below = request->child; below; below = below->next)
            write_context(w, of, below, 3);
    }
    write_rest(w, of, request);
}

/* The root: what all workers have in blocks, in use or idle. */
static void write_process(json_writer *w, server *s)
{
    size_t idle = mem_depot_get_stats(s->depot).idle, lent = 0;
    for (const worker *of = s->workers; of; of = of->next) {
        if (!of->blocks)
            continue;
        mem_blocks_stats stats = mem_blocks_get_stats(of->blocks);
        idle += stats.idle;
        lent += stats.lent;
    }
    json_write_begin_object(w);
    json_write_literal_key(w, "name");
    json_write_literal(w, "process");
    member(w, "level", 0);
    member(w, "total_bytes", lent + idle);
    member(w, "free_bytes", idle);
    member(w, "used_bytes", lent);
    json_write_end_object(w);
}

static void write_contexts(json_writer *w, server *s)
{
    json_write_literal_key(w, "contexts");
    json_write_begin_array(w);
    write_process(w, s);
    for (worker *of = s->workers; of; of = of->next) {
        bool own = of == worker_this(); /* stands still anyway: it is writing this */
        if (!of->blocks)
            continue; /* its thread has ended */
        if (!own)
            door_close(&of->door);
        write_tree(w, of);
        if (!own)
            door_open(&of->door);
    }
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
    write_mallinfo(w);
    write_smaps(w);
    json_write_end_object(w);
    return slate_answer_written(req, 200);
}
