/* SPDX-License-Identifier: MIT */
/* Reserved ranges of virtual addresses, and what is mapped in them. */
#pragma once

#include "driver/real.h"
#include "policy/policy.h"

/* Physical memory behind a part of a block's addresses.  A handle can only be mapped whole (CUDA
 * Driver API, cuMemMap), so chunks follow each other without gaps. */
struct zc_chunk {
    CUmemGenericAllocationHandle handle;
    size_t size; /* Bytes, a multiple of the granularity. */
};

struct zc_chunks {
    struct zc_chunk *list; /* From the arena, in the order of their addresses. */
    unsigned count, room;  /* Number of chunks, and capacity of `list`. */
};

/* All granularities are multiples of it. */
#define ZC_VA_UNIT ((size_t)64 << 10)

/* A mapped part of the range, as offsets in bytes. */
struct zc_run {
    size_t from, to;
};

/* The part of a range that is host memory. */
struct zc_va_host {
    uint32_t from, to; /* Offsets in ZC_VA_UNITs. */
    bool closed;       /* The CPU does not reach it yet. */
};

/* One reservation.  The owner of its block changes it, with the lock, because other threads may
 * change who reaches it. */
struct zc_va {
    int device;             /* Ordinal of the device that has the memory. */
    bool wide : 1;          /* Much larger than its block. */
    bool reads : 1;         /* Devices may only read what is mapped. */
    CUcontext context;      /* Context of the request; peer access is enabled for its memory. */
    CUdeviceptr base;       /* First address. */
    size_t size;            /* Bytes reserved. */
    struct zc_run *run;     /* Mapped runs, from the arena: sorted, and no two touch. */
    unsigned count, room;   /* Number of runs, and capacity of `run`. */
    struct zc_va_host host; /* Its host memory. */
    uint64_t devices;       /* Devices that reach the runs, one bit each. */
    struct zc_va *next, *before; /* List of all ranges. */
};

/* All ranges.  They, and who reaches them, change only with the lock. */
extern struct zc_va *zc_va_list;
bool zc_va_lock(void);
void zc_va_unlock(void);

/* Holds the lock until the end of the block, where the thread does not hold it already. */
#define ZC_VA_LOCKED bool locked_ __attribute__((cleanup(zc_va_leave), unused)) = zc_va_lock()
static inline void zc_va_leave(const bool *locked)
{
    if (*locked)
        zc_va_unlock();
}

static inline uint64_t zc_va_bit(int device)
{
    return device >= 0 && device < ZC_DEVICES ? UINT64_C(1) << device : 0;
}

/* Reserves addresses, for zc_access_reserve().  Returns the driver's code. */
CUresult zc_va_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide);

/* The functions below are for ranges in the list. */

/* Opens what is mapped in a range to some devices.  With the lock.  Returns the driver's code;
 * after a failure it may be open to them in part. */
CUresult zc_va_open(const struct zc_va *va, uint64_t devices);

/* Opens host memory that is closed to the CPU.  Returns the driver's code. */
CUresult zc_va_open_host(struct zc_va *va);

/* Rounds up to the granularity, which all chunks and ranges are multiples of. */
static inline size_t zc_va_round_up(size_t bytes, size_t granularity)
{
    return (bytes + granularity - 1) / granularity * granularity;
}

/* True if all bytes [from, to) are mapped. */
bool zc_va_holds(const struct zc_va *va, size_t from, size_t to);

/*
 * Maps those of the chunks, laid out from the start of the range, that overlap [from, to) and are
 * not mapped yet, and opens them to the range's devices.  On failure returns the driver's code,
 * with the refused call in *why; neighbours are then mapped all, or none of them.
 */
CUresult zc_va_map(struct zc_va *va, const struct zc_chunks *chunks, size_t from, size_t to,
                   const char **why);

/* Unmaps everything, or what is mapped of the bytes [from, to), whole chunks.  Return the first
 * refusal; what the driver refuses to unmap stays recorded as mapped. */
CUresult zc_va_unmap(struct zc_va *va);
CUresult zc_va_unmap_part(struct zc_va *va, size_t from, size_t to);

/* Moves the record of a range to another address in memory. */
void zc_va_move(struct zc_va *to, struct zc_va *from);

/* Unmaps everything and gives the addresses back; the second also the record, from the arena, and
 * does nothing for NULL.  Return the first refusal. */
CUresult zc_va_free(struct zc_va *va);
CUresult zc_va_drop(struct zc_va *va);
