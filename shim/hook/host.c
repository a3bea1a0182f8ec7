/* SPDX-License-Identifier: MIT */
/* Pinned host memory: requests for it, the program's own registrations, and queries about both. */
#include "base/life.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "hook/request.h"
#include "place/freed.h"
#include "place/hostmem.h"
#include "place/verbs.h"

/* Of registrations, those that need memory that can be written. */
#define FLAGS_WRITTEN (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

#define FLAGS_KNOWN                                                                                \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

ZC_ORIGINAL(call_alloc_host, cuMemAllocHost_v2, (void **)f->dptr, f->bytes)
ZC_ORIGINAL(call_host_alloc, cuMemHostAlloc, (void **)f->dptr, f->bytes, f->flags)

/* A pointer to host memory is stored as the address that it is. */
ZC_BODY(cuMemAllocHost_v2, (void **pp, size_t bytes))
{
    struct zc_request request = ZC_REQUEST(cuMemHostAlloc, bytes, PINNED);
    return pp && bytes
               ? ZC_ALLOCATE(request, call_alloc_host, .dptr = (CUdeviceptr *)pp, .bytes = bytes)
               : real(pp, bytes);
}

ZC_BODY(cuMemHostAlloc, (void **pp, size_t bytes, unsigned int flags))
{
    struct zc_request request = ZC_REQUEST(cuMemHostAlloc, bytes, PINNED);
    bool valid = pp && bytes && !(flags & ~(unsigned)FLAGS_KNOWN);
    return valid ? ZC_ALLOCATE(request, call_host_alloc, .dptr = (CUdeviceptr *)pp, .bytes = bytes,
                               .flags = flags)
                 : real(pp, bytes, flags);
}

/* The driver registers the program's own pages, unless libzc has.  With a rule they come in before,
 * if the driver will take them: there are such flags, no work has failed, and nothing there is
 * registered. */
static CUresult register_own(const struct zc_entry *entry, __typeof__(cuMemHostRegister) *real,
                             void *p, size_t bytes, unsigned flags)
{
    unsigned read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY ? ZC_BLOCK_READ_ONLY : 0;
    struct zc_request request =
        ZC_REQUEST(cuMemHostRegister, bytes, PINNED, .flags = ZC_BLOCK_FOREIGN | read_only);
    if (!p || !bytes || !zc_request_begin(&request))
        return real(p, bytes, flags);
    const struct zc_rule *rule = zc_request_rule(&request);
    bool first = !rule || rule->place.item[0] == zc_place_bare(request.asked);
    const char *why = first ? NULL : "the pages are the program's own";
    bool fresh = !zc_block_find((CUdeviceptr)p) && !zc_block_find((CUdeviceptr)p + bytes - 1);
    bool adopted = fresh && zc_place_adopted(p, &(unsigned){0});
    bool taken = fresh && rule && !(flags & ~(unsigned)FLAGS_WRITTEN) && !zc_capture_any();
    bool sound = (adopted || taken) && zc_stream_state() == CUDA_SUCCESS;
    if (sound && adopted) {
        request.flags |= ZC_BLOCK_ADOPTED | ZC_BLOCK_CAME_PINNED;
        if (zc_request_track(&request, (CUdeviceptr)p, NULL, rule, why))
            return CUDA_SUCCESS;
        zc_place_unregister(p); /* Nobody would end it. */
        request.flags &= ~(ZC_BLOCK_ADOPTED | ZC_BLOCK_CAME_PINNED);
    } else if (sound) {
        zc_place_bring_in(rule, p, bytes);
    }
    CUresult result = real(p, bytes, flags);
    if (result == CUDA_SUCCESS)
        zc_request_track(&request, (CUdeviceptr)p, NULL, rule, why);
    return result;
}

/* The live block of libzc's that contains an address, if the program takes it for host memory. */
static struct zc_block *hosted(const void *p)
{
    struct zc_block *block = zc_life_on() ? zc_hosted_at((CUdeviceptr)p) : NULL;
    const unsigned not_here = ZC_BLOCK_QUARANTINED | ZC_BLOCK_ADOPTED;
    return block && !(__atomic_load_n(&block->flags, __ATOMIC_RELAXED) & not_here) ? block : NULL;
}

