/* store_bench: what the SQLite store does on a file, in one run. Durable writes by 64 clients that
 * share transactions, beside one fsync per write; then single documents and lists of 50 out of
 * 100,000. The arms take turns, and ratios are the median over the turns.
 *
 *     store_bench [DIRECTORY]    where the file is put; the current one if none is named
 *
 * A client is an operation that is submitted again as soon as it has been answered: the worker's
 * thread is this program's main thread, and the waits of the server are stood in for below. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../../server/clock.h"
#include "../store.h"

#define CLIENTS 64
#define TURNS 9
#define TURN_MS 500
#define DOCUMENTS 100000
#define PAGE 50

static void fail(const char *what)
{
    fprintf(stderr, "store_bench: %s.\n", what);
    exit(1);
}

/* ---- The server's part ----------------------------------------------------------------------------- */

/* One wait per client, and which of them have been ended. */
struct slate_wait {
    size_t client;
};

struct slate_request {
    size_t client;
};

static struct {
    pthread_mutex_t lock; /* guards all */
    pthread_cond_t ended;
    size_t clients[CLIENTS], count;
    bool sleeping;
} done = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static slate_wait waits[CLIENTS];

slate_wait *slate_wait_begin(slate_request *req, unsigned within_ms, slate_continuation *then,
                             void *arg)
{
    (void)within_ms;
    (void)then;
    (void)arg;
    waits[req->client].client = req->client;
    return &waits[req->client];
}

void slate_wake(slate_wait *wait)
{
    pthread_mutex_lock(&done.lock);
    done.clients[done.count++] = wait->client;
    bool wake = done.sleeping;
    pthread_mutex_unlock(&done.lock);
    if (wake)
        pthread_cond_signal(&done.ended);
}

void slate_changed(slate_request *req)
{
    (void)req;
}

/* Those whose wait has been ended since the last call; at least one. */
static size_t take_done(size_t clients[CLIENTS])
{
    pthread_mutex_lock(&done.lock);
    while (done.count == 0) {
        done.sleeping = true;
        pthread_cond_wait(&done.ended, &done.lock);
    }
    done.sleeping = false;
    size_t count = done.count;
    memcpy(clients, done.clients, count * sizeof *clients);
    done.count = 0;
    pthread_mutex_unlock(&done.lock);
    return count;
}

/* ---- Operations ------------------------------------------------------------------------------------- */

