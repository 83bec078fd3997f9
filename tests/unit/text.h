/* Text made piece by piece in a buffer of a test: each piece is printed at the cursor, and one that
 * does not fit fails the test. Include it after cmocka.h. */
#ifndef TEST_TEXT_H
#define TEST_TEXT_H

#include <stdarg.h>
#include <stdio.h>

struct text {
    char *at, *end; /* the cursor, at a NUL; the end of the buffer */
};

/* A cursor at the start of the array `buffer`. */
#define text_in(buffer) ((struct text){(buffer), (buffer) + sizeof(buffer)})

__attribute__((format(printf, 2, 3))) static inline void text_add(struct text *t,
                                                                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(t->at, (size_t)(t->end - t->at), format, args);
    va_end(args);
    assert_true(length >= 0 && length < t->end - t->at);
    t->at += length;
}

static inline void text_repeat(struct text *t, const char *piece, size_t times)
{
    while (times-- > 0)
        text_add(t, "%s", piece);
}

#endif
