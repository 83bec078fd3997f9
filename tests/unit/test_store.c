/* What every backend of a store must do (handlers/store/store.h), asked of one directly, without
 * threads of the store. Which: "sqlite" (a file in a temporary directory), "memory", or "postgresql",
 * whose address is in SLATE_TEST_POSTGRESQL (tests/postgresql.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "store_model.h"
#include "store_waits.h"

/* ---- The backend --------------------------------------------------------------------------------- */

static const store_backend *backend;
static char uri[300], directory[] = "/tmp/slate-store-XXXXXX";
static void *database, *reader, *writer;

/* Of this run: a database may be there from before. */
#define COLLECTION "plain"
#define INDEXED "indexed"

static const store_settings settings = {
    .uri = uri, .threads = 2, .timeout_ms = 5000, .indexes = INDEXED ":/v," INDEXED ":/deep/0/v"};

static void open_database(void)
{
    char error[STORE_ERROR_MAX] = "";
    database = backend->open(&settings, error);
    if (!database)
        fail_msg("%s", error);
    reader = backend->session_open(database, false, error);
    writer = backend->session_open(database, true, error);
    if (!reader || !writer)
        fail_msg("%s", error);
}

static void close_database(void)
{
    backend->session_close(reader);
    backend->session_close(writer);
    backend->close(database);
}

/* ---- Operations ------------------------------------------------------------------------------------ */

static store_text text(const char *s)
{
    return (store_text){s, strlen(s)};
}

static store_op *make(store_kind kind, const char *collection, const char *id)
{
    store_op *op = store_op_create(op_home(), kind);
    assert_non_null(op);
    op->collection = store_op_copy(op, collection, strlen(collection));
    op->id = store_op_copy(op, id, strlen(id));
    return op;
}

static void add_document(store_op *op, const char *id, store_text json)
{
    store_document *documents = mem_alloc_array(op->memory, op->count + 1, sizeof *documents);
    assert_non_null(documents);
    if (op->count)
        memcpy(documents, op->documents, op->count * sizeof *documents);
    documents[op->count].id = store_op_copy(op, id, strlen(id));
    documents[op->count++].json = store_op_copy(op, json.at, json.size);
    op->documents = documents;
}

static store_op *make_put(const char *collection, const char *id, const char *json)
{
    store_op *op = make(STORE_PUT, collection, id);
    add_document(op, id, text(json));
    return op;
}

static void write_ops(store_op *ops[], size_t count)
{
    backend->write(writer, ops, count);
    assert_true(backend->session_alive(writer));
}

static store_status run(store_op *op)
{
    if (op->kind >= STORE_PUT)
        write_ops(&op, 1);
    else
        backend->read(reader, &op, 1);
    return op->status;
}

static store_status run_once(store_op *op)
{
    store_status status = run(op);
    store_op_release(op);
    return status;
}

static uint64_t put(const char *collection, const char *id, const char *json)
{
    store_op *op = make_put(collection, id, json);
    assert_int_equal(run(op), STORE_OK);
    uint64_t revision = op->revision;
    store_op_release(op);
    return revision;
}

static void clear(const char *collection)
{
    assert_int_equal(run_once(make(STORE_CLEAR, collection, "")), STORE_OK);
}

static void assert_bytes(store_text found, const char *wanted)
{
    assert_int_equal(found.size, strlen(wanted));
    assert_memory_equal(found.at, wanted, found.size);
}

static void assert_stored(const char *collection, const char *id, const char *json)
{
    store_op *op = make(STORE_GET, collection, id);
    assert_int_equal(run(op), STORE_OK);
    assert_bytes(op->bytes, json);
    store_op_release(op);
}

static void assert_absent(const char *collection, const char *id)
{
    assert_int_equal(run_once(make(STORE_GET, collection, id)), STORE_NOT_FOUND);
}

static int begin_test(void **state)
{
    (void)state;
    clear(COLLECTION);
    clear(INDEXED);
    return 0;
}

/* ---- One document ---------------------------------------------------------------------------------- */

static void a_document_comes_back_as_it_was_given(void **state)
{
    static const char json[] = "{\"z\":1,\"a\":[1.0,7.6,-0.0,9223372036854775807],"
                               "\"\\u0000\":\"a\\u0000b\",\"\":null,\"q\\\"\":\"\xc3\xa9\"}";
    (void)state;
    time_t before = time(NULL);
    store_op *op = make_put(COLLECTION, "A.b_c~1-", json);
    assert_int_equal(run(op), STORE_OK);
    assert_true(op->created);
    assert_true(op->revision > 0);
    uint64_t revision = op->revision;
    store_op_release(op);

    op = make(STORE_GET, COLLECTION, "A.b_c~1-");
    assert_int_equal(run(op), STORE_OK);
    assert_bytes(op->bytes, json);
    assert_int_equal(op->revision, revision);
    assert_true(op->modified >= before - 1 && op->modified <= time(NULL) + 1);
    store_op_release(op);
}

static void several_are_read_at_once(void **state)
{
    static const char *const ids[] = {"a", "none", "b", "a"};
    static const char *const found[] = {"1", NULL, "[2]", "1"};
    store_op *ops[4];
    (void)state;
    put(COLLECTION, "a", "1");
    put(COLLECTION, "b", "[2]");
    for (int round = 0; round < 2; round++) { /* nothing is left open */
        for (size_t i = 0; i < 4; i++)
            ops[i] = make(STORE_GET, COLLECTION, ids[i]);
        backend->read(reader, ops, 4);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(ops[i]->status, found[i] ? STORE_OK : STORE_NOT_FOUND);
            if (found[i])
                assert_bytes(ops[i]->bytes, found[i]);
            store_op_release(ops[i]);
        }
        put(COLLECTION, "b", "[2]");
    }
    put(COLLECTION, "a", "3");
    assert_stored(COLLECTION, "a", "3"); /* not as of the moment of the others */
}

