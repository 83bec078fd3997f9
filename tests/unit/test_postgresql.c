/* What is PostgreSQL's own in the store: the schema, several processes at once, and a server that is
 * slow, locked, gone or dead. Needs an empty database, whose address is in SLATE_TEST_POSTGRESQL
 * (tests/postgresql.py). What both databases do is in test_store.c. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "../../handlers/store/postgresql.h"
#include "../../server/clock.h"

#define TIMEOUT_MS 10000 /* where nothing is to take long */
#define SHORT_MS 400     /* where something is to be too long */
#define THREADS 4

static const char *uri;     /* with a schema of the test's own */
static const char *server;  /* as given */
static PGconn *observer;    /* beside the store */
static void *database;      /* that most tests use */
static void *session;       /* … and its connection */
static mem_context *memory; /* of operations */

/* ---- Tools ------------------------------------------------------------------------------------------ */

static store_text text(const char *s)
{
    return (store_text){s, strlen(s)};
}

static void assert_text(store_text actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.at, expected, actual.size);
}

static unsigned number_in(store_text t)
{
    unsigned number = 0;
    for (size_t i = 0; i < t.size; i++)
        number = number * 10 + (unsigned)(t.at[i] - '0');
    return number;
}

/* Runs SQL beside the store; the first value, or "". */
static const char *observe(const char *sql)
{
    static char value[4000];
    PGresult *result = PQexec(observer, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(observer));
    snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

static void *open_with(const char *address, unsigned timeout_ms, const char *indexes)
{
    char error[STORE_ERROR_MAX] = "";
    store_settings settings = {
        .uri = address, .threads = 2, .timeout_ms = timeout_ms, .indexes = indexes};
    void *opened = store_postgresql.open(&settings, error);
    if (!opened)
        fail_msg("%s", error);
    return opened;
}

static void *session_of(void *opened)
{
    char error[STORE_ERROR_MAX] = "";
    void *s = store_postgresql.session_open(opened, true, error);
    if (!s)
        fail_msg("%s", error);
    return s;
}

static store_op *op_in(mem_context *ctx, store_kind kind, const char *id)
{
    store_op *op = mem_alloc_array(ctx, 1, sizeof *op);
    assert_non_null(op);
    op->kind = kind;
    op->memory = ctx;
    op->collection = text("people");
    op->id = text(id);
    return op;
}

static store_op *op_of(store_kind kind, const char *id)
{
    return op_in(memory, kind, id);
}

static store_document *document(mem_context *ctx, const char *id, const char *json)
{
    store_document *d = mem_alloc_array(ctx, 1, sizeof *d);
    assert_non_null(d);
    *d = (store_document){text(id), text(json)};
    return d;
}

static store_op *put(const char *id, const char *json)
{
    store_op *op = op_of(STORE_PUT, id);
    op->documents = document(memory, id, json);
    op->count = 1;
    return op;
}

static store_op *insert(const char *id, const char *json)
{
    store_op *op = put(id, json);
    op->kind = STORE_INSERT;
    return op;
}

static void write_one(store_op *op)
{
    store_postgresql.write(session, &op, 1);
}

static void put_all(const char *const documents[][2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        store_op *op = put(documents[i][0], documents[i][1]);
        write_one(op);
        assert_int_equal(op->status, STORE_OK);
    }
}

static store_op *get(const char *id)
{
    store_op *op = op_of(STORE_GET, id);
    store_postgresql.read(session, &op, 1);
    return op;
}

/* A list whose rows are ids, in order, with a blank behind each. */
static const char *ids_of(store_query *query)
{
    static char ids[2000];
    store_op *op = op_of(STORE_LIST, "");
    size_t length = 0;
    query->lines = true;
    query->select[0] = (store_path){.token = {text("none")}, .count = 1};
    query->select_count = 1;
    query->limit = query->limit ? query->limit : 100;
    op->query = query;
    store_postgresql.read(session, &op, 1);
    if (op->status != STORE_OK)
        fail_msg("%s", op->detail);
    ids[0] = '\0';
    const char *at = op->bytes.at, *end = at + op->bytes.size;
    for (size_t row = 0; row < op->rows; row++) {
        const char *quote = at + strlen("{\"id\":\"");
        const char *behind = memchr(quote, '"', (size_t)(end - quote));
        length += (size_t)snprintf(ids + length, sizeof ids - length, "%.*s ",
                                   (int)(behind - quote), quote);
        at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
    }
    return ids;
}

static store_path path_of(const char *token)
{
    return (store_path){.token = {text(token)}, .count = 1};
}

static store_query *filtered(const char *token, store_comparison op, int kind, store_text operand)
{
    store_query *query = mem_alloc_array(memory, 1, sizeof *query);
    store_scalar *scalar = mem_alloc_array(memory, 1, sizeof *scalar);
    assert_true(query && scalar);
    scalar->is = kind;
    scalar->text = operand;
    query->filters[0] =
        (store_filter){.path = path_of(token), .op = op, .operands = scalar, .count = 1};
    query->filter_count = 1;
    return query;
}

static int set_up(void **state)
{
    static unsigned tests;
    static char address[500];
    char sql[80];
    (void)state;
    tests++;
    snprintf(sql, sizeof sql, "CREATE SCHEMA t%u", tests);
    observe(sql);
    snprintf(sql, sizeof sql, "SET search_path = t%u", tests);
    observe(sql);
    snprintf(address, sizeof address, "%s?options=-csearch_path%%3Dt%u", server, tests);
    uri = address;
    memory = mem_heap_create(NULL, "test");
    database = open_with(uri, TIMEOUT_MS, NULL);
    session = session_of(database);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_postgresql.session_close(session);
    store_postgresql.close(database);
    mem_delete(memory);
    return 0;
}

/* The store of the test again, with little time. */
static void hurry(void)
{
    store_postgresql.session_close(session);
    store_postgresql.close(database);
    database = open_with(uri, SHORT_MS, NULL);
    session = session_of(database);
}

/* ---- Opening ----------------------------------------------------------------------------------------- */

static void *open_and_close(void *arg)
{
    (void)arg;
    store_postgresql.close(open_with(uri, TIMEOUT_MS, "people:/age,people:/name"));
    return NULL;
}

static void processes_that_start_together_make_one_schema(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    observe("DROP TABLE slate_documents, slate_answers, slate_schema");
    observe("DROP SEQUENCE slate_revision");
    observe("DROP FUNCTION slate_kind, slate_number, slate_head");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_string_equal(observe("SELECT version FROM slate_schema"), "1");
    assert_string_equal(observe("SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'slate_by_%'"
                                " AND schemaname = current_schema"),
                        "2");
    /* The lock goes with the connection, whose end the server sees a moment later. */
    while (strcmp(observe("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0") != 0)
        observe("SELECT pg_sleep(0.01)");
}

/* The sentence with which an address is refused. */
static const char *refusal(const char *address)
{
    static char error[STORE_ERROR_MAX];
    store_settings settings = {.uri = address, .threads = 1, .timeout_ms = TIMEOUT_MS};
    error[0] = '\0';
    assert_null(store_postgresql.open(&settings, error));
    assert_null(strstr(error, "not-a-secret"));
    assert_null(strstr(error, "hidden"));
    assert_int_equal(error[strlen(error) - 1], '.');
    return error;
}

/* The server's address with `from` replaced by `to`. */
static const char *changed(const char *from, const char *to)
{
    static char address[500];
    const char *at = strstr(server, from);
    assert_non_null(at);
    snprintf(address, sizeof address, "%.*s%s%s", (int)(at - server), server, to,
             at + strlen(from));
    return address;
}

static void what_cannot_be_opened_is_said_without_the_password(void **state)
{
    (void)state;
    assert_non_null(strstr(refusal(changed(":not-a-secret@", ":hidden@")), "authentication"));
    assert_non_null(strstr(refusal(changed("/slate", "/elsewhere")), "elsewhere"));
    assert_non_null(strstr(refusal("postgresql://a:hidden@127.0.0.1:1/x"), "refused"));
    assert_non_null(strstr(refusal("postgresql://a:hidden%zz@127.0.0.1/x"), "address"));
    assert_non_null(strstr(refusal("postgresql:hidden"), "address"));
    assert_non_null(strstr(refusal("postgres://a:hidden@127.0.0.1:1/x"), "refused"));
    observe("UPDATE slate_schema SET version = 99");
    assert_non_null(strstr(refusal(uri), "newer"));
}

static void an_index_that_was_broken_off_is_made_again(void **state)
{
    (void)state;
    open_and_close(NULL);
    observe("UPDATE pg_index SET indisvalid = false WHERE indexrelid IN (SELECT oid FROM pg_class"
            " WHERE relname LIKE 'slate_by_%' AND relnamespace = current_schema::regnamespace)");
    open_and_close(NULL);
    assert_string_equal(observe("SELECT count(*) FROM pg_index JOIN pg_class ON indexrelid ="
                                " pg_class.oid WHERE relname LIKE 'slate_by_%' AND indisvalid"
                                " AND relnamespace = current_schema::regnamespace"),
                        "2");
}

/* Opens the store, which has to fail, with SIGTERM blocked as the program has it. */
struct start {
    pthread_t thread;
    unsigned timeout_ms;
    const char *indexes;
    bool opened;
    char error[STORE_ERROR_MAX];
};

static void *start_anew(void *arg)
{
    struct start *s = arg;
    store_settings settings = {
        .uri = uri, .threads = 1, .timeout_ms = s->timeout_ms, .indexes = s->indexes};
    s->opened = store_postgresql.open(&settings, s->error);
    return NULL;
}

static void begin_start(struct start *s, sigset_t *ret_term)
{
    sigemptyset(ret_term);
    sigaddset(ret_term, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, ret_term, NULL), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, start_anew, s), 0);
}

