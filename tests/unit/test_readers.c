/* Our JSON reader against jansson's, which must take the same texts, make the same trees and find the
 * same faults at the same places; against the C library's strtod; and at the limits of memory, stack
 * and text. Every text ends where a page ends behind which nothing may be read. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../alloc/blocks.h"
#include "../../server/json/json.h"
#include "long_double.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DEPTH 100

/* Checked builds are several times slower. */
#if MEM_ASAN || defined __SANITIZE_THREAD__ || !defined NDEBUG
#define ROUNDS(n) ((n) / 10)
#else
#define ROUNDS(n) (n)
#endif

/* One thread: ThreadSanitizer has nothing to see, and takes its time. */
#ifdef __SANITIZE_THREAD__
#define BYTE_STEP 13
#define LONG_STRING (8u * 1024 * 1024)
#else
#define BYTE_STEP 1
#define LONG_STRING (64u * 1024 * 1024)
#endif

/* ---- Texts at the end of memory ---------------------------------------------------------------- */

static char *edge; /* where the page begins that cannot be read */
static size_t edge_room;

static int map_edge(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    (void)state;
    edge_room = 256 * page;
    char *pages =
        mmap(NULL, edge_room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    edge = pages + edge_room;
    return mprotect(edge, page, PROT_NONE);
}

static int unmap_edge(void **state)
{
    (void)state;
    return munmap(edge - edge_room, edge_room + (size_t)sysconf(_SC_PAGESIZE));
}

static const char *at_edge(const char *text, size_t size)
{
    assert_true(size <= edge_room);
    return memcpy(edge - size, text, size);
}

static json_read_problem problem;

static json_t *read_ours(const char *text, size_t size)
{
    memset(&problem, 0xAA, sizeof problem);
    return json_read_with(JSON_READER_SLATE, at_edge(text, size), size, DEPTH, &problem);
}

/* Returns whether the text is good. */
static bool assert_agreement(const char *text, size_t size)
{
    json_read_problem theirs;
    json_t *expected = json_read_with(JSON_READER_JANSSON, text, size, DEPTH, &theirs);
    json_t *tree = read_ours(text, size);
    if ((tree != NULL) != (expected != NULL))
        fail_msg("%s here: %s\n%.*s", tree ? "taken" : "refused",
                 tree ? theirs.detail : problem.detail, (int)size, text);
    if (tree && !json_equal(tree, expected))
        fail_msg("another tree from %.*s", (int)size, text);
    if (!tree && (problem.status != theirs.status || problem.offset != theirs.offset ||
                  problem.line != theirs.line || problem.column != theirs.column ||
                  strcmp(problem.detail, theirs.detail) != 0))
        fail_msg("%zu: %s\nnot %zu: %s\n%.*s", problem.offset, problem.detail, theirs.offset,
                 theirs.detail, (int)size, text);
    bool good = tree != NULL;
    json_decref(tree);
    json_decref(expected);
    return good;
}

/* ---- Real documents, damaged ------------------------------------------------------------------- */

static const char document[] =
    "{\"from\": {\"id\": 48210, \"firstName\": \"Zo\\u00eb\", \"lastName\": \"M\xC3\xBCller\",\n"
    "  \"address\": {\"street\": \"12 \\\"Rose\\\" Walk\", \"zip\": \"02135\"}, \"balance\": -1.5e+3},\n"
    " \"to\": {\"id\": 9223372036854775807, \"tags\": [\"a\", \"\", [], {}, null, true, false],\n"
    "  \"note\": \"\\ud83d\\ude00 \xE2\x82\xAC \xF0\x9F\x98\x80 a longer piece of text, in one run\"},\n"
    " \"amount\": 0.1, \"rate\": 123456789.0123456789, \"k\\ney\": 0, \"limit\": -0}";

static void every_truncation_is_judged_alike(void **state)
{
    size_t size = sizeof document - 1;
    (void)state;
    assert_true(assert_agreement(document, size));
    for (size_t cut = 0; cut < size; cut++) {
        assert_false(assert_agreement(document, cut));
        assert_agreement(document + cut, size - cut); /* and from the middle on */
    }
}

static void every_change_of_a_byte_is_judged_alike(void **state)
{
    char text[sizeof document];
    size_t size = sizeof document - 1, good = 0;
    (void)state;
    memcpy(text, document, size);
    for (size_t i = 0; i < size; i++) {
        for (int byte = 0; byte < 256; byte += BYTE_STEP) {
            text[i] = (char)byte;
            good += assert_agreement(text, size);
        }
        text[i] = document[i];
    }
    assert_true(good > size * 20 / BYTE_STEP &&
                good < size * 100 / BYTE_STEP); /* both kinds were tried */
}

/* ---- Documents made up ------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t random_below(size_t n)
{
    return (size_t)(random_bits() >> 32) % n;
}

typedef struct buffer {
    char text[16 * 1024];
    size_t size;
} buffer;

static void put(buffer *b, const char *text)
{
    size_t length = strlen(text);
    assert_true(b->size + length <= sizeof b->text);
    memcpy(b->text + b->size, text, length);
    b->size += length;
}

#define PUT_ONE_OF(b, list) put((b), (list)[random_below(COUNT(list))])

static void put_random_value(buffer *b, unsigned depth)
{
    /* Few keys, one of them in two spellings, so that some stand twice; mostly good pieces. */
    static const char *const keys[] = {"\"a\"",
                                       "\"\\u0061\"",
                                       "\"b\"",
                                       "\"c\"",
                                       "\"d\"",
                                       "\"\"",
                                       "\"e\\n\"",
                                       "\"f\\\"}\"",
                                       "\"g,\"",
                                       "\"h\xC3\xA9]\"",
                                       "\"long enough for two steps of sixteen\"",
                                       "\"b\\u0000\""};
    static const char *const scalars[] = {"0",
                                          "-1",
                                          "1.5",
                                          "\"\"",
                                          "\"x\"",
                                          "\"\\n\"",
                                          "\"[{,}]\"",
                                          "true",
                                          "false",
                                          "null",
                                          "\"\\ud83d\\ude00\"",
                                          "1E5",
                                          "\"a string of more than sixteen bytes \\\\ and more\"",
                                          "\"\xC3\xA9t\xC3\xA9\"",
                                          "-0",
                                          "12345678901234567890"};
    static const char *const spaces[] = {
        "", "", "", "", "", " ", "\n", "\n    ", "\t \r\n", "                        "};
    size_t members = random_below(6);
    bool object = random_below(2);
    if (depth == 0 || random_below(4) == 0) {
        PUT_ONE_OF(b, scalars);
        return;
    }
    put(b, object ? "{" : "[");
    for (size_t i = 0; i < members; i++) {
        if (i > 0)
            put(b, random_below(100) ? "," : "");
        PUT_ONE_OF(b, spaces);
        if (object) {
            PUT_ONE_OF(b, keys);
            PUT_ONE_OF(b, spaces);
            put(b, random_below(100) ? ":" : ",");
            PUT_ONE_OF(b, spaces);
        }
        put_random_value(b, depth - 1);
        PUT_ONE_OF(b, spaces);
    }
    put(b, object ? "}" : "]");
}

