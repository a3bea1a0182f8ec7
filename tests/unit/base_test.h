/* SPDX-License-Identifier: MIT */
/* The headers that cmocka.h asks for before itself, and the way all of these programs end. */
#ifndef ZC_BASE_TEST_H
#define ZC_BASE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Runs the tests; the output is TAP, which prove(1) reads. */
#define RUN_TESTS(tests)                                                                           \
    (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, NULL, NULL))

#endif
