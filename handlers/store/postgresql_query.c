/* The SQL of a list. Texts of the client are arguments, always: what is appended here is made of words
 * of this file and numbers of arguments. A value is compared by three expressions, its kind, its number
 * and the head of its text, which are the columns of a declared index, too (postgresql_schema.c). */
#include <assert.h>
#include <string.h>

#include "../../server/json/number.h"
#include "postgresql.h"
#include "store_value.h"

/* The functions of the schema return these numbers. */
static_assert(STORE_NULL == 0 && STORE_FALSE == 1 && STORE_TRUE == 2 && STORE_NUMBER == 3 &&
                  STORE_STRING == 4 && STORE_COMPOSITE == 5,
              "kinds in SQL are kinds of store.h");

struct list {
    pg_link *link;
    const store_op *op;
    const store_query *query;
    pg_arguments *arguments;
    pg_text sql;
    const char *filtered[STORE_FILTERS_MAX], *ordered[STORE_ORDERS_MAX]; /* values as expressions */
};

#define NUMBER "slate_number(%s)"
#define KIND "slate_kind(%s)"
#define HEAD "slate_head(%s) COLLATE \"C\""
#define WHOLE "(%s #>> '{}') COLLATE \"C\""

/* ---- Values ------------------------------------------------------------------------------------- */

/* The column `value` has U+0001 U+0001 for U+0000, which jsonb cannot hold, and U+0001 U+0002 for
 * U+0001: no two strings become the same, and their order stays. */
static store_text marked(pg_link *link, store_text text)
{
    size_t more = 0;
    for (size_t i = 0; i < text.size; i++)
        more += (unsigned char)text.at[i] <= 1;
    if (more == 0)
        return text;
    char *copy = mem_alloc(link->memory, text.size + more), *at = copy;
    if (!copy) {
        pg_no_memory(link);
        return (store_text){"", 0};
    }
    for (size_t i = 0; i < text.size; i++) {
        char c = text.at[i];
        *at++ = (unsigned char)c <= 1 ? 1 : c;
        if ((unsigned char)c <= 1)
            *at++ = (char)(c + 1);
    }
    return (store_text){copy, text.size + more};
}

static store_text head_of(store_text text)
{
    return (store_text){text.at, store_head_size(text)};
}

/* Whether another string may have the same head: one of fewer bytes has fewer characters. */
static bool is_long(store_text text)
{
    return text.size >= STORE_SORT_MAX;
}

/* The value at a path, as an expression; the same one for the same path. */
static const char *value_at(struct list *l, const store_path *path)
{
    const store_query *q = l->query;
    for (size_t i = 0; i < q->order_count && l->ordered[i]; i++) {
        if (store_same_path(path, &q->orders[i].path))
            return l->ordered[i];
    }
    for (size_t i = 0; i < q->filter_count && l->filtered[i]; i++) {
        if (store_same_path(path, &q->filters[i].path))
            return l->filtered[i];
    }
    pg_text t = {.link = l->link};
    pg_append(&t, "(value");
    for (size_t i = 0; i < path->count; i++) {
        const char *format =
            store_is_element(path->token[i], NULL) ? " #> ARRAY[$%d::text]" : " -> $%d::text";
        pg_append(&t, format, pg_add_bytes(l->arguments, marked(l->link, path->token[i])));
    }
    pg_append(&t, ")");
    return t.text ? t.text : "";
}

/* ---- Filters ------------------------------------------------------------------------------------ */

/* Collects the texts of the operands of one kind as an array of arguments. */
static size_t gather(struct list *l, const store_filter *f, int kind, store_text *ret_texts)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        if ((int)f->operands[i].is == kind)
            ret_texts[count++] =
                kind == STORE_STRING ? marked(l->link, f->operands[i].text) : f->operands[i].text;
    }
    return count;
}

static void add_equal_numbers(struct list *l, const char *x, const store_text *texts, size_t count)
{
    if (count == 1)
        pg_append(&l->sql, " OR (" KIND " = 3 AND " NUMBER " = $%d::numeric)", x, x,
                  pg_add_literal(l->arguments, texts[0]));
    else
        pg_append(&l->sql, " OR (" KIND " = 3 AND " NUMBER " = ANY ($%d::text[]::numeric[]))", x, x,
                  pg_add_texts(l->arguments, texts, count));
}

/* The number of a string is 0: said, so that an index goes on to its third column. */
static void add_equal_strings(struct list *l, const char *x, store_text *texts, size_t count)
{
    pg_append(&l->sql, " OR (" KIND " = 4 AND " NUMBER " = 0", x, x);
    bool whole = false;
    for (size_t i = 0; i < count; i++)
        whole |= is_long(texts[i]);
    if (whole)
        pg_append(&l->sql, " AND " WHOLE " = ANY ($%d::text[])", x,
                  pg_add_texts(l->arguments, texts, count));
    for (size_t i = 0; i < count; i++)
        texts[i] = head_of(texts[i]);
    if (count == 1)
        pg_append(&l->sql, " AND " HEAD " = $%d::text)", x, pg_add_bytes(l->arguments, texts[0]));
    else
        pg_append(&l->sql, " AND " HEAD " = ANY ($%d::text[]))", x,
                  pg_add_texts(l->arguments, texts, count));
}