static uint64_t next_random(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

static store_op *make(store_kind kind, const char *collection, uint64_t id)
{
    char name[24];
    int length = snprintf(name, sizeof name, "%08ju", (uintmax_t)id);
    store_op *op = store_op_create(mem_heap_create(NULL, "bench"), kind);
    if (!op)
        fail("no memory");
    op->collection = store_op_copy(op, collection, strlen(collection));
    op->id = store_op_copy(op, name, (size_t)length);
    if (!op->collection.at || !op->id.at)
        fail("no memory");
    return op;
}

/* About 250 bytes. */
static store_text make_json(store_op *op, uint64_t n)
{
    size_t size;
    const char *json = mem_printf(
        op->memory, &size,
        "{\"name\":\"Person %ju\",\"email\":\"person-%ju@example.org\",\"age\":%ju,\"tags\":[\"a\","
        "\"b\"],\"address\":{\"street\":\"1 Long Street\",\"city\":\"City %ju\",\"zip\":\"%05ju\"},"
        "\"about\":\"%.80s\"}",
        (uintmax_t)n, (uintmax_t)n, (uintmax_t)(n % 90), (uintmax_t)(n % 500), (uintmax_t)n,
        "Something that somebody wrote about themselves, as long as such things are, or so.");
    if (!json)
        fail("no memory");
    return (store_text){json, size};
}

static void add_documents(store_op *op, uint64_t first, size_t count)
{
    store_document *documents = mem_alloc_array(op->memory, count, sizeof *documents);
    if (!documents)
        fail("no memory");
    for (size_t i = 0; i < count; i++) {
        char name[24];
        int length = snprintf(name, sizeof name, "%08ju", (uintmax_t)(first + i));
        documents[i].id = store_op_copy(op, name, (size_t)length);
        documents[i].json = make_json(op, first + i);
    }
    op->documents = documents;
    op->count = count;
}

typedef store_op *make_op(void);

static store_op *make_put(void)
{
    store_op *op = make(STORE_PUT, "written", next_random() % DOCUMENTS);
    add_documents(op, next_random() % DOCUMENTS, 1);
    return op;
}

/* With an id that is behind all others, as the server makes them. */
static store_op *make_insert(void)
{
    static uint64_t last;
    store_op *op = make(STORE_INSERT, "inserted", 0);
    add_documents(op, ++last, 1);
    return op;
}

static store_op *make_get(void)
{
    return make(STORE_GET, "people", next_random() % DOCUMENTS);
}

static store_op *make_list(void)
{
    store_op *op = make(STORE_LIST, "people", next_random() % (DOCUMENTS - PAGE));
    op->query = mem_alloc_array(op->memory, 1, sizeof *op->query);
    if (!op->query)
        fail("no memory");
    op->query->limit = PAGE;
    op->query->has_after = true;
    op->query->after_id = op->id;
    return op;
}

static store_op *make_filtered(bool indexed)
{
    static const store_scalar age = {.is = STORE_NUMBER, .text = {"42", 2}};
    store_op *op = make_list();
    op->query->filter_count = 1;
    op->query->filters[0] = (store_filter){.op = STORE_EQ, .operands = &age, .count = 1};
    op->query->filters[0].path = (store_path){.token = {{"age", 3}}, .count = 1};
    op->query->has_after = false;
    if (!indexed)
        op->collection = (store_text){"plain", 5};
    return op;
}

static store_op *make_indexed(void)
{
    return make_filtered(true);
}

static store_op *make_scanned(void)
{
    return make_filtered(false);
}

/* ---- Arms -------------------------------------------------------------------------------------------- */

typedef struct arm {
    const char *name;
    make_op *make;
    size_t clients;
    double rates[TURNS], cpu[TURNS]; /* operations a second; µs of CPU for each */
} arm;

static double cpu_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void run_turn(store *s, arm *a, size_t turn)
{
    slate_request requests[CLIENTS];
    store_op *ops[CLIENTS];
    size_t ended[CLIENTS], running = a->clients, operations = 0;
    int64_t begin = clock_ns(), end = begin + (int64_t)TURN_MS * 1000000;
    double cpu = cpu_us();
    for (size_t i = 0; i < a->clients; i++) {
        requests[i].client = i;
        ops[i] = a->make();
        store_submit(s, ops[i], &requests[i], NULL);
    }
    while (running > 0) {
        size_t count = take_done(ended);
        bool over = clock_ns() >= end;
        for (size_t i = 0; i < count; i++) {
            size_t client = ended[i];
            if (ops[client]->status != STORE_OK)
                fail(ops[client]->detail);
            store_op_release(ops[client]);
            operations++;
            running -= over;
            if (over)
                continue;
            ops[client] = a->make();
            store_submit(s, ops[client], &requests[client], NULL);
        }
    }
    a->rates[turn] = (double)operations / ((double)(clock_ns() - begin) / 1e9);
    a->cpu[turn] = (cpu_us() - cpu) / (double)operations;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double values[TURNS])
{
    double sorted[TURNS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, TURNS, sizeof *sorted, compare);
    return sorted[TURNS / 2];
}

static double ratio(const arm *a, const arm *b)
{
    double ratios[TURNS];
    for (size_t turn = 0; turn < TURNS; turn++)
        ratios[turn] = a->rates[turn] / b->rates[turn];
    return median(ratios);
}

static void fill(store *s, const char *collection)
{
    slate_request request = {0};
    size_t ended[CLIENTS];
    for (uint64_t n = 0; n < DOCUMENTS; n += 1000) {
        store_op *op = make(STORE_INSERT, collection, 0);
        add_documents(op, n, 1000);
        store_submit(s, op, &request, NULL);
        take_done(ended);
        if (op->status != STORE_OK)
            fail(op->detail);
        store_op_release(op);
    }
}

static void print_figure(void *arg, const char *name, const char *help, bool counter, double value)
{
    (void)arg;
    (void)help;
    (void)counter;
    printf("  %-28s %.0f\n", name, value);
}

int main(int argc, char **argv)
{
    static arm arms[] = {
        {.name = "insert, one fsync each", .make = make_insert, .clients = 1},
        {.name = "insert, 64 clients", .make = make_insert, .clients = CLIENTS},
        {.name = "put anywhere, one fsync each", .make = make_put, .clients = 1},
        {.name = "put anywhere, 64 clients", .make = make_put, .clients = CLIENTS},
        {.name = "get by id, 64 clients", .make = make_get, .clients = CLIENTS},
        {.name = "list of 50, 64 clients", .make = make_list, .clients = CLIENTS},
        {.name = "50 of a value, with an index", .make = make_indexed, .clients = CLIENTS},
        {.name = "50 of a value, without", .make = make_scanned, .clients = CLIENTS},
    };
    enum { ARMS = sizeof arms / sizeof *arms };
    char directory[3000], uri[3100], path[3100];
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    (void)snprintf(directory, sizeof directory, "%s/store-bench-XXXXXX", argc > 1 ? argv[1] : ".");
    if (!mkdtemp(directory))
        fail("a directory for the file cannot be made");
    (void)snprintf(uri, sizeof uri, "sqlite:%s/bench.db", directory);
    const store_settings settings = {
        .uri = uri, .threads = 2, .timeout_ms = 60000, .indexes = "people:/age"};
    store *s = store_open(&settings);
    if (!s)
        fail("the store cannot be opened");
    fill(s, "people");
    fill(s, "plain");
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < ARMS; i++)
            run_turn(s, &arms[(turn + i) % ARMS], turn);
    }
    printf("%-30s %12s %14s\n", "", "a second", "CPU each, µs");
    for (size_t i = 0; i < ARMS; i++)
        printf("%-30s %12.0f %14.1f\n", arms[i].name, median(arms[i].rates), median(arms[i].cpu));
    printf(
        "64 clients that share transactions insert %.1f times as fast as one fsync per write, and\n"
        "put %.1f times as fast.\n",
        ratio(&arms[1], &arms[0]), ratio(&arms[3], &arms[2]));
    printf("The store's figures:\n");
    store_figures(s, print_figure, NULL);
    store_close(s);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/bench.db%s", directory, suffixes[i]);
        (void)unlink(path);
    }
    (void)rmdir(directory);
    return 0;
}