static void random_documents_are_judged_alike(void **state)
{
    static buffer b;
    size_t good = 0, tried = ROUNDS(100000);
    (void)state;
    random_state = 42;
    for (size_t i = 0; i < tried; i++) {
        b.size = 0;
        put_random_value(&b, 4);
        good += assert_agreement(b.text, b.size);
    }
    assert_true(good > tried / 4 && good < tried * 3 / 4);
}

/* A key with escapes waits for its value, in which there are more of them. */
static void keys_with_escapes_survive_what_is_inside_their_values(void **state)
{
    enum { NESTING = 40, LONG = 300 };
    static buffer b;
    char filler[LONG + 1];
    (void)state;
    memset(filler, 'x', LONG);
    filler[LONG] = '\0';
    b.size = 0;
    for (int i = 0; i < NESTING; i++) {
        char key[32];
        snprintf(key, sizeof key, "{\"\\u00e9%d\\n", i);
        put(&b, key);
        put(&b, filler + (i % 3 ? LONG - i : 0));
        put(&b, "\":");
    }
    put(&b, "\"\\t\"");
    for (int i = 0; i < NESTING; i++)
        put(&b, ",\"\\\\\":\"\\/\"}");
    assert_true(assert_agreement(b.text, b.size));
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* strtod rounds correctly, and the text has a fraction or an exponent. */
static void assert_real(const char *text)
{
    double expected = strtod(text, NULL);
    json_t *real = read_ours(text, strlen(text));
    if (isinf(expected)) {
        assert_null(real);
        assert_int_equal(problem.status, JSON_READ_REFUSED);
        return;
    }
    if (!json_is_real(real) || bits_of(json_real_value(real)) != bits_of(expected))
        fail_msg("%s read as %a, not %a", text, json_real_value(real), expected);
    json_decref(real);
}

static void hard_reals_are_rounded_correctly(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0.0", 0.0},
        {"-0.0", -0.0},
        {"-0e9", -0.0},
        {"0e99999999999999999999", 0.0},
        {"0.0e-99999999999999999999", 0.0},
        {"7.6", 7.6},
        {"0.1", 0x1.999999999999ap-4},
        {"1e22", 1e22},
        {"1e23", 0x1.52d02c7e14af6p+76},
        {"9007199254740993.0", 0x1p53},
        {"9007199254740993.00000000000000000000000000000000000000001", 0x1.0000000000001p53},
        {"9007199254740992.99999999999999999999999999999999999999999", 0x1p53},
        {"9223372036854775808.0", 0x1p63},
        {"18446744073709551615.0", 0x1p64},
        {"5e-324", 0x1p-1074},
        {"4.9406564584124654e-324", 0x1p-1074},
        {"2.4703282292062328e-324", 0x1p-1074},
        {"2.4703282292062327e-324", 0.0},
        {"1e-400", 0.0},
        {"-1e-99999999999999999999", -0.0},
        {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
        {"2.2250738585072012e-308", 0x1p-1022},
        {"2.2250738585072014e-308", 0x1p-1022},
        {"1.7976931348623157e308", DBL_MAX},
        {"1.7976931348623158e308", DBL_MAX},
        {"179769313486231580793e288", DBL_MAX},
        {"0.000000000000000000000000000000000000000000000000001e51", 1.0},
        {"1000000000000000000000000000000000000000000000000000e-51", 1.0},
    };
    static const char *const too_large[] = {"1E400",
                                            "-1e309",
                                            "1.7976931348623159e308",
                                            "179769313486231580794e288",
                                            "1e99999999999999999999",
                                            "0.1e18446744073709551617",
                                            "99999999999999999999999e9223372036854775807"};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_real(cases[i].text);
        if (bits_of(strtod(cases[i].text, NULL)) != bits_of(cases[i].value))
            fail_msg("%s", cases[i].text);
    }
    for (size_t i = 0; i < COUNT(too_large); i++)
        assert_real(too_large[i]);
}

