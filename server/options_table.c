/* The table of options. A row is all there is to an option: its flag, environment variable, config
 * key, line of --help and entry of the manual page follow from it. Constant data. */
#include <assert.h>
#include <string.h>

#include "options_table.h"

#define K ((uint64_t)1024)
#define M (1024 * K)
#define G (1024 * M)
#define MINUTE ((uint64_t)60000)

#define AT(member) offsetof(options, member)

const option_row option_table[] = {
    {"Memory", "alloc", OPTION_CHOICE, AT(alloc), .fallback = "arena", .allowed = "arena|malloc",
     .argument = "arena|malloc", .help = "what requests allocate from",
     .detail = "What requests allocate from. With arena, all that a request allocates "
               "comes from blocks of its own and goes back at once when its response "
               "has been sent. With malloc, every allocation is a malloc and is freed "
               "one by one, as in a plain C program."},
    {NULL, "pool", OPTION_SWITCH, AT(pool), .fallback = "on", .allowed = "on|off",
     .argument = "on|off", .help = "pools for connection and request structs",
     .detail = "Whether the structs of connections and requests come from pools, "
               "whatever --alloc says, or from malloc."},
    {NULL, "request-memory", OPTION_SIZE, AT(request_memory), .fallback = "8M", .max = 1024 * G,
     .argument = "SIZE", .help = "all that one request may hold; 0: no limit",
     .detail = "All that one request may hold: body, document and response. A request "
               "that needs more is answered 413. With 0 there is no limit. With --alloc "
               "malloc the document is not counted. What the document store holds for the request "
               "has as much again."},
    {NULL, "memory-limit", OPTION_SIZE, AT(memory_limit), .fallback = "0", .max = 1024 * G,
     .argument = "SIZE", .help = "all requests together; 0: no limit",
     .detail = "What all requests together may hold, counted as for --request-memory. A "
               "request that does not fit beside the others is answered 503 with "
               "Retry-After. With 0 there is no limit."},
    {NULL, "retain", OPTION_SIZE, AT(retain), .fallback = "auto", .max = G, .allowed = "auto",
     .argument = "SIZE", .help = "blocks each worker keeps at rest",
     .detail = "Blocks that each worker keeps for its next requests. Blocks beyond it "
               "go to a depot that all workers share, or back to the system if they are large. "
               "With auto a worker keeps what its recent requests needed, at most 16M."},
    {NULL, "decay", OPTION_TIME, AT(decay), .fallback = "1s", .min = 10, .max = 60 * MINUTE,
     .argument = "TIME", .help = "unused blocks are unmapped after",
     .detail = "How fast the depot goes back to the system: blocks that lay unused for "
               "a whole period are unmapped, without any traffic."},
    {NULL, "idle-trim", OPTION_SWITCH, AT(idle_trim), .computed = "on with arena",
     .allowed = "on|off", .argument = "on|off", .help = "malloc_trim after a spike",
     .detail = "Whether malloc's heap is trimmed after a spike: when the server is at "
               "rest, or has seen half as many connections in a period as before. "
               "libmicrohttpd keeps the buffers of connections there, and "
               "malloc keeps them after the connections have closed. With arenas malloc keeps up "
               "to 1M at the top of each heap, whatever MALLOC_TRIM_THRESHOLD_ says. Off by "
               "default with --alloc malloc, so that a comparison sees malloc as it is."},
    {NULL, "connection-memory", OPTION_SIZE, AT(connection_memory), .fallback = "12K", .min = 4 * K,
     .max = M, .argument = "SIZE", .help = "buffer of one connection",
     .detail = "The buffer of one connection. A request's line and headers and the "
               "headers of the response must fit. 12K is the smallest that takes a "
               "request line of 8,000 octets (RFC 9112, section 3)."},
    {NULL, "mem-debug", OPTION_INSTRUMENTS, AT(mem_debug), .fallback = "off", .allowed = "off",
     .argument = "LIST", .help = "instruments on contexts, see --help-man",
     .detail = "Instruments on the memory contexts of requests, to find faults. The server is "
               "slower with them, and pays nothing without."},

    {"Network", "listen", OPTION_ADDRESS, AT(listen), .fallback = "127.0.0.1:8080",
     .argument = "ADDRESS:PORT", .help = "where the API is served",
     .detail = "Where the API is served. Port 0 takes any free one; the log names it."},
    {NULL, "admin", OPTION_ADDRESS, AT(admin), .fallback = "127.0.0.1:9090", .allowed = "off",
     .argument = "ADDRESS:PORT", .help = "health and metrics, or off",
     .detail = "Where health, metrics and memory figures are served. Keep it private: "
               "it has no access control."},
    {NULL, "threads", OPTION_COUNT, AT(threads), .computed = "processors", .min = 1, .max = 256,
     .argument = "N", .help = "workers, an event loop each",
     .detail = "Workers, each with an event loop of its own. By default as many as "
               "there are processors that this process may run on, and never more than "
               "--max-connections."},
    {NULL, "max-connections", OPTION_COUNT, AT(max_connections), .fallback = "4096", .min = 1,
     .max = 1000000, .argument = "N", .help = "open at the same time",
     .detail = "Connections open at the same time. Each needs a file descriptor."},
    {NULL, "per-ip", OPTION_COUNT, AT(per_ip), .fallback = "0", .max = 1000000, .argument = "N",
     .help = "connections of one address; 0: no limit",
     .detail = "Connections of one address. Leave it at 0, no limit, behind a reverse "
               "proxy, which is one address."},

    {"Limits", "body-limit", OPTION_SIZE, AT(body_limit), .fallback = "1M", .min = 1, .max = G,
     .argument = "SIZE", .help = "largest request body",
     .detail = "The largest body of a request. A larger one is answered 413. It must not "
               "exceed --request-memory and --memory-limit, which count it too."},
    {NULL, "json-depth", OPTION_COUNT, AT(json_depth), .fallback = "128", .min = 1, .max = 1024,
     .argument = "N", .help = "levels of nesting in a document",
     .detail = "Levels of nesting in a document. A deeper one is answered 422."},
    {NULL, "json-reader", OPTION_CHOICE, AT(json_reader), .fallback = "slate",
     .allowed = "slate|jansson", .argument = "slate|jansson", .help = "what parses documents",
     .detail = "What parses documents. Both readers take and refuse the same and make the same "
               "tree; jansson's own takes several times as long. It is there to be compared "
               "with."},
    {NULL, "json-walk", OPTION_SWITCH, AT(json_walk), .computed = "off with arena",
     .allowed = "on|off", .argument = "on|off", .help = "release documents node by node",
     .detail = "Whether a document is released node by node, as malloc needs it: with --alloc "
               "malloc it is always on. An arena forgets a document without looking at it; with on "
               "it is walked all the same. It is there to see what that costs."},
    {NULL, "header-timeout", OPTION_TIME, AT(header_timeout), .fallback = "10s", .min = 100,
     .max = 60 * MINUTE, .argument = "TIME", .help = "to send a request's headers",
     .detail = "Time to send a request's headers, however steadily they trickle in."},
    {NULL, "body-timeout", OPTION_TIME, AT(body_timeout), .fallback = "60s", .min = 100,
     .max = 60 * MINUTE, .argument = "TIME", .help = "to send a body, and again for its answer",
     .detail = "Time to send a request's body, counted from the end of its headers. As long again "
               "may pass until the answer has been read; waiting for the document store is not "
               "counted."},
    {NULL, "idle-timeout", OPTION_TIME, AT(idle_timeout), .fallback = "15s", .min = 500,
     .max = 60 * MINUTE, .argument = "TIME", .help = "a silent connection is closed after",
     .detail =
         "How long a connection may stay silent while it is the client's turn. Behind a reverse proxy "
         "it must be longer than the proxy keeps connections for reuse."},
    {NULL, "drain-timeout", OPTION_TIME, AT(drain_timeout), .fallback = "30s", .max = 60 * MINUTE,
     .argument = "TIME", .help = "to finish requests at SIGTERM",
     .detail =
         "Time to finish the requests in flight at SIGTERM, and to serve clients that have connected "
         "and wait for a place; until those are served, new ones are not answered, then "
         "refused. A second SIGTERM stops at once."},

    {"Documents", "db", OPTION_STORE, AT(db), .fallback = "sqlite:slate.db", .allowed = "off",
     .argument = "URI", .help = "where documents are, or off",
     .detail = "Where the documents of /db are stored: a file of SQLite's, made if it is not "
               "there; \"sqlite::memory:\", which ends with the process; or a PostgreSQL database, "
               "by a URI of libpq's, which any number of slates may share. A password in it is "
               "visible to whoever may list processes; in the environment, or in libpq's password "
               "file, it is not. With off, /db answers 503."},
    {NULL, "db-timeout", OPTION_TIME, AT(db_timeout), .fallback = "5s", .min = 10,
     .max = 60 * MINUTE, .argument = "TIME", .help = "for one operation, waiting included",
     .detail = "Time for one operation on the store, waiting for its turn included. One that takes "
               "longer is answered 503."},
    {NULL, "db-threads", OPTION_COUNT, AT(db_threads), .fallback = "0", .max = 256, .argument = "N",
     .help = "that talk to the store; 0: as --threads",
     .detail =
         "Threads that wait for the store, so that workers need not. With 0 there are as many "
         "as --threads says."},
    {NULL, "db-indexes", OPTION_INDEXES, AT(db_indexes), .fallback = "off", .allowed = "off",
     .argument = "LIST", .help = "people:/age,people:/address/city",
     .detail = "What lists are filtered and ordered by often: for each an index is made at the "
               "start. A collection and a JSON Pointer (RFC 6901) into its documents."},
    {NULL, "require-precondition", OPTION_SWITCH, AT(require_precondition), .fallback = "off",
     .allowed = "on|off", .argument = "on|off", .help = "428 without a condition",
     .detail = "Whether a document is changed or removed only if the request has If-Match, "
               "If-None-Match or If-Unmodified-Since, so that no change is lost to another. "
               "Without, it is answered 428 (RFC 6585)."},

    {"Plugins, logs and configuration", "plugin", OPTION_FILES, AT(plugin), .fallback = "off",
     .allowed = "off", .argument = "FILE.so", .help = "handlers of your own; can be repeated",
     .detail =
         "A shared object whose module is served beside the built-in ones, as slate.h and the "
         "tutorial (plugins/README.md) describe it. Several are separated by commas, or each "
         "has a flag of its own. One that was built against another ABI is refused. It is "
         "part of the program: load only what you would run."},
    {NULL, "access-log", OPTION_CHOICE, AT(access_log), .fallback = "off",
     .allowed = "off|json|clf", .argument = "off|json|clf", .help = "a line per request",
     .detail = "A line per request, as JSON or in the Common Log Format, to standard "
               "output. All other logs go to standard error."},
    {NULL, "log-level", OPTION_CHOICE, AT(log_level), .fallback = "info",
     .allowed = "error|warning|info|debug", .argument = "LEVEL",
     .help = "error, warning, info or debug", .detail = "The least severe level that is logged."},
    {NULL, "config", OPTION_FILE, AT(config), .argument = "FILE",
     .help = "lines of name = value; # comments",
     .detail = "A file of options, see FILES. An unknown name or a bad value in it "
               "ends the program. It may not name another file."},
};

static_assert(sizeof option_table / sizeof *option_table == OPTION_ROWS,
              "OPTION_ROWS counts the rows");

static void print_version(FILE *out)
{
    fputs("slate " SLATE_VERSION "\n", out);
}

const option_command option_commands[OPTION_COMMANDS] = {
    {"help", option_print_help, "print this screen"},
    {"help-man", option_print_manual, "print the manual page, slate(1)"},
    {"version", print_version, "print the version"},
};

void option_variable(const option_row *row, char ret_name[static OPTION_VARIABLE_MAX])
{
    int length = snprintf(ret_name, OPTION_VARIABLE_MAX, "SLATE_%s", row->name);
    assert(length > 0 && length < OPTION_VARIABLE_MAX);
    for (char *p = ret_name; *p != '\0'; p++) {
        if (*p == '-')
            *p = '_';
        else if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
    }
    (void)length;
}
