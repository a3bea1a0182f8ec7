/* SPDX-License-Identifier: MIT */
/* Pairs: a host block and a device block that the program asked for apart, and that are one. */
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
 * One extent of the host heap that a device block lives in, with or without a host block.  Objects
 * come from the arena and are reused for nothing else, so that a fault handler may look at one that
 * has just ended.  Fields are under the pair's lock, but those that say otherwise.
 */
struct zc_shared {
    uint32_t owner;              /* The lock, by zc_word_lock().  The first field, and the
                                  * only one that an object keeps for its next life. */
    struct zc_coherent pages;    /* The state machine. */
    uint32_t thread;             /* That asked for the device block: its own host blocks come
                                  * first. */
    uint64_t birth;              /* Which pair of the process it is: objects come again. */
    uint32_t era;                /* zc_extent_era of the process that made the pair; constant. */
    struct zc_shared *next;      /* In the list of pairs; under the list's lock. */
    struct zc_extent *extent;    /* Where both lie; NULL in an object at rest, and until the
                                  * driver has registered it.  Atomic. */
    const struct zc_rule *rule;  /* Of the device block; constant. */
    struct zc_block *host_block; /* In the ledger at the shadow's address, or NULL.  Atomic. */
    uint64_t device_size;        /* Bytes of the device block as asked for; constant. */
    uint64_t device_id, host_id; /* Serial numbers of both blocks, as in the log; 0: unknown. */
    uint32_t device_site, host_site; /* Public ids of their sites; 0: unknown. */
    bool read_only;                  /* The GPU's page table forbids kernels to write. */
    bool paired;                     /* Has, or had, a host block.  Atomic. */
    bool leaving;                    /* The device block is being freed: no page changes its place
                                      * any more. */
    bool kept;    /* While it is freed: the driver's registration stays; of the thread that frees
                   * it. */
    bool asked;   /* That its one address was asked about while its sides differed was told.
                   * Atomic. */
    bool ending;  /* A thread is about to end the pair. */
    bool written; /* Something was put into a device block without a host block. */
    uint64_t elided_copies, elided_bytes; /* Copies between both that had nothing to move. */
    uint64_t faults, fault_ticks; /* Accesses of the CPU's that had to be served.  Atomic. */
    uint64_t conflicts;           /* Accesses to what was lost.  Atomic. */
};

/* The pair that an address lies in, or NULL.  No lock: it may end at any time. */
struct zc_shared *zc_shared_at(uint64_t address);

/* Counts pairs that have ended.  Atomic. */
extern uint32_t zc_shared_ends;

/* The pair of this process that an address lies in and that has a host block, or NULL. */
struct zc_shared *zc_shared_hosting(uint64_t address);

/* True when there is a pair, and then the host side lives too. */
bool zc_shared_has_host(const struct zc_shared *pair);

/*
 * Takes the pair's lock: all signals that are sent to the thread wait meanwhile, because a handler
 * of the program's may touch a page of the pair.  Under it neither the driver nor the ledger nor
 * the log are called, and no page is touched that is not known to be open.  False when the pair has
 * ended.
 */
struct zc_shared_hold {
    uint64_t mask; /* The thread's signal mask before. */
};
bool zc_shared_lock(struct zc_shared *pair, struct zc_shared_hold *hold);
void zc_shared_unlock(struct zc_shared *pair, const struct zc_shared_hold *hold);

/* What a device block must be. */
struct zc_shared_want {
    size_t size;
    const struct zc_rule *rule;
    bool read_only; /* Kernels only read, and the device can forbid them to write. */
    int node;       /* NUMA node of fresh pages, -1 for any. */
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

/* The blocks are entered in the ledger. */
void zc_shared_note_device(struct zc_shared *pair, const struct zc_block *block);
void zc_shared_note_host(struct zc_shared *pair, struct zc_block *block);

/* A host block leaves the ledger. */
void zc_shared_forget_host(const struct zc_block *block);

/*
 * The program frees the device block, and the device has come to rest: all pages but lost ones are
 * the host block's, and none moves any more.  With `pinned` only if the driver's registration holds
 * all pages that the CPU sees, and allows to write: then it may stay as that of a pinned block.
 * False where nothing was done.
 */
bool zc_shared_leave(struct zc_shared *pair, bool pinned);

/* After that, and once the driver knows nothing of the extent unless its registration stays. */
void zc_shared_device_gone(struct zc_shared *pair);

/*
 * A new host block of `size` bytes in the extent of a device block that waits for one, filled with
 * zeroes if `zero`; NULL if none does.  *slot_out as by zc_hostheap_get().
 */
void *zc_shared_join(size_t size, uint32_t site, uint32_t nth, bool zero,
                     struct zc_slot **slot_out);

/* The host block of an extent is to be `size` bytes long.  False where it lives in a pair that this
 * does not fit into. */
bool zc_shared_resize(struct zc_extent *extent, size_t size);

/* The program frees the host block of an extent that has a pair.  Before zc_hostheap_put(). */
void zc_shared_host_gone(struct zc_extent *extent);

/* Visits all live pairs under the list's lock; visit() may take the pair's lock and nothing
 * else. */
void zc_shared_each(void (*visit)(struct zc_shared *pair, void *arg), void *arg);

/* The counts of a pair; and of all pairs that were, and are. */
struct zc_pair_counts zc_shared_counts(const struct zc_shared *pair);
void zc_shared_totals(struct zc_pair_counts *out);

void zc_shared_inherit(struct zc_shared *pair, void *unused);
/* The child frees the host block of an extent that it has inherited. */
void zc_shared_leave_inherited(struct zc_extent *extent, struct zc_shared *pair);

#endif
