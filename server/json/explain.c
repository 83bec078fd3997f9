/* Finds what is wrong with a text that a parser has refused. The parser keeps no position and makes
 * no sentences, so that good texts do not pay for bad ones; this file reads the text a second time,
 * builds nothing, and stops at the first byte that cannot stand where it does. */
#include "explain.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "utf8.h"

#define SNIPPET_MAX 60 /* bytes of the text that are shown in a sentence */

typedef struct scan {
    const char *text;
    size_t size, at;
    bool nul; /* the newest string has one, escaped */
    json_read_problem *problem;
} scan;

/* What may stand next. */
typedef enum {
    VALUE,
    VALUE_OR_END,
    KEY,
    KEY_OR_END,
    COLON,
    COMMA_OR_END_OF_ARRAY,
    COMMA_OR_END_OF_OBJECT,
    END_OF_TEXT
} next;

static const struct {
    const char *name;        /* for people */
    const char *punctuation; /* of which one may stand here */
    bool scalar, key;
} expected[] = {
    [VALUE] = {.name = "a value", .punctuation = "[{", .scalar = true},
    [VALUE_OR_END] = {.name = "a value or ']'", .punctuation = "[{]", .scalar = true},
    [KEY] = {.name = "a key in double quotes", .punctuation = "", .key = true},
    [KEY_OR_END] = {.name = "a key in double quotes or '}'", .punctuation = "}", .key = true},
    [COLON] = {.name = "':'", .punctuation = ":"},
    [COMMA_OR_END_OF_ARRAY] = {.name = "',' or ']'", .punctuation = ",]"},
    [COMMA_OR_END_OF_OBJECT] = {.name = "',' or '}'", .punctuation = ",}"},
    [END_OF_TEXT] = {.name = "the end of the text", .punctuation = ""},
};

/* ---- Faults ---------------------------------------------------------------------------------- */

static void locate(const scan *s, size_t offset)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (s->text[i] == '\n') {
            line++;
            column = 1;
        } else if ((s->text[i] & 0xC0) != 0x80) { /* characters, not bytes */
            column++;
        }
    }
    s->problem->line = line < INT_MAX ? (int)line : INT_MAX;
    s->problem->column = column < INT_MAX ? (int)column : INT_MAX;
    s->problem->offset = offset;
}

/* Always false, so that scanners can return it. */
static __attribute__((format(printf, 4, 5))) bool fault(const scan *s, json_read_status status,
                                                        size_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->problem->detail, sizeof s->problem->detail, format, args);
    va_end(args);
    s->problem->status = status;
    locate(s, offset);
    return false;
}

/* The length of the longest start of `text` that can be shown: valid UTF-8 without control
 * characters, not cut within a character. */
static int snippet(const char *text, size_t size)
{
    size_t length = 0;
    while (length < size && (unsigned char)text[length] >= 0x20) {
        size_t sequence = utf8_sequence(text + length, size - length);
        if (!sequence || length + sequence > SNIPPET_MAX)
            break;
        length += sequence;
    }
    return (int)length;
}

