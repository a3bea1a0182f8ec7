/* SPDX-License-Identifier: MIT */
/* The place `mapped`: pinned host memory at one address for the CPU and every GPU. */
#include "driver/stream.h"
#include "memory/cgroup.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "memory/place.h"

/* libzc makes the pages of blocks of this size and more itself: the driver takes about ten times as
 * long.  It packs smaller blocks into one mapping, which pages of 2 MiB could not. */
#define OWN_PAGES_FROM ((size_t)1 << 20)

/* Before so many pages come the host is asked whether it has them: where it has not, the kernel
 * ends a process. */
#define ASKED_FROM ((size_t)16 << 20)

static CUresult make_pages(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    size_t margin = zc_before(out);
    *why = "the driver pins less than 512 GiB in one piece";
    if (want->size >= ZC_REGISTRATION_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "the host has not so much memory left";
    if (want->size >= ASKED_FROM && zc_available() < want->size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *pages = zc_pages_make(want->size, margin, zc_node_of_device(want->device));
    if (!pages) {
        *why = "the kernel gives no pages";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t span = zc_pages_span(want->size);
    CUresult result =
        zc_real.cuMemHostRegister_v2((char *)pages - margin, span + 2 * margin,
                                     CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS) {
        *why = "cuMemHostRegister refuses";
        zc_pages_unmake(pages, want->size, margin);
        return result;
    }
    out->base = (CUdeviceptr)pages;
    out->own_pages = true;
    out->room = span + margin;
    return CUDA_SUCCESS;
}

static CUresult make_by_driver(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    void *memory = NULL;
    size_t margin = zc_before(out);
    CUresult result = zc_real.cuMemHostAlloc(&memory, want->size + 2 * margin, flags);
    if (result != CUDA_SUCCESS) {
        *why = "cuMemHostAlloc refuses";
        return result;
    }
    if ((CUdeviceptr)memory %
        256) { /* cudaMalloc aligns to 256 bytes (CUDA C++ Programming Guide). */
        zc_real.cuMemFreeHost(memory);
        *why = "cuMemHostAlloc aligns to less than 256 bytes";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    out->base = (CUdeviceptr)memory + margin;
    out->room = want->size + margin;
    return CUDA_SUCCESS;
}

static CUresult mapped_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    if (!zc_device_one_address(want->device)) {
        *why = "the device can't use host addresses";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    out->before = (uint16_t)(zc_margin(want->size) / ZC_BLOCK_PAGE);
    return want->size < OWN_PAGES_FROM ? make_by_driver(want, out, why)
                                       : make_pages(want, out, why);
}

static CUresult mapped_detach(struct zc_backing *backing)
{
    void *first = (void *)(backing->base - zc_before(backing));
    return backing->own_pages ? zc_real.cuMemHostUnregister(first) : zc_real.cuMemFreeHost(first);
}

static CUresult mapped_unmake(struct zc_backing *backing, bool gone)
{
    (void)gone;
    if (backing->own_pages)
        zc_pages_unmake((void *)backing->base, backing->size, zc_before(backing));
    return CUDA_SUCCESS;
}

const struct zc_place zc_place_mapped = {.id = ZC_PLACE_MAPPED,
                                         .real = ZC_KIND_PINNED,
                                         .waits = true,
                                         .make = mapped_make,
                                         .detach = mapped_detach,
                                         .unmake = mapped_unmake};
