/* Options, from outside: what each source sets, which source wins, what is refused and how. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../server/options.h"

/* ---- Running options_parse as main would ------------------------------------------------------ */

#define TEXT_MAX (64 * 1024)
#define ARGS_MAX 8

typedef struct outcome {
    options_result result;
    options opts;
    char out[TEXT_MAX]; /* what went to stdout */
    char err[TEXT_MAX]; /* what went to stderr */
} outcome;

static outcome last; /* too large for the stack */

static int capture(int fd, int *ret_saved)
{
    int memory = memfd_create("captured", MFD_CLOEXEC);
    assert_true(memory >= 0);
    *ret_saved = dup(fd);
    assert_true(*ret_saved >= 0);
    assert_true(dup2(memory, fd) == fd);
    return memory;
}

static void release(int fd, int saved, int memory, char *text)
{
    ssize_t length = pread(memory, text, TEXT_MAX - 1, 0);
    assert_true(length >= 0 && length < TEXT_MAX - 1);
    text[length] = '\0';
    assert_true(dup2(saved, fd) == fd);
    close(saved);
    close(memory);
}

/* Arguments after the program's name, ended by NULL. */
static const outcome *parse_args(const char *const *args)
{
    char *argv[ARGS_MAX + 2] = {(char *)"slate"};
    int argc = 1;
    for (; args[argc - 1] != NULL; argc++) {
        assert_true(argc <= ARGS_MAX);
        argv[argc] = (char *)args[argc - 1];
    }
    int saved_out, saved_err;
    fflush(stdout);
    int out = capture(STDOUT_FILENO, &saved_out), err = capture(STDERR_FILENO, &saved_err);
    last.result = options_parse(&last.opts, argc, argv);
    fflush(stdout);
    release(STDOUT_FILENO, saved_out, out, last.out);
    release(STDERR_FILENO, saved_err, err, last.err);
    return &last;
}

/* PARSE(NULL): no arguments. */
#define PARSE(...) parse_args((const char *const[]){__VA_ARGS__, NULL})

/* Asserts that the last run was refused with one line that holds each of the words. */
static void assert_refused(const outcome *o, const char *const *words)
{
    if (o->result != OPTIONS_EXIT_USAGE)
        print_error("not refused; expected a message with '%s'\n", words[0]);
    assert_int_equal(o->result, OPTIONS_EXIT_USAGE);
    assert_string_equal(o->out, "");
    size_t length = strlen(o->err);
    assert_true(length > 1);
    assert_ptr_equal(strchr(o->err, '\n'), o->err + length - 1);
    for (; *words != NULL; words++) {
        if (strstr(o->err, *words) == NULL)
            fail_msg("'%s' is not in: %s", *words, o->err);
    }
}

#define REFUSED(o, ...) assert_refused(o, (const char *const[]){__VA_ARGS__, NULL})

typedef struct lookup {
    const char *name;
    char value[256];
    bool found;
} lookup;

static void look(void *arg, const char *name, const char *value)
{
    lookup *l = arg;
    if (strcmp(l->name, name) == 0) {
        assert_true(strlen(value) < sizeof l->value);
        snprintf(l->value, sizeof l->value, "%s", value);
        l->found = true;
    }
}

/* Asserts the effective value in words of the command line, and releases the options. */
static void assert_value(const outcome *o, const char *name, const char *value)
{
    if (o->result != OPTIONS_RUN)
        fail_msg("--%s was refused: %s", name, o->err);
    assert_string_equal(o->err, "");
    lookup l = {.name = name};
    options_each(&o->opts, look, &l);
    assert_true(l.found);
    assert_string_equal(l.value, value);
    options_free(&last.opts);
}

static void variable_of(const char *name, char *variable, size_t size)
{
    size_t used = (size_t)snprintf(variable, size, "SLATE_%s", name);
    assert_true(used < size);
    for (char *p = variable; *p != '\0'; p++) {
        if (*p == '-')
            *p = '_';
        else if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 32);
    }
}

