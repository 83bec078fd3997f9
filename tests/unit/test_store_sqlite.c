/* What is SQLite's own in the store: files that are refused or migrated, disks that fail, locks of
 * other programs, and which index a list takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../handlers/store/sqlite.h"
#include "../../server/clock.h"
#include "faulty_vfs.h"
#include "store_waits.h"

static char directory[] = "/tmp/slate-sqlite-XXXXXX", path[64], uri[80];
static void *database;
static sqlite_session *reader, *writer;

/* ---- Opening ----------------------------------------------------------------------------------------- */

static bool open_with(const char *indexes, char error[STORE_ERROR_MAX])
{
    const store_settings settings = {
        .uri = uri, .threads = 1, .timeout_ms = 5000, .indexes = indexes};
    database = store_sqlite.open(&settings, error);
    if (!database)
        return false;
    reader = store_sqlite.session_open(database, false, error);
    writer = store_sqlite.session_open(database, true, error);
    assert_non_null(reader);
    assert_non_null(writer);
    return true;
}

static void open_database(const char *indexes)
{
    char error[STORE_ERROR_MAX] = "";
    if (!open_with(indexes, error))
        fail_msg("%s", error);
}

static void assert_refused(const char *indexes, const char *because)
{
    char error[STORE_ERROR_MAX] = "";
    assert_false(open_with(indexes, error));
    if (!strstr(error, because))
        fail_msg("\"%s\" does not say \"%s\"", error, because);
}

static void close_database(void)
{
    if (!database)
        return;
    store_sqlite.session_close(reader);
    store_sqlite.session_close(writer);
    store_sqlite.close(database);
    database = NULL;
}

static void remove_file(const char *suffix)
{
    char name[100];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    unlink(name);
}

/* Each test has an empty file of its own. */
static int begin_test(void **state)
{
    (void)state;
    memset(&disk, 0, sizeof disk);
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    memset(&disk, 0, sizeof disk);
    close_database();
    remove_file("");
    remove_file("-wal");
    remove_file("-shm");
    return 0;
}

/* Runs SQL on the file as another program would. */
static void run_sql(const char *sql)
{
    sqlite3 *db;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    sqlite3_close(db);
}

static int ask_int(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int answer = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return answer;
}

/* ---- Operations -------------------------------------------------------------------------------------- */

static store_text text(const char *s)
{
    return (store_text){s, strlen(s)};
}

static store_op *make(store_kind kind, const char *id)
{
    store_op *op = store_op_create(op_home(), kind);
    assert_non_null(op);
    op->collection = text("people");
    op->id = text(id);
    op->deadline_ms = clock_ms() + 60000;
    return op;
}

static store_op *make_put(const char *id, const char *json)
{
    store_op *op = make(STORE_PUT, id);
    store_document *document = mem_alloc_array(op->memory, 1, sizeof *document);
    assert_non_null(document);
    *document = (store_document){text(id), text(json)};
    op->documents = document;
    op->count = 1;
    return op;
}

static store_status write_one(store_op *op)
{
    store_sqlite.write(writer, &op, 1);
    store_status status = op->status;
    store_op_release(op);
    return status;
}

static store_status read_one(store_op *op)
{
    store_sqlite.read(reader, &op, 1);
    store_status status = op->status;
    store_op_release(op);
    return status;
}

/* ---- Files ------------------------------------------------------------------------------------------- */

/* What the first version made; such files must be opened for ever. */
static const char version_1[] =
    "PRAGMA journal_mode = WAL;"
    "CREATE TABLE document (collection TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,"
    "  modified INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (collection, id));"
    "CREATE TABLE counter (only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL);"
    "INSERT INTO counter VALUES (1, 41);"
    "INSERT INTO document VALUES ('people', 'ada', 40, 1700000000, '{\"age\":36}'),"
    "  ('people', 'bo', 41, 1700000001, '\"\xc3\xa9\"'), ('things', 'x', 39, 1700000002, '1');"
    "PRAGMA application_id = 1936482676; PRAGMA user_version = 1;";

