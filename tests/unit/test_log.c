/* Log lines, as they arrive at stderr. */
#include <errno.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../server/log.h"

static int reader, saved;

/* A datagram socket keeps writes apart: one write must be one line. */
static int set_up(void **state)
{
    (void)state;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) != 0)
        return 1;
    reader = pair[0];
    saved = dup(STDERR_FILENO);
    if (saved < 0 || dup2(pair[1], STDERR_FILENO) < 0)
        return 1;
    close(pair[1]);
    log_set_level(LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(reader);
    return dup2(saved, STDERR_FILENO) < 0 || close(saved) != 0;
}

/* The next write to stderr; its length, or 0 if there was none. */
static size_t next_line(char *line, size_t size)
{
    ssize_t length = recv(reader, line, size - 1, 0);
    if (length < 0)
        return 0;
    line[length] = '\0';
    return (size_t)length;
}

static void a_line_has_time_level_and_message(void **state)
{
    (void)state;
    char line[4096];
    regex_t form;
    log_warning("%d of %s", 3, "4");
    assert_true(next_line(line, sizeof line) > 0);
    assert_int_equal(regcomp(&form,
                             "^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
                             "\\.[0-9]{3}Z warning 3 of 4\n$",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    int match = regexec(&form, line, 0, NULL, 0);
    regfree(&form);
    assert_int_equal(match, 0);
    assert_int_equal(next_line(line, sizeof line), 0);
}

static void only_the_level_and_above_are_logged(void **state)
{
    (void)state;
    char line[4096];
    log_debug("hidden");
    assert_int_equal(next_line(line, sizeof line), 0);
    log_set_level(LOG_DEBUG);
    assert_true(log_enabled(LOG_DEBUG));
    log_debug("shown");
    assert_non_null(next_line(line, sizeof line) > 0 ? strstr(line, " debug   shown\n") : NULL);
    log_set_level(LOG_ERROR);
    assert_false(log_enabled(LOG_WARNING));
    log_warning("hidden");
    assert_int_equal(next_line(line, sizeof line), 0);
    log_error("shown");
    assert_non_null(next_line(line, sizeof line) > 0 ? strstr(line, " error   shown\n") : NULL);
}

static void a_client_cannot_forge_a_line(void **state)
{
    (void)state;
    char line[4096];
    log_info("path %s", "/a\r\n2026 error all lost\x1b[2J\x7f\t\xc2\x85 \xc3\xa9\xc2\xa0");
    assert_true(next_line(line, sizeof line) > 0);
    assert_non_null(strstr(line, "path /a??2026 error all lost?[2J????"
                                 " \xc3\xa9\xc2\xa0\n"));
}

static void a_long_line_is_cut_between_characters(void **state)
{
    (void)state;
    char line[4096], text[4096];
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xc3\xa9", 2);
        text[sizeof text - 2] = '\0';
        log_info("%s", text);
        size_t length = next_line(line, sizeof line);
        assert_in_range(length, LOG_LINE_MAX - 1, LOG_LINE_MAX);
        assert_string_equal(line + length - 6, "\xc3\xa9...\n");
    }
    /* The longest that is whole: the text ends where the line does. */
    log_info("%s", "");
    size_t frame = next_line(line, sizeof line);
    memset(text, 'x', sizeof text);
    log_info("%.*s", (int)(LOG_LINE_MAX - frame), text);
    size_t length = next_line(line, sizeof line);
    assert_int_equal(length, LOG_LINE_MAX);
    assert_string_equal(line + length - 4, "xxx\n");
    log_info("%.*s", (int)(LOG_LINE_MAX - frame) + 1, text);
    length = next_line(line, sizeof line);
    assert_int_equal(length, LOG_LINE_MAX);
    assert_string_equal(line + length - 4, "...\n");
}

static void errno_survives_and_can_be_printed(void **state)
{
    (void)state;
    char line[4096];
    errno = ENOSPC;
    log_info("write: %m");
    assert_int_equal(errno, ENOSPC);
    assert_true(next_line(line, sizeof line) > 0);
    assert_non_null(strstr(line, strerror(ENOSPC)));
    errno = EDOM;
    close(STDERR_FILENO);
    log_info("into the void");
    assert_int_equal(errno, EDOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_has_time_level_and_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_level_and_above_are_logged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_cannot_forge_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_line_is_cut_between_characters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errno_survives_and_can_be_printed, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
