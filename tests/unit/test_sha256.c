/* SHA-256: the examples of FIPS 180-4, and that pieces do not matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../handlers/sha256.h"

static void assert_digest(const unsigned char digest[SHA256_SIZE], const char *expected)
{
    char text[2 * SHA256_SIZE + 1];
    for (size_t i = 0; i < SHA256_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

static void assert_hash(const char *text, const char *expected)
{
    unsigned char digest[SHA256_SIZE];
    sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, text, strlen(text));
    sha256_end(&hash, digest);
    assert_digest(digest, expected);
}

static void the_examples_of_the_standard_come_out(void **state)
{
    (void)state;
    assert_hash("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
                "klmnopqrlmnopqrsmnopqrstnopqrstu",
                "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void a_million_letters_in_pieces_of_every_size(void **state)
{
    static const char letters[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    unsigned char digest[SHA256_SIZE];
    sha256 hash;
    (void)state;
    sha256_begin(&hash);
    for (size_t left = 1000000, size = 0; left > 0; size = (size + 7) % sizeof letters) {
        size_t piece = size < left ? size : left;
        sha256_add(&hash, letters, piece);
        left -= piece;
    }
    sha256_end(&hash, digest);
    assert_digest(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_standard_come_out),
        cmocka_unit_test(a_million_letters_in_pieces_of_every_size),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
