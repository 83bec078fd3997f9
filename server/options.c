/* Options: reads the values of options_table.c from the defaults, the config file, the environment
 * and the command line. Runs once, at start, on the main thread; the strings are the options'. */
#include "options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "options_table.h"

#define PLACE_MAX 512        /* bytes of "file:line: " */
#define CONFIG_LINE_MAX 1024 /* bytes of a line of the config file */

/* Where a value came from; a higher one wins. */
typedef enum { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG } origin;

typedef struct parse {
    options *opts;
    origin from[OPTION_ROWS];
} parse;

/* One line to stderr, whatever the arguments hold. Returns false, for the caller to return. */
static bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool complain(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length > 0)
        log_clean(line, strlen(line));
    fprintf(stderr, "slate: %s\n", length > 0 ? line : "bad usage");
    return false;
}

/* Reads `text` and, if nothing stronger has set the option, stores it. `place` begins the message
 * about a bad value. */
static bool set(parse *p, const option_row *row, const char *text, origin from, const char *place)
{
    origin *before = &p->from[row - option_table];
    options *target = from >= *before ? p->opts : NULL;
    char allowed[OPTION_ALLOWED_MAX], shown[OPTION_WORDS_MAX];
    switch (option_store(target, row, text)) {
    case OPTION_NOT_ALLOWED:
        option_allowed(row, allowed);
        if (row->kind == OPTION_STORE) {
            option_mask(text, shown);
            text = shown;
        }
        return complain("%s: '%.200s' is not allowed; it takes %s.", place, text, allowed);
    case OPTION_NO_MEMORY:
        return complain("%s: out of memory.", place);
    case OPTION_GOOD:
        break;
    }
    if (target != NULL)
        *before = from;
    return true;
}

static const option_row *find_row(const char *name, size_t length)
{
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0)
            return row;
    }
    return NULL;
}

/* The row of an option that this file knows by name. */
static const option_row *find(const char *name)
{
    const option_row *row = find_row(name, strlen(name));
    assert(row != NULL);
    return row;
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Insertions, deletions and replacements that make `b` of the first `length` bytes of `a`. */
static size_t distance(const char *a, size_t length, const char *b)
{
    size_t row[OPTION_VARIABLE_MAX];
    size_t columns = strlen(b);
    assert(columns < OPTION_VARIABLE_MAX);
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[columns];
}

/* Complains about a name that no option has; `prefix` makes a flag of it, or a config key. */
static bool unknown(const char *place, const char *prefix, const char *name, size_t length)
{
    const char *nearest = NULL;
    size_t best = length / 4 + 2; /* further off is no misspelling */
    size_t considered = length < 64 ? length : 64;
    for (size_t i = 0; i < OPTION_ROWS + OPTION_COMMANDS; i++) {
        if (i >= OPTION_ROWS && prefix[0] == '\0')
            break;
        const char *candidate =
            i < OPTION_ROWS ? option_table[i].name : option_commands[i - OPTION_ROWS].name;
        size_t d = distance(name, considered, candidate);
        if (d < best) {
            best = d;
            nearest = candidate;
        }
    }
    if (nearest != NULL)
        return complain("%s%s%.*s is unknown; did you mean %s%s? See --help.", place, prefix,
                        (int)considered, name, prefix, nearest);
    return complain("%s%s%.*s is unknown; --help lists what there is.", place, prefix,
                    (int)considered, name);
}

static const option_command *find_command(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_COMMANDS; i++) {
        const option_command *command = &option_commands[i];
        if (strlen(command->name) == length && memcmp(command->name, name, length) == 0)
            return command;
    }
    return NULL;
}

static options_result run_command(const option_command *command)
{
    command->print(stdout);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain("--%s: cannot write to standard output: %s.", command->name, strerror(errno));
        return OPTIONS_EXIT_USAGE;
    }
    return OPTIONS_EXIT_OK;
}

static options_result read_flags(parse *p, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (name[0] != '-') {
            complain("'%.200s' is not a flag; slate takes flags only, see --help.", name);
            return OPTIONS_EXIT_USAGE;
        }
        if (strncmp(name, "--", 2) != 0) {
            complain("%.200s is unknown; flags begin with two dashes, see --help.", name);
            return OPTIONS_EXIT_USAGE;
        }
        name += 2;
        size_t length = strcspn(name, "=");
        const char *value = name[length] == '=' ? name + length + 1 : NULL;

        const option_command *command = find_command(name, length);
        if (command != NULL && value == NULL)
            return run_command(command);
        if (command != NULL) {
            complain("--%s takes no value.", command->name);
            return OPTIONS_EXIT_USAGE;
        }
        const option_row *row = find_row(name, length);
        if (row == NULL) {
            unknown("", "--", name, length);
            return OPTIONS_EXIT_USAGE;
        }
        if (value == NULL && ++i == argc) {
            char allowed[OPTION_ALLOWED_MAX];
            option_allowed(row, allowed);
            complain("--%s needs a value: %s.", row->name, allowed);
            return OPTIONS_EXIT_USAGE;
        }
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "--%s", row->name);
        if (!set(p, row, value != NULL ? value : argv[i], FROM_FLAG, place))
            return OPTIONS_EXIT_USAGE;
    }
    return OPTIONS_RUN;
}

/* ---- The environment and the config file ------------------------------------------------------ */

static bool read_environment(parse *p)
{
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        char variable[OPTION_VARIABLE_MAX];
        option_variable(row, variable);
        const char *value = getenv(variable);
        if (value != NULL && !set(p, row, value, FROM_ENVIRONMENT, variable))
            return false;
    }
    return true;
}