static void a_file_of_version_1_is_migrated(void **state)
{
    (void)state;
    run_sql(version_1);
    open_database(NULL);
    assert_int_equal(ask_int("PRAGMA user_version"), 2);
    store_op *op = make(STORE_GET, "ada");
    store_sqlite.read(reader, &op, 1);
    assert_int_equal(op->status, STORE_OK);
    assert_int_equal(op->revision, 40);
    assert_int_equal(op->modified, 1700000000);
    assert_int_equal(op->bytes.size, 10);
    store_op_release(op);
    op = make_put("cy", "1");
    store_sqlite.write(writer, &op, 1);
    assert_int_equal(op->status, STORE_OK);
    assert_int_equal(op->revision, 42);
    store_op_release(op);
    op = make(STORE_COLLECTIONS, "");
    store_sqlite.read(reader, &op, 1);
    static const char wanted[] = "[{\"name\":\"people\",\"documents\":3,\"bytes\":15},"
                                 "{\"name\":\"things\",\"documents\":1,\"bytes\":1}]";
    assert_int_equal(op->bytes.size, sizeof wanted - 1);
    assert_memory_equal(op->bytes.at, wanted, sizeof wanted - 1);
    store_op_release(op);
    close_database();
    open_database(NULL); /* once only */
    assert_int_equal(read_one(make(STORE_GET, "cy")), STORE_OK);
}

static void a_file_of_a_newer_version_is_refused(void **state)
{
    (void)state;
    open_database(NULL);
    close_database();
    run_sql("PRAGMA user_version = 99");
    assert_refused(NULL, "version 99 of the schema, but this program knows 1 to 2");
}

static void a_file_of_another_program_is_refused_and_left_alone(void **state)
{
    (void)state;
    run_sql("CREATE TABLE theirs (x)");
    assert_refused(NULL, "another program");
    assert_int_equal(ask_int("SELECT count(*) FROM sqlite_master"), 1);
    assert_int_equal(ask_int("SELECT journal_mode = 'delete' FROM pragma_journal_mode"), 1);
    remove_file("");
    run_sql("PRAGMA application_id = 7");
    assert_refused(NULL, "another program");
}

static void what_is_no_database_is_refused(void **state)
{
    (void)state;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        fputs("not a database\n", file);
    fclose(file);
    assert_refused(NULL, "test.db cannot be opened: file is not a database");
}

static void a_path_that_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    snprintf(uri, sizeof uri, "sqlite:%s/none/x.db", directory);
    assert_refused(NULL,
                   "/none/x.db cannot be opened: unable to open database file, No such file or "
                   "directory. --db sqlite:PATH names another file, --db off serves without one.");
    snprintf(uri, sizeof uri, "sqlite:");
    assert_refused(NULL, "needs the path");
    snprintf(uri, sizeof uri, "sqlite:%s", path);
}

static void a_declaration_that_is_none_is_refused(void **state)
{
    static const char *const declarations[] = {"people",      "people:age",          ":/age",
                                               "people:/a~2", "people:/a,",          "peo'ple:/age",
                                               "people:",     "a:/1/2/3/4/5/6/7/8/9"};
    (void)state;
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++)
        assert_refused(declarations[i], "COLLECTION:/JSON/POINTER");
}

/* ---- Failures ------------------------------------------------------------------------------------------ */

/* Two writes of a batch that must not be written, then one that must. */
static void check_batch_fails(store_status wanted, bool session_lives)
{
    store_op *ops[] = {make_put("a", "1"), make_put("b", "1")};
    store_sqlite.write(writer, ops, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ops[i]->status, wanted);
        assert_true(strlen(ops[i]->detail) > 0);
        store_op_release(ops[i]);
    }
    assert_int_equal(store_sqlite.session_alive(writer), session_lives);
    memset(&disk, 0, sizeof disk);
    if (!session_lives) {
        char error[STORE_ERROR_MAX];
        store_sqlite.session_close(writer);
        writer = store_sqlite.session_open(database, true, error);
        assert_non_null(writer);
    }
    if (wanted == STORE_BUSY) {
        assert_int_equal(read_one(make(STORE_GET, "a")), STORE_NOT_FOUND);
        assert_int_equal(read_one(make(STORE_GET, "b")), STORE_NOT_FOUND);
    }
    assert_int_equal(write_one(make_put("c", "1")), STORE_OK);
    assert_int_equal(read_one(make(STORE_GET, "c")), STORE_OK);
}