static void every_double_comes_back(void **state)
{
    (void)state;
    random_state = 1;
    for (int i = 0; i < ROUNDS(1000000); i++) {
        char text[64];
        double value = double_of(random_bits());
        if (!isfinite(value))
            continue;
        text[json_real_print(value, text)] = '\0';
        json_t *real = read_ours(text, strlen(text));
        if (!json_is_real(real) || bits_of(json_real_value(real)) != bits_of(value))
            fail_msg("%s read as %a, not %a", text, json_real_value(real), value);
        json_decref(real);
        if (i % 10 == 0) {
            snprintf(text, sizeof text, "%.*e", (int)random_below(25), value);
            assert_real(text);
        }
    }
}

static void reals_of_any_length_are_rounded_correctly(void **state)
{
    (void)state;
    random_state = 2;
    for (int i = 0; i < ROUNDS(200000); i++) {
        char text[1200], *at = text;
        size_t digits = 1 + random_below(i % 50 ? 24 : 1000), point = random_below(digits + 1);
        for (size_t k = 0; k < digits; k++) {
            if (k == point && k > 0)
                *at++ = '.';
            *at++ = (char)('0' + (random_below(4) ? random_below(10) : 0));
        }
        if (text[0] == '0' && digits > 1 && point != 1)
            text[0] = '9';
        /* Mostly so that the number is in the range, however long it is before the point. */
        int about = point > 300 ? -(int)point : 0, spread = i % 7 ? 20 : 350;
        if (point == 0 || point == digits || about || random_below(2))
            at += snprintf(at, 16, "e%d", about - spread + (int)random_below(2 * (size_t)spread));
        *at = '\0';
        assert_real(text);
    }
}

