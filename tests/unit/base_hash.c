/* SPDX-License-Identifier: MIT */
/* The hash of memory: equal for equal bytes wherever they lie, different for any other ones. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define BYTES 1000u

static unsigned char memory[BYTES + 16];

static void fill(unsigned char *at)
{
    for (unsigned i = 0; i < BYTES; i++)
        at[i] = (unsigned char)(i * 7 + i / 256);
}

static void equal_bytes_have_one_hash_at_every_address(void **state)
{
    (void)state;
    fill(memory);
    uint64_t wanted = zc_hash(memory, BYTES);
    for (unsigned shift = 1; shift < 16; shift++) {
        fill(memory + shift);
        assert_int_equal(zc_hash(memory + shift, BYTES), wanted);
    }
}

static int in_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void assert_all_differ(uint64_t *hashes, size_t count)
{
    qsort(hashes, count, sizeof(*hashes), in_order);
    for (size_t i = 1; i < count; i++)
        assert_int_not_equal(hashes[i - 1], hashes[i]);
}

/* Every bit counts, in whole steps and in what is left behind them. */
static void every_bit_changes_the_hash(void **state)
{
    static uint64_t hashes[8 * BYTES + 1];
    (void)state;
    fill(memory);
    hashes[8 * BYTES] = zc_hash(memory, BYTES);
    for (unsigned bit = 0; bit < 8 * BYTES; bit++) {
        memory[bit / 8] ^= (unsigned char)(1u << bit % 8);
        hashes[bit] = zc_hash(memory, BYTES);
        memory[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_all_differ(hashes, 8 * BYTES + 1);
}

/* Zeroes behind the end are not the same as none, and parts that change places count. */
static void length_and_order_change_the_hash(void **state)
{
    uint64_t hashes[BYTES + 1];
    (void)state;
    memset(memory, 0, sizeof(memory));
    for (unsigned n = 0; n <= BYTES; n++)
        hashes[n] = zc_hash(memory, n);
    assert_all_differ(hashes, BYTES + 1);
    fill(memory);
    for (unsigned i = 0; i + 128 <= BYTES; i++) {
        unsigned char was[64];
        memcpy(was, memory + i, 64);
        hashes[i] = zc_hash(memory, BYTES);
        memmove(memory + i, memory + i + 64, 64);
        memcpy(memory + i + 64, was, 64);
        assert_int_not_equal(hashes[i], zc_hash(memory, BYTES));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bytes_have_one_hash_at_every_address),
        cmocka_unit_test(every_bit_changes_the_hash),
        cmocka_unit_test(length_and_order_change_the_hash),
    };

    return RUN_TESTS(tests);
}
