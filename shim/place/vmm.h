/* Blocks of the place `vmm`: reserved addresses and the physical memory behind them. */
#ifndef ZC_PLACE_VMM_H
#define ZC_PLACE_VMM_H

#include "ledger/traffic.h"
#include "log/log.h"
#include "place/place.h"

/* Physical memory behind a stretch of a block's addresses.  A handle can only be mapped whole
 * (CUDA Driver API, cuMemMap), so pieces follow each other without gaps. */
struct zc_piece {
    CUmemGenericAllocationHandle handle;
    size_t size; /* Bytes, a multiple of the granularity. */
};

/*
 * One block.  Made and unmade by the place; of a block that is attached late everything but `base`,
 * `span`, `chunk`, `device` and `late` changes under the turn of place/grow.h.
 */
struct zc_vmm {
    CUdeviceptr base;       /* First reserved address, the block's. */
    size_t span;            /* Bytes of the request, rounded up to the granularity. */
    size_t window;          /* Bytes reserved, `span` or more. */
    bool wide;              /* Much more, and counted as that. */
    size_t chunk;           /* Bytes of each piece to make; 0: one piece for all that is missing. */
    int device;             /* Ordinal of the device that has the memory. */
    struct zc_piece *piece; /* From the arena, in the order of their addresses. */
    unsigned count, room;   /* Pieces, and how many `piece` has room for. */
    size_t held;            /* Bytes of the pieces. */
    size_t attached;        /* Bytes from `base` on that the device reaches.  Of a spare: that are
                             * mapped, behind them memory of the block that has it. */

    bool late;              /* Memory is attached when it is first needed (commit = lazy, grow). */
    bool grows;             /* The rule's `grow`: copies into it may become remaps. */
    bool open;              /* Something is not done yet: memory or a copy.  Atomic. */
    struct zc_vmm *next;    /* Of all blocks attached late, or of those kept after their free. */
    struct zc_block *ghost; /* Of a block kept after its free: what the ledger has of it. */
    struct zc_vmm *spare;   /* The block that this one grew from: its addresses, still mapped. */
    struct zc_vmm *like;    /* A block whose first pieces are mapped here too: it may grow into this
                             * one, which has its spare's addresses. */
    struct zc_vmm *echo;    /* The other way round. */
    size_t aliased;         /* With `like`: bytes of these pieces. */
    struct zc_vmm *source;  /* The block that this one was copied from, the copy not made yet. */
    struct zc_vmm *sink;    /* The other way round. */
    CUcontext context;      /* Of the request. */
    struct zc_transfer copy; /* With a source: recorded once it is known what became of it. */
    struct zc_log_call call; /* What the log tells of its call. */
};

/*
 * Makes all of the block's addresses usable: creates what is missing, maps what is not mapped, and
 * gives access by one call.  On failure the driver's code and in *why the call that refused; what
 * was held before is still held, and reachable as far as the driver allows.
 */
CUresult zc_vmm_attach(struct zc_vmm *v, const char **why);

/* Gives a block's memory and addresses back to the driver, and its record to the arena.  Returns
 * the first refusal. */
CUresult zc_vmm_give_back(struct zc_vmm *v);

/* The vmm block of a ledger block, NULL for others. */
struct zc_vmm *zc_vmm_of(const struct zc_block *block);

#endif
