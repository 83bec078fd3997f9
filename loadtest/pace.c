/* pace.c: a client that keeps to a plan. Requests are due at random times of a fixed mean rate, as
 * from many users who do not know of each other, and none waits for the answer to another: an open
 * loop. A latency counts from when its request was due, so that a server that stalls cannot hide
 * how many it has kept waiting. One thread, one epoll; nothing is allocated once the plan has begun,
 * except for the list of results.
 *
 *     pace ADDRESS PORT DECK CONNECTIONS RATE SECONDS SEED OUT
 *
 * DECK: requests in turn, as the lab writes them: each behind a line that begins with its length.
 * RATE: requests per second over all connections. OUT: a JSON file, there when the last answer is. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MOST 8192
#define PATIENCE INT64_C(5000000000) /* ns for the last answers */
#define SECOND INT64_C(1000000000)

typedef struct {
    char *text;
    size_t length;
} request;

typedef struct connection {
    int fd;
    const request *of; /* under way; NULL: idle */
    int64_t due, sent_at;
    size_t sent;
    size_t head; /* bytes of the answer's head that are here */
    bool in_body;
    unsigned long long left; /* of the answer's body */
    struct connection *next; /* in the line of idle ones */
    char buffer[HEAD_MOST + 1];
} connection;

typedef struct {
    uint32_t *us;
    size_t count, room;
} samples;

static request *deck;
static size_t deck_size;
static connection *idle_first, *idle_last;
static samples from_due, from_sent, lateness;
static unsigned long errors, wrong_status, planned;
static unsigned in_flight, open_count;
static int poll_fd;

static void die(const char *what)
{
    fprintf(stderr, "pace: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static void add(samples *to, int64_t ns)
{
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 65536;
        to->us = realloc(to->us, to->room * sizeof *to->us);
        if (!to->us)
            die("results");
    }
    int64_t us = ns / 1000;
    to->us[to->count++] = us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* xorshift64*; between 0 and 1, neither of them. */
static double random_share(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)((*state * UINT64_C(2685821657736338717)) >> 12) + 0.5) / (double)(1LL << 52);
}

/* Time until the next request, of a mean of 1. */
static double random_gap(uint64_t *state)
{
    return -log(random_share(state));
}

static void read_deck(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        die(path);
    char line[128];
    while (fgets(line, sizeof line, f)) {
        size_t length = strtoul(line, NULL, 10);
        request *more = realloc(deck, (deck_size + 1) * sizeof *deck);
        char *text = malloc(length ? length : 1);
        if (!more || !text || fread(text, 1, length, f) != length)
            die(path);
        deck = more;
        deck[deck_size++] = (request){text, length};
    }
    fclose(f);
    if (deck_size == 0)
        die("an empty deck");
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void put_idle(connection *c)
{
    c->of = NULL;
    c->next = NULL;
    if (idle_last)
        idle_last->next = c;
    else
        idle_first = c;
    idle_last = c;
}

static connection *take_idle(void)
{
    connection *c = idle_first;
    idle_first = c->next;
    if (!idle_first)
        idle_last = NULL;
    return c;
}

static void lose(connection *c)
{
    errors++;
    in_flight--;
    open_count--;
    close(c->fd);
}

static void watch(connection *c, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(poll_fd, operation, c->fd, &event) != 0)
        die("epoll_ctl");
}

static void connect_to(connection *c, const struct sockaddr_in *address)
{
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        die("connect");
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
    open_count++;
    put_idle(c);
}

/* false: the connection is lost. */
static bool send_on(connection *c)
{
    while (c->sent < c->of->length) {
        ssize_t n = send(c->fd, c->of->text + c->sent, c->of->length - c->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return true;
        }
        if (n < 0)
            return false;
        c->sent += (size_t)n;
    }
    return true;
}

static void begin(connection *c, const request *of, int64_t due)
{
    c->of = of;
    c->due = due;
    c->sent_at = now_ns();
    c->sent = c->head = 0;
    c->in_body = false;
    in_flight++;
    if (!send_on(c))
        lose(c);
}

/* The head of the answer is whole: what follows it? false: that is no answer of a known length. */
static bool read_head(connection *c)
{
    const char *length = NULL;
    for (const char *line = strstr(c->buffer, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, "Content-Length:", 15) == 0)
            length = line + 17;
    if (strncmp(c->buffer, "HTTP/1.1 ", 9) != 0 || !length)
        return false;
    wrong_status += c->buffer[9] != '2';
    c->left = strtoull(length, NULL, 10);
    c->in_body = true;
    return true;
}

static void finish(connection *c)
{
    int64_t end = now_ns();
    add(&from_due, end - c->due);
    add(&from_sent, end - c->sent_at);
    in_flight--;
    put_idle(c);
}

