/* A model of documents that is simple enough to be right: each has a value "v" of any kind and a
 * small one "w", kept beside its JSON text, and is compared as store.h says. */
#ifndef STORE_MODEL_H
#define STORE_MODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../handlers/store/store.h"
#include "long_double.h"

#define MODEL_DOCUMENTS_MAX 300
#define MODEL_ID 24

/* A value: what it is, and its JSON. Strings have no JSON of their own where it is the same. */
struct model_value {
    int is;
    const char *text; /* number: literal; string: bytes; composite: JSON */
    size_t size;
    const char *json;
};

#define SAME_STRING(s)                              \
    {                                               \
        STORE_STRING, s, sizeof(s) - 1, "\"" s "\"" \
    }
#define OTHER_STRING(s, json)                \
    {                                        \
        STORE_STRING, s, sizeof(s) - 1, json \
    }
#define NUMBER(n)                         \
    {                                     \
        STORE_NUMBER, n, sizeof(n) - 1, n \
    }
#define COMPOSITE(c)                         \
    {                                        \
        STORE_COMPOSITE, c, sizeof(c) - 1, c \
    }
#define TEN(s) s s s s s s s s s s
#define LONG TEN(TEN("\xc3\xa9x-")) /* 300 characters */
#define SIXTEEN(s) s s s s s s s s s s s s s s s s
#define SORTED SIXTEEN(SIXTEEN("x")) /* STORE_SORT_MAX characters */

static const struct model_value model_values[] = {
    {STORE_NULL, "", 0, NULL}, /* missing */
    {STORE_NULL, "", 0, "null"},
    {STORE_FALSE, "", 0, "false"},
    {STORE_TRUE, "", 0, "true"},
    NUMBER("0"),
    NUMBER("-0.0"),
    NUMBER("1"),
    NUMBER("1.0"),
    NUMBER("2"),
    NUMBER("-1"),
    NUMBER("0.1"),
    NUMBER("-0.1"),
    NUMBER("0.30000000000000004"),
    NUMBER("9007199254740992"),
    NUMBER("9007199254740993"),
    NUMBER("9007199254740992.0"),
    NUMBER("9007199254740994.0"),
    NUMBER("-9007199254740993"),
    NUMBER("9223372036854775807"),
    NUMBER("9223372036854775806"),
    NUMBER("9223372036854775808.0"),
    NUMBER("-9223372036854775808"),
    NUMBER("-9223372036854775807"),
    NUMBER("-9.223372036854776e18"),
    NUMBER("1152921504606846976"),
    NUMBER("1.152921504606847e18"),
    NUMBER("1152921504606847000"),
    NUMBER("1e300"),
    NUMBER("-1.7976931348623157e308"),
    NUMBER("5e-324"),
    SAME_STRING(""),
    SAME_STRING("a"),
    SAME_STRING("A"),
    SAME_STRING("b"),
    SAME_STRING("1"),
    SAME_STRING("null"),
    SAME_STRING("a b"),
    SAME_STRING("%"),
    SAME_STRING("it's"),
    SAME_STRING("\xc3\xa9"),
    SAME_STRING("\xef\xbf\xbf"),
    SAME_STRING("\xf0\x9f\x98\x80"),
    OTHER_STRING("\0", "\"\\u0000\""),
    OTHER_STRING("\1", "\"\\u0001\""),
    OTHER_STRING("a\0b", "\"a\\u0000b\""),
    OTHER_STRING("a\0c", "\"a\\u0000c\""),
    OTHER_STRING("a\1", "\"a\\u0001\""),
    OTHER_STRING("\"", "\"\\\"\""),
    OTHER_STRING("\\", "\"\\\\\""),
    OTHER_STRING("a\n\t\r\b\f", "\"a\\n\\t\\r\\b\\f\""),
    OTHER_STRING("a/", "\"a\\/\""),
    OTHER_STRING("\xf0\x9f\x98\x81", "\"\\ud83d\\ude01\""),
    OTHER_STRING("\xe2\x82\xac", "\"\\u20AC\""),
    SAME_STRING(LONG),
    SAME_STRING(LONG "a"),
    SAME_STRING(LONG "b"),
    SAME_STRING(SORTED),
    SAME_STRING(SORTED "x"),
    COMPOSITE("[]"),
    COMPOSITE("[1]"),
    COMPOSITE("[2]"),
    COMPOSITE("{}"),
};
#define MODEL_VALUES (sizeof model_values / sizeof *model_values)
#define MODEL_MISSING 0
#define MODEL_SMALL 6 /* values of "w" begin there: 1, 1.0, 2 */

struct model_document {
    char id[MODEL_ID];
    const struct model_value *v, *w;
    char *json;
    size_t size;
};

/* The same numbers in every run. */
static inline unsigned model_random(unsigned below)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

static inline size_t model_small(void)
{
    return MODEL_SMALL + model_random(3);
}

/* Whether it can be compared. SQLite's backend (sqlite_key.c) and this model compare numbers beyond
 * 2^53 in long doubles; where those are no wider than doubles, what is no double there is left out:
 * 2^53 + 1, as well as 1.152921504606847e18, which is 2^60 + 24 and not the double 2^60. */
