/* Names of collections and documents, and ids that the server makes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../../handlers/db/id.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool valid(const char *name)
{
    return db_name_valid(name, strlen(name));
}

static void only_plain_names_are_names(void **state)
{
    static const char *const good[] = {"a", "people", "A-Z.a_z~0", "...", ".a", "-", "~"};
    static const char *const bad[] = {"",    ".",        "..",  "a b", "a/b", "a%2Fb",
                                      "a\n", "\xc3\xa4", "a:b", "a+b", "a\"", "a@b"};
    char longest[DB_NAME_MAX + 2];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(valid(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(valid(bad[i]));
    memset(longest, 'x', sizeof longest);
    assert_true(db_name_valid(longest, DB_NAME_MAX));
    assert_false(db_name_valid(longest, DB_NAME_MAX + 1));
    assert_false(db_name_valid("a\0b", 3));
}

static void ids_sort_as_they_were_made(void **state)
{
    char before[DB_ID_SIZE], now[DB_ID_SIZE];
    db_id first;
    (void)state;
    memset(before, '0', sizeof before);
    for (unsigned i = 0; i < 20000; i++) {
        size_t count = i % 7 + 1;
        assert_true(db_id_make(count, &first));
        for (size_t k = 0; k < count; k++) {
            db_id_print(first + k, now);
            assert_true(db_name_valid(now, sizeof now));
            assert_true(memcmp(before, now, sizeof now) < 0);
            memcpy(before, now, sizeof now);
        }
    }
}

/* A later start is above what an earlier one made, by the clock alone. */
static void an_id_begins_with_the_time(void **state)
{
    char text[DB_ID_SIZE], low[DB_ID_SIZE], high[DB_ID_SIZE];
    db_id id;
    (void)state;
    db_id start = (db_id)time(NULL) * 1000 << 80;
    assert_true(db_id_make(1, &id));
    db_id_print(id, text);
    db_id_print(start, low);
    db_id_print(((db_id)time(NULL) + 2) * 1000 << 80, high);
    assert_true(memcmp(low, text, sizeof low) < 0);
    assert_true(memcmp(text, high, sizeof high) < 0);
}

static void ids_are_read_as_printed(void **state)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "0000000000000000000000000",
                                      "8zzzzzzzzzzzzzzzzzzzzzzzzz",
                                      "0000000000000000000000000i",
                                      "0000000000000000000000000A",
                                      "00000000000000000000000000 "};
    char text[DB_ID_SIZE];
    db_id id, back;
    (void)state;
    assert_true(db_id_make(1, &id));
    db_id_print(id, text);
    assert_true(db_id_read(text, sizeof text, &back));
    assert_true(back == id);
    assert_true(db_id_read("7zzzzzzzzzzzzzzzzzzzzzzzzz", DB_ID_SIZE, &back));
    assert_true(back == ~(db_id)0);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(db_id_read(bad[i], strlen(bad[i]), &back));
    assert_false(db_id_read("0000000000000000000000000\0", DB_ID_SIZE, &back));
}

#define THREADS 4
#define EACH 5000

static void *make_many(void *arg)
{
    db_id *ids = arg;
    for (size_t i = 0; i < EACH; i++)
        if (!db_id_make(1, &ids[i]))
            return NULL;
    return arg;
}

static int compare(const void *a, const void *b)
{
    const db_id *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void threads_never_get_the_same(void **state)
{
    static db_id ids[THREADS * EACH];
    pthread_t threads[THREADS];
    (void)state;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_many, ids + i * EACH), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *made;
        pthread_join(threads[i], &made);
        assert_non_null(made);
    }
    qsort(ids, COUNT(ids), sizeof *ids, compare);
    for (size_t i = 1; i < COUNT(ids); i++)
        assert_true(ids[i - 1] < ids[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_names_are_names), cmocka_unit_test(ids_sort_as_they_were_made),
        cmocka_unit_test(an_id_begins_with_the_time), cmocka_unit_test(ids_are_read_as_printed),
        cmocka_unit_test(threads_never_get_the_same),
    };
    return cmocka_run_group_tests_name("db_id", tests, NULL, NULL);
}
