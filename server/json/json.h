/* JSON in and out of the server: text to a jansson tree, and a tree or a handler's rows to text.
 * The tree is jansson's and may be used through its public API everywhere; its parser and printer
 * are kept behind this file. */
#ifndef SLATE_JSON_H
#define SLATE_JSON_H

#include <jansson.h>

#include "mem.h"

/* ---- Allocation (bridge.c) ------------------------------------------------------------------- */

/* Makes jansson allocate from the current context (mem_current), or from malloc where there is
 * none. Process-wide; call once, before any other use of jansson, in arena mode only: in malloc
 * mode jansson keeps plain malloc and free. A tree belongs to the context that was current when it
 * was made: it must not be changed while another is current, nor be used after its reset. `walk`:
 * trees are released node by node all the same, to see what that costs (--json-walk on). */
void json_bridge_install(bool walk);
bool json_bridge_installed(void);

/* Ends a tree that its owner is done with. Plain malloc: json_decref. Arena: nothing, the reset
 * takes it, unless the walk is wanted; a debug build (NDEBUG unset) always walks, and asserts that
 * the tree was referenced exactly once. NULL is allowed. Call it while the tree's context is
 * current. */
void json_bridge_release(json_t *tree);
bool json_bridge_walks(void); /* whether that is json_decref */
/* Debug builds in arena mode: jansson allocations made and not freed on this thread while a context
 * was current; 0 after every tree was released. Always 0 in other builds. */
long json_bridge_outstanding(void);

/* ---- Reading (read.c) ------------------------------------------------------------------------ */

#define JSON_READ_DEPTH_MAX 2047 /* what jansson's parser takes; bounds the recursion of ours */

typedef enum {
    JSON_READ_OK = 0,
    JSON_READ_SYNTAX,    /* not JSON, bad UTF-8, or something after the value */
    JSON_READ_DUPLICATE, /* an object has the same key twice */
    JSON_READ_REFUSED,   /* valid JSON that is refused: depth, number range, NUL in a key */
    JSON_READ_MEMORY     /* an allocation was refused: see the budget for the reason */
} json_read_status;

typedef struct json_read_problem {
    json_read_status status;
    char detail[200]; /* a sentence: what was found, what may stand there */
    int line, column; /* of the first byte at fault, from 1, in characters; 0: not in the text */
    size_t offset;    /* the same in bytes from the start of the text */
} json_read_problem;

/* Parses exactly one RFC 8259 value: `size` bytes at `text`, which need not end in NUL and are not
 * kept. Integers are 64-bit, duplicate keys are refused, "\u0000" is allowed in values. `depth`
 * bounds the nesting (a scalar has 0, `[]` 1), and is itself bounded by JSON_READ_DEPTH_MAX. The
 * result is a new reference in the current context (arena) or on the heap; NULL: `*ret_problem` says
 * why. */
json_t *json_read(const char *text, size_t size, unsigned depth, json_read_problem *ret_problem);

/* Two parsers can do that: ours, and jansson's, which the tests and the load tests compare it with.
 * They take and refuse the same (but for texts over 2 GiB, which jansson's does not take), with the
 * same problems. */
typedef enum { JSON_READER_SLATE, JSON_READER_JANSSON } json_reader;
/* Chooses for json_read, process-wide; call before there are threads. Without it: slate. */
void json_reader_select(json_reader reader);
json_t *json_read_with(json_reader reader, const char *text, size_t size, unsigned depth,
                       json_read_problem *ret_problem);

/* ---- Writing (write.c) ----------------------------------------------------------------------- */

/* Streams JSON into one growing buffer in `ctx`. Errors stick: once `failed` is set every later
 * call does nothing, so callers check once at the end. */
typedef enum {
    JSON_WRITE_OK = 0,
    JSON_WRITE_MEMORY, /* the context refused */
    JSON_WRITE_DEPTH,  /* nested deeper than `max_depth` */
    JSON_WRITE_VALUE   /* what JSON cannot say: NaN, infinity, text that is not UTF-8, no tree */
} json_write_status;

#define JSON_WRITE_DEPTH_MAX 2048 /* hard bound of max_depth: the recursion over a tree */

typedef struct json_writer {
    mem_context *ctx;
    char *text; /* not NUL-terminated; in ctx, valid until its reset */
    size_t length, capacity;
    size_t expected; /* of json_writer_init */
    unsigned depth, max_depth;
    bool pretty; /* two spaces an indent, newline between members */
    bool comma;  /* the next value in the open container is not its first */
    bool after_key;
    json_write_status failed;
} json_writer;

/* `expected`: a guess of the length in bytes, reserved at the first write (0: unknown). */
void json_writer_init(json_writer *w, mem_context *ctx, size_t expected, unsigned max_depth,
                      bool pretty);

void json_write_begin_object(json_writer *w);
void json_write_end_object(json_writer *w);
void json_write_begin_array(json_writer *w);
void json_write_end_array(json_writer *w);
/* A member's key, in an object, before its value; UTF-8, escaped as RFC 8259 asks and no more. */
void json_write_key(json_writer *w, const char *key, size_t length);
void json_write_string(json_writer *w, const char *text, size_t length);
void json_write_integer(json_writer *w, int64_t value);
void json_write_real(json_writer *w, double value);
void json_write_bool(json_writer *w, bool value);
void json_write_null(json_writer *w);
/* Text that is JSON already, as one value; written as it is. */
void json_write_raw(json_writer *w, const char *text, size_t length);
/* A whole tree, which is only read. Members in the order of insertion. Its strings are UTF-8, as
 * json_read and jansson's checking functions make them: they are not checked again. */
void json_write_tree(json_writer *w, const json_t *tree);

/* Literal keys and strings, with the length from the compiler. */
#define json_write_literal_key(w, s) json_write_key((w), "" s, sizeof(s) - 1)
#define json_write_literal(w, s) json_write_string((w), "" s, sizeof(s) - 1)

/* ---- Reals (real.c) -------------------------------------------------------------------------- */

#define JSON_REAL_MAX 32 /* bytes that json_real_print may write */
/* The shortest decimal text that reads back as exactly `value` (finite), laid out as ECMAScript's
 * Number::toString does (exponent from 1e21 up and below 1e-6), except that a whole number keeps
 * ".0" (1.0, -0.0) so that it stays a real. No locale. Returns the length; not NUL-terminated. */
size_t json_real_print(double value, char out[JSON_REAL_MAX]);

#endif