/* false: the connection is lost, or says what it should not. */
static bool receive(connection *c)
{
    static char body[1 << 18];
    for (;;) {
        bool to_head = !c->in_body;
        char *to = to_head ? c->buffer + c->head : body;
        ssize_t n = recv(c->fd, to, to_head ? HEAD_MOST - c->head : sizeof body, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0 || !c->of)
            return false;
        size_t of_body = (size_t)n;
        if (to_head) {
            c->head += (size_t)n;
            c->buffer[c->head] = '\0';
            const char *end = strstr(c->buffer, "\r\n\r\n");
            if (!end && c->head < HEAD_MOST)
                continue;
            if (!end || !read_head(c))
                return false;
            of_body = c->head - (size_t)(end + 4 - c->buffer);
        }
        if (of_body > c->left)
            return false;
        c->left -= of_body;
        if (c->left == 0) {
            finish(c);
            return true;
        }
    }
}

static void handle(connection *c, uint32_t events)
{
    bool sound = true;
    if (events & EPOLLOUT && c->of && c->sent < c->of->length) {
        sound = send_on(c);
        if (sound && c->sent == c->of->length)
            watch(c, EPOLL_CTL_MOD, EPOLLIN);
    }
    if (sound && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        sound = receive(c);
    if (sound)
        return;
    if (!c->of)
        die("a connection was closed while it was idle");
    lose(c);
}

/* ---- Results --------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* As pairs of a value and how often it came. */
static void print(FILE *f, const char *name, samples *of)
{
    fprintf(f, ",\"%s\":[", name);
    if (of->count)
        qsort(of->us, of->count, sizeof *of->us, ascending);
    for (size_t i = 0, same; i < of->count; i += same) {
        for (same = 1; i + same < of->count && of->us[i + same] == of->us[i]; same++)
            ;
        fprintf(f, "%s[%u,%zu]", i ? "," : "", of->us[i], same);
    }
    fputc(']', f);
}

static void write_results(const char *path, double seconds)
{
    FILE *f = fopen(path, "w");
    if (!f)
        die(path);
    fprintf(f, "{\"requests\":%zu,\"planned\":%lu,\"seconds\":%.6f,\"errors\":%lu,", from_due.count,
            planned, seconds, errors + in_flight);
    fprintf(f, "\"wrong_status\":%lu", wrong_status);
    print(f, "from_due", &from_due);
    print(f, "from_sent", &from_sent);
    print(f, "late", &lateness);
    fputs("}\n", f);
    if (fclose(f) != 0)
        die(path);
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: %s ADDRESS PORT DECK CONNECTIONS RATE SECONDS SEED OUT\n", argv[0]);
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[2]))};
    unsigned count = (unsigned)atoi(argv[4]);
    double rate = atof(argv[5]), seconds = atof(argv[6]);
    const uint64_t seed = strtoull(argv[7], NULL, 10) * 2 + 1;
    if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1 || count < 1 || count > 65535 ||
        !(rate > 0) || !(seconds > 0)) {
        fprintf(stderr, "pace: an address, 1 to 65535 connections, a rate and seconds above 0\n");
        return 2;
    }
    read_deck(argv[3]);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection *connections = calloc(count, sizeof *connections);
    if (poll_fd < 0 || !connections)
        die("connections");
    for (unsigned i = 0; i < count; i++)
        connect_to(&connections[i], &address);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* wake when it is due, not up to 50 us later */

    /* Of all plans with random gaps, one with so many requests as the rate says. */
    const unsigned long to_plan = (unsigned long)(rate * seconds + 0.5);
    uint64_t state = seed;
    double gaps = random_gap(&state);
    for (unsigned long i = 0; i < to_plan; i++)
        gaps += random_gap(&state);
    const double gap = seconds / gaps * (double)SECOND;
    state = seed;

    int64_t start = now_ns(), end = start + (int64_t)(seconds * (double)SECOND), due = start;
    due += (int64_t)(gap * random_gap(&state));
    int64_t free_since = start; /* since then a connection has been idle */
    while (open_count > 0) {
        int64_t now = now_ns();
        while (due <= now && planned < to_plan && idle_first) {
            add(&lateness, now - (due > free_since ? due : free_since));
            begin(take_idle(), &deck[planned++ % deck_size], due);
            due += (int64_t)(gap * random_gap(&state));
            now = now_ns();
        }
        if (planned == to_plan && (in_flight == 0 || now > end + PATIENCE))
            break;
        int64_t wait = planned < to_plan && idle_first ? due - now : SECOND;
        struct timespec timeout = {.tv_sec = wait > 0 ? wait / SECOND : 0,
                                   .tv_nsec = wait > 0 ? wait % SECOND : 0};
        struct epoll_event events[256];
        bool none_was_idle = !idle_first;
        int n = epoll_pwait2(poll_fd, events, 256, &timeout, NULL);
        if (n < 0 && errno != EINTR)
            die("epoll_pwait2");
        for (int i = 0; i < n; i++)
            handle(events[i].data.ptr, events[i].events);
        if (none_was_idle && idle_first)
            free_since = now_ns();
    }
    write_results(argv[8], (double)(now_ns() - start) / (double)SECOND);
    return 0;
}
