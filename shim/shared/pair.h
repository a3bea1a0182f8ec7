/* SPDX-License-Identifier: MIT */
/* Pairs: a host block and a device block that the program requested separately and that share their
 * memory. */
#ifndef ZC_SHARED_PAIR_H
#define ZC_SHARED_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/real.h"
#include "host/hostheap.h"
#include "ledger/block.h"
#include "log/pairs.h"
#include "policy/policy.h"
#include "shared/coherence.h"

/*
 * One extent of the host heap that a device block uses, with or without a host block.  Objects come
 * from the arena and are reused only for pairs, so a fault handler may look at one that has just
 * ended.  All fields are under the pair's lock, unless they say otherwise.
 */
struct zc_shared {
    uint32_t owner;              /* The lock, by zc_word_lock().  The first field, and the
                                  * only one that an object keeps for its next life. */
    struct zc_coherent pages;    /* The state machine. */
    uint32_t thread;             /* Thread whose own host blocks come first as partners. */
    uint64_t birth;              /* Serial number of the pair, because objects are reused. */
    uint32_t era;                /* zc_extent_era of the process that made the pair; constant. */
    struct zc_shared *next;      /* List of pairs; under the list's lock. */
    struct zc_extent *extent;    /* The extent of both; NULL in an ended pair, and until the driver
                                  * has registered it.  Atomic. */
    const struct zc_rule *rule;  /* Rule of the device block; constant. */
    struct zc_block *host_block; /* Its ledger entry, at the shadow's address.  Atomic. */
    uint64_t device_size;        /* Requested bytes of the device block; constant. */
    uint64_t device_id, host_id; /* Serial numbers of both blocks, as in the log; 0: unknown. */
    uint32_t device_site, host_site; /* Public ids of their sites; 0: unknown. */
    bool read_only;                  /* The GPU's page table forbids kernels to write. */
    bool paired;                     /* Has, or had, a host block.  Atomic. */
    bool leaving;                    /* The device block is being freed: pages no longer move. */
    bool kept;                       /* The driver's registration stays.  For the freeing thread. */
    bool asked;   /* It was reported that the program asked about the address while both sides
                   * differed.  Atomic. */
    bool ending;  /* A thread is about to end the pair. */
    bool written; /* A device block without a host block has content. */
    uint64_t elided_copies, elided_bytes; /* Copies between both sides that moved nothing. */
    uint64_t faults, fault_ticks;         /* Accesses of the CPU that were served.  Atomic. */
    uint64_t conflicts;                   /* Accesses to lost pages.  Atomic. */
};

/* The pair that contains an address, or NULL.  Takes no lock, so it may end at any time. */
struct zc_shared *zc_shared_at(uint64_t address);

/* Counts pairs that have ended.  Atomic. */
extern uint32_t zc_shared_ends;

/* This process's pair that contains an address and has a host block, or NULL. */
struct zc_shared *zc_shared_hosting(uint64_t address);

/* True if there is a pair and it has a host block. */
bool zc_shared_has_host(const struct zc_shared *pair);

/*
 * Takes the pair's lock.  Signals sent to the thread wait meanwhile, because a handler of the
 * program's may touch a page of the pair.  Under the lock nobody calls the driver, the ledger or
 * the log, or touches a page that may be closed.  False if the pair has ended.
 */
struct zc_shared_hold {
    uint64_t mask; /* The thread's previous signal mask. */
};
bool zc_shared_lock(struct zc_shared *pair, struct zc_shared_hold *hold);
void zc_shared_unlock(struct zc_shared *pair, const struct zc_shared_hold *hold);

/* Requirements of a device block. */
struct zc_shared_want {
    size_t size;
    const struct zc_rule *rule;
    bool read_only; /* Kernels only read, and the device can enforce that. */
    int node;       /* NUMA node of fresh pages; -1: any. */
};

/*
 * A pair for a device block: with the host block that the rule leads to, or by itself.  Nobody else
 * knows of it: its pages are the host block's alone until the driver has registered them, so that
 * no other thread's launch or copy moves one meanwhile.  Then zc_shared_publish(), or
 * zc_shared_drop() where it is refused; with a host block the caller calls zc_hostheap_unclaim()
 * behind either.  NULL with the reason in *why.
 */
struct zc_shared *zc_shared_make(const struct zc_shared_want *want, const char **why);
void zc_shared_publish(struct zc_shared *pair);
void zc_shared_drop(struct zc_shared *pair);

/* Both blocks are in the ledger now. */
void zc_shared_note_device(struct zc_shared *pair, const struct zc_block *block);
void zc_shared_note_host(struct zc_shared *pair, struct zc_block *block);

/* A host block leaves the ledger. */
void zc_shared_forget_host(const struct zc_block *block);

/*
 * The program frees the device block, and the device is idle.  All pages that are not lost go to
 * the host block, and none moves any more.  With `pinned` only if the driver has registered exactly
 * the pages that the CPU sees, and may write them: then the registration may stay, as that of a
 * pinned block.  Returns false if nothing was done.
 */
bool zc_shared_leave(struct zc_shared *pair, bool pinned);

/* Follows, once the driver has dropped the registration or it stays. */
void zc_shared_device_gone(struct zc_shared *pair);

/*
 * Makes a new host block of `size` bytes in the extent of a device block that waits for one; filled
 * with zeroes if `zero`.  NULL if none waits. *slot_out as in zc_hostheap_get().
 */
void *zc_shared_join(size_t size, uint32_t site, uint32_t nth, bool zero,
                     struct zc_slot **slot_out);

/* The host block of an extent is to be resized.  False if it is in a pair that the size does not
 * fit. */
bool zc_shared_resize(struct zc_extent *extent, size_t size);

/* The program frees the host block of an extent with a pair.  Call before zc_hostheap_put(). */
void zc_shared_host_gone(struct zc_extent *extent);

/* Visits all live pairs under the list's lock. visit() may take the pair's lock, and nothing
 * else. */
void zc_shared_each(void (*visit)(struct zc_shared *pair, void *arg), void *arg);

/* The counts of one pair, and of all pairs of the process. */
struct zc_pair_counts zc_shared_counts(const struct zc_shared *pair);
void zc_shared_totals(struct zc_pair_counts *out);

void zc_shared_inherit(struct zc_shared *pair, void *unused);
/* A child frees the host block of an extent that it has inherited. */
void zc_shared_leave_inherited(struct zc_extent *extent, struct zc_shared *pair);

#endif
