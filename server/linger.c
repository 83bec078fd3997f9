/* Lingering: an answer that closes the connection while the client still sends would be lost, since
 * closing a socket with unread input resets it. So the socket is read a little longer, and what
 * comes is thrown away (RFC 9112, section 9.6). Workers hand sockets over; the housekeeper reads. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "internal.h"

#define LINGER_MS 2000
#define CHUNK 65536u
#define CHUNKS_A_TURN 16u /* so that one fast sender cannot hold the housekeeper */

static bool append(lingering_sockets *to, int fd, int64_t until_ms)
{
    if (to->count == LINGER_MAX)
        return false;
    to->socket[to->count].fd = fd;
    to->socket[to->count].until_ms = until_ms;
    to->count++;
    return true;
}

void linger_add(server *s, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the library closes its own */
    if (copy < 0)
        return;
    pthread_mutex_lock(&s->lingering.lock);
    bool room = append(&s->lingering.added, copy, clock_ms() + LINGER_MS);
    pthread_mutex_unlock(&s->lingering.lock);
    if (!room)
        close(copy);
}

/* Reads what has come. false: the client has ended, or broken off. */
static bool discard_input(int fd)
{
    static char chunk[CHUNK]; /* the housekeeper's own; nobody looks at it */
    for (unsigned i = 0; i < CHUNKS_A_TURN; i++) {
        ssize_t n = recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
    }
    return true;
}

static void fetch_added(server *s)
{
    lingering_sockets *added = &s->lingering.added;
    pthread_mutex_lock(&s->lingering.lock);
    for (unsigned i = 0; i < added->count; i++)
        if (!append(&s->lingering.read, added->socket[i].fd, added->socket[i].until_ms))
            close(added->socket[i].fd);
    added->count = 0;
    pthread_mutex_unlock(&s->lingering.lock);
}

bool linger_turn(server *s, int64_t now_ms)
{
    lingering_sockets *read = &s->lingering.read;
    fetch_added(s);
    for (unsigned i = 0; i < read->count;) {
        if (now_ms < read->socket[i].until_ms && discard_input(read->socket[i].fd)) {
            i++;
            continue;
        }
        close(read->socket[i].fd);
        read->socket[i] = read->socket[--read->count];
    }
    return read->count > 0;
}
