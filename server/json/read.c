/* Reading, whichever parser does it: what was refused is read a second time by explain.c, which says
 * what is wrong and where, the same for both. */
#include <assert.h>

#include "parse.h"

static json_reader selected = JSON_READER_SLATE;

void json_reader_select(json_reader reader)
{
    selected = reader;
}

/* Whether the current context refuses jansson's allocations since some time before. */
static bool budget_spent(void)
{
    const mem_context *ctx = mem_current();
    return json_bridge_installed() && ctx && ctx->budget && ctx->budget->refused != MEM_GRANTED;
}

static json_t *out_of_memory(json_read_problem *ret_problem)
{
    *ret_problem = (json_read_problem){.status = JSON_READ_MEMORY,
                                       .detail = "There is not enough memory for this document."};
    return NULL;
}

json_t *json_read_with(json_reader reader, const char *text, size_t size, unsigned depth,
                       json_read_problem *ret_problem)
{
    json_suspect suspect;
    if (depth > JSON_READ_DEPTH_MAX)
        depth = JSON_READ_DEPTH_MAX;
    if (!text)
        text = "";
    json_t *tree = reader == JSON_READER_SLATE ? json_parse(text, size, depth, &suspect)
                                               : json_parse_jansson(text, size, depth, &suspect);
    if (budget_spent()) {
        json_bridge_release(tree);
        return out_of_memory(ret_problem);
    }
    if (tree)
        return tree;
    if (suspect.kind == SUSPECT_MEMORY)
        return out_of_memory(ret_problem);
    if (suspect.kind == SUSPECT_SIZE) {
        *ret_problem = (json_read_problem){.status = JSON_READ_REFUSED,
                                           .detail = "The text is longer than 2 GiB."};
        return NULL;
    }
    json_explain(text, size, depth, suspect, ret_problem);
    /* A good text that jansson has refused: malloc failed, which it does not always report. */
    assert(ret_problem->status != JSON_READ_OK || reader == JSON_READER_JANSSON);
    return ret_problem->status == JSON_READ_OK ? out_of_memory(ret_problem) : NULL;
}

json_t *json_read(const char *text, size_t size, unsigned depth, json_read_problem *ret_problem)
{
    return json_read_with(selected, text, size, depth, ret_problem);
}