static char config_path[] = "/tmp/slate-options-XXXXXX";

static void write_config(const char *text, size_t length)
{
    int fd = open(config_path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), (ssize_t)length);
    close(fd);
}

#define CONFIG(text) write_config(text, strlen(text))

/* ---- What every option takes ------------------------------------------------------------------ */

typedef struct sample {
    const char *name;
    const char *fallback;    /* default; NULL: depends on the machine */
    const char *one, *other; /* two values; both stand beside the other options' defaults */
    const char *bad[16];
    const char *allowed; /* part of the message about a bad one */
} sample;

#define BAD_SIZES                                                                         \
    "", "x", "-1", "+1", " 1", "1 ", "1.5M", "1k", "1KB", "0x10", "18446744073709551620", \
        "17179869185G"
#define BAD_TIMES "", "x", "-1s", "5", "1.5s", "1h", "5S", "1 s", "5000m", "307445734561826m"
#define BAD_COUNTS "", "x", "-1", "1K", "1.0", "1 ", "99999999999", "18446744073709551620"
#define BAD_ADDRESSES                                                                         \
    "", "8080", "127.0.0.1", "127.0.0.1:", "localhost:80", "127.0.0.1:65536", "127.0.0.1:-1", \
        "127.1:80", "::1:80", "[::1]", "[127.0.0.1]:80", "127.0.0.1:80x"

static const sample samples[] = {
    {"alloc",
     "arena",
     "malloc",
     "arena",
     {"", "nonsense", "Arena", "arena ", "mallo"},
     "arena or malloc"},
    {"pool", "on", "off", "on", {"", "yes", "1", "true"}, "on or off"},
    {"request-memory", "8M", "16M", "0", {BAD_SIZES}, "from 0 to 1024G"},
    {"memory-limit", "0", "64M", "1G", {BAD_SIZES}, "from 0 to 1024G"},
    {"retain", "auto", "0", "1", {BAD_SIZES, "automatic"}, "from 0 to 1G"},
    {"decay", "1s", "250ms", "120s", {BAD_TIMES, "9ms", "0"}, "from 10ms to 3600s"},
    {"idle-trim", "on", "off", "on", {"", "never"}, "on or off"},
    {"connection-memory", "12K", "4K", "1M", {BAD_SIZES, "4095"}, "from 4K to 1M"},
    {"mem-debug",
     "off",
     "poison",
     "count,fail=3",
     {"", "x", "count,", ",count", "fail", "fail=", "fail=0", "fail=x", "poison=1", "count trip"},
     "count,fail=N"},
    {"listen",
     "127.0.0.1:8080",
     "0.0.0.0:1",
     "[::1]:0",
     {BAD_ADDRESSES},
     "127.0.0.1:8080 or [::1]:8080"},
    {"admin", "127.0.0.1:9090", "off", "[::]:65535", {BAD_ADDRESSES}, "or off"},
    {"threads", NULL, "1", "3", {BAD_COUNTS, "0", "257"}, "from 1 to 256"},
    {"max-connections", "4096", "64", "1000000", {BAD_COUNTS, "0", "1000001"}, "from 1 to 1000000"},
    {"per-ip", "0", "1", "20", {BAD_COUNTS, "1000001"}, "from 0 to 1000000"},
    {"body-limit", "1M", "1", "8M", {BAD_SIZES, "0"}, "from 1 to 1G"},
    {"json-depth", "128", "1", "1024", {BAD_COUNTS, "0", "1025"}, "from 1 to 1024"},
    {"json-reader", "slate", "jansson", "slate", {"", "on", "Slate", "slate|"}, "slate or jansson"},
    {"json-walk", "off", "on", "off", {"", "never", "arena"}, "on or off"},
    {"header-timeout", "10s", "100ms", "3600s", {BAD_TIMES, "99ms", "0"}, "from 100ms to 3600s"},
    {"body-timeout", "60s", "100ms", "3600s", {BAD_TIMES, "99ms", "0"}, "from 100ms to 3600s"},
    {"idle-timeout", "15s", "500ms", "3600s", {BAD_TIMES, "499ms", "0"}, "from 500ms to 3600s"},
    {"drain-timeout", "30s", "0", "3600s", {BAD_TIMES}, "from 0 to 3600s"},
    {"db",
     "sqlite:slate.db",
     "off",
     "postgresql://slate@db.example/slate?connect_timeout=3",
     {"", "x", "on", "sqlite", "sqlite:", "slate.db", "mysql://localhost/x", " off"},
     "sqlite:PATH, postgresql://"},
    {"db-timeout", "5s", "10ms", "3600s", {BAD_TIMES, "9ms", "0"}, "from 10ms to 3600s"},
    {"db-threads", "0", "1", "256", {BAD_COUNTS, "257"}, "from 0 to 256"},
    {"db-indexes",
     "off",
     "people:/age",
     "people:/age,people:/address/city,a-b_c.~1:/~0x y",
     {"", "people", "people:", "people:age", ":/age", "people:/age,", ",people:/age",
      "pe/ople:/age", "people:/a,,people:/b"},
     "COLLECTION:POINTER"},
    {"require-precondition", "off", "on", "off", {"", "yes"}, "on or off"},
    {"plugin",
     "off",
     "./mine.so",
     "mine.so,/lib/other.so",
     {"", ",", "a.so,", ",a.so", "a.so,,b.so", "1,2,3,4,5,6,7,8,9"},
     "up to 8 names of files, separated by commas, or off"},
    {"access-log", "off", "json", "clf", {"", "on", "json|clf", "off|json"}, "off, json or clf"},
    {"log-level", "info", "error", "debug", {"", "warn", "3"}, "error, warning, info or debug"},
};

