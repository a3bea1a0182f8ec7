/* SPDX-License-Identifier: MIT */
/* cuMemRangeGetAttribute(s): what was advised for a managed range. */
#include "memory.h"
#include "../sim.h"

/* As an old-style device number: an ordinal, CU_DEVICE_CPU or CU_DEVICE_INVALID. */
static int device_number(CUmemLocation at)
{
    if (at.type == CU_MEM_LOCATION_TYPE_INVALID)
        return CU_DEVICE_INVALID;
    return at.type == CU_MEM_LOCATION_TYPE_DEVICE ? at.id : CU_DEVICE_CPU;
}

/* Fills a list of accessing devices, closed by CU_DEVICE_INVALID. */
static CUresult accessors(const struct sim_block *b, int *out, size_t size)
{
    size_t room = size / sizeof *out, n = 0;
    if (room == 0 || size % sizeof *out)
        return CUDA_ERROR_INVALID_VALUE;
    for (int d = 0; d <= SIM_CPU && n < room; d++)
        if (b->accessed_by[d])
            out[n++] = d == SIM_CPU ? CU_DEVICE_CPU : d;
    while (n < room)
        out[n++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

static CUresult get(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr va,
                    size_t count)
{
    struct sim_block *b = sim_block_find(va);
    if (!data || !b || b->kind != SIM_MANAGED || count == 0 || count > b->footprint - (va - b->va))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
        return accessors(b, data, size);
    if (size != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *(int *)data = b->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *(int *)data = device_number(b->preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *(int *)data = device_number(b->prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *(int *)data = (int)b->preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *(int *)data = b->preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *(int *)data = (int)b->prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *(int *)data = b->prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemRangeGetAttribute,
        (void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr va, size_t count),
        (data, size, attribute, va, count))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    return r == CUDA_SUCCESS ? get(data, size, attribute, va, count) : r;
}

SIM_API(cuMemRangeGetAttributes,
        (void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t n, CUdeviceptr va,
         size_t count),
        (data, sizes, attributes, n, va, count))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS && (!data || !sizes || !attributes || n == 0))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = get(data[i], sizes[i], attributes[i], va, count);
    return r;
}

SIM_EXPORT CUresult sim_range_attribute(void *data, size_t size, CUmem_range_attribute attribute,
                                        CUdeviceptr va, size_t count)
{
    sim_relock();
    CUresult r = get(data, size, attribute, va, count);
    sim_unlock();
    return r;
}
