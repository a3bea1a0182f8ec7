/* SPDX-License-Identifier: MIT */
/* Shared by the host heap's test programs: a policy from text, and a driver of a few functions. */
#ifndef TESTS_UNIT_HOST_TEST_H
#define TESTS_UNIT_HOST_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/module.h"
#include "place/hostmem.h"
#include "driver/real.h"
#include "ledger/rules.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "host/hostblock.h"

extern const struct zc_module zc_module_pinned;

#define MIB ((size_t)1 << 20)

/* Makes `text` the policy of this process; before the first request. */
static inline void host_policy(const char *text)
{
    char path[] = "/tmp/zc-host-policy-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    setenv("ZC_POLICY", path, 1);
    assert_true(zc_rules_load());
    unlink(path);
}

static inline void *host_get(size_t n)
{
    const struct zc_hostmem_request ask = {.api = ZC_API_malloc, .size = n, .alignment = 1};
    return zc_hostmem_get(&ask);
}

#endif
