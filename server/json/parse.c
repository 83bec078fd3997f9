/* Text to tree in one pass over the text where it lies. Every value is made through jansson's public
 * functions, which copy keys and strings once, to where they stay; nothing else is allocated unless
 * a string has escapes and is long. No position is kept and no sentence made: that is explain.c's,
 * for the texts that are refused. Internals pass the position `at` as argument and result so that it
 * stays in a register; NULL means refused. */
#include "parse.h"

#include <assert.h>
#include <string.h>

#include "number.h"
#include "scan.h"
#include "utf8.h"

#define DECODED_INLINE 512 /* bytes */
#define UTF8_MAX 4         /* bytes of a character */

typedef struct parser {
    const char *text, *end;
    json_t *value; /* the newest */
    json_suspect suspect;
    /* Strings with escapes are decoded here, one behind the other: a key stays until its value is
     * complete. */
    char *decoded;
    size_t decoded_used, decoded_capacity;
    char decoded_inline[DECODED_INLINE];
} parser;

/* A string's characters: a piece of the text, or, if it had escapes, of `decoded`. */
typedef struct slice {
    const char *text; /* NULL: decoded */
    size_t offset;    /* of decoded */
    size_t length;
} slice;

static const char *slice_bytes(const parser *p, const slice *s)
{
    return s->text ? s->text : p->decoded + s->offset;
}

/* ---- Refusal --------------------------------------------------------------------------------- */

static const char *refuse_memory(parser *p)
{
    p->suspect.kind = SUSPECT_MEMORY;
    return NULL;
}

static const char *refuse_key(parser *p, const char *end)
{
    p->suspect = (json_suspect){SUSPECT_DUPLICATE, (size_t)(end - p->text)};
    return NULL;
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* Makes room for one step and one character behind `to`. NULL: no memory. */
static char *make_room(parser *p, char *to)
{
    size_t used = (size_t)(to - p->decoded), capacity;
    if (p->decoded_capacity - used >= SCAN_STEP + UTF8_MAX)
        return to;
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    if (__builtin_mul_overflow(p->decoded_capacity, 2, &capacity))
        return NULL;
    char *larger = allocate(capacity);
    if (!larger)
        return NULL;
    memcpy(larger, p->decoded, used);
    if (p->decoded != p->decoded_inline)
        release(p->decoded);
    p->decoded = larger;
    p->decoded_capacity = capacity;
    return larger + used;
}

static void free_decoded(parser *p)
{
    if (p->decoded == p->decoded_inline)
        return;
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    release(p->decoded);
}

#define NOT_HEXADECIMAL UINT32_MAX

static uint32_t hexadecimal(const char *at)
{
    static const unsigned char digits[256] = {
        /* one more than each digit's value */
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
        ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['A'] = 11, ['B'] = 12,
        ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16, ['a'] = 11, ['b'] = 12,
        ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    };
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t digit = digits[(unsigned char)at[i]];
        if (digit == 0)
            return NOT_HEXADECIMAL;
        code = code << 4 | (digit - 1);
    }
    return code;
}

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3F));
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    }
    return to;
}