static void end_start_by_signal(struct start *s, const sigset_t *term)
{
    int signal;
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    pthread_join(s->thread, NULL);
    assert_int_equal(sigwait(term, &signal), 0);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, term, NULL), 0);
    assert_false(s->opened);
    assert_non_null(strstr(s->error, "signal"));
}

#define LOCK "495857235045" /* of all that prepare a database */

static void another_process_is_not_waited_for_without_end(void **state)
{
    struct start s = {.timeout_ms = SHORT_MS / 4};
    (void)state;
    observe("SELECT pg_advisory_lock(" LOCK ")");
    start_anew(&s);
    assert_false(s.opened);
    assert_non_null(strstr(s.error, "another process"));
    observe("SELECT pg_advisory_unlock(" LOCK ")");
}

static void a_signal_ends_the_wait_for_another_process(void **state)
{
    struct start s = {.timeout_ms = 100 * TIMEOUT_MS};
    sigset_t term;
    (void)state;
    observe("SELECT pg_advisory_lock(" LOCK ")");
    begin_start(&s, &term);
    end_start_by_signal(&s, &term);
    observe("SELECT pg_advisory_unlock(" LOCK ")");
}

/* Which waits for a transaction of the observer's. */
static void a_signal_ends_the_making_of_an_index(void **state)
{
    static const char waiting[] =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted";
    struct start s = {.timeout_ms = TIMEOUT_MS, .indexes = "people:/age"};
    sigset_t term;
    (void)state;
    observe("BEGIN");
    observe("INSERT INTO slate_documents (collection, id, revision, made, modified, body)"
            " VALUES ('people', 'a', 1, 1, 0, '1')");
    begin_start(&s, &term);
    while (strcmp(observe(waiting), "1") != 0)
        observe("SELECT pg_sleep(0.01)");
    end_start_by_signal(&s, &term);
    while (strcmp(observe(waiting), "0") != 0) /* the server gives it up, too */
        observe("SELECT pg_sleep(0.01)");
    observe("COMMIT");
    open_and_close(NULL);
    assert_string_equal(observe("SELECT count(*) FROM pg_index JOIN pg_class ON indexrelid ="
                                " pg_class.oid WHERE relname LIKE 'slate_by_%' AND indisvalid"
                                " AND relnamespace = current_schema::regnamespace"),
                        "2");
}

