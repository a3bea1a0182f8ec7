/* SPDX-License-Identifier: MIT */
/* Device blocks of the place `shared`, and the host blocks that they are one with. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/real.h"
#include "host/hostheap.h"
#include "ledger/block.h"
#include "log/lines.h"
#include "memory/place.h"
#include "shared/coherence.h"

/*
 * One device block.  Its memory is its own (OWN: as in `vmm`, attached late), or that of a host
 * block (ONE).  Objects come from the arena and are reused for nothing else, so that a thread may
 * look at one that has just ended.  Fields are under the pair's lock, but those that say otherwise.
 */
struct zc_shared {
    uint32_t owner; /* The lock, see zc_word_lock().  A copy between both sides holds it, and so
                     * does a change of the backing, which calls the driver: no copy's bytes are
                     * left behind then.  First, and all that an object keeps for its next life. */
    struct zc_shared *next, *before; /* Of all; under the list's lock. */
    struct zc_extent *extent;        /* ONE: the host block's; NULL once that was freed. */
    size_t span;                     /* ONE: bytes of the file that it shows. */
    uintptr_t window; /* ONE: where libzc writes that, if the GPU reaches it by the CPU's page table
                       * alone; else 0. */
    bool one;         /* The backing.  It changes under driver/lock.h as well.  Atomic. */
    bool undecided;   /* OWN without memory: its first use tells whether it becomes ONE.
                       * Under driver/lock.h; atomic. */
    bool stays_own;   /* It never becomes ONE, or not again.  Atomic. */
    bool freed;       /* The driver has let go of it for a free.  Under driver/lock.h. */
    uint32_t era;     /* zc_extent_era of the process that made it; constant. */
    struct zc_early *early;     /* Undecided: what is at its addresses (shared/early.h), or NULL.
                                 * Under driver/lock.h. */
    struct zc_vmm *vmm;         /* Addresses and own memory; set once. */
    struct zc_block *block;     /* In the ledger; set once, after what is said of it.  Atomic. */
    const struct zc_rule *rule; /* Constant. */
    struct zc_pair_names names; /* Those of its host block are of the last one. */
    uint64_t used;              /* ONE: microseconds of kernels that were given it.  Atomic. */
    uint64_t last; /* Of the last of them that was timed, and 1; 0: none was.  Atomic. */
    bool crowded;  /* ONE: the device had no memory when it was to be OWN.  Atomic. */
    struct zc_pair_counts counts; /* Of copies between both sides.  Atomics. */
};

/* The device block of a ledger block, NULL for others. */
struct zc_shared *zc_shared_of(const struct zc_block *block);

/* The device block that the host block at an address is one with, or NULL.  No lock: it may end at
 * any time. */
struct zc_shared *zc_shared_at(uint64_t address);

/* Device blocks that are one with a host block.  Atomic. */
extern uint32_t zc_shared_ones;

static inline bool zc_shared_is_one(const struct zc_shared *p)
{
    return __atomic_load_n(&p->one, __ATOMIC_ACQUIRE);
}

/* Device blocks that are undecided.  Atomic. */
extern uint32_t zc_shared_undecided;

/* Takes the pair's lock where it is one with the host block of an extent; else false, and nothing
 * is locked. */
bool zc_shared_lock_host(struct zc_shared *pair, const struct zc_extent *extent);

/* A record for a device block, in OWN, that has no memory yet; NULL without room for it.  And the
 * end of it, in OWN as well. */
struct zc_shared *zc_shared_new(const struct zc_rule *rule);
void zc_shared_end(struct zc_shared *pair);

/* The program frees the host block of an extent: the device block keeps its content.  Before
 * zc_hostheap_put(). */
void zc_shared_host_gone(struct zc_extent *extent);

/* Visits all under the list's lock; visit() may take the pair's lock and nothing else. */
void zc_shared_each(void (*visit)(struct zc_shared *pair, void *arg), void *arg);

/* One that fits() says true of, which takes no lock; NULL if there is none. */
struct zc_shared *zc_shared_find(bool (*fits)(const struct zc_shared *pair));
