/* Translation between libmicrohttpd and requests: its callbacks, the framing checks that version
 * 0.9.75 lacks (RFC 9112), headers and answers. With stream.c and listener.c the only place that
 * knows MHD_.
 *
 * Two rules of the library rule this file. An answer queued at the first callback closes the
 * connection, so only broken framing is answered there; anything else waits for the last call. And
 * the completion callback may be missing, so the connection owns the request (connection.c). */
#include "http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "log.h"

/* ---- Headers ----------------------------------------------------------------------------------- */

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

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!isalnum(c) && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return length > 0;
}

static bool is_host(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!isalnum(c) && (c == '\0' || !strchr("-._~%!$&'()*+;=:[]", c)))
            return false;
    }
    return length > 0 && text[0] != ':';
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
    header_scan *scan = arg;
    if (kind == MHD_HEADER_KIND)
        scan_header(scan, name, name_size, value ? value : "", value ? value_size : 0);
    else if (!percent_valid(name) || (value && !percent_valid(value)))
        scan->bad = "A percent escape in the query is not valid.";
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

typedef struct framing {
    int status; /* 0: in order */
    const char *slug, *detail;
    uint64_t body; /* bytes, or UNKNOWN_LENGTH */
} framing;

#define BAD_REQUEST(why) ((framing){400, "bad-request", (why), 0})

/* RFC 9112, sections 3.2, 6.1 and 6.3: whatever could be framed in two ways is refused. */
static framing check_framing(const header_scan *scan)
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
            return (framing){501, "transfer-coding", "The only transfer coding known is chunked.",
                             0};
        return (framing){.body = UNKNOWN_LENGTH};
    }
    framing f = {0};
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

static bool find_verb(const char *method, slate_method *ret_verb)
{
    static const struct {
        const char *name;
        slate_method verb;
    } verbs[] = {{"GET", SLATE_GET}, {"HEAD", SLATE_GET},    {"POST", SLATE_POST},
                 {"PUT", SLATE_PUT}, {"PATCH", SLATE_PATCH}, {"DELETE", SLATE_DELETE}};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(method, verbs[i].name) == 0) {
            *ret_verb = verbs[i].verb;
            return true;
        }
    }
    return false;
}

/* What can be said before the body: route, method, media type, expectation. */
static early_answer decide_early(slate_request *req, const header_scan *scan, uint64_t body)
{
    slate_method verb = SLATE_GET;
    bool known = find_verb(req->method, &verb);
    req->verb = verb;
    bool asks_options = strcmp(req->method, "OPTIONS") == 0;
    if (asks_options && strcmp(req->path, "*") == 0)
        return EARLY_OPTIONS;
    req->route = router_match(req->conn->listener->routes, req->path, &req->request, req->params,
                              ROUTE_PARAMS);
    if (!req->route)
        return EARLY_NOT_FOUND;
    if (asks_options)
        return EARLY_OPTIONS;
    if (!known || !req->route->is->on[verb])
        return EARLY_NOT_ALLOWED;
    if (scan->expect && strcasecmp(scan->expect, "100-continue") != 0)
        return EARLY_EXPECTATION;
    const char *consumes = req->route->is->consumes[verb];
    if (consumes && (body > 0 || req->media_type) &&
        (!req->media_type || !media_type_accepted(req->media_type, consumes)))
        return EARLY_MEDIA_TYPE;
    return EARLY_NONE;
}

/* Of a query. The library takes each '+' for a space, as HTML's forms mean it; a URI does not (RFC
 * 3986), and has no spaces. NULL: refused. */
static const char *decode_query(slate_request *req, const char *text)
{
    if (!strpbrk(text, "% "))
        return text;
    size_t size = strlen(text);
    char *copy = mem_copy_string(&req->request, text, size);
    if (!copy)
        return NULL;
    for (char *at = copy; (at = strchr(at, ' '));)
        *at = '+';
    return percent_decode(&req->request, copy, size, NULL);
}

typedef struct query_walk {
    slate_request *req;
    slate_query_visitor *visit;
    void *arg;
    bool ended;
} query_walk;

static enum MHD_Result visit_query(void *arg, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    query_walk *walk = arg;
    const char *decoded = decode_query(walk->req, name);
    const char *worth = decode_query(walk->req, value ? value : "");
    walk->ended = !decoded || !worth || !walk->visit(walk->arg, decoded, worth);
    return walk->ended ? MHD_NO : MHD_YES;
}