/* ---- Documents ------------------------------------------------------------------------------------------ */

static void documents_come_back_as_they_were_given(void **state)
{
    static const char *const documents[][2] = {
        {"spelling", "{ \"b\":1e2, \"a\" : 1.10,\"big\":9007199254740993, \"real\":1e300}"},
        {"nul", "{\"a\":\"x\\u0000y\\u0001\\\\u0000\",\"\\u0001\":[\"\\u0000\\u0000\"]}"},
        {"scalar", "\"\\u00e9\\ud83d\\ude00\""},
        {"empty", "{\"\":{}}"},
    };
    (void)state;
    put_all(documents, 4);
    for (int i = 0; i < 4; i++) {
        store_op *op = get(documents[i][0]);
        assert_int_equal(op->status, STORE_OK);
        assert_text(op->bytes, documents[i][1]);
    }
}

static store_text bytes(const char *at, size_t size)
{
    return (store_text){at, size};
}

static void strings_with_nul_are_compared_and_sorted_exactly(void **state)
{
    static const char *const documents[][2] = {
        {"e", "{\"s\":\"a\\u0002\"}"},        {"b", "{\"s\":\"a\\u0000\"}"},
        {"d", "{\"s\":\"a\\u0001\"}"},        {"a", "{\"s\":\"a\"}"},
        {"c", "{\"s\":\"a\\u0000\\u0001\"}"}, {"f", "{\"s\":\"a\\\\u0000\"}"},
    };
    (void)state;
    put_all(documents, 6);
    store_query by_s = {.orders = {{.path = path_of("s")}}, .order_count = 1};
    assert_string_equal(ids_of(&by_s), "a b c d e f ");
    assert_string_equal(ids_of(filtered("s", STORE_EQ, STORE_STRING, bytes("a\0", 2))), "b ");
    assert_string_equal(ids_of(filtered("s", STORE_EQ, STORE_STRING, bytes("a\1", 2))), "d ");
    assert_string_equal(ids_of(filtered("s", STORE_LTE, STORE_STRING, bytes("a\0\1", 3))),
                        "a b c ");
    assert_string_equal(ids_of(filtered("s", STORE_EQ, STORE_STRING, text("a\\u0000"))), "f ");
}

/* The plan of a list; of an index, its name is in there. */
static const char *plan_of(store_query *query)
{
    static char plan[4000];
    pg_link *link = session;
    pg_arguments a = {.link = link};
    pg_text sql = {.link = link};
    store_op *op = op_of(STORE_LIST, "");
    size_t length = 0;
    query->limit = 50;
    op->query = query;
    pg_begin(link);
    const char *list = pg_list_sql(link, op, &a);
    pg_append(&sql, "EXPLAIN (COSTS OFF) %s", list);
    pg_queue_sql(link, sql.text, &a);
    pg_send(link);
    PGresult *rows = pg_rows(link);
    if (!rows)
        fail_msg("%s", link->error.text);
    plan[0] = '\0';
    for (int i = 0; i < PQntuples(rows); i++)
        length +=
            (size_t)snprintf(plan + length, sizeof plan - length, "%s\n", PQgetvalue(rows, i, 0));
    PQclear(rows);
    assert_true(pg_end(link));
    return plan;
}

