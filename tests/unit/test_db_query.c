/* The parameters of a list: what is understood, what is refused and in which words, and cursors. */
#include "json_modes.h"

#include "../../handlers/db/cursor.h"
#include "../../handlers/db/query.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Reads the parameters of a query string whose values are decoded already: "a=eq.1&b=eq.2". */
static bool read_from(const char *collection, const char *text, bool stream, db_query *q,
                      db_fault *fault)
{
    char copy[8192], *save = NULL;
    *fault = (db_fault){.limit = 0};
    assert_true(strlen(text) < sizeof copy);
    memcpy(copy, text, strlen(text) + 1);
    assert_true(db_query_begin(q, &answers, collection));
    for (char *part = strtok_r(copy, "&", &save); part; part = strtok_r(NULL, "&", &save)) {
        char *value = strchr(part, '=');
        if (value)
            *value++ = '\0';
        const char *kept =
            mem_copy_string(&answers, value ? value : "", strlen(value ? value : ""));
        if (!db_query_add(q, part, kept, fault))
            return false;
    }
    return db_query_end(q, stream, fault);
}

static store_query *read_good(const char *text)
{
    static db_query q;
    db_fault fault;
    if (!read_from("people", text, false, &q, &fault))
        fail_msg("%s: %s", text, fault.detail);
    return q.query;
}

static void assert_text(store_text text, const char *expected)
{
    const char *at = text.size > 0 ? text.at : "";
    if (text.size != strlen(expected) || memcmp(at, expected, text.size) != 0)
        fail_msg("\"%.*s\" is not \"%s\"", (int)text.size, at, expected);
}

static void values_are_json_or_strings(void **state)
{
    static const struct {
        const char *value;
        int is;
        const char *text;
    } cases[] = {
        {"eq.18", STORE_NUMBER, "18"},
        {"eq.-1.50e3", STORE_NUMBER, "-1500.0"},
        {"eq.0.1000000000000000055511151231257827", STORE_NUMBER, "0.1"},
        {"eq.\"18\"", STORE_STRING, "18"},
        {"eq.true", STORE_TRUE, ""},
        {"eq.false", STORE_FALSE, ""},
        {"eq.null", STORE_NULL, ""},
        {"eq.\"null\"", STORE_STRING, "null"},
        {"eq.Bonn", STORE_STRING, "Bonn"},
        {"eq.018", STORE_STRING, "018"},
        {"eq.2024-01-01", STORE_STRING, "2024-01-01"},
        {"eq.a.b.c", STORE_STRING, "a.b.c"},
        {"eq. 18", STORE_STRING, " 18"},
        {"eq.\"a\\\"\\u00e4\\n\"", STORE_STRING, "a\"\xc3\xa4\n"},
        {"eq.\"\"", STORE_STRING, ""},
        {"eq.K\xc3\xb6ln", STORE_STRING, "K\xc3\xb6ln"},
        {"eq.[abc", STORE_STRING, "[abc"},
        {"eq.in.(1)", STORE_STRING, "in.(1)"},
        {"eq.-", STORE_STRING, "-"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[100];
        snprintf(text, sizeof text, "x=%s", cases[i].value);
        const store_filter *f = &read_good(text)->filters[0];
        assert_int_equal(f->op, STORE_EQ);
        assert_int_equal(f->count, 1);
        if ((int)f->operands[0].is != cases[i].is)
            fail_msg("%s is of kind %d", cases[i].value, (int)f->operands[0].is);
        assert_text(f->operands[0].text, cases[i].text);
    }
}

static void every_operator_is_known(void **state)
{
    static const char *const names[] = {
        [STORE_EQ] = "eq", [STORE_NEQ] = "neq", [STORE_LT] = "lt", [STORE_LTE] = "lte",
        [STORE_GT] = "gt", [STORE_GTE] = "gte", [STORE_IN] = "in",
    };
    (void)state;
    for (int op = STORE_EQ; op <= STORE_IN; op++) {
        char text[100];
        snprintf(text, sizeof text, "age=%s.%s", names[op], op == STORE_IN ? "(7)" : "7");
        const store_query *q = read_good(text);
        assert_int_equal(q->filter_count, 1);
        assert_int_equal(q->filters[0].op, op);
        assert_text(q->filters[0].path.token[0], "age");
        assert_text(q->filters[0].operands[0].text, "7");
    }
}

static void lists_have_quotes_and_escapes(void **state)
{
    static const char *const texts[] = {"a", "b c", "d,e)", "\"", "(x)", "1"};
    (void)state;
    const store_filter *f =
        &read_good("tag=in.(a,b c,\"d,e)\",\"\\\"\",(x),\"1\",1,true,null)")->filters[0];
    assert_int_equal(f->op, STORE_IN);
    assert_int_equal(f->count, 9);
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_int_equal(f->operands[i].is, STORE_STRING);
        assert_text(f->operands[i].text, texts[i]);
    }
    assert_int_equal(f->operands[6].is, STORE_NUMBER);
    assert_int_equal(f->operands[7].is, STORE_TRUE);
    assert_int_equal(f->operands[8].is, STORE_NULL);
}

