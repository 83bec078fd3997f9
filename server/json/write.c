/* The JSON writer: streams values into one growing buffer of a context. It never looks back, keeps
 * no state beyond its struct, and allocates nothing else. Internals pass the write position `at` as
 * argument and result so that it stays in a register; NULL means failed, and the reason is in the
 * writer. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "digits.h"
#include "json.h"
#include "scan.h"
#include "utf8.h"

#define EXPECTED 256  /* bytes, where the caller has no guess */
#define INDENT 2      /* spaces */
#define ESCAPE_MAX 6  /* bytes of \u001f */
#define PUNCTUATION 8 /* bytes: more than a bracket, comma, colon and space together */
#define SHORT 16      /* bytes of a string that is copied in two pieces */
#define STRING_SLACK (2 + SHORT * ESCAPE_MAX)    /* the quotes, and a short string of escapes */
#define FIRST_SLACK (STRING_SLACK + PUNCTUATION) /* so that an exact guess needs no growth */

static_assert(SCAN_STEP <= SHORT, "the longer ones are at least as long as a step");

void json_writer_init(json_writer *w, mem_context *ctx, size_t expected, unsigned max_depth,
                      bool pretty)
{
    *w = (json_writer){
        .ctx = ctx,
        .expected = expected ? expected : EXPECTED,
        .max_depth = max_depth < JSON_WRITE_DEPTH_MAX ? max_depth : JSON_WRITE_DEPTH_MAX,
        .pretty = pretty,
    };
}

static char *fail(json_writer *w, json_write_status why)
{
    if (!w->failed)
        w->failed = why;
    return NULL;
}

/* ---- Room ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) char *grow(json_writer *w, char *at, size_t size)
{
    size_t used = w->text ? (size_t)(at - w->text) : 0, need, capacity;
    if (__builtin_add_overflow(used, size, &need))
        return fail(w, JSON_WRITE_MEMORY);
    if (w->text ? __builtin_mul_overflow(w->capacity, 2, &capacity)
                : __builtin_add_overflow(w->expected, FIRST_SLACK, &capacity))
        capacity = need;
    if (capacity < need)
        capacity = need;

    char *text = mem_resize(w->ctx, w->text, w->capacity, capacity);
    if (!text)
        return fail(w, JSON_WRITE_MEMORY);
    w->text = text;
    w->capacity = capacity;
    return text + used;
}

/* Makes sure that `size` bytes, and PUNCTUATION more, may be written at the position returned. All
 * functions that write make the same promise about the position they return, so that what stands
 * between two values needs no check of its own. */
static inline char *room(json_writer *w, char *at, size_t size)
{
    size += PUNCTUATION;
    return size <= (size_t)(w->text + w->capacity - at) ? at : grow(w, at, size);
}