static void a_declared_index_is_taken(void **state)
{
    (void)state;
    observe("INSERT INTO slate_documents (collection, id, revision, made, modified, body)"
            " SELECT 'people', 'p' || i, i, i, 0, json_build_object('age', i % 100, 'tags',"
            " json_build_array('t' || i)) FROM generate_series(1, 20000) AS i");
    store_postgresql.close(open_with(uri, TIMEOUT_MS, "people:/age,people:/tags/0"));
    const char *filter = plan_of(filtered("age", STORE_GTE, STORE_NUMBER, text("99")));
    assert_non_null(strstr(filter, "using slate_by_"));
    assert_non_null(strstr(filter, "Index Cond"));

    store_query *paged = filtered("age", STORE_GTE, STORE_NUMBER, text("18"));
    paged->orders[0] = (store_order){.path = path_of("age")};
    paged->order_count = 1;
    paged->has_after = true;
    paged->after[0].is = STORE_NUMBER;
    paged->after[0].text = text("40");
    paged->after_id = text("p40");
    const char *page = plan_of(paged);
    assert_non_null(strstr(page, "using slate_by_"));
    assert_null(strstr(page, "Sort")); /* it is in order already */
    /* It begins where the page does, and not where the filter does. */
    assert_non_null(strstr(page, ">= '40'::numeric"));

    store_query *tag = filtered("tags", STORE_EQ, STORE_STRING, text("t77"));
    tag->filters[0].path.token[1] = text("0");
    tag->filters[0].path.count = 2;
    assert_non_null(strstr(plan_of(tag), "slate_by_"));
    assert_string_equal(ids_of(tag), "p77 ");
}

static void what_is_long_may_be_indexed(void **state)
{
    char json[9000], operand[8001];
    (void)state;
    open_and_close(NULL);
    for (size_t i = 0; i < 8000; i++) /* of bytes that do not compress to nothing */
        operand[i] = (char)('a' + (i * i + i / 7) % 23);
    operand[8000] = '\0';
    snprintf(json, sizeof json, "{\"name\":\"%s\"}", operand);
    const char *const documents[][2] = {{"long", json}};
    put_all(documents, 1);
    assert_string_equal(ids_of(filtered("name", STORE_EQ, STORE_STRING, text(operand))), "long ");
    operand[7999]++;
    assert_string_equal(ids_of(filtered("name", STORE_EQ, STORE_STRING, text(operand))), "");
    assert_string_equal(ids_of(filtered("name", STORE_LT, STORE_STRING, text(operand))), "long ");
    assert_string_equal(ids_of(filtered("name", STORE_GTE, STORE_STRING, text(operand))), "");
}

static void a_long_list_is_fetched_in_pieces(void **state)
{
    (void)state;
    observe("INSERT INTO slate_documents (collection, id, revision, made, modified, body)"
            " SELECT 'people', to_char(i, 'FM00000'), i, i, 0, '{\"n\":' || i || '}'"
            " FROM generate_series(1, 3000) AS i");
    size_t seen = 0, pages = 0;
    store_query query = {.limit = 1000, .byte_limit = 20000};
    for (bool more = true; more; pages++) {
        store_op *op = op_of(STORE_LIST, "");
        op->query = &query;
        store_postgresql.read(session, &op, 1);
        assert_int_equal(op->status, STORE_OK);
        assert_true(op->bytes.size < 20100);
        assert_true(op->bytes.size >= 20000 || !op->more);
        seen += op->rows;
        more = op->more;
        query.has_after = true;
        query.after_id = op->last_id;
    }
    assert_int_equal(seen, 3000);
    assert_in_range(pages, 5, 10);
    assert_text(query.after_id, "03000");
}

/* A cursor is a client's: whatever it says, it says where to begin. */
static void a_position_that_no_document_has_is_no_failure(void **state)
{
    (void)state;
    static const char *const documents[][2] = {
        {"a", "{\"v\":-1}"}, {"b", "{\"v\":1}"}, {"c", "{\"v\":\"x\"}"}};
    put_all(documents, 3);
    store_query query = {.orders[0] = {.path = {.token[0] = text("v"), .count = 1}},
                         .order_count = 1,
                         .has_after = true,
                         .after_id = text("a")};
    query.after[0] = (store_scalar){.is = STORE_NUMBER, .text = text("1e-999999")};
    assert_string_equal(ids_of(&query), "b c ");
    query.after[0] = (store_scalar){.is = STORE_STRING, .text = {"a\0b", 3}};
    assert_string_equal(ids_of(&query), "c ");
}

/* In place of the documents, a view of them: each says in which transaction it was read, and "b" cannot
 * be read. */