/* The byte or character at `s->at` cannot stand there. */
static bool unexpected(const scan *s, const char *wanted)
{
    const char *text = s->text + s->at;
    size_t left = s->size - s->at, length = left ? utf8_sequence(text, left) : 0;
    if (!left)
        return fault(s, JSON_READ_SYNTAX, s->at, "The text ends where %s must stand.", wanted);
    if (s->at == 0 && left >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return fault(s, JSON_READ_SYNTAX, s->at,
                     "The text starts with a byte order mark, which JSON does not allow.");
    if (!length || (unsigned char)*text < 0x20 || *text == 0x7F)
        return fault(s, JSON_READ_SYNTAX, s->at, "Found the byte 0x%02x where %s must stand.",
                     (unsigned char)*text, wanted);
    return fault(s, JSON_READ_SYNTAX, s->at, "Found %s%.*s%s where %s must stand.",
                 *text == '\'' ? "\"" : "'", (int)length, text, *text == '\'' ? "\"" : "'", wanted);
}

/* ---- Tokens: true, and `at` behind the token; or the fault ------------------------------------- */

static bool is_digit(const scan *s)
{
    return s->at < s->size && s->text[s->at] >= '0' && s->text[s->at] <= '9';
}

static bool is_letter(const scan *s)
{
    return s->at < s->size && (unsigned char)((s->text[s->at] | 0x20) - 'a') < 26;
}

/* Four hexadecimal digits at `offset`, or -1. */
static int hexadecimal(const scan *s, size_t offset)
{
    int value = 0;
    for (size_t i = offset; i < offset + 4; i++) {
        char c = i < s->size ? s->text[i] : '\0';
        if (c >= '0' && c <= '9')
            value = value << 4 | (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            value = value << 4 | ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static bool scan_escape(scan *s)
{
    size_t start = s->at++;
    char c = s->at < s->size ? s->text[s->at++] : '\0';
    if (c && strchr("\"\\/bfnrt", c))
        return true;
    if (c != 'u')
        return fault(s, JSON_READ_SYNTAX, start,
                     "A backslash in a string must be followed by one of \" \\ / b f n r t u.");
    int value = hexadecimal(s, s->at);
    if (value < 0)
        return fault(s, JSON_READ_SYNTAX, start,
                     "\\u in a string must be followed by four hexadecimal digits.");
    s->at += 4;
    s->nul |= value == 0;
    if (value < 0xD800 || value > 0xDFFF)
        return true;
    if (value < 0xDC00 && s->size - s->at >= 6 && memcmp(s->text + s->at, "\\u", 2) == 0) {
        int low = hexadecimal(s, s->at + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            s->at += 6;
            return true;
        }
    }
    return fault(s, JSON_READ_SYNTAX, start, "The escape \\u%04x is half of a surrogate pair.",
                 (unsigned)value);
}

static bool scan_string(scan *s)
{
    s->at++;
    s->nul = false;
    while (s->at < s->size) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c == '\\') {
            if (!scan_escape(s))
                return false;
            continue;
        }
        if (c < 0x20)
            return fault(s, JSON_READ_SYNTAX, s->at,
                         "The control character 0x%02x in a string must be escaped.", c);
        size_t length = utf8_sequence(s->text + s->at, s->size - s->at);
        if (!length)
            return fault(s, JSON_READ_SYNTAX, s->at, "The byte 0x%02x in a string is not UTF-8.",
                         c);
        s->at += length;
    }
    return fault(s, JSON_READ_SYNTAX, s->at, "The text ends inside a string.");
}

static bool scan_digits(scan *s)
{
    if (!is_digit(s))
        return unexpected(s, "a digit");
    while (is_digit(s))
        s->at++;
    return true;
}

/* Whether the number from `start` on can be kept. */
static bool in_range(const scan *s, size_t start)
{
    number n;
    const char *token = s->text + start;
    size_t length = s->at - start;
    if (!number_scan(token, token + length, &n) || n.kind != NUMBER_OUT_OF_RANGE)
        return true;
    bool real =
        memchr(token, '.', length) || memchr(token, 'e', length) || memchr(token, 'E', length);
    return fault(s, JSON_READ_REFUSED, start,
                 real ? "The number %.*s is out of the range of a double."
                      : "The integer %.*s does not fit into 64 bits.",
                 snippet(token, length), token);
}

static bool scan_number(scan *s)
{
    size_t start = s->at;
    if (s->text[s->at] == '-')
        s->at++;
    if (s->at < s->size && s->text[s->at] == '0') {
        s->at++;
        if (is_digit(s))
            return fault(s, JSON_READ_SYNTAX, s->at - 1, "A number must not have leading zeros.");
    } else if (!scan_digits(s)) {
        return false;
    }
    if (s->at < s->size && s->text[s->at] == '.') {
        s->at++;
        if (!scan_digits(s))
            return false;
    }
    if (s->at < s->size && (s->text[s->at] | 0x20) == 'e') {
        s->at++;
        if (s->at < s->size && (s->text[s->at] == '+' || s->text[s->at] == '-'))
            s->at++;
        if (!scan_digits(s))
            return false;
    }
    return in_range(s, start);
}

static bool scan_word(scan *s)
{
    size_t start = s->at;
    while (is_letter(s))
        s->at++;
    const char *word = s->text + start;
    size_t length = s->at - start;
    if ((length == 4 && (!memcmp(word, "true", 4) || !memcmp(word, "null", 4))) ||
        (length == 5 && !memcmp(word, "false", 5)))
        return true;
    return fault(s, JSON_READ_SYNTAX, start, "Found '%.*s' where a value must stand.",
                 snippet(word, length), word);
}

static bool scan_scalar(scan *s, const char *wanted)
{
    char c = s->text[s->at];
    if (c == '"')
        return scan_string(s);
    if (c == '-' || is_digit(s))
        return scan_number(s);
    if (is_letter(s))
        return scan_word(s);
    return unexpected(s, wanted);
}

/* ---- The grammar ------------------------------------------------------------------------------ */

static bool scan_key(scan *s, json_suspect suspect)
{
    size_t start = s->at;
    if (!scan_string(s))
        return false;
    if (s->nul)
        return fault(s, JSON_READ_REFUSED, start, "A key must not contain \\u0000.");
    if (suspect.kind != SUSPECT_DUPLICATE || suspect.end != s->at)
        return true;
    const char *key = s->text + start + 1;
    return fault(s, JSON_READ_DUPLICATE, start, "The key \"%.*s\" stands twice in one object.",
                 snippet(key, s->at - start - 2), key);
}

static bool is_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

void json_explain(const char *text, size_t size, unsigned depth, json_suspect suspect,
                  json_read_problem *ret_problem)
{
    scan s = {text, size, 0, false, ret_problem};
    /* What to expect behind a value, by nesting. */
    unsigned char behind[JSON_READ_DEPTH_MAX + 1] = {END_OF_TEXT};
    unsigned nesting = 0;
    next want = VALUE;

    assert(depth <= JSON_READ_DEPTH_MAX);
    *ret_problem = (json_read_problem){.status = JSON_READ_OK};
    for (;;) {
        while (s.at < size && is_in(text[s.at], " \t\n\r"))
            s.at++;
        size_t start = s.at;
        char c = start < size ? text[start] : '\0';
        if (start == size && want == END_OF_TEXT)
            return;

        if (is_in(c, expected[want].punctuation)) {
            s.at++;
            if (c == ':') {
                want = VALUE;
            } else if (c == ',') {
                want = want == COMMA_OR_END_OF_OBJECT ? KEY : VALUE;
            } else if (c == ']' || c == '}') {
                want = behind[--nesting];
            } else if (nesting == depth) {
                fault(&s, JSON_READ_REFUSED, start, "Nested deeper than %u, which is the limit.",
                      depth);
                return;
            } else {
                behind[++nesting] = c == '{' ? COMMA_OR_END_OF_OBJECT : COMMA_OR_END_OF_ARRAY;
                want = c == '{' ? KEY_OR_END : VALUE_OR_END;
            }
            continue;
        }

        bool good;
        if (expected[want].key && c == '"')
            good = scan_key(&s, suspect);
        else if (expected[want].scalar && start < size)
            good = scan_scalar(&s, expected[want].name);
        else
            good = unexpected(&s, expected[want].name);
        if (!good)
            return;
        want = expected[want].key ? COLON : behind[nesting];
    }
}