/* All that are read at once at the most, of two collections; one of them has no memory for its own. */
static void one_that_fails_among_many_fails_alone(void **state)
{
    enum { STARVED = 5 };
    static char large[600000];
    store_op *ops[STORE_READ_BATCH];
    (void)state;
    memset(large, 'x', sizeof large - 1);
    large[0] = large[sizeof large - 2] = '"';
    put(COLLECTION, "large", large);
    put("other", "b", "[2]");
    for (size_t i = 0; i < STORE_READ_BATCH; i++)
        ops[i] = i % 3 ? make(STORE_GET, COLLECTION, "large") : make(STORE_GET, "other", "b");
    for (size_t i = 0; i < STORE_READ_BATCH; i++)
        ops[i]->budget.limit = i == STARVED ? 3000 : 1200000; /* a large one is there once */
    backend->read(reader, ops, STORE_READ_BATCH);
    for (size_t i = 0; i < STORE_READ_BATCH; i++) {
        if (i == STARVED) {
            assert_int_not_equal(ops[i]->status, STORE_OK);
            assert_int_not_equal(ops[i]->budget.refused, MEM_GRANTED);
        } else {
            assert_int_equal(ops[i]->status, STORE_OK);
            assert_bytes(ops[i]->bytes, i % 3 ? large : "[2]");
        }
        store_op_release(ops[i]);
    }
}

static void any_json_value_is_a_document(void **state)
{
    static const char *const values[] = {"null", "true", "-1", "\"\"", "[]", "{}", "1e300"};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        put(COLLECTION, "x", values[i]);
        assert_stored(COLLECTION, "x", values[i]);
    }
}

static void a_large_document_comes_back(void **state)
{
    enum { SIZE = 3000000 };
    (void)state;
    char *json = malloc(SIZE + 1);
    assert_non_null(json);
    memset(json, 'x', SIZE);
    json[0] = json[SIZE - 1] = '"';
    json[SIZE] = '\0';
    put(COLLECTION, "x", json);
    assert_stored(COLLECTION, "x", json);
    free(json);
}

static void what_is_not_there_is_not_found(void **state)
{
    (void)state;
    put(COLLECTION, "a", "1");
    assert_absent(COLLECTION, "b");
    assert_absent(COLLECTION, "A");
    assert_absent(COLLECTION "x", "a");
    assert_int_equal(run_once(make(STORE_DELETE, COLLECTION, "b")), STORE_NOT_FOUND);
}

static void revisions_grow_and_are_not_given_twice(void **state)
{
    (void)state;
    uint64_t first = put(COLLECTION, "a", "1");
    store_op *op = make_put(COLLECTION, "a", "2");
    assert_int_equal(run(op), STORE_OK);
    assert_false(op->created);
    uint64_t second = op->revision;
    assert_true(second > first);
    store_op_release(op);
    op = make(STORE_DELETE, COLLECTION, "a");
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->revision, second);
    store_op_release(op);
    assert_absent(COLLECTION, "a");
    clear(COLLECTION);
    close_database();
    open_database();
    assert_true(put(COLLECTION, "a", "3") > second || strcmp(uri, "sqlite::memory:") == 0);
}

static void conditions_are_checked(void **state)
{
    enum { IS = 1, NOT = 2 }; /* holds with the document, holds without */
    static const struct {
        int is, holds;
        bool right; /* the revision is among those named */
    } rows[] = {
        {STORE_ANY, IS | NOT, false},     {STORE_PRESENT, IS, false}, {STORE_ABSENT, NOT, false},
        {STORE_ONE_OF, IS, true},         {STORE_ONE_OF, 0, false},   {STORE_NONE_OF, NOT, true},
        {STORE_NONE_OF, IS | NOT, false},
    };
    (void)state;
    for (size_t i = 0; i < 4 * (sizeof rows / sizeof *rows); i++) {
        bool there = i & 1, deletes = i & 2;
        size_t row = i / 4;
        clear(COLLECTION);
        uint64_t revision = there ? put(COLLECTION, "a", "1") : 0,
                 other = put(COLLECTION, "b", "1");
        uint64_t named[] = {other, 0, there && rows[row].right ? revision : other + 1000};
        store_op *op =
            deletes ? make(STORE_DELETE, COLLECTION, "a") : make_put(COLLECTION, "a", "2");
        op->condition.is = rows[row].is;
        op->condition.revisions = named;
        op->condition.count = 3;
        store_status wanted = !(rows[row].holds & (there ? IS : NOT)) ? STORE_PRECONDITION
                              : deletes && !there                     ? STORE_NOT_FOUND
                                                                      : STORE_OK;
        if (run(op) != wanted)
            fail_msg("row %zu, %s, %s: %d, not %d", row, there ? "there" : "not there",
                     deletes ? "delete" : "put", op->status, wanted);
        if (wanted == STORE_PRECONDITION)
            assert_int_equal(op->revision, revision);
        store_op_release(op);
        if (wanted != STORE_OK && there)
            assert_stored(COLLECTION, "a", "1");
        else if (wanted != STORE_OK || deletes)
            assert_absent(COLLECTION, "a");
        else
            assert_stored(COLLECTION, "a", "2");
    }
}

/* ---- Insertions -------------------------------------------------------------------------------------- */

static void an_insertion_makes_all_of_its_documents(void **state)
{
    char id[16];
    (void)state;
    store_op *op = make(STORE_INSERT, COLLECTION, "");
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        add_document(op, id, text(id[3] == '9' ? "[9]" : "{}"));
    }
    assert_int_equal(run(op), STORE_OK);
    uint64_t revision = op->revision;
    store_op_release(op);
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        op = make(STORE_GET, COLLECTION, id);
        assert_int_equal(run(op), STORE_OK);
        assert_int_equal(op->revision, revision);
        assert_bytes(op->bytes, id[3] == '9' ? "[9]" : "{}");
        store_op_release(op);
    }
    assert_true(put(COLLECTION, "next", "1") > revision);
}

