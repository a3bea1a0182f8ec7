/* SPDX-License-Identifier: MIT */
/* The pages of a device block, and what copies have left there; see memory/deep.h.  Under the
 * caller's lock. */
#pragma once

#include "log/deep.h"

#define ZC_DEEP_PAGE ((uint64_t)2 << 20)

struct zc_deep_page;

struct zc_deep_block {
    uint64_t bytes;
    uint64_t age;              /* Grows whenever a launch may have used the block. */
    uint64_t stamp;            /* Of the last piece that a copy brought or took. */
    struct zc_deep_page *page; /* NULL until a copy comes. */
};

/* What is known of a range within one page before the host gets its bytes. */
struct zc_deep_before {
    uint64_t hash;  /* As the last copy left them, */
    uint64_t age;   /* the block's age, */
    uint64_t stamp; /* and that of the piece; 0: there is none. */
    bool known;     /* The hash is known. */
    bool again;     /* The last copy took the same bytes to the same host memory. */
    bool hosts;     /* They are the host's. */
};

/* A copy between a block and host memory, or a part of one. */
struct zc_deep_carried {
    struct zc_deep_pair *pair;
    uint64_t bytes[ZC_DEEP_COUNT]; /* What is known of its bytes; the calls below add to it. */
};

/* The bytes of [at, end) that lie in the first page. */
static inline uint32_t zc_deep_in_page(uint64_t at, uint64_t end)
{
    uint64_t left = ZC_DEEP_PAGE - at % ZC_DEEP_PAGE;
    return (uint32_t)(end - at < left ? end - at : left);
}

/* The host sends a range within one page; the hash is that of its bytes. */
void zc_deep_sent(struct zc_deep_block *s, uint64_t at, uint32_t bytes, uint64_t hash,
                  struct zc_deep_carried *c);

/* A copy of a range within one page to a host address is called, and has come.  Other copies may
 * be called between, and the block may end: `s` is NULL then. */
struct zc_deep_before zc_deep_called(struct zc_deep_block *s, uint64_t at, uint32_t bytes,
                                     uint64_t host);
void zc_deep_came(struct zc_deep_block *s, uint64_t at, uint32_t bytes, uint64_t hash,
                  uint64_t host, const struct zc_deep_before *before, struct zc_deep_carried *c);

/* A range is read, or written by bytes that nobody sees; with `holes` not all of it. */
void zc_deep_range(struct zc_deep_block *s, uint64_t at, uint64_t bytes, bool written, bool holes);

/* The block ends: forgets its pages.  Returns the bytes that no copy has touched; 0 if it was
 * `launched`, because kernels may have. */
uint64_t zc_deep_end(struct zc_deep_block *s, bool launched);