static void halfway_between_two_doubles_the_even_one_is_taken(void **state)
{
    (void)state;
    if (!long_double_is_wide()) /* then there is no halfway */
        skip();
    random_state = 3;
    for (int i = 0; i < ROUNDS(20000); i++) {
        char text[900];
        double value = double_of(random_bits() >> 1);
        if (!isnormal(value) || value == DBL_MAX)
            continue;
        long double half = ((long double)value + nextafter(value, INFINITY)) / 2;
        int length = snprintf(text, sizeof text, "%.790Le", half); /* exact: it has fewer digits */
        assert_real(text);
        char *exponent = strchr(text, 'e'); /* "e+308": one digit more */
        assert_true(exponent && exponent[-1] == '0' && length > 790);
        exponent[-1] = '1';
        assert_real(text);
    }
}

static void integers_are_exact_or_refused(void **state)
{
    (void)state;
    random_state = 4;
    for (int i = 0; i < ROUNDS(200000); i++) {
        char text[32];
        int64_t value = (int64_t)random_bits() >> random_below(64);
        snprintf(text, sizeof text, "%lld", (long long)value);
        json_t *integer = read_ours(text, strlen(text));
        assert_true(json_is_integer(integer) && json_integer_value(integer) == value);
        json_decref(integer);
    }
    static const char *const around[] = {
        "9223372036854775806",  "9223372036854775807",   "9223372036854775808",
        "-9223372036854775807", "-9223372036854775808",  "-9223372036854775809",
        "9999999999999999999",  "18446744073709551615",  "18446744073709551616",
        "18446744073709551617", "100000000000000000000", "-18446744073709551617",
    };
    for (size_t i = 0; i < COUNT(around); i++)
        assert_agreement(around[i], strlen(around[i]));
}

