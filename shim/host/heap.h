/* SPDX-License-Identifier: MIT */
/* The records of the host heap: its range, extents and their slots. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/*
 * The heap is one reserved range of addresses, cut into units of one huge page.  An extent is a run
 * of units: one large block, or a slab of equal small ones.  Extents are registered with the
 * driver, and pooled, as a whole.  All records lie outside the range, in private memory.  So a
 * child of fork(2) finds what it inherited, and no block can be overrun into them.
 */
#ifndef ZC_HOST_UNIT_SHIFT /* With small pages, tests of page states are faster. */
#define ZC_HOST_UNIT_SHIFT 21
#endif
#define ZC_HOST_UNIT ((size_t)1 << ZC_HOST_UNIT_SHIFT)
#define ZC_HOST_SLOTS 32 /* Blocks of 64 KiB in a unit. */

/*
 * If two blocks begin at the same offset in their huge pages, equal elements of both have equal low
 * bits in their physical addresses, and compete for the same cache sets: 16 threads that read two
 * such blocks side by side took 2.5 times as long as with 4 KiB pages (measured).  So blocks begin
 * at ZC_HOST_LEADS different multiples of ZC_HOST_LEAD bytes.
 */
#define ZC_HOST_LEAD 128
#define ZC_HOST_LEADS 31
#define ZC_HOST_LEAD_UNITS 8 /* Smaller blocks begin at 0 if an offset would cost a unit. */

/* The use of an extent. */
enum zc_extent_use {
    ZC_EXTENT_NONE,  /* Not a first unit, or never used. */
    ZC_EXTENT_HOLE,  /* Addresses without memory. */
    ZC_EXTENT_FREE,  /* Memory that waits in the pool for a request. */
    ZC_EXTENT_BLOCK, /* One block. */
    ZC_EXTENT_SLAB,  /* Blocks of one size class. */
    ZC_EXTENT_LIMBO, /* No block, but its addresses are still known to the driver. */
};

/* The driver's knowledge of an extent. */
enum zc_extent_pin {
    ZC_PIN_NONE,    /* Nothing: it is pageable to the driver. */
    ZC_PIN_MAKING,  /* A thread is registering it. */
    ZC_PIN_DONE,    /* Registered by libzc. */
    ZC_PIN_REFUSED, /* Registering failed: it stays pageable. */
    ZC_PIN_PROGRAM, /* The program registered some of it: the driver answers for it. */
    ZC_PIN_SHARED,  /* Nothing: a device block is one with its block, at another address. */
};

/* One block: all that freeing, moving and describing it needs. */
struct zc_slot {
    uint64_t size;  /* Bytes that the program asked for; 0 in a free slot. */
    uint32_t site;  /* Index into the site table. */
    int16_t rule;   /* Index of the rule that placed it. */
    uint8_t api;    /* enum zc_api. */
    bool dirty : 1; /* The memory was used before, and is not zero. */
    bool known : 1; /* The block is complete: the ledger has it, or will: host/hostblock.h. */
};

/* The party that decides whether a device block may use the extent. */
enum zc_extent_claim {
    ZC_CLAIM_NONE,   /* Nobody yet. */
    ZC_CLAIM_DEVICE, /* A device block is about to use it: `shared` is set soon. */
    ZC_CLAIM_OWNER,  /* The program frees or resizes the host block. */
};

/* One extent, stored at the index of its first unit.  Changes under the heap's lock, except `pin`,
 * `copied`, `shared`, `claim`, `visits`, `program`, `early`, `inherited`, `graphed`, `stale`
 * and `no_reuse`, which are atomics, and the slot of a live block, which belongs to the block's
 * owner.
 */
