/* JSON Pointer (RFC 6901): "/a/0/b~1c". */
#ifndef SLATE_POINTER_H
#define SLATE_POINTER_H

#include "../server/slate.h"

/* A pointer that is being walked: the rest of its text. */
typedef struct pointer {
    const char *at, *end;
} pointer;

/* One decoded reference token. */
typedef struct pointer_token {
    const char *text;
    size_t length;
} pointer_token;

/* Whether it is empty or starts with '/', and every '~' is followed by 0 or 1. */
bool pointer_valid(pointer p);
/* The number of tokens. */
size_t pointer_depth(pointer p);
/* Takes the next token of a valid pointer that is not at its end. The token is a piece of the
 * pointer's text or, where it had to be decoded, lies in `ctx`. false: the context refused. */
bool pointer_next(pointer *p, mem_context *ctx, pointer_token *ret_token);
/* Whether `outer` is `inner` or one of its ancestors. */
bool pointer_is_prefix(pointer outer, pointer inner);

/* An array index: digits without leading zeros. false: anything else, or too large. */
bool pointer_index(pointer_token token, size_t *ret_index);
/* The member or element, borrowed; NULL: there is none. */
json_t *pointer_get(const json_t *container, pointer_token token);

/* "/" and the token, encoded, as a string in `ctx`. NULL: refused. */
char *pointer_encode(mem_context *ctx, const char *token, size_t length);

#endif
