/* The table of options, for the files that work on it: options_table.c is the table, options.c
 * reads flags, environment and file by it, options_value.c knows the kinds of values, options_help.c
 * prints --help and the manual page. Constant data, safe from any thread. */
#ifndef SLATE_OPTIONS_TABLE_H
#define SLATE_OPTIONS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"

#ifndef SLATE_VERSION
#error "the build defines SLATE_VERSION from the version of the project"
#endif

typedef enum {
    OPTION_SWITCH,      /* bool: on, off */
    OPTION_CHOICE,      /* an enum: the words of `allowed`, in the order of its values */
    OPTION_COUNT,       /* unsigned */
    OPTION_SIZE,        /* size_t, bytes; SIZE_MAX for the word in `allowed`, if there is one */
    OPTION_TIME,        /* unsigned, milliseconds */
    OPTION_ADDRESS,     /* const char *; NULL for the word in `allowed`, if there is one */
    OPTION_FILE,        /* const char *; NULL: not given */
    OPTION_FILES,       /* const char *, a list, to which the flag adds; NULL for the word `off` */
    OPTION_INSTRUMENTS, /* const char *, a list as alloc/debug.h has it; NULL for the word `off` */
    OPTION_STORE,       /* const char *, a URI; NULL for the word `off` */
    OPTION_INDEXES      /* const char *, a list of COLLECTION:POINTER; NULL for the word `off` */
} option_kind;

typedef struct option_row {
    const char *group; /* starts a group of --help; NULL: in the group of the row above */
    const char *name;  /* as in --name, SLATE_NAME and `name =` */
    option_kind kind;
    size_t offset;        /* of the member of struct options */
    const char *fallback; /* default, in words of the command line; NULL: see `computed` */
    const char *computed; /* what the default follows from, for people; NULL: there is none */
    uint64_t min, max;    /* count, size, time */
    const char *allowed;  /* words, separated by '|' */
    const char *argument; /* stands for the value in --help */
    const char *help;     /* fits one line of --help */
    const char *detail;   /* whole sentences for the manual page */
} option_row;

#define OPTION_ROWS 31
extern const option_row option_table[OPTION_ROWS];

/* Flags that print something and end the program. */
typedef struct option_command {
    const char *name;
    void (*print)(FILE *out);
    const char *help;
} option_command;

#define OPTION_COMMANDS 3
extern const option_command option_commands[OPTION_COMMANDS];

/* "--alloc" is SLATE_ALLOC in the environment. Fills `ret_name`. */
#define OPTION_VARIABLE_MAX 40
void option_variable(const option_row *row, char ret_name[static OPTION_VARIABLE_MAX]);

/* ---- options_value.c ------------------------------------------------------------------------- */

typedef enum { OPTION_GOOD, OPTION_NOT_ALLOWED, OPTION_NO_MEMORY } option_verdict;

/* Reads `text` into the row's member of `opts`, which owns its strings; NULL: only checks it. A list of
 * files is added to the one that is there. */
option_verdict option_store(options *opts, const option_row *row, const char *text);
/* Releases what the member owns. */
void option_clear(options *opts, const option_row *row);

/* The member in words of the command line, in `buffer` or in `opts`; NULL: it has no value. */
#define OPTION_WORDS_MAX 512 /* a longer URI is shown without its end */
const char *option_words(const options *opts, const option_row *row,
                         char buffer[static OPTION_WORDS_MAX]);

/* What `row` allows, as the end of "it takes ...". Fills `ret_words`. */
#define OPTION_ALLOWED_MAX 256
void option_allowed(const option_row *row, char ret_words[static OPTION_ALLOWED_MAX]);

/* ---- options_db.c ----------------------------------------------------------------------------- */

bool option_is_store(const char *text);
bool option_is_indexes(const char *text);
/* The URI of a store with stars for passwords. Fills `ret_words`. */
void option_mask(const char *uri, char ret_words[static OPTION_WORDS_MAX]);

/* ---- options_help.c -------------------------------------------------------------------------- */

void option_print_help(FILE *out);
void option_print_manual(FILE *out);

#endif