#define SAMPLES (sizeof samples / sizeof *samples)

static void is_sampled(void *arg, const char *name, const char *value)
{
    size_t *count = arg;
    (void)value;
    for (size_t i = 0; i < SAMPLES; i++)
        *count += strcmp(samples[i].name, name) == 0;
}

static void count_one(void *arg, const char *name, const char *value)
{
    (void)name;
    (void)value;
    ++*(size_t *)arg;
}

static void every_option_is_tested_here(void **state)
{
    (void)state;
    size_t found = 0, all = 0;
    const outcome *o = PARSE(NULL);
    assert_int_equal(o->result, OPTIONS_RUN);
    options_each(&o->opts, is_sampled, &found);
    options_each(&o->opts, count_one, &all);
    options_free(&last.opts);
    assert_int_equal(found, SAMPLES);
    assert_int_equal(all, SAMPLES); /* --config has no value here */
}

static void defaults_are_as_documented(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        if (samples[i].fallback != NULL)
            assert_value(PARSE(NULL), samples[i].name, samples[i].fallback);
    }
}

static void a_flag_sets_every_option(void **state)
{
    (void)state;
    char flag[64], both[128];
    for (size_t i = 0; i < SAMPLES; i++) {
        const sample *s = &samples[i];
        snprintf(flag, sizeof flag, "--%s", s->name);
        snprintf(both, sizeof both, "--%s=%s", s->name, s->other);
        assert_value(PARSE(flag, s->one), s->name, s->one);
        assert_value(PARSE(both), s->name, s->other);
        if (strcmp(s->name, "plugin") == 0)
            continue;                                               /* it adds */
        assert_value(PARSE(both, flag, s->one), s->name, s->one);   /* the last of two wins, */
        assert_value(PARSE(flag, s->one, both), s->name, s->other); /* whichever it is */
    }
}

