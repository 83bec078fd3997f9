/* Options: one table (options.c) is flag, environment variable, config key, --help and manual page.
 * Precedence: flag, then SLATE_* environment, then --config file, then default. */
#ifndef SLATE_OPTIONS_H
#define SLATE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum { ALLOC_ARENA, ALLOC_MALLOC } alloc_mode;
typedef enum { READER_SLATE, READER_JANSSON } reader_mode;
typedef enum { ACCESS_OFF, ACCESS_JSON, ACCESS_CLF } access_format;
typedef enum { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG } log_level;

/* Times are milliseconds, sizes bytes. Strings live as long as the options. */
typedef struct options {
    alloc_mode alloc;          /* --alloc arena|malloc */
    bool pool;                 /* --pool on|off */
    const char *listen;        /* --listen 127.0.0.1:8080; [::1]:8080; port 0: any free one */
    const char *admin;         /* --admin 127.0.0.1:9090|off; NULL: off */
    unsigned threads;          /* --threads N; default: processors this process may run on */
    size_t body_limit;         /* --body-limit 1M */
    size_t request_memory;     /* --request-memory 8M; 0: no limit */
    size_t memory_limit;       /* --memory-limit 0; all requests together; 0: no limit */
    size_t retain;             /* --retain auto, per worker; SIZE_MAX: as needed */
    unsigned decay;            /* --decay 1s */
    bool idle_trim;            /* --idle-trim on|off; default: on with arena, off with malloc */
    unsigned json_depth;       /* --json-depth 128; 1 to 1024 */
    reader_mode json_reader;   /* --json-reader slate|jansson */
    bool json_walk;            /* --json-walk on|off; default: off with arena, on with malloc */
    unsigned max_connections;  /* --max-connections 4096 */
    unsigned per_ip;           /* --per-ip 0: no limit */
    unsigned header_timeout;   /* --header-timeout 10s */
    unsigned body_timeout;     /* --body-timeout 60s */
    unsigned idle_timeout;     /* --idle-timeout 15s */
    unsigned drain_timeout;    /* --drain-timeout 30s */
    size_t connection_memory;  /* --connection-memory 12K; 4K to 1M */
    const char *db;            /* --db sqlite:PATH|postgresql://...; NULL: off. May hold a password:
                                 show it by options_each only */
    unsigned db_timeout;       /* --db-timeout 5s */
    unsigned db_threads;       /* --db-threads 0: as many as threads */
    const char *db_indexes;    /* --db-indexes people:/age,people:/address/city; NULL: off */
    bool require_precondition; /* --require-precondition on|off */
    const char *plugin;        /* --plugin FILE.so,FILE.so; NULL: off */
    access_format access_log;  /* --access-log off|json|clf */
    log_level log_level;       /* --log-level error|warning|info|debug */
    const char *mem_debug;     /* --mem-debug LIST, see alloc/debug.h; NULL: off */
    const char *config;        /* --config FILE */
} options;

#define OPTION_FILES_MAX 8 /* in a list of files */

typedef enum { OPTIONS_RUN, OPTIONS_EXIT_OK, OPTIONS_EXIT_USAGE } options_result;

/* Fills `opts` from defaults, config file, environment and argv. --help, --help-man (the manual page
 * in mdoc) and --version print to stdout: OPTIONS_EXIT_OK. A bad flag or value, wherever it stands,
 * prints one line to stderr that names it and what is allowed: OPTIONS_EXIT_USAGE. Only after
 * OPTIONS_RUN is there anything for options_free to release. */
options_result options_parse(options *opts, int argc, char **argv);
void options_free(options *opts);

/* Calls `emit` once per option that has a value, with name and value in the words of the command
 * line ("retain", "256K"), for the log at start and /version: without passwords. The strings live
 * until `emit` returns. */
void options_each(const options *opts, void (*emit)(void *arg, const char *name, const char *value),
                  void *arg);

const char *alloc_mode_name(alloc_mode mode); /* "arena", "malloc" */

#endif
