/* Values of options: words to numbers and back, checked against their row of the table. Used at
 * start, on the main thread. */
#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../alloc/debug.h"
#include "options_table.h"

static_assert(sizeof(alloc_mode) == sizeof(unsigned) && sizeof(access_format) == sizeof(unsigned) &&
                  sizeof(log_level) == sizeof(unsigned),
              "a choice is stored as an unsigned");

typedef struct unit {
    const char *suffix;
    uint64_t factor;
} unit;

/* A value is printed in the last unit that divides it. */
static const unit count_units[] = {{"", 1}, {NULL, 0}};
static const unit size_units[] = {
    {"", 1}, {"K", 1u << 10}, {"M", 1u << 20}, {"G", 1u << 30}, {NULL, 0}};
static const unit time_units[] = {{"ms", 1}, {"m", 60000}, {"s", 1000}, {NULL, 0}};

static const unit *units_of(option_kind kind)
{
    return kind == OPTION_SIZE ? size_units : kind == OPTION_TIME ? time_units : count_units;
}

/* Decimal digits and a unit, nothing else; 0 needs no unit. */
static bool read_number(const char *text, const unit *units, uint64_t *ret_value)
{
    const char *rest = text;
    uint64_t value = 0;
    for (; *rest >= '0' && *rest <= '9'; rest++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*rest - '0'), &value))
            return false;
    }
    if (rest == text)
        return false;
    if (value == 0 && *rest == '\0') {
        *ret_value = 0;
        return true;
    }
    for (; units->suffix != NULL; units++) {
        if (strcmp(rest, units->suffix) == 0)
            return !__builtin_mul_overflow(value, units->factor, ret_value);
    }
    return false;
}

#define NUMBER_MAX 24 /* 20 digits and a unit */

static void write_number(uint64_t value, const unit *units, char ret_words[static NUMBER_MAX])
{
    const unit *best = units;
    for (const unit *u = units; u->suffix != NULL; u++) {
        if (value % u->factor == 0)
            best = u;
    }
    snprintf(ret_words, NUMBER_MAX, "%" PRIu64 "%s", value / best->factor,
             value == 0 ? "" : best->suffix);
}

/* The position of `text` among words separated by '|'. */
static bool read_word(const char *text, const char *allowed, unsigned *ret_index)
{
    size_t length = strlen(text);
    for (unsigned index = 0;; index++) {
        size_t word = strcspn(allowed, "|");
        if (word == length && memcmp(text, allowed, length) == 0) {
            *ret_index = index;
            return true;
        }
        if (allowed[word] == '\0')
            return false;
        allowed += word + 1;
    }
}

static void write_word(unsigned index, const char *allowed, char ret_words[static OPTION_WORDS_MAX])
{
    for (; index > 0; index--)
        allowed += strcspn(allowed, "|") + 1;
    snprintf(ret_words, OPTION_WORDS_MAX, "%.*s", (int)strcspn(allowed, "|"), allowed);
}