static void documents_asked_for_together_are_one_round(void **state)
{
    static const char *const documents[][2] = {{"a", "1"}, {"b", "1"}, {"c", "1"}};
    store_op *ops[] = {op_of(STORE_GET, "a"), op_of(STORE_GET, "none"), op_of(STORE_GET, "c")};
    (void)state;
    put_all(documents, 3);
    observe("ALTER TABLE slate_documents RENAME TO kept");
    observe("CREATE VIEW slate_documents AS SELECT collection, id, revision, modified,"
            " CASE id WHEN 'b' THEN (1 / modified * 0)::text"
            " ELSE pg_current_xact_id()::text END AS body FROM kept");
    observe("UPDATE kept SET modified = 0");
    store_postgresql.read(session, ops, 3);
    assert_int_equal(ops[0]->status, STORE_OK);
    assert_int_equal(ops[1]->status, STORE_NOT_FOUND);
    assert_int_equal(ops[2]->status, STORE_OK);
    assert_int_equal(number_in(ops[0]->bytes), number_in(ops[2]->bytes));
    ops[1]->id = text("b");
    store_postgresql.read(session, ops, 3);
    assert_int_equal(ops[0]->status, STORE_OK);
    assert_int_equal(ops[1]->status, STORE_FAILED);
    assert_int_equal(ops[2]->status, STORE_OK);
}

/* ---- Several writers -------------------------------------------------------------------------------------- */

struct writer {
    pthread_t thread;
    void *session;
    mem_context *memory;
    unsigned number, done, refused, other;
};

static void run_writers(void *(*work)(void *), struct writer writers[THREADS])
{
    for (unsigned i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){.number = i,
                                     .session = session_of(database),
                                     .memory = mem_heap_create(NULL, "writer")};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, work, &writers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(writers[i].thread, NULL);
        store_postgresql.session_close(writers[i].session);
        mem_delete(writers[i].memory);
    }
}

static void tally(struct writer *w, const store_op *op, store_status refusal_status)
{
    w->done += op->status == STORE_OK;
    w->refused += op->status == refusal_status;
    w->other += op->status != STORE_OK && op->status != refusal_status;
}

/* Adds one to the number in a document, if nobody has changed it meanwhile. */
static void *count_up(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < 50; i++) {
        store_op *read = op_in(w->memory, STORE_GET, "counter");
        store_postgresql.read(w->session, &read, 1);
        char *json = mem_printf(w->memory, NULL, "%u", number_in(read->bytes) + 1);
        store_op *op = op_in(w->memory, STORE_PUT, "counter");
        op->documents = document(w->memory, "counter", json);
        op->count = 1;
        op->condition.is = STORE_ONE_OF;
        op->condition.revisions = &read->revision;
        op->condition.count = 1;
        store_postgresql.write(w->session, &op, 1);
        tally(w, op, STORE_PRECONDITION);
    }
    return NULL;
}

static void no_update_is_lost_between_writers(void **state)
{
    static const char *const documents[][2] = {{"counter", "0"}};
    struct writer writers[THREADS];
    unsigned done = 0;
    (void)state;
    put_all(documents, 1);
    run_writers(count_up, writers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(writers[i].other, 0);
        done += writers[i].done;
    }
    assert_true(done > 0);
    assert_int_equal(
        strtoul(mem_copy_string(memory, get("counter")->bytes.at, get("counter")->bytes.size), NULL,
                10),
        done);
}

/* Inserts two documents each time, of ids that all writers take. */
static void *insert_same(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < 50; i++) {
        store_document *pair = mem_alloc_array(w->memory, 2, sizeof *pair);
        char *first = mem_printf(w->memory, NULL, "a%02d", i);
        char *second = mem_printf(w->memory, NULL, "b%02d", i);
        /* Half of them in the other order. */
        pair[w->number % 2] = (store_document){text(first), text("1")};
        pair[1 - w->number % 2] = (store_document){text(second), text("2")};
        store_op *op = op_in(w->memory, STORE_INSERT, "");
        op->documents = pair;
        op->count = 2;
        store_postgresql.write(w->session, &op, 1);
        tally(w, op, STORE_EXISTS);
    }
    return NULL;
}

static void an_id_is_inserted_once(void **state)
{
    struct writer writers[THREADS];
    unsigned done = 0;
    (void)state;
    run_writers(insert_same, writers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(writers[i].other, 0);
        done += writers[i].done;
    }
    assert_int_equal(done, 50);
    assert_string_equal(observe("SELECT count(*) FROM slate_documents"), "100");
}

static void *insert_with_key(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < 50; i++) {
        store_op *op = op_in(w->memory, STORE_INSERT, "");
        char *id = mem_printf(w->memory, NULL, "%u-%d", w->number, i);
        op->documents = document(w->memory, id, "1");
        op->count = 1;
        op->key = text(mem_printf(w->memory, NULL, "key %d", i));
        op->fingerprint = text("same");
        op->remember = text(id);
        store_postgresql.write(w->session, &op, 1);
        tally(w, op, STORE_REPLAYED);
    }
    return NULL;
}