static inline bool model_can_compare(const struct model_value *v)
{
    char digits[32];
    if (v->is != STORE_NUMBER || long_double_is_wide())
        return true;
    double nearest = strtod(v->text, NULL);
    if (fabs(nearest) < 0x1p53 || fabs(nearest) > 0x1p63)
        return true;
    int size = snprintf(digits, sizeof digits, "%.0f", nearest);
    return strncmp(v->text, digits, (size_t)size) == 0;
}

/* Document `n`: the values take turns, so that each is there. Ids are in the order of `n`. */
static inline void model_make_document(struct model_document *d, size_t n)
{
    d->v = &model_values[n % MODEL_VALUES];
    if (!model_can_compare(d->v))
        d->v = &model_values[MODEL_MISSING];
    d->w = &model_values[model_small()];
    snprintf(d->id, sizeof d->id, "id-%05zu", n);
    const char *before = d->v->json ? "\"v\":" : "", *json = d->v->json ? d->v->json : "";
    const char *comma = d->v->json ? "," : "";
    int size = asprintf(&d->json, "{\"deep\":[{\"v\":1}],%s%s%s\"w\":%s}", before, json, comma,
                        d->w->json);
    assert_true(size > 0);
    d->size = (size_t)size;
}

static inline void model_end_document(struct model_document *d)
{
    free(d->json);
}

static inline const struct model_document *model_find(const struct model_document *documents,
                                                      size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(documents[i].id, id) == 0)
            return &documents[i];
    }
    return NULL;
}

/* false: it is composite, which no operand is, or cannot be compared. */
static inline bool model_operand(size_t value, store_scalar *ret_operand)
{
    const struct model_value *v = &model_values[value];
    if (v->is == STORE_COMPOSITE || !model_can_compare(v))
        return false;
    *ret_operand = (store_scalar){.is = v->is, .text = {v->text, v->size}};
    return true;
}

/* ---- Comparing ----------------------------------------------------------------------------------- */

/* Wide enough for what the digits of each integer of 64 bits and of each double say. */
_Static_assert(__LDBL_MANT_DIG__ >= 64, "a long double holds 64-bit integers");

static inline long double model_number(const char *literal)
{
    return strtold(literal, NULL);
}

static inline int model_compare_numbers(const char *a, const char *b)
{
    long double x = model_number(a), y = model_number(b);
    return (x > y) - (x < y);
}

static inline int model_compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Bytes of the first STORE_SORT_MAX characters. */
static inline size_t model_cut(const struct model_value *v)
{
    size_t characters = 0, i = 0;
    for (; i < v->size; i++) {
        if (((unsigned char)v->text[i] & 0xc0) != 0x80 && characters++ == STORE_SORT_MAX)
            break;
    }
    return i;
}

static inline int model_compare(const struct model_value *a, const struct model_value *b)
{
    if (a->is != b->is)
        return a->is < b->is ? -1 : 1;
    if (a->is == STORE_NUMBER)
        return model_compare_numbers(a->text, b->text);
    return model_compare_bytes(a->text, model_cut(a), b->text, model_cut(b));
}

static inline bool model_equals(const struct model_value *v, const store_scalar *operand)
{
    if (v->is != (int)operand->is)
        return false;
    if (v->is == STORE_NUMBER)
        return model_compare_numbers(v->text, operand->text.at) == 0;
    return v->size == operand->text.size && memcmp(v->text, operand->text.at, v->size) == 0;
}

static inline bool model_passes(const struct model_document *d, const store_filter *filter)
{
    const struct model_value *v = filter->path.token[0].at[0] == 'v' ? d->v : d->w;
    const store_scalar *operand = filter->operands;
    if (filter->op == STORE_EQ || filter->op == STORE_IN || filter->op == STORE_NEQ) {
        bool found = false;
        for (size_t i = 0; i < filter->count; i++)
            found |= model_equals(v, &operand[i]);
        return found != (filter->op == STORE_NEQ);
    }
    if (v->is != (int)operand->is)
        return false;
    int order = v->is == STORE_NUMBER
                    ? model_compare_numbers(v->text, operand->text.at)
                    : model_compare_bytes(v->text, v->size, operand->text.at, operand->text.size);
    return filter->op == STORE_LT    ? order < 0
           : filter->op == STORE_LTE ? order <= 0
           : filter->op == STORE_GT  ? order > 0
                                     : order >= 0;
}

/* By `orders`, then by id. */
static inline int model_compare_rows(const struct model_document *a, const struct model_document *b,
                                     const store_order *orders, size_t count)
{
    static const struct model_value missing = {STORE_NULL, "", 0, NULL};
    for (size_t i = 0; i < count; i++) {
        char name = orders[i].path.token[0].at[0];
        int order = model_compare(name == 'v'   ? a->v
                                  : name == 'w' ? a->w
                                                : &missing,
                                  name == 'v'   ? b->v
                                  : name == 'w' ? b->w
                                                : &missing);
        if (order != 0)
            return orders[i].descending ? -order : order;
    }
    return strcmp(a->id, b->id);
}

#endif
