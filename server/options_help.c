/* --help and the manual page, from the table of options. */
#include <ctype.h>
#include <string.h>

#include "../alloc/debug.h"
#include "options_table.h"

#define HELP_COLUMN 29 /* where the sentences of --help begin */

static void print_help_line(FILE *out, const char *name, const char *argument, const char *help)
{
    int used = fprintf(out, "  --%s%s%s", name, argument[0] != '\0' ? " " : "", argument);
    fprintf(out, "%*s%s", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "", help);
}

void option_print_help(FILE *out)
{
    fputs("slate serves a JSON API in which every request owns its memory.\n"
          "Usage: slate [--name value | --name=value]...\n"
          "Try:   curl -H 'Content-Type: application/json' -d '[7.6]' 127.0.0.1:8080/echo\n",
          out);
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        if (row->group != NULL)
            fprintf(out, "\n%s\n", row->group);
        print_help_line(out, row->name, row->argument, row->help);
        const char *words = row->fallback != NULL ? row->fallback : row->computed;
        if (words != NULL)
            fprintf(out, " [%s]", words);
        fputc('\n', out);
    }
    for (size_t i = 0; i < OPTION_COMMANDS; i++) {
        print_help_line(out, option_commands[i].name, "", option_commands[i].help);
        fputc('\n', out);
    }
    char variable[OPTION_VARIABLE_MAX];
    option_variable(&option_table[0], variable);
    fprintf(out,
            "\nSizes take K, M, G; times ms, s, m; [defaults]. --%s wins over %s\n"
            "in the environment, and that over `%s = ...` in --config's file.\n",
            option_table[0].name, variable, option_table[0].name);
}

/* ---- The manual page, in mdoc ---------------------------------------------------------------- */

/* Text for roff, a sentence a line. A backslash and a leading dot or quote would be commands, a bare
 * '-' a hyphen. */
static void print_roff(FILE *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-' && (p == text || p[-1] == ' ' || p[-1] == '-'))
            fputs("\\-", out);
        else if (p == text && (*p == '.' || *p == '\''))
            fprintf(out, "\\&%c", *p);
        else if (*p == ' ' && p > text && p[-1] == '.')
            fputc('\n', out);
        else
            fputc(*p, out);
    }
}

static void print_manual_row(FILE *out, const option_row *row)
{
    char allowed[OPTION_ALLOWED_MAX];
    option_allowed(row, allowed);
    fprintf(out, ".It Fl Fl %s Ar %s\n", row->name, row->argument);
    print_roff(out, row->detail);
    fputs("\nIt takes ", out);
    print_roff(out, allowed);
    fputs(".\n", out);
    if (row->fallback != NULL)
        fprintf(out, "Default:\n.Li %s .\n", row->fallback);
    else if (row->computed != NULL)
        fprintf(out, "Default: %s.\n", row->computed);
}

static void print_manual_instruments(FILE *out)
{
    fputs(".Sh INSTRUMENTS\n.Fl Fl mem-debug\ntakes a list of these, separated by commas.\n"
          ".Bl -tag -width Ds -compact\n",
          out);
    for (const mem_debug_flag *flag = mem_debug_flags; flag->name; flag++)
        fprintf(out, ".It Cm %s%s%s\n%c%s.\n", flag->name, flag->argument ? "=" : "",
                flag->argument ? flag->argument : "", toupper((unsigned char)flag->help[0]),
                flag->help + 1);
    fputs(".El\n", out);
}

static void print_manual_environment(FILE *out)
{
    fputs(".Sh ENVIRONMENT\n"
          "Every option that takes a value can be given here; a flag is stronger.\n"
          ".Bl -tag -width Ds -compact\n",
          out);
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        char variable[OPTION_VARIABLE_MAX];
        option_variable(row, variable);
        fprintf(out, ".It Ev %s\n.Fl Fl %s\n", variable, row->name);
    }
    fputs(".El\n", out);
}

