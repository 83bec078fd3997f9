/* The parameters of a list. Pure; on a worker's thread. */
#include "query.h"

#include <string.h>

#include "../../server/json/utf8.h"
#include "../store/store_value.h"
#include "cursor.h"
#include "filter.h"

/* ---- Percent-encoding -------------------------------------------------------------------------- */

/* RFC 3986, section 3.4, without what divides parameters, and without '+', which some read as a
 * space. */
static bool stands_for_itself(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~!$'()*,;:@/?", c));
}

size_t db_query_encoded_size(const char *text)
{
    size_t size = 0;
    for (; *text; text++)
        size += stands_for_itself(*text) ? 1 : 3;
    return size;
}

char *db_query_encode(char *at, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (stands_for_itself(*text)) {
            *at++ = *text;
        } else {
            *at++ = '%';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    return at;
}

/* ---- Parameters -------------------------------------------------------------------------------- */

bool db_query_begin(db_query *q, mem_context *ctx, const char *collection)
{
    *q = (db_query){.ctx = ctx, .query = mem_alloc_array(ctx, 1, sizeof *q->query)};
    sha256_init(&q->hash);
    sha256_update(&q->hash, strlen(collection) + 1, (const uint8_t *)collection);
    return q->query != NULL;
}

static bool twice(const db_words *words)
{
    return db_fail(words->fault, "The parameter \"%s\" is there twice.", words->name);
}

static bool read_order(db_query *q, const db_words *words, const char *value)
{
    store_text rest = {value, strlen(value)}, item;
    store_query *query = q->query;
    if (q->ordered)
        return twice(words);
    q->ordered = true;
    while (rest.at) {
        if (query->order_count == STORE_ORDERS_MAX)
            return db_fail_limit(words->fault, STORE_ORDERS_MAX,
                                 "The parameter \"order\" has more than %d paths, the limit.",
                                 STORE_ORDERS_MAX);
        if (!db_item_next(words, &rest, &item))
            return false;
        store_order *order = &query->orders[query->order_count];
        order->descending = item.at[0] == '-';
        item.at += order->descending;
        item.size -= order->descending;
        if (!db_item_text(words, item, &item) || !db_path_read(words, item, &order->path))
            return false;
        for (size_t i = 0; i < query->order_count; i++)
            if (store_same_path(&query->orders[i].path, &order->path))
                return db_fail(words->fault, "The parameter \"order\" has the path \"%.*s\" twice.",
                               item.size > 100 ? 100 : (int)item.size, item.at);
        query->order_count++;
    }
    return true;
}

static store_text last_token(const store_path *path)
{
    return path->token[path->count - 1];
}

static bool read_select(db_query *q, const db_words *words, const char *value)
{
    store_text rest = {value, strlen(value)}, item;
    store_query *query = q->query;
    if (q->selects)
        return twice(words);
    q->selects = true;
    while (rest.at) {
        if (query->select_count == STORE_SELECT_MAX)
            return db_fail_limit(words->fault, STORE_SELECT_MAX,
                                 "The parameter \"select\" has more than %d paths, the limit.",
                                 STORE_SELECT_MAX);
        store_path *path = &query->select[query->select_count];
        if (!db_item_next(words, &rest, &item) || !db_item_text(words, item, &item) ||
            !db_path_read(words, item, path))
            return false;
        store_text name = last_token(path);
        for (size_t i = 0; i < query->select_count; i++) {
            if (store_same_text(name, last_token(&query->select[i])))
                return db_fail(words->fault,
                               "The parameter \"select\" has two paths that end in \"%.*s\"; what "
                               "is selected gets the name of its last step.",
                               name.size > 100 ? 100 : (int)name.size, name.at);
        }
        query->select_count++;
    }
    return true;
}

static bool read_filter(db_query *q, const db_words *words, const char *value)
{
    store_query *query = q->query;
    if (query->filter_count == STORE_FILTERS_MAX)
        return db_fail_limit(words->fault, STORE_FILTERS_MAX,
                             "There are more than %d filters, the limit.", STORE_FILTERS_MAX);
    if (!db_filter_read(words, value, &query->filters[query->filter_count]))
        return false;
    query->filter_count++;
    return true;
}

static bool keep(const char **kept, const db_words *words, const char *value)
{
    if (*kept)
        return twice(words);
    *kept = value;
    return true;
}

bool db_query_add(db_query *q, const char *name, const char *value, db_fault *fault)
{
    db_words words = {q->ctx, name, fault};
    if (!utf8_valid(name, strlen(name)) || !utf8_valid(value, strlen(value)))
        return db_fail(fault, "The name or the value of the parameter \"%.60s\" is not UTF-8.",
                       name);
    if (strcmp(name, "after") == 0)
        return keep(&q->after, &words, value);
    q->size += db_query_encoded_size(name) + db_query_encoded_size(value) + 2;
    if (q->size > DB_QUERY_MAX)
        return db_fail_limit(fault, DB_QUERY_MAX,
                             "The parameters are longer than %d bytes, the limit.", DB_QUERY_MAX);
    if (strcmp(name, "limit") == 0)
        return keep(&q->limit, &words, value);
    if (strcmp(name, "select") == 0)
        return read_select(q, &words, value);
    sha256_update(&q->hash, strlen(name) + 1, (const uint8_t *)name);
    sha256_update(&q->hash, strlen(value) + 1, (const uint8_t *)value);
    return strcmp(name, "order") == 0 ? read_order(q, &words, value)
                                      : read_filter(q, &words, value);
}

static bool read_limit(db_query *q, bool stream, db_fault *fault)
{
    size_t most = stream ? SIZE_MAX : DB_LIMIT_MAX, limit = 0;
    q->query->limit = stream ? SIZE_MAX : DB_LIMIT;
    if (!q->limit)
        return true;
    const char *at = q->limit;
    bool fits = true;
    for (; *at >= '0' && *at <= '9' && fits; at++)
        fits = !__builtin_mul_overflow(limit, 10, &limit) &&
               !__builtin_add_overflow(limit, (size_t)(*at - '0'), &limit);
    if (fits && (at == q->limit || *at || limit == 0))
        return db_fail(fault, "The parameter \"limit\" is \"%.60s\"; it must be a number from 1.",
                       q->limit);
    if (!fits || limit > most)
        return db_fail_limit(fault, most, "The parameter \"limit\" is %.60s; the highest is %zu%s.",
                             q->limit, most,
                             stream ? "" : ", but for a stream (application/x-ndjson)");
    q->query->limit = limit;
    return true;
}

bool db_query_end(db_query *q, bool stream, db_fault *fault)
{
    sha256_digest(&q->hash, sizeof q->print, q->print);
    if (!read_limit(q, stream, fault))
        return false;
    return !q->after || db_cursor_read(q->ctx, q->after, q->print, q->query, &q->position, fault);
}

/* ---- Copies ------------------------------------------------------------------------------------- */

/* Marks `*good` false if memory is refused. */
static store_text copy_text(mem_context *ctx, store_text text, bool *good)
{
    if (text.size == 0)
        return (store_text){"", 0};
    const char *copy = mem_copy(ctx, text.at, text.size);
    *good &= copy != NULL;
    return (store_text){copy, text.size};
}

static void copy_path(mem_context *ctx, store_path *path, bool *good)
{
    for (size_t i = 0; i < path->count; i++)
        path->token[i] = copy_text(ctx, path->token[i], good);
}

static void copy_operands(mem_context *ctx, store_filter *filter, bool *good)
{
    store_scalar *operands = mem_alloc_array(ctx, filter->count, sizeof *operands);
    if (!operands) {
        *good = false;
        return;
    }
    for (size_t i = 0; i < filter->count; i++) {
        operands[i].is = filter->operands[i].is;
        operands[i].text = copy_text(ctx, filter->operands[i].text, good);
    }
    filter->operands = operands;
}

store_query *db_query_copy(mem_context *ctx, const store_query *query)
{
    store_query *copy = mem_copy(ctx, query, sizeof *query);
    bool good = copy != NULL;
    if (!good)
        return NULL;
    for (size_t i = 0; i < copy->filter_count; i++) {
        copy_path(ctx, &copy->filters[i].path, &good);
        copy_operands(ctx, &copy->filters[i], &good);
    }
    for (size_t i = 0; i < copy->order_count; i++)
        copy_path(ctx, &copy->orders[i].path, &good);
    for (size_t i = 0; i < copy->select_count; i++)
        copy_path(ctx, &copy->select[i], &good);
    for (size_t i = 0; i < copy->order_count && copy->has_after; i++)
        copy->after[i].text = copy_text(ctx, copy->after[i].text, &good);
    copy->after_id = copy_text(ctx, copy->after_id, &good);
    return good ? copy : NULL;
}

bool db_query_continue(mem_context *ctx, store_query *query, const store_op *done)
{
    bool good = true;
    query->has_after = true;
    query->count_all = false;
    for (size_t i = 0; i < query->order_count; i++) {
        query->after[i].is = done->last[i].is;
        query->after[i].text = copy_text(ctx, done->last[i].text, &good);
    }
    query->after_id = copy_text(ctx, done->last_id, &good);
    return good;
}
