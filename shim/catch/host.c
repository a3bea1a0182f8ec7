/* Host memory that the driver pins: counted, and left as the program asked for it. */
#include "catch/hostmem.h"
#include "catch/life.h"
#include "catch/request.h"
#include "place/park.h"
#include "place/pinned.h"
#include "shared/transfer.h"

static void track(const struct zc_entry *entry, enum zc_api api, void *memory, size_t bytes,
                  uint32_t flags)
{
    struct zc_ask ask = {.entry = entry,
                         .api = api,
                         .size = bytes,
                         .asked = ZC_KIND_PINNED,
                         .flags = flags,
                         .home = ZC_PLACE_PINNED};
    if (memory && bytes && zc_ask_begin(&ask))
        zc_ask_track(&ask, (CUdeviceptr)memory, NULL, NULL, NULL);
}

ZC_BODY(cuMemAllocHost_v2, (void **pp, size_t bytes))
{
    CUresult result = real(pp, bytes);
    if (result == CUDA_SUCCESS)
        track(entry, ZC_API_cuMemHostAlloc, *pp, bytes, 0);
    return result;
}

ZC_BODY(cuMemHostAlloc, (void **pp, size_t bytes, unsigned int flags))
{
    CUresult result = real(pp, bytes, flags);
    if (result == CUDA_SUCCESS)
        track(entry, ZC_API_cuMemHostAlloc, *pp, bytes, 0);
    return result;
}

/* What a program asked for as device memory is not host memory to it, whatever lies behind. */
static bool is_converted(const void *p)
{
    return zc_life_on() && zc_converted_at((CUdeviceptr)p);
}

/* Device memory and host memory are freed by calls of their own; each waits for the device, so what
 * is parked can go with it. */
ZC_BODY(cuMemFreeHost, (void *p))
{
    (void)entry;
    if (is_converted(p))
        return CUDA_ERROR_INVALID_VALUE;
    struct zc_untracked untracked;
    zc_untrack((CUdeviceptr)p, &untracked);
    CUresult result = real(p);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
        zc_retrack(&untracked);
    else if (untracked.taken)
        zc_park_reap_all();
    return result;
}

static bool in_heap(const void *p)
{
    return zc_hostheap_owns((uint64_t)(uintptr_t)p);
}

/* Memory of the host heap that the program registers itself is its own from there on: libzc takes
 * its registration back, so that the driver answers. */
ZC_BODY(cuMemHostRegister, (void *p, size_t bytes, unsigned int flags))
{
    CUresult kept_out = zc_shared_keep_registered(entry->fn, (CUdeviceptr)p);
    if (kept_out != CUDA_SUCCESS)
        return kept_out;
    if (is_converted(p))
        return CUDA_ERROR_INVALID_VALUE;
    if (in_heap(p) && bytes) {
        zc_hostmem_forget((CUdeviceptr)p);
        zc_pinned_yield((CUdeviceptr)p, bytes);
    }
    CUresult result = real(p, bytes, flags);
    if (result != CUDA_SUCCESS && in_heap(p) && bytes)
        zc_pinned_return((CUdeviceptr)p, bytes);
    if (result == CUDA_SUCCESS)
        track(entry, ZC_API_cuMemHostRegister, p, bytes, ZC_BLOCK_FOREIGN);
    return result;
}

ZC_BODY(cuMemHostRegister_v2, (void *p, size_t bytes, unsigned int flags))
{
    return zc_do_cuMemHostRegister(real, entry, p, bytes, flags);
}

ZC_BODY(cuMemHostUnregister, (void *p))
{
    (void)entry;
    if (is_converted(p))
        return CUDA_ERROR_INVALID_VALUE;
    if (zc_pinned_hides((CUdeviceptr)p))
        return real((void *)zc_pinned_disguise((CUdeviceptr)p));
    struct zc_untracked untracked;
    zc_untrack((CUdeviceptr)p, &untracked);
    CUresult result = real(p);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED) {
        zc_retrack(&untracked);
        return result;
    }
    if (in_heap(p))
        zc_pinned_return((CUdeviceptr)p, untracked.taken ? untracked.copy.size : 1);
    if (untracked.taken)
        zc_park_reap_all();
    return result;
}

static void *disguised(void *p)
{
    return (void *)zc_pinned_disguise((CUdeviceptr)p);
}

ZC_BODY(cuMemHostGetDevicePointer_v2, (CUdeviceptr * dptr, void *p, unsigned int flags))
{
    (void)entry;
    return is_converted(p) ? CUDA_ERROR_INVALID_VALUE : real(dptr, disguised(p), flags);
}

ZC_BODY(cuMemHostGetFlags, (unsigned int *flags, void *p))
{
    (void)entry;
    return is_converted(p) ? CUDA_ERROR_INVALID_VALUE : real(flags, disguised(p));
}
