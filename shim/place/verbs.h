/* SPDX-License-Identifier: MIT */
/* Verbs of hooks for blocks, whatever place these are in.  Those that only some places have are in
 * their rows (memory/place.h); those of all blocks, and those whose order counts, are here. */
#pragma once

#include "host/pinned.h"
#include "memory/place.h"
#include "shared/early.h"
#include "vmm/move.h"

/* The place of memory that nobody converted, by its kind. */
enum zc_place_id zc_place_bare(enum zc_kind kind);

/* Bytes of the device that the block has now; -1 where only the driver knows. */
int64_t zc_place_on_device(const struct zc_block *block);

/* A converted block stands in the ledger. */
void zc_place_entered(struct zc_block *block);

/*
 * Before `fn` uses a block in a way that libzc can't follow: its memory becomes what the program
 * takes it for, with all that copies left pending.  With `keeps` the driver keeps its address or
 * its kind of memory: then nothing behind it changes any more.  `why`: a string constant for the
 * log.  Returns the code for the program's call, which was explained; nothing to do for blocks
 * that libzc did not make, and NULL.
 */
CUresult zc_place_retreat(const struct zc_block *block, enum zc_fn fn, bool keeps, const char *why);
#define ZC_RETREAT_WRITTEN "a call writes it that is no copy"
#define ZC_RETREAT_GRAPH "a graph copies it"
#define ZC_RETREAT_ASKED "the driver is asked about it"

/* Before `fn` gives a stream work that may wait for the CPU: from here on nothing changes that
 * would wait for the device; and before a call that libzc does not know, which may do that, and
 * anything else with any block.  Returns the code for the program's call, which was explained. */
CUresult zc_place_drain(enum zc_fn fn);
CUresult zc_place_expose(enum zc_fn fn);

/* A kernel failed with an address that it must not touch: names blocks that it may be in. */
void zc_place_diagnose(void);

/* The program is about to register memory of its own: brings its pages in, if the rule wants it
 * `pinned`. */
static inline void zc_place_bring_in(const struct zc_rule *rule, void *p, size_t bytes)
{
    if (rule->place.item[0] == ZC_PLACE_PINNED)
        zc_pinned_bring_in(p, bytes);
}

/* True if what the program registers was registered by libzc, and is the program's now; takes from
 * the `flags` that the driver tells of it those that the program did not ask for.  The second ends
 * that. */
static inline bool zc_place_adopted(const void *p, unsigned *flags)
{
    return zc_pinned_adopted(p, flags);
}
static inline CUresult zc_place_unregister(void *p)
{
    return zc_pinned_end(p);
}

/* Keeps libzc's own threads out of the driver: until the second, or for good while the process
 * exits. */
static inline void zc_place_pause(void)
{
    zc_early_pause();
}
static inline void zc_place_resume(void)
{
    zc_early_resume();
}

/* Before a fork, where the driver may be called. */
static inline void zc_place_before_fork(void)
{
    zc_pinned_before_fork();
}

/* Behind a call that gives the program results: gives back what was kept for too long. */
static inline void zc_place_tidy(void)
{
    if (__builtin_expect(zc_hostheap_pooled() != 0, 0))
        zc_pinned_tidy();
}

/* The result of a call of the driver's, while blocks stay where they are. */
#define ZC_HOLDING_STILL(call)                                                                     \
    ({                                                                                             \
        bool held_ = zc_move_enter();                                                              \
        CUresult result_ = call;                                                                   \
        zc_move_leave(held_);                                                                      \
        result_;                                                                                   \
    })
