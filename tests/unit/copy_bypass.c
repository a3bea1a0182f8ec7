/* SPDX-License-Identifier: MIT */
/* Copies that write past the caches: the same bytes as by memcpy, at any address. */
#include "copy/bypass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MOST ((size_t)1000)
#define MARGIN ((size_t)128)

static void check(size_t from, size_t to, size_t n)
{
    static unsigned char source[MOST + MARGIN], got[MOST + 2 * MARGIN], wanted[sizeof(got)];
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (unsigned char)(i * 7 + i / 256);
    memset(got, 0xa5, sizeof(got));
    memset(wanted, 0xa5, sizeof(wanted));
    memcpy(wanted + MARGIN + to, source + from, n);
    zc_bypass_copy(got + MARGIN + to, source + from, n);
    if (memcmp(got, wanted, sizeof(got)) != 0)
        fail_msg("%zu bytes from offset %zu to offset %zu", n, from, to);
}

static void every_size_arrives_at_every_alignment(void **state)
{
    (void)state;
    for (size_t to = 0; to < 64; to++)
        for (size_t n = 0; n <= 300; n++)
            check(to * 5 % 64, to, n);
    for (size_t from = 0; from < 64; from++)
        check(from, 1, MOST - 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size_arrives_at_every_alignment)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
