/* SPDX-License-Identifier: MIT */
/* Requests of libc's malloc family: which go to the host heap, and their blocks there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/real.h"
#include "host/retreat.h"
#include "policy/policy.h"

/* A request. */
struct zc_hostmem_request {
    enum zc_api api;  /* The called function. */
    size_t size;      /* Bytes, at least zc_hostheap.threshold. */
    size_t alignment; /* Power of two; 1 if the function has none. */
    bool zero;        /* calloc(3). */
    void *frame;      /* Frame address and return address of the exported function. */
    void *pc;
};

/* The first large request of the process reads the policy, and opens the heap where its rules need
 * one.  Waits for another thread that is at it.  False in a signal handler that interrupted it: the
 * request stays with libc. */
bool zc_hostmem_ready(void);

/* True if there is a host heap, and device blocks of the rule may be one with its blocks.  Starts
 * like zc_hostmem_ready(). */
bool zc_hostmem_open(const struct zc_rule *rule);

/* From now on libc's requests stay with libc.  Placed blocks remain until they are freed or
 * resized.  `why` is a string constant. */
void zc_hostmem_leave(const char *why);

/* The same, before the first request, if the function behind libzc's malloc, at `its`, is in
 * another object than libc: an allocator has functions of its own, which libzc does not see and
 * which take what malloc returned.  The reason names it. */
void zc_hostmem_behind(const void *its);

/* CUDA is up: reports why requests stay pageable, asks the devices whether they reach libc's
 * memory, and enters the blocks that there are into the ledger. */
void zc_hostmem_start(void);

/* True for an address of the heap, and for a request that is too small for it. */
static inline bool zc_hostmem_owns(const void *p)
{
    return zc_hostheap_owns((uint64_t)(uintptr_t)p);
}
static inline bool zc_hostmem_small(size_t size)
{
    return __builtin_expect(size < __atomic_load_n(&zc_hostheap.threshold, __ATOMIC_RELAXED), 1);
}

/* Returns a block, or NULL for a request that stays with libc: no rule, a limit, no memory.  Never
 * calls the driver or the loader.  Keeps errno. */
void *zc_hostmem_get(const struct zc_hostmem_request *request);

/* Frees a block of the host heap.  A pointer into the heap that is no block ends the process by
 * SIGABRT, as glibc's free does.  Keeps errno. */
void zc_hostmem_put(void *p);

/* Requested size of a block; 0 for a pointer that is no block. */
size_t zc_hostmem_size(const void *p);

/* Resizes a block in place or by moving it in the heap, and keeps its content; the rule is chosen
 * anew.  If the new size belongs to libc, returns NULL and leaves the block unchanged.  Keeps
 * errno. */
void *zc_hostmem_resize(void *p, const struct zc_hostmem_request *request);

/* The program is about to register memory by `fn`: where that is the heap's, a device block that is
 * one with it gets memory of its own, libzc hides the block, and ends its registration or leaves it
 * to the program (zc_place_adopted()).  Returns the code for the program's call, which was
 * explained. */
CUresult zc_hostmem_yield(void *p, size_t bytes, unsigned flags, enum zc_fn fn);

/* That registration ended, with its context or by a call, or the driver refused it. */
void zc_hostmem_return(void *p, size_t bytes);

/* Gives back addresses and memory of the heap, as zc_hostheap_fit() does.  Keeps errno. */
void zc_hostmem_fit(bool all);
