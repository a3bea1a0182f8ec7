/* SPDX-License-Identifier: MIT */
/* Pinned host memory: allocated by the driver, or registered by the program. CPU and GPU use one
 * address, as with CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, and find the same
 * pages there, each by a mapping of its own (view.h). */
#include "capture.h"
#include "host_slab.h"
#include "memory.h"
#include <stdlib.h>
#include <unistd.h>

#define ALLOC_FLAGS                                                                                \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                             \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |    \
     CU_MEMHOSTREGISTER_READ_ONLY)

/* Whether a driver has room for the list of pages that a request needs: driver 580 makes none for
 * 512 GiB. SIM_PIN_MIB stands for another limit. */
static bool has_list_for(size_t size)
{
    const char *text = getenv("SIM_PIN_MIB");
    size_t most = text ? (size_t)strtoull(text, NULL, 10) << 20 : (size_t)512 << 30;
    return size < most;
}

static CUresult host_alloc(void **out, size_t size, unsigned flags)
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || (flags & ~(unsigned)ALLOC_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    if (!has_list_for(size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (size + page - 1) / page * page;
    struct sim_view view = {0};
    struct sim_slab *slab = NULL;
    char *alias = NULL;
    void *p =
        size <= SIM_SLAB_BLOCK ? sim_slab_take(size, &slab, &alias) : sim_view_alloc(&view, bytes);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *b =
        sim_block_add((CUdeviceptr)(uintptr_t)p, size, SIM_HOST, ctx->device, ctx);
    b->slab = slab;
    b->view = view;
    b->storage = slab ? alias : view.alias;
    b->footprint = bytes;
    b->flags = flags;
    *out = p;
    return CUDA_SUCCESS;
}

SIM_API(cuMemHostAlloc, (void **out, size_t size, unsigned int flags), (out, size, flags))
{
    return host_alloc(out, size, flags);
}

SIM_API(cuMemAllocHost_v2, (void **out, size_t size), (out, size))
{
    return host_alloc(out, size, 0);
}

static struct sim_block *block_at(const void *p, enum sim_kind kind)
{
    struct sim_block *b = p ? sim_block_find((CUdeviceptr)(uintptr_t)p) : NULL;
    return b && b->kind == kind && b->va == (CUdeviceptr)(uintptr_t)p ? b : NULL;
}

/* The error that comes before the address of a free or an end of a registration.  Without a current
 * context the block's counts, if the address is one's first byte (measured on an H200). */
static CUresult giving_up(const struct sim_block *b)
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_ERROR_INVALID_CONTEXT)
        return r;
    r = sim_capture_unsafe_call();
    return r == CUDA_SUCCESS && b && b->ctx ? sim_context_error(b->ctx) : r;
}

SIM_API(cuMemFreeHost, (void *p), (p))
{
    struct sim_block *b = block_at(p, SIM_HOST);
    CUresult r = giving_up(b);
    if (r != CUDA_SUCCESS || !p) /* freeing nothing is no error */
        return r;
    if (!b)
        return CUDA_ERROR_INVALID_VALUE;
    sim_device_wait(-1);
    b = block_at(p, SIM_HOST);
    if (!b)
        return CUDA_ERROR_INVALID_VALUE;
    sim_block_free(b);
    return CUDA_SUCCESS;
}

/* Only memory of the CPU's own can be registered: not managed, not VMM (measured: 1), not device
 * addresses. Where the CPU has put pages into reserved addresses they are its own; the GPU finds
 * them side by side with what is mapped there for it, so that kernels may run over the border. */
SIM_API(cuMemHostRegister_v2, (void *p, size_t size, unsigned int flags), (p, size, flags))
{
    struct sim_context *ctx;
    CUdeviceptr va = (CUdeviceptr)(uintptr_t)p;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!p || size == 0 || va + size < va || (flags & ~(unsigned)REGISTER_FLAGS) ||
        (sim_va_reserved(va) && !sim_reservation_holds(va, size)))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) &&
        !sim_supports(ctx->device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_block *b = sim_block_overlap(va, size);
    if (b)
        return b->kind == SIM_REGISTERED ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                         : CUDA_ERROR_INVALID_VALUE;
    if (!has_list_for(size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)p & ~(page - 1);
    size_t bytes = ((uintptr_t)p + size + page - 1) / page * page - first;
    struct sim_view view;
    r = sim_view_open(&view, (char *)first, bytes, flags & CU_MEMHOSTREGISTER_READ_ONLY,
                      sim_va_reserved(va) ? sim_alias(first, ctx->device) : NULL);
    if (r != CUDA_SUCCESS)
        return r;
    b = sim_block_add(va, size, SIM_REGISTERED, ctx->device, ctx);
    b->view = view;
    b->storage = view.alias + (va - first);
    b->flags = flags;
    return CUDA_SUCCESS;
}

SIM_ALIAS(cuMemHostRegister, body_cuMemHostRegister_v2, (void *p, size_t size, unsigned int flags),
          (p, size, flags))

/* Of an address that begins no registration the driver tells whether it knows the memory there. */
SIM_API(cuMemHostUnregister, (void *p), (p))
{
    struct sim_block *b = block_at(p, SIM_REGISTERED);
    CUresult r = giving_up(b);
    if (r != CUDA_SUCCESS)
        return r;
    if (!b)
        return !p || sim_block_find((CUdeviceptr)(uintptr_t)p)
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sim_device_wait(-1);
    b = block_at(p, SIM_REGISTERED);
    if (!b)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sim_block_free(b);
    return CUDA_SUCCESS;
}

SIM_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void *p, unsigned int flags),
        (out, p, flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = sim_block_find((CUdeviceptr)(uintptr_t)p);
    if (!out || !p || flags || !b || (b->kind != SIM_HOST && b->kind != SIM_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

/* Of all host memory that the driver knows, managed memory too. With unified addressing it is
 * mapped in any case, and says so. */
SIM_API(cuMemHostGetFlags, (unsigned int *flags, void *p), (flags, p))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = sim_block_find((CUdeviceptr)(uintptr_t)p);
    if (!flags || !b ||
        (b->kind != SIM_HOST && b->kind != SIM_REGISTERED && b->kind != SIM_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEMHOSTALLOC_DEVICEMAP;
    if (b->kind == SIM_HOST)
        *flags |= b->flags;
    else if (b->kind == SIM_REGISTERED)
        *flags |= b->flags & CU_MEMHOSTREGISTER_PORTABLE;
    return CUDA_SUCCESS;
}
