/* SPDX-License-Identifier: MIT */
/* Blocks: the live allocations, found by any address inside them. */
#ifndef ZC_LEDGER_BLOCK_H
#define ZC_LEDGER_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/traffic.h"

enum zc_block_state { ZC_BLOCK_LIVE = 1, ZC_BLOCK_FREEING = 2 };

/*
 * One live allocation.  Fields are set as zc_block_add() publishes the block and
 * constant afterwards, except `state`, `cells`, `flags` and, for host blocks, `real` and `base`.
 * 96 bytes: of the 200 that a live block may cost, its entry in the index takes 25 and the record
 * of its place 64.
 */
struct zc_block {
    uint64_t base; /* First address, the one the program holds; see zc_block_shift(). */
    uint64_t size; /* Bytes that the program asked for, at least 1. */
    union {
        uint64_t id;                /* Serial number from 1, as in the log. */
        struct zc_block *next_dead; /* Of a removed block: the ledger's own. */
    };
    void *context; /* CUcontext the request was made in; NULL for host memory before CUDA. */
    void *pool;    /* CUmemoryPool of a stream-ordered request, else NULL. */
    void *backing; /* The place's own record (place/); of a mapping, its handle's
                    * (hook/handle.h); NULL for blocks left where asked. */
    struct zc_cell *cell[4]; /* Traffic by direction, first come first served; NULL when unused. */
    uint32_t behind;      /* Pages of its place's making from that of its last byte on; 0: none. */
    uint16_t before : 12; /* Pages of its place's making below it. */
    uint16_t asked : 4;   /* enum zc_kind that the program asked for. */
    uint16_t site;        /* Index into the site table. */
    uint16_t flags;       /* ZC_BLOCK_* below. */
    int16_t rule;         /* Index of the rule that decided, -1 for none. */
    int8_t device;        /* Device ordinal; -1 for none. */
    uint8_t api : 5;      /* enum zc_api of policy.h. */
    uint8_t place : 3;    /* enum zc_place_id: where it really is. */
    uint8_t real;         /* enum zc_kind of the pages. */
    uint8_t state;        /* enum zc_block_state. */
};

/* What `before` and `behind` count, whatever the kernel's pages are. */
#define ZC_BLOCK_PAGE ((uint64_t)4096)

#define ZC_BLOCK_CONVERTED 1u /* Its memory is of libzc's making, and has a backing. */
#define ZC_BLOCK_STREAM 2u    /* Stream-ordered request (cuMemAllocAsync and kin). */
#define ZC_BLOCK_FOREIGN 4u   /* Not allocated here: imported, a module's global, registered. */
#define ZC_BLOCK_QUARANTINED                                                                       \
    16u                       /* Freed by the program; its pages wait for a stream or a request. */
#define ZC_BLOCK_HOST 32u     /* Of the host heap: libc memory to the program, pinned once used. */
#define ZC_BLOCK_BUDGET 64u   /* Counts against the budget of its rule. */
#define ZC_BLOCK_MAPPING 256u /* The program mapped a handle that a rule decided on. */
#define ZC_BLOCK_POOLED                                                                            \
    512u                         /* Converted; its memory is of a pool of the driver's, which the  \
                                  * program's own calls free it to. */
#define ZC_BLOCK_POOL_GONE 1024u /* Its pool was destroyed: `pool` may be another's handle now. */
#define ZC_BLOCK_SHADOW 128u     /* Indexed at its shadow: a device block has its addresses. */
#define ZC_BLOCK_SYNC_MEMOPS 8u  /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS was set by the program. */

/* True for pinned host memory that the program asked the driver for and libzc made. */
static inline bool zc_block_hosted(const struct zc_block *block)
{
    return (block->flags & ZC_BLOCK_CONVERTED) && block->asked == ZC_KIND_PINNED;
}

/*
 * Enters a copy of `like`, gives it its id and makes it findable.  `like` has no id, state or
 * cells. Returns NULL when the calling thread was interrupted inside the ledger or memory ran out;
 * the request is then not tracked, and counted as such.  A block that overlaps an older one
 * replaces it: the driver has reused addresses whose free was not seen.
 */
struct zc_block *zc_block_add(const struct zc_block *like);

/* Counts a request that makes no block (an array) at its site. */
void zc_block_note_request(uint32_t site, uint64_t bytes);

/*
 * The block that [address, address] lies in, or NULL.  Lock-free, no allocation, signal-safe.  The
 * pointer stays readable after another thread frees the block (arena memory is never unmapped),
 * but then describes nothing.
 */
struct zc_block *zc_block_find(uint64_t address);

/*
 * True for an address in no block that is of the making of a block's place: the driver may know it,
 * and the program does not.  Lock-free, signal-safe.
 */
bool zc_block_beside(uint64_t address);

/*
 * Claims a block for freeing: true for exactly one caller.  A free that the driver then refuses
 * gives the claim back by zc_block_unclaim().
 */
bool zc_block_claim(struct zc_block *block);
void zc_block_unclaim(struct zc_block *block);

/*
 * A host block and a device block may have the same addresses; then the host block is found
 * `zc_block_shadow` bytes further on, modulo 2^64, and its base is there.  Shifts a live block to
 * its shadow, or back.
 */
extern uint64_t zc_block_shadow; /* Set once, before the first block is shifted. */
void zc_block_shift(struct zc_block *block, bool away);

/* The address that the program holds. */
static inline uint64_t zc_block_address(const struct zc_block *block)
{
    return block->base - (block->flags & ZC_BLOCK_SHADOW ? zc_block_shadow : 0);
}

/* A claimed block that the program has freed, but whose addresses are kept: it is found as before,
 * to answer as freed memory, and no longer counts as live. */
void zc_block_quarantine(struct zc_block *block);

/* Removes a claimed block, folds its cells into its site and frees it.  In a signal handler that
 * interrupted the ledger the removal is left to the next thread that changes the ledger. */
void zc_block_remove(struct zc_block *block);

/*
 * Visits live blocks, claimed ones among them, in address order, under the ledger's lock: visit()
 * must not call the driver, the loader, libc's allocator or the ledger.  Stops when it returns
 * false.
 */
void zc_block_each(bool (*visit)(struct zc_block *block, void *arg), void *arg);

struct zc_block_gauge {
    uint64_t blocks;     /* Live blocks. */
    uint64_t bytes;      /* Bytes of them. */
    uint64_t peak_bytes; /* Highest value of bytes. */
};
/* Live blocks by real place (enum zc_place_id), kept by add and remove. */
void zc_block_gauge(unsigned place, struct zc_block_gauge *out);

/* Requests that could not be recorded (arena or ledger not available). */
uint64_t zc_block_untracked(void);

/* Live blocks that newer ones replaced: frees that were not seen. */
uint64_t zc_block_overlapped(void);

/* For the child of fork(2): the ledger is empty. */
void zc_block_reset(void);

#endif