static void each_source_is_stronger_than_the_one_below(void **state)
{
    (void)state;
    char flag[64], variable[64], line[128];
    for (size_t i = 0; i < SAMPLES; i++) {
        const sample *s = &samples[i];
        snprintf(flag, sizeof flag, "--%s", s->name);
        variable_of(s->name, variable, sizeof variable);

        snprintf(line, sizeof line, "%s = %s\n", s->name, s->one);
        CONFIG(line);
        assert_value(PARSE("--config", config_path), s->name, s->one);
        setenv(variable, s->other, 1);
        assert_value(PARSE(NULL), s->name, s->other);
        assert_value(PARSE("--config", config_path), s->name, s->other);
        assert_value(PARSE("--config", config_path, flag, s->one), s->name, s->one);
        assert_value(PARSE(flag, s->one, "--config", config_path), s->name, s->one);
        unsetenv(variable);

        snprintf(line, sizeof line, "%s = %s\n", s->name, s->other);
        CONFIG(line);
        assert_value(PARSE(flag, s->one, "--config", config_path), s->name, s->one);
    }
}

static void a_bad_value_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    char flag[64], variable[64], line[256], place[128];
    for (size_t i = 0; i < SAMPLES; i++) {
        const sample *s = &samples[i];
        snprintf(flag, sizeof flag, "--%s", s->name);
        variable_of(s->name, variable, sizeof variable);
        for (size_t j = 0; j < sizeof s->bad / sizeof *s->bad && s->bad[j] != NULL; j++) {
            const char *bad = s->bad[j];
            REFUSED(PARSE(flag, bad), flag, bad, s->allowed);
            REFUSED(PARSE(flag, bad, flag, s->one), flag, bad, s->allowed);

            setenv(variable, bad, 1);
            REFUSED(PARSE(NULL), variable, bad, s->allowed);
            REFUSED(PARSE(flag, s->one), variable, bad, s->allowed);
            unsetenv(variable);

            if (bad[0] == ' ' || (bad[0] != '\0' && bad[strlen(bad) - 1] == ' '))
                continue; /* a file's values are trimmed */
            snprintf(line, sizeof line, "# a comment\n\n%s = %s\n", s->name, bad);
            snprintf(place, sizeof place, "%s:3: %s", config_path, s->name);
            CONFIG(line);
            REFUSED(PARSE("--config", config_path), place, bad, s->allowed);
        }
        REFUSED(PARSE(flag), flag, "needs a value", s->allowed);
    }
}

static void plugins_add_up_within_one_source(void **state)
{
    (void)state;
    assert_value(PARSE("--plugin", "a", "--plugin=b,c", "--plugin", "d"), "plugin", "a,b,c,d");
    assert_value(PARSE("--plugin", "a", "--plugin", "off"), "plugin", "off");
    assert_value(PARSE("--plugin", "a", "--plugin", "off", "--plugin", "b"), "plugin", "b");
    assert_value(PARSE("--plugin", "1,2,3,4", "--plugin", "5,6,7,8"), "plugin", "1,2,3,4,5,6,7,8");
    REFUSED(PARSE("--plugin", "1,2,3,4", "--plugin", "5,6,7,8,9"), "--plugin", "'5,6,7,8,9'",
            "up to 8");
    CONFIG("plugin = a\nplugin = b\n");
    assert_value(PARSE("--config", config_path), "plugin", "a,b");
    setenv("SLATE_PLUGIN", "c", 1);
    assert_value(PARSE("--config", config_path), "plugin", "c");
    assert_value(PARSE("--config", config_path, "--plugin", "d"), "plugin", "d");
    unsetenv("SLATE_PLUGIN");
}

/* ---- Passwords ------------------------------------------------------------------------------- */