bool http_each_query(slate_request *req, slate_query_visitor *visit, void *arg)
{
    query_walk walk = {.req = req, .visit = visit, .arg = arg};
    MHD_get_connection_values(req->mhd, MHD_GET_ARGUMENT_KIND, visit_query, &walk);
    return !walk.ended;
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

/* ---- Answers ------------------------------------------------------------------------------------ */

static struct MHD_Response *make_response(const void *bytes, size_t size)
{
    /* PERSISTENT: the library neither copies nor frees; the bytes outlive the answer, since the
     * request context is reset in the completion callback only. */
    return MHD_create_response_from_buffer(size, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);
}

bool http_make_ready(server *s)
{
    static char too_large[256];
    int n = snprintf(too_large, sizeof too_large,
                     "{\"type\":\"/problems/request-memory\",\"title\":\"%s\",\"status\":413,"
                     "\"detail\":\"The request needs more than %zu bytes of memory, the limit of "
                     "this server.\",\"limit\":%zu}",
                     problem_title("request-memory", 413), s->opts.request_memory,
                     s->opts.request_memory);
    if (n < 0 || (size_t)n >= sizeof too_large)
        return false;
    static const char overloaded[] =
        "{\"type\":\"/problems/overloaded\",\"title\":\"The server is short of memory\",\"status\":"
        "503,\"detail\":\"The requests in flight hold all the memory that the server may use; try "
        "again.\"}";
    static const char unknown[] =
        "{\"type\":\"/problems/outcome-unknown\",\"title\":\"The outcome of the write is not known\","
        "\"status\":503,\"detail\":\"There is no memory for the answer, but the request may have been "
        "carried out. Read before you try again.\"}";
    static const char failed[] =
        "{\"type\":\"/problems/no-answer\",\"title\":\"The handler failed\",\"status\":500,"
        "\"detail\":\"No answer could be made.\"}";
    const struct {
        int status;
        const char *text;
    } answers[READY_MADE] = {
        [READY_MADE_TOO_LARGE] = {413, too_large},
        [READY_MADE_OVERLOADED] = {503, overloaded},
        [READY_MADE_UNKNOWN] = {503, unknown},
        [READY_MADE_FAILED] = {500, failed},
    };
    for (int i = 0; i < READY_MADE; i++) {
        size_t size = strlen(answers[i].text);
        struct MHD_Response *response = make_response(answers[i].text, size);
        s->ready_made[i].response = response;
        s->ready_made[i].status = answers[i].status;
        s->ready_made[i].size = size;
        if (!response || MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                                 "application/problem+json") != MHD_YES)
            return false;
        if (answers[i].status == 503 &&
            MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1") != MHD_YES)
            return false;
    }
    return true;
}

void http_free_ready(server *s)
{
    for (int i = 0; i < READY_MADE; i++)
        if (s->ready_made[i].response)
            MHD_destroy_response(s->ready_made[i].response);
}

static enum MHD_Result queue_ready(slate_request *req, ready_made which)
{
    server *s = request_server(req);
    req->status = s->ready_made[which].status;
    req->answer_size = s->ready_made[which].size;
    return MHD_queue_response(req->mhd, (unsigned)req->status, s->ready_made[which].response);
}

static bool add_headers(slate_request *req, struct MHD_Response *response)
{
    if (req->answer_type && MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                                    req->answer_type) != MHD_YES)
        return false;
    for (const answer_header *h = req->headers; h; h = h->next)
        if (MHD_add_response_header(response, h->name, h->value) != MHD_YES)
            return false;
    if ((req->id_given || (req->status >= 400 && req->id)) &&
        MHD_add_response_header(response, "X-Request-Id", req->id) != MHD_YES)
        return false;
    if (!server_draining(request_server(req)))
        return true;
    req->conn->linger = true; /* the next request may be on its way */
    return MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
}

/* There is no memory for the answer. What has been done must not look as if it had been refused. */
static enum MHD_Result queue_refusal(slate_request *req)
{
    counter_add(&req->worker->refused, 1);
    if (req->changed)
        return queue_ready(req, READY_MADE_UNKNOWN);
    return queue_ready(req, req->budget.refused == MEM_OVER_LIMIT ? READY_MADE_TOO_LARGE
                                                                  : READY_MADE_OVERLOADED);
}

static enum MHD_Result queue_answer(slate_request *req)
{
    if (req->budget.refused != MEM_GRANTED)
        return queue_refusal(req);
    if (!req->answered)
        return queue_ready(req, READY_MADE_FAILED);
    struct MHD_Response *response =
        req->produce ? stream_response(req) : make_response(req->answer_bytes, req->answer_size);
    if (!response)
        return queue_refusal(req);
    enum MHD_Result queued = MHD_NO;
    if (add_headers(req, response))
        queued = MHD_queue_response(req->mhd, (unsigned)req->status, response);
    else
        queued = queue_refusal(req);
    MHD_destroy_response(response);
    return queued;
}

/* ---- Callbacks ------------------------------------------------------------------------------------ */

/* The framing is broken, or the body will not be read: answered at once, the connection closes. */
static enum MHD_Result answer_now(slate_request *req)
{
    req->conn->linger = true;
    connection_expect(req->conn, false);
    return queue_answer(req);
}

/* The path of a target in absolute form, which every server must accept (RFC 9112, section 3.2.2);
 * its host needs no look, as there is one site only. Any other target is left as it is. */
static const char *path_of(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(target, schemes[i], length) == 0) {
            const char *path = strchr(target + length, '/');
            return path ? path : "/";
        }
    }
    return target;
}

/* While a body comes, the library may answer by itself (a broken chunk). It then takes the memory of
 * the request's head for that answer, or gives it back before the request ends; the access log still
 * has to name the request. */
