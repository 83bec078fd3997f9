/* What the tests of JSON share: each program runs once per mode, since jansson's hooks are for the
 * whole process.
 *   malloc  no hooks, contexts are heaps: the server's --alloc malloc
 *   arena   hooks, contexts are arenas: the server's --alloc arena
 *   walk    as arena, and trees are walked all the same: --json-walk on
 *   heap    hooks, contexts are heaps
 * A second argument, slate or jansson, chooses the reader behind json_read. */
#ifndef JSON_MODES_H
#define JSON_MODES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../alloc/blocks.h"
#include "../../server/json/json.h"
#include "instruments.h"
#include "text.h"

static enum { MODE_MALLOC, MODE_ARENA, MODE_HEAP } mode;
static bool walk; /* what json_bridge_install was told; a debug build always walks */
static json_reader reader = JSON_READER_SLATE;
static mem_depot *depot;
static mem_blocks *blocks;
static mem_context answers, scratch; /* scratch is current, as in a handler */
static mem_budget scratch_budget;    /* no limit unless a test sets one */

static inline void init_context(mem_context *ctx, const char *name)
{
    if (mode == MODE_ARENA)
        mem_arena_init(ctx, NULL, name, blocks, NULL, 0);
    else
        mem_heap_init(ctx, NULL, name);
}

static inline int open_contexts(void **state)
{
    (void)state;
    if (mode == MODE_ARENA) {
        depot = mem_depot_create();
        blocks = mem_blocks_create(depot, 1024 * 1024);
    }
    init_context(&answers, "answers");
    init_context(&scratch, "scratch");
    mem_budget_init(&scratch_budget, 0, NULL);
    mem_set_budget(&scratch, &scratch_budget);
    mem_switch(&scratch);
    return 0;
}

static inline int close_contexts(void **state)
{
    (void)state;
    assert_int_equal(json_bridge_outstanding(), 0);
    mem_switch(NULL);
    mem_delete(&answers);
    mem_delete(&scratch);
    mem_blocks_delete(blocks);
    mem_depot_delete(depot);
    blocks = NULL;
    depot = NULL;
    return 0;
}

#define in_contexts(test) cmocka_unit_test_setup_teardown(test, open_contexts, close_contexts)

/* From argv; false: unknown. Installs the hooks. */
static inline bool choose_mode(int argc, char **argv)
{
    static const struct {
        const char *name;
        int mode;
        bool walk;
    } modes[] = {{"malloc", MODE_MALLOC, true},
                 {"arena", MODE_ARENA, false},
                 {"walk", MODE_ARENA, true},
                 {"heap", MODE_HEAP, false}};
    if (argc == 3 && strcmp(argv[2], "jansson") == 0)
        reader = JSON_READER_JANSSON;
    json_reader_select(reader);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if ((argc == 2 || argc == 3) && strcmp(argv[1], modes[i].name) == 0) {
            mode = modes[i].mode;
            walk = modes[i].walk;
            if (mode != MODE_MALLOC)
                json_bridge_install(walk);
            return true;
        }
    }
    fprintf(stderr, "usage: %s malloc|arena|walk|heap [slate|jansson]\n", argv[0]);
    return false;
}

/* A good text as a tree: to be ended with json_bridge_release. */
static inline json_t *tree_of(const char *text)
{
    json_read_problem problem;
    json_t *tree = json_read(text, strlen(text), 1000, &problem);
    if (!tree)
        fail_msg("%s: %s", text, problem.detail);
    return tree;
}

/* The writer's text must be this. */
static inline void assert_written(const json_writer *w, const char *expected)
{
    size_t length = strlen(expected);
    assert_int_equal(w->failed, JSON_WRITE_OK);
    if (w->length != length || memcmp(w->text, expected, length) != 0)
        fail_msg("wrote %.*s\nnot   %s", (int)w->length, w->text, expected);
}

static inline void assert_tree(const json_t *tree, const char *expected)
{
    json_writer w;
    json_writer_init(&w, &answers, 0, JSON_WRITE_DEPTH_MAX, false);
    json_write_tree(&w, tree);
    assert_written(&w, expected);
}

#endif
