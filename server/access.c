/* Access log: one line per request to stdout, as JSON or in the common log format. One write(2) per
 * line, so lines of several workers do not mix. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "log.h"

#define LINE_MAX_BYTES LOG_LINE_MAX
#define ESCAPE_MAX 6 /* bytes of \u001f */

/* What does not fit is cut off, and no escape in two: the last ESCAPE_MAX bytes stay free. */
static void put_json_string(char *out, size_t room, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at && n + ESCAPE_MAX < room;
         at++) {
        if (*at == '"' || *at == '\\') {
            out[n++] = '\\';
            out[n++] = (char)*at;
        } else if (*at < 0x20 || *at >= 0x7f) { /* a client's bytes need not be UTF-8 */
            memcpy(out + n, "\\u00", 4);
            out[n + 4] = hex[*at >> 4];
            out[n + 5] = hex[*at & 15];
            n += 6;
        } else {
            out[n++] = (char)*at;
        }
    }
    out[n] = '\0';
}

static int put_json(char *line, slate_request *req, int64_t now_ns, bool sent, const struct tm *utc,
                    long ms)
{
    char path[1024], method[64], id[REQUEST_ID_MAX + ESCAPE_MAX + 1], remote[REMOTE_MAX];
    connection_remote(req->conn, remote);
    put_json_string(path, sizeof path, req->path);
    put_json_string(method, sizeof method, req->method);
    put_json_string(id, sizeof id, request_id(req));
    char time[32];
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", utc);
    return snprintf(line, LINE_MAX_BYTES,
                    "{\"time\":\"%s.%03ldZ\",\"id\":\"%s\",\"remote\":\"%s\",\"method\":\"%s\","
                    "\"path\":\"%s\",\"status\":%d,\"bytes\":%zu,\"duration_us\":%lld,"
                    "\"sent\":%s}\n",
                    time, ms, id, remote, method, path, req->status, req->answer_size,
                    (long long)((now_ns - req->begun_ns) / 1000), sent ? "true" : "false");
}

static int put_clf(char *line, slate_request *req, const struct tm *utc)
{
    char path[1024], method[64], time[40], remote[REMOTE_MAX];
    connection_remote(req->conn, remote);
    remote[strcspn(remote, remote[0] == '[' ? "]" : ":")] = '\0'; /* the host alone */
    put_json_string(path, sizeof path, req->path);
    put_json_string(method, sizeof method, req->method);
    strftime(time, sizeof time, "%d/%b/%Y:%H:%M:%S +0000", utc);
    return snprintf(line, LINE_MAX_BYTES, "%s - - [%s] \"%s %s HTTP/1.%c\" %d %zu\n",
                    remote + (remote[0] == '['), time, method, path, req->http_1_0 ? '0' : '1',
                    req->status, req->answer_size);
}

void access_log(slate_request *req, int64_t now_ns, bool sent)
{
    char line[LINE_MAX_BYTES];
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || !gmtime_r(&now.tv_sec, &utc))
        return;
    int n = request_server(req)->opts.access_log == ACCESS_JSON
                ? put_json(line, req, now_ns, sent, &utc, now.tv_nsec / 1000000)
                : put_clf(line, req, &utc);
    if (n <= 0 || n >= LINE_MAX_BYTES)
        return;
    if (!log_write(STDOUT_FILENO, line, (size_t)n))
        counter_add(&req->worker->log_lines_lost, 1);
}
