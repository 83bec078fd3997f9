/* /echo: parses the body and writes it back, or only says that it is good. */
#include <string.h>
#include <strings.h>

#include "builtin.h"

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t");
}

/* The end of the header's element or parameter at `at`: the next ',' or one of `also` that is not
 * inside a quoted string. */
static const char *element_end(const char *at, char also)
{
    for (bool quoted = false; *at; at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && (*at == ',' || *at == also))
            break;
    }
    return at;
}

/* Whether a Prefer header (RFC 7240) asks for return=minimal. The first `return` counts. */
static bool prefers_minimal(const char *header)
{
    while (header && *header) {
        const char *name = skip_space(header), *end = element_end(header, ';');
        size_t length = strcspn(name, " \t=;,");
        if (length == 6 && strncasecmp(name, "return", 6) == 0) {
            const char *value = skip_space(name + length);
            if (value >= end || *value != '=')
                return false;
            value = skip_space(value + 1);
            size_t size = strcspn(value, " \t;,");
            return (size == 7 && memcmp(value, "minimal", 7) == 0) ||
                   (size == 9 && memcmp(value, "\"minimal\"", 9) == 0);
        }
        header = element_end(end, ',');
        header += *header == ',';
    }
    return false;
}

slate_result echo(slate_request *req)
{
    json_t *doc = slate_body_json(req);
    if (!doc)
        return SLATE_ANSWERED;
    if (prefers_minimal(slate_header(req, "Prefer"))) {
        slate_set_header(req, "Preference-Applied", "return=minimal");
        return slate_answer_empty(req, 204);
    }
    return slate_answer_json(req, 200, doc);
}
