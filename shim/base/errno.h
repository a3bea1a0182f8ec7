/* SPDX-License-Identifier: MIT */
/* errno(3) of the program, which most of libzc's work must leave as it is. */
#pragma once

#include <errno.h>

/* At the end of the block errno is what it is here. */
#define ZC_KEEPS_ERRNO int errno_ __attribute__((cleanup(zc_errno_restore), unused)) = errno
static inline void zc_errno_restore(const int *before)
{
    errno = *before;
}