static void an_insertion_with_a_taken_id_makes_none(void **state)
{
    (void)state;
    put(COLLECTION, "taken", "\"old\"");
    store_op *op = make(STORE_INSERT, COLLECTION, "");
    add_document(op, "a", text("1"));
    add_document(op, "b", text("1"));
    add_document(op, "taken", text("1"));
    add_document(op, "c", text("1"));
    assert_int_equal(run(op), STORE_EXISTS);
    assert_int_equal(op->index, 2);
    store_op_release(op);
    assert_absent(COLLECTION, "a");
    assert_absent(COLLECTION, "c");
    assert_stored(COLLECTION, "taken", "\"old\"");

    op = make(STORE_INSERT, COLLECTION, "");
    add_document(op, "a", text("1"));
    add_document(op, "b", text("1"));
    add_document(op, "a", text("1"));
    assert_int_equal(run(op), STORE_EXISTS);
    assert_int_equal(op->index, 2);
    store_op_release(op);
    assert_absent(COLLECTION, "b");

    op = make(STORE_INSERT, COLLECTION, "");
    add_document(op, "taken", text("1"));
    assert_int_equal(run_once(op), STORE_EXISTS);
}

static store_op *make_keyed(const char *key, const char *fingerprint, const char *id)
{
    store_op *op = make(STORE_INSERT, COLLECTION, "");
    add_document(op, id, text("1"));
    op->key = text(key);
    op->fingerprint = text(fingerprint);
    op->remember = (store_text){"answer\0!", 8};
    return op;
}

static void a_key_is_answered_once(void **state)
{
    char key[64], other[80];
    (void)state;
    snprintf(key, sizeof key, "key-%d-%ld", (int)getpid(), (long)time(NULL));
    snprintf(other, sizeof other, "%s-other", key);
    store_op *op = make_keyed(key, "print", "a");
    assert_int_equal(run(op), STORE_OK);
    uint64_t revision = op->revision;
    store_op_release(op);

    op = make_keyed(key, "print", "b");
    assert_int_equal(run(op), STORE_REPLAYED);
    assert_int_equal(op->revision, revision);
    assert_int_equal(op->bytes.size, 8);
    assert_memory_equal(op->bytes.at, "answer\0!", 8);
    store_op_release(op);
    assert_absent(COLLECTION, "b");

    assert_int_equal(run_once(make_keyed(key, "another", "b")), STORE_KEY_REUSED);
    assert_absent(COLLECTION, "b");

    /* What failed is not remembered. */
    assert_int_equal(run_once(make_keyed(other, "print", "a")), STORE_EXISTS);
    assert_int_equal(run_once(make_keyed(other, "print", "b")), STORE_OK);

    /* In one batch too. */
    snprintf(other, sizeof other, "%s-batch", key);
    store_op *ops[] = {make_keyed(other, "print", "c"), make_keyed(other, "print", "d")};
    write_ops(ops, 2);
    assert_true((ops[0]->status == STORE_OK && ops[1]->status == STORE_REPLAYED) ||
                (ops[1]->status == STORE_OK && ops[0]->status == STORE_REPLAYED));
    store_op_release(ops[0]);
    store_op_release(ops[1]);
}

/* ---- Batches and collections ------------------------------------------------------------------------- */

static void operations_of_a_batch_fail_alone(void **state)
{
    (void)state;
    put(COLLECTION, "old", "1");
    store_op *ops[7] = {
        make_put(COLLECTION, "a", "\"a\""),     make_put(COLLECTION, "old", "2"),
        make(STORE_INSERT, COLLECTION, ""),     make(STORE_DELETE, COLLECTION, "nothing"),
        make(STORE_INSERT, COLLECTION, ""),     make_put(COLLECTION, "b", "\"b\""),
        make(STORE_DELETE, COLLECTION, "gone"),
    };
    put(COLLECTION, "gone", "1");
    ops[1]->condition.is = STORE_ABSENT;
    add_document(ops[2], "c", text("1"));
    add_document(ops[2], "old", text("1"));
    add_document(ops[4], "d", text("1"));
    add_document(ops[4], "e", text("1"));
    write_ops(ops, 7);
    static const store_status wanted[7] = {
        STORE_OK, STORE_PRECONDITION, STORE_EXISTS, STORE_NOT_FOUND, STORE_OK, STORE_OK, STORE_OK};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(ops[i]->status, wanted[i]);
        store_op_release(ops[i]);
    }
    assert_stored(COLLECTION, "a", "\"a\"");
    assert_stored(COLLECTION, "b", "\"b\"");
    assert_stored(COLLECTION, "d", "1");
    assert_stored(COLLECTION, "e", "1");
    assert_stored(COLLECTION, "old", "1");
    assert_absent(COLLECTION, "c");
    assert_absent(COLLECTION, "gone");
}

/* Whether one is listed, with its count and bytes. */
static bool find_collection(const char *name, json_int_t *ret_documents, json_int_t *ret_bytes)
{
    store_op *op = make(STORE_COLLECTIONS, "", "");
    bool found = false;
    assert_int_equal(run(op), STORE_OK);
    json_t *list = json_loadb(op->bytes.at, op->bytes.size, 0, NULL), *one;
    assert_true(json_is_array(list));
    size_t i;
    json_array_foreach(list, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), name) != 0)
            continue;
        assert_false(found);
        found = true;
        *ret_documents = json_integer_value(json_object_get(one, "documents"));
        *ret_bytes = json_integer_value(json_object_get(one, "bytes"));
    }
    json_decref(list);
    store_op_release(op);
    return found;
}

