/* No unbounded recursion, no memory of its own: from any thread. */
#include "store_value.h"

#include <string.h>

/* ---- Texts and paths ------------------------------------------------------------------------------- */

bool store_same_text(store_text a, store_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

bool store_same_path(const store_path *a, const store_path *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!store_same_text(a->token[i], b->token[i]))
            return false;
    }
    return true;
}

bool store_is_element(store_text token, uint64_t *ret_index)
{
    uint64_t index = 0;
    if (token.size == 0 || token.size > 18 || (token.size > 1 && token.at[0] == '0'))
        return false;
    for (size_t i = 0; i < token.size; i++) {
        if (token.at[i] < '0' || token.at[i] > '9')
            return false;
        index = index * 10 + (uint64_t)(token.at[i] - '0');
    }
    if (ret_index)
        *ret_index = index;
    return true;
}

size_t store_head_size(store_text text)
{
    if (text.size <= STORE_SORT_MAX)
        return text.size;
    size_t characters = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (((unsigned char)text.at[i] & 0xc0) != 0x80 && characters++ == STORE_SORT_MAX)
            return i;
    }
    return text.size;
}

/* ---- Skipping: from `at`, up to `end`; NULL: the text breaks off -------------------------------- */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* Behind the string that begins at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (const char *from = at + 1; from < end;) {
        const char *quote = memchr(from, '"', (size_t)(end - from)), *first = quote;
        if (!quote)
            return NULL;
        while (first > from && first[-1] == '\\')
            first--;
        from = quote + 1;
        if ((quote - first) % 2 == 0)
            return from;
    }
    return NULL;
}

static const char *skip_composite(const char *at, const char *end)
{
    for (size_t depth = 0; at < end;) {
        if (*at == '"') {
            at = skip_string(at, end);
            if (!at)
                return NULL;
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return NULL;
}

static const char *skip_value(const char *at, const char *end)
{
    if (at >= end)
        return NULL;
    if (*at == '"')
        return skip_string(at, end);
    if (*at == '{' || *at == '[')
        return skip_composite(at, end);
    while (at < end && *at != ',' && *at != '}' && *at != ']' && *at > ' ')
        at++;
    return at;
}

/* ---- Strings ------------------------------------------------------------------------------------- */

static unsigned hex_digit(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : ((unsigned)c | 0x20) - 'a' + 10;
}

/* The unit behind "\u"; 4 digits must be there, or it counts as U+FFFD. */
static unsigned take_unit(const char **at, const char *end)
{
    unsigned unit = 0;
    if (end - *at < 4) {
        *at = end;
        return 0xfffd;
    }
    for (int i = 0; i < 4; i++)
        unit = unit << 4 | (hex_digit(*(*at)++) & 0xf);
    return unit;
}

static char *put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *out++ = (char)(0xe0 | code >> 12);
        } else {
            *out++ = (char)(0xf0 | (code >> 18 & 7));
            *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *out++ = (char)(0x80 | (code & 0x3f));
    return out;
}

char *store_decode_escape(const char **at, const char *end, char *out)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    char c = *(*at)++;
    if (c != 'u') {
        const char *letter = c ? strchr(letters, c) : NULL;
        *out++ = letter ? meant[letter - letters] : c;
        return out;
    }
    unsigned code = take_unit(at, end);
    if (code >= 0xd800 && code < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        *at += 2;
        code = 0x10000 + ((code & 0x3ff) << 10 | (take_unit(at, end) & 0x3ff));
    }
    return put_utf8(out, code);
}

store_text store_inside_of(const char *string, const char *behind)
{
    return (store_text){string + 1, (size_t)(behind - string) - 2};
}

/* Whether a key of an object, as it stands there, says `token`. */
static bool key_says(store_text key, store_text token)
{
    if (!memchr(key.at, '\\', key.size))
        return key.size == token.size && memcmp(key.at, token.at, key.size) == 0;
    const char *at = key.at, *end = at + key.size;
    size_t said = 0;
    while (at < end) {
        char one[4], *out = one;
        if (*at == '\\' && end - at >= 2) {
            at++;
            out = store_decode_escape(&at, end, out);
        } else {
            *out++ = *at++;
        }
        size_t size = (size_t)(out - one);
        if (token.size - said < size || memcmp(token.at + said, one, size) != 0)
            return false;
        said += size;
    }
    return said == token.size;
}

/* ---- Values of a document ------------------------------------------------------------------------ */

/* The value of that member, in the object at `at`; NULL: there is none. */
static const char *find_member(const char *at, const char *end, store_text token)
{
    for (at = skip_space(at + 1, end); at < end && *at == '"'; at = skip_space(at + 1, end)) {
        const char *behind = skip_string(at, end);
        if (!behind)
            return NULL;
        bool found = key_says(store_inside_of(at, behind), token);
        at = skip_space(behind, end);
        if (at >= end || *at != ':')
            return NULL;
        at = skip_space(at + 1, end);
        if (found)
            return at;
        at = skip_value(at, end);
        if (!at)
            return NULL;
        at = skip_space(at, end);
        if (at >= end || *at != ',')
            return NULL;
    }
    return NULL;
}

static const char *find_element(const char *at, const char *end, store_text token)
{
    uint64_t index;
    if (!store_is_element(token, &index))
        return NULL;
    at = skip_space(at + 1, end);
    if (at < end && *at == ']')
        return NULL;
    for (; index > 0; index--) {
        at = skip_value(at, end);
        if (!at)
            return NULL;
        at = skip_space(at, end);
        if (at >= end || *at != ',')
            return NULL;
        at = skip_space(at + 1, end);
    }
    return at;
}

store_text store_find_value(store_text json, const store_path *path)
{
    static const store_text none = {NULL, 0};
    if (!json.at)
        return none;
    const char *end = json.at + json.size, *at = skip_space(json.at, end);
    for (size_t i = 0; i < path->count; i++) {
        if (at >= end)
            return none;
        if (*at == '{')
            at = find_member(at, end, path->token[i]);
        else
            at = *at == '[' ? find_element(at, end, path->token[i]) : NULL;
        if (!at)
            return none;
    }
    const char *behind = skip_value(at, end);
    return behind ? (store_text){at, (size_t)(behind - at)} : none;
}
