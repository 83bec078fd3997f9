/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef SLATE_JSON_UTF8_H
#define SLATE_JSON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Length in bytes of the sequence that starts at `text`, of which `left` > 0 bytes exist; 0 if it is
 * not valid. */
static inline size_t utf8_sequence(const char *text, size_t left)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (left < length)
        return 0;
    /* The second byte's range is what rules out overlong forms, surrogates and too large ones. */
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}

/* Whether none of `size` bytes, at least one, has its highest bit set. The last step looks again at
 * what the one before may have seen: what is short needs no loop. */
static inline bool utf8_is_ascii(const char *text, size_t size)
{
    uint64_t word = 0, last = 0;
    if (size < 4) {
        word = (unsigned char)text[0] | (unsigned char)text[size / 2];
        last = (unsigned char)text[size - 1];
    } else if (size < sizeof word) {
        memcpy(&word, text, 4);
        memcpy(&last, text + size - 4, 4);
    } else {
        uint64_t step;
        for (size_t i = 0; i < size - sizeof step; i += sizeof step) {
            memcpy(&step, text + i, sizeof step);
            word |= step;
        }
        memcpy(&last, text + size - sizeof last, sizeof last);
    }
    return !((word | last) & UINT64_C(0x8080808080808080));
}

static inline bool utf8_valid(const char *text, size_t size)
{
    if (size == 0 || utf8_is_ascii(text, size))
        return true;
    for (size_t i = 0; i < size;) {
        uint64_t word;
        if (size - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += sizeof word;
                continue;
            }
        }
        size_t length = utf8_sequence(text + i, size - i);
        if (!length)
            return false;
        i += length;
    }
    return true;
}

#endif