struct zc_extent {
    struct zc_extent *next, *prev; /* List by use: holes, pool, slabs with room. */
    void *context;                 /* CUcontext that registered it; written before pin is DONE. */
    void *owner;     /* CUcontext of the program's cuMemHostAlloc in it; NULL for libc's blocks. */
    void *shared;    /* struct zc_shared of the device block that its block is one with, or NULL.
                      * Atomic. */
    uint32_t claim;  /* enum zc_extent_claim.  Atomic. */
    uint32_t visits; /* Copies under way from or to its blocks.  Atomic. */
    uint64_t copied; /* Bytes that transfers moved from or to it before it was registered. */
    uint64_t since;  /* FREE: when its last block was freed, in ticks. */
    uint64_t prefaulted; /* Bytes of a block that the program may not need.  Atomic. */
    uint64_t loose;      /* BLOCK: bytes that it did not fill when it came, of what counts. */
    uint32_t units;      /* Length. */
    uint32_t live;       /* Blocks in it. */
    uint32_t room;       /* SLAB: bit per free slot. */
    uint32_t pin;        /* enum zc_extent_pin. */
    uint32_t program;    /* Registrations of the program's own in it. */
    uint32_t era;        /* Process generation that made it, see zc_hostheap_mine(). */
    uint64_t inode;      /* Of the file that its memory is, 0 for private memory: host/memfile.h. */
    uint64_t pinned; /* Registered bytes of it, from its beginning on; set before pin is DONE. */
    uint64_t part;   /* Bytes of each registration but the last one. */
    void *view;      /* Mappings of it that are not used; NULL in children. */
    uint64_t elided, cpu_copied; /* BLOCK: bytes of copies between it and device blocks that were
                                  * one with it that nobody copied, and that the CPU did.  Under the
                                  * lock of that device block. */
    uint64_t private_bytes;      /* The CPU's private view, from its beginning on. */
    bool stale;                  /* The driver registered other pages than the CPU has there now. */
    bool no_reuse;  /* Its mappings were changed, or another process has them: no other block may
                     * get it. */
    bool frozen;    /* Nothing is written into its file any more.  Atomic. */
    bool early;     /* Its memory stays: shared/early.h has mapped it.  Atomic. */
    bool graphed;   /* A graph that copies it found it registered, and relies on that.  Atomic. */
    bool inherited; /* The process has forked since it had a block.  Atomic. */
    bool adopted;   /* PROGRAM: libzc's registration serves as the program's, */
    bool portable;  /* who wanted CU_MEMHOSTREGISTER_PORTABLE. */
    uint16_t lead;  /* BLOCK: offset of the block in the extent. */
    uint8_t use;    /* enum zc_extent_use. */
    bool listed;    /* FREE: among those that are registered. */
    bool small;     /* Its memory must not use huge pages. */
    uint32_t step;  /* SLAB: bytes of a slot. */
    struct zc_slot slot[ZC_HOST_SLOTS];
};

/*
 * Every malloc(3) and free(3) of the program reads this without a lock.  So it has a cache line of
 * its own, which is hardly ever written, and no address table is needed.  All fields are atomics.
 */
struct zc_hostheap_range {
    uintptr_t base; /* The range is [base, base + bytes).  Before zc_hostheap_open() it is empty,
                     * and lies where programs have no memory, so that a thread that sees only one
                     * of both fields change takes no address for the heap's. */
    size_t bytes;
    size_t threshold; /* Smaller requests go to libc.  ZC_HOST_MIN until the policy is known, then
                       * the smallest size that a rule asks for; SIZE_MAX if none does. */
} __attribute__((aligned(64)));
extern struct zc_hostheap_range zc_hostheap __attribute__((visibility("hidden")));

static inline bool zc_hostheap_owns(uint64_t address)
{
    uintptr_t base = __atomic_load_n(&zc_hostheap.base, __ATOMIC_RELAXED);
    return __builtin_expect(address - base < __atomic_load_n(&zc_hostheap.bytes, __ATOMIC_RELAXED),
                            0);
}

/* Requirements of a block. */
struct zc_host_want {
    size_t size;      /* Bytes, at least 1. */
    size_t alignment; /* Power of two, at most ZC_HOST_UNIT. */
    bool zero;        /* Zeroed, as for calloc(3) and cuMemHostAlloc. */
    bool shareable;   /* A large block's memory can be mapped a second time: host/memfile.h. */
    bool spread; /* A block with its own extent may begin a little behind the extent's first byte
                  * (ZC_HOST_LEAD); then no device block can use the extent. */
    void *owner; /* CUcontext of a cuMemHostAlloc.  Its blocks share no extent with others', nor
                  * reuse one that another context registered, which could take the registration
                  * along.  NULL for libc's blocks. */
};

/* First address and bytes of an extent. */
uintptr_t zc_extent_base(const struct zc_extent *extent);
static inline size_t zc_extent_span(const struct zc_extent *extent)
{
    return (size_t)extent->units << ZC_HOST_UNIT_SHIFT;
}

/* The extent that contains an address of the range, or NULL. */
struct zc_extent *zc_hostheap_extent(uint64_t address);

/* The first extent with memory behind another one, or of all for NULL, that wanted() says true for;
 * NULL if there is none.  wanted() is called under the heap's lock, and must not call the heap, the
 * driver or libc. */
struct zc_extent *zc_hostheap_next(const struct zc_extent *after,
                                   bool (*wanted)(const struct zc_extent *e));

/* False for memory inherited over fork(2): this process never registered it. */
bool zc_hostheap_mine(const struct zc_extent *extent);

/* True for one that is registered, by this process. */
static inline bool zc_extent_registered(const struct zc_extent *extent)
{
    return __atomic_load_n(&extent->pin, __ATOMIC_ACQUIRE) == ZC_PIN_DONE &&
           zc_hostheap_mine(extent);
}
