/* Streams: answers that a producer writes piece by piece, each when the client has taken the one
 * before, so that their length costs no memory. libmicrohttpd asks for the pieces, on the worker's
 * thread; it sends them chunked, or to HTTP/1.0 until the connection closes. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "clock.h"
#include "http.h"

/* Where the answer is chunked the library lends its connection's buffer, and needs none here. */
#define BLOCK_HTTP_1_0 (16u * 1024u)

/* The kernel would take megabytes for a client that reads slowly, and tell us of room only when a
 * good part of them has gone out. So it is asked to take less: --idle-timeout then finds a client
 * that takes nothing, and not one that takes little. */
#define UNSENT_MAX (128 * 1024)

/* After a wait, or before any: what the producer has for the client, or ends with. */
static ssize_t produce(slate_request *req, char *into, size_t room, slate_wake_reason why)
{
    for (;;) {
        size_t size;
        connection_set_deadline(req->conn, clock_ms(), request_server(req)->opts.idle_timeout);
        slate_stream_state state = request_produce(req, into, room, &size, why);
        assert(size <= room && "a producer keeps to its room");
        if (req->budget.refused != MEM_GRANTED)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        switch (state) {
        case SLATE_STREAM_MORE:
            return size > 0 ? (ssize_t)size : MHD_CONTENT_READER_END_WITH_ERROR;
        case SLATE_STREAM_END:
            req->stream_ended = true;
            return size > 0 ? (ssize_t)size : MHD_CONTENT_READER_END_OF_STREAM;
        case SLATE_STREAM_WAITING:
            break;
        case SLATE_STREAM_BROKEN:
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (!req->wait)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        connection_set_deadline(req->conn, 0, 0); /* it is not the client who is slow */
        awakening next;
        if (wait_sleep(req))
            return 0; /* asked again when it is over */
        if (!wait_over(req, &next))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        why = next.why;
    }
}

static ssize_t read_piece(slate_request *req, uint64_t position, char *into, size_t room)
{
    req->answer_size = (size_t)position; /* asked only when all before has been sent */
    awakening next = {.why = SLATE_WOKEN};
    if (req->wait && !wait_over(req, &next))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (req->stream_ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    return produce(req, into, room, next.why);
}

static ssize_t on_read(void *arg, uint64_t position, char *into, size_t room)
{
    slate_request *req = arg;
    worker *w = req->worker;
    door_enter(&w->door);
    ssize_t size = read_piece(req, position, into, room);
    door_leave(&w->door);
    return size;
}

/* To a HEAD the library would send the end of the chunks, which the client takes for the next answer,
 * so the connection closes instead. */
static bool answer_head(slate_request *req, struct MHD_Response *response)
{
    req->conn->linger = true;
    return MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END) ==
           MHD_YES;
}

struct MHD_Response *stream_response(slate_request *req)
{
    int unsent = UNSENT_MAX; /* at worst it has no effect */
    (void)setsockopt(req->conn->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, req->http_1_0 ? BLOCK_HTTP_1_0 : 1, on_read, req, NULL);
    if (response && req->method_id == METHOD_HEAD && !answer_head(req, response)) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}
