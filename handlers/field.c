/* Header fields that are lists (RFC 9110, section 5.6.1): elements divided by commas, their parameters
 * by semicolons, neither inside a quoted string. */
#include "field.h"

#include <string.h>
#include <strings.h>

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t");
}

/* The end of what begins at `at`: the next ',' or ';', or the end of the field. */
static const char *piece_end(const char *at)
{
    for (bool quoted = false; *at; at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && (*at == ',' || *at == ';'))
            break;
    }
    return at;
}

/* Behind the parameters of the element, and its comma. */
static const char *next_element(const char *at)
{
    for (at = piece_end(at); *at == ';'; at = piece_end(at + 1))
        ;
    return at + (*at == ',');
}

static bool equals(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

bool field_prefers(const char *prefer, const char *name, const char *value)
{
    for (const char *at = prefer; at && *at; at = next_element(at)) {
        at = skip_space(at);
        size_t length = strcspn(at, " \t=;,");
        if (!equals(at, length, name))
            continue;
        at = skip_space(at + length);
        if (*at != '=')
            return false;
        at = skip_space(at + 1);
        bool quoted = *at == '"';
        at += quoted;
        length = strcspn(at, quoted ? "\"" : " \t;,");
        return length == strlen(value) && memcmp(at, value, length) == 0;
    }
    return false;
}

/* A qvalue (section 12.4.2) in thousandths; what is none counts as 0. */
static unsigned read_quality(const char *at)
{
    unsigned quality = 0, digits = 0;
    if (*at != '0' && *at != '1')
        return 0;
    quality = (unsigned)(*at++ - '0') * 1000;
    if (*at == '.') {
        for (unsigned unit = 100; digits < 3 && at[1] >= '0' && at[1] <= '9'; digits++, unit /= 10)
            quality += (unsigned)(*++at - '0') * unit;
    }
    return quality > 1000 ? 1000 : quality;
}

/* The weight of the element at `at`, from its parameters. */
static unsigned element_quality(const char *at)
{
    for (at = piece_end(at); *at == ';'; at = piece_end(at)) {
        at = skip_space(at + 1);
        if ((*at == 'q' || *at == 'Q') && at[1] == '=')
            return read_quality(at + 2);
    }
    return 1000;
}

/* How specific the range is if the type falls under it; 0: it does not. */
static unsigned range_matches(const char *range, size_t length, const char *media_type)
{
    size_t type = strcspn(media_type, "/") + 1; /* with the slash */
    if (equals(range, length, media_type))
        return 3;
    if (length == type + 1 && range[type] == '*' && strncasecmp(range, media_type, type) == 0)
        return 2;
    return equals(range, length, "*/*");
}

unsigned field_quality(const char *accept, const char *media_type)
{
    unsigned best = 0, quality = 0;
    if (!accept || *skip_space(accept) == '\0')
        return 1000;
    for (const char *at = accept; *at; at = next_element(at)) {
        at = skip_space(at);
        unsigned matches = range_matches(at, strcspn(at, " \t;,"), media_type);
        if (matches > best) {
            best = matches;
            quality = element_quality(at);
        }
    }
    return quality;
}
