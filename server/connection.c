/* Connections: pooled structs, each owned by its worker. It owns the request in flight, since
 * libmicrohttpd does not always call back when a request ends. The housekeeper reaps the slow, and
 * the silent, of whom the kernel knows since when they are: libmicrohttpd's own time-out is off, since
 * it would read the clock and take a lock several times a request. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "clock.h"
#include "internal.h"
#include "log.h"

/* Above what glibc joins and shrinks for (FASTBIN_CONSOLIDATION_THRESHOLD, 64 KiB), below what it maps. */
#define FREE_THAT_SHRINKS (100u * 1024u)

void connection_remote(const connection *conn, char out[REMOTE_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&conn->remote;
    if (conn->remote.sin6_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host))
        snprintf(out, REMOTE_MAX, "%s:%u", host, ntohs(v4->sin_port));
    else if (conn->remote.sin6_family == AF_INET6 &&
             inet_ntop(AF_INET6, &conn->remote.sin6_addr, host, sizeof host))
        snprintf(out, REMOTE_MAX, "[%s]:%u", host, ntohs(conn->remote.sin6_port));
    else
        snprintf(out, REMOTE_MAX, "-");
}
static_assert(INET6_ADDRSTRLEN + sizeof "[]:65535" <= REMOTE_MAX, "every address fits");
static_assert(sizeof(struct sockaddr_in) <= sizeof(struct sockaddr_in6), "either kind fits");

static bool same_host(const connection *a, const connection *b)
{
    if (a->remote.sin6_family != b->remote.sin6_family)
        return false;
    if (a->remote.sin6_family == AF_INET6)
        return memcmp(&a->remote.sin6_addr, &b->remote.sin6_addr, sizeof a->remote.sin6_addr) == 0;
    const struct sockaddr_in *v4a = (const struct sockaddr_in *)(const void *)&a->remote;
    const struct sockaddr_in *v4b = (const struct sockaddr_in *)(const void *)&b->remote;
    return v4a->sin_addr.s_addr == v4b->sin_addr.s_addr;
}

/* Open connections from the same host, itself included. A walk over all of them: at most
 * --max-connections steps, once per accept, and only with --per-ip. */
static unsigned count_from_host(server *s, const connection *conn)
{
    unsigned count = 0;
    pthread_mutex_lock(&s->lock);
    worker *first = s->workers;
    pthread_mutex_unlock(&s->lock);
    for (worker *w = first; w; w = w->next) {
        pthread_mutex_lock(&w->lock);
        for (const connection *other = w->open_connections; other; other = other->next)
            count += other->listener == conn->listener && same_host(other, conn);
        pthread_mutex_unlock(&w->lock);
    }
    return count;
}

/* The pool is the worker's memory too: inside its door. */
static connection *take_cell(worker *w)
{
    door_enter(&w->door);
    connection *conn = w->connections ? mem_pool_take(w->connections) : malloc(sizeof *conn);
    door_leave(&w->door);
    return conn;
}

static void give_cell(worker *w, connection *conn)
{
    door_enter(&w->door);
    if (w->connections)
        mem_pool_give(w->connections, conn);
    else
        free(conn);
    door_leave(&w->door);
}

static uint64_t count_open(const worker *w)
{
    return counter_get(&w->accepted) - counter_get(&w->closed);
}

static void note_open(worker *w)
{
    if (count_open(w) > w->most_open)
        w->most_open = count_open(w);
}

/* Half of the worker's connections have gone, and libmicrohttpd has freed what each of them had on the
 * heap that glibc has for this thread. Only its own thread can let the top of such a heap go, which
 * malloc_trim does not: a free of so much makes glibc join all that is free, and shrink the heap. */
static void shrink_heap(worker *w)
{
    uint64_t open = count_open(w);
    if (!w->owner->opts.idle_trim || open > w->most_open / 2 || w->most_open - open < TRIM_WORTH)
        return;
    w->most_open = open;
    void *volatile enough =
        malloc(FREE_THAT_SHRINKS); /* volatile: a pair that is not optimised away */
    free(enough);
}

connection *connection_open(listener *on, int fd, const struct sockaddr *address)
{
    worker *w = worker_current(on);
    connection *conn = w ? take_cell(w) : NULL;
    if (!conn)
        return NULL;
    *conn = (connection){.worker = w, .listener = on, .fd = fd};
    if (address && address->sa_family == AF_INET)
        memcpy(&conn->remote, address, sizeof(struct sockaddr_in));
    else if (address && address->sa_family == AF_INET6)
        memcpy(&conn->remote, address, sizeof(struct sockaddr_in6));
    int64_t now = clock_ms();
    connection_set_deadline(conn, now, on->owner->opts.header_timeout);
    conn->look_ms = now + on->owner->opts.idle_timeout;
    conn->awaits = AWAITS_REST;
    conn->idle = true;
    pthread_mutex_lock(&w->lock);
    conn->next = w->open_connections;
    if (conn->next)
        conn->next->prev = conn;
    w->open_connections = conn;
    pthread_mutex_unlock(&w->lock);
    counter_add(&w->accepted, 1);
    note_open(w);
    unsigned per_ip = on->admin ? 0 : on->owner->opts.per_ip;
    if (per_ip > 0 && count_from_host(on->owner, conn) > per_ip)
        shutdown(fd, SHUT_RDWR); /* the event loop sees the end and closes */
    return conn;
}