static void the_locale_does_not_matter(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    (void)state;
    bool found = false;
    for (size_t i = 0; i < COUNT(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) && *localeconv()->decimal_point == ',';
    if (!found)
        skip();
    json_t *tree = read_ours("[1.5,2.2250738585072011e-308]", 29);
    setlocale(LC_NUMERIC, "C");
    assert_true(json_real_value(json_array_get(tree, 0)) == 1.5);
    assert_true(json_real_value(json_array_get(tree, 1)) == 0x0.fffffffffffffp-1022);
    json_decref(tree);
}

/* ---- Strings ----------------------------------------------------------------------------------- */

/* Every code point, raw and escaped, at every place of a step. */
static void every_character_is_read(void **state)
{
    (void)state;
    for (uint32_t code = 1; code <= 0x10FFFF; code += code < 0x3000 || code > 0xD700 ? 1 : 61) {
        char text[64], escaped[64];
        int before = (int)(code % 19), length;
        if (code > 0x10000 && code % 257 != 0)
            continue;
        if (code >= 0xD800 && code <= 0xDFFF) {
            length = snprintf(text, sizeof text, "\"%.*s\\u%04x\"", before, "aaaaaaaaaaaaaaaaaaa",
                              (unsigned)code);
            assert_false(assert_agreement(text, (size_t)length));
            continue;
        }
        if (code < 0x10000)
            snprintf(escaped, sizeof escaped, "\\u%04X", (unsigned)code);
        else
            snprintf(escaped, sizeof escaped, "\\u%04x\\u%04X", 0xD800 + ((code - 0x10000) >> 10),
                     0xDC00 + ((code - 0x10000) & 0x3FF));
        length = snprintf(text, sizeof text, "\"%.*s%s\"", before, "aaaaaaaaaaaaaaaaaaa", escaped);
        assert_true(assert_agreement(text, (size_t)length));
        json_t *string = read_ours(text, (size_t)length);
        char raw[64];
        length = snprintf(raw, sizeof raw, "\"%s\"", json_string_value(string));
        if (code >= 0x20 && code != '"' && code != '\\')
            assert_true(assert_agreement(raw, (size_t)length));
        else
            assert_agreement(raw, (size_t)length);
        json_decref(string);
    }
}

static void every_pair_of_bytes_is_judged_alike(void **state)
{
    char text[] = "\"aaaaaaaaaaaaaaaaXXaaa\"";
    (void)state;
    for (int first = 0; first < 256; first++) {
        for (int second = 0; second < 256; second += first < 0x80 && first != '\\' ? 3 : 1) {
            size_t at = 1 + (size_t)(first + second) % 18;
            memset(text + 1, 'a', sizeof text - 3);
            text[at] = (char)first;
            text[at + 1] = (char)second;
            assert_agreement(text, sizeof text - 1);
        }
    }
}

static void a_string_of_64_megabytes_is_read(void **state)
{
    const size_t size = LONG_STRING;
    (void)state;
    char *text = malloc(size);
    assert_non_null(text);
    for (int escapes = 0; escapes < 2; escapes++) {
        memset(text, 'x', size);
        text[0] = text[size - 1] = '"';
        for (size_t i = 100; escapes && i < size - 100; i += 1000)
            memcpy(text + i, "\\\"", 2);
        json_t *tree = json_read_with(JSON_READER_SLATE, text, size, 0, &problem);
        assert_int_equal(json_string_length(tree),
                         size - 2 - escapes * ((size - 200 + 999) / 1000));
        json_decref(tree);
        text[size - 1] = 'x';
        assert_null(json_read_with(JSON_READER_SLATE, text, size, 0, &problem));
        assert_int_equal(problem.offset, size);
    }
    free(text);
}

/* ---- Depth ------------------------------------------------------------------------------------- */

static void brackets_without_end_are_refused_at_the_limit(void **state)
{
    static char text[100000];
    (void)state;
    static const char *const pieces[] = {"[", "{\"a\":", "[{\"\\u0061\":", "[ \n"};
    for (size_t i = 0; i < COUNT(pieces); i++) {
        size_t length = strlen(pieces[i]);
        for (size_t at = 0; at < sizeof text; at++)
            text[at] = pieces[i][at % length];
        assert_false(assert_agreement(text, sizeof text));
        assert_int_equal(problem.status, JSON_READ_REFUSED);
    }
}

#ifdef __SANITIZE_THREAD__
#define SMALL_STACK (4096 * 1024) /* its own state of a thread lies there too */
#else
#define SMALL_STACK (1024 * 1024)
#endif

/* As deep as there is, on a stack that is smaller than any thread's of the server. */
static void *read_deep(void *ret_read)
{
    static char text[JSON_READ_DEPTH_MAX * 8];
    char *at = text;
    json_read_problem why;
    for (int i = 0; i < JSON_READ_DEPTH_MAX; i++) {
        memcpy(at, i % 2 ? "{\"\\n\":" : "[", i % 2 ? 6 : 1);
        at += i % 2 ? 6 : 1;
    }
    *at++ = '0';
    for (int i = JSON_READ_DEPTH_MAX; i-- > 0;)
        *at++ = i % 2 ? '}' : ']';
    json_t *tree = json_read_with(JSON_READER_SLATE, text, (size_t)(at - text), UINT32_MAX, &why);
    *(bool *)ret_read = tree != NULL;
    json_decref(tree);
    return NULL;
}

static void the_deepest_document_needs_little_stack(void **state)
{
    pthread_attr_t attributes;
    pthread_t thread;
    bool was_read = false;
    (void)state;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, read_deep, &was_read), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_true(was_read);
}

/* ---- Memory ------------------------------------------------------------------------------------ */

static size_t failing; /* the how manyeth allocation is refused; counts down */
static long live;

static void *alloc_but_one(size_t size)
{
    if (failing-- == 1)
        return NULL;
    live++;
    return malloc(size);
}

static void free_counted(void *p)
{
    live -= p != NULL;
    free(p);
}

