/* What is fuzzed. Each takes any bytes, returns 0, and aborts with a line on standard error when
 * something is wrong. They run under libFuzzer (`./dev fuzz`), and over the committed corpus in every
 * test run (tests/unit/test_fuzz_replay.c). */
#ifndef FUZZ_TARGETS_H
#define FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

/* Our JSON reader against jansson's json_loadb: the same texts taken, the same trees made, and the
 * same problems as json_read makes with jansson's parser. */
int fuzz_reader(const uint8_t *data, size_t size);
/* What has been read, written, and read again is the same, in all ways of writing. */
int fuzz_round_trip(const uint8_t *data, size_t size);

#endif
