/* The two parsers behind json_read: ours (parse.c) and jansson's (read_jansson.c). */
#ifndef SLATE_JSON_PARSE_H
#define SLATE_JSON_PARSE_H

#include "explain.h"

/* The one value that is all of `text`, as a new reference. NULL: refused, and `*ret_suspect` says
 * what json_explain cannot see for itself. `depth` is at most JSON_READ_DEPTH_MAX, which bounds the
 * recursion. */
json_t *json_parse(const char *text, size_t size, unsigned depth, json_suspect *ret_suspect);
json_t *json_parse_jansson(const char *text, size_t size, unsigned depth,
                           json_suspect *ret_suspect);

#endif
