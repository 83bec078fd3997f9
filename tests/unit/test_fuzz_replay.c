/* The fuzz targets over the committed corpus, without libFuzzer: what was found once stays found. A
 * target that is not content aborts. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../fuzz/targets.h"

#define INPUT_MAX (1024 * 1024)

static size_t read_file(const char *name, uint8_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", FUZZ_CORPUS, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, INPUT_MAX, f);
    assert_int_equal(ferror(f), 0);
    fclose(f);
    return size;
}

static void replay(int (*target)(const uint8_t *data, size_t size))
{
    size_t count = 0;
    uint8_t *bytes = malloc(INPUT_MAX);
    DIR *corpus = opendir(FUZZ_CORPUS);
    assert_non_null(bytes);
    assert_non_null(corpus);
    for (struct dirent *entry; (entry = readdir(corpus));) {
        if (entry->d_name[0] == '.')
            continue;
        size_t size = read_file(entry->d_name, bytes);
        assert_int_equal(target(bytes, size), 0);
        count++;
    }
    closedir(corpus);
    free(bytes);
    assert_true(count > 50);
}

static void the_readers_agree(void **state)
{
    (void)state;
    replay(fuzz_reader);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    replay(fuzz_round_trip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_readers_agree),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests_name("fuzz_replay", tests, NULL, NULL);
}
