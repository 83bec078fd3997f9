/* SHA-256 (FIPS 180-4), to tell requests apart by what they say. */
#ifndef SLATE_SHA256_H
#define SLATE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_BLOCK 64

typedef struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[SHA256_BLOCK];
} sha256;

void sha256_begin(sha256 *hash);
void sha256_add(sha256 *hash, const void *bytes, size_t size);
/* Ends the hash, which must be begun again before further use. */
void sha256_end(sha256 *hash, unsigned char ret_digest[SHA256_SIZE]);

#endif
