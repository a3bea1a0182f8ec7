/* SPDX-License-Identifier: MIT */
/* The host heap: libc's large blocks in memory that can be pinned.  No call of CUDA's in here. */
#ifndef ZC_HOST_HOSTHEAP_H
#define ZC_HOST_HOSTHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One reserved range of addresses, cut into units of one huge page.  An extent is a run of units:
 * one large block, or a slab of equal small ones.  Extents are what is registered with the driver,
 * as a whole, and what is pooled.  All records lie beside the range, in private memory, so that the
 * child of fork(2) finds in them what it inherited, and no block can be overrun into them.
 */
#ifndef ZC_HOST_UNIT_SHIFT /* Tests of page states are quicker with small pages. */
#define ZC_HOST_UNIT_SHIFT 21
#endif
#define ZC_HOST_UNIT ((size_t)1 << ZC_HOST_UNIT_SHIFT)
#define ZC_HOST_MIN ((size_t)64 << 10) /* Smaller requests are never converted. */
#define ZC_HOST_SLOTS 32               /* Blocks of 64 KiB in a unit. */

/*
 * Where two blocks begin at the same place of their huge pages, the same elements of both have the
 * same low bits of their physical addresses, and caches and memory take these for one place: 16
 * threads that went through two such blocks side by side took 2.5 times as long as with 4 KiB pages
 * (measured).  So blocks begin at ZC_HOST_LEADS different multiples of ZC_HOST_LEAD bytes.
 */
#define ZC_HOST_LEAD 128
#define ZC_HOST_LEADS 31
#define ZC_HOST_LEAD_UNITS 8 /* Blocks of fewer units get none that would cost a unit. */

/* What an extent is for. */
enum zc_extent_use {
    ZC_EXTENT_NONE,  /* Not a first unit, or never used. */
    ZC_EXTENT_HOLE,  /* Addresses without memory. */
    ZC_EXTENT_FREE,  /* Memory that waits in the pool for a request. */
    ZC_EXTENT_BLOCK, /* One block. */
    ZC_EXTENT_SLAB,  /* Blocks of one size class. */
    ZC_EXTENT_LIMBO, /* No block, but its addresses are still known to the driver. */
};

/* What the driver knows of an extent. */
enum zc_extent_pin {
    ZC_PIN_NONE,    /* Nothing: it is pageable to the driver. */
    ZC_PIN_MAKING,  /* A thread is registering it. */
    ZC_PIN_DONE,    /* Registered by libzc. */
    ZC_PIN_REFUSED, /* Registering failed: it stays pageable. */
    ZC_PIN_PROGRAM, /* The program registered some of it: the driver answers for it. */
    ZC_PIN_SHARED,  /* Registered by libzc for a device block that lives in it. */
};

/* One block: what must be known to free, to move and to describe it. */
struct zc_slot {
    uint64_t size;   /* Bytes that the program asked for; 0 in a free slot. */
    uint32_t site;   /* Index into the site table. */
    int16_t rule;    /* Index of the rule that placed it. */
    uint8_t api;     /* enum zc_api. */
    bool dirty;      /* The memory was used before, and is not zero. */
    uint32_t nth;    /* Which block of its site it is, from 1. */
    uint32_t thread; /* That asked for it; 0 until the slot is filled.  Atomic. */
};

/* Who decides whether a device block moves in. */
enum zc_extent_claim {
    ZC_CLAIM_NONE,   /* Whoever comes first. */
    ZC_CLAIM_DEVICE, /* A device block is about to move in: `shared` is set soon. */
    ZC_CLAIM_OWNER,  /* The program frees or resizes the host block. */
};

/* One extent, at the index of its first unit.  Under the heap's lock, except `pin`, `copied`,
 * `shared`, `claim`, `visits`, `program`, `rights`, `guards`, `stale` and `odd` (atomics), and the
 * slot of a live block, which is its owner's. */