static void print_manual_file(FILE *out)
{
    fputs(".Sh FILES\n"
          "The file of\n"
          ".Fl Fl config\n"
          "holds one\n"
          ".Ql name = value\n"
          "a line, where the name is an option without its dashes.\n"
          "Empty lines and what follows a\n"
          ".Ql #\n"
          "at the start of a line or after a space are ignored.\n"
          "The environment and flags are stronger than the file.\n"
          ".Bd -literal -offset indent\n"
          "# Two workers, small documents only.\n"
          "threads = 2\n"
          "body-limit = 64K\n"
          "header-timeout = 5s\n"
          ".Ed\n",
          out);
}

void option_print_manual(FILE *out)
{
    fputs(
        ".Dd November 30, 2026\n"
        ".Dt SLATE 1\n"
        ".Os slate " SLATE_VERSION "\n"
        ".Sh NAME\n"
        ".Nm slate\n"
        ".Nd JSON API server whose requests each own a memory context\n"
        ".Sh SYNOPSIS\n"
        ".Nm slate\n"
        ".Op Fl Fl Ar name Ns Op = Ns Ar value\n"
        ".Ar ...\n"
        ".Sh DESCRIPTION\n"
        ".Nm\n"
        "answers HTTP requests with JSON.\n"
        "What a request allocates lives in a memory context of its own and dies at once when the\n"
        "response has been sent.\n"
        "With\n"
        ".Fl Fl alloc Ar malloc\n"
        "the same server works on plain\n"
        ".Xr malloc 3 ,\n"
        "so that the two can be compared.\n"
        ".Pp\n"
        "A value follows its flag as the next argument or after a\n"
        ".Ql = .\n"
        "When a flag is given twice, the last one counts; those of\n"
        ".Fl Fl plugin\n"
        "add up.\n"
        "Sizes are bytes, or take one of the units K, M and G (powers of 1024).\n"
        "Times take one of the units ms, s and m.\n",
        out);
    for (const option_row *row = option_table; row < option_table + OPTION_ROWS; row++) {
        if (row->group != NULL)
            fprintf(out, "%s.Ss %s\n.Bl -tag -width Ds\n", row == option_table ? "" : ".El\n",
                    row->group);
        print_manual_row(out, row);
    }
    for (size_t i = 0; i < OPTION_COMMANDS; i++) {
        const char *help = option_commands[i].help;
        fprintf(out, ".It Fl Fl %s\n%c%s.\n", option_commands[i].name,
                toupper((unsigned char)help[0]), help + 1);
    }
    fputs(".El\n", out);
    print_manual_instruments(out);
    print_manual_environment(out);
    print_manual_file(out);
    fputs(".Sh SIGNALS\n"
          ".Bl -tag -width Ds\n"
          ".It Dv SIGTERM , SIGINT\n"
          "Takes no more connections, serves who waits for a place, finishes the requests in\n"
          "flight for at most\n"
          ".Fl Fl drain-timeout ,\n"
          "then stops.\n"
          "A second one stops at once.\n"
          ".It Dv SIGUSR1\n"
          "Writes the tree of memory contexts to standard error.\n"
          ".El\n"
          ".Sh EXIT STATUS\n"
          ".Bl -tag -width Ds -compact\n"
          ".It 0\n"
          "It was told to stop.\n"
          ".It 1\n"
          "It could not run; an address is in use, for example.\n"
          ".It 2\n"
          "An option was wrong.\n"
          ".El\n"
          ".Sh EXAMPLES\n"
          "Serve every interface from malloc, with a log line per request:\n"
          ".Pp\n"
          ".Dl slate --listen 0.0.0.0:8080 --alloc malloc --access-log json\n"
          ".Pp\n"
          "See what the process holds:\n"
          ".Pp\n"
          ".Dl curl http://127.0.0.1:9090/debug/memory\n",
          out);
}
