/* Places: where a block's pages are.  One table row a place; the ladder walks a rule's list. */
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

/* The row of a place, NULL for one that this version of libzc does not build. */
const struct zc_place *zc_place_of(enum zc_place_id id);

/* Says once per rule which of its places and keys this version does not build, and so passes
 * over. */
void zc_place_check_policy(const struct zc_policy *policy);

/*
 * Tries the places of want->rule in order, as long as each is possible and within its limits.  On
 * success returns a backing (from the arena) and the index of the place taken in *rung_out. Returns
 * NULL when the ladder reached `device` or its end: then the request goes where the program put it,
 * and *rung_out is the index of `device`, or the length of the list.  `why` collects the reasons of
 * the places passed over, as text ("mapped: over max_pinned"), empty if the first one was taken.
 * Where index 0 is given back, also for `device`, the request counts against the rule's budget.
 */
struct zc_backing *zc_place_climb(const struct zc_want *want, unsigned first, unsigned *rung_out,
                                  char *why, size_t why_cap);

/* A request that finds no memory, zero at first. */
struct zc_relief {
    unsigned tries, seen; /* See place/ladder.c and memory/transit.h. */
};

/*
 * Gives back memory that the program has freed and nobody uses: for calls that the driver has no
 * memory for.  True if it did, so that trying again may help; then there may be more, which it has
 * to wait for.  Keeps no lock; does nothing while a capture is under way.
 */
bool zc_place_relieve(struct zc_relief *request);

/* The part of zc_place_release() that the driver may refuse; then nothing has changed.  Its context
 * is current, or the thread gets one. */
CUresult zc_place_detach(struct zc_backing *backing);

/* Unmakes a backing and returns its memory to the arena and the limits.  What the driver refuses to
 * take back stays as it is, for good. */
CUresult zc_place_release(struct zc_backing *backing, bool gone);

/* Bytes that requests for host memory hold in `managed`. */
uint64_t zc_place_managed_for_host(void);

extern const struct zc_place zc_place_mapped, zc_place_managed, zc_place_vmm, zc_place_pinned,
    zc_place_shared;

#endif
