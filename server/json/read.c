/* Text to tree: jansson's parser, with the checks that it lacks. A text that it refuses is read a
 * second time by explain.c, which says what is wrong and where. */
#include <limits.h>
#include <string.h>

#include "bridge.h"
#include "explain.h"
#include "json.h"

/* Whether there are more than `most` opening brackets, in strings or not: if there are not, nothing
 * can be nested deeper than that. */
static bool has_more_brackets(const char *text, size_t size, unsigned most)
{
    enum { PIECE = 128 }; /* bytes; short enough for a count in one byte, which vectorises */
    size_t count = 0, i = 0;
    for (; size - i >= PIECE && count <= most; i += PIECE) {
        unsigned char found = 0;
        for (size_t k = 0; k < PIECE; k++)
            found += (text[i + k] | 0x20) == '{'; /* '[' is 0x5B, '{' is 0x7B */
        count += found;
    }
    for (; i < size && count <= most; i++)
        count += (text[i] | 0x20) == '{';
    return count > most;
}

/* Whether `value`, fresh from the parser and so no deeper than JSON_READ_DEPTH_MAX, is nested deeper
 * than `depth`. */
static bool is_deeper(json_t *value, unsigned depth)
{
    if (json_is_array(value)) {
        size_t count = json_array_size(value);
        if (depth == 0)
            return true;
        for (size_t i = 0; i < count; i++) {
            if (is_deeper(json_array_get(value, i), depth - 1))
                return true;
        }
    } else if (json_is_object(value)) {
        if (depth == 0)
            return true;
        for (void *i = json_object_iter(value); i; i = json_object_iter_next(value, i)) {
            if (is_deeper(json_object_iter_value(i), depth - 1))
                return true;
        }
    }
    return false;
}

/* jansson's position is the number of bytes it has taken: the end of the token at fault. */
static json_suspect suspect_of(const json_error_t *error)
{
    json_suspect suspect = {SUSPECT_NONE, (size_t)error->position};
    switch (json_error_code(error)) {
    case json_error_duplicate_key:
        suspect.kind = SUSPECT_DUPLICATE;
        break;
    case json_error_null_byte_in_key:
        suspect.kind = SUSPECT_KEY_WITH_NUL;
        break;
    case json_error_numeric_overflow:
        suspect.kind = SUSPECT_NUMBER;
        break;
    default:
        break;
    }
    return suspect;
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

json_t *json_read(const char *text, size_t size, unsigned depth, json_read_problem *ret_problem)
{
    json_error_t error;
    if (depth > JSON_READ_DEPTH_MAX)
        depth = JSON_READ_DEPTH_MAX;
    if (!text)
        text = "";
    if (size > INT_MAX) { /* jansson counts positions in an int */
        *ret_problem = (json_read_problem){.status = JSON_READ_REFUSED,
                                           .detail = "The text is longer than 2 GiB."};
        return NULL;
    }
    /* jansson takes a NUL byte for the end of a token. */
    if (memchr(text, '\0', size)) {
        json_explain(text, size, depth, (json_suspect){SUSPECT_NONE, 0}, ret_problem);
        return NULL;
    }

    bool refused;
    json_t *tree = json_bridge_load(
        text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error, &refused);
    if (refused || budget_spent()) {
        json_bridge_release(tree);
        return out_of_memory(ret_problem);
    }
    if (tree && (!has_more_brackets(text, size, depth) || !is_deeper(tree, depth)))
        return tree;

    json_explain(text, size, depth, tree ? (json_suspect){SUSPECT_NONE, 0} : suspect_of(&error),
                 ret_problem);
    json_bridge_release(tree);
    /* A good text that jansson has refused: malloc failed, which it does not always report. */
    return ret_problem->status == JSON_READ_OK ? out_of_memory(ret_problem) : NULL;
}