static void collections_are_listed_with_counts_and_bytes(void **state)
{
    json_int_t documents, bytes;
    (void)state;
    assert_false(find_collection(COLLECTION, &documents, &bytes));
    put(COLLECTION, "a", "\"\xc3\xa9\"");
    put(COLLECTION, "b", "12345");
    put(INDEXED, "a", "1");
    assert_true(find_collection(COLLECTION, &documents, &bytes));
    assert_int_equal(documents, 2);
    assert_int_equal(bytes, 4 + 5);
    put(COLLECTION, "b", "1");
    assert_int_equal(run_once(make(STORE_DELETE, COLLECTION, "a")), STORE_OK);
    assert_true(find_collection(COLLECTION, &documents, &bytes));
    assert_int_equal(documents, 1);
    assert_int_equal(bytes, 1);

    store_op *op = make(STORE_CLEAR, COLLECTION, "");
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->affected, 1);
    store_op_release(op);
    assert_false(find_collection(COLLECTION, &documents, &bytes));
    assert_true(find_collection(INDEXED, &documents, &bytes));
    assert_int_equal(documents, 1);
    op = make(STORE_CLEAR, COLLECTION, "");
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->affected, 0);
    store_op_release(op);
}

static void a_batch_counts_in_many_collections(void **state)
{
    enum { MANY = 40 };
    store_op *ops[2 * MANY];
    char names[MANY][16];
    json_int_t documents, bytes;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "batch-%d", i);
        clear(names[i]);
        ops[i] = make_put(names[i], "a", "\"1234\"");
        ops[MANY + i] = i % 2 ? make_put(names[i], "b", "12") : make(STORE_DELETE, names[i], "a");
    }
    write_ops(ops, MANY); /* in batches that PostgreSQL takes too */
    write_ops(ops + MANY, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ops[i]->status, STORE_OK);
        assert_int_equal(ops[MANY + i]->status, STORE_OK);
        store_op_release(ops[i]);
        store_op_release(ops[MANY + i]);
        assert_int_equal(find_collection(names[i], &documents, &bytes), i % 2);
        if (i % 2) {
            assert_int_equal(documents, 2);
            assert_int_equal(bytes, 8);
        }
    }
    for (int i = 0; i < MANY; i++)
        clear(names[i]);
}

/* ---- Lists: what they look like ---------------------------------------------------------------------- */

static store_op *make_list(const char *collection, size_t limit)
{
    store_op *op = make(STORE_LIST, collection, "");
    op->query = mem_alloc_array(op->memory, 1, sizeof *op->query);
    assert_non_null(op->query);
    op->query->limit = limit;
    return op;
}

static void set_path(store_path *path, const char *const tokens[], size_t count)
{
    path->count = count;
    for (size_t i = 0; i < count; i++)
        path->token[i] = text(tokens[i]);
}

#define PATH(path, ...)                                  \
    set_path((path), (const char *const[]){__VA_ARGS__}, \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void add_filter(store_op *op, store_filter filter)
{
    op->query->filters[op->query->filter_count++] = filter;
}

static void rows_come_by_id_with_their_revisions(void **state)
{
    char wanted[200];
    (void)state;
    uint64_t b = put(COLLECTION, "b", "[1, 2]"), a = put(COLLECTION, "a", "{\"x\":1}");
    uint64_t capital = put(COLLECTION, "B", "1");
    put(INDEXED, "c", "1");
    store_op *op = make_list(COLLECTION, 10);
    assert_int_equal(run(op), STORE_OK);
    snprintf(wanted, sizeof wanted,
             "{\"id\":\"B\",\"revision\":%ju,\"document\":1},"
             "{\"id\":\"a\",\"revision\":%ju,\"document\":{\"x\":1}},"
             "{\"id\":\"b\",\"revision\":%ju,\"document\":[1, 2]}",
             (uintmax_t)capital, (uintmax_t)a, (uintmax_t)b);
    assert_bytes(op->bytes, wanted);
    assert_int_equal(op->rows, 3);
    assert_false(op->more);
    assert_bytes(op->last_id, "b");
    store_op_release(op);

    op = make_list(COLLECTION, 2);
    op->query->lines = true;
    assert_int_equal(run(op), STORE_OK);
    snprintf(wanted, sizeof wanted,
             "{\"id\":\"B\",\"revision\":%ju,\"document\":1}\n"
             "{\"id\":\"a\",\"revision\":%ju,\"document\":{\"x\":1}}\n",
             (uintmax_t)capital, (uintmax_t)a);
    assert_bytes(op->bytes, wanted);
    assert_true(op->more);
    assert_bytes(op->last_id, "a");
    store_op_release(op);

    op = make_list(COLLECTION, 3); /* exactly as many as there are */
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->rows, 3);
    assert_false(op->more);
    store_op_release(op);
}

static void an_empty_list_has_no_bytes(void **state)
{
    (void)state;
    store_op *op = make_list(COLLECTION, 5);
    op->query->count_all = true;
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->bytes.size, 0);
    assert_int_equal(op->rows, 0);
    assert_int_equal(op->affected, 0);
    assert_false(op->more);
    store_op_release(op);
}

