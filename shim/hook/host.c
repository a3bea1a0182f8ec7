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

/* The live block of pinned memory at an address: with ZC_BLOCK_CONVERTED libzc made it, with
 * ZC_BLOCK_ADOPTED the program registered what libzc had, and the driver answers for it. */
static struct zc_block *pinned_at(const void *p, unsigned kind)
{
    struct zc_block *block = zc_life_on() ? zc_hosted_at((CUdeviceptr)p) : NULL;
    unsigned flags = block ? __atomic_load_n(&block->flags, __ATOMIC_RELAXED) : 0;
    return (flags & (kind | ZC_BLOCK_QUARANTINED)) == kind ? block : NULL;
}

/* The program can't register or unregister the driver's own memory: the driver returns
 * CUDA_ERROR_INVALID_VALUE for both (measured), and so does libzc. */
static bool is_drivers(const void *p)
{
    return zc_placed_near((CUdeviceptr)p) && !pinned_at(p, ZC_BLOCK_ADOPTED);
}

/* Memory that the program requested as device memory is not host memory to it, and freed memory is
 * unknown to it. */
static bool is_converted(const void *p)
{
    return is_drivers(p) && !pinned_at(p, ZC_BLOCK_CONVERTED);
}

/* Calls that free device memory and host memory differ, but both wait for the device, so both give
 * back what is deferred. */
ZC_BODY(cuMemFreeHost, (void *p))
{
    struct zc_block *block = pinned_at(p, ZC_BLOCK_CONVERTED);
    if (block)
        return zc_free_block(entry->fn, block, (CUdeviceptr)p);
    if (is_converted(p))
        return real(NULL) ?: CUDA_ERROR_INVALID_VALUE; /* A capture comes first, too. */
    struct zc_untracked untracked;
    zc_untrack((CUdeviceptr)p, &untracked);
    CUresult result = real(p);
    if (!zc_retrack(&untracked, result) && untracked.taken)
        zc_freed_reap(true);
    return result;
}

/* Once the program registers memory of the host heap itself, libzc's registration ends, so that the
 * driver answers for it, or serves.  Then it serves another one too that shares a page with it. */
ZC_BODY(cuMemHostRegister, (void *p, size_t bytes, unsigned int flags))
{
    if (is_drivers(p)) /* A capture comes first. */
        return real(NULL, bytes, flags) ?: CUDA_ERROR_INVALID_VALUE;
    if (bytes >= ZC_BLOCK_PAGE && zc_place_adopted(p, &(unsigned){0}))
        return real(p, bytes, flags); /* Some of it is the program's already: refused. */
    CUresult state = zc_hostmem_yield(p, bytes, flags, entry->fn);
    CUresult result = state ?: register_own(entry, real, p, bytes, flags);
    if (state == CUDA_SUCCESS && result != CUDA_SUCCESS)
        zc_hostmem_return(p, bytes);
    return result;
}

/* About what it can't end the driver answers as about memory that it knows, or, beside a block and
 * where one was freed, does not; but a failed kernel and a capture come first. */
ZC_BODY(cuMemHostUnregister, (void *p))
{
    const struct zc_block *adopted = pinned_at(p, ZC_BLOCK_ADOPTED);
    bool begins = adopted && adopted->base == (CUdeviceptr)p, near = zc_placed_near((CUdeviceptr)p);
    if (!begins && (near || zc_hidden((CUdeviceptr)p))) {
        const struct zc_block *block = near ? zc_placed_at((CUdeviceptr)p) : NULL;
        bool known = block && !(block->flags & ZC_BLOCK_QUARANTINED);
        CUresult result = real((void *)zc_pinned_pageable);
        return known && result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ? CUDA_ERROR_INVALID_VALUE
                                                                        : result;
    }
    struct zc_untracked untracked;
    zc_untrack((CUdeviceptr)p, &untracked);
    CUresult result = begins && untracked.taken ? zc_place_unregister(p) : real(p);
    if (zc_retrack(&untracked, result))
        return result;
    zc_hostmem_return(p, untracked.taken ? untracked.copy.size : 1);
    if (untracked.taken)
        zc_freed_reap(true);
    return result;
}

ZC_BODY(cuMemHostGetDevicePointer_v2, (CUdeviceptr * dptr, void *p, unsigned int flags))
{
    bool mine = pinned_at(p, ZC_BLOCK_CONVERTED);
    if (is_converted(p) || (mine && (!dptr || flags)))
        return zc_stream_refusal();
    if (!mine)
        return real(dptr, (void *)zc_disguise((CUdeviceptr)p), flags);
    CUresult state = zc_stream_state();
    if (state == CUDA_SUCCESS)
        *dptr = (CUdeviceptr)p;
    return state;
}

/* With unified addressing all pinned memory is mapped, and reports that (measured). */
ZC_BODY(cuMemHostGetFlags, (unsigned int *flags, void *p))
{
    const struct zc_block *block = pinned_at(p, ZC_BLOCK_CONVERTED);
    if (is_converted(p) || (block && !flags))
        return zc_stream_refusal();
    if (!block) {
        CUresult result = real(flags, (void *)zc_disguise((CUdeviceptr)p));
        if (result == CUDA_SUCCESS)
            zc_place_adopted(p, flags);
        return result;
    }
    CUresult state = zc_stream_state();
    if (state == CUDA_SUCCESS)
        *flags = ((const struct zc_backing *)block->backing)->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return state;
}
