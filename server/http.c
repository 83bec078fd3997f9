/* Translation between libmicrohttpd and requests: its callbacks, and answers. With head.c, repeat.c,
 * stream.c and listener.c the only place that knows MHD_.
 *
 * Two rules of the library rule this file. An answer queued at the first callback closes the
 * connection, so only broken framing is answered there; anything else waits for the last call. And
 * the completion callback may be missing, so the connection owns the request (connection.c). */
#include "http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "log.h"

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
    struct MHD_Response *response = repeat_response(req);
    if (response)
        return MHD_queue_response(req->mhd, (unsigned)req->status, response);
    response =
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
    connection_await(req->conn, AWAITS_NOTHING);
    return queue_answer(req);
}

/* The path of a target in absolute form, which every server must accept (RFC 9112, section 3.2.2);
 * its host needs no look, as there is one site only. Any other target is left as it is. */
static const char *path_of(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    if (target[0] == '/') /* nearly all */
        return target;
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

/* What follows the first '?' of a target is for us to read (head.c). The library would make an entry
 * of each parameter in the connection's memory, and where there is no room forgets that it has queued
 * an answer (0.9.75), so that the client waits for nothing. It gets to see an empty query: the first
 * byte is put back when it has looked. (Behind a NUL in the target, of which we are not told, it still
 * finds one.) */
void *http_on_target(void *arg, const char *target, struct MHD_Connection *mhd)
{
    (void)arg;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    connection *conn = info ? info->socket_context : NULL;
    if (!conn)
        return NULL;
    char *query = target ? strchr(target, '?') : NULL;
    conn->query = query && query[1] != '\0' ? query + 1 : NULL;
    if (conn->query) {
        conn->query_start = *conn->query;
        *conn->query = '\0';
    }
    return NULL; /* no state yet */
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
    connection_set_idle(conn, false);
    req->method = method;
    req->path = path_of(url);
    if (conn->query)
        *conn->query = conn->query_start;
    req->query = conn->query;
    req->http_1_0 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;

    request_head head = http_read_head(req, url);
    if (head.status != 0) {
        slate_answer_problem(req, head.status, head.slug, NULL, "%s", head.detail);
        return answer_now(req);
    }

    size_t limit = on->owner->opts.body_limit;
    if (head.body != UNKNOWN_LENGTH && head.body > limit) {
        req->early = req->early != EARLY_NONE ? req->early : EARLY_TOO_LARGE;
        request_run(req);
        return answer_now(req);
    }
    if (req->early != EARLY_NONE && head.expects_continue) { /* the body need not be sent at all */
        request_run(req);
        return answer_now(req);
    }
    connection_await(conn, head.body > 0 ? AWAITS_REST : AWAITS_NOTHING);
    connection_set_deadline(conn, req->begun_ns / 1000000, on->owner->opts.body_timeout);
    if (head.body > 0 && (!keep_names(req) || !request_expect_body(req, head.body)))
        return answer_now(req);
    return MHD_YES;
}

static enum MHD_Result go_on(slate_request *req, const char *data, size_t *size)
{
    if (*size > 0) {
        bool wanted = request_receive(req, data, *size);
        *size = 0;
        return wanted ? MHD_YES : MHD_NO;
    }
    connection_await(req->conn, AWAITS_NOTHING);
    connection_set_deadline(req->conn, 0, 0); /* the server's turn; a wait has a limit of its own */
    /* Once it is told to stop, the library drops what begin() has answered, and calls again. */
    bool waited = false, answered = !req->wait && (req->answered || request_run(req));
    while (!answered) {
        awakening next;
        waited = true;
        if (wait_sleep(req))
            return MHD_YES; /* called again when it is over */
        if (!wait_over(req, &next))
            return MHD_NO;
        answered = request_go_on(req, &next);
    }
    /* As long again to read the answer as to send the body, from the headers or the last wait on. */
    connection_set_deadline(req->conn, waited ? clock_ms() : req->begun_ns / 1000000,
                            2 * request_server(req)->opts.body_timeout);
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
    connection_set_idle(conn, true);
    connection_await(conn, AWAITS_NEXT);
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
    /* Without memory for the struct it gets its 503, and nobody of ours sees that it is silent. */
    const listener *on = arg;
    if (!*socket_context)
        (void)MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                        (on->owner->opts.idle_timeout + 999) / 1000);
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