static void a_key_is_used_once(void **state)
{
    struct writer writers[THREADS];
    unsigned done = 0;
    (void)state;
    run_writers(insert_with_key, writers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(writers[i].other, 0);
        done += writers[i].done;
    }
    assert_int_equal(done, 50);
    assert_string_equal(observe("SELECT count(*) FROM slate_documents"), "50");
}

/* Batches over the same few documents, each in an order of its own, and the whole collection. */
static void *write_batches(void *arg)
{
    struct writer *w = arg;
    for (unsigned round = 0; round < 30; round++) {
        store_op *ops[9];
        for (unsigned i = 0; i < 8; i++) {
            unsigned number = (i * (2 * w->number + 1) + round) % 8;
            char *id = mem_printf(w->memory, NULL, "d%u", number);
            ops[i] = op_in(w->memory, i % 4 == 3 ? STORE_DELETE : STORE_PUT, id);
            ops[i]->documents = document(w->memory, id, "{\"x\":1}");
            ops[i]->count = 1;
        }
        ops[8] = op_in(w->memory, STORE_CLEAR, "");
        store_postgresql.write(w->session, ops, round % 5 == 0 ? 9 : 8);
        for (unsigned i = 0; i < 8; i++)
            tally(w, ops[i], STORE_NOT_FOUND);
    }
    return NULL;
}

static void batches_that_cross_are_all_written(void **state)
{
    struct writer writers[THREADS];
    (void)state;
    run_writers(write_batches, writers);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(writers[i].other, 0);
}

/* ---- Trouble ------------------------------------------------------------------------------------------------ */

static void one_that_fails_leaves_the_others_of_its_batch(void **state)
{
    store_op *ops[] = {put("a", "1"), put("b", "not JSON"), insert("c", "2")};
    (void)state;
    store_postgresql.write(session, ops, 3);
    assert_int_equal(ops[0]->status, STORE_OK);
    assert_int_equal(ops[1]->status, STORE_FAILED);
    assert_int_equal(ops[2]->status, STORE_OK);
    assert_int_equal(get("a")->status, STORE_OK);
    assert_int_equal(get("b")->status, STORE_NOT_FOUND);
    assert_int_equal(get("c")->status, STORE_OK);
}

static void a_lock_is_waited_for_within_the_time(void **state)
{
    static const char *const documents[][2] = {{"a", "1"}};
    (void)state;
    put_all(documents, 1);
    hurry();
    observe("BEGIN");
    observe("SELECT 1 FROM slate_documents FOR UPDATE");
    store_op *ops[] = {put("a", "2"), put("b", "3")};
    store_postgresql.write(session, ops, 2);
    assert_int_equal(ops[0]->status, STORE_BUSY);
    assert_non_null(strstr(ops[0]->detail, "lock"));
    assert_int_equal(ops[1]->status, STORE_OK); /* nobody keeps that one */
    observe("ROLLBACK");
    write_one(ops[0]);
    assert_int_equal(ops[0]->status, STORE_OK);
}

static void a_statement_that_takes_too_long_is_ended(void **state)
{
    (void)state;
    hurry();
    /* Slow to write, slow to read: what a condition of the table takes its time for. */
    observe("CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END'");
    observe("CREATE TRIGGER slow BEFORE INSERT ON slate_documents FOR EACH ROW"
            " EXECUTE FUNCTION slowly()");
    store_op *op = put("a", "1");
    write_one(op);
    assert_int_equal(op->status, STORE_BUSY);
    assert_non_null(strstr(op->detail, "time limit"));
    assert_true(store_postgresql.session_alive(session));
    assert_int_equal(get("a")->status, STORE_NOT_FOUND);
}

static int backend_pid(void)
{
    return PQbackendPID(((pg_link *)session)->conn);
}

static void a_connection_that_broke_at_rest_is_opened_again(void **state)
{
    static const char *const documents[][2] = {{"a", "1"}};
    char sql[80];
    (void)state;
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 10000)", backend_pid());
    observe(sql);
    put_all(documents, 1);
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 10000)", backend_pid());
    observe(sql);
    assert_int_equal(get("a")->status, STORE_OK);
}

/* Operations that are written in a thread, since they wait for what the observer does. */
struct waiting {
    pthread_t thread;
    store_op *ops[3];
    size_t count;
};

static void *write_waiting(void *arg)
{
    struct waiting *w = arg;
    store_postgresql.write(session, w->ops, w->count);
    return NULL;
}

/* Returns when they wait for a lock. */
static void begin_waiting(struct waiting *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, write_waiting, w), 0);
    while (strcmp(observe("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
                  "1") != 0)
        observe("SELECT pg_sleep(0.01)");
}

