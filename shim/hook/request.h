/* SPDX-License-Identifier: MIT */
/* A request: its caller, its rule, its memory, its entry in the ledger, and its end. */
#pragma once

#include "driver/call.h"
#include "place/placed.h"
#include "memory/place.h"
#include "policy/policy.h"

struct zc_request {
    const struct zc_entry *entry;
    enum zc_api api;
    size_t size;                /* Bytes asked for. */
    enum zc_kind asked;         /* Kind that the program asks for. */
    uint32_t flags;             /* ZC_BLOCK_* of the request. */
    enum zc_stream_kind stream; /* For the log; NONE for calls without a stream. */
    uint32_t site;              /* Filled by zc_request_begin(). */
    CUcontext context;          /* Current context, NULL if none; filled by zc_request_begin(). */
    int device;                 /* Its device, -1 if none; filled by zc_request_begin(). */
};

/* A request of a kind of memory. */
#define ZC_REQUEST(which, bytes, kind, ...)                                                        \
    {                                                                                              \
        .entry = entry, .api = ZC_API_##which, .size = (bytes), .asked = ZC_KIND_##kind,           \
        __VA_ARGS__                                                                                \
    }

/* Fills site, context and device.  False if libzc is off: then the call is only forwarded. */
bool zc_request_begin(struct zc_request *request);

/* The rule that matches the request, or NULL. */
const struct zc_rule *zc_request_rule(const struct zc_request *request);

/*
 * Enters a block into the ledger and the log.  `backing`: NULL for a block that was not converted.
 * `why`: the places of the rule that were passed over and why; NULL or "" for none.  Returns false
 * if there is no memory for it; a block that was not converted is then simply not tracked.
 */
bool zc_request_track(const struct zc_request *request, CUdeviceptr address,
                      struct zc_backing *backing, const struct zc_rule *rule, const char *why);

/* Enters memory that was not allocated by this process's calls: imported, mapped, a module's
 * global.  With 0 bytes the driver is asked for the range. */
void zc_track_foreign(const struct zc_entry *entry, enum zc_api api, CUdeviceptr address,
                      size_t bytes, enum zc_kind kind);

/* The same for memory that a call has looked up.  A caller may ask for the size alone, or for
 * the address alone. */
void zc_track_found(const struct zc_entry *entry, const CUdeviceptr *ptr, const size_t *bytes,
                    enum zc_kind kind);

/* Takes foreign memory out of the ledger. */
void zc_untrack_foreign(CUdeviceptr address);

/* A claimed block is freed: the log, its site and its budget have to know. */
void zc_note_free(struct zc_block *block);

/*
 * Takes a block that the driver frees out of the ledger around that call: before it, so that the
 * address can be reused at once; and back if the driver refused, which zc_retrack() returns.
 */
struct zc_untracked {
    struct zc_block copy; /* The block as it was. */
    bool taken;           /* It was in the ledger. */
};
void zc_untrack(CUdeviceptr address, struct zc_untracked *out);
void zc_untrack_block(struct zc_block *block, struct zc_untracked *out); /* NULL: does nothing. */
bool zc_retrack(const struct zc_untracked *block, CUresult result);

/* The program's own call, made if no place takes the request. */
struct zc_original {
    CUresult (*call)(const struct zc_original *f); /* Makes the call. */
    void *real;                                    /* The driver's function. */
    CUdeviceptr *dptr; /* Receives the address; may be NULL if the program said so. */
    size_t bytes;      /* Requested size. */
    CUstream stream;   /* cuMemAllocAsync and related calls. */
    CUmemoryPool pool; /* cuMemAllocFromPoolAsync */
    size_t *pitch;     /* cuMemAllocPitch, with its three sizes. */
    size_t width, height;
    unsigned element;
    unsigned flags; /* cuMemHostAlloc */
};

/* Defines such a `call`, of the driver's function `base` with these arguments. */
#define ZC_ORIGINAL(call, base, ...)                                                               \
    static CUresult call(const struct zc_original *f)                                              \
    {                                                                                              \
        return ((__typeof__(base) *)f->real)(__VA_ARGS__);                                         \
    }

/*
 * Finds the rule of a request, tries its list, and enters the block into the ledger.  Returns the
 * driver's code; on success the address is in *f->dptr.
 */
CUresult zc_allocate(struct zc_request *request, const struct zc_original *f);

/* The same of a wrapper; `...` are fields of its struct zc_original. */
#define ZC_ALLOCATE(request, make, ...)                                                            \
    zc_allocate(&(request),                                                                        \
                &(const struct zc_original){.call = (make), .real = (void *)real, __VA_ARGS__})

/* The program made a pool, or got one of the driver's.  After one whose memory is not a device's
 * the driver is asked what kind of memory a request from a pool has got. */
void zc_pool_note(const CUmemLocation *location, CUmemAllocationType type);

/* A call frees a block that libzc made, once: a second caller gets CUDA_ERROR_INVALID_VALUE.  A
 * block from cuMemAlloc or cuMemHostAlloc is freed when all work of its context is done.  During a
 * capture waiting would end the capture (measured), so pinned memory is kept until a free that may
 * wait.  If a free fails although it is valid, the block stays, and a message names its rule.  A
 * thread without a context may free (measured), also while the process exits. */
CUresult zc_free_block(enum zc_fn fn, struct zc_block *block, CUdeviceptr address);
