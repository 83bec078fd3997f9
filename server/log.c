/* Log lines: formatted on the caller's stack, written at once. No lock and no buffer: a line of at
 * most PIPE_BUF bytes reaches a pipe whole, and one write reaches a file or terminal whole. */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static_assert(LOG_LINE_MAX <= PIPE_BUF, "a pipe with room takes a line whole, and does not mix it");

static atomic_int most_detailed = LOG_INFO;

void log_set_level(log_level level)
{
    atomic_store_explicit(&most_detailed, (int)level, memory_order_relaxed);
}

bool log_enabled(log_level level)
{
    return (int)level <= atomic_load_explicit(&most_detailed, memory_order_relaxed);
}

void log_clean(char *text, size_t length)
{
    unsigned char before = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f) {
            text[i] = '?';
        } else if (before == 0xc2 && c >= 0x80 && c < 0xa0) {
            text[i - 1] = '?';
            text[i] = '?';
        }
        before = c;
    }
}

/* Where to cut text[0..length) so that no UTF-8 sequence is cut in two. */
static size_t cut_at(const char *text, size_t length)
{
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

static size_t write_time(char *line, size_t size)
{
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &utc) == NULL)
        return 0;
    size_t length = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    int more = snprintf(line + length, size - length, ".%03ldZ ", now.tv_nsec / 1000000);
    return more > 0 && (size_t)more < size - length ? length + (size_t)more : 0;
}

bool log_write(int fd, const char *line, size_t length)
{
    /* Guards the moment between asking for room and using it. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool written = false;
    pthread_mutex_lock(&lock);
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (length <= LOG_LINE_MAX && poll(&room, 1, 0) == 1 && (room.revents & POLLOUT))
        written = write(fd, line, length) == (ssize_t)length;
    pthread_mutex_unlock(&lock);
    return written;
}

void log_line(log_level level, const char *format, ...)
{
    static const char *const names[] = {"error  ", "warning", "info   ", "debug  "};
    static const char ellipsis[] = "...";
    if (!log_enabled(level))
        return;
    int saved = errno;
    char line[LOG_LINE_MAX];
    size_t length = write_time(line, sizeof line);
    length += (size_t)snprintf(line + length, sizeof line - length, "%s ", names[level]);

    va_list args;
    va_start(args, format);
    errno = saved; /* for %m */
    size_t room = sizeof line - length;
    int wanted = vsnprintf(line + length, room, format, args);
    va_end(args);
    size_t end = wanted < 0 ? length : length + (size_t)wanted;
    if (end >= sizeof line) {
        end = cut_at(line, sizeof line - sizeof ellipsis);
        memcpy(line + end, ellipsis, sizeof ellipsis - 1);
        end += sizeof ellipsis - 1;
    }
    log_clean(line + length, end - length);
    line[end++] = '\n';

    (void)log_write(STDERR_FILENO, line, end); /* a line that is lost: there is nowhere to say so */
    errno = saved;
}
