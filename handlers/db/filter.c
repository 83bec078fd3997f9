/* Paths, values and filters of a query. Pure; on a worker's thread. */
#include "filter.h"

#include <string.h>

#include "../pointer.h"

#define SHOWN 60 /* bytes of a client's text in a sentence */

/* For "%.*s". */
static int shown(store_text text)
{
    return text.size > SHOWN ? SHOWN : (int)text.size;
}

static bool copy_text(const db_words *words, const char *at, size_t size, store_text *ret_text)
{
    char *copy = mem_copy(words->ctx, at, size);
    if (!copy)
        return db_fail_memory(words->fault);
    *ret_text = (store_text){copy, size};
    return true;
}

/* ---- Paths ------------------------------------------------------------------------------------- */

static bool read_pointer(const db_words *words, store_text text, store_path *path)
{
    pointer p = {text.at, text.at + text.size};
    if (!pointer_valid(p))
        return db_fail(words->fault,
                       "The parameter \"%.60s\": \"%.*s\" is no JSON pointer; a ~ must be followed "
                       "by 0 (for ~) or 1 (for /).",
                       words->name, shown(text), text.at);
    if (pointer_depth(p) > STORE_PATH_MAX)
        return db_fail_limit(
            words->fault, STORE_PATH_MAX,
            "The parameter \"%.60s\": the path \"%.*s\" has more than %d steps, the "
            "limit.",
            words->name, shown(text), text.at, STORE_PATH_MAX);
    while (p.at < p.end) {
        pointer_token token;
        if (!pointer_next(&p, words->ctx, &token) ||
            !copy_text(words, token.text, token.length, &path->token[path->count++]))
            return db_fail_memory(words->fault);
    }
    return true;
}

bool db_path_read(const db_words *words, store_text text, store_path *ret_path)
{
    *ret_path = (store_path){0};
    if (text.size == 0)
        return db_fail(words->fault,
                       "The parameter \"%.60s\": a path is empty; it must be the name of a member, "
                       "or a JSON pointer that begins with a slash.",
                       words->name);
    if (text.at[0] == '/')
        return read_pointer(words, text, ret_path);
    ret_path->count = 1;
    return copy_text(words, text.at, text.size, &ret_path->token[0]);
}

/* ---- Lists ------------------------------------------------------------------------------------- */

/* Behind the JSON string that begins at `at`; NULL: it does not end. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at + 1 : NULL;
}

static bool bad_list(const db_words *words, const char *why)
{
    return db_fail(
        words->fault,
        "The parameter \"%.60s\": %s; items are divided by commas, and one that contains "
        "a comma stands in quotes.",
        words->name, why);
}

bool db_item_next(const db_words *words, store_text *rest, store_text *ret_item)
{
    const char *start = rest->at, *end = start + rest->size, *at = start;
    const char *quote = at < end && *at == '-' ? at + 1 : at; /* -"a,b" is an order, descending */
    if (quote < end && *quote == '"') {
        at = string_end(quote, end);
        if (!at)
            return bad_list(words, "a quoted item does not end");
        if (at < end && *at != ',')
            return bad_list(words, "something follows a quoted item");
    } else {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        at = comma ? comma : end;
    }
    if (at == start)
        return bad_list(words, "an item is empty");
    *ret_item = (store_text){start, (size_t)(at - start)};
    *rest = at == end ? (store_text){NULL, 0} : (store_text){at + 1, (size_t)(end - at - 1)};
    return true;
}

/* ---- Values ------------------------------------------------------------------------------------ */

