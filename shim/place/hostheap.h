/* The host heap: libc's large blocks in memory that can be pinned.  No call of CUDA's in here. */
#ifndef ZC_PLACE_HOSTHEAP_H
#define ZC_PLACE_HOSTHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One reserved range of addresses, cut into units of one huge page.  An extent is a run of units:
 * one large block, or a slab of equal small ones.  Extents are what is registered with the driver,
 * as a whole, and what is pooled.  All records lie beside the range, in private memory, so that the
 * child of fork(2) finds in them what it inherited, and no block can be overrun into them.
 */
#define ZC_HOST_UNIT_SHIFT 21
#define ZC_HOST_UNIT ((size_t)1 << ZC_HOST_UNIT_SHIFT)
#define ZC_HOST_MIN ((size_t)64 << 10) /* Smaller requests are never converted. */
#define ZC_HOST_SLOTS 32               /* Blocks of 64 KiB in a unit. */

/* What an extent is for. */
enum zc_extent_use {
    ZC_EXTENT_NONE,  /* Not a first unit, or never used. */
    ZC_EXTENT_HOLE,  /* Addresses without memory. */
    ZC_EXTENT_FREE,  /* Memory that waits in the pool for a request. */
    ZC_EXTENT_BLOCK, /* One block. */
    ZC_EXTENT_SLAB,  /* Blocks of one size class. */
    ZC_EXTENT_LIMBO, /* Freed by the program while its own registration stands. */
};

/* What the driver knows of an extent. */
enum zc_extent_pin {
    ZC_PIN_NONE,    /* Nothing: it is pageable to the driver. */
    ZC_PIN_MAKING,  /* A thread is registering it. */
    ZC_PIN_DONE,    /* Registered by libzc. */
    ZC_PIN_REFUSED, /* Registering failed: it stays pageable. */
    ZC_PIN_PROGRAM, /* The program registered some of it: the driver answers for it. */
};

/* One block: what must be known to free, to move and to describe it. */
struct zc_slot {
    uint64_t size; /* Bytes that the program asked for; 0 in a free slot. */
    uint32_t site; /* Index into the site table. */
    int16_t rule;  /* Index of the rule that placed it. */
    uint8_t api;   /* enum zc_api. */
    bool dirty;    /* The memory was used before, and is not zero. */
};

/* One extent, at the index of its first unit.  Under the heap's lock, except `pin`, `copied` and
 * `program` (atomics), and the slot of a live block, which is its owner's. */
struct zc_extent {
    struct zc_extent *next, *prev; /* In the list of its use: holes, pool, slabs with room. */
    void *context;                 /* CUcontext that registered it; written before pin is DONE. */
    void *owner;      /* CUcontext of the program's cuMemHostAlloc in it; NULL for libc's blocks. */
    uint64_t copied;  /* Bytes that transfers moved from or to it before it was registered. */
    uint32_t units;   /* Length. */
    uint32_t live;    /* Blocks in it. */
    uint32_t room;    /* SLAB: bit per free slot. */
    uint32_t pin;     /* enum zc_extent_pin. */
    uint32_t program; /* Registrations of the program's own in it. */
    uint32_t era;     /* Process generation that made it, see zc_hostheap_mine(). */
    int16_t node;     /* NUMA node that its pages are bound to, -1 for none. */
    uint8_t use;      /* enum zc_extent_use. */
    uint8_t shift;    /* SLAB: log2 of the slots' bytes. */
    struct zc_slot slot[ZC_HOST_SLOTS];
};

/* The range: [base, base + bytes); 0 bytes before zc_hostheap_open().  Read without a lock by every
 * free(3), so it has a cache line that nothing else is written to. */
struct zc_hostheap_range {
    uintptr_t base;
    size_t bytes;
} __attribute__((aligned(64)));
extern struct zc_hostheap_range zc_hostheap;

static inline bool zc_hostheap_owns(uint64_t address)
{
    return __builtin_expect(address - zc_hostheap.base < zc_hostheap.bytes, 0);
}

/* What a block must be. */
struct zc_host_want {
    size_t size;      /* Bytes, at least 1. */
    size_t alignment; /* Power of two, at most ZC_HOST_UNIT. */
    int node;         /* NUMA node, -1 for any. */
    bool zero;        /* calloc(3), cuMemHostAlloc. */
    void *owner;      /* CUcontext of a cuMemHostAlloc: its blocks share no extent with others', and
                       * get none that another context registered, because it could take the
                       * registration along.  NULL for libc's. */
};

/* Reserves the range.  False, with the reason in *why, where the kernel or RLIMIT_AS refuses; then
 * the heap stays closed for good, and later calls return what the first did.  A caller that comes
 * while another is at it waits a moment, and gets false where that does not end: the other may be
 * what its signal handler interrupted. */
bool zc_hostheap_open(const char **why);

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

/* Frees a block.  Its memory waits in the pool, registered or not. */
void zc_hostheap_put(void *p);

/* False for memory inherited over fork(2): this process never registered it. */
bool zc_hostheap_mine(const struct zc_extent *extent);

/* Puts an extent in limbo back into the pool. */
void zc_hostheap_revive(struct zc_extent *extent);

/*
 * Takes one extent out of the pool that is too much in it: of those that libzc registered when
 * `pinned`, else of the others.  NULL when the pool is within its limit, or with `all` when none is
 * left.  The caller unregisters it and then calls zc_hostheap_drop(), or zc_hostheap_keep() to put
 * it back.
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