static void a_full_disk_is_busy_and_nothing_is_written(void **state)
{
    (void)state;
    open_database(NULL);
    disk.write = SQLITE_FULL;
    check_batch_fails(STORE_BUSY, true);
}

static void a_write_that_fails_is_busy_and_the_session_ends(void **state)
{
    (void)state;
    open_database(NULL);
    disk.write = SQLITE_IOERR_WRITE;
    check_batch_fails(STORE_BUSY, false);
}

static void a_sync_that_fails_leaves_the_outcome_unknown(void **state)
{
    (void)state;
    open_database(NULL);
    disk.sync = SQLITE_IOERR_FSYNC;
    check_batch_fails(STORE_UNKNOWN, false);
}

static void a_read_that_fails_is_busy(void **state)
{
    (void)state;
    open_database(NULL);
    assert_int_equal(write_one(make_put("a", "1")), STORE_OK);
    close_database();
    open_database(NULL);
    disk.read = SQLITE_IOERR_READ;
    assert_int_equal(read_one(make(STORE_GET, "a")), STORE_BUSY);
    assert_false(store_sqlite.session_alive(reader));
}

static void each_batch_is_synced_once(void **state)
{
    (void)state;
    open_database(NULL);
    assert_int_equal(write_one(make_put("first", "1")), STORE_OK);
    store_op *ops[50];
    for (size_t i = 0; i < 50; i++) {
        ops[i] = make(STORE_DELETE, "none");
        store_op_release(ops[i]);
        ops[i] = make_put(i % 2 ? "odd" : "even", "1");
    }
    disk.syncs = 0;
    store_sqlite.write(writer, ops, 50);
    assert_int_equal(disk.syncs, 1);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(ops[i]->status, STORE_OK);
        store_op_release(ops[i]);
    }
}

static void counts_are_right_within_a_batch(void **state)
{
    (void)state;
    open_database(NULL);
    store_op *ops[] = {make_put("a", "1"), make(STORE_CLEAR, ""), make_put("b", "123"),
                       make_put("c", "12"), make(STORE_DELETE, "c")};
    store_sqlite.write(writer, ops, 5);
    assert_int_equal(ops[1]->affected, 1);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(ops[i]->status, STORE_OK);
        store_op_release(ops[i]);
    }
    assert_int_equal(ask_int("SELECT count(*) FROM collection"), 1);
    assert_int_equal(ask_int("SELECT documents FROM collection"), 1);
    assert_int_equal(ask_int("SELECT bytes FROM collection"), 3);
    store_op *gone[] = {make(STORE_DELETE, "b"), make_put("d", "1"), make(STORE_DELETE, "d")};
    store_sqlite.write(writer, gone, 3);
    for (size_t i = 0; i < 3; i++)
        store_op_release(gone[i]);
    assert_int_equal(ask_int("SELECT count(*) FROM collection"), 0);
}

/* SQLite asks what a statement may do while it is prepared; here, memory ends in the middle of the one
 * that keeps counts. */
static int refuse_memory(void *arg, int action, const char *table, const char *column,
                         const char *schema, const char *trigger)
{
    (void)arg, (void)column, (void)schema, (void)trigger;
    if (action == SQLITE_INSERT && strcmp(table, "collection") == 0)
        sqlite3_hard_heap_limit64(1);
    return SQLITE_OK;
}

