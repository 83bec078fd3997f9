/* json_bench: slate's reader and writer against jansson's and V8's, in arenas and on malloc, in one
 * run. The arms of a document take turns, so that what disturbs the machine disturbs all of them;
 * figures are the best and the median turn, ratios the median over the turns. Times are CPU time,
 * of V8 with its helper threads; it is a process of its own (json_bench.js), left out where there is
 * no node. Every arm ends with what it made given back: by a reset, json_decref and free, or the
 * garbage collector. */
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../alloc/blocks.h"
#include "../json.h"

#define DEPTH 128
/* As the server has them: what the two contexts of a request begin with. */
#define FIRST_BLOCK 1088u
#define SCRATCH_BLOCK (16u * 1024u)

#define TURNS_MAX 31
static unsigned turns = 21;
static double turn_ns = 4e6; /* how long a turn should last */

static __attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("json_bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void *must(void *p)
{
    if (!p)
        fail("Memory was refused.");
    return p;
}

/* CPU time of this thread. */
static double now_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        fail("The clock cannot be read.");
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- Documents ------------------------------------------------------------------------------- */

typedef struct document {
    const char *name;
    void (*make)(struct document *doc);
    char *text;
    size_t size, capacity;
    json_t *malloc_tree, *arena_tree;
} document;

static void append(document *doc, const char *bytes, size_t size)
{
    if (doc->capacity - doc->size < size) {
        doc->capacity = 2 * doc->capacity + size;
        doc->text = must(realloc(doc->text, doc->capacity));
    }
    memcpy(doc->text + doc->size, bytes, size);
    doc->size += size;
}

#define append_literal(doc, s) append((doc), "" s, sizeof(s) - 1)

/* A document of Debian's package iso-codes. */
static void append_file(document *doc, const char *name)
{
    char path[PATH_MAX], bytes[16384];
    size_t size;
    snprintf(path, sizeof path, "/usr/share/iso-codes/json/%s.json", name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail("%s cannot be read (%s): install the package iso-codes.", path, strerror(errno));
    while ((size = fread(bytes, 1, sizeof bytes, f)) > 0)
        append(doc, bytes, size);
    fclose(f);
}

static void make_transfer(document *doc)
{
    append_literal(
        doc,
        "{\"from\":{\"id\":48210,\"firstName\":\"Alexandra\",\"lastName\":\"Hamilton\",\"address\":"
        "{\"street\":\"1600 Commonwealth Avenue, Unit 121\",\"city\":\"Boston\",\"state\":\"MA\",\"zip\":"
        "\"02135\"},\"email\":\"alexandra@example.com\"},\"to\":{\"id\":73516,\"firstName\":"
        "\"Jonathan\",\"lastName\":\"Whitfield\",\"address\":{\"street\":\"742 Evergreen Terrace\","
        "\"city\":\"Springfield\",\"state\":\"OR\",\"zip\":\"97477\"},\"email\":"
        "\"jon.whitfield@example.org\"},\"amount\":125000,\"sendOn\":\"2026-03-14T09:26:53Z\"}");
}

static void make_small(document *doc)
{
    append_file(doc, "iso_15924");
}

/* The first entries of a longer file, up to 100 KB. */
static void make_medium(document *doc)
{
    static const char between[] = "\n    },", end[] = "\n    }\n  ]\n}\n";
    append_file(doc, "iso_3166-2");
    while (doc->size > 100000 ||
           memcmp(doc->text + doc->size - (sizeof between - 1), between, sizeof between - 1) != 0)
        doc->size--;
    doc->size -= sizeof between - 1;
    append(doc, end, sizeof end - 1);
}

static void make_large(document *doc)
{
    static const char *const names[] = {"iso_639-3",  "iso_639-2", "iso_639-5", "iso_3166-1",
                                        "iso_3166-3", "iso_15924", "iso_4217"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        append(doc, i ? "," : "[", 1);
        append_file(doc, names[i]);
    }
    append(doc, "]", 1);
}

/* xorshift64*: the same sequence in every run. */
static uint64_t random_bits(void)
{
    static uint64_t state = 42;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Positions with all the digits that a double has, as measurements and maps have them. */
static void make_reals(document *doc)
{
    for (int i = 0; i < 2500; i++) {
        append(doc, i ? "," : "[", 1);
        for (int k = 0; k < 2; k++) {
            char number[JSON_REAL_MAX];
            double unit = (double)(random_bits() >> 11) * 0x1p-53;
            append(doc, k ? "," : "[", 1);
            size_t length = json_real_print((unit - 0.5) * (k ? 180 : 360), number);
            append(doc, number, length);
        }
        append(doc, "]", 1);
    }
    append(doc, "]", 1);
}

/* Log lines, quoted text and other alphabets, as programs that escape all they can write them. */
static void make_escapes(document *doc)
{
    static const char *const pieces[] = {"\\n",     "\\\"",           "\\\\", "\\t",     "\\u00e9",
                                         "\\u20ac", "\\ud83d\\ude00", "\\/",  "\\u4e16", "\\u0001"};
    static const char *const words[] = {"a", "in", "the", "file", "value", "request", "C:", "said"};
    for (int i = 0; i < 1000; i++) {
        append(doc, i ? ",\"" : "[\"", 2);
        for (int k = 0; k < 12; k++) {
            const char *word = words[random_bits() % 8], *piece = pieces[random_bits() % 10];
            append(doc, word, strlen(word));
            append(doc, piece, strlen(piece));
        }
        append(doc, "\"", 1);
    }
    append(doc, "]", 1);
}

static document documents[] = {
    {.name = "a money transfer", .make = make_transfer},
    {.name = "iso-codes, 20 KB", .make = make_small},
    {.name = "iso-codes, 100 KB", .make = make_medium},
    {.name = "iso-codes, 1 MB", .make = make_large},
    {.name = "reals", .make = make_reals},
    {.name = "escapes", .make = make_escapes},
};
#define DOCUMENTS (sizeof documents / sizeof *documents)

/* ---- Where trees and texts are made ---------------------------------------------------------- */

static mem_depot *depot;
static mem_blocks *tree_blocks, *blocks;
static mem_context arena_trees; /* the documents' own */
static mem_context arena_scratch, arena_answers, heap_answers;
static _Alignas(MEM_ALIGN) char first_block[FIRST_BLOCK], scratch_block[SCRATCH_BLOCK];

static void open_memory(void)
{
    depot = must(mem_depot_create());
    tree_blocks = must(mem_blocks_create(depot, 0));
    mem_arena_init(&arena_trees, NULL, "trees", tree_blocks, NULL, 0);
    mem_heap_init(&heap_answers, NULL, "answers");
}

static void close_memory(void)
{
    mem_delete(&arena_trees);
    mem_delete(&heap_answers);
    mem_blocks_delete(tree_blocks);
    mem_depot_delete(depot);
}

/* A worker as the server has it, which serves one kind of document. */
static void open_worker(void)
{
    blocks = must(mem_blocks_create(depot, MEM_RETAIN_ADAPTIVE));
    mem_arena_init(&arena_answers, NULL, "answers", blocks, first_block, FIRST_BLOCK);
    mem_arena_init(&arena_scratch, NULL, "scratch", blocks, scratch_block, SCRATCH_BLOCK);
}

static void close_worker(void)
{
    mem_delete(&arena_scratch);
    mem_delete(&arena_answers);
    mem_blocks_delete(blocks);
}

static void use_malloc(void)
{
    json_set_alloc_funcs(malloc, free);
    mem_switch(NULL);
}

static void use_arena(void)
{
    json_bridge_install(false);
    mem_switch(&arena_scratch);
}

/* ---- Arms ------------------------------------------------------------------------------------ */

static json_t *load(const document *doc)
{
    json_error_t error;
    return must(json_loadb(doc->text, doc->size,
                           JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error));
}

static json_t *read_text(const document *doc)
{
    json_read_problem problem;
    json_t *tree = json_read_with(JSON_READER_SLATE, doc->text, doc->size, DEPTH, &problem);
    if (!tree)
        fail("%s: %s", doc->name, problem.detail);
    return tree;
}

static void write_text(json_writer *w, mem_context *ctx, const document *doc, const json_t *tree)
{
    json_writer_init(w, ctx, doc->size, DEPTH, false);
    json_write_tree(w, tree);
    if (w->failed)
        fail("%s cannot be written.", doc->name);
}

static void load_arena(const document *doc)
{
    load(doc);
    mem_reset(&arena_scratch);
}

static void load_malloc(const document *doc)
{
    json_decref(load(doc));
}

static void read_arena(const document *doc)
{
    read_text(doc);
    mem_reset(&arena_scratch);
}

static void read_malloc(const document *doc)
{
    json_decref(read_text(doc));
}

static void dump_arena(const document *doc)
{
    must(json_dumps(doc->arena_tree, JSON_COMPACT | JSON_ENCODE_ANY));
    mem_reset(&arena_scratch);
}

static void dump_malloc(const document *doc)
{
    free(must(json_dumps(doc->malloc_tree, JSON_COMPACT | JSON_ENCODE_ANY)));
}

static void write_arena(const document *doc)
{
    json_writer w;
    write_text(&w, &arena_answers, doc, doc->arena_tree);
    mem_reset(&arena_answers);
}

static void write_malloc(const document *doc)
{
    json_writer w;
    write_text(&w, &heap_answers, doc, doc->malloc_tree);
    mem_reset(&heap_answers);
}

static void echo_arena(const document *doc)
{
    json_writer w;
    write_text(&w, &arena_answers, doc, read_text(doc));
    mem_reset(&arena_scratch);
    mem_reset(&arena_answers);
}

static void echo_malloc(const document *doc)
{
    json_writer w;
    json_t *tree = read_text(doc);
    write_text(&w, &heap_answers, doc, tree);
    json_decref(tree);
    mem_reset(&heap_answers);
}

typedef enum { IN_MALLOC, IN_ARENA, IN_V8 } place;

static const struct arm {
    const char *work, *name;
    void (*once)(const document *doc);
    const char *command; /* to V8 */
    place place;
    size_t jansson, v8; /* how many rows above are those that it is compared with; 0: none */
} arms[] = {
    {.work = "read", .name = "json_loadb, malloc", .once = load_malloc, .place = IN_MALLOC},
    {.work = "", .name = "json_loadb, arena", .once = load_arena, .place = IN_ARENA},
    {.work = "", .name = "JSON.parse", .command = "parse", .place = IN_V8},
    {"", "slate, malloc", read_malloc, NULL, IN_MALLOC, 3, 1},
    {"", "slate, arena", read_arena, NULL, IN_ARENA, 3, 2},
    {.work = "write", .name = "json_dumps, malloc", .once = dump_malloc, .place = IN_MALLOC},
    {.work = "", .name = "json_dumps, arena", .once = dump_arena, .place = IN_ARENA},
    {.work = "", .name = "JSON.stringify", .command = "stringify", .place = IN_V8},
    {"", "slate, malloc", write_malloc, NULL, IN_MALLOC, 3, 1},
    {"", "slate, arena", write_arena, NULL, IN_ARENA, 3, 2},
    {.work = "read, write", .name = "slate, malloc", .once = echo_malloc, .place = IN_MALLOC},
    {.work = "and release", .name = "slate, arena", .once = echo_arena, .place = IN_ARENA},
};
#define ARMS (sizeof arms / sizeof *arms)
#define ECHO_ARENA (ARMS - 1)
#define ECHO_MALLOC (ARMS - 2)

/* ---- V8 -------------------------------------------------------------------------------------- */

static FILE *to_v8, *from_v8;
static pid_t v8;
static char v8_version[32]; /* of node; empty: there is none */

static void start_v8(char *const files[])
{
    int command[2], answer[2];
    if (pipe2(command, O_CLOEXEC) != 0 || pipe2(answer, O_CLOEXEC) != 0)
        fail("No pipe: %s.", strerror(errno));
    v8 = fork();
    if (v8 < 0)
        fail("No process: %s.", strerror(errno));
    if (v8 == 0) {
        char *argv[DOCUMENTS + 3] = {(char *)"node", (char *)JSON_BENCH_SCRIPT};
        memcpy(argv + 2, files, DOCUMENTS * sizeof *argv);
        if (dup2(command[0], STDIN_FILENO) >= 0 && dup2(answer[1], STDOUT_FILENO) >= 0)
            execvp("node", argv);
        _exit(127);
    }
    close(command[0]);
    close(answer[1]);
    to_v8 = must(fdopen(command[1], "w"));
    from_v8 = must(fdopen(answer[0], "r"));
    if (fscanf(from_v8, "%31s", v8_version) != 1)
        v8_version[0] = '\0';
}

static double ask_v8(const char *command, size_t index, size_t times)
{
    double ns;
    if (fprintf(to_v8, "%s %zu %zu\n", command, index, times) < 0 || fflush(to_v8) != 0 ||
        fscanf(from_v8, "%lf", &ns) != 1)
        fail("node has ended.");
    return ns;
}

static void stop_v8(void)
{
    fclose(to_v8);
    fclose(from_v8);
    waitpid(v8, NULL, 0);
}

/* ---- Taking turns ---------------------------------------------------------------------------- */

/* Nanoseconds for `times` times. */
static double take_turn(const struct arm *arm, size_t index, size_t times)
{
    if (arm->place == IN_V8)
        return ask_v8(arm->command, index, times);
    if (arm->place == IN_ARENA)
        use_arena();
    else
        use_malloc();
    double start = now_ns();
    for (size_t i = 0; i < times; i++)
        arm->once(&documents[index]);
    double end = now_ns();
    use_malloc();
    return end - start;
}

/* How often the work is done in a turn. It warms the arm up, too. */
static size_t find_times(const struct arm *arm, size_t index)
{
    for (size_t times = 1;; times *= 2) {
        double ns = take_turn(arm, index, times);
        if (ns >= turn_ns / 4)
            return (size_t)((double)times * turn_ns / ns) + 1;
    }
}

static bool is_left_out(const struct arm *arm)
{
    return arm->place == IN_V8 && !v8_version[0];
}

static double results[ARMS][TURNS_MAX]; /* nanoseconds for once */

static void measure(size_t index)
{
    size_t times[ARMS];
    for (size_t i = 0; i < ARMS; i++)
        times[i] = is_left_out(&arms[i]) ? 0 : find_times(&arms[i], index);
    for (unsigned turn = 0; turn < turns; turn++) {
        for (size_t k = 0; k < ARMS; k++) {
            size_t i = (k + turn) % ARMS; /* none is always behind the same other */
            if (times[i])
                results[i][turn] = take_turn(&arms[i], index, times[i]) / (double)times[i];
        }
    }
}

/* ---- Report ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct figures {
    double best, median;
} figures;

static figures figures_of(const double *values)
{
    double sorted[TURNS_MAX];
    memcpy(sorted, values, turns * sizeof *sorted);
    qsort(sorted, turns, sizeof *sorted, compare);
    return (figures){sorted[0], sorted[turns / 2]};
}

/* The median over the turns of what the arm `over` needs for each that `under` needs. */
static double ratio(size_t over, size_t under)
{
    double ratios[TURNS_MAX] = {0};
    for (unsigned i = 0; i < turns; i++)
        ratios[i] = results[over][i] / results[under][i];
    return figures_of(ratios).median;
}

static void print_ratio(size_t i, size_t rows_above)
{
    if (rows_above == 0)
        return;
    if (is_left_out(&arms[i - rows_above]))
        printf("%10s", "-");
    else
        printf("%9.2fx", ratio(i - rows_above, i));
}

static void report(const document *doc)
{
    printf("\n%s (%zu bytes)\n%-14s%-22s%12s%12s%10s%10s\n", doc->name, doc->size, "", "",
           "best, us", "median, us", "jansson", "V8");
    for (size_t i = 0; i < ARMS; i++) {
        if (is_left_out(&arms[i]))
            continue;
        figures f = figures_of(results[i]);
        printf("%-14s%-22s%12.2f%12.2f", arms[i].work, arms[i].name, f.best / 1e3, f.median / 1e3);
        print_ratio(i, arms[i].jansson);
        print_ratio(i, arms[i].v8);
        if (i == ECHO_ARENA)
            printf("    %.2f of malloc's", ratio(ECHO_ARENA, ECHO_MALLOC));
        printf("\n");
    }
    fflush(stdout);
}

static void print_environment(void)
{
    char line[256], cpu[128] = "unknown";
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
            break;
    }
    if (f)
        fclose(f);
    struct utsname system;
    if (uname(&system) != 0)
        fail("The system has no name: %s.", strerror(errno));
    printf("%s, Linux %s, glibc %s, jansson %s, node %s, gcc %s %s\n", cpu, system.release,
           gnu_get_libc_version(), jansson_version_str(), v8_version[0] ? v8_version : "none",
           __VERSION__, JSON_BENCH_FLAGS);
    printf("%u turns of %.0f ms; the two right columns: how many times faster than jansson in the "
           "same memory, and than V8.\n",
           turns, turn_ns / 1e6);
}

/* ---- Set-up ---------------------------------------------------------------------------------- */

/* What is fast must first be right. */
static void check(const document *doc)
{
    json_writer w;
    json_t *theirs = load(doc), *ours = read_text(doc);
    if (!json_equal(theirs, ours))
        fail("%s: the readers do not agree.", doc->name);
    write_text(&w, &heap_answers, doc, ours);
    json_error_t error;
    json_t *again = json_loadb(w.text, w.length, 0, &error);
    if (!json_equal(theirs, again))
        fail("%s: what is written does not read back equal.", doc->name);
    json_decref(theirs);
    json_decref(ours);
    json_decref(again);
    mem_reset(&heap_answers);
}

static void save(const document *doc, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(doc->text, 1, doc->size, f) != doc->size || fclose(f) != 0)
        fail("%s cannot be written: %s.", path, strerror(errno));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--quick") == 0) {
        turns = 3;
        turn_ns = 2e5;
    } else if (argc != 1) {
        fail("usage: %s [--quick]", argv[0]);
    }
    signal(SIGPIPE, SIG_IGN);
    use_malloc();
    open_memory();

    char directory[] = "/tmp/json_bench-XXXXXX", *files[DOCUMENTS], paths[DOCUMENTS][64];
    if (!mkdtemp(directory))
        fail("%s: %s.", directory, strerror(errno));
    for (size_t i = 0; i < DOCUMENTS; i++) {
        documents[i].make(&documents[i]);
        check(&documents[i]);
        documents[i].malloc_tree = read_text(&documents[i]);
        use_arena();
        mem_switch(&arena_trees);
        documents[i].arena_tree = read_text(&documents[i]);
        use_malloc();
        snprintf(paths[i], sizeof paths[i], "%s/%zu.json", directory, i);
        save(&documents[i], paths[i]);
        files[i] = paths[i];
    }
    start_v8(files);
    for (size_t i = 0; i < DOCUMENTS; i++)
        unlink(paths[i]);
    rmdir(directory);

    print_environment();
    for (size_t i = 0; i < DOCUMENTS; i++) {
        open_worker();
        measure(i);
        close_worker();
        report(&documents[i]);
    }

    stop_v8();
    for (size_t i = 0; i < DOCUMENTS; i++) {
        json_decref(documents[i].malloc_tree);
        free(documents[i].text);
    }
    close_memory();
    return 0;
}