static bool keep_names(slate_request *req)
{
    if (request_server(req)->opts.access_log == ACCESS_OFF || req->worker->admin)
        return true;
    const char **names[] = {&req->method, &req->path, &req->id};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = *names[i];
        if (name && !(name = mem_copy_string(&req->request, name, strlen(name))))
            return false;
        *names[i] = name;
    }
    return true;
}

static enum MHD_Result begin(listener *on, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, void **state)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    connection *conn = info ? info->socket_context : NULL;
    slate_request *req = conn ? request_begin(conn, mhd) : NULL;
    if (!req) { /* no memory for the smallest struct: even this must get its 503 */
        if (conn)
            conn->linger = true;
        return MHD_queue_response(mhd, 503, on->owner->ready_made[READY_MADE_OVERLOADED].response);
    }
    *state = req;
    req->method = method;
    req->path = path_of(url);

    req->http_1_0 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;

    header_scan scan = {.req = req};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, scan_value, &scan);
    if (!percent_valid(url))
        scan.bad = "A percent escape in the path is not valid.";
    framing frame = check_framing(&scan);
    if (frame.status != 0) {
        slate_answer_problem(req, frame.status, frame.slug, NULL, "%s", frame.detail);
        return answer_now(req);
    }

    size_t limit = on->owner->opts.body_limit;
    req->early = decide_early(req, &scan, frame.body);
    if (frame.body != UNKNOWN_LENGTH && frame.body > limit) {
        req->early = req->early != EARLY_NONE ? req->early : EARLY_TOO_LARGE;
        request_run(req);
        return answer_now(req);
    }
    if (req->early != EARLY_NONE && scan.expect) { /* the body need not be sent at all */
        request_run(req);
        return answer_now(req);
    }
    connection_expect(conn, frame.body > 0);
    connection_set_deadline(conn, req->begun_ns / 1000000,
                            frame.body > 0 ? on->owner->opts.body_timeout : 0);
    if (frame.body > 0 && (!keep_names(req) || !request_expect_body(req, frame.body)))
        return answer_now(req);
    return MHD_YES;
}

/* As long again to read the answer as to send the body, from the headers or the last wait on. */
static void set_answer_deadline(slate_request *req)
{
    connection_set_deadline(req->conn, req->wait ? clock_ms() : req->begun_ns / 1000000,
                            2 * request_server(req)->opts.body_timeout);
}

static enum MHD_Result go_on(slate_request *req, const char *data, size_t *size)
{
    if (*size > 0) {
        bool wanted = request_receive(req, data, *size);
        *size = 0;
        return wanted ? MHD_YES : MHD_NO;
    }
    connection_expect(req->conn, false);
    set_answer_deadline(req);
    /* Once it is told to stop, the library drops what begin() has answered, and calls again. */
    bool answered = !req->wait && (req->answered || request_run(req));
    while (!answered) {
        awakening next;
        connection_set_deadline(req->conn, 0, 0); /* the wait has a limit of its own */
        if (wait_sleep(req))
            return MHD_YES; /* called again when it is over */
        set_answer_deadline(req);
        if (!wait_over(req, &next))
            return MHD_NO;
        answered = request_go_on(req, &next);
    }
    return queue_answer(req);
}

void http_suspend(slate_request *req)
{
    MHD_suspend_connection(req->mhd);
}

void http_resume(slate_request *req)
{
    MHD_resume_connection(req->mhd);
}

enum MHD_Result http_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **state)
{
    worker *w = worker_current(arg);
    if (w)
        door_enter(&w->door);
    enum MHD_Result result =
        *state ? go_on(*state, data, size) : begin(arg, mhd, url, method, version, state);
    if (w)
        door_leave(&w->door);
    return result;
}

/* Runs before the library destroys the response object, which is why no response may have a free
 * callback that touches the request. */
void http_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                       enum MHD_RequestTerminationCode how)
{
    (void)arg;
    (void)mhd;
    slate_request *req = *state;
    *state = NULL;
    if (!req)
        return;
    connection *conn = req->conn;
    const options *opts = &request_server(req)->opts;
    worker *w = req->worker;
    int64_t now = clock_ns();
    conn->answered = how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    connection_set_deadline(conn, now / 1000000, opts->idle_timeout + opts->header_timeout);
    door_enter(&w->door);
    request_end(req, conn->answered, now);
    door_leave(&w->door);
}

void http_on_connection(void *arg, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*socket_context)
            connection_close(*socket_context);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *socket_context =
        connection_open(arg, fd ? fd->connect_fd : -1, address ? address->client_addr : NULL);
}

/* Escapes are decoded after the path is split (router.c), never before. */
size_t http_keep_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

void http_log(void *arg, const char *format, va_list args)
{
    (void)arg;
    if (!log_enabled(LOG_DEBUG))
        return;
    char line[512];
    if (vsnprintf(line, sizeof line, format, args) < 0)
        return;
    line[strcspn(line, "\n")] = '\0';
    log_debug("libmicrohttpd: %s", line);
}

const char *microhttpd_version(void)
{
    return MHD_get_version();
}
