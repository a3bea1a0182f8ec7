/* SPDX-License-Identifier: MIT */
/* Memory pools: reserve, attributes, access. Blocks are cut in pool_alloc.c. */
#include "capture.h"
#include "pool.h"
#include <stdlib.h>
#include <string.h>

static struct sim_pool *pools;

struct sim_pool *sim_pool_of(CUmemoryPool handle)
{
    for (struct sim_pool *p = pools; p; p = p->next)
        if ((CUmemoryPool)p == handle && !p->destroyed)
            return p;
    return NULL;
}

static struct sim_pool *pool_new(int device, const CUmemPoolProps *props)
{
    struct sim_pool *p = calloc(1, sizeof *p);
    p->device = device;
    p->props = *props;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    p->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    p->next = pools;
    pools = p;
    return p;
}

void sim_pools_start(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    for (int d = 0; d < sim_device_count; d++) {
        props.location.id = d;
        sim_devices[d].default_pool = sim_devices[d].current_pool = pool_new(d, &props);
        sim_devices[d].default_pool->builtin = true;
    }
}

size_t sim_pools_count(void)
{
    size_t n = 0;
    for (struct sim_pool *p = pools; p; p = p->next)
        n += !p->builtin && !p->destroyed;
    return n;
}

struct sim_pool *sim_pool_managed(void)
{
    static const CUmemPoolProps none;
    static struct sim_pool *pool;
    if (!pool) {
        pool = pool_new(0, &none);
        pool->builtin = pool->managed = true;
    }
    return pool;
}

static void trim(struct sim_pool *p, uint64_t keep)
{
    uint64_t floor = p->paged > keep ? p->paged : keep;
    if (p->reserved > floor) {
        sim_device_give(p->device, p->reserved - floor);
        p->reserved = floor;
    }
}

bool sim_pool_take(struct sim_pool *p, size_t bytes)
{
    uint64_t spare = p->reserved - p->paged;
    if (p->props.maxSize && p->paged + bytes > p->props.maxSize)
        return false;
    if (spare < bytes) {
        p->paged += spare; /* hold the spare pages while the others are taken, for that may trim */
        bool taken = sim_device_take(p->device, bytes - spare);
        p->paged -= spare;
        if (!taken)
            return false;
        p->reserved += bytes - spare;
    }
    p->paged += bytes;
    if (p->reserved > p->reserved_high)
        p->reserved_high = p->reserved;
    return true;
}

void sim_pool_give(struct sim_pool *p, size_t bytes)
{
    p->paged -= bytes;
}

void sim_pools_trim(int device)
{
    for (struct sim_pool *p = pools; p; p = p->next)
        if (p->device == device)
            trim(p, 0);
}

void sim_pools_settle(void)
{
    for (struct sim_pool **at = &pools; *at;) {
        struct sim_pool *p = *at;
        trim(p, p->destroyed ? 0 : p->threshold);
        if (!p->destroyed || p->blocks) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free(p);
    }
}

/* A pool of managed memory that is near no device.  A driver refuses a size and export
 * (measured). */
static bool managed_props(const CUmemPoolProps *props)
{
#if CUDA_VERSION >= 13000
    return props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED &&
           props->location.type == CU_MEM_LOCATION_TYPE_NONE && !props->maxSize &&
           !props->handleTypes;
#else
    (void)props;
    return false;
#endif
}

SIM_API(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps *props), (out, props))
{
    CUresult r = sim_capture_unsafe_call(); /* measured */
    if (r != CUDA_SUCCESS)
        return r;
    if (out && props && managed_props(props)) {
        *out = (CUmemoryPool)pool_new(0, props);
        ((struct sim_pool *)*out)->managed = true;
        return CUDA_SUCCESS;
    }
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_device_valid(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    *out = (CUmemoryPool)pool_new(props->location.id, props);
    return CUDA_SUCCESS;
}

/* Blocks outlive their pool until they are freed; a current pool is replaced by the default one. */
SIM_API(cuMemPoolDestroy, (CUmemoryPool handle), (handle))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!p || p->builtin)
        return CUDA_ERROR_INVALID_VALUE;
    p->destroyed = true;
    if (sim_devices[p->device].current_pool == p)
        sim_devices[p->device].current_pool = sim_devices[p->device].default_pool;
    sim_pools_settle();
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolTrimTo, (CUmemoryPool handle, size_t keep), (handle, keep))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    trim(p, keep);
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolGetAttribute, (CUmemoryPool handle, CUmemPool_attribute attr, void *value),
        (handle, attr, value))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = p->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = p->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = p->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = p->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = p->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The high-water marks can be set to 0 alone. */
SIM_API(cuMemPoolSetAttribute, (CUmemoryPool handle, CUmemPool_attribute attr, void *value),
        (handle, attr, value))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        p->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        *(attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? &p->used_high : &p->reserved_high) =
            attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? p->used : p->reserved;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemPoolSetAccess, (CUmemoryPool handle, const CUmemAccessDesc *map, size_t count),
        (handle, map, count))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!p || !map)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        if (!sim_device_valid(map[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].location.id == p->device && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE; /* the owner's access can't be taken away */
    }
    for (size_t i = 0; i < count; i++)
        p->access[map[i].location.id] = (unsigned char)map[i].flags;
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolGetAccess,
        (CUmemAccess_flags * flags, CUmemoryPool handle, CUmemLocation *location),
        (flags, handle, location))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!p || !flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = (CUmemAccess_flags)p->access[location->id];
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice dev), (out, dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemoryPool)sim_devices[dev].default_pool;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice dev), (out, dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemoryPool)sim_devices[dev].current_pool;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool handle), (dev, handle))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!p || p->device != dev)
        return CUDA_ERROR_INVALID_VALUE;
    sim_devices[dev].current_pool = p;
    return CUDA_SUCCESS;
}
