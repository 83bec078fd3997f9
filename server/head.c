/* The head of a request: the framing checks that libmicrohttpd 0.9.75 lacks (RFC 9112), what can be
 * decided before the body, and the values that handlers ask for. */
#include <string.h>
#include <strings.h>

#include "http.h"

/* What the headers say, gathered in one pass. */
typedef struct header_scan {
    slate_request *req;
    const char *bad; /* why the request is malformed; NULL: it is not */
    unsigned hosts, lengths, codings;
    const char *length, *coding, *expect;
} header_scan;

static bool equals(const char *text, size_t length, const char *literal)
{
    return strlen(literal) == length && strncasecmp(text, literal, length) == 0;
}

#define TOKEN 1u /* of RFC 9110, section 5.6.2 */
#define HOST 2u  /* of RFC 3986, section 3.2.2, with its port; no comma */
static const unsigned char allowed_in[256] = {
    ['0' ... '9'] = TOKEN | HOST,
    ['A' ... 'Z'] = TOKEN | HOST,
    ['a' ... 'z'] = TOKEN | HOST,
    ['!'] = TOKEN | HOST,
    ['$'] = TOKEN | HOST,
    ['%'] = TOKEN | HOST,
    ['&'] = TOKEN | HOST,
    ['\''] = TOKEN | HOST,
    ['*'] = TOKEN | HOST,
    ['+'] = TOKEN | HOST,
    ['-'] = TOKEN | HOST,
    ['.'] = TOKEN | HOST,
    ['_'] = TOKEN | HOST,
    ['~'] = TOKEN | HOST,
    ['#'] = TOKEN,
    ['^'] = TOKEN,
    ['`'] = TOKEN,
    ['|'] = TOKEN,
    ['('] = HOST,
    [')'] = HOST,
    [':'] = HOST,
    [';'] = HOST,
    ['='] = HOST,
    ['['] = HOST,
    [']'] = HOST,
};

static bool is_made_of(unsigned set, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!(allowed_in[(unsigned char)text[i]] & set))
            return false;
    }
    return length > 0;
}

static bool is_token(const char *text, size_t length)
{
    return is_made_of(TOKEN, text, length);
}

static bool is_host(const char *text, size_t length)
{
    return is_made_of(HOST, text, length) && text[0] != ':';
}

static void scan_header(header_scan *scan, const char *name, size_t name_size, const char *value,
                        size_t value_size)
{
    if (!is_token(name, name_size))
        scan->bad = "A header name is not a token (RFC 9110, section 5.6.2).";
    else if (value && strlen(value) != value_size)
        scan->bad = "A header value contains a NUL byte.";
    if (scan->bad)
        return;
    /* The lengths of the names tell nearly all others apart at once. */
    switch (name_size) {
    case 4:
        if (equals(name, name_size, "Host")) {
            scan->hosts++;
            if (!is_host(value, value_size))
                scan->bad = "The Host header is not a host.";
        }
        break;
    case 6:
        if (equals(name, name_size, "Expect"))
            scan->expect = value;
        break;
    case 12:
        if (equals(name, name_size, "Content-Type"))
            scan->req->media_type = value;
        else if (equals(name, name_size, "X-Request-Id") && value_size <= REQUEST_ID_MAX &&
                 is_token(value, value_size)) {
            scan->req->id = value;
            scan->req->id_given = true;
        }
        break;
    case 14:
        if (equals(name, name_size, "Content-Length")) {
            scan->lengths++;
            scan->length = value;
        }
        break;
    case 17:
        if (equals(name, name_size, "Transfer-Encoding")) {
            scan->codings++;
            scan->coding = value;
        }
        break;
    }
}

static enum MHD_Result scan_value(void *arg, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
    (void)kind;
    header_scan *scan = arg;
    scan_header(scan, name, name_size, value ? value : "", value ? value_size : 0);
    return scan->bad ? MHD_NO : MHD_YES;
}

/* Decimal digits only. false: anything else, or more than 64 bits. */
static bool parse_length(const char *text, uint64_t *ret_length)
{
    uint64_t length = 0;
    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(length, (uint64_t)10, &length) ||
            __builtin_add_overflow(length, (uint64_t)(*text - '0'), &length))
            return false;
    }
    *ret_length = length;
    return length != UNKNOWN_LENGTH;
}

#define BAD_REQUEST(why) ((request_head){.status = 400, .slug = "bad-request", .detail = (why)})