static void paths_are_names_or_pointers(void **state)
{
    (void)state;
    const store_query *q =
        read_good("/address/city=eq.1&a/b=eq.2&/a~1b/~0/=eq.3&/limit=eq.4&/=eq.5");
    assert_int_equal(q->filter_count, 5);
    assert_int_equal(q->filters[0].path.count, 2);
    assert_text(q->filters[0].path.token[0], "address");
    assert_text(q->filters[0].path.token[1], "city");
    assert_int_equal(q->filters[1].path.count, 1);
    assert_text(q->filters[1].path.token[0], "a/b");
    assert_int_equal(q->filters[2].path.count, 3);
    assert_text(q->filters[2].path.token[0], "a/b");
    assert_text(q->filters[2].path.token[1], "~");
    assert_text(q->filters[2].path.token[2], "");
    assert_text(q->filters[3].path.token[0], "limit"); /* the member, not the parameter */
    assert_text(q->filters[4].path.token[0], "");
}

static void order_select_and_limit_are_read(void **state)
{
    (void)state;
    const store_query *q = read_good(
        "order=-created,name,-\"a,b\",/-c&select=/name,/tags/0,\"x,y\"&limit=1000&age=gte.1&age=lt.9");
    assert_int_equal(q->order_count, 4);
    assert_text(q->orders[0].path.token[0], "created");
    assert_true(q->orders[0].descending);
    assert_text(q->orders[1].path.token[0], "name");
    assert_false(q->orders[1].descending);
    assert_text(q->orders[2].path.token[0], "a,b");
    assert_true(q->orders[2].descending);
    assert_text(q->orders[3].path.token[0], "-c");
    assert_false(q->orders[3].descending);
    assert_int_equal(q->select_count, 3);
    assert_text(q->select[1].token[1], "0");
    assert_text(q->select[2].token[0], "x,y");
    assert_int_equal(q->limit, 1000);
    assert_int_equal(q->filter_count, 2);
    assert_int_equal(read_good("")->limit, DB_LIMIT);
}

