/* Answers that repeat. Making a response of libmicrohttpd, its one header and their end takes a fifth
 * of what the smallest request takes. So when a route's answer is the same as the one before, byte for
 * byte, its response is kept and queued again, for as long as the answers stay the same: a greeting, a
 * state, an empty list. Only answers that are small and have no header of their own are looked at.
 *
 * A worker's, on its thread only. The response has its own copy of the bytes, and each connection that
 * sends it a reference, so that it may be given up at any time. */
#include <string.h>

#include "http.h"

static bool is_plain(const slate_request *req)
{
    return req->answer_type && req->answer_size > 0 && !req->produce && !req->headers &&
           !req->id_given && req->status < 400 && req->route &&
           !server_draining(request_server(req));
}

static struct MHD_Response *make(const newest_answer *newest)
{
    /* Copied with each response, since `newest` may change before that one has been sent. */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        newest->size, (void *)(uintptr_t)(newest->text + newest->type_size), MHD_RESPMEM_MUST_COPY);
    if (response &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, newest->text) != MHD_YES) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}

static void forget(newest_answer *newest)
{
    if (newest->response)
        MHD_destroy_response(newest->response);
    newest->response = NULL;
    newest->type_size = newest->size = 0;
}

struct MHD_Response *repeat_response(const slate_request *req)
{
    if (!is_plain(req) || req->answer_size > NEWEST_ANSWER_MAX)
        return NULL;
    newest_answer *newest = &req->worker->newest[req->route->index];
    size_t type_size = strlen(req->answer_type) + 1, size = req->answer_size;
    if (type_size == newest->type_size && size == newest->size &&
        memcmp(req->answer_type, newest->text, type_size) == 0 &&
        memcmp(req->answer_bytes, newest->text + type_size, size) == 0) {
        if (!newest->response)
            newest->response = make(newest);
        return newest->response;
    }
    forget(newest);
    if (type_size <= NEWEST_ANSWER_MAX - size) {
        memcpy(newest->text, req->answer_type, type_size);
        memcpy(newest->text + type_size, req->answer_bytes, size);
        newest->type_size = type_size;
        newest->size = size;
    }
    return NULL;
}

void repeat_forget(worker *w)
{
    for (size_t i = 0; w->newest && i < w->route_count; i++)
        forget(&w->newest[i]);
}