/* 127.0.0.1:8080 or [::1]:8080. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    uint64_t port;
    if (colon == NULL || !read_number(colon + 1, count_units, &port) || port > 65535)
        return false;
    size_t length = (size_t)(colon - text);
    bool v6 = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    if (v6) {
        text++;
        length -= 2;
    }
    if (length >= sizeof host)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    struct in6_addr address;
    return inet_pton(v6 ? AF_INET6 : AF_INET, host, &address) == 1;
}

void option_allowed(const option_row *row, char ret_words[static OPTION_ALLOWED_MAX])
{
    char low[NUMBER_MAX], high[NUMBER_MAX];
    const char *what = "a number", *units = "";
    switch (row->kind) {
    case OPTION_SWITCH:
    case OPTION_CHOICE: {
        size_t used = 0;
        for (const char *word = row->allowed; *word != '\0';) {
            size_t length = strcspn(word, "|");
            bool last = word[length] == '\0';
            used += (size_t)snprintf(ret_words + used, OPTION_ALLOWED_MAX - used, "%s%.*s",
                                     used == 0 ? ""
                                     : last    ? " or "
                                               : ", ",
                                     (int)length, word);
            word += length + !last;
        }
        return;
    }
    case OPTION_ADDRESS:
        snprintf(ret_words, OPTION_ALLOWED_MAX,
                 "a numeric address and a port, such as %s or [::1]:%s%s%s", row->fallback,
                 strrchr(row->fallback, ':') + 1, row->allowed ? ", or " : "",
                 row->allowed ? row->allowed : "");
        return;
    case OPTION_FILE:
        snprintf(ret_words, OPTION_ALLOWED_MAX, "the name of a file");
        return;
    case OPTION_FILES:
        snprintf(ret_words, OPTION_ALLOWED_MAX,
                 "up to %d names of files, separated by commas, or %s", OPTION_FILES_MAX,
                 row->allowed);
        return;
    case OPTION_INSTRUMENTS: {
        size_t used = (size_t)snprintf(ret_words, OPTION_ALLOWED_MAX, "one or more of ");
        for (const mem_debug_flag *flag = mem_debug_flags; flag->name; flag++)
            used +=
                (size_t)snprintf(ret_words + used, OPTION_ALLOWED_MAX - used, "%s%s%s,", flag->name,
                                 flag->argument ? "=" : "", flag->argument ? flag->argument : "");
        snprintf(ret_words + used - 1, OPTION_ALLOWED_MAX - used + 1, ", or %s", row->allowed);
        return;
    }
    case OPTION_STORE:
        snprintf(ret_words, OPTION_ALLOWED_MAX,
                 "sqlite:PATH, postgresql://USER@HOST/DATABASE, or %s", row->allowed);
        return;
    case OPTION_INDEXES:
        snprintf(ret_words, OPTION_ALLOWED_MAX,
                 "COLLECTION:POINTER, such as people:/age, separated by commas, or %s",
                 row->allowed);
        return;
    case OPTION_SIZE:
        what = "a size";
        units = " (bytes, or with K, M or G)";
        break;
    case OPTION_TIME:
        what = "a time";
        units = " (with ms, s or m)";
        break;
    case OPTION_COUNT:
        break;
    }
    write_number(row->min, units_of(row->kind), low);
    write_number(row->max, units_of(row->kind), high);
    snprintf(ret_words, OPTION_ALLOWED_MAX, "%s from %s to %s%s%s%s", what, low, high, units,
             row->allowed ? ", or " : "", row->allowed ? row->allowed : "");
}

/* ---- In struct options ----------------------------------------------------------------------- */

static void *member(options *opts, const option_row *row)
{
    return (char *)opts + row->offset;
}

static bool is_string(const option_row *row)
{
    return row->kind == OPTION_ADDRESS || row->kind == OPTION_FILE ||
           row->kind == OPTION_INSTRUMENTS || row->kind == OPTION_STORE ||
           row->kind == OPTION_INDEXES || row->kind == OPTION_FILES;
}

static void set_string(options *opts, const option_row *row, char *text)
{
    char **string = member(opts, row);
    free(*string);
    *string = text;
}

static option_verdict store_number(options *opts, const option_row *row, const char *text)
{
    uint64_t number;
    if (row->allowed && strcmp(text, row->allowed) == 0)
        number = SIZE_MAX;
    else if (!read_number(text, units_of(row->kind), &number) || number < row->min ||
             number > row->max)
        return OPTION_NOT_ALLOWED;
    if (opts == NULL)
        return OPTION_GOOD;
    if (row->kind == OPTION_SIZE)
        *(size_t *)member(opts, row) = (size_t)number;
    else
        *(unsigned *)member(opts, row) = (unsigned)number;
    return OPTION_GOOD;
}

