/* A key is its kind, and then: nothing (null, false, true); a number as a double in the order of
 * bytes, and by how much the number differs from it; the bytes of a string or of a composite's
 * text. */
#include "sqlite_key.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../server/json/number.h"

/* ---- Strings ------------------------------------------------------------------------------------- */

/* Decodes what is between the quotes; into as many bytes as there are, at the most. */
static size_t unescape(store_text inside, char *into)
{
    const char *at = inside.at, *end = at + inside.size;
    char *out = into;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((slash ? slash : end) - at);
        memcpy(out, at, plain);
        out += plain;
        at += plain;
        if (end - at < 2)
            break;
        at++;
        out = store_decode_escape(&at, end, out);
    }
    return (size_t)(out - into);
}

/* The same of the first STORE_SORT_MAX characters, and perhaps some more, into `room` bytes. */
static size_t unescape_some(store_text inside, char *into, size_t room)
{
    const char *at = inside.at, *end = at + inside.size;
    char *out = into, *out_end = into + room - 4;
    while (at < end && out <= out_end) {
        if (*at != '\\' || end - at < 2) {
            *out++ = *at++;
            continue;
        }
        at++;
        out = store_decode_escape(&at, end, out);
    }
    return (size_t)(out - into);
}

/* ---- Numbers ------------------------------------------------------------------------------------- */

#define KEY_NUMBER 11 /* bytes of its key: the kind, 8 of a double, 2 of the difference */
static_assert(KEY_NUMBER <= KEY_EXTRA, "a number needs no more than is promised");

static char *put_big_endian(char *out, uint64_t n, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *out++ = (char)(n >> (8 * i));
    return out;
}

static uint64_t take_big_endian(const char *at, int bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++)
        n = n << 8 | (unsigned char)at[i];
    return n;
}

#define SIGN (UINT64_C(1) << 63)

/* Numbers that round to the same double are told apart by `more`, which is at most 2^10: rounding
 * keeps the order, so that they are also in order with any other double. */
static void put_number(char *out, double nearest, int more)
{
    uint64_t bits;
    if (nearest == 0)
        nearest = 0; /* -0 is 0 */
    memcpy(&bits, &nearest, sizeof bits);
    out = put_big_endian(out, bits & SIGN ? ~bits : bits | SIGN, 8);
    put_big_endian(out, (uint64_t)more + 0x8000, 2);
}

