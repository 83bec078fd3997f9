/* Answers that repeat. Making a response of libmicrohttpd, its one header and their end takes a fifth
 * of what the smallest request takes. So when a route's answer is the same as the one before, byte for
 * byte, a response is kept and queued again, for as long as the answers stay the same: a greeting, a
 * state, an empty list. Only answers that are small and have no header of their own are looked at.
 *
 * The worker asks for it, and the housekeeper makes it, within a tick: what lives on must not lie in
 * the heap that malloc has for the worker's thread, above what connections will free, or none of that
 * goes back to the system. The response has its own copy of the bytes, and each connection that sends
 * it a reference, so that it may be given up at any time. */
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
    __atomic_store_n(&newest->asked, false, __ATOMIC_RELAXED);
    newest->type_size = newest->size = 0;
}

static bool is_same(const newest_answer *newest, const slate_request *req, size_t type_size)
{
    return type_size == newest->type_size && req->answer_size == newest->size &&
           memcmp(req->answer_type, newest->text, type_size) == 0 &&
           memcmp(req->answer_bytes, newest->text + type_size, newest->size) == 0;
}

struct MHD_Response *repeat_response(const slate_request *req)
{
    if (!is_plain(req) || req->answer_size > NEWEST_ANSWER_MAX)
        return NULL;
    newest_answer *newest = &req->worker->newest[req->route->index];
    if (__atomic_load_n(&newest->asked, __ATOMIC_ACQUIRE))
        return NULL;
    size_t type_size = strlen(req->answer_type) + 1, size = req->answer_size;
    if (is_same(newest, req, type_size)) {
        if (newest->response)
            return newest->response;
        __atomic_store_n(&newest->asked, true, __ATOMIC_RELEASE); /* from here the housekeeper's */
        return NULL;
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

void repeats_make(server *s)
{
    pthread_mutex_lock(&s->lock); /* keeps a worker whose thread ends from forgetting meanwhile */
    for (worker *w = s->workers; w; w = w->next) {
        for (size_t i = 0; i < w->route_count; i++) {
            newest_answer *newest = &w->newest[i];
            if (!__atomic_load_n(&newest->asked, __ATOMIC_ACQUIRE))
                continue;
            newest->response = make(newest); /* NULL: no memory; it will be asked for again */
            __atomic_store_n(&newest->asked, false, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

void repeats_forget(worker *w)
{
    for (size_t i = 0; w->newest && i < w->route_count; i++)
        forget(&w->newest[i]);
}