/* Counts are noted for 16 collections, and written when there comes another one. */
static void no_memory_for_the_count_of_a_17th_collection_is_busy(void **state)
{
    enum { MANY = 17 };
    store_op *ops[MANY];
    (void)state;
    open_database(NULL);
    for (int turn = 0; turn < 2; turn++) { /* without memory, and with it */
        sqlite3_set_authorizer(writer->db, turn == 0 ? refuse_memory : NULL, NULL);
        for (int i = 0; i < MANY; i++) {
            char name[16];
            int size = snprintf(name, sizeof name, "c%d", i);
            ops[i] = make_put("a", "1");
            ops[i]->collection = store_op_copy(ops[i], name, (size_t)size);
        }
        store_sqlite.write(writer, ops, MANY);
        sqlite3_hard_heap_limit64(0);
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(ops[i]->status, turn == 0 ? STORE_BUSY : STORE_OK);
            if (turn == 0)
                assert_non_null(strstr(ops[i]->detail, "memory"));
            store_op_release(ops[i]);
        }
        assert_int_equal(ask_int("SELECT count(*) FROM document"), turn == 0 ? 0 : MANY);
        assert_int_equal(ask_int("SELECT count(*) FROM collection"), turn == 0 ? 0 : MANY);
    }
}

/* Another program, which takes the write lock when it is told, and holds it until it is told. */
struct program {
    pid_t child;
    int tell, hear; /* our ends of two pipes */
};

static bool hold_lock(int hear, int tell)
{
    sqlite3 *db;
    char byte;
    if (read(hear, &byte, 1) != 1)
        return false;
    bool holds = sqlite3_open(path, &db) == SQLITE_OK &&
                 sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    bool told = write(tell, holds ? "y" : "n", 1) == 1 && read(hear, &byte, 1) == 0;
    sqlite3_close(db);
    return told;
}

/* No connection may be open, for the child would inherit it: SQLite notes a process's locks in its
 * memory, and a child that believes those notes does not ask the system. */
static struct program start_program(void)
{
    int down[2], up[2];
    assert_null(database);
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(down[1]);
        _exit(hold_lock(down[0], up[1]) ? 0 : 1);
    }
    close(down[0]);
    close(up[1]);
    return (struct program){child, down[1], up[0]};
}

static void lock_elsewhere(const struct program *other)
{
    char byte;
    assert_int_equal(write(other->tell, "l", 1), 1);
    assert_int_equal(read(other->hear, &byte, 1), 1);
    assert_int_equal(byte, 'y');
}

static void unlock_elsewhere(const struct program *other)
{
    int status;
    close(other->tell);
    assert_int_equal(waitpid(other->child, &status, 0), other->child);
    assert_int_equal(status, 0);
    close(other->hear);
}

static void a_lock_of_another_program_is_busy_at_the_limit(void **state)
{
    (void)state;
    struct program other = start_program();
    open_database(NULL);
    assert_int_equal(write_one(make_put("a", "1")), STORE_OK);
    lock_elsewhere(&other);
    int64_t begin = clock_ms();
    store_op *ops[] = {make_put("b", "1"), make_put("c", "1")};
    ops[0]->deadline_ms = begin + 30000;
    ops[1]->deadline_ms = begin + 100;
    store_sqlite.write(writer, ops, 2);
    assert_true(clock_ms() >= begin + 100); /* the earlier limit is waited for */
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ops[i]->status, STORE_BUSY);
        assert_non_null(strstr(ops[i]->detail, "locked"));
        store_op_release(ops[i]);
    }
    assert_true(store_sqlite.session_alive(writer));
    assert_int_equal(read_one(make(STORE_GET, "a")), STORE_OK); /* reading goes on */
    unlock_elsewhere(&other);
    assert_int_equal(write_one(make_put("b", "1")), STORE_OK);
}