/* Cuts white space off both ends, in place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return text;
}

/* A '#' at the start or after white space: one inside a value stays. */
static void cut_comment(char *line)
{
    for (char *p = line; *p != '\0'; p++) {
        if (*p == '#' && (p == line || isspace((unsigned char)p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

static bool read_line(parse *p, char *line, const char *place)
{
    cut_comment(line);
    char *name = trim(line);
    if (*name == '\0')
        return true;
    char *equals = strchr(name, '=');
    if (equals == NULL)
        return complain("%s'%.200s' is not of the form name = value.", place, name);
    *equals = '\0';
    name = trim(name);
    const option_row *row = find_row(name, strlen(name));
    if (row == NULL)
        return unknown(place, "", name, strlen(name));
    if (row->kind == OPTION_FILE)
        return complain("%s%s is not allowed in a file.", place, name);
    char where[PLACE_MAX + OPTION_VARIABLE_MAX];
    snprintf(where, sizeof where, "%s%s", place, name);
    return set(p, row, trim(equals + 1), FROM_FILE, where);
}

static bool read_file(parse *p, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return complain("--config: cannot open %.200s: %s.", path, strerror(errno));
    char line[CONFIG_LINE_MAX], place[PLACE_MAX];
    bool good = true;
    for (unsigned number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
        snprintf(place, sizeof place, "%.200s:%u: ", path, number);
        /* No newline before the end of the file: too long, or a NUL hides it. */
        if (strchr(line, '\n') == NULL && !feof(file))
            good = complain("%sthe line is not text of at most %zu bytes.", place, sizeof line - 2);
        else
            good = read_line(p, line, place);
    }
    if (good && ferror(file))
        good = complain("--config: cannot read %.200s: %s.", path, strerror(errno));
    fclose(file);
    return good;
}

/* ---- All together ---------------------------------------------------------------------------- */

static bool set_defaults(parse *p)
{
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        if (row->fallback != NULL && !set(p, row, row->fallback, FROM_DEFAULT, row->name))
            return false;
    }
    return true;
}

static unsigned processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    /* More processors than cpu_set_t can name. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

/* Defaults that follow from other options. */
static void complete(parse *p)
{
    options *opts = p->opts;
    const option_row *threads = find("threads");
    if (p->from[find("idle-trim") - option_table] == FROM_DEFAULT)
        opts->idle_trim = opts->alloc == ALLOC_ARENA;
    if (p->from[find("json-walk") - option_table] == FROM_DEFAULT)
        opts->json_walk = opts->alloc == ALLOC_MALLOC;
    if (p->from[threads - option_table] == FROM_DEFAULT) {
        opts->threads = processors();
        if (opts->threads > threads->max)
            opts->threads = (unsigned)threads->max;
        if (opts->threads > opts->max_connections)
            opts->threads = opts->max_connections;
    }
}

/* Two values that are each allowed but cannot work together. */
static bool clash(const options *opts, const char *high, const char *low, const char *why)
{
    char buffers[2][OPTION_WORDS_MAX];
    return complain("--%s %s and --%s %s cannot work together: %s.", high,
                    option_words(opts, find(high), buffers[0]), low,
                    option_words(opts, find(low), buffers[1]), why);
}

static bool agree(const options *opts)
{
    static const char body[] = "a request's memory holds its body, which must not be larger";
    if (opts->request_memory != 0 && opts->body_limit > opts->request_memory)
        return clash(opts, "body-limit", "request-memory", body);
    if (opts->memory_limit != 0 && opts->body_limit > opts->memory_limit)
        return clash(opts, "body-limit", "memory-limit", body);
    if (!opts->json_walk && opts->alloc == ALLOC_MALLOC)
        return clash(opts, "json-walk", "alloc", "only the walk frees what malloc gave");
    if (opts->threads > opts->max_connections)
        return clash(opts, "threads", "max-connections", "every worker takes one at least");
    if (opts->admin != NULL && strcmp(opts->listen, opts->admin) == 0 &&
        strcmp(strrchr(opts->listen, ':'), ":0") != 0)
        return clash(opts, "listen", "admin", "each needs a port of its own");
    return true;
}

options_result options_parse(options *opts, int argc, char **argv)
{
    parse p = {.opts = opts};
    memset(opts, 0, sizeof *opts);
    options_result result = OPTIONS_EXIT_USAGE;
    if (set_defaults(&p))
        result = read_flags(&p, argc, argv);
    if (result == OPTIONS_RUN && !read_environment(&p))
        result = OPTIONS_EXIT_USAGE;
    /* Last, since flag and environment may name it; what they have set is stronger and stays. */
    if (result == OPTIONS_RUN && opts->config != NULL && !read_file(&p, opts->config))
        result = OPTIONS_EXIT_USAGE;
    if (result == OPTIONS_RUN) {
        complete(&p);
        if (!agree(opts))
            result = OPTIONS_EXIT_USAGE;
    }
    if (result != OPTIONS_RUN)
        options_free(opts);
    return result;
}

void options_free(options *opts)
{
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++)
        option_clear(opts, row);
}

void options_each(const options *opts, void (*emit)(void *arg, const char *name, const char *value),
                  void *arg)
{
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        char buffer[OPTION_WORDS_MAX];
        const char *value = option_words(opts, row, buffer);
        if (value != NULL)
            emit(arg, row->name, value);
    }
}

const char *alloc_mode_name(alloc_mode mode)
{
    return mode == ALLOC_ARENA ? "arena" : "malloc";
}