/* By now libmicrohttpd has released its memory, into which these point. */
static void forget_fields(slate_request *req)
{
    req->method = req->path = "-";
    if (req->id_given)
        req->id = "-";
}

/* Whether the client has sent what nobody has read: a close would then reset the connection, and the
 * end of an answer that is still on its way would be lost. */
static bool has_unread(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

void connection_close(connection *conn)
{
    worker *w = conn->worker;
    if (conn->request) {
        forget_fields(conn->request);
        door_enter(&w->door);
        request_end(conn->request, false, clock_ns());
        door_leave(&w->door);
    }
    pthread_mutex_lock(&w->lock);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        w->open_connections = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    pthread_mutex_unlock(&w->lock);
    if (conn->linger || (conn->answered && has_unread(conn->fd)))
        linger_add(w->owner, conn->fd);
    counter_add(&w->closed, 1);
    shrink_heap(w);
    give_cell(w, conn);
}

void connection_set_deadline(connection *conn, int64_t now_ms, unsigned in_ms)
{
    __atomic_store_n(&conn->deadline_ms, in_ms > 0 ? now_ms + in_ms : 0, __ATOMIC_RELAXED);
}

void connection_await(connection *conn, connection_awaits what)
{
    __atomic_store_n(&conn->awaits, what, __ATOMIC_RELAXED);
}

bool connection_has_ended(const connection *conn)
{
    char next;
    ssize_t n = recv(conn->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Unless the worker has met it meanwhile, and awaits something else. */
static bool becomes(connection *conn, connection_awaits from, connection_awaits to)
{
    return __atomic_compare_exchange_n(&conn->awaits, &from, to, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

/* The worker may be about to see what completes the request, or the next one, which the library has
 * read already: it has a round for that. Between two requests one look is enough, however long the
 * client is silent then: an end that comes alone, the library sees. */
static bool has_left(connection *conn)
{
    connection_awaits awaits = __atomic_load_n(&conn->awaits, __ATOMIC_RELAXED);
    if (awaits == AWAITS_NOTHING)
        return false;
    if (awaits == AWAITS_END)
        return becomes(conn, AWAITS_END, AWAITS_NOTHING);
    if (connection_has_ended(conn))
        (void)becomes(conn, awaits, AWAITS_END);
    else if (awaits == AWAITS_NEXT)
        (void)becomes(conn, AWAITS_NEXT, AWAITS_NOTHING);
    return false;
}

/* For how many milliseconds no data has come or gone, as the kernel notes for every socket: none while
 * some waits for a busy worker to read it. What only fills buffers does not go; what the kernel sends
 * again to a peer that has vanished does, and only the deadline ends that. */
static unsigned ask_silence(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (has_unread(fd) || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return info.tcpi_last_data_recv < info.tcpi_last_data_sent ? info.tcpi_last_data_recv
                                                               : info.tcpi_last_data_sent;
}

/* Asks no sooner than the answer can be yes: once in an idle time-out, however much is going on. */
static bool is_silent(connection *conn, int64_t now_ms, unsigned limit)
{
    if (now_ms < conn->look_ms)
        return false;
    unsigned silence = ask_silence(conn->fd);
    if (silence < limit)
        conn->look_ms = now_ms + limit - silence;
    return silence >= limit;
}

static bool is_idle(const connection *conn, unsigned for_ms)
{
    return __atomic_load_n(&conn->idle, __ATOMIC_RELAXED) && ask_silence(conn->fd) >= for_ms;
}

void connection_set_idle(connection *conn, bool idle)
{
    __atomic_store_n(&conn->idle, idle, __ATOMIC_RELAXED);
}

void connections_reap(server *s, int64_t now_ms, unsigned room_ms)
{
    unsigned idle = s->opts.idle_timeout;
    pthread_mutex_lock(&s->lock);
    worker *first = s->workers;
    pthread_mutex_unlock(&s->lock);
    for (worker *w = first; w; w = w->next) {
        /* The lock keeps the sockets open: the worker takes it before libmicrohttpd closes one. */
        pthread_mutex_lock(&w->lock);
        for (connection *conn = w->open_connections; conn; conn = conn->next) {
            if (has_left(conn)) {
                shutdown(conn->fd, SHUT_RDWR);
                continue;
            }
            int64_t deadline = __atomic_load_n(&conn->deadline_ms, __ATOMIC_RELAXED);
            if (deadline == 0) /* it is not the client's turn, who may be silent */
                conn->look_ms = now_ms + idle;
            bool idles = room_ms > 0 && !w->admin && is_idle(conn, room_ms);
            if (deadline == 0 || (!idles && now_ms < deadline && !is_silent(conn, now_ms, idle)))
                continue;
            /* Unless the worker has met it meanwhile, and set the next. */
            if (__atomic_compare_exchange_n(&conn->deadline_ms, &deadline, 0, false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                shutdown(conn->fd, SHUT_RDWR); /* the event loop sees the end and closes */
        }
        pthread_mutex_unlock(&w->lock);
    }
}