static void a_password_is_never_shown(void **state)
{
    (void)state;
    static const char *const uris[][2] = {
        {"postgresql://me:secret@host/db", "postgresql://me:***@host/db"},
        {"postgres://me:secret@host:5432/db?a=b", "postgres://me:***@host:5432/db?a=b"},
        {"postgresql://me:se:c@ret@host", "postgresql://me:***@host"},
        {"postgresql://me:sec/ret?@host/x", "postgresql://me:***@host/x"},
        {"postgresql://:secret@/db", "postgresql://:***@/db"},
        {"postgresql://host/db?password=secret", "postgresql://host/db?password=***"},
        {"postgresql://host/db?user=me&sslPassword=secret&a=b",
         "postgresql://host/db?user=me&sslPassword=***&a=b"},
        {"postgresql://host/db?p%61ssword=secret", "postgresql://host/db?p%61ssword=***"},
        {"postgresql://me:secret@host/db?password=secret",
         "postgresql://me:***@host/db?password=***"},
        {"postgresql://me@host:5432/db", "postgresql://me@host:5432/db"},
        {"sqlite:a?password=b", "sqlite:a?password=b"},
        {"sqlite:/a//b:c@d", "sqlite:/a//b:c@d"},
    };
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        assert_string_equal(PARSE("--db", uris[i][0])->opts.db,
                            uris[i][0]); /* the store needs it */
        options_free(&last.opts);
        assert_value(PARSE("--db", uris[i][0]), "db", uris[i][1]);
    }
    REFUSED(PARSE("--db", "postgresq://me:secret@host/db"), "postgresq://me:***@host/db");
    assert_null(strstr(last.err, "secret"));
    REFUSED(PARSE("--db", "postgresql:/me:secret@host/db"), "'postgresql:***'");
    assert_null(strstr(last.err, "secret"));
    REFUSED(PARSE("--db", "Sqlite:x"), "'Sqlite:***'", "sqlite:PATH");
    REFUSED(PARSE("--db", "host=db password=secret"), "'host=***'");
    assert_null(strstr(last.err, "secret"));
}

/* ---- Flags ----------------------------------------------------------------------------------- */

static void a_bad_allocator_is_named_with_what_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--alloc", "nonsense")->result, OPTIONS_EXIT_USAGE);
    assert_string_equal(last.err,
                        "slate: --alloc: 'nonsense' is not allowed; it takes arena or malloc.\n");
}

static void an_unknown_flag_is_named_with_the_nearest(void **state)
{
    (void)state;
    REFUSED(PARSE("--aloc", "arena"), "--aloc is unknown", "did you mean --alloc?");
    REFUSED(PARSE("--body_limit=1M"), "--body_limit is unknown", "did you mean --body-limit?");
    REFUSED(PARSE("--hlep"), "did you mean --help?");
    REFUSED(PARSE("--frobnicate"), "--frobnicate is unknown", "--help lists");
    REFUSED(PARSE("--"), "-- is unknown");
    REFUSED(PARSE("--=1"), "is unknown");
    REFUSED(PARSE("-h"), "-h is unknown", "--help");
    assert_null(strstr(PARSE("--frobnicate")->err, "did you mean"));

    char endless[5000];
    memset(endless, 'a', sizeof endless - 1);
    memcpy(endless, "--", 2);
    endless[sizeof endless - 1] = '\0';
    REFUSED(PARSE(endless), "--aaaa", "is unknown");
}

static void a_positional_argument_is_refused(void **state)
{
    (void)state;
    REFUSED(PARSE("8080"), "'8080' is not a flag");
    REFUSED(PARSE("--alloc", "arena", "malloc"), "'malloc' is not a flag");
    REFUSED(PARSE(""), "'' is not a flag");
}