/* Each with words that its sentence must have. */
static void what_is_refused_is_named(void **state)
{
    static const struct {
        const char *query, *parameter, *words;
        size_t limit;
    } cases[] = {
        {"age=foo.18", "\"age\"", "operator", 0},
        {"age=18", "\"age\"", "operator", 0},
        {"age=", "\"age\"", "operator", 0},
        {"age", "\"age\"", "operator", 0},
        {"age=gte", "\"age\"", "operator", 0},
        {"age=EQ.1", "\"age\"", "gte", 0},
        {"age=eq.", "\"age\"", "no value", 0},
        {"age=in.", "\"age\"", "parentheses", 0},
        {"age=in.()", "\"age\"", "empty", 0},
        {"age=in.(", "\"age\"", "parentheses", 0},
        {"age=in.(1,,2)", "\"age\"", "empty", 0},
        {"age=in.(1,)", "\"age\"", "empty", 0},
        {"age=in.(,1)", "\"age\"", "empty", 0},
        {"age=in.1,2", "\"age\"", "parentheses", 0},
        {"age=in.(1,2", "\"age\"", "parentheses", 0},
        {"age=in.(\"a)", "\"age\"", "does not end", 0},
        {"age=in.(\"a\\\")", "\"age\"", "does not end", 0},
        {"age=in.(\"a\"b)", "\"age\"", "follows", 0},
        {"age=in.([1])", "\"age\"", "scalars", 0},
        {"age=eq.\"18", "\"age\"", "value", 0},
        {"age=eq.\"\\x\"", "\"age\"", "value", 0},
        {"age=eq.[1,2]", "\"age\"", "scalars", 0},
        {"age=eq.{}", "\"age\"", "scalars", 0},
        {"age=eq.{\"a\":1,\"a\":2}", "\"age\"", "value", 0},
        {"age=eq.1e999", "\"age\"", "value", 0},
        {"age=eq.99999999999999999999", "\"age\"", "value", 0},
        {"age=lt.true", "\"age\"", "numbers and strings", 0},
        {"age=gte.null", "\"age\"", "numbers and strings", 0},
        {"=eq.1", "\"\"", "empty", 0},
        {"/a~2=eq.1", "\"/a~2\"", "pointer", 0},
        {"/a~=eq.1", "\"/a~\"", "pointer", 0},
        {"/1/2/3/4/5/6/7/8/9=eq.1", "steps", "limit", STORE_PATH_MAX},
        {"age=eq.\xff", "\"age\"", "UTF-8", 0},
        {"\xc0\x80=eq.1", "name", "UTF-8", 0},
        {"limit=abc", "\"limit\"", "number", 0},
        {"limit=", "\"limit\"", "number", 0},
        {"limit=0", "\"limit\"", "from 1", 0},
        {"limit=-1", "\"limit\"", "number", 0},
        {"limit=1.5", "\"limit\"", "number", 0},
        {"limit=1 ", "\"limit\"", "number", 0},
        {"limit=1001", "\"limit\"", "1000", DB_LIMIT_MAX},
        {"limit=18446744073709551617", "\"limit\"", "1000", DB_LIMIT_MAX},
        {"limit=1&limit=2", "\"limit\"", "twice", 0},
        {"order=", "\"order\"", "empty", 0},
        {"order=a,", "\"order\"", "empty", 0},
        {"order=-", "\"order\"", "empty", 0},
        {"order=a,-a", "\"order\"", "twice", 0},
        {"order=a,/a", "\"order\"", "twice", 0},
        {"order=a,b,c,d,e", "\"order\"", "limit", STORE_ORDERS_MAX},
        {"order=a&order=b", "\"order\"", "twice", 0},
        {"order=/a~", "\"order\"", "pointer", 0},
        {"order=\"a", "\"order\"", "does not end", 0},
        {"order=\"\"", "\"order\"", "empty", 0},
        {"select=", "\"select\"", "empty", 0},
        {"select=/a/name,/b/name", "\"select\"", "\"name\"", 0},
        {"select=a,a", "\"select\"", "\"a\"", 0},
        {"select=a&select=b", "\"select\"", "twice", 0},
        {"after=a&after=b", "\"after\"", "twice", 0},
        {"after=", "\"after\"", "cursor", 0},
        {"pretty=", "\"pretty\"", "order, select, limit and after", 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        db_query q;
        db_fault fault;
        if (read_from("people", cases[i].query, false, &q, &fault))
            fail_msg("%s was taken", cases[i].query);
        if (!strstr(fault.detail, cases[i].parameter) || !strstr(fault.detail, cases[i].words))
            fail_msg("%s: %s", cases[i].query, fault.detail);
        assert_int_equal(fault.limit, cases[i].limit);
        assert_false(fault.memory);
    }
}

/* `count` times "&name=value", behind `text`. */
static const char *many(char *text, size_t room, const char *piece, size_t count)
{
    struct text t = {text, text + room};
    text_add(&t, "%s", "");
    text_repeat(&t, piece, count);
    return text;
}

static void there_is_a_limit_to_everything(void **state)
{
    char text[8192], list[8192];
    db_query q;
    db_fault fault;
    (void)state;
    assert_true(
        read_from("c", many(text, sizeof text, "&a=eq.1", STORE_FILTERS_MAX), false, &q, &fault));
    assert_false(read_from("c", many(text, sizeof text, "&a=eq.1", STORE_FILTERS_MAX + 1), false,
                           &q, &fault));
    assert_int_equal(fault.limit, STORE_FILTERS_MAX);

    struct text t = text_in(list);
    text_add(&t, "a=in.(1");
    text_repeat(&t, ",1", 199);
    text_add(&t, ")");
    assert_true(read_from("c", list, false, &q, &fault));
    t.at--;
    text_add(&t, ",1)");
    assert_false(read_from("c", list, false, &q, &fault));
    assert_int_equal(fault.limit, 200);

    t = text_in(list);
    text_add(&t, "select=0");
    for (int i = 1; i < STORE_SELECT_MAX; i++)
        text_add(&t, ",%d", i);
    assert_true(read_from("c", list, false, &q, &fault));
    text_add(&t, ",x");
    assert_false(read_from("c", list, false, &q, &fault));
    assert_int_equal(fault.limit, STORE_SELECT_MAX);

    t = text_in(list);
    text_add(&t, "a=eq.");
    text_repeat(&t, "x", DB_QUERY_MAX - 6);
    assert_true(read_from("c", list, false, &q, &fault));
    text_add(&t, "x");
    assert_false(read_from("c", list, false, &q, &fault));
    assert_int_equal(fault.limit, DB_QUERY_MAX);
    /* As long as it will be in a link, where each of these is three. */
    t = text_in(list);
    text_add(&t, "a=eq.");
    text_repeat(&t, "\x01", (DB_QUERY_MAX - 6) / 3 + 1);
    assert_false(read_from("c", list, false, &q, &fault));
}

static void a_stream_may_be_of_any_length(void **state)
{
    db_query q;
    db_fault fault;
    (void)state;
    assert_true(read_from("c", "", true, &q, &fault));
    assert_int_equal(q.query->limit, SIZE_MAX);
    assert_true(read_from("c", "limit=1000000", true, &q, &fault));
    assert_int_equal(q.query->limit, 1000000);
    assert_false(read_from("c", "limit=0", true, &q, &fault));
    assert_false(read_from("c", "limit=99999999999999999999", true, &q, &fault));
}

static void links_are_written_without_doubt(void **state)
{
    static const char *const cases[][2] = {
        {"/a,b(c)~-_.!$'*;:@?", "/a,b(c)~-_.!$'*;:@?"},
        {"a&b=c+d e%\"<>\x7f", "a%26b%3Dc%2Bd%20e%25%22%3C%3E%7F"},
        {"\xc3\xb6", "%C3%B6"},
        {"", ""},
    };
    char text[200];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t size = (size_t)(db_query_encode(text, cases[i][0]) - text);
        assert_text((store_text){text, size}, cases[i][1]);
        assert_int_equal(db_query_encoded_size(cases[i][0]), size);
    }
}

