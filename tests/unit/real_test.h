/* SPDX-License-Identifier: MIT */
/* A driver that lacks every function, for tests that run without one. */
#ifndef TESTS_UNIT_REAL_TEST_H
#define TESTS_UNIT_REAL_TEST_H

#include "driver/real.h"

static CUresult real_is_missing(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* As zc_real_find() leaves functions that the driver does not have. */
static inline void real_without_driver(void)
{
    void **slots = (void **)&zc_real;

    for (unsigned i = 0; i < ZC_FN_COUNT; i++)
        slots[i] = (void *)real_is_missing;
}

#endif