/* A connection is opened first, which waits for a lock that the observer has. */
static void what_is_late_once_a_connection_is_open_is_not_sent(void **state)
{
    struct waiting w = {.ops = {put("a", "1"), put("b", "1"), put("c", "1")}, .count = 3};
    char sql[80];
    (void)state;
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 10000)", backend_pid());
    observe(sql);
    observe("BEGIN");
    observe("LOCK TABLE pg_db_role_setting IN ACCESS EXCLUSIVE MODE");
    w.ops[0]->deadline_ms = w.ops[1]->deadline_ms = clock_ms() + 100;
    assert_int_equal(pthread_create(&w.thread, NULL, write_waiting, &w), 0);
    while (strcmp(observe("SELECT count(*) FROM pg_locks WHERE NOT granted"), "1") != 0 ||
           clock_ms() <= w.ops[0]->deadline_ms)
        observe("SELECT pg_sleep(0.01)");
    observe("COMMIT");
    pthread_join(w.thread, NULL);
    assert_int_equal(w.ops[0]->status, STORE_BUSY);
    assert_int_equal(w.ops[1]->status, STORE_BUSY);
    assert_int_equal(w.ops[2]->status, STORE_OK);
    assert_int_equal(get("a")->status, STORE_NOT_FOUND);
    assert_int_equal(get("b")->status, STORE_NOT_FOUND);
}

static void put_and_lock(void)
{
    static const char *const documents[][2] = {{"a", "1"}};
    put_all(documents, 1);
    observe("BEGIN");
    observe("SELECT 1 FROM slate_documents FOR UPDATE");
}

static void a_condition_is_checked_of_what_others_put_meanwhile(void **state)
{
    struct waiting w = {.ops = {put("a", "2")}, .count = 1};
    (void)state;
    w.ops[0]->condition.is = STORE_PRESENT;
    put_and_lock();
    /* At no moment is there none, as others see it. */
    observe("DELETE FROM slate_documents");
    observe("INSERT INTO slate_documents (collection, id, revision, made, modified, body)"
            " SELECT 'people', 'a', r, r, 0, '3' FROM nextval('slate_revision') AS r");
    begin_waiting(&w);
    observe("COMMIT");
    pthread_join(w.thread, NULL);
    assert_int_equal(w.ops[0]->status, STORE_OK);
    assert_false(w.ops[0]->created);
    assert_text(get("a")->bytes, "2");
}

/* Inserts, while another transaction takes an id and ends. */
static void insert_meanwhile(struct waiting *w, const char *sql)
{
    observe("BEGIN");
    observe(sql);
    begin_waiting(w);
    observe("COMMIT");
    pthread_join(w->thread, NULL);
}

#define TAKE(id)                                                                   \
    "INSERT INTO slate_documents (collection, id, revision, made, modified, body)" \
    " VALUES ('people', '" id "', 0, 0, 0, '1')"

static void an_id_that_is_taken_meanwhile_is_taken(void **state)
{
    struct waiting alone = {.ops = {insert("a", "2")}, .count = 1};
    struct waiting batch = {.ops = {insert("b", "2"), insert("c", "2")}, .count = 2};
    (void)state;
    insert_meanwhile(&alone, TAKE("a"));
    assert_int_equal(alone.ops[0]->status, STORE_EXISTS);
    insert_meanwhile(&batch, TAKE("c"));
    assert_int_equal(batch.ops[0]->status, STORE_OK);
    assert_int_equal(batch.ops[1]->status, STORE_EXISTS);
    assert_text(get("b")->bytes, "2");
    assert_text(get("c")->bytes, "1");
}

static void one_of_two_that_wait_for_each_other_tries_again(void **state)
{
    struct waiting w = {.ops = {op_of(STORE_CLEAR, "")}, .count = 1};
    static const char *const documents[][2] = {{"a", "1"}, {"b", "1"}};
    (void)state;
    put_all(documents, 2);
    observe("SET deadlock_timeout = '60s'"); /* the store finds out, and gives way */
    observe("BEGIN");
    observe("SELECT 1 FROM slate_documents WHERE id = 'b' FOR UPDATE");
    begin_waiting(&w);
    observe("SELECT 1 FROM slate_documents WHERE id = 'a' FOR UPDATE");
    observe("COMMIT");
    pthread_join(w.thread, NULL);
    assert_int_equal(w.ops[0]->status, STORE_OK);
    assert_int_equal(w.ops[0]->affected, 2);
    assert_true(atomic_load(&((pg_database *)database)->repeated) > 0);
}

static void what_the_server_breaks_off_is_not_written(void **state)
{
    char sql[80];
    struct waiting w = {.ops = {put("A", "not JSON"), put("a", "2"), put("b", "2")}, .count = 3};
    (void)state;
    put_and_lock();
    begin_waiting(&w); /* at the second of them, alone after the first has failed them all */
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 10000)", backend_pid());
    observe(sql);
    pthread_join(w.thread, NULL);
    observe("ROLLBACK");
    assert_int_equal(w.ops[0]->status, STORE_FAILED);
    assert_int_equal(w.ops[1]->status, STORE_BUSY);
    assert_int_equal(w.ops[2]->status, STORE_BUSY); /* never sent: not in doubt */
    assert_false(store_postgresql.session_alive(session));
    assert_text(get("a")->bytes, "1");
}

