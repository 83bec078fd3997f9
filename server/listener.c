/* Listeners: an address, a libmicrohttpd daemon on it, one epoll loop per worker thread. The
 * listening socket is made here, so that errors are ours to explain and the backlog ours to serve
 * when the server drains. Called from the main thread only. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "log.h"

#define BACKLOG 1024

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

bool listener_start(listener *l, const char *address, unsigned threads)
{
    const options *opts = &l->owner->opts;
    int fd = open_socket(address);
    if (fd < 0) {
        log_error("Cannot listen on %s: %s.", address, strerror(errno));
        return false;
    }
    char bound[96];
    print_bound(fd, bound, sizeof bound);
    /* libmicrohttpd divides the limit among its threads. Its time-out is of silence, in seconds. */
    unsigned connections = l->admin ? 64 : opts->max_connections;
    unsigned silence = (opts->idle_timeout + 999) / 1000;
    struct MHD_OptionItem pool[] = {
        {threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)threads, NULL},
        {MHD_OPTION_END, 0, NULL}};
    l->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        http_on_request, l, MHD_OPTION_EXTERNAL_LOGGER, http_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        l->admin ? 0 : opts->per_ip, MHD_OPTION_CONNECTION_TIMEOUT, silence,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, opts->connection_memory, MHD_OPTION_NOTIFY_COMPLETED,
        http_on_completed, l, MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, l,
        MHD_OPTION_UNESCAPE_CALLBACK, http_keep_escapes, NULL, MHD_OPTION_ARRAY, pool,
        MHD_OPTION_END);
    if (!l->daemon) {
        log_error("Cannot start the event loops of %s: %s.", address,
                  errno ? strerror(errno) : "libmicrohttpd refused");
        close(fd);
        return false;
    }
    log_info("%s on %s", l->admin ? "admin" : "listening", bound);
    return true;
}

void listener_quiesce(listener *l)
{
    int fd = l->daemon ? (int)MHD_quiesce_daemon(l->daemon) : -1;
    if (fd < 0)
        return;
    /* Clients in the backlog have connected, and may have sent: they are served. */
    for (;;) {
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        int client = accept4(fd, (struct sockaddr *)&from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0 && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (client < 0)
            break;
        if (MHD_add_connection(l->daemon, client, (struct sockaddr *)&from, length) != MHD_YES)
            log_warning("A waiting connection was lost: %s.", strerror(errno)); /* it was closed */
    }
    close(fd);
}

void listener_stop(listener *l)
{
    if (l->daemon)
        MHD_stop_daemon(l->daemon);
    l->daemon = NULL;
}
