/* Options of the document store: the form of its URI and of the list of indexes, and the URI as it may
 * be shown. What the URI names is for the store to find out. Used at start, on the main thread; the
 * mask also by /version. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "options_table.h"

static const char file_scheme[] = "sqlite:";
static const char *const server_schemes[] = {"postgresql://", "postgres://", NULL};

bool option_is_store(const char *text)
{
    if (strncmp(text, file_scheme, sizeof file_scheme - 1) == 0)
        return text[sizeof file_scheme - 1] != '\0';
    for (const char *const *scheme = server_schemes; *scheme; scheme++)
        if (strncmp(text, *scheme, strlen(*scheme)) == 0)
            return true;
    return false;
}

/* "people:/age,people:/address/city" */
bool option_is_indexes(const char *text)
{
    for (;;) {
        size_t name = 0;
        while (isalnum((unsigned char)text[name]) || (text[name] && strchr("._~-", text[name])))
            name++;
        if (name == 0 || text[name] != ':' || text[name + 1] != '/')
            return false;
        text += name + 1;
        text += strcspn(text, ",");
        if (*text == '\0')
            return true;
        text++;
    }
}

/* ---- Without passwords ------------------------------------------------------------------------- */

typedef struct masked {
    char *out;
    size_t used;
} masked;

static void show(masked *m, const char *text, size_t size)
{
    size_t room = OPTION_WORDS_MAX - 1 - m->used;
    if (size > room)
        size = room;
    memcpy(m->out + m->used, text, size);
    m->used += size;
    m->out[m->used] = '\0';
}

/* A name with an escape could be any. */
static bool is_secret(const char *name, size_t size)
{
    static const char word[] = "password";
    return memchr(name, '%', size) ||
           (size >= sizeof word - 1 &&
            strncasecmp(name + size - (sizeof word - 1), word, sizeof word - 1) == 0);
}

static void show_parameters(masked *m, const char *at)
{
    while (*at) { /* at the '?' or '&' */
        size_t name = 1 + strcspn(at + 1, "=&"), whole = 1 + strcspn(at + 1, "&");
        bool secret = at[name] == '=' && is_secret(at + 1, name - 1);
        show(m, at, secret ? name : whole);
        if (secret)
            show(m, "=***", 4);
        at += whole;
    }
}

/* `uri` may be mistyped: whatever stands between a ':' and the last '@' is a password, and where there
 * is no "//", whatever stands behind the first ':' or '='. */
void option_mask(const char *uri, char ret_words[static OPTION_WORDS_MAX])
{
    masked m = {.out = ret_words};
    ret_words[0] = '\0';
    const char *authority = strstr(uri, "//");
    if (strncmp(uri, file_scheme, sizeof file_scheme - 1) == 0) {
        show(&m, uri, strlen(uri));
        return;
    }
    if (!authority) {
        size_t name = strcspn(uri, ":=");
        show(&m, uri, name);
        if (uri[name] != '\0')
            show(&m, uri[name] == ':' ? ":***" : "=***", 4);
        return;
    }
    authority += 2;
    const char *at = strrchr(authority, '@');
    const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (colon) {
        show(&m, uri, (size_t)(colon - uri) + 1);
        show(&m, "***", 3);
        uri = at;
    }
    const char *query = strchrnul(uri, '?');
    show(&m, uri, (size_t)(query - uri));
    show_parameters(&m, query);
}
