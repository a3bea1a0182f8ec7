/* SPDX-License-Identifier: MIT */
/* Blocks of the place `vmm`: reserved addresses and the physical memory behind them. */
#pragma once

#include "ledger/traffic.h"
#include "log/lines.h"
#include "memory/place.h"
#include "vmm/va.h"

/*
 * One block.  In a lazy block everything changes only with the driver lock, except `granularity`,
 * `rule`, `rdma`, `lazy` and the addresses of the range.
 */
struct zc_vmm {
    struct zc_va va;            /* Its addresses, and the context of the request. */
    size_t span;                /* Bytes of memory: the request, rounded up, and the guards. */
    const struct zc_rule *rule; /* The rule that decided. */
    struct zc_chunks chunks;    /* Its memory. */
    size_t held;                /* Sum of the chunks in bytes; with headroom more than `span`. */
    uint32_t granularity;       /* Sizes of chunks are multiples of it. */
    bool open;                  /* Something is pending: memory or a copy.  Atomic. */
    enum zc_rdma rdma : 4;      /* The rule's `rdma`, for the chunks. */
    bool guard : 1;  /* Each end has a granule of host memory, which all such blocks share. */
    bool lazy : 1;   /* Memory is attached when first needed (commit = lazy, grow). */
    bool grows : 1;  /* The rule says `grow`: copies into it may become remaps. */
    bool moves : 1;  /* It may leave the device for host memory, and come back (vmm/move.h). */
    bool filled : 1; /* The program has copied host memory into it. */
    struct zc_shared *pair;       /* Of `shared`: the place's record; constant. */
    struct zc_growth *as_new;     /* The step of an array into this block (vmm/growth.h), */
    struct zc_growth *as_old;     /* and out of it.  With the driver lock. */
    struct zc_block *kept;        /* The freed block whose addresses it keeps; quarantined. */
    struct zc_vmm *next, *before; /* List of blocks with something pending. */
};

/* The memory behind a block that moves. */
struct zc_backed {
    struct zc_chunks chunks;
    struct zc_va_host host;
    struct zc_va *alias; /* Other addresses of it; or NULL. */
    bool guard;          /* The chunks at both ends are guards. */
    unsigned kept;       /* The first ones behind that of the front are another's. */
};

/* A block that may move has more. */
struct zc_movable {
    struct zc_vmm vmm;   /* Its first member. */
    struct zc_va *alias; /* Other addresses of its memory; or NULL. */
    bool stays;          /* A graph copies it: it moves no more.  Atomic. */
    uint64_t far;        /* The last copy of it by a stream of another device.  Atomic. */
    size_t keeps;        /* Most bytes in front that stay on the device where it leaves. */
    /* spill = fetch: its host memory while it is on the device, which counts so many bytes; and the
     * mark of the last launch that named it (driver/marks.h).  With the driver lock. */
    struct zc_backed host_copy;
    size_t host_copy_bytes;
    uint64_t mark;
    CUevent came; /* Behind the copy into its device memory, until that was waited for; or NULL. */
    /* Uses by launches (place/migrate.c), with the driver lock: the last one, 0 for none; and the
     * first behind `from` in the order that is known. */
    uint64_t last, from, due;
    uint64_t owed;  /* Microseconds that kernels lost since it is in host memory.  Atomic. */
    uint64_t again; /* The first use that may try to move it, since one could not. */
};

/* Of a block with `moves`. */
static inline struct zc_movable *zc_movable(const struct zc_vmm *v)
{
    return (struct zc_movable *)v;
}

extern struct zc_vmm_counts {
    uint32_t movable;   /* Blocks that move.  Atomic, as all are. */
    uint32_t spilled;   /* Those of them in host memory, */
    uint32_t fetched;   /* and of rules with `spill = fetch`; */
    uint32_t away;      /* those of the latter that launches must map. */
    uint64_t far;       /* Copies of them that streams of other devices have made. */
    uint64_t below, to; /* All movable ones lie from UINT64_MAX - `below` on, up to `to`. */
} zc_vmm_counts;

/* False for most words of launches. */
static inline bool zc_vmm_may_move(uint64_t address)
{
    return address < __atomic_load_n(&zc_vmm_counts.to, __ATOMIC_RELAXED) &&
           UINT64_MAX - address <= __atomic_load_n(&zc_vmm_counts.below, __ATOMIC_RELAXED);
}
void zc_vmm_count_movable(const struct zc_vmm *v, int change);

