/* SPDX-License-Identifier: MIT */
/* Addresses that are reserved for memory mapped by hand, and what is mapped in them. */
#ifndef ZC_VMM_VA_H
#define ZC_VMM_VA_H

#include "driver/real.h"
#include "policy/policy.h"

/* Physical memory behind a stretch of a block's addresses.  A handle can only be mapped whole
 * (CUDA Driver API, cuMemMap), so chunks follow each other without gaps. */
struct zc_chunk {
    CUmemGenericAllocationHandle handle;
    size_t size; /* Bytes, a multiple of the granularity. */
};

/* A stretch that is mapped, in bytes from the first address. */
struct zc_run {
    size_t from, to;
};

/* One reservation.  Whoever has the block that it belongs to may change it, and does so with the
 * turn of vmm/access.h: other threads may change who reaches what is mapped. */
struct zc_va {
    int device;              /* Ordinal of the device that has the memory. */
    enum zc_peers peers : 8; /* Which other devices may use it. */
    bool wide;               /* Much more than its block has, and counted as that. */
    bool busy;               /* Work that was given before its block was freed may use it yet. */
    CUcontext context;       /* Of the request; peer access is enabled for its memory. */
    CUmemoryPool pool;       /* Of a request in stream order: its rights count, not peer access. */
    uint64_t granted;        /* Devices that these let, a bit each. */
    CUdeviceptr base;        /* First address. */
    size_t size;             /* Bytes reserved. */
    struct zc_run *run;      /* From the arena: in order, and no two touch. */
    unsigned count, room;    /* Runs, and how many `run` has room for. */
    size_t mapped;           /* Bytes of the runs. */
    uint64_t devices;        /* Those that reach the runs, a bit each. */
    uint64_t copying;        /* Of them, those that copies needed. */
    struct zc_va *next, *before; /* All ranges. */
};

/*
 * Fills a range whose device, context and `peers` are set, and which is zero else: reserves
 * `span` bytes of addresses, or, with `wide`, room for all that the device has: as long
 * as there are not many such ranges, because addresses are bounded.  Returns the driver's code,
 * and in *why the call that refused; nothing is reserved then.
 */
CUresult zc_va_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                       const char **why);

/* Sizes of chunks and ranges are multiples of the granularity. */
static inline size_t zc_va_round_up(size_t bytes, size_t granularity)
{
    return (bytes + granularity - 1) / granularity * granularity;
}

/* Reserves the addresses of the first wide ranges, `size` bytes each, before any is asked for. */
void zc_va_prepare(size_t size, size_t granularity);

/* Gives those that no range has got back to the driver. */
void zc_va_trim(void);

/* True if the bytes from `from` to `to` are all mapped. */
bool zc_va_holds(const struct zc_va *va, size_t from, size_t to);

/*
 * Maps those of `count` chunks, laid out from the first address on, that the bytes from `from` to
 * `to` lie in and that are not mapped yet, and opens them to the range's devices, by one
 * cuMemSetAccess for chunks side by side.  On failure the driver's code, and in *why the call that
 * refused; a run of chunks side by side is then mapped whole or not at all.
 */
CUresult zc_va_map(struct zc_va *va, const struct zc_chunk *chunk, unsigned count, size_t from,
                   size_t to, const char **why);

/* Unmaps everything, behind the work that may use it.  Returns the first refusal; what the driver
 * refuses stays noted as mapped. */
CUresult zc_va_unmap(struct zc_va *va);

/* With the turn: waits for the work that may use a range yet. */
CUresult zc_va_wait(struct zc_va *va);

/* The work that was given before the free of a range's block has ended. */
void zc_va_quiesced(struct zc_va *va);

/* Moves a range to another place in memory. */
void zc_va_move(struct zc_va *to, struct zc_va *from);

/* Unmaps everything and gives the addresses back.  Returns the first refusal. */
CUresult zc_va_free(struct zc_va *va);

#endif