static void reading_ends_at_its_limit(void **state)
{
    char id[16];
    (void)state;
    open_database(NULL);
    store_op *op = make(STORE_INSERT, "");
    store_document *documents = mem_alloc_array(op->memory, 2000, sizeof *documents);
    assert_non_null(documents);
    for (size_t i = 0; i < 2000; i++) {
        int size = snprintf(id, sizeof id, "%zu", i);
        documents[i] = (store_document){store_op_copy(op, id, (size_t)size), text("{}")};
    }
    op->documents = documents;
    op->count = 2000;
    assert_int_equal(write_one(op), STORE_OK);
    for (int i = 0; i < 2; i++) {
        op = make(STORE_LIST, "");
        op->query = mem_alloc_array(op->memory, 1, sizeof *op->query);
        assert_non_null(op->query);
        op->query->limit = 1000000;
        op->query->count_all = i == 1; /* in a transaction, which must end too */
        op->deadline_ms = clock_ms() - 1;
        store_sqlite.read(reader, &op, 1);
        assert_int_equal(op->status, STORE_BUSY);
        assert_non_null(strstr(op->detail, "time limit"));
        store_op_release(op);
        assert_true(sqlite3_get_autocommit(reader->db));
        assert_true(store_sqlite.session_alive(reader));
    }
    assert_int_equal(read_one(make(STORE_GET, "7")), STORE_OK);
}

/* ---- Indexes ------------------------------------------------------------------------------------------- */

/* How SQLite would run the list that was asked for last. */
static void assert_plan(const char *has, const char *has_not)
{
    sqlite3_stmt *plan;
    char found[600] = "";
    char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sqlite3_sql(reader->lists[0]));
    assert_non_null(sql);
    assert_int_equal(sqlite3_prepare_v2(reader->db, sql, -1, &plan, NULL), SQLITE_OK);
    while (sqlite3_step(plan) == SQLITE_ROW)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s; ",
                 sqlite3_column_text(plan, 3));
    sqlite3_finalize(plan);
    sqlite3_free(sql);
    if (!strstr(found, has) || (has_not && strstr(found, has_not)))
        fail_msg("plan: %s", found);
}

static void list(const char *filtered, store_comparison comparison, const char *ordered,
                 bool descending, bool after)
{
    const store_scalar operand = {.is = STORE_NUMBER, .text = text("5")};
    store_op *op = make(STORE_LIST, "");
    store_query *query = mem_alloc_array(op->memory, 1, sizeof *query);
    assert_non_null(query);
    op->query = query;
    query->limit = 10;
    if (filtered) {
        query->filter_count = 1;
        query->filters[0] = (store_filter){.op = comparison, .operands = &operand, .count = 1};
        query->filters[0].path = (store_path){.token = {text(filtered)}, .count = 1};
    }
    if (ordered) {
        query->order_count = 1;
        query->orders[0].path = (store_path){.token = {text(ordered)}, .count = 1};
        query->orders[0].descending = descending;
    }
    query->has_after = after;
    query->after[0] = operand;
    query->after_id = text("x");
    if (read_one(op) != STORE_OK)
        fail_msg("the list failed");
}

static void declared_indexes_are_taken(void **state)
{
    (void)state;
    open_database("people:/age,people:/it's \"quoted\",things:/name");
    list("age", STORE_EQ, NULL, false, false);
    assert_plan("USING INDEX by people:/age (<expr>=?)", NULL);
    list("age", STORE_IN, NULL, false, false);
    assert_plan("USING INDEX by people:/age (<expr>=?)", NULL);
    list("age", STORE_GT, NULL, false, false);
    assert_plan("USING INDEX by people:/age (<expr>>? AND <expr><?)", NULL);
    list("age", STORE_LTE, "age", false, false);
    assert_plan("USING INDEX by people:/age (<expr>>? AND <expr><?)", "TEMP B-TREE");
    list(NULL, STORE_EQ, "age", false, false);
    assert_plan("USING INDEX by people:/age", "TEMP B-TREE");
    list(NULL, STORE_EQ, "age", false, true);
    assert_plan("USING INDEX by people:/age (<expr>>?)", "TEMP B-TREE");
    list(NULL, STORE_EQ, "age", true, true);
    assert_plan("USING INDEX by people:/age (<expr><?)", NULL);
    list("it's \"quoted\"", STORE_EQ, NULL, false, false);
    assert_plan("USING INDEX by people:/it's \"quoted\"", NULL);
    /* What is not declared, for this collection, is not written out. */
    list("age", STORE_NEQ, NULL, false, true);
    assert_plan("USING INDEX sqlite_autoindex_document_1 (collection=? AND id>?)", NULL);
    list("name", STORE_EQ, NULL, false, false);
    assert_plan("USING INDEX sqlite_autoindex_document_1 (collection=?)", NULL);
    assert_null(strstr(sqlite3_sql(reader->lists[0]), "name"));
    assert_null(strstr(sqlite3_sql(reader->lists[0]), "people"));
}