static char *put_newline(json_writer *w, char *at, unsigned depth)
{
    size_t spaces = INDENT * (size_t)depth;
    at = room(w, at, 1 + spaces);
    if (!at)
        return NULL;
    *at++ = '\n';
    memset(at, ' ', spaces);
    return at + spaces;
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* The letter of a two-byte escape, 'u' for \u00XX, 0 for a byte that stands for itself. */
static const char escapes[256] = {
    [0 ... 7] = 'u', ['\b'] = 'b', ['\t'] = 't',      ['\n'] = 'n', [11] = 'u',
    ['\f'] = 'f',    ['\r'] = 'r', [14 ... 31] = 'u', ['"'] = '"',  ['\\'] = '\\',
};

static char *put_escaped(char *at, const char *text, size_t size)
{
    for (const char *end = text + size; text < end; text++) {
        unsigned char c = (unsigned char)*text;
        char escape = escapes[c];
        if (!escape) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '\\';
        *at++ = escape;
        if (escape == 'u') {
            memcpy(at, c & 16 ? "001" : "000", 3);
            at[3] = "0123456789abcdef"[c & 15];
            at += 4;
        }
    }
    return at;
}

/* Copies `size` bytes, less than SHORT, in two pieces that may overlap, so that it costs no loop. false:
 * one of them needs an escape. */
static inline bool put_short(char *at, const char *text, size_t size)
{
    if (size >= 8) {
        uint64_t head, tail;
        memcpy(&head, text, sizeof head);
        memcpy(&tail, text + size - sizeof tail, sizeof tail);
        memcpy(at, &head, sizeof head);
        memcpy(at + size - sizeof tail, &tail, sizeof tail);
        return !(scan_needs_escape(head) | scan_needs_escape(tail));
    }
    if (size >= 4) {
        uint32_t head, tail;
        memcpy(&head, text, sizeof head);
        memcpy(&tail, text + size - sizeof tail, sizeof tail);
        memcpy(at, &head, sizeof head);
        memcpy(at + size - sizeof tail, &tail, sizeof tail);
        return !scan_needs_escape(head | (uint64_t)tail << 32);
    }
    if (size >= 2) {
        uint16_t head, tail;
        memcpy(&head, text, sizeof head);
        memcpy(&tail, text + size - sizeof tail, sizeof tail);
        memcpy(at, &head, sizeof head);
        memcpy(at + size - sizeof tail, &tail, sizeof tail);
        return !scan_needs_escape(head | (uint32_t)tail << 16 | SCAN_EACH_BYTE(0x20) << 32);
    }
    if (size == 1)
        *at = *text;
    return size == 0 || !escapes[(unsigned char)*text];
}

/* A string that has an escape, and the closing quote. Before each step there is room for what is
 * left and STRING_SLACK. */
static __attribute__((noinline)) char *put_rest(json_writer *w, char *at, const char *text,
                                                size_t size)
{
    while (size >= SCAN_STEP) {
        size_t count = scan_write_step(at, text);
        at += count;
        text += count;
        size -= count;
        if (count == SCAN_STEP)
            continue;
        at = room(w, put_escaped(at, text, 1), size + STRING_SLACK);
        if (!at)
            return NULL;
        text++;
        size--;
    }
    at = put_escaped(at, text, size);
    *at++ = '"';
    return at;
}

/* `text` must be UTF-8. Its last step is looked at together with bytes before it that have been
 * copied already: fewer branches on the length, which is what a short string costs. */
static inline __attribute__((always_inline)) char *put_string(json_writer *w, char *at,
                                                              const char *text, size_t size)
{
    at = room(w, at, size + STRING_SLACK);
    if (!at)
        return NULL;
    *at++ = '"';
    if (size < SHORT) {
        if (!put_short(at, text, size))
            return put_rest(w, at, text, size);
        at[size] = '"';
        return at + size + 1;
    }
    size_t last = size - SCAN_STEP;
    for (size_t i = 0; i < last; i += SCAN_STEP) {
        if (scan_write_step(at + i, text + i) < SCAN_STEP)
            return put_rest(w, at + i, text + i, size - i);
    }
    if (scan_write_step(at + last, text + last) < SCAN_STEP)
        return put_rest(w, at + last, text + last, SCAN_STEP);
    at[size] = '"';
    return at + size + 1;
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static char *put_value(json_writer *w, char *at, const json_t *value, unsigned depth);

static __attribute__((noinline)) char *put_object(json_writer *w, char *at, const json_t *value,
                                                  unsigned depth)
{
    json_t *object = (json_t *)value; /* jansson's iterators take no const */
    void *member = json_object_iter(object);
    if (depth >= w->max_depth)
        return fail(w, JSON_WRITE_DEPTH);
    at = room(w, at, 2);
    if (!at)
        return NULL;
    *at++ = '{';
    while (member) {
        if (w->pretty && !(at = put_newline(w, at, depth + 1)))
            return NULL;
        at = put_string(w, at, json_object_iter_key(member), json_object_iter_key_len(member));
        if (!at)
            return NULL;
        *at++ = ':';
        if (w->pretty)
            *at++ = ' ';
        at = put_value(w, at, json_object_iter_value(member), depth + 1);
        if (!at)
            return NULL;
        member = json_object_iter_next(object, member);
        if (member)
            *at++ = ',';
        else if (w->pretty && !(at = put_newline(w, at, depth)))
            return NULL;
    }
    *at++ = '}';
    return room(w, at, 0);
}

static __attribute__((noinline)) char *put_array(json_writer *w, char *at, const json_t *array,
                                                 unsigned depth)
{
    size_t count = json_array_size(array);
    if (depth >= w->max_depth)
        return fail(w, JSON_WRITE_DEPTH);
    at = room(w, at, 2);
    if (!at)
        return NULL;
    *at++ = '[';
    for (size_t i = 0; i < count; i++) {
        if (w->pretty && !(at = put_newline(w, at, depth + 1)))
            return NULL;
        at = put_value(w, at, json_array_get(array, i), depth + 1);
        if (!at)
            return NULL;
        if (i + 1 < count)
            *at++ = ',';
        else if (w->pretty && !(at = put_newline(w, at, depth)))
            return NULL;
    }
    *at++ = ']';
    return room(w, at, 0);
}

static char *put_word(json_writer *w, char *at, const char *word, size_t size)
{
    at = room(w, at, size);
    return at ? (char *)memcpy(at, word, size) + size : NULL;
}

static char *put_real(json_writer *w, char *at, double value)
{
    if (!isfinite(value))
        return fail(w, JSON_WRITE_VALUE);
    at = room(w, at, JSON_REAL_MAX);
    return at ? at + json_real_print(value, at) : NULL;
}

static char *put_integer(json_writer *w, char *at, int64_t value)
{
    at = room(w, at, 1 + DIGITS_MAX);
    if (!at)
        return NULL;
    uint64_t size = (uint64_t)value;
    if (value < 0) {
        *at++ = '-';
        size = 0 - size;
    }
    return digits_print(at, size);
}

/* Recursion ends at max_depth, which is at most JSON_WRITE_DEPTH_MAX: a cycle ends there too. It goes
 * through the two functions above, which have this one inside: so a scalar costs no call. */
static inline __attribute__((always_inline)) char *put_value(json_writer *w, char *at,
                                                             const json_t *value, unsigned depth)
{
    if (!value)
        return fail(w, JSON_WRITE_VALUE);
    if (json_is_string(value)) /* most are */
        return put_string(w, at, json_string_value(value), json_string_length(value));
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return put_object(w, at, value, depth);
    case JSON_ARRAY:
        return put_array(w, at, value, depth);
    case JSON_INTEGER:
        return put_integer(w, at, json_integer_value(value));
    case JSON_REAL:
        return put_real(w, at, json_real_value(value));
    case JSON_TRUE:
        return put_word(w, at, "true", 4);
    case JSON_FALSE:
        return put_word(w, at, "false", 5);
    case JSON_NULL:
        return put_word(w, at, "null", 4);
    case JSON_STRING:
        break;
    }
    return fail(w, JSON_WRITE_VALUE);
}

/* ---- Values one by one ----------------------------------------------------------------------- */

/* Writes what stands before the next value or key. Returns where it goes; NULL: failed. */
static char *separate(json_writer *w)
{
    if (w->failed)
        return NULL;
    char *at = w->text ? room(w, w->text + w->length, 0) : grow(w, NULL, PUNCTUATION);
    if (!at)
        return NULL;
    if (w->after_key) {
        w->after_key = false;
        return at;
    }
    if (w->comma)
        *at++ = ',';
    return w->pretty && w->depth > 0 ? put_newline(w, at, w->depth) : at;
}

static void finish(json_writer *w, char *at)
{
    if (!at)
        return;
    w->length = (size_t)(at - w->text);
    w->comma = w->depth > 0;
}

static void begin(json_writer *w, char bracket)
{
    char *at = separate(w);
    if (!at)
        return;
    if (w->depth >= w->max_depth) {
        fail(w, JSON_WRITE_DEPTH);
        return;
    }
    *at++ = bracket;
    w->length = (size_t)(at - w->text);
    w->depth++;
    w->comma = false;
}

static void end(json_writer *w, char bracket)
{
    if (w->failed)
        return;
    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    char *at = room(w, w->text + w->length, 1);
    if (at && w->pretty && w->comma) /* else it is empty */
        at = put_newline(w, at, w->depth);
    if (at)
        *at++ = bracket;
    finish(w, at);
}

void json_write_begin_object(json_writer *w)
{
    begin(w, '{');
}

void json_write_end_object(json_writer *w)
{
    end(w, '}');
}

void json_write_begin_array(json_writer *w)
{
    begin(w, '[');
}

void json_write_end_array(json_writer *w)
{
    end(w, ']');
}

static char *put_text(json_writer *w, const char *text, size_t length)
{
    char *at = separate(w);
    if (!at)
        return NULL;
    return utf8_valid(text, length) ? put_string(w, at, text, length) : fail(w, JSON_WRITE_VALUE);
}

void json_write_key(json_writer *w, const char *key, size_t length)
{
    assert(w->failed || (w->depth > 0 && !w->after_key));
    char *at = put_text(w, key, length);
    if (!at)
        return;
    *at++ = ':';
    if (w->pretty)
        *at++ = ' ';
    w->length = (size_t)(at - w->text);
    w->after_key = true;
}

void json_write_string(json_writer *w, const char *text, size_t length)
{
    finish(w, put_text(w, text, length));
}

void json_write_integer(json_writer *w, int64_t value)
{
    char *at = separate(w);
    finish(w, at ? put_integer(w, at, value) : NULL);
}

void json_write_real(json_writer *w, double value)
{
    char *at = separate(w);
    finish(w, at ? put_real(w, at, value) : NULL);
}

void json_write_bool(json_writer *w, bool value)
{
    json_write_raw(w, value ? "true" : "false", value ? 4 : 5);
}

void json_write_null(json_writer *w)
{
    json_write_raw(w, "null", 4);
}

void json_write_raw(json_writer *w, const char *text, size_t length)
{
    char *at = separate(w);
    finish(w, at ? put_word(w, at, text, length) : NULL);
}

void json_write_tree(json_writer *w, const json_t *tree)
{
    char *at = separate(w);
    finish(w, at ? put_value(w, at, tree, w->depth) : NULL);
}