/* RFC 9112, sections 3.2, 6.1 and 6.3: whatever could be framed in two ways is refused. */
static request_head check_framing(const header_scan *scan)
{
    if (scan->bad)
        return BAD_REQUEST(scan->bad);
    if (scan->hosts > 1)
        return BAD_REQUEST("There is more than one Host header.");
    if (scan->hosts == 0 && !scan->req->http_1_0)
        return BAD_REQUEST("The Host header is missing.");
    if (scan->lengths > 1)
        return BAD_REQUEST("There is more than one Content-Length header.");
    if (scan->codings > 1)
        return BAD_REQUEST("There is more than one Transfer-Encoding header.");
    if (scan->codings > 0 && scan->lengths > 0)
        return BAD_REQUEST("Content-Length and Transfer-Encoding exclude each other.");
    if (scan->codings > 0 && scan->req->http_1_0)
        return BAD_REQUEST("HTTP/1.0 has no Transfer-Encoding.");
    if (scan->codings > 0) {
        if (strcasecmp(scan->coding, "chunked") != 0)
            return (request_head){.status = 501,
                                  .slug = "transfer-coding",
                                  .detail = "The only transfer coding known is chunked."};
        return (request_head){.body = UNKNOWN_LENGTH};
    }
    request_head f = {0};
    if (scan->lengths > 0 && !parse_length(scan->length, &f.body))
        return BAD_REQUEST("Content-Length is not a number of bytes.");
    return f;
}

/* Whether a media type's parameters name no other charset than UTF-8. */
static bool charset_accepted(const char *parameters)
{
    static const char name[] = "charset=", utf8[] = "utf-8";
    for (const char *at = parameters; (at = strchr(at, ';'));) {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, name, sizeof name - 1) != 0)
            continue;
        at += sizeof name - 1;
        at += *at == '"';
        if (strncasecmp(at, utf8, sizeof utf8 - 1) != 0 ||
            strcspn(at + sizeof utf8 - 1, "\"; \t") > 0)
            return false;
    }
    return true;
}

/* A media type against a comma-separated list; parameters do not matter, but a charset must be
 * UTF-8. "application/json" stands for every "+json" type too (RFC 6838, section 4.2.8). */
static bool media_type_accepted(const char *type, const char *list)
{
    size_t length = strcspn(type, "; \t");
    if (!charset_accepted(type + length))
        return false;
    for (const char *at = list; *at;) {
        size_t size = strcspn(at, ",");
        if (size == length && strncasecmp(at, type, length) == 0)
            return true;
        if (size == strlen("application/json") && strncasecmp(at, "application/json", size) == 0 &&
            length > 5 && strncasecmp(type + length - 5, "+json", 5) == 0)
            return true;
        at += size;
        at += strspn(at, ", ");
    }
    return false;
}

