/* Looking at many bytes of a text at once: 16 with SSE2, which every x86-64 has, else 8 in an integer
 * register. Nothing here reads behind `end`. SLATE_JSON_PORTABLE chooses the second way everywhere. */
#ifndef SLATE_JSON_SCAN_H
#define SLATE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SCAN_EACH_BYTE(b) (UINT64_MAX / 255 * (b))

/* Not 0 if one of the bytes is a control character, '"' or '\\': cannot stand for itself in a JSON
 * string. */
static inline uint64_t scan_needs_escape(uint64_t word)
{
    uint64_t quote = word ^ SCAN_EACH_BYTE('"'), backslash = word ^ SCAN_EACH_BYTE('\\');
    return (((word - SCAN_EACH_BYTE(0x20)) & ~word) | ((quote - SCAN_EACH_BYTE(1)) & ~quote) |
            ((backslash - SCAN_EACH_BYTE(1)) & ~backslash)) &
           SCAN_EACH_BYTE(0x80);
}

/* A byte of a string that needs no look: ASCII that stands for itself. */
static inline bool scan_is_plain(char byte)
{
    return (signed char)byte >= 0x20 && byte != '"' && byte != '\\';
}

static inline bool scan_is_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

#if defined __SSE2__ && !defined SLATE_JSON_PORTABLE

#include <emmintrin.h>

#define SCAN_STEP 16 /* bytes that are looked at together */

/* How many of the SCAN_STEP bytes at `at` are plain, up to the first that is not. */
static inline size_t scan_count_plain(__m128i bytes)
{
    /* As signed numbers, bytes from 0x80 up are below the space too. */
    __m128i special = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')),
                                   _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                                _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
    return (size_t)__builtin_ctz((unsigned)_mm_movemask_epi8(special) | 1u << SCAN_STEP);
}

static inline size_t scan_step(const char *at)
{
    return scan_count_plain(_mm_loadu_si128((const __m128i *)(const void *)at));
}

/* The same, and copies all SCAN_STEP bytes. */
static inline size_t scan_copy_step(char *to, const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    _mm_storeu_si128((__m128i *)(void *)to, bytes);
    return scan_count_plain(bytes);
}

/* Copies all SCAN_STEP bytes, and returns how many of them, up to the first that does not, stand for
 * themselves when they are written. */
static inline size_t scan_write_step(char *to, const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    _mm_storeu_si128((__m128i *)(void *)to, bytes);
    __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
    __m128i special =
        _mm_or_si128(control, _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                           _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
    return (size_t)__builtin_ctz((unsigned)_mm_movemask_epi8(special) | 1u << SCAN_STEP);
}

static inline size_t scan_space_step(const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    __m128i space = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')),
                                              _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n'))),
                                 _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')),
                                              _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'))));
    return (size_t)__builtin_ctz(~(unsigned)_mm_movemask_epi8(space));
}

#else

#define SCAN_STEP 8

static inline size_t scan_step(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    if (!(scan_needs_escape(word) | (word & SCAN_EACH_BYTE(0x80))))
        return SCAN_STEP;
    size_t count = 0;
    while (scan_is_plain(at[count]))
        count++;
    return count;
}

static inline size_t scan_copy_step(char *to, const char *at)
{
    memcpy(to, at, SCAN_STEP);
    return scan_step(at);
}

static inline size_t scan_write_step(char *to, const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    memcpy(to, &word, sizeof word);
    if (!scan_needs_escape(word))
        return SCAN_STEP;
    size_t count = 0;
    while ((unsigned char)at[count] >= 0x20 && at[count] != '"' && at[count] != '\\')
        count++;
    return count;
}

static inline size_t scan_space_step(const char *at)
{
    size_t count = 0;
    while (count < SCAN_STEP && scan_is_space(at[count]))
        count++;
    return count;
}

#endif

/* The first byte that is not plain; `end` if there is none. */
static inline const char *scan_plain(const char *at, const char *end)
{
    while (end - at >= SCAN_STEP) {
        size_t count = scan_step(at);
        at += count;
        if (count < SCAN_STEP)
            return at;
    }
    while (at < end && scan_is_plain(*at))
        at++;
    return at;
}

/* The first byte that is not white space; `end` if there is none. */
static inline const char *scan_space(const char *at, const char *end)
{
    /* Compact text has none, and much of the other has one space. */
    if (at < end && (unsigned char)*at > ' ')
        return at;
    if (end - at >= 2 && *at == ' ' && (unsigned char)at[1] > ' ')
        return at + 1;
    while (end - at >= SCAN_STEP) {
        size_t count = scan_space_step(at);
        at += count;
        if (count < SCAN_STEP)
            return at;
    }
    while (at < end && scan_is_space(*at))
        at++;
    return at;
}

#endif
