/* SPDX-License-Identifier: MIT */
/* FNV-1a in 64 bits, for names and other short texts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Equal bytes give equal numbers; different ones give equal numbers about once in 2^64.  Not for
 * bytes that somebody chose to deceive it. */
static inline uint64_t zc_hash(const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}