static void indexes_are_made_of_what_is_there_and_dropped(void **state)
{
    (void)state;
    open_database(NULL);
    assert_int_equal(write_one(make_put("a", "{\"age\":5}")), STORE_OK);
    close_database();
    open_database("people:/age");
    list("age", STORE_EQ, NULL, false, false);
    assert_plan("USING INDEX by people:/age", NULL);
    assert_int_equal(ask_int("SELECT count(*) FROM sqlite_master WHERE name LIKE 'by %'"), 1);
    close_database();
    open_database("people:/name");
    assert_int_equal(ask_int("SELECT name = 'by people:/name' FROM sqlite_master"
                             " WHERE name LIKE 'by %'"),
                     1);
    close_database();
    open_database(NULL);
    assert_int_equal(ask_int("SELECT count(*) FROM sqlite_master WHERE name LIKE 'by %'"), 0);
}

static void the_same_kind_of_list_is_prepared_once(void **state)
{
    (void)state;
    open_database(NULL);
    list("a", STORE_GT, NULL, false, false);
    const sqlite3_stmt *first = reader->lists[0];
    list("b", STORE_LT, NULL, false, false); /* the operator is bound too */
    assert_ptr_equal(reader->lists[0], first);
    for (int i = 0; i < 40; i++) { /* more than are kept */
        list(i & 1 ? "a" : NULL, (store_comparison)(i / 2 % 3), i & 8 ? "b" : NULL, i & 16, i & 32);
        list(i & 2 ? "a" : NULL, STORE_GT, i & 4 ? "b" : NULL, i & 8, i & 1);
    }
    list("c", STORE_EQ, NULL, false, false);
}

/* ---- Housekeeping ------------------------------------------------------------------------------------ */

static store_op *make_keyed(const char *id)
{
    store_op *op = make_put(id, "1");
    op->kind = STORE_INSERT;
    op->key = text("key");
    op->fingerprint = text("print");
    op->remember = text("answer");
    return op;
}

static void keys_are_forgotten_after_a_day(void **state)
{
    (void)state;
    open_database(NULL);
    assert_int_equal(write_one(make_keyed("a")), STORE_OK);
    assert_int_equal(write_one(make_keyed("b")), STORE_REPLAYED);
    assert_int_equal(ask_int("SELECT expires - unixepoch() BETWEEN 86000 AND 86400"
                             " FROM idempotency"),
                     1);
    run_sql("UPDATE idempotency SET expires = unixepoch()");
    assert_int_equal(write_one(make_keyed("b")), STORE_OK);
    run_sql("UPDATE idempotency SET expires = unixepoch()");
    writer->expired_ms = clock_ms() - 24 * 60 * 60 * 1000; /* as if it had not looked for long */
    store_sqlite.tidy(writer);
    assert_int_equal(ask_int("SELECT count(*) FROM idempotency"), 0);
}

static void few_keys_are_forgotten_at_once(void **state)
{
    (void)state;
    open_database(NULL);
    run_sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)"
            " INSERT INTO idempotency SELECT i, '', '', 1, unixepoch() FROM n");
    writer->expired_ms = clock_ms() - 24 * 60 * 60 * 1000;
    for (int left = 1500; left > 0; left -= 1000) { /* after each batch */
        store_sqlite.tidy(writer);
        assert_int_equal(ask_int("SELECT count(*) FROM idempotency"), left);
    }
    store_sqlite.tidy(writer);
    assert_int_equal(ask_int("SELECT count(*) FROM idempotency"), 0);
    run_sql("INSERT INTO idempotency VALUES ('late', '', '', 1, unixepoch())");
    store_sqlite.tidy(writer); /* all were forgotten just now: it does not look */
    assert_int_equal(ask_int("SELECT count(*) FROM idempotency"), 1);
}