struct zc_extent {
    struct zc_extent *next, *prev; /* In the list of its use: holes, pool, slabs with room. */
    void *context;                 /* CUcontext that registered it; written before pin is DONE. */
    void *owner;      /* CUcontext of the program's cuMemHostAlloc in it; NULL for libc's blocks. */
    void *shared;     /* struct zc_shared of a device block in it, or NULL.  Atomic. */
    uint32_t claim;   /* enum zc_extent_claim.  Atomic. */
    uint32_t visits;  /* Copies under way from or to its blocks.  Atomic. */
    uint64_t serial;  /* Counts extents that became blocks: the age of its block. */
    uint64_t copied;  /* Bytes that transfers moved from or to it before it was registered. */
    uint32_t units;   /* Length. */
    uint32_t live;    /* Blocks in it. */
    uint32_t room;    /* SLAB: bit per free slot. */
    uint32_t pin;     /* enum zc_extent_pin. */
    uint32_t program; /* Registrations of the program's own in it. */
    uint32_t era;     /* Process generation that made it, see zc_hostheap_mine(). */
    uint8_t *rights;  /* See host/overlay.h; NULL while the pages are as malloc gave them. */
    uint32_t guards;  /* Pages in it that are not. */
    bool stale;       /* What the driver registered is not what the CPU has there any more. */
    bool odd;         /* The program changed its mappings: no other block gets them. */
    int16_t node;     /* NUMA node that its pages are bound to, or ZC_NODE_*. */
    uint16_t lead;    /* BLOCK: bytes of the extent before the block's first. */
    uint8_t use;      /* enum zc_extent_use. */
    bool small;       /* Its memory is not to come in huge pages. */
    uint32_t step;    /* SLAB: the slots' bytes. */
    struct zc_slot slot[ZC_HOST_SLOTS];
};

/*
 * What every malloc(3) and free(3) of the program reads, without a lock: so it has a cache line
 * that nothing else is written to, and no table of addresses stands before it.  Fields are atomics.
 */
struct zc_hostheap_range {
    uintptr_t base; /* The range: [base, base + bytes).  Before zc_hostheap_open() it is empty and
                     * lies where no program's memory is, so that a thread that sees only one of
                     * the two change takes no address for the heap's. */
    size_t bytes;
    size_t threshold; /* Smaller requests go to libc: ZC_HOST_MIN until the policy is known, then
                       * what the smallest rule asks for, SIZE_MAX where no rule asks. */
} __attribute__((aligned(64)));
extern struct zc_hostheap_range zc_hostheap __attribute__((visibility("hidden")));

static inline bool zc_hostheap_owns(uint64_t address)
{
    uintptr_t base = __atomic_load_n(&zc_hostheap.base, __ATOMIC_RELAXED);
    return __builtin_expect(address - base < __atomic_load_n(&zc_hostheap.bytes, __ATOMIC_RELAXED),
                            0);
}

/* What a block must be. */
struct zc_host_want {
    size_t size;      /* Bytes, at least 1. */
    size_t alignment; /* Power of two, at most ZC_HOST_UNIT. */
    int node;         /* NUMA node, or ZC_NODE_*. */
    bool zero;        /* calloc(3), cuMemHostAlloc. */
    bool spread;      /* A block with an extent of its own may begin a little behind the extent's
                       * first byte, see ZC_HOST_LEAD; and then no device block moves in. */
    void *owner;      /* CUcontext of a cuMemHostAlloc: its blocks share no extent with others', and
                       * get none that another context registered, because it could take the
                       * registration along.  NULL for libc's. */
};

/* Reserves the range.  False, with the reason in *why, where the kernel or RLIMIT_AS refuses; then
 * the heap stays closed for good, and later calls return what the first did.  A caller that comes
 * while another is at it waits a moment, and gets false where that does not end: the other may be
 * what its signal handler interrupted. */
bool zc_hostheap_open(const char **why);

/* Gives addresses back that no block ever had, as RLIMIT_AS has become or all of them, and memory
 * of the pool, as RLIMIT_DATA has. */
void zc_hostheap_fit(bool all);

/*
 * A block, its slot filled by the caller from *slot_out on.  NULL with the reason in *why when a
 * limit is reached, the kernel refuses, or the calling thread was interrupted inside the heap.
 */