static void a_message_is_one_line_whatever_was_given(void **state)
{
    (void)state;
    REFUSED(PARSE("--alloc", "a\nslate: all is well\n"), "a?slate: all is well?",
            "arena or malloc");
    REFUSED(PARSE("--a\033[2Jb"), "--a?[2Jb is unknown");
    char endless[5000];
    memset(endless, '1', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    REFUSED(PARSE("--threads", endless), "--threads", "from 1 to 256");
}

/* ---- The config file ------------------------------------------------------------------------- */

static void a_config_file_has_comments_and_blank_lines(void **state)
{
    (void)state;
    CONFIG(
        "# slate\n\n  \t\nalloc=malloc\r\n\t retain \t=  64K  # per worker\n   # the end\njson-depth = 7");
    assert_value(PARSE("--config", config_path), "alloc", "malloc");
    assert_value(PARSE("--config", config_path), "retain", "64K");
    assert_value(PARSE("--config", config_path), "json-depth", "7");
    CONFIG("json-depth = 7\njson-depth = 8\n");
    assert_value(PARSE("--config", config_path), "json-depth", "8");
    CONFIG("");
    assert_value(PARSE("--config", config_path), "config", config_path);
    setenv("SLATE_CONFIG", config_path, 1);
    CONFIG("json-depth = 9\n");
    assert_value(PARSE(NULL), "json-depth", "9");
    unsetenv("SLATE_CONFIG");
}

static void a_bad_config_file_is_refused_with_its_line(void **state)
{
    (void)state;
    char place[64];
    snprintf(place, sizeof place, "%s:2: ", config_path);
    CONFIG("alloc = arena\naloc = malloc\n");
    REFUSED(PARSE("--config", config_path), place, "aloc is unknown", "did you mean alloc?");
    CONFIG("alloc = arena\nSLATE_ALLOC = malloc\n");
    REFUSED(PARSE("--config", config_path), place, "SLATE_ALLOC is unknown");
    CONFIG("alloc = arena\nhelp = 1\n");
    REFUSED(PARSE("--config", config_path), place, "help is unknown");
    CONFIG("alloc = arena\nalloc malloc\n");
    REFUSED(PARSE("--config", config_path), place, "'alloc malloc'", "name = value");
    CONFIG("alloc = arena\n= malloc\n");
    REFUSED(PARSE("--config", config_path), place, "is unknown");
    CONFIG("alloc = arena\nconfig = other\n");
    REFUSED(PARSE("--config", config_path), place, "config is not allowed in a file");
    CONFIG("alloc = arena\nalloc = malloc#\n");
    REFUSED(PARSE("--config", config_path), place, "'malloc#'");

    char endless[3000];
    memset(endless, '#', sizeof endless);
    memcpy(endless, "#\n", 2);
    write_config(endless, sizeof endless);
    REFUSED(PARSE("--config", config_path), place, "at most");
    static const char hidden[] = "alloc = arena\nalloc = malloc\0nonsense\n";
    write_config(hidden, sizeof hidden - 1);
    REFUSED(PARSE("--config", config_path), place);
}

static void a_config_file_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    REFUSED(PARSE("--config", "/nonexistent/slate.conf"), "--config", "/nonexistent/slate.conf",
            strerror(ENOENT));
    REFUSED(PARSE("--config", "/"), "--config", strerror(EISDIR));
    REFUSED(PARSE("--config", ""), "--config", "the name of a file");
}

/* ---- Options that depend on each other -------------------------------------------------------- */

static void idle_trim_follows_the_allocator_unless_given(void **state)
{
    (void)state;
    assert_value(PARSE("--alloc", "arena"), "idle-trim", "on");
    assert_value(PARSE("--alloc", "malloc"), "idle-trim", "off");
    assert_value(PARSE("--alloc", "malloc", "--idle-trim", "on"), "idle-trim", "on");
    assert_value(PARSE("--idle-trim", "off", "--alloc", "arena"), "idle-trim", "off");
    CONFIG("idle-trim = on\n");
    assert_value(PARSE("--alloc", "malloc", "--config", config_path), "idle-trim", "on");
}

static void trees_are_walked_with_malloc_and_with_arenas_if_wanted(void **state)
{
    (void)state;
    assert_value(PARSE("--alloc", "arena"), "json-walk", "off");
    assert_value(PARSE("--alloc", "malloc"), "json-walk", "on");
    assert_value(PARSE("--alloc", "arena", "--json-walk", "on"), "json-walk", "on");
    assert_value(PARSE("--json-walk", "on", "--alloc", "malloc"), "json-walk", "on");
    REFUSED(PARSE("--alloc", "malloc", "--json-walk", "off"), "--json-walk off", "--alloc malloc",
            "only the walk frees");
    CONFIG("json-walk = off\n");
    REFUSED(PARSE("--alloc", "malloc", "--config", config_path), "--json-walk off");
}