static void a_list_ends_with_the_row_that_reaches_its_bytes(void **state)
{
    char id[8], json[120];
    (void)state;
    memset(json, 'x', sizeof json);
    json[0] = json[sizeof json - 2] = '"';
    json[sizeof json - 1] = '\0';
    for (int i = 0; i < 9; i++) {
        snprintf(id, sizeof id, "%d", i);
        put(COLLECTION, id, json);
    }
    store_op *op = make_list(COLLECTION, 100);
    op->query->byte_limit = 400; /* rows are of about 155 bytes */
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->rows, 3);
    assert_true(op->more);
    assert_bytes(op->last_id, "2");
    store_op_release(op);
    op = make_list(COLLECTION, 100);
    op->query->byte_limit = 1;
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->rows, 1);
    store_op_release(op);
    op = make_list(COLLECTION, 100);
    op->query->byte_limit = 1000000;
    assert_int_equal(run(op), STORE_OK);
    assert_int_equal(op->rows, 9);
    assert_false(op->more);
    store_op_release(op);
}

static void selected_values_are_an_object(void **state)
{
    static const char json[] =
        "{\"a\":{\"b\":[1.50,\"\\u0000\",{\"c\":null}]},\"q\\\"\":\"x\",\"0\":"
        "\"zero\",\"~/\":{\"deep\":[ ]}}";
    (void)state;
    put(COLLECTION, "x", json);
    put(COLLECTION, "y", "[\"first\",7]");
    store_op *op = make_list(COLLECTION, 10);
    op->query->lines = true;
    op->query->select_count = 6;
    PATH(&op->query->select[0], "a", "b", "0");
    PATH(&op->query->select[1], "a", "b", "2");
    PATH(&op->query->select[2], "q\"");
    PATH(&op->query->select[3], "1");
    PATH(&op->query->select[4], "missing", "member");
    PATH(&op->query->select[5], "~/");
    assert_int_equal(run(op), STORE_OK);
    const char *first = strstr(op->bytes.at, "\"document\":") + 11;
    const char *second =
        memmem(first, op->bytes.size - (size_t)(first - op->bytes.at), "\"document\":", 11);
    assert_non_null(second);
    json_t *rows[2] = {json_loads(first, JSON_DISABLE_EOF_CHECK, NULL),
                       json_loads(second + 11, JSON_DISABLE_EOF_CHECK, NULL)};
    json_t *wanted[2] = {
        json_loads(
            "{\"0\":1.5,\"2\":{\"c\":null},\"q\\\"\":\"x\",\"1\":null,\"member\":null,\"~/\":"
            "{\"deep\":[]}}",
            0, NULL),
        json_loads("{\"0\":null,\"2\":null,\"q\\\"\":null,\"1\":7,\"member\":null,\"~/\":null}", 0,
                   NULL)};
    for (int i = 0; i < 2; i++) {
        assert_true(json_equal(rows[i], wanted[i]));
        json_decref(rows[i]);
        json_decref(wanted[i]);
    }
    store_op_release(op);
}

/* ---- Lists: filters against the model ------------------------------------------------------------------- */

/* The documents of the model, stored in both collections. */
static struct model_document model[MODEL_DOCUMENTS_MAX];
static size_t model_count;

static void store_model(size_t count)
{
    const char *const collections[] = {COLLECTION, INDEXED};
    model_count = count;
    for (size_t i = 0; i < count; i++)
        model_make_document(&model[i], i);
    for (size_t c = 0; c < 2; c++) {
        store_op *op = make(STORE_INSERT, collections[c], "");
        store_document *documents = mem_alloc_array(op->memory, count, sizeof *documents);
        assert_non_null(documents);
        for (size_t i = 0; i < count; i++) {
            documents[i].id = text(model[i].id);
            documents[i].json = (store_text){model[i].json, model[i].size};
        }
        op->documents = documents;
        op->count = count;
        assert_int_equal(run_once(op), STORE_OK);
    }
}

static void free_model(void)
{
    for (size_t i = 0; i < model_count; i++)
        model_end_document(&model[i]);
    model_count = 0;
}

/* Takes the id out of the next row of lines; "" after the last. */
static const char *next_id(const char **at, const char *end, char id[MODEL_ID])
{
    static const char before[] = "{\"id\":\"";
    id[0] = '\0';
    if (!*at || *at >= end)
        return id;
    assert_true(end - *at > (ptrdiff_t)sizeof before);
    assert_memory_equal(*at, before, sizeof before - 1);
    *at += sizeof before - 1;
    const char *quote = memchr(*at, '"', (size_t)(end - *at));
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    assert_true(quote && newline && quote - *at < MODEL_ID);
    memcpy(id, *at, (size_t)(quote - *at));
    id[quote - *at] = '\0';
    *at = newline + 1;
    return id;
}

/* Lists with these filters in both collections, and compares the ids with the model's. */
static void check_filters(const store_filter *filters, size_t count)
{
    const char *const collections[] = {COLLECTION, INDEXED};
    for (size_t c = 0; c < 2; c++) {
        store_op *op = make_list(collections[c], MODEL_DOCUMENTS_MAX);
        op->query->lines = op->query->count_all = true;
        for (size_t i = 0; i < count; i++)
            add_filter(op, filters[i]);
        if (run(op) != STORE_OK)
            fail_msg("%s", op->detail);
        const char *at = op->bytes.at, *end = at + op->bytes.size;
        char id[MODEL_ID];
        size_t wanted = 0;
        for (size_t i = 0; i < model_count; i++) { /* their ids are in order */
            bool passes = true;
            for (size_t f = 0; f < count; f++)
                passes &= model_passes(&model[i], &filters[f]);
            if (!passes)
                continue;
            wanted++;
            if (strcmp(next_id(&at, end, id), model[i].id) != 0)
                fail_msg("%s: %s instead of %s (%s), operator %d, kind %d, operand %.*s",
                         collections[c], id, model[i].id, model[i].json, (int)filters[0].op,
                         (int)filters[0].operands[0].is, (int)filters[0].operands[0].text.size,
                         filters[0].operands[0].text.at);
        }
        next_id(&at, end, id);
        if (id[0])
            fail_msg("%s: %s too, operator %d, kind %d, operand %.*s", collections[c], id,
                     (int)filters[0].op, (int)filters[0].operands[0].is,
                     (int)filters[0].operands[0].text.size, filters[0].operands[0].text.at);
        assert_int_equal(op->rows, wanted);
        assert_int_equal(op->affected, wanted);
        store_op_release(op);
    }
}

