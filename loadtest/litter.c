/* litter.c: preloaded into a server to give it the heap of a process that has been up for long. A
 * fresh heap flatters malloc: neighbours in time are neighbours in memory. Before main, objects of
 * many sizes are allocated, and nine of ten are freed again in random order; what stays is spread
 * over all pages. Through whichever malloc is in force; the same litter every time. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS 120000u /* of 16 to 2,048 bytes, small ones more often: some 40 MB at first */
#define KEPT 10u        /* one of so many */

/* xorshift64*: the same sequence in every run. */
static uint64_t random_bits(void)
{
    static uint64_t state = 42;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(2685821657736338717);
}

static size_t some_size(void)
{
    uint64_t bits = random_bits();
    size_t power = (size_t)16 << (bits >> 60) % 7; /* 16 to 1,024 */
    return power + (size_t)((bits >> 20) % power);
}

__attribute__((constructor)) static void litter(void)
{
    void **objects = malloc(OBJECTS * sizeof *objects);
    if (!objects)
        return;
    for (unsigned i = 0; i < OBJECTS; i++) {
        size_t size = some_size();
        objects[i] = malloc(size);
        if (objects[i])
            memset(objects[i], 1, size);
    }
    for (unsigned i = OBJECTS - 1; i > 0; i--) {
        unsigned j = (unsigned)(random_bits() % (i + 1));
        void *swapped = objects[i];
        objects[i] = objects[j];
        objects[j] = swapped;
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        if (i % KEPT != 0)
            free(objects[i]);
    free(objects);
}
