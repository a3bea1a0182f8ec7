/* SPDX-License-Identifier: MIT */
/* Decides which requests of libc's malloc family go to the host heap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
bool zc_hostrule_ready(void);

/* True if there is a host heap, and device blocks of the rule may be one with its blocks.  Starts
 * like zc_hostrule_ready(). */
bool zc_hostrule_open(const struct zc_rule *rule);

/* Turns conversion off in this process.  Before the first request.  `why` is a string constant. */
void zc_hostrule_disable(const char *why);

/* The same if the function behind libzc's malloc, at `its`, is in another object than libc, of
 * which `libcs` is an address: an allocator has functions of its own, which libzc does not see and
 * which take what malloc returned.  The reason names it. */
void zc_hostrule_behind(const void *its, const void *libcs);

/* From now on libc's requests stay with libc.  Placed blocks remain until they are freed or
 * resized.  `why` is a string constant. */
void zc_hostrule_leave(const char *why);

/* The rule that matches a request, if its requests go to the host heap by the first place of its
 * list that is possible; else NULL, as for the driver's own. *site is the index of the call path; 0
 * if no rule needs it. */
const struct zc_rule *zc_hostrule_of(const struct zc_hostmem_request *request, uint32_t *site);

/* True if device blocks may be one with the rule's host blocks.  Only once ready. */
bool zc_hostrule_shares(const struct zc_rule *rule);

/* Stores why a request of the rule stayed pageable, to report it once CUDA is up; each reason once.
 * `why` is a string constant. */
void zc_hostrule_note(const char *why, const struct zc_rule *rule);

/* CUDA is up: reports why requests stay pageable, asks the devices whether they reach libc's
 * memory, and enters the blocks that there are into the ledger. */
void zc_hostrule_start(void);
