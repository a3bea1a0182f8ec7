/* SPDX-License-Identifier: MIT */
/* Blocks of the place `vmm`: reserved addresses and the physical memory behind them. */
#ifndef ZC_VMM_VMM_H
#define ZC_VMM_VMM_H

#include "ledger/traffic.h"
#include "log/log.h"
#include "memory/place.h"
#include "vmm/va.h"

/* What only blocks that grow have.  All changes under driver/lock.h. */
struct zc_growth {
    struct zc_vmm *grows_next, *grows_before; /* List of all live blocks that grow. */
    struct zc_vmm *reuse_next, *reuse_before; /* List of the blocks with a `previous`. */
    struct zc_vmm *previous;  /* The block that this one grew from: its addresses, in which some of
                               * this one's chunks are still mapped. */
    struct zc_vmm *alias_of;  /* A block that may grow into this one.  This one has its `previous`
                               * addresses, with its chunks mapped in them, and no chunk of its own.
                               * The block itself: those chunks could not be unmapped. */
    struct zc_vmm *alias;     /* The block whose `alias_of` this is. */
    struct zc_vmm *copy_from; /* The source of a pending copy into this block. */
    struct zc_vmm *copy_to;   /* The target of a pending copy out of this block. */
    struct zc_transfer copy;  /* The pending copy: recorded when its outcome is known. */
    struct zc_log_call call;  /* What the log says of its call. */
};

/*
 * One block.  Made and unmade by the place; of a block that is attached lazily everything but
 * `granularity`, `chunk_size`, `device`, `rdma`, `bound`, `lazy` and the range's addresses changes
 * under driver/lock.h.
 */
struct zc_vmm {
    struct zc_va va;    /* Its addresses, and the context of the request. */
    size_t granularity; /* Bytes that sizes of chunks are multiples of. */
    size_t span;        /* Bytes of memory: of the request, rounded up, and the headroom. */
    size_t headroom;    /* Of them, beyond the request: see vmm/headroom.h. */
    size_t chunk_size;  /* Bytes of each chunk to make; 0: one chunk for all that is missing. */
    struct zc_chunk *chunks; /* From the arena, in the order of their addresses. */
    unsigned count, room;    /* Chunks, and how many `chunks` has room for. */
    size_t held;             /* Bytes of the chunks. */
    int8_t device;           /* Ordinal of the device that has the memory. */
    enum zc_rdma rdma : 8;   /* Of the rule: of the chunks. */
    bool open;               /* Something is not done yet: memory or a copy.  Atomic. */
    bool no_reclaim;         /* Does not have other modules give memory back for it. */
    bool rim;                /* A granule at each end is host memory that all such blocks share. */
    bool bound;              /* The owner bounds what such blocks have (budget, max_device). */
    bool lazy;  /* Memory is attached when it is first needed (commit = lazy, grow), unless
                 * the block was freed in the order of a stream. */
    bool grows; /* The rule's `grow`: copies into it may become remaps. */
    struct zc_growth *growth;     /* Of one that does not grow: all zero, and can't be written. */
    struct zc_vmm *next, *before; /* Of those that are open, or of those kept after their free. */
    uint64_t kept;                /* Of the latter: the more, the later. */
    struct zc_block *quarantined; /* Of a block kept after its free: what the ledger has of it. */
};

/*
 * Makes the block's bytes from `from` to `to` usable: creates all that is missing if some of it is
 * there, and maps and opens what is not mapped.  On failure the driver's code, and in *why the call
 * that refused; what was held before is still held, and reachable as far as the driver allows.
 */
CUresult zc_vmm_attach(struct zc_vmm *v, size_t from, size_t to, const char **why);

/* True if a request says which devices its block is for: that of a pool by the pool's rights. */
static inline bool zc_vmm_names_devices(const struct zc_want *want)
{
    return want->pool || !want->stream_ordered;
}

/* True if a block that was freed is for the devices that a request is for, on the bus too. */
static inline bool zc_vmm_suits(const struct zc_vmm *v, const struct zc_want *want)
{
    return zc_vmm_names_devices(want) && v->rdma == want->rule->rdma &&
           v->va.peers == want->rule->peers && v->va.pool == want->pool;
}

/* True if all of the block has memory that the device reaches. */
static inline bool zc_vmm_whole(const struct zc_vmm *v)
{
    return v->held == v->span && v->va.mapped == v->span;
}

/* Bytes of host memory at each end. */
static inline size_t zc_vmm_rim(const struct zc_vmm *v)
{
    return v->rim ? v->granularity : 0;
}

/* Bytes that the request rounded up takes. */
static inline size_t zc_vmm_own(const struct zc_vmm *v)
{
    return v->span - v->headroom - 2 * zc_vmm_rim(v);
}

/* Those of them that have no memory yet. */
static inline size_t zc_vmm_due(const struct zc_vmm *v)
{
    return v->held < zc_vmm_own(v) ? zc_vmm_own(v) - v->held : 0;
}

/* Unmaps a block's memory; where the driver refuses, all of it is mapped as before. */
CUresult zc_vmm_detach(struct zc_vmm *v);

/* Gives a block's memory and addresses back to the driver, and its record to the arena.  Returns
 * the first refusal. */
CUresult zc_vmm_give_back(struct zc_vmm *v);

/* Gives back the record alone. */
void zc_vmm_drop(struct zc_vmm *v);

/* The vmm block of a ledger block, NULL for others. */
struct zc_vmm *zc_vmm_of(const struct zc_block *block);

/* True for a block of vmm that is attached lazily. */
static inline bool zc_vmm_lazy(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v && v->lazy;
}

#endif
