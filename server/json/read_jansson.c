/* Text to tree by jansson's parser, with the checks that it lacks: what our own is compared with, in
 * tests and under load. */
#include <limits.h>
#include <string.h>

#include "bridge.h"
#include "parse.h"

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

json_t *json_parse_jansson(const char *text, size_t size, unsigned depth, json_suspect *ret_suspect)
{
    json_error_t error;
    *ret_suspect = (json_suspect){SUSPECT_NONE, 0};
    if (size > INT_MAX) { /* it counts positions in an int */
        ret_suspect->kind = SUSPECT_SIZE;
        return NULL;
    }
    /* It takes a NUL byte for the end of a token; so for it the text ends there. */
    const char *nul = memchr(text, '\0', size);

    bool refused;
    json_t *tree = json_bridge_load(text, nul ? (size_t)(nul - text) : size,
                                    JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                                    &error, &refused);
    if (refused) {
        ret_suspect->kind = SUSPECT_MEMORY;
        return NULL;
    }
    /* Its position is the number of bytes that it has taken: the end of the key. */
    if (!tree && json_error_code(&error) == json_error_duplicate_key)
        *ret_suspect = (json_suspect){SUSPECT_DUPLICATE, (size_t)error.position};
    if (tree && (nul || (has_more_brackets(text, size, depth) && is_deeper(tree, depth)))) {
        json_bridge_release(tree);
        return NULL;
    }
    return tree;
}
