/* Cursors. In bytes: a version; the start of the query's hash; the position, 8 bytes; per order a kind,
 * 2 bytes of length, the value's text; the id to the end. Numbers are big-endian. Then base64url
 * (RFC 4648, section 5) without padding. Pure; on a worker's thread. */
#include "cursor.h"

#include <assert.h>
#include <string.h>

#include "../../server/json/utf8.h"
#include "filter.h"
#include "id.h"

#define VERSION 1
#define BYTES_MAX (DB_CURSOR_MAX / 4 * 3)

/* ---- Base64url --------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Returns the end. */
static char *encode(char *at, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        for (unsigned digit = 0; digit < 4 && digit <= left; digit++)
            *at++ = alphabet[group >> (18 - 6 * digit) & 63];
    }
    return at;
}

/* false: not how it is written, by a byte or a bit. */
static bool decode(const char *text, size_t length, unsigned char *bytes, size_t *ret_size)
{
    uint32_t bits = 0;
    unsigned held = 0; /* bits that are not out yet */
    size_t size = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = strchr(alphabet, text[i]);
        if (!digit)
            return false;
        bits = bits << 6 | (uint32_t)(digit - alphabet);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[size++] = (unsigned char)(bits >> held);
        }
    }
    *ret_size = size;
    return held < 6 && (bits & ((1u << held) - 1)) == 0;
}

/* ---- Writing ------------------------------------------------------------------------------------ */

typedef struct output {
    unsigned char bytes[BYTES_MAX];
    size_t size;
    bool full;
} output;

static void put(output *out, const void *bytes, size_t size)
{
    out->full |= size > BYTES_MAX - out->size;
    if (out->full || size == 0) /* a text of 0 bytes may be at NULL */
        return;
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void put_number(output *out, uint64_t value, unsigned size)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> (8 * (size - 1 - i)));
    put(out, bytes, size);
}

db_cursor_result db_cursor_write(mem_context *ctx, const unsigned char *print,
                                 const store_scalar *values, size_t count, store_text id,
                                 uint64_t position, char **ret_text)
{
    output out = {.size = 0};
    put_number(&out, VERSION, 1);
    put(&out, print, DB_CURSOR_PRINT);
    put_number(&out, position, 8);
    for (size_t i = 0; i < count; i++) {
        put_number(&out, values[i].is, 1);
        put_number(&out, values[i].text.size, 2);
        put(&out, values[i].text.at, values[i].text.size);
    }
    put(&out, id.at, id.size);
    if (out.full)
        return DB_CURSOR_TOO_LONG;
    char *text = mem_alloc_aligned(ctx, out.size / 3 * 4 + 5, 1);
    if (!text)
        return DB_CURSOR_MEMORY;
    *encode(text, out.bytes, out.size) = '\0';
    *ret_text = text;
    return DB_CURSOR_WRITTEN;
}
static_assert(BYTES_MAX <= UINT16_MAX, "a value that fits has a length that fits");

/* ---- Reading ------------------------------------------------------------------------------------ */

typedef struct input {
    const unsigned char *at, *end;
} input;

/* NULL: there is not so much. */
static const void *take(input *in, size_t size)
{
    if (size > (size_t)(in->end - in->at))
        return NULL;
    in->at += size;
    return in->at - size;
}

static bool take_number(input *in, unsigned size, uint64_t *ret_value)
{
    const unsigned char *bytes = take(in, size);
    uint64_t value = 0;
    if (!bytes)
        return false;
    for (unsigned i = 0; i < size; i++)
        value = value << 8 | bytes[i];
    *ret_value = value;
    return true;
}

static bool foreign(db_fault *fault)
{
    return db_fail(fault,
                   "The parameter \"after\" is no cursor of this list: it must come from its "
                   "Link header, with the same filters and the same order.");
}

static bool is_number(const db_words *words, store_text text)
{
    store_scalar scalar;
    return text.size > 0 && db_scalar_read(words, text, &scalar) && scalar.is == STORE_NUMBER;
}

static bool take_value(const db_words *words, input *in, store_scalar *ret_value)
{
    uint64_t is, size;
    if (!take_number(in, 1, &is) || !take_number(in, 2, &size))
        return false;
    store_text text = {take(in, size), size};
    if (!text.at)
        return false;
    switch (is) {
    case STORE_NULL:
    case STORE_FALSE:
    case STORE_TRUE:
        if (size > 0)
            return false;
        break;
    case STORE_NUMBER:
        if (!is_number(words, text))
            return false;
        break;
    case STORE_STRING:
    case STORE_COMPOSITE: /* its text, which may have been cut */
        if (!utf8_valid(text.at, size))
            return false;
        break;
    default:
        return false;
    }
    *ret_value = (store_scalar){0};
    ret_value->is = (int)is;
    ret_value->text = text;
    return true;
}

bool db_cursor_read(mem_context *ctx, const char *text, const unsigned char *print,
                    store_query *query, uint64_t *ret_position, db_fault *fault)
{
    db_words words = {ctx, "after", fault};
    size_t length = strlen(text), size;
    uint64_t version, position;
    if (length > DB_CURSOR_MAX)
        return foreign(fault);
    unsigned char *bytes = mem_alloc_aligned(ctx, BYTES_MAX, 1);
    if (!bytes)
        return db_fail_memory(fault);
    if (!decode(text, length, bytes, &size))
        return foreign(fault);
    input in = {bytes, bytes + size};
    const void *bound;
    if (!take_number(&in, 1, &version) || version != VERSION ||
        !(bound = take(&in, DB_CURSOR_PRINT)) || memcmp(bound, print, DB_CURSOR_PRINT) != 0 ||
        !take_number(&in, 8, &position))
        return foreign(fault);
    for (size_t i = 0; i < query->order_count; i++)
        if (!take_value(&words, &in, &query->after[i]))
            return fault->memory ? false : foreign(fault);
    if (!db_name_valid((const char *)in.at, (size_t)(in.end - in.at)))
        return foreign(fault);
    query->after_id = (store_text){(const char *)in.at, (size_t)(in.end - in.at)};
    query->has_after = true;
    *ret_position = position;
    return true;
}