static void every_operator_agrees_with_the_model_for_every_kind(void **state)
{
    (void)state;
    store_model(MODEL_VALUES * 2);
    for (size_t v = 0; v < MODEL_VALUES; v++) {
        store_scalar operand;
        if (!model_operand(v, &operand))
            continue;
        for (int op = STORE_EQ; op <= STORE_GTE; op++) {
            store_filter filter = {.op = (store_comparison)op, .operands = &operand, .count = 1};
            PATH(&filter.path, "v");
            check_filters(&filter, 1);
        }
    }
    free_model();
}

static void in_takes_any_of_its_operands(void **state)
{
    (void)state;
    store_model(MODEL_VALUES * 2);
    for (int round = 0; round < 60; round++) {
        store_scalar operands[5];
        size_t count = 0;
        for (size_t i = 0; i < 1 + model_random(5); i++)
            count += model_operand(model_random(MODEL_VALUES), &operands[count]);
        if (count == 0)
            continue;
        store_filter filter = {.op = STORE_IN, .operands = operands, .count = count};
        PATH(&filter.path, "v");
        check_filters(&filter, 1);
    }
    free_model();
}

static void several_filters_all_hold(void **state)
{
    (void)state;
    store_model(MODEL_DOCUMENTS_MAX);
    for (int round = 0; round < 60; round++) {
        store_scalar operands[2];
        store_filter filters[2] = {{.count = 1}, {.count = 1}};
        for (size_t i = 0; i < 2; i++) {
            while (
                !model_operand(i == 0 ? model_random(MODEL_VALUES) : model_small(), &operands[i]))
                continue;
            filters[i].op = (store_comparison)model_random(STORE_IN);
            filters[i].operands = &operands[i];
            PATH(&filters[i].path, i == 0 ? "v" : "w");
        }
        check_filters(filters, 2);
    }
    free_model();
}

/* The ids, one behind the other with a space, of what has `operand` at that path. */
static void assert_found(const store_path *path, const store_scalar *operand, const char *wanted)
{
    char found[200] = "";
    store_op *op = make_list(COLLECTION, 100);
    op->query->lines = true;
    add_filter(op, (store_filter){.path = *path, .op = STORE_EQ, .operands = operand, .count = 1});
    assert_int_equal(run(op), STORE_OK);
    const char *at = op->bytes.at, *end = at + op->bytes.size;
    char id[MODEL_ID];
    while (*next_id(&at, end, id))
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s ", id);
    assert_string_equal(found, wanted);
    store_op_release(op);
}

static void paths_lead_through_objects_and_arrays(void **state)
{
    static const struct {
        const char *tokens[3], *wanted;
    } rows[] = {
        {{"0"}, "array object "},
        {{"a", "1", "b"}, "deep deep-object "},
        {{"a.b"}, "dot "},
        {{"a[0]"}, "bracket "},
        {{"q\"q"}, "quote "},
        {{"back\\slash"}, "backslash "},
        {{"it's"}, "apostrophe "},
        {{"$"}, "dollar "},
        {{"\xc3\xa9"}, "accent "},
        {{"tab\t"}, "tab "},
        {{""}, "empty "},
        {{"a/b"}, "slash "},
        {{"~1"}, "tilde "},
        {{"00"}, "zeros "},
        {{"-1"}, "minus "},
        {{"1", "0"}, "nested-array "},
        {{"no", "such", "path"}, ""},
        {{"99999999999999999999"}, ""},
    };
    static const char *const documents[][2] = {
        {"array", "[7]"},
        {"object", "{\"0\":7}"},
        {"deep", "{\"a\":[0,{\"b\":7}]}"},
        {"deep-object", "{\"a\":{\"0\":0,\"1\":{\"b\":7}}}"},
        {"dot", "{\"a.b\":7}"},
        {"not-dot", "{\"a\":{\"b\":7}}"},
        {"bracket", "{\"a[0]\":7}"},
        {"quote", "{\"q\\\"q\":7}"},
        {"backslash", "{\"back\\\\slash\":7}"},
        {"apostrophe", "{\"it's\":7}"},
        {"dollar", "{\"$\":7}"},
        {"accent", "{\"\xc3\xa9\":7}"},
        {"tab", "{\"tab\\t\":7}"},
        {"empty", "{\"\":7}"},
        {"slash", "{\"a/b\":7}"},
        {"tilde", "{\"~1\":7}"},
        {"zeros", "{\"00\":7}"},
        {"minus", "{\"-1\":7}"},
        {"nested-array", "[[8],[7,9],\"]\",\"\\\"\",\"\\\\\"]"},
        {"scalar", "7"},
        {"string", "\"7\""},
    };
    const store_scalar seven = {.is = STORE_NUMBER, .text = text("7")};
    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        put(COLLECTION, documents[i][0], documents[i][1]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        store_path path;
        size_t count = 0;
        while (count < 3 && rows[i].tokens[count])
            count++;
        set_path(&path, rows[i].tokens, count);
        assert_found(&path, &seven, rows[i].wanted);
    }
}

/* ---- Lists: order and paging ------------------------------------------------------------------------------ */

struct paging {
    const char *collection;
    store_order orders[STORE_ORDERS_MAX];
    size_t order_count;
    store_scalar after[STORE_ORDERS_MAX];
    char texts[STORE_ORDERS_MAX][1100], id[MODEL_ID];
    bool has_after;
};

