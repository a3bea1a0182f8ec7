/* SPDX-License-Identifier: MIT */
/* Blocks: the live allocations, found by any address inside them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/cell.h"
#include "ledger/counters.h"
#include "ledger/index.h"

enum zc_block_state { ZC_BLOCK_LIVE = 1, ZC_BLOCK_FREEING = 2 };

/*
 * One live allocation.  Fields are set before zc_block_add() publishes the block and constant
 * afterwards, except `state`, `cells`, `flags` and, of host blocks and `shared`, `real`.  It has
 * 104 bytes: a live block may cost 200, of which the place's record takes 64.
 */
struct zc_block {
    union {
        struct zc_index_node node;
        struct {
            uint64_t base; /* First address, as the program knows it. */
            uint64_t size; /* Bytes that the program asked for, at least 1. */
        };
    };
    union {
        uint64_t id;                /* Serial number from 1, as in the log. */
        struct zc_block *next_dead; /* List of removed blocks, used by the ledger. */
    };
    void *context; /* CUcontext the request was made in; NULL for host memory before CUDA. */
    void *backing; /* The place's record (place/), or for a mapping that of its handle
                    * (hook/handle.h); NULL if not converted. */
    struct zc_cell
        *cell[ZC_BLOCK_CELLS]; /* Traffic by direction, in order of first use; NULL: unused. */
    uint32_t behind;           /* Pages mapped by its place from that of its last byte on. */
    uint16_t before : 12;      /* Pages mapped by its place below it. */
    uint16_t asked : 4;        /* enum zc_kind that the program asked for. */
    uint16_t site;             /* Index into the site table. */
    uint16_t flags;            /* ZC_BLOCK_* below. */
    int16_t rule;              /* Index of the rule; -1 for none. */
    int8_t device;             /* Device ordinal; -1 for none. */
    uint8_t api : 5;           /* enum zc_api of policy.h. */
    uint8_t place : 3;         /* enum zc_place_id: where it is. */
    uint8_t real;              /* enum zc_kind of the pages. */
    uint8_t state;             /* enum zc_block_state. */
};

/* Unit of `before` and `behind`, whatever the kernel's page size. */
#define ZC_BLOCK_PAGE ((uint64_t)4096)

#define ZC_BLOCK_CONVERTED 1u    /* libzc made its memory, and it has a backing. */
#define ZC_BLOCK_STREAM 2u       /* Stream-ordered request (cuMemAllocAsync and related calls). */
#define ZC_BLOCK_FOREIGN 4u      /* Not requested: imported, a global, registered. */
#define ZC_BLOCK_QUARANTINED 16u /* Freed, but something still uses its memory. */
#define ZC_BLOCK_HOST 32u      /* In the host heap: libc memory to the program, pinned once used. */
#define ZC_BLOCK_BUDGET 64u    /* Counts against the budget of its rule. */
#define ZC_BLOCK_EXPORTED 128u /* Others reach its memory by a handle that the program has. */
#define ZC_BLOCK_SYNC_MEMOPS 8u   /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was set by the program. */
#define ZC_BLOCK_CAME_PINNED 256u /* The host heap had registered its memory before. */
#define ZC_BLOCK_ADOPTED 512u     /* The program registered it; libzc had before. */
#define ZC_BLOCK_SPILLED 2048u    /* Its end is in host memory, as `mapped`, at its addresses. */
#define ZC_BLOCK_READ_ONLY 4096u  /* Registered with CU_MEMHOSTREGISTER_READ_ONLY. */

/* Devices give memory by so many bytes.  With ZC_BLOCK_SPILLED the upper bits of `behind` count
 * those in front of what is in host memory. */
#define ZC_BLOCK_UNIT ((uint64_t)2 << 20)
#define ZC_BLOCK_BEHIND_BITS 11
#define ZC_BLOCK_BEHIND ((1u << ZC_BLOCK_BEHIND_BITS) - 1)

/* Bytes of a block that are in host memory: none, its end, or all. */
static inline uint64_t zc_block_spilled(const struct zc_block *block)
{
    uint64_t front = (block->behind >> ZC_BLOCK_BEHIND_BITS) * ZC_BLOCK_UNIT;
    return block->flags & ZC_BLOCK_SPILLED ? block->size - front : 0;
}

/* Memory that libzc made, or knows better than the driver does. */
#define ZC_BLOCK_KNOWN (ZC_BLOCK_CONVERTED | ZC_BLOCK_ADOPTED)

/* True for pinned host memory that the program requested and libzc made, or that the program
 * registered and libzc had before: that has no backing. */
static inline bool zc_block_hosted(const struct zc_block *block)
{
    return (block->flags & ZC_BLOCK_KNOWN) && block->asked == ZC_KIND_PINNED;
}

/* Such memory is registered in parts of so many bytes: the calls of other threads and processes
 * wait while the driver registers one (measured), and driver 580 takes none of 512 GiB. */
#define ZC_BLOCK_PART ((uint64_t)256 << 20)