/* Bytes of the record of a rule's blocks. */
static inline size_t zc_vmm_record(const struct zc_rule *rule)
{
    return rule->spill >= ZC_SPILL_MOVE ? sizeof(struct zc_movable) : sizeof(struct zc_vmm);
}

/* A block that moves by `spill = fetch`; and one that the program has copied host memory into,
 * which is read-only on the device once it has come there, and in host memory is mapped nowhere,
 * but for calls that are no launches. */
static inline bool zc_vmm_may_fetch(const struct zc_vmm *v)
{
    return v->moves && v->rule->spill == ZC_SPILL_FETCH;
}
static inline bool zc_vmm_is_fetched(const struct zc_vmm *v)
{
    return zc_vmm_may_fetch(v) && v->filled;
}

/* Waits for the copy into its device memory, which is not mapped before. */
CUresult zc_vmm_arrive(struct zc_vmm *v);

/* Counts its host memory besides the device's; and gives that memory back. */
void zc_vmm_count_host_copy(struct zc_vmm *v, size_t bytes);
void zc_vmm_drop_host_copy(struct zc_vmm *v);

/* Gives memory back that is no longer behind a block, and its other addresses. */
void zc_vmm_drop_backed(struct zc_backed *b);

/* The driver's answers about a device's memory, which never change. */
struct zc_vmm_facts {
    bool known;               /* The other fields are set.  Atomic. */
    size_t total;             /* Bytes of the device. */
    size_t granularity;       /* Sizes are multiples of it. */
    CUmemAllocationProp prop; /* Properties of the handles. */
};

/* NULL if the device can't map memory by hand. */
const struct zc_vmm_facts *zc_vmm_facts(int device);

/* Gives a block guard granules, if there is host memory for them.  True if it has them. */
bool zc_vmm_take_guard(struct zc_vmm *v);

/*
 * Makes the bytes [from, to) of a block usable: if some of them have no memory, as zc_vmm_create();
 * then maps and opens what is not mapped.  On failure returns the driver's code, with the refused
 * call in *why; memory that the block had stays, and is reachable as far as the driver allows.
 */
CUresult zc_vmm_attach(struct zc_vmm *v, size_t from, size_t to, size_t ahead, const char **why);

/* Bytes of it that are host memory: all, none, or its end. */
static inline size_t zc_vmm_spilled(const struct zc_vmm *v)
{
    return (v->va.host.to - v->va.host.from) * ZC_VA_UNIT;
}

/* True if the whole block has memory that its device reaches. */
static inline bool zc_vmm_whole(const struct zc_vmm *v)
{
    return v->held >= v->span && zc_va_holds(&v->va, 0, v->span);
}

/* Creates the memory that a block lacks, and `ahead` bytes more, for which other modules do not
 * give memory back.  Returns the driver's code; after a failure it has what it had before. */
CUresult zc_vmm_create(struct zc_vmm *v, size_t ahead);

/* Gives back the chunks from `count` on, of which nothing is mapped.  Returns the first refusal. */
CUresult zc_vmm_drop_chunks(struct zc_vmm *v, unsigned count);

/* Creates a handle for a block, of host memory or with the properties of its device memory.  With
 * `reclaims` other modules give memory back for it.  Returns the driver's code. */
CUresult zc_vmm_handle(const struct zc_vmm *v, bool host, bool reclaims, size_t size,
                       CUmemGenericAllocationHandle *handle);

/* Bytes of host memory at each end. */
static inline size_t zc_vmm_guard(const struct zc_vmm *v)
{
    return v->guard ? v->granularity : 0;
}

/* Bytes of the rounded request, without the guard granules. */
static inline size_t zc_vmm_own(const struct zc_vmm *v)
{
    return v->span - 2 * zc_vmm_guard(v);
}

/* Bytes of the device that a lazy block still has to get. */
static inline size_t zc_vmm_due(const struct zc_vmm *v)
{
    size_t most = zc_vmm_own(v) - zc_vmm_spilled(v);
    return v->held < most ? most - v->held : 0;
}

/* Gives memory and addresses back to the driver, and the record to the arena.  Returns the first
 * refusal. */
CUresult zc_vmm_give_back(struct zc_vmm *v);

/* Gives back the record alone. */
void zc_vmm_drop(struct zc_vmm *v);

/* The vmm record of a ledger block; NULL for other places. */
struct zc_vmm *zc_vmm_of(const struct zc_block *block);