static void threads_follow_the_processors_and_connections(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    char words[16];
    int count = CPU_COUNT(&before);
    snprintf(words, sizeof words, "%d", count < 256 ? count : 256);
    assert_value(PARSE(NULL), "threads", words);

    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_value(PARSE(NULL), "threads", "1");
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);

    assert_value(PARSE("--max-connections", "1"), "threads", "1");
    REFUSED(PARSE("--max-connections", "2", "--threads", "3"), "--threads 3",
            "--max-connections 2");
}

static void values_that_cannot_work_together_are_refused(void **state)
{
    (void)state;
    REFUSED(PARSE("--body-limit", "9M"), "--body-limit 9M", "--request-memory 8M");
    REFUSED(PARSE("--request-memory", "512K"), "--body-limit 1M", "--request-memory 512K");
    REFUSED(PARSE("--memory-limit", "1023K"), "--body-limit 1M", "--memory-limit 1023K");
    assert_value(PARSE("--body-limit", "9M", "--request-memory", "0"), "body-limit", "9M");
    assert_value(PARSE("--body-limit", "8M", "--memory-limit", "8M"), "body-limit", "8M");
    REFUSED(PARSE("--admin", "127.0.0.1:8080"), "--listen", "--admin", "127.0.0.1:8080");
    assert_value(PARSE("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"), "admin",
                 "127.0.0.1:0");
}

static void times_and_sizes_are_counted_in_milliseconds_and_bytes(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--decay", "2m")->opts.decay, 120000);
    options_free(&last.opts);
    assert_int_equal(PARSE("--decay", "1500ms")->opts.decay, 1500);
    options_free(&last.opts);
    assert_int_equal(PARSE("--retain", "3K")->opts.retain, 3072);
    options_free(&last.opts);
    assert_true(PARSE("--memory-limit", "5G")->opts.memory_limit == (size_t)5 << 30);
    options_free(&last.opts);
    assert_null(PARSE("--admin", "off")->opts.admin);
    options_free(&last.opts);
    assert_int_equal(PARSE("--access-log", "clf")->opts.access_log, ACCESS_CLF);
    options_free(&last.opts);
    assert_int_equal(PARSE("--log-level", "debug")->opts.log_level, LOG_DEBUG);
    options_free(&last.opts);
    assert_value(PARSE("--retain", "1025"), "retain", "1025");
    assert_value(PARSE("--retain", "1K", "--retain", "auto"), "retain", "auto");
    assert_value(PARSE("--retain", "2048K"), "retain", "2M");
    assert_value(PARSE("--decay", "2m"), "decay", "120s");
}

/* ---- What is printed ------------------------------------------------------------------------- */

static void help_fits_a_screen_and_names_every_flag(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--help")->result, OPTIONS_EXIT_OK);
    assert_string_equal(last.err, "");
    size_t lines = 0;
    for (const char *line = last.out; *line != '\0'; lines++) {
        size_t length = strcspn(line, "\n");
        if (length > 80)
            fail_msg("wider than 80 columns: %.*s", (int)length, line);
        line += length + 1;
    }
    assert_in_range(lines, 24, 50);
    char flag[64];
    for (size_t i = 0; i < SAMPLES; i++) {
        snprintf(flag, sizeof flag, "\n  --%s ", samples[i].name);
        const char *line = strstr(last.out, flag);
        if (line == NULL) {
            fail_msg("--help lacks --%s", samples[i].name);
        } else if (samples[i].fallback != NULL) {
            snprintf(flag, sizeof flag, "[%s", samples[i].fallback);
            const char *fallback = strstr(line, flag);
            assert_true(fallback != NULL && fallback < strchr(line + 1, '\n'));
        }
    }
    assert_non_null(strstr(last.out, "--alloc arena|malloc "));
    assert_non_null(strstr(last.out, "--version"));
    assert_non_null(strstr(last.out, "--config"));
    REFUSED(PARSE("--help=1"), "--help takes no value");
}