/* The first border behind an address in a block, of two parts or of device and host memory; 0 if
 * there is none, and for NULL. */
static inline uint64_t zc_block_border(const struct zc_block *block, uint64_t address)
{
    if (block && (block->flags & ZC_BLOCK_SPILLED)) {
        uint64_t host = block->base + block->size - zc_block_spilled(block);
        return host > address ? host : 0;
    }
    if (!block || block->size <= ZC_BLOCK_PART || !zc_block_hosted(block) ||
        (block->flags & ZC_BLOCK_CAME_PINNED))
        return 0;
    uint64_t before = (address - block->base) / ZC_BLOCK_PART * ZC_BLOCK_PART;
    uint64_t border = block->base + before + ZC_BLOCK_PART;
    return border - block->base < block->size ? border : 0;
}

/*
 * Enters a copy of `like`, which has no id, state or cells yet, and makes it findable.  Returns
 * NULL if the calling thread was interrupted inside the ledger, or there is no memory; the request
 * is then not tracked, and counted as such.  If the block overlaps an older one, it replaces that:
 * the driver has reused addresses whose free libzc did not see.
 */
struct zc_block *zc_block_add(const struct zc_block *like);

/* The calling thread's last look-ups, by a hash of the page: the last two of each hash, so
 * that both sides of a copy have one. */
#define ZC_BLOCK_SEEN 8u
extern __thread struct zc_index_seen zc_block_seen[ZC_BLOCK_SEEN][2]
    __attribute__((tls_model("initial-exec")));

static inline struct zc_index_seen *zc_block_seen_at(uint64_t address)
{
    return zc_block_seen[(address / ZC_BLOCK_PAGE * UINT64_C(0x9e3779b97f4a7c15)) >> 61];
}

/* True if what was seen still tells; then it is copied. */
static inline bool zc_block_recall(const struct zc_index_seen *seen, uint64_t address,
                                   struct zc_index_seen *out)
{
    uint64_t now = __atomic_load_n(&zc_index_sequence, __ATOMIC_ACQUIRE);
    uint64_t base = seen->base, bytes = seen->bytes;
    bool held = (seen->sequence == now) & (address - base < bytes);
    *out = (struct zc_index_seen){now, base, bytes, seen->node};
    /* A handler may have used the record in between: then it is another one, or of now. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return held & (seen->sequence == now) & (seen->base == base);
}

/* zc_block_find() for what the calling thread did not see last. */
struct zc_block *zc_block_look(uint64_t address);

/*
 * The block that contains an address, or NULL.  Lock-free, no allocation, signal-safe.  The pointer
 * stays readable after another thread frees the block (arena memory is never unmapped), but then
 * means nothing.
 */
static inline struct zc_block *zc_block_find(uint64_t address)
{
    struct zc_index_seen now;
    bool known = zc_block_recall(zc_block_seen_at(address), address, &now);
    return __builtin_expect(known, 1) ? (struct zc_block *)now.node : zc_block_look(address);
}

/* The block or the gap that contains it, in the same way. */
struct zc_index_seen zc_block_see(uint64_t address);

/*
 * True for an address outside of blocks that a block's place has mapped: the driver may know it,
 * the program does not.  Lock-free, signal-safe.
 */
extern bool zc_block_padded; /* Some block has such memory.  Atomic. */
bool zc_block_in_margin_any(uint64_t address);
static inline bool zc_block_in_margin(uint64_t address)
{
    return __atomic_load_n(&zc_block_padded, __ATOMIC_RELAXED) && zc_block_in_margin_any(address);
}

/*
 * Claims a block for freeing: true for exactly one caller.  If the driver then refuses the free,
 * zc_block_unclaim() ends the claim.
 */
bool zc_block_claim(struct zc_block *block);
void zc_block_unclaim(struct zc_block *block);

/* Quarantines a claimed block: the program has freed it, but its addresses are kept.  It is still
 * found, to answer as freed memory, and no longer counts as live. */
void zc_block_quarantine(struct zc_block *block);

/* Removes a claimed block, folds its cells into its site and frees it.  In a signal handler that
 * interrupted the ledger it stays, claimed, until its addresses are another block's. */
void zc_block_remove(struct zc_block *block);

/*
 * Visits live blocks, also claimed ones, in address order under the ledger's lock.  visit() must
 * not call the driver, the loader, libc's allocator or the ledger.
 */
void zc_block_each(void (*visit)(struct zc_block *block, void *arg), void *arg);

/* Called, unless it is NULL, with the bytes of each block that comes to the place `device` or goes
 * (less than 0), and with its device: under the ledger's lock, so it must do as visit() above.
 * Atomic. */
extern void (*zc_block_on_device)(int device, int64_t bytes);

/* So many bytes at the end of a block are in host memory from now on; 0: it is with its place. */
void zc_block_spill(struct zc_block *block, uint64_t spilled);

/* Requests that could not be recorded, for want of memory or access to the ledger. */
uint64_t zc_block_untracked(void);
