/* SPDX-License-Identifier: MIT */
/* Places: where a block's pages are.  One table row a place; place/fallback.c walks a rule's list.
 */
#ifndef ZC_MEMORY_PLACE_H
#define ZC_MEMORY_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/real.h"
#include "ledger/block.h"
#include "policy/policy.h"

/* A managed block while its pages are not known to be on its device: see managed/hint.h. */
struct zc_hinted {
    uint64_t copied; /* Bytes that copies and sets wrote into it while it was away. */
    struct zc_backing *next, *before; /* Of those that a launch may want. */
};
struct zc_hinting {
    uint8_t prefetch : 4; /* ZC_PREFETCH_*: what the rule says, or what was chosen. */
    uint8_t chosen : 1;   /* `prefetch` is settled; 0: to be chosen by the block's use. */
    uint8_t waits : 1;    /* A launch may want it: it is in the list of these. */
    uint8_t pages;        /* enum zc_hint_pages.  Atomic. */
};
enum zc_hint_pages {
    ZC_HINT_NONE, /* The block has no hints. */
    ZC_HINT_AWAY, /* Its pages may be elsewhere. */
    ZC_HINT_HOME  /* They are on its device, or come there by their first use. */
};

/* The memory behind a converted block, at most 64 bytes.  Made by a place, owned by the block until
 * it is unmade. */
struct zc_backing {
    CUdeviceptr base;  /* Address for CPU and GPU, at least 512-byte aligned as cuMemAlloc's is. */
    size_t size;       /* Bytes of the request, as counted against the limits. */
    size_t room;       /* Bytes from `base` on that are of the place's making; at least `size`. */
    CUcontext context; /* Context of the request, or what zc_place_home() says. */
    union {
        struct zc_vmm *vmm;                  /* vmm: reservation and physical memory. */
        void *shared;                        /* shared: its struct zc_shared. */
        struct zc_hinted hint;               /* managed, for the device. */
        CUmemGenericAllocationHandle handle; /* mapped, of cuMemCreate: the program's; else 0. */
    };
    uint16_t before; /* Pages of ZC_BLOCK_PAGE below `base` that are of the place's making. */
    int8_t device;   /* Ordinal of the device of the request. */
    uint8_t place;   /* enum zc_place_id. */
    uint8_t flags; /* Of a request for host memory: CU_MEMHOSTALLOC_*, as the program gave them. */
    bool for_host : 1;         /* The request was for host memory. */
    bool own_pages : 1;        /* mapped: libzc's own pages, registered. */
    bool pooled : 1;           /* managed: the driver's pool of managed memory has it. */
    bool detached : 1;         /* The driver has taken its part back. */
    struct zc_hinting hinting; /* managed: the state of `hint`. */
};

/* Most bytes below a block that the ledger can tell of. */
#define ZC_BEFORE_MAX ((size_t)0xfff * ZC_BLOCK_PAGE)

/* Before and behind a device's block the driver mostly has other memory mapped, and kernels that
 * read a row too far don't fail.  Elsewhere they read so many bytes on both sides. */
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

/* What a place is asked for. */
struct zc_want {
    size_t size;                /* Bytes, at least 1. */
    int device;                 /* Ordinal of the current device. */
    CUcontext context;          /* Current context. */
    const struct zc_rule *rule; /* The rule that decided. */
    enum zc_api api;            /* The request; cuMemHostAlloc asks for host memory. */
    bool stream_ordered;        /* Allocated, and freed, in the order of a stream. */
    CUmemoryPool pool;          /* Of such a request: the pool that it is for. */
    CUstream stream;            /* Of a stream-ordered request: the stream, */
    enum zc_flavour flavour;    /* and what NULL means there. */
    unsigned flags;             /* Of cuMemHostAlloc: CU_MEMHOSTALLOC_*; else 0. */
    bool host_heap;             /* Host blocks may be placed, so there may be one to pair with. */
    const CUmemAllocationProp *prop; /* Of cuMemCreate: what the program asked for; else NULL. */
};

/* True for a request for pinned host memory. */
static inline bool zc_want_host(const struct zc_want *want)
{
    return want->api == ZC_API_cuMemHostAlloc;
}

struct zc_place {
    enum zc_place_id id;
    enum zc_kind real; /* What its pages are to CUPTI. */
    bool waits;        /* Unmaking waits for the whole device (cuMemHostUnregister, cuMemFree). */
    bool counts;       /* The place counts its memory against the limits itself, with its pool. */
    /* Fills *out, which stays where it is.  On failure returns the driver's code and says in *why
     * what was not possible; nothing is left behind. */
    CUresult (*make)(const struct zc_want *want, struct zc_backing *out, const char **why);
    /* Gives back to the driver what it may refuse to take: the block then stays what it is.  NULL
     * where nothing is. */
    CUresult (*detach)(struct zc_backing *backing);
    /* Says that a freed block stays, because the driver refused; NULL for what is said of any. */
    void (*stays)(const struct zc_backing *backing);
    /* Gives back everything else.  `gone`: the context was destroyed and took the driver's part
     * along. */
    CUresult (*unmake)(struct zc_backing *backing, bool gone);
};

/*
 * The context that a place makes memory in: pinned and managed memory goes with its context, memory
 * of a pool does not, and so that which stands for it is the primary context's, if that is active.
 * zc_place_enter() makes it current where it is not; true if the caller is to pop it.
 */
CUcontext zc_place_home(const struct zc_want *want, enum zc_place_id place);
bool zc_place_enter(const struct zc_want *want, struct zc_backing *out);

extern const struct zc_place zc_place_mapped, zc_place_managed, zc_place_vmm, zc_place_pinned,
    zc_place_shared;

#endif