/* EQ, NEQ, IN: whether the value is one of the operands. */
static void add_equal(struct list *l, const char *x, const store_filter *f)
{
    store_text *texts = mem_alloc_array(l->link->memory, f->count, sizeof *texts);
    if (!texts) {
        pg_no_memory(l->link);
        return;
    }
    pg_append(&l->sql, "(FALSE");
    for (int kind = STORE_NULL; kind <= STORE_STRING; kind++) {
        size_t count = gather(l, f, kind, texts);
        if (count == 0)
            continue;
        if (kind == STORE_NUMBER)
            add_equal_numbers(l, x, texts, count);
        else if (kind == STORE_STRING)
            add_equal_strings(l, x, texts, count);
        else
            pg_append(&l->sql, " OR " KIND " = %d", x, kind);
    }
    pg_append(&l->sql, ")");
}

/* LT, LTE, GT, GTE: with the one operand, among values of its kind. */
static void add_compared(struct list *l, const char *x, const store_filter *f)
{
    static const char *const signs[] = {
        [STORE_LT] = "<", [STORE_LTE] = "<=", [STORE_GT] = ">", [STORE_GTE] = ">="};
    const store_scalar *operand = &f->operands[0];
    const char *sign = signs[f->op];
    pg_append(&l->sql, "(" KIND " = %d", x, (int)operand->is);
    if (operand->is == STORE_NUMBER) {
        pg_append(&l->sql, " AND " NUMBER " %s $%d::numeric", x, sign,
                  pg_add_literal(l->arguments, operand->text));
    } else if (operand->is == STORE_STRING) {
        store_text text = marked(l->link, operand->text);
        const char *head_sign = sign;
        if (is_long(text)) {
            pg_append(&l->sql, " AND " WHOLE " %s $%d::text", x, sign,
                      pg_add_bytes(l->arguments, text));
            head_sign = sign[0] == '<' ? "<=" : ">=";
        }
        pg_append(&l->sql, " AND " NUMBER " = 0 AND " HEAD " %s $%d::text", x, x, head_sign,
                  pg_add_bytes(l->arguments, head_of(text)));
    } else if (f->op == STORE_LT || f->op == STORE_GT) {
        pg_append(&l->sql, " AND FALSE"); /* one value only is of that kind */
    }
    pg_append(&l->sql, ")");
}

static void add_filters(struct list *l)
{
    pg_append(&l->sql, " FROM slate_documents WHERE collection = $%d::text",
              pg_add_bytes(l->arguments, l->op->collection));
    for (size_t i = 0; i < l->query->filter_count; i++) {
        const store_filter *f = &l->query->filters[i];
        const char *x = l->filtered[i] = value_at(l, &f->path);
        pg_append(&l->sql, f->op == STORE_NEQ ? " AND NOT " : " AND ");
        if (f->count == 0)
            pg_append(&l->sql, "(FALSE)");
        else if (f->op == STORE_EQ || f->op == STORE_NEQ || f->op == STORE_IN)
            add_equal(l, x, f);
        else
            add_compared(l, x, f);
    }
}

/* ---- Order and paging ------------------------------------------------------------------------------ */

/* Three arguments each, as numbers of their own. */
struct position {
    int kind[STORE_ORDERS_MAX], number[STORE_ORDERS_MAX], head[STORE_ORDERS_MAX], id;
};

static const store_text zero = {"0", 1}, nothing = {"", 0};

/* A position is a client's, and may say what no document has: a number too small for every double, by
 * an exponent that PostgreSQL does not read; or U+0000. It is some position all the same. */
static store_text readable_number(store_text literal)
{
    number n = {.kind = NUMBER_INTEGER};
    bool read = number_scan(literal.at, literal.at + literal.size, &n);
    return read && n.kind == NUMBER_REAL && n.real == 0 ? zero : literal;
}

static store_text readable_text(pg_link *link, store_text text)
{
    return text.size > 0 && memchr(text.at, '\0', text.size) ? marked(link, text) : text;
}

static struct position add_position(struct list *l)
{
    struct position p;
    for (size_t i = 0; i < l->query->order_count; i++) {
        const store_scalar *s = &l->query->after[i];
        p.kind[i] = pg_add_integer(l->arguments, s->is);
        p.number[i] =
            pg_add_literal(l->arguments, s->is == STORE_NUMBER ? readable_number(s->text) : zero);
        p.head[i] = pg_add_bytes(l->arguments,
                                 s->is >= STORE_STRING ? readable_text(l->link, s->text) : nothing);
    }
    p.id = pg_add_bytes(l->arguments, l->query->after_id);
    return p;
}

static void add_row_compared(struct list *l, const struct position *p, size_t i, const char *sign)
{
    const char *x = l->ordered[i];
    pg_append(&l->sql,
              "(" KIND ", " NUMBER ", " HEAD ") %s ($%d::smallint, $%d::numeric, $%d::text)", x, x,
              x, sign, p->kind[i], p->number[i], p->head[i]);
}