static option_verdict store_word(options *opts, const option_row *row, const char *text)
{
    unsigned index;
    if (!read_word(text, row->allowed, &index))
        return OPTION_NOT_ALLOWED;
    if (opts == NULL)
        return OPTION_GOOD;
    if (row->kind == OPTION_SWITCH)
        *(bool *)member(opts, row) = index == 0;
    else
        memcpy(member(opts, row), &index, sizeof index);
    return OPTION_GOOD;
}

static bool is_files(const char *text)
{
    for (unsigned count = 1; count <= OPTION_FILES_MAX; count++) {
        size_t name = strcspn(text, ",");
        if (name == 0 || text[name] == '\0')
            return name > 0;
        text += name + 1;
    }
    return false;
}

static bool is_good_string(option_kind kind, const char *text)
{
    switch (kind) {
    case OPTION_ADDRESS:
        return is_address(text);
    case OPTION_INSTRUMENTS:
        return text[0] != '\0' && mem_debug_valid(text);
    case OPTION_STORE:
        return option_is_store(text);
    case OPTION_INDEXES:
        return option_is_indexes(text);
    case OPTION_FILES:
        return is_files(text);
    default:
        return text[0] != '\0';
    }
}

/* Adds to a list of the same source: the strongest is read first, and the others only checked. */
static option_verdict store_more(options *opts, const option_row *row, const char *text)
{
    char *joined;
    const char *before = *(const char **)member(opts, row);
    if (asprintf(&joined, "%s,%s", before, text) < 0)
        return OPTION_NO_MEMORY;
    if (!is_good_string(row->kind, joined)) {
        free(joined);
        return OPTION_NOT_ALLOWED;
    }
    set_string(opts, row, joined);
    return OPTION_GOOD;
}

static option_verdict store_string(options *opts, const option_row *row, const char *text)
{
    bool none = row->allowed != NULL && strcmp(text, row->allowed) == 0;
    if (!none && !is_good_string(row->kind, text))
        return OPTION_NOT_ALLOWED;
    if (opts == NULL)
        return OPTION_GOOD;
    if (row->kind == OPTION_FILES && !none && *(const char **)member(opts, row) != NULL)
        return store_more(opts, row, text);
    char *copy = none ? NULL : strdup(text);
    if (copy == NULL && !none)
        return OPTION_NO_MEMORY;
    set_string(opts, row, copy);
    return OPTION_GOOD;
}

option_verdict option_store(options *opts, const option_row *row, const char *text)
{
    if (is_string(row))
        return store_string(opts, row, text);
    if (row->kind == OPTION_SWITCH || row->kind == OPTION_CHOICE)
        return store_word(opts, row, text);
    return store_number(opts, row, text);
}

void option_clear(options *opts, const option_row *row)
{
    if (is_string(row))
        set_string(opts, row, NULL);
}

const char *option_words(const options *opts, const option_row *row,
                         char buffer[static OPTION_WORDS_MAX])
{
    const void *at = (const char *)opts + row->offset;
    unsigned index;
    switch (row->kind) {
    case OPTION_SWITCH:
        write_word(*(const bool *)at ? 0 : 1, row->allowed, buffer);
        break;
    case OPTION_CHOICE:
        memcpy(&index, at, sizeof index);
        write_word(index, row->allowed, buffer);
        break;
    case OPTION_COUNT:
    case OPTION_TIME:
        write_number(*(const unsigned *)at, units_of(row->kind), buffer);
        break;
    case OPTION_SIZE:
        if (row->allowed && *(const size_t *)at == SIZE_MAX)
            return row->allowed;
        write_number(*(const size_t *)at, size_units, buffer);
        break;
    case OPTION_STORE:
        if (*(const char *const *)at == NULL)
            return row->allowed;
        option_mask(*(const char *const *)at, buffer);
        break;
    case OPTION_ADDRESS:
    case OPTION_INSTRUMENTS:
    case OPTION_INDEXES:
    case OPTION_FILES:
    case OPTION_FILE: {
        const char *string = *(const char *const *)at;
        return string != NULL ? string : row->allowed;
    }
    }
    return buffer;
}