static void the_manual_page_names_every_flag_and_variable(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--help-man")->result, OPTIONS_EXIT_OK);
    assert_string_equal(last.err, "");
    assert_memory_equal(last.out, ".Dd ", 4);
    char item[96], variable[64];
    for (size_t i = 0; i < SAMPLES; i++) {
        variable_of(samples[i].name, variable, sizeof variable);
        snprintf(item, sizeof item, "\n.It Fl Fl %s Ar ", samples[i].name);
        if (strstr(last.out, item) == NULL)
            fail_msg("the manual page lacks --%s", samples[i].name);
        snprintf(item, sizeof item, "\n.It Ev %s\n", variable);
        if (strstr(last.out, item) == NULL)
            fail_msg("the manual page lacks %s", variable);
    }
    /* Requests of mdoc begin with a dot and an upper-case letter: nothing else may. */
    for (const char *dot = last.out; (dot = strstr(dot, "\n.")) != NULL; dot += 2)
        assert_in_range(dot[2], 'A', 'Z');
}

static void the_version_is_the_project_s(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--version")->result, OPTIONS_EXIT_OK);
    assert_string_equal(last.out, "slate " SLATE_VERSION "\n");
    assert_string_equal(alloc_mode_name(ALLOC_ARENA), "arena");
    assert_string_equal(alloc_mode_name(ALLOC_MALLOC), "malloc");
}

static void nothing_is_printed_where_nothing_can_be(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY), saved = dup(STDOUT_FILENO);
    assert_true(full >= 0 && saved >= 0);
    fflush(stdout);
    assert_true(dup2(full, STDOUT_FILENO) == STDOUT_FILENO);
    int saved_err, err = capture(STDERR_FILENO, &saved_err);
    char *argv[] = {(char *)"slate", (char *)"--version", NULL};
    options_result result = options_parse(&last.opts, 2, argv);
    release(STDERR_FILENO, saved_err, err, last.err);
    clearerr(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
    close(saved);
    close(full);
    assert_int_equal(result, OPTIONS_EXIT_USAGE);
    assert_non_null(strstr(last.err, strerror(ENOSPC)));
}

/* ---- Set-up ---------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    char variable[64];
    for (size_t i = 0; i < SAMPLES; i++) {
        variable_of(samples[i].name, variable, sizeof variable);
        unsetenv(variable);
    }
    unsetenv("SLATE_CONFIG");
    int fd = mkstemp(config_path);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(config_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_tested_here),
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(a_flag_sets_every_option),
        cmocka_unit_test(each_source_is_stronger_than_the_one_below),
        cmocka_unit_test(a_bad_value_is_refused_wherever_it_stands),
        cmocka_unit_test(plugins_add_up_within_one_source),
        cmocka_unit_test(a_password_is_never_shown),
        cmocka_unit_test(a_bad_allocator_is_named_with_what_is_allowed),
        cmocka_unit_test(an_unknown_flag_is_named_with_the_nearest),
        cmocka_unit_test(a_positional_argument_is_refused),
        cmocka_unit_test(a_message_is_one_line_whatever_was_given),
        cmocka_unit_test(a_config_file_has_comments_and_blank_lines),
        cmocka_unit_test(a_bad_config_file_is_refused_with_its_line),
        cmocka_unit_test(a_config_file_that_cannot_be_read_is_refused),
        cmocka_unit_test(idle_trim_follows_the_allocator_unless_given),
        cmocka_unit_test(trees_are_walked_with_malloc_and_with_arenas_if_wanted),
        cmocka_unit_test(threads_follow_the_processors_and_connections),
        cmocka_unit_test(values_that_cannot_work_together_are_refused),
        cmocka_unit_test(times_and_sizes_are_counted_in_milliseconds_and_bytes),
        cmocka_unit_test(help_fits_a_screen_and_names_every_flag),
        cmocka_unit_test(the_manual_page_names_every_flag_and_variable),
        cmocka_unit_test(the_version_is_the_project_s),
        cmocka_unit_test(nothing_is_printed_where_nothing_can_be),
    };
    return cmocka_run_group_tests_name("options", tests, set_up, tear_down);
}
