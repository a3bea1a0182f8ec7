/* SPDX-License-Identifier: MIT */
/* Questions of a program about an address: cuPointerGetAttribute and friends (CUDA driver API,
 * "Unified Addressing"). */
#include "memory.h"
#include "host_slab.h"
#include "pool.h"
#include "vmm.h"
#include "../sim.h"
#include <string.h>
#include <unistd.h>

#define DECOMPRESS_ALGORITHMS 136 /* a CUdevice_attribute since then */
#define TOKEN_BYTES 12            /* what a driver writes of CUDA_POINTER_ATTRIBUTE_P2P_TOKENS */

static bool is_host(const struct sim_block *b)
{
    return b->kind == SIM_HOST || b->kind == SIM_REGISTERED;
}

static bool on_host(const struct sim_block *b)
{
    return is_host(b) || (b->kind == SIM_VMM && b->device < 0);
}

static unsigned access_flags(const struct sim_block *b, int device)
{
    if (b->kind == SIM_VMM || b->kind == SIM_POOLED)
        return b->access[device];
    bool read_only = b->kind == SIM_REGISTERED && (b->flags & CU_MEMHOSTREGISTER_READ_ONLY);
    return read_only ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                     : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

/* Size of each attribute's result, so that an unknown pointer's can be zeroed; 0 for an unknown
 * attribute. */
static size_t attribute_size(CUpointer_attribute a)
{
    switch ((int)a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return 8;
    /* cuda.h calls some of these boolean; a driver writes 4 bytes of each. */
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case SIM_POINTER_ATTRIBUTE_FUTURE:
        return 4;
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
        return sim_driver_version() >= 13040 ? 4 : 0;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return TOKEN_BYTES;
    default:
        return 0;
    }
}

/* Address that the CPU may use, or 0. */
static CUdeviceptr host_address(const struct sim_block *b, CUdeviceptr ptr)
{
    if (is_host(b) || b->kind == SIM_MANAGED || (b->kind == SIM_VMM && b->access[SIM_CPU]))
        return ptr;
    return 0;
}

static uint64_t handle_types(const struct sim_block *b)
{
    if (b->kind == SIM_VMM)
        return sim_handle_props(b->handle)->requestedHandleTypes;
    return b->kind == SIM_POOLED ? b->pool->props.handleTypes : 0;
}

/* The pages behind a block: registered ranges have those of the CPU, all else has 2 MiB pages. */
static struct sim_range mapping_of(const struct sim_block *b)
{
    if (b->slab)
        return (struct sim_range){sim_slab_base(b->slab), SIM_PAGE};
    size_t page = b->kind == SIM_REGISTERED ? (size_t)sysconf(_SC_PAGESIZE) : SIM_PAGE;
    bool shared = b->kind == SIM_REGISTERED || b->chunk;
    CUdeviceptr base = shared ? b->va / page * page : b->va;
    return (struct sim_range){base, (b->va + b->size - base + page - 1) / page * page};
}

/* The allocation: a mapping's reservation, else the block. */
static struct sim_range range_of(const struct sim_block *b)
{
    return b->kind == SIM_VMM ? sim_reservation_of(b->va) : (struct sim_range){b->va, b->size};
}

/* The value of an attribute of 8 bytes. */
static uint64_t wide_value(const struct sim_block *b, CUpointer_attribute a, CUdeviceptr ptr,
                           int device)
{
    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return (uint64_t)(uintptr_t)b->ctx;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return b->kind == SIM_VMM && !b->access[device] ? 0 : ptr;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return host_address(b, ptr);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return b->id;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return range_of(b).base;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return range_of(b).size;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return mapping_of(b).base;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return mapping_of(b).size;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return handle_types(b);
    default:
        return b->kind == SIM_POOLED ? (uint64_t)(uintptr_t)b->pool : 0;
    }
}

/* The engine, where there is one (decompress.c), takes device memory. */
static bool can_decompress(const struct sim_block *b)
{
    return !on_host(b) && b->kind != SIM_MANAGED && sim_supports(b->device, DECOMPRESS_ALGORITHMS);
}

/* The value of a smaller attribute. */
static uint32_t narrow_value(const struct sim_block *b, CUpointer_attribute a, int device)
{
    switch ((int)a) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return on_host(b) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return (uint32_t)b->sync_memops;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return (uint32_t)(b->device < 0 ? 0 : b->device);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return access_flags(b, device);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return b->kind == SIM_MANAGED;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return b->kind == SIM_DEVICE;
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case SIM_POINTER_ATTRIBUTE_FUTURE:
        return 1;
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
        return (uint32_t)-1; /* no device has such parts */
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return can_decompress(b);
    default: /* CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE */
        return b->kind == SIM_VMM ? sim_handle_props(b->handle)->allocFlags.gpuDirectRDMACapable
                                  : b->kind == SIM_DEVICE;
    }
}

static CUresult get(void *data, CUpointer_attribute a, const struct sim_block *b, CUdeviceptr ptr,
                    int device)
{
    size_t size = attribute_size(a);
    if (size == 8) {
        uint64_t wide = wide_value(b, a, ptr, device);
        bool address =
            a == CU_POINTER_ATTRIBUTE_HOST_POINTER || a == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
        memcpy(data, &wide, 8);
        return address && wide == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (size == TOKEN_BYTES) { /* of device memory alone; 0 without a driver that shares it */
        if (!on_host(b))
            memset(data, 0, size);
        return on_host(b) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    uint32_t narrow = narrow_value(b, a, device);
    memcpy(data, &narrow, size);
    return CUDA_SUCCESS;
}

SIM_API(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr ptr),
        (data, attribute, ptr))
{
    struct sim_context *ctx;
    CUresult r = sim_current_any(&ctx);
    struct sim_block *b = sim_block_find(ptr);
    /* No context is needed to ask about a block. */
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_CONTEXT)
        return r;
    if (!data || attribute_size(attribute) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int device = r == CUDA_SUCCESS ? ctx->device : 0;
    return b ? get(data, attribute, b, ptr, device) : CUDA_ERROR_INVALID_VALUE;
}

/* An unknown pointer is no error here: its attributes are 0, its ordinal CU_DEVICE_INVALID (-2),
 * its host address itself. Of tokens a list does not ask (measured). */
SIM_API(cuPointerGetAttributes,
        (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr),
        (count, attributes, data, ptr))
{
    struct sim_context *ctx;
    CUresult r = sim_current_any(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_block *b = sim_block_find(ptr);
    for (unsigned i = 0; i < count; i++)
        if (attribute_size(attributes[i]) == 0 || attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        size_t size = attribute_size(attributes[i]);
        int none = CU_DEVICE_INVALID;
        if (b)
            get(data[i], attributes[i], b, ptr, ctx->device);
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            memcpy(data[i], &none, sizeof none);
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
            memcpy(data[i], &ptr, sizeof ptr);
        else if (attributes[i] != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
                 attributes[i] != CU_POINTER_ATTRIBUTE_RANGE_SIZE)
            memset(data[i], 0, size);
    }
    return CUDA_SUCCESS;
}

SIM_API(cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr ptr),
        (value, attribute, ptr))
{
    struct sim_block *b = sim_block_find(ptr);
    if (!value || !b || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind == SIM_VMM)
        return CUDA_ERROR_NOT_SUPPORTED;
    b->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}