static void a_write_whose_end_nobody_saw_is_unknown(void **state)
{
    struct waiting w = {.ops = {put("a", "2")}, .count = 1};
    (void)state;
    put_and_lock();
    begin_waiting(&w);
    /* The whole server ends and recovers when a process of it is killed. */
    assert_int_equal(kill(backend_pid(), SIGKILL), 0);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.ops[0]->status, STORE_UNKNOWN);
    assert_false(store_postgresql.session_alive(session));
    PQfinish(observer);
    char error[STORE_ERROR_MAX];
    void *again;
    while (!(again = store_postgresql.session_open(database, true, error))) {
        assert_non_null(strstr(error, "cannot be reached"));
        usleep(50000);
    }
    store_postgresql.session_close(session);
    session = again;
    assert_text(get("a")->bytes, "1");
    observer = PQconnectdb(server);
    assert_int_equal(PQstatus(observer), CONNECTION_OK);
}

static void a_server_that_stands_still_is_left(void **state)
{
    store_op *op = put("a", "2"), *read = op_of(STORE_GET, "a");
    (void)state;
    hurry();
    int pid = backend_pid();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    write_one(op);
    assert_int_equal(op->status, STORE_UNKNOWN); /* it may do it when it goes on */
    assert_int_equal(kill(pid, SIGCONT), 0);
    store_postgresql.read(session, &read, 1); /* over a new connection */
    assert_true(read->status == STORE_OK || read->status == STORE_NOT_FOUND);
    pid = backend_pid();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    store_postgresql.read(session, &read, 1);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(read->status, STORE_BUSY);
}

static void old_answers_are_forgotten(void **state)
{
    store_op *first = insert("a", "1"), *again = insert("b", "1"), *later = insert("b", "1");
    store_op *other = insert("c", "1"), *ops[] = {first, again, other, later};
    (void)state;
    for (int i = 0; i < 4; i++) {
        ops[i]->key = text("k");
        ops[i]->fingerprint = text("f");
        ops[i]->remember = text("answer");
    }
    write_one(first);
    write_one(again);
    assert_int_equal(again->status, STORE_REPLAYED);
    assert_int_equal(again->revision, first->revision);
    assert_text(again->bytes, "answer");
    other->fingerprint = text("g");
    write_one(other);
    assert_int_equal(other->status, STORE_KEY_REUSED);
    observe("UPDATE slate_answers SET since = now() - interval '25 hours'");
    ((pg_link *)session)->forgot_ms = clock_ms() - 3600000;
    store_postgresql.tidy(session);
    write_one(later);
    assert_int_equal(later->status, STORE_OK);

    /* More than go in one turn. */
    observe("INSERT INTO slate_answers (key, fingerprint, revision, answer, since)"
            " SELECT i::text, '', 1, '', now() - interval '25 hours'"
            " FROM generate_series(1, 1500) AS i");
    ((pg_link *)session)->forgot_ms = clock_ms() - 3600000;
    store_postgresql.tidy(session);
    store_postgresql.tidy(session);
    assert_string_equal(observe("SELECT count(*) FROM slate_answers"), "1");
}

#define with_store(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(processes_that_start_together_make_one_schema),
        with_store(what_cannot_be_opened_is_said_without_the_password),
        with_store(an_index_that_was_broken_off_is_made_again),
        with_store(another_process_is_not_waited_for_without_end),
        with_store(a_signal_ends_the_wait_for_another_process),
        with_store(a_signal_ends_the_making_of_an_index),
        with_store(documents_come_back_as_they_were_given),
        with_store(strings_with_nul_are_compared_and_sorted_exactly),
        with_store(a_declared_index_is_taken),
        with_store(what_is_long_may_be_indexed),
        with_store(a_long_list_is_fetched_in_pieces),
        with_store(a_position_that_no_document_has_is_no_failure),
        with_store(documents_asked_for_together_are_one_round),
        with_store(no_update_is_lost_between_writers),
        with_store(an_id_is_inserted_once),
        with_store(a_key_is_used_once),
        with_store(batches_that_cross_are_all_written),
        with_store(one_that_fails_leaves_the_others_of_its_batch),
        with_store(a_lock_is_waited_for_within_the_time),
        with_store(a_statement_that_takes_too_long_is_ended),
        with_store(a_connection_that_broke_at_rest_is_opened_again),
        with_store(what_is_late_once_a_connection_is_open_is_not_sent),
        with_store(a_condition_is_checked_of_what_others_put_meanwhile),
        with_store(an_id_that_is_taken_meanwhile_is_taken),
        with_store(one_of_two_that_wait_for_each_other_tries_again),
        with_store(what_the_server_breaks_off_is_not_written),
        with_store(a_server_that_stands_still_is_left),
        with_store(old_answers_are_forgotten),
        with_store(a_write_whose_end_nobody_saw_is_unknown), /* last: the server starts anew */
    };
    server = getenv("SLATE_TEST_POSTGRESQL");
    if (!server) {
        fputs("SLATE_TEST_POSTGRESQL is not set; run this by tests/postgresql.py.\n", stderr);
        return 2;
    }
    observer = PQconnectdb(server);
    int failed = cmocka_run_group_tests_name("postgresql", tests, NULL, NULL);
    PQfinish(observer);
    return failed;
}
