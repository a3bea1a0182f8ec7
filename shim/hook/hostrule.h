/* SPDX-License-Identifier: MIT */
/* Which requests of libc's malloc family go to the host heap: what the policy says of them. */
#ifndef ZC_HOOK_HOSTRULE_H
#define ZC_HOOK_HOSTRULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/* One request. */
struct zc_hostmem_ask {
    enum zc_api api;              /* Which function was called. */
    size_t size;                  /* Bytes, at least zc_hostheap.threshold. */
    size_t alignment;             /* Power of two; 1 where the function gives none. */
    bool zero;                    /* calloc(3). */
    const struct zc_rule **stays; /* Set to the rule whose block stays with libc and whose key
                                   * pageable_copy counts; untouched otherwise.  NULL: not asked. */
    void *frame; /* Frame address of the exported function, and its return address. */
    void *pc;
};

/* The first large request of the process reads the policy, and opens the heap where its rules need
 * one.  Waits for another thread that is at it.  False in a signal handler that interrupted it: the
 * request stays with libc. */
bool zc_hostrule_ready(void);

/* Whether there is a host heap; gets ready as zc_hostrule_ready() does. */
bool zc_hostrule_open(void);

/* Converts nothing in this process, because another allocator stands before libzc.  Before the
 * first request. */
void zc_hostrule_disable(void);

/* From here on requests of libc's stay with libc; blocks that were placed remain until they are
 * freed or resized.  `why` is a string constant. */
void zc_hostrule_leave(const char *why);

/* The rule that takes the request, or NULL; *site is the index of its call path, 0 where the rules
 * did not ask for it.  The driver's own requests have no rule. */
const struct zc_rule *zc_hostrule_of(const struct zc_hostmem_ask *ask, uint32_t *site);

/* Whether its requests go to the host heap: the first place of the list that can be had. */
bool zc_hostrule_to_heap(const struct zc_rule *rule);

/* Whether blocks of the rule that stay with libc are to be known, since it says who copies them. */
bool zc_hostrule_tells_copies(const struct zc_rule *rule);

/* Whether device blocks may move in with host blocks.  Once ready. */
bool zc_hostrule_pairs(void);

/* Asks the devices whether they reach libc's memory as it is.  Once CUDA is up. */
void zc_hostrule_ask_devices(void);

/* Keeps why a request of the rule stayed pageable, and says it once CUDA is up; each reason once.
 * `why` is a string constant. */
void zc_hostrule_note(const char *why, const struct zc_rule *rule);

/* Notes an allocator that stands before libzc, and may have had all requests.  Takes the loader's
 * lock. */
void zc_hostrule_ask_front(void);

/* Says why requests stayed pageable before CUDA was up. */
void zc_hostrule_announce(void);

#endif