/* The escape at `at`, whose character goes to `*to`. */
static const char *read_escape(const parser *p, const char *at, char **to)
{
    static const char letters[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    size_t left = (size_t)(p->end - at);
    if (left < 2)
        return NULL;
    char letter = letters[(unsigned char)at[1]];
    if (letter) {
        *(*to)++ = letter;
        return at + 2;
    }
    if (at[1] != 'u' || left < 6)
        return NULL;
    uint32_t code = hexadecimal(at + 2);
    at += 6;
    if (code >= 0xD800 && code <= 0xDFFF) {
        if (code >= 0xDC00 || left < 12 || at[0] != '\\' || at[1] != 'u')
            return NULL;
        uint32_t low = hexadecimal(at + 2);
        if (low < 0xDC00 || low > 0xDFFF)
            return NULL;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
    }
    if (code == NOT_HEXADECIMAL)
        return NULL;
    *to = put_utf8(*to, code);
    return at;
}

/* A string with an escape, from its first character on. */
static __attribute__((noinline)) const char *read_escaped(parser *p, const char *at, slice *ret)
{
    size_t offset = p->decoded_used;
    char *to = p->decoded + offset;
    for (;;) {
        to = make_room(p, to);
        if (!to)
            return refuse_memory(p);
        if (p->end - at >= SCAN_STEP) {
            size_t count = scan_copy_step(to, at);
            at += count;
            to += count;
            if (count == SCAN_STEP)
                continue;
        } else {
            while (at < p->end && scan_is_plain(*at))
                *to++ = *at++;
            if (at == p->end)
                return NULL;
        }
        if (*at == '"') {
            p->decoded_used = (size_t)(to - p->decoded);
            *ret = (slice){NULL, offset, p->decoded_used - offset};
            return at + 1;
        }
        if (*at == '\\') {
            at = read_escape(p, at, &to);
            if (!at)
                return NULL;
            continue;
        }
        size_t length = (unsigned char)*at < 0x20 ? 0 : utf8_sequence(at, (size_t)(p->end - at));
        if (!length)
            return NULL;
        for (; length > 0; length--)
            *to++ = *at++;
    }
}

/* The string whose first character is at `at`. */
static inline const char *read_string(parser *p, const char *at, slice *ret)
{
    const char *start = at;
    for (;;) {
        at = scan_plain(at, p->end);
        if (at == p->end)
            return NULL;
        if (*at == '"') {
            *ret = (slice){start, 0, (size_t)(at - start)};
            return at + 1;
        }
        if (*at == '\\')
            return read_escaped(p, start, ret);
        if ((unsigned char)*at < 0x20)
            return NULL;
        do {
            size_t length = utf8_sequence(at, (size_t)(p->end - at));
            if (!length)
                return NULL;
            at += length;
        } while (at < p->end && (unsigned char)*at >= 0x80);
    }
}

static const char *read_string_value(parser *p, const char *at)
{
    slice s;
    size_t used = p->decoded_used;
    at = read_string(p, at, &s);
    if (!at)
        return NULL;
    p->value = json_stringn_nocheck(slice_bytes(p, &s), s.length);
    p->decoded_used = used;
    return p->value ? at : refuse_memory(p);
}

static const char *read_number_value(parser *p, const char *at)
{
    number n;
    at = number_scan(at, p->end, &n);
    if (!at || n.kind == NUMBER_OUT_OF_RANGE)
        return NULL;
    p->value = n.kind == NUMBER_INTEGER ? json_integer(n.integer) : json_real(n.real);
    return p->value ? at : refuse_memory(p);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static const char *read_value(parser *p, const char *at, unsigned depth);

static __attribute__((noinline)) const char *read_array(parser *p, const char *at, unsigned depth)
{
    json_t *array = json_array();
    if (!array)
        return refuse_memory(p);
    at = scan_space(at + 1, p->end);
    if (at < p->end && *at == ']') {
        p->value = array;
        return at + 1;
    }
    for (;;) {
        at = read_value(p, at, depth);
        if (!at)
            break;
        if (json_array_append_new(array, p->value) != 0) {
            (void)refuse_memory(p);
            break;
        }
        at = scan_space(at, p->end);
        if (at < p->end && *at == ',') {
            at = scan_space(at + 1, p->end);
            continue;
        }
        if (at < p->end && *at == ']') {
            p->value = array;
            return at + 1;
        }
        break;
    }
    json_bridge_release(array);
    return NULL;
}

static inline const char *read_member(parser *p, const char *at, unsigned depth, json_t *object)
{
    slice key;
    size_t used = p->decoded_used;
    if (at == p->end || *at != '"')
        return NULL;
    at = read_string(p, at + 1, &key);
    if (!at)
        return NULL;
    const char *key_end = at;
    if (!key.text && memchr(slice_bytes(p, &key), '\0', key.length))
        return NULL;
    at = scan_space(at, p->end);
    at = at < p->end && *at == ':' ? read_value(p, scan_space(at + 1, p->end), depth) : NULL;
    p->decoded_used = used;
    if (!at) {
        /* What is wrong here is not the first fault if the key has been there already. */
        if (p->suspect.kind != SUSPECT_MEMORY &&
            json_object_getn(object, slice_bytes(p, &key), key.length))
            refuse_key(p, key_end);
        return NULL;
    }
    if (json_object_setn_new_nocheck(object, slice_bytes(p, &key), key.length, p->value) != 0)
        return refuse_memory(p);
    return at;
}

/* Behind a value that is known to be good, and to be followed by another member. */
static const char *skip_value(const parser *p, const char *at)
{
    bool quoted = false;
    for (size_t nesting = 0; quoted || nesting > 0 || *at != ','; at++) {
        if (quoted)
            at = scan_plain(at, p->end);
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted)
            nesting += (size_t)(*at == '{' || *at == '[') - (size_t)(*at == '}' || *at == ']');
    }
    return at;
}

/* Of the members from `at` on, which have been put into `object` one after the other, one has a key
 * that was there already: it is no longer there when its turn to be taken out comes. */
static __attribute__((noinline)) void refuse_duplicate(parser *p, const char *at, json_t *object)
{
    for (;;) {
        slice key;
        size_t used = p->decoded_used;
        at = read_string(p, scan_space(at, p->end) + 1, &key);
        p->decoded_used = used;
        if (!at)
            return; /* refused for memory */
        if (json_object_deln(object, slice_bytes(p, &key), key.length) != 0) {
            refuse_key(p, at);
            return;
        }
        at = skip_value(p, at) + 1;
    }
}

/* Keys are compared in no other way than by jansson, when it puts the member into its table: at the
 * end there are fewer than there have been put. */
static __attribute__((noinline)) const char *read_object(parser *p, const char *at, unsigned depth)
{
    json_t *object = json_object();
    size_t count = 0;
    if (!object)
        return refuse_memory(p);
    at = scan_space(at + 1, p->end);
    const char *start = at;
    if (at < p->end && *at == '}') {
        p->value = object;
        return at + 1;
    }
    while ((at = read_member(p, at, depth, object))) {
        count++;
        at = scan_space(at, p->end);
        if (at < p->end && *at == ',') {
            at = scan_space(at + 1, p->end);
            continue;
        }
        if (at < p->end && *at == '}' && json_object_size(object) == count) {
            p->value = object;
            return at + 1;
        }
        break;
    }
    if (p->suspect.kind != SUSPECT_MEMORY && json_object_size(object) < count)
        refuse_duplicate(p, start, object);
    json_bridge_release(object);
    return NULL;
}

static const char *read_word(parser *p, const char *at, const char *word, size_t size,
                             json_t *value)
{
    if ((size_t)(p->end - at) < size || memcmp(at, word, size) != 0)
        return NULL;
    p->value = value;
    return at + size;
}

/* Recursion ends with `depth`. It goes through the two functions above, which have this one inside: so
 * a scalar costs no call. */
static inline __attribute__((always_inline)) const char *read_value(parser *p, const char *at,
                                                                    unsigned depth)
{
    if (at == p->end)
        return NULL;
    switch (*at) {
    case '"':
        return read_string_value(p, at + 1);
    case '{':
        return depth > 0 ? read_object(p, at, depth - 1) : NULL;
    case '[':
        return depth > 0 ? read_array(p, at, depth - 1) : NULL;
    case 't':
        return read_word(p, at, "true", 4, json_true());
    case 'f':
        return read_word(p, at, "false", 5, json_false());
    case 'n':
        return read_word(p, at, "null", 4, json_null());
    default:
        return read_number_value(p, at); /* or nothing that JSON knows */
    }
}

json_t *json_parse(const char *text, size_t size, unsigned depth, json_suspect *ret_suspect)
{
    parser p;
    p.text = text;
    p.end = text + size;
    p.suspect = (json_suspect){SUSPECT_NONE, 0};
    p.decoded = p.decoded_inline;
    p.decoded_used = 0;
    p.decoded_capacity = DECODED_INLINE;

    assert(depth <= JSON_READ_DEPTH_MAX);
    const char *at = read_value(&p, scan_space(text, p.end), depth);
    free_decoded(&p);
    if (at && scan_space(at, p.end) == p.end)
        return p.value;
    if (at)
        json_bridge_release(p.value);
    *ret_suspect = p.suspect;
    return NULL;
}
