/* Between the files that know libmicrohttpd; most are the callbacks that listener.c gives to it. */
#ifndef SLATE_HTTP_H
#define SLATE_HTTP_H

#include <microhttpd.h>
#include <stdarg.h>

#include "internal.h"

/* What the head of a request says about its body. */
typedef struct request_head {
    int status; /* of the problem to answer at once; 0: the framing is in order */
    const char *slug, *detail;
    uint64_t body;         /* bytes, or UNKNOWN_LENGTH */
    bool expects_continue; /* the client may wait for 100 Continue */
} request_head;

/* head.c. `url`: as the library gives it. Sets the request's route, media type, id and early answer. */
request_head http_read_head(slate_request *req, const char *url);

enum MHD_Result http_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **state);
void http_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                       enum MHD_RequestTerminationCode how);
void http_on_connection(void *arg, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode what);
/* A response that asks the request's producer for its pieces. NULL: no memory. */
struct MHD_Response *stream_response(slate_request *req);
/* The response that the worker keeps, if it says what the request's answer says (repeat.c); it stays the
 * worker's. NULL: one has to be made. */
struct MHD_Response *repeat_response(const slate_request *req);
void *http_on_target(void *arg, const char *target, struct MHD_Connection *mhd);
size_t http_keep_escapes(void *arg, struct MHD_Connection *mhd, char *text);
void http_log(void *arg, const char *format, va_list args);

#endif