/* The block of what the program registered, and libzc had before.  The driver answers for it, and
 * refuses to register any of it again. */
static const struct zc_block *adopted_block(const void *p)
{
    const struct zc_block *block = zc_life_on() ? zc_hosted_at((CUdeviceptr)p) : NULL;
    return block && block->flags & ZC_BLOCK_ADOPTED ? block : NULL;
}

/* Memory that the program requested as device memory is not host memory to it, and freed memory is
 * unknown to it. */
static bool is_converted(const void *p)
{
    return zc_placed_near((CUdeviceptr)p) && !hosted(p) && !adopted_block(p);
}

/* The program can't register or unregister the driver's own memory: the driver returns
 * CUDA_ERROR_INVALID_VALUE for both (measured), and so does libzc. */
static bool is_drivers(const void *p)
{
    return is_converted(p) || hosted(p);
}

/* Calls that free device memory and host memory differ, but both wait for the device, so both give
 * back what is deferred. */
ZC_BODY(cuMemFreeHost, (void *p))
{
    struct zc_block *block = hosted(p);
    if (block)
        return zc_free_block(entry->fn, block, (CUdeviceptr)p);
    if (is_converted(p))
        return zc_stream_refusal();
    struct zc_untracked untracked;
    zc_untrack((CUdeviceptr)p, &untracked);
    CUresult result = real(p);
    if (!zc_retrack(&untracked, result) && untracked.taken)
        zc_freed_reap(true);
    return result;
}

/* Once the program registers memory of the host heap itself, libzc ends its own registration, so
 * that the driver answers for it. */
ZC_BODY(cuMemHostRegister, (void *p, size_t bytes, unsigned int flags))
{
    CUresult state =
        is_drivers(p) ? zc_stream_state() : zc_hostmem_yield(p, bytes, flags, entry->fn);
    if (state != CUDA_SUCCESS)
        return state;
    if (is_drivers(p))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = register_own(entry, real, p, bytes, flags);
    if (result != CUDA_SUCCESS)
        zc_hostmem_return(p, bytes);
    return result;
}

ZC_BODY(cuMemHostUnregister, (void *p))
{
    if (is_drivers(p))
        return CUDA_ERROR_INVALID_VALUE;
    const struct zc_block *adopted = adopted_block(p);
    if (adopted ? adopted->base != (CUdeviceptr)p : zc_hidden((CUdeviceptr)p))
        return real((void *)zc_pinned_pageable);
    struct zc_untracked untracked;
    zc_untrack((CUdeviceptr)p, &untracked);
    CUresult result = adopted && untracked.taken ? zc_place_unregister(p) : real(p);
    if (zc_retrack(&untracked, result))
        return result;
    zc_hostmem_return(p, untracked.taken ? untracked.copy.size : 1);
    if (untracked.taken)
        zc_freed_reap(true);
    return result;
}

ZC_BODY(cuMemHostGetDevicePointer_v2, (CUdeviceptr * dptr, void *p, unsigned int flags))
{
    if (is_converted(p))
        return zc_stream_refusal();
    if (!hosted(p))
        return real(dptr, (void *)zc_disguise((CUdeviceptr)p), flags);
    CUresult state = zc_stream_state();
    if (state != CUDA_SUCCESS)
        return state;
    if (!dptr || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

/* With unified addressing all pinned memory is mapped, and reports that (measured). */
ZC_BODY(cuMemHostGetFlags, (unsigned int *flags, void *p))
{
    const struct zc_block *block = hosted(p);
    if (is_converted(p))
        return zc_stream_refusal();
    if (!block) {
        CUresult result = real(flags, (void *)zc_disguise((CUdeviceptr)p));
        if (result == CUDA_SUCCESS)
            zc_place_adopted(p, flags);
        return result;
    }
    CUresult state = zc_stream_state();
    if (state != CUDA_SUCCESS)
        return state;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ((const struct zc_backing *)block->backing)->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}