/* With strings that are too long to be decoded without memory, and two faults behind each other. */
static void a_refused_allocation_is_told_apart_from_a_fault(void **state)
{
    static buffer b;
    (void)state;
    b.size = 0;
    put(&b, "[{\"\\u0061\":[1,2.5,\"x\",{}],\"b\":{\"c\":\"d\",\"e\":{\"k\\n\":\"");
    for (int i = 0; i < 300; i++)
        put(&b, "some \\t text ");
    put(&b, "\"}},\"f\":[0,1,2,3,4,5,6,7,8,9]}");
    for (int fault = 0; fault < 3; fault++) {
        static const char *const ends[] = {"]", ",{\"a\":1,\"a\":2}]", ",1E400]"};
        size_t size = b.size, tries = 0;
        put(&b, ends[fault]);
        json_set_alloc_funcs(alloc_but_one, free_counted);
        for (bool refused = true; refused; tries++) {
            failing = tries + 1;
            json_t *tree = read_ours(b.text, b.size);
            refused = failing == 0 || failing > tries + 1;
            if (refused)
                assert_true(!tree && problem.status == JSON_READ_MEMORY);
            else if (fault == 0)
                assert_non_null(tree);
            else
                assert_int_equal(problem.status,
                                 fault == 1 ? JSON_READ_DUPLICATE : JSON_READ_REFUSED);
            json_decref(tree);
            assert_int_equal(live, 0);
        }
        json_set_alloc_funcs(malloc, free);
        assert_true(tries > 40);
        b.size = size;
    }
}

/* Nodes, keys and strings: nothing else is asked for. Of objects and arrays of up to eight, which
 * jansson does not make larger while they grow. */
static size_t count_allocations(json_t *value)
{
    size_t count = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        count = 2 + json_object_size(value);
        assert_true(json_object_size(value) <= 8);
        for (void *i = json_object_iter(value); i; i = json_object_iter_next(value, i))
            count += count_allocations(json_object_iter_value(i));
        return count;
    case JSON_ARRAY:
        count = 2;
        assert_true(json_array_size(value) <= 8);
        for (size_t i = 0; i < json_array_size(value); i++)
            count += count_allocations(json_array_get(value, i));
        return count;
    case JSON_STRING:
        return 2;
    case JSON_INTEGER:
    case JSON_REAL:
        return 1;
    default:
        return 0;
    }
}

static void assert_allocations(const char *text, size_t size)
{
    failing = 0;
    json_set_alloc_funcs(alloc_but_one, free_counted);
    json_t *tree = read_ours(text, size);
    size_t calls = 0 - failing;
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(calls, count_allocations(tree));
    assert_int_equal(live, calls);
    live = 0;
    json_decref(tree);
}

static void a_document_costs_no_more_allocations_than_its_tree(void **state)
{
    static buffer b;
    (void)state;
    assert_allocations(document, sizeof document - 1);
    /* Many escapes, but no long string with them. */
    b.size = 0;
    for (int i = 0; i < 64; i++) {
        put(&b, i == 0 ? "[[" : i % 8 == 0 ? "],[" : ",");
        put(&b, i % 2 ? "{\"a key \\t with an escape\":" : "");
        put(&b, "\"a value \\t with an escape\"");
        put(&b, i % 2 ? "}" : "");
    }
    put(&b, "]]");
    assert_allocations(b.text, b.size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_judged_alike),
        cmocka_unit_test(every_change_of_a_byte_is_judged_alike),
        cmocka_unit_test(random_documents_are_judged_alike),
        cmocka_unit_test(keys_with_escapes_survive_what_is_inside_their_values),
        cmocka_unit_test(hard_reals_are_rounded_correctly),
        cmocka_unit_test(every_double_comes_back),
        cmocka_unit_test(reals_of_any_length_are_rounded_correctly),
        cmocka_unit_test(halfway_between_two_doubles_the_even_one_is_taken),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(every_character_is_read),
        cmocka_unit_test(every_pair_of_bytes_is_judged_alike),
        cmocka_unit_test(a_string_of_64_megabytes_is_read),
        cmocka_unit_test(brackets_without_end_are_refused_at_the_limit),
        cmocka_unit_test(the_deepest_document_needs_little_stack),
        cmocka_unit_test(a_refused_allocation_is_told_apart_from_a_fault),
        cmocka_unit_test(a_document_costs_no_more_allocations_than_its_tree),
    };
    return cmocka_run_group_tests_name("readers", tests, map_edge, unmap_edge);
}
