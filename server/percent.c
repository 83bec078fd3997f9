/* Percent-encoding (RFC 3986, section 2.1): strict, and never a NUL. */
#include <string.h>

#include "internal.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that the escape at `text` (before `end`) stands for, or -1. */
static int escape(const char *text, const char *end)
{
    if (end - text < 3)
        return -1;
    int high = hex(text[1]), low = hex(text[2]);
    int byte = high < 0 || low < 0 ? 0 : high * 16 + low;
    return byte == 0 ? -1 : byte;
}

bool percent_valid(const char *text)
{
    for (const char *at = text; (at = strchr(at, '%')); at += 3)
        if (escape(at, at + strnlen(at, 3)) < 0)
            return false;
    return true;
}

char *percent_decode(mem_context *ctx, const char *text, size_t size, bool *ret_bad)
{
    char *out = mem_alloc_aligned(ctx, size + 1, 1);
    if (!out)
        return NULL;
    char *to = out;
    for (const char *at = text, *end = text + size; at < end; at++) {
        if (*at != '%') {
            *to++ = *at;
            continue;
        }
        int byte = escape(at, end);
        if (byte < 0) {
            if (ret_bad)
                *ret_bad = true;
            return NULL;
        }
        *to++ = (char)byte;
        at += 2;
    }
    *to = '\0';
    return out;
}
