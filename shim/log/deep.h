/* SPDX-License-Identifier: MIT */
/* The sums of the level `deep`, and their lines.  The caller's lock protects them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/traffic.h"

/* What is known of copied bytes. */
#define ZC_DEEP_SUMS(X)                                                                            \
    X(DUPLICATE, "duplicate")   /* They were at their destination already. */                      \
    X(RELAUNCHED, "relaunched") /* Of these: a launch that ran since may have changed them. */     \
    X(ROUND_TRIP, "round_trip") /* Copied back as the host had sent them. */                       \
    X(CHANGED, "changed")       /* Copied back, and not as the last copy had left them. */         \
    X(UNUSED, "unused")         /* Overwritten or freed before anything could use them. */         \
    X(UNSEEN, "unseen")         /* Not hashed. */

enum zc_deep_sum {
#define ZC_DEEP_ENUM(name, text) ZC_DEEP_##name,
    ZC_DEEP_SUMS(ZC_DEEP_ENUM)
#undef ZC_DEEP_ENUM
        ZC_DEEP_COUNT
};

/* Copies of one direction between the blocks of two sites. */
struct zc_deep_pair {
    uint64_t copies, asked_bytes;
    uint64_t whole[ZC_DEEP_COUNT]; /* Copies of which all bytes are so. */
    uint64_t bytes[ZC_DEEP_COUNT];
};

/* The sums of such copies; `host` is -1 for memory that is no block.  NULL without memory. */
struct zc_deep_pair *zc_deep_pair_of(enum zc_dir dir, int host, uint32_t device);

/* The device blocks of a site. */
struct zc_deep_site {
    uint64_t blocks, bytes;
    uint64_t launches;        /* Launches that were given the address of one, by block. */
    uint64_t untouched_bytes; /* That no copy, set or launch could have touched. */
};
struct zc_deep_site *zc_deep_site_of(uint32_t site);

/* A launch of a kernel was given the address of a block of a site.  False if the kernel is new:
 * then the call is to be repeated with its name, which is "" where nobody knows it. */
bool zc_deep_note_kernel(uint32_t site, const void *kernel, const char *name);

/* Writes the lines `content` and `use`. */
void zc_deep_write(void);
