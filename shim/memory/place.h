/* SPDX-License-Identifier: MIT */
/* Places of blocks' pages, a row each; place/fallback.c tries those of a rule, in order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/real.h"
#include "ledger/block.h"
#include "policy/policy.h"

/* A managed block whose pages may not be on its device waits for (managed/hint.h): */
enum zc_hint_state {
    ZC_HINT_NONE,   /* Nothing. */
    ZC_HINT_WAITS,  /* The first launch, or copies that fill half of it. */
    ZC_HINT_COPIES, /* More copies, whose pages are sent first. */
};
struct zc_hinted {
    uint64_t copied;                  /* Bytes that copies and sets wrote meanwhile. */
    struct zc_backing *next, *before; /* List of those with ZC_HINT_WAITS. */
};

/* The memory behind a converted block, at most 64 bytes.  A place makes it, and the block owns
 * it. */
struct zc_backing {
    CUdeviceptr
        base;    /* Address for CPU and GPU, aligned to at least 512 bytes as cuMemAlloc's is. */
    size_t size; /* Bytes of the request, as counted against the limits. */
    size_t room; /* Bytes from `base` on that the place has mapped; at least `size`. */
    CUcontext context; /* Context of the request. */
    union {
        struct {
            struct zc_vmm *vmm; /* vmm, shared: reservation and physical memory. */
            size_t spilled;     /* vmm: bytes at the end that are in host memory. */
        };
        struct zc_hinted hint; /* managed. */
    };
    uint16_t before;    /* Pages of ZC_BLOCK_PAGE below `base` that the place has mapped. */
    int8_t device;      /* Ordinal of the device of the request. */
    uint8_t place;      /* enum zc_place_id. */
    uint8_t flags;      /* For host memory: the program's CU_MEMHOSTALLOC_* flags. */
    bool own_pages : 1; /* mapped: libzc's own pages, registered. */
    bool synced : 1;    /* pinned: the driver was given SYNC_MEMOPS for it. */
    bool detached : 1;  /* The driver has taken its part back already. */
    uint8_t hint_state; /* enum zc_hint_state.  Atomic. */
};

/* Most bytes below a block that the ledger can record. */
#define ZC_BEFORE_MAX ((size_t)0xfff * ZC_BLOCK_PAGE)

/* Around a device block the driver mostly has other memory mapped, so kernels that read beyond a
 * row don't fail.  Other places map this many bytes on both sides for them. */
#define ZC_MARGIN_MAX ((size_t)64 << 10)
static inline size_t zc_margin(size_t size)
{
    size_t margin = size / 16 / ZC_BLOCK_PAGE * ZC_BLOCK_PAGE;
    return margin < ZC_MARGIN_MAX ? margin : ZC_MARGIN_MAX;
}
static inline size_t zc_before(const struct zc_backing *backing)
{
    return backing->before * ZC_BLOCK_PAGE;
}

/* Bytes of a request that its place has put into host memory, and counts there. */
static inline size_t zc_spilled(const struct zc_backing *backing)
{
    return backing->place == ZC_PLACE_VMM ? backing->spilled : 0;
}

/* A request to a place. */
struct zc_want {
    size_t size;                /* Bytes, at least 1. */
    int device;                 /* Ordinal of the current device. */
    CUcontext context;          /* Current context. */
    const struct zc_rule *rule; /* The rule that decided. */
    enum zc_api api;            /* The called API; cuMemHostAlloc asks for host memory. */
    unsigned flags;             /* Flags of cuMemHostAlloc, CU_MEMHOSTALLOC_*; else 0. */
    bool host_heap;             /* Host blocks may be placed, so there may be one to share. */
    bool lazy;                  /* The place attaches memory late, whatever the rule says. */
    CUdeviceptr at;             /* `lazy`: addresses that are reserved for it, or 0, */
    size_t at_bytes;            /* and their number. */
};

/* True for a request for pinned host memory. */
static inline bool zc_want_host(const struct zc_want *want)
{
    return want->api == ZC_API_cuMemHostAlloc;
}

struct zc_place {
    enum zc_place_id id;
    enum zc_kind real; /* Kind of its pages in CUPTI's terms. */
    bool waits;        /* Unmaking waits for the whole device (cuMemHostUnregister, cuMemFree). */
    bool counts;       /* The place counts its memory, with its pool, against the limits itself. */
    /* Fills *out, whose address stays the same; its `spilled` says how much is host memory.  On
     * failure returns the driver's code, with the reason in *why, and leaves nothing behind. */
    CUresult (*make)(const struct zc_want *want, struct zc_backing *out, const char **why);
    /* Gives back what the driver may refuse to take; then the block stays as it is.  NULL if there
     * is nothing like that. */
    CUresult (*detach)(struct zc_backing *backing);
    /* Gives back everything else, or NULL.  `gone`: the context was destroyed, and the driver's
     * part with it. */
    CUresult (*unmake)(struct zc_backing *backing, bool gone);
    /* The verbs of place/verbs.h that are the place's own; NULL: there is nothing to do. */
    void (*entered)(struct zc_block *block);
    CUresult (*retreat)(const struct zc_block *block, enum zc_fn fn, bool keeps, const char *why);
    CUresult (*drain)(enum zc_fn fn);
    void (*diagnose)(void);
};

extern const struct zc_place zc_place_mapped, zc_place_managed, zc_place_vmm, zc_place_pinned,
    zc_place_shared;