const char *const http_method_names[METHODS] = {
    [METHOD_GET] = "GET",         [METHOD_HEAD] = "HEAD",   [METHOD_POST] = "POST",
    [METHOD_PUT] = "PUT",         [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
    [METHOD_OPTIONS] = "OPTIONS", [METHOD_OTHER] = "other",
};

/* Of those that a route may have a handler for. */
static const slate_method verbs[METHOD_OPTIONS] = {
    [METHOD_GET] = SLATE_GET, [METHOD_HEAD] = SLATE_GET,    [METHOD_POST] = SLATE_POST,
    [METHOD_PUT] = SLATE_PUT, [METHOD_PATCH] = SLATE_PATCH, [METHOD_DELETE] = SLATE_DELETE,
};

static http_method find_method(const char *name)
{
    http_method method = METHOD_GET;
    while (method < METHOD_OTHER && strcmp(name, http_method_names[method]) != 0)
        method++;
    return method;
}

/* What can be said before the body: route, method, media type, expectation. */
static early_answer decide_early(slate_request *req, const header_scan *scan, uint64_t body)
{
    bool has_verb = req->method_id < METHOD_OPTIONS,
         asks_options = req->method_id == METHOD_OPTIONS;
    if (has_verb)
        req->verb = verbs[req->method_id];
    if (asks_options && strcmp(req->path, "*") == 0)
        return EARLY_OPTIONS;
    req->route = router_match(req->conn->listener->routes, req->path, &req->request, req->params,
                              ROUTE_PARAMS);
    if (!req->route)
        return EARLY_NOT_FOUND;
    if (asks_options)
        return EARLY_OPTIONS;
    if (!has_verb || !req->route->is->on[req->verb])
        return EARLY_NOT_ALLOWED;
    if (scan->expect && strcasecmp(scan->expect, "100-continue") != 0)
        return EARLY_EXPECTATION;
    const char *consumes = req->route->is->consumes[req->verb];
    if (consumes && (body > 0 || req->media_type) &&
        (!req->media_type || !media_type_accepted(req->media_type, consumes)))
        return EARLY_MEDIA_TYPE;
    return EARLY_NONE;
}

request_head http_read_head(slate_request *req, const char *url)
{
    header_scan scan = {.req = req};
    req->method_id = find_method(req->method);
    MHD_get_connection_values_n(req->mhd, MHD_HEADER_KIND, scan_value, &scan);
    if (!percent_valid(url))
        scan.bad = "A percent escape in the path is not valid.";
    else if (req->query && !percent_valid(req->query))
        scan.bad = "A percent escape in the query is not valid.";
    request_head head = check_framing(&scan);
    head.expects_continue = scan.expect != NULL;
    if (head.status == 0)
        req->early = decide_early(req, &scan, head.body);
    return head;
}

/* ---- Query and header values, for handlers ------------------------------------------------------- */

/* `size` bytes at `text`, which a NUL follows, decoded. '+' stays itself: that it means a space is
 * HTML's, not a URI's (RFC 3986). NULL: refused. */
static const char *decode_query(slate_request *req, const char *text, size_t size)
{
    return memchr(text, '%', size) ? percent_decode(&req->request, text, size, NULL) : text;
}

/* name=value, or name, of `size` bytes. */
static bool split_parameter(slate_request *req, query_parameter *to, char *text, size_t size)
{
    char *equals = memchr(text, '=', size);
    size_t name_size = equals ? (size_t)(equals - text) : size;
    text[size] = text[name_size] = '\0';
    to->name = decode_query(req, text, name_size);
    to->value = equals ? decode_query(req, equals + 1, size - name_size - 1) : "";
    return to->name && to->value;
}

/* At first use. false: refused. */
static bool split_query(slate_request *req)
{
    size_t size = strlen(req->query), count = 1;
    for (const char *at = req->query; (at = strchr(at, '&')); at++)
        count++;
    query_parameter *all = mem_alloc(&req->request, count * sizeof *all + size + 1);
    if (!all)
        return false;
    char *at = (char *)(all + count), *end = at + size;
    memcpy(at, req->query, size + 1);
    size_t found = 0;
    while (at < end) {
        size_t length = strcspn(at, "&");
        if (!split_parameter(req, &all[found++], at, length))
            return false;
        at += length + 1;
    }
    req->parameters = all;
    req->parameter_count = found;
    req->query = NULL;
    return true;
}

bool http_each_query(slate_request *req, slate_query_visitor *visit, void *arg)
{
    if (req->query && !split_query(req))
        return false;
    for (size_t i = 0; i < req->parameter_count; i++)
        if (!visit(arg, req->parameters[i].name, req->parameters[i].value))
            return false;
    return true;
}

typedef struct query_search {
    const char *name, *value;
} query_search;

static bool find_query(void *arg, const char *name, const char *value)
{
    query_search *search = arg;
    if (strcmp(name, search->name) != 0)
        return true;
    search->value = value;
    return false;
}

const char *http_query(slate_request *req, const char *name)
{
    query_search search = {.name = name};
    http_each_query(req, find_query, &search);
    return search.value;
}

/* The lines of one header. */
typedef struct header_lines {
    const char *name;
    size_t name_size;
    unsigned count;
    size_t size; /* of all values, with ", " between them */
    char *into;  /* NULL: they are only counted */
} header_lines;

static enum MHD_Result visit_line(void *arg, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
    header_lines *lines = arg;
    (void)kind;
    if (name_size != lines->name_size || strncasecmp(name, lines->name, name_size) != 0)
        return MHD_YES;
    if (lines->count++ > 0) {
        if (lines->into)
            memcpy(lines->into + lines->size, ", ", 2);
        lines->size += 2;
    }
    if (lines->into && value_size > 0)
        memcpy(lines->into + lines->size, value, value_size);
    lines->size += value_size;
    return MHD_YES;
}

static header_lines visit_lines(slate_request *req, const char *name, char *into)
{
    header_lines lines = {.name = name, .name_size = strlen(name), .into = into};
    MHD_get_connection_values_n(req->mhd, MHD_HEADER_KIND, visit_line, &lines);
    return lines;
}

const char *http_header(slate_request *req, const char *name)
{
    const char *first = MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name);
    if (!first) /* most are not there */
        return NULL;
    header_lines lines = visit_lines(req, name, NULL);
    if (lines.count == 1)
        return first;
    char *joined = mem_alloc_aligned(&req->request, lines.size + 1, 1);
    if (!joined)
        return NULL;
    joined[visit_lines(req, name, joined).size] = '\0';
    return joined;
}
