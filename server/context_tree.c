/* The tree of contexts, process > worker > request > scratch, as rows: for /debug/memory and, as text,
 * for SIGUSR1. Each worker stands still behind its door while it is looked at, and pays nothing
 * otherwise. From any thread that holds the server's lock. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"
#include "log.h"

#define CHILDREN_SHOWN 100 /* of one context; the rest is told as a sum */

typedef struct walk {
    context_visitor *visit;
    void *arg;
    const worker *of;
} walk;

static void visit_context(const walk *on, const mem_context *ctx, unsigned level)
{
    mem_stats stats = mem_get_stats(ctx);
    context_row row = {
        .name = stats.name,
        .type = stats.kind,
        .level = level,
        .worker = on->of->number,
        /* The first block of an embedded context, part of the pooled request or the worker's own,
         * counts too. Of the scratch, which a worker lends, peak and counts are of all its requests. */
        .total = stats.total + (ctx->embedded ? ctx->first_size : 0),
        .used = stats.used,
        .peak = stats.peak,
        .blocks = stats.blocks + stats.large_blocks,
        .large_blocks = stats.large_blocks,
        .resets = stats.resets,
        .refusals = stats.refusals,
    };
    on->visit(on->arg, &row);
}

/* `first` and its siblings, which are not shown one by one. */
static void visit_rest(const walk *on, const mem_context *first, unsigned level, const char *name)
{
    context_row row = {.name = name, .level = level, .worker = on->of->number};
    for (const mem_context *ctx = first; ctx; ctx = ctx->next) {
        row.count++;
        row.total += mem_total_held(ctx);
    }
    row.used = row.total;
    if (row.count > 0)
        on->visit(on->arg, &row);
}

static void visit_request(const walk *on, const mem_context *request)
{
    visit_context(on, request, 2);
    const mem_context *below = request->child;
    for (unsigned i = 0; below && i < CHILDREN_SHOWN; i++, below = below->next)
        visit_context(on, below, 3);
    visit_rest(on, below, 3, "more contexts");
}

static void visit_worker(const walk *on)
{
    visit_context(on, &on->of->context, 1);
    const mem_context *request = on->of->context.child;
    for (unsigned i = 0; request && i < CHILDREN_SHOWN; i++, request = request->next)
        visit_request(on, request);
    visit_rest(on, request, 2, "more requests");
}

/* The root: what there is in blocks, in use or idle. */
static void visit_process(const walk *on, server *s)
{
    mem_blocks_stats stats = server_blocks(s);
    context_row row = {.name = "process",
                       .total = stats.idle + stats.lent + mem_depot_get_stats(s->depot).idle,
                       .used = stats.lent};
    on->visit(on->arg, &row);
}

void contexts_visit(server *s, context_visitor *visit, void *arg)
{
    visit_process(&(walk){visit, arg, NULL}, s);
    for (worker *of = s->workers; of; of = of->next) {
        bool own = of == worker_this(); /* stands still anyway: it is asking */
        if (!of->blocks)
            continue; /* its thread has ended */
        if (!own)
            door_close(&of->door);
        visit_worker(&(walk){visit, arg, of});
        if (!own)
            door_open(&of->door);
    }
}

/* ---- As text ---------------------------------------------------------------------------------------- */

static void print_row(void *arg, const context_row *row)
{
    FILE *out = arg;
    fprintf(out, "%*s", (int)(2 * row->level), "");
    if (row->count > 0)
        fprintf(out, "%zu ", row->count);
    fputs(row->name, out);
    if (row->level == 1)
        fprintf(out, " %u", row->worker);
    fprintf(out, ": %zu total", row->total);
    if (row->type)
        fprintf(out, " in %zu blocks", row->blocks);
    fprintf(out, "; %zu free; %zu used", row->total - row->used, row->used);
    if (row->type)
        fprintf(out, "; peak %zu; %zu large; %llu resets; %llu refusals (%s)", row->peak,
                row->large_blocks, (unsigned long long)row->resets,
                (unsigned long long)row->refusals, row->type);
    fputc('\n', out);
}

/* Collected first: no worker waits for whoever reads standard error. */
void contexts_dump(server *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        fputs("Memory contexts, in bytes:\n", out);
        pthread_mutex_lock(&s->lock);
        contexts_visit(s, print_row, out);
        pthread_mutex_unlock(&s->lock);
    }
    if (out && fclose(out) == 0)
        (void)fwrite(text, 1, size, stderr);
    else
        log_warning("There is no memory to write down the memory contexts.");
    free(text);
}