/* All ascending: one comparison of rows, which an index takes whole. */
static void add_after_ascending(struct list *l, const struct position *p)
{
    pg_append(&l->sql, " AND (");
    for (size_t i = 0; i < l->query->order_count; i++) {
        const char *x = l->ordered[i];
        pg_append(&l->sql, KIND ", " NUMBER ", " HEAD ", ", x, x, x);
    }
    pg_append(&l->sql, "id) > (");
    for (size_t i = 0; i < l->query->order_count; i++)
        pg_append(&l->sql, "$%d::smallint, $%d::numeric, $%d::text, ", p->kind[i], p->number[i],
                  p->head[i]);
    pg_append(&l->sql, "$%d::text)", p->id);
}

/* Some descending: beyond in the first value that differs, or else in the id. The bound of the first
 * value follows from that, and is what an index takes. */
static void add_after_mixed(struct list *l, const struct position *p)
{
    const store_order *orders = l->query->orders;
    pg_append(&l->sql, " AND ");
    add_row_compared(l, p, 0, orders[0].descending ? "<=" : ">=");
    pg_append(&l->sql, " AND (");
    for (size_t last = 0; last <= l->query->order_count; last++) {
        pg_append(&l->sql, last > 0 ? " OR (" : "(");
        for (size_t i = 0; i < last; i++) {
            add_row_compared(l, p, i, "=");
            pg_append(&l->sql, " AND ");
        }
        if (last < l->query->order_count)
            add_row_compared(l, p, last, orders[last].descending ? "<" : ">");
        else
            pg_append(&l->sql, "id > $%d::text", p->id);
        pg_append(&l->sql, ")");
    }
    pg_append(&l->sql, ")");
}

/* A filter of the value that is sorted by, and a position of the same kind, bound a range of an index
 * together only if the position's number or text is said by itself, too. */
static void add_bound(struct list *l, const struct position *p)
{
    const store_query *q = l->query;
    int kind = q->after[0].is;
    const char *sign = q->orders[0].descending ? "<=" : ">=", *x = l->ordered[0];
    for (size_t i = 0; i < q->filter_count; i++) {
        const store_filter *f = &q->filters[i];
        if (l->filtered[i] != x || f->op < STORE_LT || f->op > STORE_GTE || f->count == 0 ||
            (int)f->operands[0].is != kind)
            continue;
        if (kind == STORE_NUMBER)
            pg_append(&l->sql, " AND " NUMBER " %s $%d::numeric", x, sign, p->number[0]);
        else if (kind == STORE_STRING)
            pg_append(&l->sql, " AND " HEAD " %s $%d::text", x, sign, p->head[0]);
        return;
    }
}

static void add_after(struct list *l)
{
    const store_query *q = l->query;
    struct position p = add_position(l);
    bool mixed = false;
    for (size_t i = 0; i < q->order_count; i++)
        mixed |= q->orders[i].descending;
    if (mixed)
        add_after_mixed(l, &p);
    else
        add_after_ascending(l, &p);
    if (q->order_count > 0)
        add_bound(l, &p);
}

static void add_order(struct list *l)
{
    pg_append(&l->sql, " ORDER BY ");
    for (size_t i = 0; i < l->query->order_count; i++) {
        const char *x = l->ordered[i], *way = l->query->orders[i].descending ? " DESC" : "";
        pg_append(&l->sql, KIND "%s, " NUMBER "%s, " HEAD "%s, ", x, way, x, way, x, way);
    }
    pg_append(&l->sql, "id");
}

/* ---- The statements ---------------------------------------------------------------------------------- */

static struct list begin(pg_link *link, const store_op *op, pg_arguments *a)
{
    return (struct list){
        .link = link, .op = op, .query = op->query, .arguments = a, .sql = {.link = link}};
}

const char *pg_list_sql(pg_link *link, const store_op *op, pg_arguments *a)
{
    struct list l = begin(link, op, a);
    const store_query *q = l.query;
    pg_append(&l.sql, "SELECT id, revision, body");
    for (size_t i = 0; i < q->order_count; i++) {
        const char *x = l.ordered[i] = value_at(&l, &q->orders[i].path);
        pg_append(&l.sql, ", " KIND ", " HEAD, x, x);
    }
    add_filters(&l);
    if (q->has_after)
        add_after(&l);
    add_order(&l);
    /* One more, to know whether there is one. */
    int64_t limit = q->limit < INT64_MAX ? (int64_t)q->limit + 1 : INT64_MAX;
    pg_append(&l.sql, " LIMIT $%d::bigint", pg_add_integer(a, limit));
    return l.sql.text;
}

const char *pg_count_sql(pg_link *link, const store_op *op, pg_arguments *a)
{
    struct list l = begin(link, op, a);
    pg_append(&l.sql, "SELECT count(*)");
    add_filters(&l);
    return l.sql.text;
}
