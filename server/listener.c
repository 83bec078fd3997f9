/* Listeners: an address and its event loops, one libmicrohttpd daemon per worker thread, all on the
 * same listening socket. The socket is made here, so that errors are ours to explain and its
 * backlog ours to close when the server drains. Called from the main thread only. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "log.h"

#define BACKLOG 1024
#define HANDSHAKE_MS 50 /* for those that are under way when the backlog is closed */

/* "127.0.0.1:8080" or "[::1]:8080"; the options have checked the form. */
static int resolve(const char *address, struct addrinfo **ret_info)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    if (!colon || length >= sizeof host)
        return EAI_NONAME;
    bool v6 = address[0] == '[';
    memcpy(host, address + v6, length - 2 * v6);
    host[length - 2 * v6] = '\0';
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    return getaddrinfo(host, colon + 1, &hints, ret_info);
}

static int open_socket(const char *address)
{
    struct addrinfo *info = NULL;
    if (resolve(address, &info) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
                    bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    freeaddrinfo(info);
    return fd;
}

/* The address as bound, with the port that the system chose for port 0. */
static void print_bound(int fd, char *out, size_t size)
{
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    char host[64], port[8];
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0 ||
        getnameinfo((struct sockaddr *)&bound, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(out, size, "an unknown address");
    else
        snprintf(out, size, bound.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host,
                 port);
}

/* libmicrohttpd's loop takes what this returns. While it gets all the events that it has asked for,
 * 128, it asks again, with its full time-out, before it handles any (0.9.75 to 1.0.1): with just 128,
 * 256 … connections ready at once nothing would happen until another event or a time-out. So the
 * program gives the library its own epoll_wait, which returns one event fewer than there is room for,
 * as any may: a loop that is never full never asks again, and finds the rest at its next turn. */
__attribute__((visibility("default"))) int epoll_wait(int epoll_fd, struct epoll_event *events,
                                                      int room, int timeout_ms)
{
    return epoll_pwait(epoll_fd, events, room > 1 ? room - 1 : room, timeout_ms, NULL);
}

static struct MHD_Daemon *start_loop(listener *l, int fd, unsigned threads)
{
    const options *opts = &l->owner->opts;
    unsigned all = l->admin ? ADMIN_CONNECTIONS : opts->max_connections;
    unsigned connections = all / threads + (l->loop_count < all % threads);
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        http_on_request, l, MHD_OPTION_EXTERNAL_LOGGER, http_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        opts->connection_memory, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, l,
        MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, l, MHD_OPTION_UNESCAPE_CALLBACK,
        http_keep_escapes, NULL, MHD_OPTION_URI_LOG_CALLBACK, http_on_target, NULL, MHD_OPTION_END);
}

bool listener_open(listener *l, const char *address)
{
    l->fd = open_socket(address);
    if (l->fd < 0)
        log_error("Cannot listen on %s: %s.", address, strerror(errno));
    return l->fd >= 0;
}

bool listener_start(listener *l, unsigned threads)
{
    char bound[96];
    print_bound(l->fd, bound, sizeof bound);
    l->loops = calloc(threads, sizeof(struct MHD_Daemon *));
    if (!l->loops) {
        log_error("Cannot start the event loops on %s: out of memory.", bound);
        return false;
    }
    for (; l->loop_count < threads; l->loop_count++) {
        int fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0); /* each loop closes its own */
        struct MHD_Daemon *loop = fd >= 0 ? start_loop(l, fd, threads) : NULL;
        if (!loop && fd >= 0)
            close(fd);
        if (!loop)
            break;
        l->loops[l->loop_count] = loop;
    }
    if (l->loop_count < threads) {
        log_error("Cannot start event loop %u of %u on %s: %s.", l->loop_count + 1, threads, bound,
                  errno ? strerror(errno) : "libmicrohttpd refused");
        return false;
    }
    log_info("%s on %s", l->admin ? "admin" : "listening", bound);
    return true;
}

/* MHD_quiesce_daemon would do, but it races with the event loop's own epoll_ctl and aborts the
 * process when it loses. Silencing the socket in each epoll set has the same effect without. */
static void silence_loops(const listener *l)
{
    for (unsigned i = 0; i < l->loop_count; i++) {
        const union MHD_DaemonInfo *info =
            MHD_get_daemon_info(l->loops[i], MHD_DAEMON_INFO_EPOLL_FD);
        const union MHD_DaemonInfo *listens =
            MHD_get_daemon_info(l->loops[i], MHD_DAEMON_INFO_LISTEN_FD);
        /* ENOENT: the loop is at its connection limit and does not listen now. Edge-triggered, so
         * that the socket's end is told once, not for ever. */
        struct epoll_event event = {.events = EPOLLET, .data.ptr = l->loops[i]};
        if (info && listens &&
            epoll_ctl(info->epoll_fd, EPOLL_CTL_MOD, listens->listen_fd, &event) != 0 &&
            errno != ENOENT)
            log_warning("An event loop still listens: %s.", strerror(errno));
    }
}

/* From here on no new client comes: the listening socket drops each segment with SYN (socket(7),
 * SO_ATTACH_FILTER; the filter sees TCP's header). Who has had an answer to one believes itself
 * connected, and may still finish. The others ask again within a second or so, and are then refused. */
static void close_backlog(int fd)
{
    enum { FLAGS_AT = 13, SYN = 0x02 };
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
                                 BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, 0),
                                 BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
        log_debug("New clients are taken until none waits: %s.", strerror(errno));
}

/* Clients that have connected and that no loop has taken. */
static unsigned count_waiting(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state != TCP_LISTEN)
        return 0;
    return info.tcpi_unacked; /* of a listening socket the length of its queue, see tcp_get_info */
}

/* The loops take who waits as they have room. Handing them over instead, MHD_add_connection, would
 * leave a mutex of the library locked for ever if a loop is full by the time it sees them (0.9.75). */
bool listener_refuse(listener *l, int64_t now_ms, unsigned *ret_waiting)
{
    if (l->refuses_ms == 0) {
        close_backlog(l->fd);
        l->refuses_ms = now_ms;
    }
    *ret_waiting = count_waiting(l->fd);
    bool refuses = *ret_waiting == 0 && now_ms - l->refuses_ms >= HANDSHAKE_MS;
    if (refuses) {
        silence_loops(l);
        shutdown(l->fd, SHUT_RD); /* from here on clients are refused */
    }
    return refuses;
}

void listener_stop(listener *l)
{
    for (unsigned i = 0; i < l->loop_count; i++)
        MHD_stop_daemon(l->loops[i]);
    free(l->loops);
    l->loops = NULL;
    l->loop_count = 0;
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