/* Of a tree whose text that is. */
static bool take_scalar(const db_words *words, const json_t *tree, store_text text,
                        store_scalar *ret_scalar)
{
    static const int kinds[] = {
        [JSON_OBJECT] = STORE_COMPOSITE, [JSON_ARRAY] = STORE_COMPOSITE,
        [JSON_STRING] = STORE_STRING,    [JSON_INTEGER] = STORE_NUMBER,
        [JSON_REAL] = STORE_NUMBER,      [JSON_TRUE] = STORE_TRUE,
        [JSON_FALSE] = STORE_FALSE,      [JSON_NULL] = STORE_NULL,
    };
    *ret_scalar = (store_scalar){0};
    ret_scalar->is = kinds[json_typeof(tree)];
    if (ret_scalar->is == STORE_STRING)
        return copy_text(words, json_string_value(tree), json_string_length(tree),
                         &ret_scalar->text);
    if (json_is_real(tree)) { /* as it would be stored: more digits say no more */
        char digits[JSON_REAL_MAX];
        return copy_text(words, digits, json_real_print(json_real_value(tree), digits),
                         &ret_scalar->text);
    }
    if (ret_scalar->is == STORE_NUMBER || ret_scalar->is == STORE_COMPOSITE)
        return copy_text(words, text.at, text.size, &ret_scalar->text);
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool db_scalar_read(const db_words *words, store_text text, store_scalar *ret_scalar)
{
    json_read_problem problem = {.status = JSON_READ_SYNTAX};
    json_t *tree = NULL;
    /* White space around a value makes it no other value, but it may be part of a string. */
    if (text.size > 0 && !is_space(text.at[0]) && !is_space(text.at[text.size - 1]))
        tree = json_read(text.at, text.size, JSON_READ_DEPTH_MAX, &problem);
    if (tree) {
        bool taken = take_scalar(words, tree, text, ret_scalar);
        json_bridge_release(tree);
        return taken;
    }
    if (problem.status == JSON_READ_MEMORY)
        return db_fail_memory(words->fault);
    if (problem.status != JSON_READ_SYNTAX || (text.size > 0 && text.at[0] == '"'))
        return db_fail(words->fault, "The parameter \"%.60s\": the value %.*s: %s", words->name,
                       shown(text), text.at, problem.detail);
    *ret_scalar = (store_scalar){.is = STORE_STRING};
    return copy_text(words, text.at, text.size, &ret_scalar->text);
}

bool db_item_text(const db_words *words, store_text item, store_text *ret_text)
{
    store_scalar scalar;
    if (item.size == 0 || item.at[0] != '"') {
        *ret_text = item;
        return true;
    }
    if (!db_scalar_read(words, item, &scalar))
        return false;
    *ret_text = scalar.text; /* a string: anything else does not begin with a quote */
    return true;
}

/* ---- Filters ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    store_comparison op;
    bool ordered; /* compares numbers and strings only */
} operators[] = {
    {"eq", STORE_EQ, false},  {"neq", STORE_NEQ, false}, {"lt", STORE_LT, true},
    {"lte", STORE_LTE, true}, {"gt", STORE_GT, true},    {"gte", STORE_GTE, true},
    {"in", STORE_IN, false},
};
#define OPERATORS (sizeof operators / sizeof *operators)

static bool read_operand(const db_words *words, store_text text, bool ordered,
                         store_scalar *ret_operand)
{
    if (text.size == 0)
        return db_fail(words->fault,
                       "The parameter \"%.60s\": there is no value; the empty string is \"\", in "
                       "quotes.",
                       words->name);
    if (!db_scalar_read(words, text, ret_operand))
        return false;
    if (ret_operand->is == STORE_COMPOSITE)
        return db_fail(
            words->fault,
            "The parameter \"%.60s\": %.*s is an array or object, but only scalars can be "
            "compared; a string that looks like one stands in quotes.",
            words->name, shown(text), text.at);
    if (ordered && ret_operand->is != STORE_NUMBER && ret_operand->is != STORE_STRING)
        return db_fail(words->fault,
                       "The parameter \"%.60s\": lt, lte, gt and gte compare numbers and strings, "
                       "not %.*s; a string stands in quotes.",
                       words->name, shown(text), text.at);
    return true;
}

static bool read_in(const db_words *words, store_text text, store_filter *filter)
{
    if (text.size < 2 || text.at[0] != '(' || text.at[text.size - 1] != ')')
        return db_fail(words->fault,
                       "The parameter \"%.60s\": in must be followed by a list in parentheses, as "
                       "in in.(1,2,\"a,b\").",
                       words->name);
    store_text rest = {text.at + 1, text.size - 2}, item;
    store_scalar *operands = mem_alloc_array(words->ctx, DB_IN_MAX, sizeof *operands);
    if (!operands)
        return db_fail_memory(words->fault);
    filter->operands = operands;
    while (rest.at) {
        if (filter->count == DB_IN_MAX)
            return db_fail_limit(words->fault, DB_IN_MAX,
                                 "The parameter \"%.60s\": a list has at most %d values.",
                                 words->name, DB_IN_MAX);
        if (!db_item_next(words, &rest, &item) ||
            !read_operand(words, item, false, &operands[filter->count]))
            return false;
        filter->count++;
    }
    return true;
}

bool db_filter_read(const db_words *words, const char *value, store_filter *ret_filter)
{
    *ret_filter = (store_filter){0};
    size_t length = strcspn(value, "."), i = 0;
    while (i < OPERATORS && !(strlen(operators[i].name) == length && value[length] == '.' &&
                              memcmp(operators[i].name, value, length) == 0))
        i++;
    if (i == OPERATORS)
        return db_fail(
            words->fault,
            "The parameter \"%.60s\": \"%.60s\" does not begin with an operator and a "
            "dot; operators are eq, neq, lt, lte, gt, gte and in, as in age=gte.18. (Other "
            "parameters are order, select, limit and after.)",
            words->name, value);
    ret_filter->op = operators[i].op;
    store_text operand = {value + length + 1, strlen(value + length + 1)};
    if (!db_path_read(words, (store_text){words->name, strlen(words->name)}, &ret_filter->path))
        return false;
    if (ret_filter->op == STORE_IN)
        return read_in(words, operand, ret_filter);
    store_scalar *scalar = mem_alloc_array(words->ctx, 1, sizeof *scalar);
    if (!scalar)
        return db_fail_memory(words->fault);
    ret_filter->operands = scalar;
    ret_filter->count = 1;
    return read_operand(words, operand, operators[i].ordered, scalar);
}
