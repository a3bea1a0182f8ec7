/* SPDX-License-Identifier: MIT */
/* The calls about handles: cuMemCreate, its properties, references and sharing by file descriptor.
 */
#define _GNU_SOURCE
#include "vmm.h"
#include <fcntl.h>
#include <sys/stat.h>

static CUresult props_check(const CUmemAllocationProp *p)
{
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_supports(0, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
#if CUDA_VERSION >= 13000
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
        !sim_supports(0, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
#endif
    bool host = p->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    bool anywhere = p->location.type == CU_MEM_LOCATION_TYPE_HOST;
    if ((host && p->allocFlags.gpuDirectRDMACapable) || (anywhere && p->requestedHandleTypes))
        return CUDA_ERROR_INVALID_VALUE; /* measured */
    switch ((int)p->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_valid(p->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return p->location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemGetAllocationGranularity,
        (size_t * out, const CUmemAllocationProp *props, CUmemAllocationGranularity_flags option),
        (out, props, option))
{
    CUresult r = props_check(props);
    if (!out || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = SIM_PAGE;
    return r;
}

SIM_API(cuMemCreate,
        (CUmemGenericAllocationHandle * out, size_t size, const CUmemAllocationProp *props,
         unsigned long long flags),
        (out, size, props, flags))
{
    struct sim_handle *h;
    CUresult r = props_check(props);
    if (!out || size == 0 || size % SIM_PAGE || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = sim_handle_new(props, size, -1, &h);
    if (r == CUDA_SUCCESS)
        *out = (CUmemGenericAllocationHandle)(uintptr_t)h;
    return r;
}

/* The memory lives on while it is mapped. */
SIM_API(cuMemRelease, (CUmemGenericAllocationHandle value), (value))
{
    struct sim_handle *h = sim_handle_of(value);
    if (!h)
        return CUDA_ERROR_INVALID_VALUE;
    h->refs--;
    sim_handle_settle(h);
    return CUDA_SUCCESS;
}

SIM_API(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * out, void *address),
        (out, address))
{
    struct sim_block *b = sim_block_find((CUdeviceptr)(uintptr_t)address);
    if (!out || !b || b->kind != SIM_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    b->handle->refs++;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)b->handle;
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetAllocationPropertiesFromHandle,
        (CUmemAllocationProp * out, CUmemGenericAllocationHandle value), (out, value))
{
    struct sim_handle *h = sim_handle_of(value);
    if (!out || !h)
        return CUDA_ERROR_INVALID_VALUE;
    *out = h->props;
    return CUDA_SUCCESS;
}

SIM_API(cuMemExportToShareableHandle,
        (void *out, CUmemGenericAllocationHandle value, CUmemAllocationHandleType type,
         unsigned long long flags),
        (out, value, type, flags))
{
    struct sim_handle *h = sim_handle_of(value);
    if (!out || !h || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !h->own_fd)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

/* Only of a mapping of device memory that may be shared: the file with its bytes stands for the
 * dma-buf. */
SIM_API(cuMemGetHandleForAddressRange,
        (void *out, CUdeviceptr va, size_t size, CUmemRangeHandleType type,
         unsigned long long flags),
        (out, va, size, type, flags))
{
    struct sim_block *b = sim_block_find(va);
    if (!out || !b || !size || size > b->size - (va - b->va) || flags ||
        type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind != SIM_VMM || b->device < 0 || !b->handle->own_fd)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)out = fcntl(b->handle->fd, F_DUPFD_CLOEXEC, 0);
    return *(int *)out < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* A file of this process is its handle again; one of another process becomes a handle of device 0.
 */
SIM_API(cuMemImportFromShareableHandle,
        (CUmemGenericAllocationHandle * out, void *os_handle, CUmemAllocationHandleType type),
        (out, os_handle, type))
{
    int fd = (int)(uintptr_t)os_handle;
    struct stat s;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &s) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_handle *h = sim_handle_by_file(fd);
    if (h) {
        h->refs++;
    } else {
        CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .requestedHandleTypes = type,
                                     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        if (!S_ISREG(s.st_mode) || s.st_size == 0 || (size_t)s.st_size % SIM_PAGE ||
            !sim_device_take(0, (size_t)s.st_size))
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = sim_handle_new(&props, (size_t)s.st_size, fcntl(fd, F_DUPFD_CLOEXEC, 0), &h);
        if (r != CUDA_SUCCESS)
            return r;
    }
    *out = (CUmemGenericAllocationHandle)(uintptr_t)h;
    return CUDA_SUCCESS;
}