/* An integer of more than 64 bits, or what is beyond every double: the nearest, or infinity. */
static double read_far(store_text literal)
{
    char text[320]; /* no finite double has so many digits before its point */
    if (literal.size >= sizeof text)
        return literal.at[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    memcpy(text, literal.at, literal.size);
    text[literal.size] = '\0';
    return strtod(text, NULL);
}

/* By how much what a real says differs from its double, where integers lie between doubles: 2^60 is
 * spelt 1.152921504606847e18, which is 24 more. */
static int more_of_real(store_text literal, double nearest)
{
    char text[64]; /* documents spell a real in half of that */
    double size = fabs(nearest);
    if (size < 0x1p53 || size > 0x1p63 || literal.size >= sizeof text)
        return 0;
    memcpy(text, literal.at, literal.size);
    text[literal.size] = '\0';
    return (int)(strtold(text, NULL) - (long double)nearest);
}
static_assert(LDBL_MANT_DIG >= 64, "a long double holds any integer of 64 bits");

static size_t key_of_number(store_text literal, char *into)
{
    number n = {.kind = NUMBER_INTEGER, .integer = 0};
    if (!number_scan(literal.at, literal.at + literal.size, &n))
        n.integer = 0;
    double nearest = 0;
    int more = 0;
    switch (n.kind) {
    case NUMBER_INTEGER:
        nearest = (double)n.integer;
        more = (int)((__int128)n.integer - (__int128)nearest);
        break;
    case NUMBER_REAL:
        nearest = n.real;
        more = more_of_real(literal, nearest);
        break;
    case NUMBER_OUT_OF_RANGE:
        nearest = read_far(literal);
        break;
    }
    into[0] = key_kind(STORE_NUMBER);
    put_number(into + 1, nearest, more);
    return KEY_NUMBER;
}

/* The literal of a number that has this key. */
static bool print_number(store_text key, mem_context *ctx, store_text *ret_text)
{
    if (key.size != KEY_NUMBER)
        return false;
    uint64_t bits = take_big_endian(key.at + 1, 8);
    int more = (int)take_big_endian(key.at + 9, 2) - 0x8000;
    double nearest;
    bits = bits & SIGN ? bits & ~SIGN : ~bits;
    memcpy(&nearest, &bits, sizeof nearest);
    bool whole = nearest >= -0x1p63 && nearest <= 0x1p63 && nearest == (double)(__int128)nearest;
    __int128 integer = whole ? (__int128)nearest + more : 0;
    if (whole) { /* one beyond 64 bits is at most 2^10 beyond, and was a real */
        bool fits = integer >= INT64_MIN && integer <= INT64_MAX, negative = integer < 0;
        ret_text->at = mem_printf(ctx, &ret_text->size, "%s%" PRIu64 "%s", negative ? "-" : "",
                                  (uint64_t)(negative ? -integer : integer), fits ? "" : ".0");
        return ret_text->at;
    }
    if (nearest - nearest != 0) { /* infinite: what is out of range reads as that */
        ret_text->at = mem_printf(ctx, &ret_text->size, "%s1e999", nearest < 0 ? "-" : "");
        return ret_text->at;
    }
    char *text = mem_alloc(ctx, JSON_REAL_MAX);
    if (text)
        *ret_text = (store_text){text, json_real_print(nearest, text)};
    return text;
}

/* ---- Keys ---------------------------------------------------------------------------------------- */

static int kind_of(store_text value)
{
    switch (value.at ? *value.at : 'n') {
    case 'n':
        return STORE_NULL;
    case 'f':
        return STORE_FALSE;
    case 't':
        return STORE_TRUE;
    case '"':
        return STORE_STRING;
    case '{':
    case '[':
        return STORE_COMPOSITE;
    default:
        return STORE_NUMBER;
    }
}

size_t key_of_json(store_text value, char *into)
{
    int kind = kind_of(value);
    into[0] = key_kind(kind);
    switch (kind) {
    case STORE_NUMBER:
        return key_of_number(value, into);
    case STORE_STRING:
        return 1 + unescape(store_inside_of(value.at, value.at + value.size), into + 1);
    case STORE_COMPOSITE:
        memcpy(into + 1, value.at, value.size);
        return 1 + value.size;
    default:
        return 1;
    }
}

size_t key_of_json_to_sort(store_text value, char into[KEY_SORT_MAX])
{
    size_t size;
    switch (kind_of(value)) {
    case STORE_STRING:
        into[0] = key_kind(STORE_STRING);
        size = unescape_some(store_inside_of(value.at, value.at + value.size), into + 1,
                             KEY_SORT_MAX - 1);
        return 1 + store_head_size((store_text){into + 1, size});
    case STORE_COMPOSITE:
        into[0] = key_kind(STORE_COMPOSITE);
        size = value.size < KEY_SORT_MAX - 1 ? value.size : KEY_SORT_MAX - 1;
        size = store_head_size((store_text){value.at, size});
        memcpy(into + 1, value.at, size);
        return 1 + size;
    default:
        return key_of_json(value, into);
    }
}

size_t key_of_scalar(const store_scalar *scalar, char *into)
{
    if (scalar->is == STORE_NUMBER)
        return key_of_number(scalar->text, into);
    into[0] = key_kind((int)scalar->is);
    if (scalar->is != STORE_STRING && scalar->is != STORE_COMPOSITE)
        return 1;
    memcpy(into + 1, scalar->text.at, scalar->text.size);
    return 1 + scalar->text.size;
}

bool key_is_short(const store_scalar *scalar)
{
    return (scalar->is != STORE_STRING && scalar->is != STORE_COMPOSITE) ||
           scalar->text.size < STORE_SORT_MAX;
}

bool key_to_scalar(store_text key, mem_context *ctx, store_scalar *ret_scalar)
{
    store_scalar scalar = {.is = STORE_NULL};
    for (int kind = STORE_NULL; key.size > 0 && kind <= STORE_COMPOSITE; kind++) {
        if (key.at[0] == key_kind(kind))
            scalar.is = kind;
    }
    if (scalar.is == STORE_NUMBER) {
        if (!print_number(key, ctx, &scalar.text))
            return false;
    } else if (key.size > 1) {
        scalar.text = (store_text){mem_copy(ctx, key.at + 1, key.size - 1), key.size - 1};
        if (!scalar.text.at)
            return false;
    }
    *ret_scalar = scalar;
    return true;
}
