/* Connections: pooled structs, each owned by its worker. It owns the request in flight, since
 * libmicrohttpd does not always call back when a request ends. The housekeeper reaps the slow:
 * libmicrohttpd's own time-out counts silence only, so a byte now and then would live for ever. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "clock.h"
#include "internal.h"
#include "log.h"

static void print_remote(char out[REMOTE_MAX], const struct sockaddr *address)
{
    char host[INET6_ADDRSTRLEN] = "";
    out[0] = '\0';
    if (!address)
        return;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        if (inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host))
            snprintf(out, REMOTE_MAX, "%s:%u", host, ntohs(v4->sin_port));
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        if (inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host))
            snprintf(out, REMOTE_MAX, "[%s]:%u", host, ntohs(v6->sin6_port));
    }
}
static_assert(INET6_ADDRSTRLEN + sizeof "[]:65535" <= REMOTE_MAX, "every address fits");

connection *connection_open(listener *on, int fd, const void *address)
{
    worker *w = worker_current(on);
    if (!w)
        return NULL;
    connection *conn = w->connections ? mem_pool_take(w->connections) : malloc(sizeof *conn);
    if (!conn)
        return NULL;
    *conn = (connection){.worker = w, .listener = on, .fd = fd};
    if (on->owner->opts.access_log != ACCESS_OFF)
        print_remote(conn->remote, address);
    connection_set_deadline(conn, clock_ms(), on->owner->opts.header_timeout);
    pthread_mutex_lock(&w->lock);
    conn->next = w->open_connections;
    if (conn->next)
        conn->next->prev = conn;
    w->open_connections = conn;
    pthread_mutex_unlock(&w->lock);
    counter_add(&w->accepted, 1);
    return conn;
}

void connection_close(connection *conn)
{
    worker *w = conn->worker;
    if (conn->request)
        request_end(conn->request, false);
    pthread_mutex_lock(&w->lock);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        w->open_connections = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    pthread_mutex_unlock(&w->lock);
    counter_add(&w->closed, 1);
    if (w->connections)
        mem_pool_give(w->connections, conn);
    else
        free(conn);
}

void connection_set_deadline(connection *conn, int64_t now_ms, unsigned in_ms)
{
    __atomic_store_n(&conn->deadline_ms, in_ms > 0 ? now_ms + in_ms : 0, __ATOMIC_RELAXED);
}

unsigned connections_reap(server *s, int64_t now_ms)
{
    unsigned count = 0;
    pthread_mutex_lock(&s->lock);
    worker *first = s->workers;
    pthread_mutex_unlock(&s->lock);
    for (worker *w = first; w; w = w->next) {
        /* The lock keeps the sockets open: the worker takes it before libmicrohttpd closes one. */
        pthread_mutex_lock(&w->lock);
        for (connection *conn = w->open_connections; conn; conn = conn->next) {
            int64_t deadline = __atomic_load_n(&conn->deadline_ms, __ATOMIC_RELAXED);
            if (deadline == 0 || now_ms < deadline)
                continue;
            __atomic_store_n(&conn->deadline_ms, 0, __ATOMIC_RELAXED);
            shutdown(conn->fd, SHUT_RDWR); /* the event loop sees the end and closes */
            count++;
        }
        pthread_mutex_unlock(&w->lock);
    }
    return count;
}