void *zc_hostheap_get(const struct zc_host_want *want, struct zc_slot **slot_out, const char **why);

/* The slot of the live block that begins at `p`, NULL if none does. */
struct zc_slot *zc_hostheap_slot(const void *p);

/* The live block that an address lies in: its first address, or 0. */
uintptr_t zc_hostheap_block(uint64_t address);

/* The extent that an address of the range lies in, or NULL. */
struct zc_extent *zc_hostheap_extent(uint64_t address);

/* First address and bytes of an extent. */
uintptr_t zc_extent_base(const struct zc_extent *extent);
static inline size_t zc_extent_span(const struct zc_extent *extent)
{
    return (size_t)extent->units << ZC_HOST_UNIT_SHIFT;
}

/* Bytes that a block of that size has room for in its place: realloc(3) may grow into them. */
size_t zc_hostheap_room(const void *p);

/*
 * Makes a block that has an extent of its own another size, its content kept, without copying: in
 * its place, or its pages move to other addresses.  NULL, and the block as it was, where it shares
 * an extent, is registered or inherited, or where limit, addresses or kernel refuse.  The caller
 * fills *slot_out.
 */
void *zc_hostheap_resize(void *p, size_t size, struct zc_slot **slot_out);

/* Frees a block.  Its memory waits in the pool, registered or not. */
void zc_hostheap_put(void *p);

/* False for memory inherited over fork(2): this process never registered it. */
bool zc_hostheap_mine(const struct zc_extent *extent);

/* Puts an extent in limbo back into the pool. */
void zc_hostheap_revive(struct zc_extent *extent);

/* The same for one whose device block has gone: `shared` becomes NULL in the same step, so that
 * either this or the free of its host block puts it into the pool. */
void zc_hostheap_unshare(struct zc_extent *extent);

/*
 * Finds an extent for a device block among the live blocks with an extent of their own that have
 * none: the oldest that wants() accepts, claimed for it.  wants() runs under the heap's lock and
 * must not call the heap, the driver or libc.  NULL when there is none.  Once `shared` is set, or
 * will not be, the caller calls zc_hostheap_paired().
 */
struct zc_extent *zc_hostheap_pair(bool (*wants)(const struct zc_extent *extent, void *arg),
                                   void *arg);
void zc_hostheap_paired(struct zc_extent *extent);

/*
 * A copy from or to a block of the extent begins: until it ends no device block moves in, whatever
 * other threads allocate.  False when there is one, or was about to be one: then nothing has begun,
 * and the caller looks again whose the address is.
 */
bool zc_hostheap_visit(struct zc_extent *extent);
void zc_hostheap_part(struct zc_extent *extent);

/* The program frees or resizes a block: no device block moves into its extent meanwhile, and one
 * that is about to has done so when the call returns. */
void zc_hostheap_claim(struct zc_extent *extent);
void zc_hostheap_unclaim(struct zc_extent *extent);

/* Takes the block out of an extent of its own, which goes into limbo; and puts one there. */
void zc_hostheap_vacate(struct zc_extent *extent);
struct zc_slot *zc_hostheap_occupy(struct zc_extent *extent, size_t size);

/*
 * Takes one extent out of the pool that is too much in it, because there are too many or because it
 * is odd: of those that libzc registered when `pinned`, else of the others.  NULL when there is
 * none, or with `all` when none is left.  The caller unregisters it and then calls
 * zc_hostheap_drop(), or zc_hostheap_keep() to put it back.
 */
struct zc_extent *zc_hostheap_surplus(bool pinned, bool all);
void zc_hostheap_drop(struct zc_extent *extent);
void zc_hostheap_keep(struct zc_extent *extent);

/* Visits all extents with memory under the heap's lock: visit() may change `pin` and must not call
 * the heap, the driver or libc. */
void zc_hostheap_each(void (*visit)(struct zc_extent *extent, void *arg), void *arg);

/* Bytes in the pool. */
size_t zc_hostheap_pooled(void);

#endif