/* ---- Cursors ---------------------------------------------------------------------------------- */

#define ORDERED "age=gte.1&order=a,-b,c,d"

static char *cursor_of(const db_query *q, const store_scalar *values, size_t count)
{
    char *text = NULL;
    assert_int_equal(
        db_cursor_write(&answers, q->print, values, count, (store_text){"id-7", 4}, 150, &text),
        DB_CURSOR_WRITTEN);
    assert_true(strlen(text) <= DB_CURSOR_MAX);
    return text;
}

static const store_scalar values[] = {
    {STORE_NULL, {"", 0}},
    {STORE_NUMBER, {"-1.5e3", 6}},
    {STORE_STRING, {"K\xc3\xb6ln\0x", 7}},
    {STORE_COMPOSITE, {"[1,{\"a", 6}}, /* may have been cut */
};

static void a_cursor_says_where_to_go_on(void **state)
{
    db_query first, next;
    db_fault fault;
    char text[2048];
    (void)state;
    assert_true(read_from("people", ORDERED, false, &first, &fault));
    const char *cursor = cursor_of(&first, values, COUNT(values));
    /* Another limit and another selection do not matter. */
    snprintf(text, sizeof text, "after=%s&limit=7&select=x&" ORDERED, cursor);
    if (!read_from("people", text, false, &next, &fault))
        fail_msg("%s", fault.detail);
    assert_int_equal(next.position, 150);
    assert_true(next.query->has_after);
    assert_text(next.query->after_id, "id-7");
    for (size_t i = 0; i < COUNT(values); i++) {
        assert_int_equal(next.query->after[i].is, values[i].is);
        assert_int_equal(next.query->after[i].text.size, values[i].text.size);
        assert_memory_equal(next.query->after[i].text.at, values[i].text.at, values[i].text.size);
    }
}