static void keep_position(struct paging *p, const store_op *op)
{
    p->has_after = true;
    assert_true(op->last_id.size < MODEL_ID);
    memcpy(p->id, op->last_id.at, op->last_id.size);
    p->id[op->last_id.size] = '\0';
    for (size_t i = 0; i < p->order_count; i++) {
        assert_true(op->last[i].text.size < sizeof p->texts[i]);
        if (op->last[i].text.size)
            memcpy(p->texts[i], op->last[i].text.at, op->last[i].text.size);
        p->after[i] = op->last[i];
        p->after[i].text.at = p->texts[i];
    }
}

static store_op *next_page(struct paging *p, size_t limit)
{
    store_op *op = make_list(p->collection, limit);
    op->query->lines = true;
    op->query->order_count = p->order_count;
    memcpy(op->query->orders, p->orders, sizeof p->orders);
    op->query->has_after = p->has_after;
    memcpy(op->query->after, p->after, sizeof p->after);
    op->query->after_id = text(p->id);
    if (run(op) != STORE_OK)
        fail_msg("%s", op->detail);
    assert_true(op->rows <= limit);
    if (op->rows > 0)
        keep_position(p, op);
    return op;
}

/* Pages through a collection, in which other documents come and go between two pages. */
static void page_through(const char *collection, const store_order *orders, size_t order_count,
                         bool disturbed)
{
    struct paging p = {.collection = collection, .order_count = order_count};
    const struct model_document *last = NULL;
    size_t seen[MODEL_DOCUMENTS_MAX] = {0}, pages = 0;
    bool more = true;
    memcpy(p.orders, orders, order_count * sizeof *orders);
    while (more) {
        store_op *op = next_page(&p, 1 + model_random(20));
        const char *at = op->bytes.at, *end = at + op->bytes.size;
        char id[MODEL_ID];
        while (*next_id(&at, end, id)) {
            if (strncmp(id, "new", 3) == 0)
                continue;
            const struct model_document *here = model_find(model, model_count, id);
            assert_non_null(here);
            seen[here - model]++;
            if (last && model_compare_rows(last, here, orders, order_count) >= 0)
                fail_msg("%s: %s before %s", collection, last->json, here->json);
            last = here;
        }
        more = op->more;
        assert_true(op->rows > 0 || !more);
        store_op_release(op);
        assert_true(++pages < 10000);
        if (!disturbed)
            continue;
        struct model_document other;
        model_make_document(&other, pages);
        snprintf(id, sizeof id, "new-%u", model_random(50));
        put(collection, id, other.json);
        model_end_document(&other);
        snprintf(id, sizeof id, "new-%u", model_random(50));
        run_once(make(STORE_DELETE, collection, id));
    }
    for (size_t i = 0; i < model_count; i++) {
        if (seen[i] != 1)
            fail_msg("%s: %s came %zu times", collection, model[i].json, seen[i]);
    }
}

static void pages_have_each_row_once_and_in_order(void **state)
{
    static const struct {
        const char *paths[3];
        bool descending[3];
    } rows[] = {
        {{NULL}, {false}},
        {{"v"}, {false}},
        {{"v"}, {true}},
        {{"w", "v"}, {false, false}},
        {{"w", "v"}, {true, false}},
        {{"w", "v"}, {false, true}},
        {{"v", "w"}, {true, true}},
        {{"w", "missing", "v"}, {false, true, false}},
    };
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
        store_order orders[3];
        size_t count = 0;
        for (; count < 3 && rows[i / 2].paths[count]; count++) {
            PATH(&orders[count].path, rows[i / 2].paths[count]);
            orders[count].descending = rows[i / 2].descending[count];
        }
        clear(COLLECTION);
        clear(INDEXED);
        store_model(150);
        page_through(i % 2 ? INDEXED : COLLECTION, orders, count, false);
        page_through(i % 2 ? INDEXED : COLLECTION, orders, count, true);
        free_model();
    }
}

static void a_page_begins_behind_a_row_that_is_gone(void **state)
{
    (void)state;
    put(COLLECTION, "a", "1");
    put(COLLECTION, "b", "1");
    put(COLLECTION, "c", "1");
    struct paging p = {.collection = COLLECTION};
    store_op_release(next_page(&p, 2));
    assert_string_equal(p.id, "b");
    assert_int_equal(run_once(make(STORE_DELETE, COLLECTION, "b")), STORE_OK);
    store_op *op = next_page(&p, 2);
    assert_int_equal(op->rows, 1);
    assert_bytes(op->last_id, "c");
    store_op_release(op);
    op = next_page(&p, 2);
    assert_int_equal(op->rows, 0);
    assert_false(op->more);
    store_op_release(op);
}

static void filters_and_order_go_together(void **state)
{
    const char *const collections[] = {COLLECTION, INDEXED};
    const store_scalar low = {.is = STORE_NUMBER, .text = text("10")};
    (void)state;
    for (int i = 0; i < 40; i++) {
        char id[8], json[40];
        snprintf(id, sizeof id, "%02d", i);
        snprintf(json, sizeof json, "{\"v\":%d,\"w\":%d}", 39 - i, i % 4);
        put(COLLECTION, id, json);
        put(INDEXED, id, json);
    }
    for (size_t c = 0; c < 2; c++) {
        struct paging p = {.collection = collections[c], .order_count = 1};
        PATH(&p.orders[0].path, "v");
        size_t rows = 0;
        for (bool more = true; more;) {
            store_op *op = make_list(p.collection, 7);
            op->query->count_all = op->query->lines = true;
            op->query->order_count = 1;
            op->query->orders[0] = p.orders[0];
            op->query->has_after = p.has_after;
            op->query->after[0] = p.after[0];
            op->query->after_id = text(p.id);
            add_filter(op, (store_filter){.op = STORE_GTE, .operands = &low, .count = 1});
            PATH(&op->query->filters[0].path, "v");
            assert_int_equal(run(op), STORE_OK);
            assert_int_equal(op->affected, 30); /* whatever has been seen already */
            const char *at = op->bytes.at, *end = at + op->bytes.size;
            char id[MODEL_ID];
            while (*next_id(&at, end, id))
                assert_int_equal(atoi(id), 29 - (int)rows++);
            keep_position(&p, op);
            more = op->more;
            store_op_release(op);
        }
        assert_int_equal(rows, 30);
    }
}