static off_t log_size(void)
{
    struct stat file;
    char name[100];
    snprintf(name, sizeof name, "%s-wal", path);
    return stat(name, &file) == 0 ? file.st_size : 0;
}

static void the_log_begins_anew(void **state)
{
    enum { SIZE = 400000 };
    (void)state;
    char *json = malloc(SIZE + 1);
    assert_non_null(json);
    open_database(NULL);
    for (int i = 0; i < 200; i++) { /* 80 MB through a log of 4,000 pages of 4 KiB */
        memset(json, 'a' + i % 2, SIZE);
        json[0] = json[SIZE - 1] = '"';
        json[SIZE] = '\0';
        assert_int_equal(write_one(make_put("x", json)), STORE_OK);
        store_sqlite.tidy(writer);
    }
    assert_true(log_size() < 24 * 1024 * 1024);
    free(json);
}

static bool readers_stop; /* atomic */

/* Reads for some milliseconds, again and again. */
static void *read_always(void *arg)
{
    sqlite3 *db;
    (void)arg;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    while (!__atomic_load_n(&readers_stop, __ATOMIC_RELAXED)) {
        assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM document", NULL, NULL, NULL),
                         SQLITE_OK);
        usleep(5000);
        assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    }
    sqlite3_close(db);
    return NULL;
}

static void readers_cannot_keep_the_log_growing(void **state)
{
    enum { SIZE = 400000, READERS = 6 };
    pthread_t readers[READERS];
    (void)state;
    char *json = malloc(SIZE + 1);
    assert_non_null(json);
    open_database(NULL);
    readers_stop = false;
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_always, NULL), 0);
    for (int i = 0; i < 400; i++) { /* 160 MB */
        memset(json, 'a' + i % 2, SIZE);
        json[0] = json[SIZE - 1] = '"';
        json[SIZE] = '\0';
        assert_int_equal(write_one(make_put("x", json)), STORE_OK);
        store_sqlite.tidy(writer);
    }
    __atomic_store_n(&readers_stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_true(log_size() < 100 * 1024 * 1024);
    free(json);
}

static void memory_of_sqlite_is_bounded(void **state)
{
    (void)state;
    open_database(NULL);
    assert_int_equal(sqlite3_soft_heap_limit64(-1), 64 * 1024 * 1024);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_of_version_1_is_migrated),
        TEST(a_file_of_a_newer_version_is_refused),
        TEST(a_file_of_another_program_is_refused_and_left_alone),
        TEST(what_is_no_database_is_refused),
        TEST(a_path_that_cannot_be_opened_is_refused),
        TEST(a_declaration_that_is_none_is_refused),
        TEST(a_full_disk_is_busy_and_nothing_is_written),
        TEST(a_write_that_fails_is_busy_and_the_session_ends),
        TEST(a_sync_that_fails_leaves_the_outcome_unknown),
        TEST(a_read_that_fails_is_busy),
        TEST(each_batch_is_synced_once),
        TEST(counts_are_right_within_a_batch),
        TEST(no_memory_for_the_count_of_a_17th_collection_is_busy),
        TEST(a_lock_of_another_program_is_busy_at_the_limit),
        TEST(reading_ends_at_its_limit),
        TEST(declared_indexes_are_taken),
        TEST(indexes_are_made_of_what_is_there_and_dropped),
        TEST(the_same_kind_of_list_is_prepared_once),
        TEST(keys_are_forgotten_after_a_day),
        TEST(few_keys_are_forgotten_at_once),
        TEST(the_log_begins_anew),
        TEST(readers_cannot_keep_the_log_growing),
        TEST(memory_of_sqlite_is_bounded),
    };
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/test.db", directory);
    snprintf(uri, sizeof uri, "sqlite:%s", path);
    faulty_vfs_install();
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return status;
}