static void a_cursor_of_another_query_is_refused(void **state)
{
    static const char *const others[][2] = {
        {"people", "age=gte.2&order=a,-b,c,d"},
        {"people", "age=gte.1&order=a,b,c,d"},
        {"people", "order=a,-b,c,d"},
        {"peopl", ORDERED},
        {"people", "age=gte.1"},
        {"people", "age=gte.1&x=eq.1&order=a,-b,c,d"},
    };
    db_query q;
    db_fault fault;
    char text[2048];
    (void)state;
    assert_true(read_from("people", ORDERED, false, &q, &fault));
    const char *cursor = cursor_of(&q, values, COUNT(values));
    for (size_t i = 0; i < COUNT(others); i++) {
        snprintf(text, sizeof text, "after=%s&%s", cursor, others[i][1]);
        assert_false(read_from(others[i][0], text, false, &q, &fault));
        assert_non_null(strstr(fault.detail, "\"after\""));
    }
}

static void no_change_of_a_cursor_does_harm(void **state)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+=";
    db_query q, again;
    db_fault fault;
    char text[2048];
    (void)state;
    assert_true(read_from("people", ORDERED, false, &q, &fault));
    char *cursor = cursor_of(&q, values, COUNT(values));
    size_t length = strlen(cursor);
    for (size_t i = 0; i < length; i++) {
        char was = cursor[i];
        for (const char *c = alphabet; *c; c++) {
            cursor[i] = *c;
            snprintf(text, sizeof text, "after=%s&" ORDERED, cursor);
            if (read_from("people", text, false, &again, &fault) && *c != was)
                assert_true(i >= 12); /* version and hash let nothing pass but themselves */
        }
        cursor[i] = was;
    }
    for (size_t cut = 0; cut < length; cut++) {
        snprintf(text, sizeof text, "after=%.*s&" ORDERED, (int)cut, cursor);
        if (read_from("people", text, false, &again, &fault))
            assert_true(again.query->after_id.size < 4); /* only the id became shorter */
    }
}

static void a_cursor_holds_only_what_a_list_could_have_written(void **state)
{
    static const store_scalar bad[] = {
        {STORE_NUMBER, {"12x", 3}},     {STORE_NUMBER, {"", 0}},
        {STORE_NUMBER, {"\"1\"", 3}},   {STORE_NUMBER, {"1e999", 5}},
        {STORE_TRUE, {"x", 1}},         {STORE_STRING, {"\xff", 1}},
        {STORE_COMPOSITE, {"\xc3", 1}}, {STORE_COMPOSITE + 1, {"", 0}},
    };
    static const char *const bad_ids[] = {"", "a b", "..", "a/b"};
    db_query q, again;
    db_fault fault;
    char text[2048], *cursor = NULL;
    (void)state;
    assert_true(read_from("c", "order=a", false, &q, &fault));
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(text, sizeof text, "order=a&after=%s", cursor_of(&q, &bad[i], 1));
        if (read_from("c", text, false, &again, &fault))
            fail_msg("value %zu was taken", i);
    }
    for (size_t i = 0; i < COUNT(bad_ids); i++) {
        assert_int_equal(db_cursor_write(&answers, q.print, values, 1,
                                         (store_text){bad_ids[i], strlen(bad_ids[i])}, 0, &cursor),
                         DB_CURSOR_WRITTEN);
        snprintf(text, sizeof text, "order=a&after=%s", cursor);
        if (read_from("c", text, false, &again, &fault))
            fail_msg("\"%s\" was taken", bad_ids[i]);
    }
}

