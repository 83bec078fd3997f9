/* JSON Pointer (RFC 6901): taking one apart, token by token, and following it. */
#include "pointer.h"

#include <string.h>

bool pointer_valid(pointer p)
{
    if (p.at < p.end && *p.at != '/')
        return false;
    for (; p.at < p.end; p.at++) {
        if (*p.at == '~' && (p.at + 1 == p.end || (p.at[1] != '0' && p.at[1] != '1')))
            return false;
    }
    return true;
}

size_t pointer_depth(pointer p)
{
    size_t depth = 0;
    for (; p.at < p.end; p.at++)
        depth += *p.at == '/';
    return depth;
}

bool pointer_is_prefix(pointer outer, pointer inner)
{
    size_t length = (size_t)(outer.end - outer.at);
    return length <= (size_t)(inner.end - inner.at) && memcmp(outer.at, inner.at, length) == 0 &&
           (inner.at + length == inner.end || inner.at[length] == '/');
}

bool pointer_next(pointer *p, mem_context *ctx, pointer_token *ret_token)
{
    const char *start = p->at + 1; /* behind the slash */
    size_t left = (size_t)(p->end - start);
    const char *slash = memchr(start, '/', left);
    size_t length = slash ? (size_t)(slash - start) : left;
    p->at = start + length;
    if (!memchr(start, '~', length)) {
        *ret_token = (pointer_token){start, length};
        return true;
    }

    char *decoded = mem_alloc_aligned(ctx, length, 1), *at = decoded;
    if (!decoded)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = start[i];
        if (c == '~')
            c = start[++i] == '0' ? '~' : '/';
        *at++ = c;
    }
    *ret_token = (pointer_token){decoded, (size_t)(at - decoded)};
    return true;
}

bool pointer_index(pointer_token token, size_t *ret_index)
{
    size_t index = 0;
    if (token.length == 0 || (token.text[0] == '0' && token.length > 1))
        return false;
    for (size_t i = 0; i < token.length; i++) {
        char c = token.text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(index, 10, &index) ||
            __builtin_add_overflow(index, (size_t)(c - '0'), &index))
            return false;
    }
    *ret_index = index;
    return true;
}

json_t *pointer_get(const json_t *container, pointer_token token)
{
    size_t index;
    if (json_is_object(container))
        return json_object_getn(container, token.text, token.length);
    if (json_is_array(container) && pointer_index(token, &index))
        return json_array_get(container, index);
    return NULL;
}

char *pointer_encode(mem_context *ctx, const char *token, size_t length)
{
    size_t size;
    if (__builtin_mul_overflow(length, 2, &size) || __builtin_add_overflow(size, 2, &size))
        return NULL;
    char *text = mem_alloc_aligned(ctx, size, 1), *at = text;
    if (!text)
        return NULL;
    *at++ = '/';
    for (size_t i = 0; i < length; i++) {
        if (token[i] == '~' || token[i] == '/') {
            *at++ = '~';
            *at++ = token[i] == '~' ? '0' : '1';
        } else {
            *at++ = token[i];
        }
    }
    *at = '\0';
    return text;
}
