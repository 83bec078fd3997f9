/* Reader and writer, in arenas and behind jansson's hooks as the server has them. */
#include <string.h>

#include "../../alloc/blocks.h"
#include "../../server/json/json.h"
#include "check.h"
#include "targets.h"

#define DEPTH 200

static json_t *read_back(const json_writer *w)
{
    json_read_problem problem;
    check(w->failed == JSON_WRITE_OK, "%d", w->failed);
    json_t *tree = json_read_with(JSON_READER_SLATE, w->text, w->length, DEPTH, &problem);
    check(tree, "%s", problem.detail);
    return tree;
}

/* Writes `tree` as rows, value by value. */
static void write_rows(json_writer *w, const json_t *tree)
{
    json_t *object = (json_t *)tree; /* jansson's iterators take no const */
    switch (json_typeof(tree)) {
    case JSON_OBJECT:
        json_write_begin_object(w);
        for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
            json_write_key(w, json_object_iter_key(i), json_object_iter_key_len(i));
            write_rows(w, json_object_iter_value(i));
        }
        json_write_end_object(w);
        return;
    case JSON_ARRAY:
        json_write_begin_array(w);
        for (size_t i = 0; i < json_array_size(tree); i++)
            write_rows(w, json_array_get(tree, i));
        json_write_end_array(w);
        return;
    case JSON_STRING:
        json_write_string(w, json_string_value(tree), json_string_length(tree));
        return;
    case JSON_INTEGER:
        json_write_integer(w, json_integer_value(tree));
        return;
    case JSON_REAL:
        json_write_real(w, json_real_value(tree));
        return;
    case JSON_NULL:
        json_write_null(w);
        return;
    default:
        json_write_bool(w, json_is_true(tree));
    }
}

static void check_tree(mem_context *ctx, const json_t *tree)
{
    json_writer compact, rows, pretty, again;
    json_writer_init(&compact, ctx, 0, DEPTH, false);
    json_write_tree(&compact, tree);
    json_t *copy = read_back(&compact);
    check(json_equal(tree, copy), "compact");

    json_writer_init(&rows, ctx, 1, DEPTH, false);
    write_rows(&rows, copy);
    check(rows.length == compact.length && !memcmp(rows.text, compact.text, rows.length), "rows");

    json_writer_init(&pretty, ctx, compact.length, DEPTH, true);
    json_write_tree(&pretty, tree);
    json_t *pretty_copy = read_back(&pretty);
    json_writer_init(&again, ctx, 0, DEPTH, false);
    json_write_tree(&again, pretty_copy);
    check(again.length == compact.length && !memcmp(again.text, compact.text, again.length),
          "pretty");
    json_bridge_release(copy);
    json_bridge_release(pretty_copy);
}

int fuzz_round_trip(const uint8_t *data, size_t size)
{
    mem_depot *depot = mem_depot_create();
    mem_blocks *blocks = mem_blocks_create(depot, 64 * 1024);
    mem_context scratch, answers;
    json_read_problem problem;
    json_malloc_t allocate;
    json_free_t release;
    check(depot && blocks, "no memory");
    mem_arena_init(&scratch, NULL, "scratch", blocks, NULL, 0);
    mem_arena_init(&answers, NULL, "answers", blocks, NULL, 0);
    json_get_alloc_funcs(&allocate, &release);
    json_bridge_install(false);
    mem_context *before = mem_switch(&scratch);

    json_t *tree = json_read_with(JSON_READER_SLATE, (const char *)data, size, DEPTH, &problem);
    if (tree)
        check_tree(&answers, tree);
    json_bridge_release(tree);

    mem_switch(before);
    json_set_alloc_funcs(allocate, release);
    mem_delete(&answers);
    mem_delete(&scratch);
    mem_blocks_delete(blocks);
    mem_depot_delete(depot);
    return 0;
}