static void values_that_do_not_fit_are_told(void **state)
{
    char big[1000], *text = NULL;
    unsigned char print[DB_CURSOR_PRINT] = {0};
    store_scalar value = {STORE_STRING, {big, sizeof big}};
    (void)state;
    memset(big, 'x', sizeof big);
    assert_int_equal(db_cursor_write(&answers, print, &value, 1, (store_text){"i", 1}, 0, &text),
                     DB_CURSOR_TOO_LONG);
    value.text.size = DB_CURSOR_MAX / 4 * 3 - 1 - 8 - 8 - 3 - 1;
    assert_int_equal(db_cursor_write(&answers, print, &value, 1, (store_text){"i", 1}, 0, &text),
                     DB_CURSOR_WRITTEN);
    assert_int_equal(strlen(text), DB_CURSOR_MAX);
    assert_int_equal(db_cursor_write(&answers, print, &value, 1, (store_text){"ii", 2}, 0, &text),
                     DB_CURSOR_TOO_LONG);
}

/* ---- Copies ----------------------------------------------------------------------------------- */

static void a_copy_shares_nothing(void **state)
{
    static const store_scalar last[] = {{STORE_STRING, {"zz", 2}}, {STORE_NUMBER, {"2", 1}}};
    db_query q;
    db_fault fault;
    mem_context *own = mem_child_create(&scratch, "query");
    store_op done = {.last_id = {"id-9", 4}};
    (void)state;
    memcpy(done.last, last, sizeof last);
    assert_true(db_query_begin(&q, own, "c"));
    assert_true(db_query_add(&q, "/a/b", "in.(x,2,\"y\")", &fault));
    assert_true(db_query_add(&q, "order", "-name,/n/m", &fault));
    assert_true(db_query_add(&q, "select", "p,/q/r", &fault));
    assert_true(db_query_end(&q, false, &fault));
    store_query *copy = db_query_copy(&answers, q.query);
    assert_non_null(copy);
    mem_delete(own); /* a checker sees who still looks there */
    assert_int_equal(copy->filter_count, 1);
    assert_text(copy->filters[0].path.token[1], "b");
    assert_text(copy->filters[0].operands[0].text, "x");
    assert_text(copy->filters[0].operands[2].text, "y");
    assert_text(copy->orders[0].path.token[0], "name");
    assert_true(copy->orders[0].descending);
    assert_text(copy->orders[1].path.token[1], "m");
    assert_text(copy->select[1].token[1], "r");
    assert_false(copy->has_after);

    assert_true(db_query_continue(&answers, copy, &done));
    assert_true(copy->has_after);
    assert_text(copy->after[0].text, "zz");
    assert_int_equal(copy->after[1].is, STORE_NUMBER);
    assert_text(copy->after_id, "id-9");
    copy = db_query_copy(&answers, copy);
    assert_text(copy->after[1].text, "2");
    assert_text(copy->after_id, "id-9");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_contexts(values_are_json_or_strings),
        in_contexts(every_operator_is_known),
        in_contexts(lists_have_quotes_and_escapes),
        in_contexts(paths_are_names_or_pointers),
        in_contexts(order_select_and_limit_are_read),
        in_contexts(what_is_refused_is_named),
        in_contexts(there_is_a_limit_to_everything),
        in_contexts(a_stream_may_be_of_any_length),
        in_contexts(links_are_written_without_doubt),
        in_contexts(a_cursor_says_where_to_go_on),
        in_contexts(a_cursor_of_another_query_is_refused),
        in_contexts(no_change_of_a_cursor_does_harm),
        in_contexts(a_cursor_holds_only_what_a_list_could_have_written),
        in_contexts(values_that_do_not_fit_are_told),
        in_contexts(a_copy_shares_nothing),
    };
    if (!choose_mode(argc, argv))
        return 2;
    return cmocka_run_group_tests_name("db_query", tests, NULL, NULL);
}
