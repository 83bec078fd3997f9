/* The two readers, on plain malloc. The text lies in a block of just its size, so that the sanitizer
 * sees a byte read too many. */
#include <string.h>

#include "../../server/json/json.h"
#include "check.h"
#include "targets.h"

static void same_problems(const char *text, size_t size, unsigned depth)
{
    json_read_problem ours, theirs;
    json_t *tree = json_read_with(JSON_READER_SLATE, text, size, depth, &ours);
    json_t *expected = json_read_with(JSON_READER_JANSSON, text, size, depth, &theirs);
    check(!tree == !expected, "%s", tree ? theirs.detail : ours.detail);
    if (!tree) {
        check(ours.status == theirs.status && ours.offset == theirs.offset, "%s / %s", ours.detail,
              theirs.detail);
        check(ours.line == theirs.line && ours.column == theirs.column, "%d:%d / %d:%d", ours.line,
              ours.column, theirs.line, theirs.column);
        check(strcmp(ours.detail, theirs.detail) == 0, "%s / %s", ours.detail, theirs.detail);
        check(ours.status != JSON_READ_OK && ours.status != JSON_READ_MEMORY, "%s", ours.detail);
        check(ours.offset <= size && ours.line > 0 && ours.column > 0, "%zu", ours.offset);
    }
    json_decref(tree);
    json_decref(expected);
}

/* The differences that are meant: a NUL byte, which jansson takes for the end of a token, and too
 * many levels, which our reader limits by one less (server/json/README.md). */
static void same_trees(const char *text, size_t size)
{
    json_read_problem problem;
    json_error_t error;
    json_t *tree = json_read_with(JSON_READER_SLATE, text, size, JSON_READ_DEPTH_MAX, &problem);
    json_t *expected =
        json_loadb(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    bool meant = !tree && (memchr(text, '\0', size) || strstr(problem.detail, "Nested deeper"));
    if (!meant) {
        check(!tree == !expected, "%s", tree ? error.text : problem.detail);
        check(!tree || json_equal(tree, expected), "other trees");
    }
    json_decref(tree);
    json_decref(expected);
}

int fuzz_reader(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    check(text, "no memory");
    char *exact = text + 1; /* and not aligned */
    if (size > 0)
        memcpy(exact, data, size);
    same_trees(exact, size);
    same_problems(exact, size, 5);
    free(text);
    return 0;
}