/* ---- Through the executor -------------------------------------------------------------------------------- */

enum { CLIENTS = 8, INCREMENTS = 25 };

/* Submits, waits, and returns the status; `op` is the caller's to release. */
static store_status ask(store *s, store_op *op)
{
    slate_request req = REQUEST;
    assert_int_equal(store_submit(s, op, &req, NULL), SLATE_SUSPENDED);
    await_wake(&req, 0);
    return op->status;
}

/* Reads a number, and writes the next if nobody has been faster. */
static bool increment(store *s)
{
    char json[32];
    store_op *op = make(STORE_GET, COLLECTION, "counter");
    assert_int_equal(ask(s, op), STORE_OK);
    assert_true(op->bytes.size < sizeof json);
    memcpy(json, op->bytes.at, op->bytes.size);
    json[op->bytes.size] = '\0';
    uint64_t revision = op->revision;
    store_op_release(op);

    snprintf(json, sizeof json, "%d", atoi(json) + 1);
    op = make_put(COLLECTION, "counter", json);
    op->condition.is = STORE_ONE_OF;
    op->condition.revisions = &revision;
    op->condition.count = 1;
    store_status status = ask(s, op);
    assert_true(status == STORE_OK || status == STORE_PRECONDITION);
    store_op_release(op);
    return status == STORE_OK;
}

static void *be_a_client(void *arg)
{
    store *s = arg;
    for (int done = 0; done < INCREMENTS;) {
        done += increment(s);
        store_op *op = make_list(COLLECTION, 10);
        assert_int_equal(ask(s, op), STORE_OK);
        store_op_release(op);
    }
    return NULL;
}

static void clients_do_not_lose_each_others_writes(void **state)
{
    pthread_t clients[CLIENTS];
    char wanted[16];
    (void)state;
    store *s = store_open(&settings);
    assert_non_null(s);
    store_op *op = make_put(COLLECTION, "counter", "0");
    assert_int_equal(ask(s, op), STORE_OK);
    store_op_release(op);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, be_a_client, s), 0);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    op = make(STORE_GET, COLLECTION, "counter");
    assert_int_equal(ask(s, op), STORE_OK);
    snprintf(wanted, sizeof wanted, "%d", CLIENTS * INCREMENTS);
    assert_bytes(op->bytes, wanted);
    store_op_release(op);
    store_close(s);
}

/* ---- Figures ------------------------------------------------------------------------------------------------ */

static void count_figure(void *arg, const char *name, const char *help, bool counter, double value)
{
    (void)counter;
    assert_true(strlen(name) > 0 && strlen(help) > 0);
    assert_true(value >= 0);
    ++*(int *)arg;
}

static void figures_are_given(void **state)
{
    int count = 0;
    (void)state;
    backend->figures(database, count_figure, &count);
    assert_true(count > 0);
}

static int take_backend(const char *name)
{
    const char *given = getenv("SLATE_TEST_POSTGRESQL");
    backend = &store_sqlite;
    if (strcmp(name, "memory") == 0) {
        snprintf(uri, sizeof uri, "sqlite::memory:");
    } else if (strcmp(name, "sqlite") == 0) {
        if (!mkdtemp(directory))
            return 1;
        snprintf(uri, sizeof uri, "sqlite:%s/test.db", directory);
    } else if (given) {
        backend = &store_postgresql;
        snprintf(uri, sizeof uri, "%s", given);
    } else {
        return 77; /* for meson: skipped */
    }
    return 0;
}

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[400];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/test.db%s", directory, suffixes[i]);
        unlink(path);
    }
    rmdir(directory);
}

#define TEST(name) cmocka_unit_test_setup(name, begin_test)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_document_comes_back_as_it_was_given),
        TEST(several_are_read_at_once),
        TEST(one_that_fails_among_many_fails_alone),
        TEST(any_json_value_is_a_document),
        TEST(a_large_document_comes_back),
        TEST(what_is_not_there_is_not_found),
        TEST(revisions_grow_and_are_not_given_twice),
        TEST(conditions_are_checked),
        TEST(an_insertion_makes_all_of_its_documents),
        TEST(an_insertion_with_a_taken_id_makes_none),
        TEST(a_key_is_answered_once),
        TEST(operations_of_a_batch_fail_alone),
        TEST(collections_are_listed_with_counts_and_bytes),
        TEST(a_batch_counts_in_many_collections),
        TEST(rows_come_by_id_with_their_revisions),
        TEST(an_empty_list_has_no_bytes),
        TEST(a_list_ends_with_the_row_that_reaches_its_bytes),
        TEST(selected_values_are_an_object),
        TEST(every_operator_agrees_with_the_model_for_every_kind),
        TEST(in_takes_any_of_its_operands),
        TEST(several_filters_all_hold),
        TEST(paths_lead_through_objects_and_arrays),
        TEST(pages_have_each_row_once_and_in_order),
        TEST(a_page_begins_behind_a_row_that_is_gone),
        TEST(filters_and_order_go_together),
        TEST(clients_do_not_lose_each_others_writes),
        TEST(figures_are_given),
    };
    int status = take_backend(argc > 1 ? argv[1] : "sqlite");
    if (status != 0)
        return status;
    open_database();
    status = cmocka_run_group_tests_name(uri, tests, NULL, NULL);
    close_database();
    remove_files();
    return status;
}
