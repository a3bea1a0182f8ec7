/* SPDX-License-Identifier: MIT */
/* Memory pools; what allocates from them is in streams/memory.c. */
#include "runtime.h"

#include <string.h>

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout, two names");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc),
               "one layout, two names");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one layout, two names");

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return RT_CALL(cuDeviceGetDefaultMemPool, pool, device);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return RT_CALL(cuDeviceGetMemPool, pool, device);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return RT_CALL(cuDeviceSetMemPool, device, pool);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
    CUmemPoolProps copy;

    if (props == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memcpy(&copy, props, sizeof(copy));
    return RT_CALL(cuMemPoolCreate, pool, &copy);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return RT_CALL(cuMemPoolDestroy, pool);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return RT_CALL(cuMemPoolGetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return RT_CALL(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list,
                                 size_t count)
{
    return RT_CALL(cuMemPoolSetAccess, pool, (const CUmemAccessDesc *)list, count);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                 struct cudaMemLocation *location)
{
    CUmemAccess_flags access;
    cudaError_t error = RT_CALL(cuMemPoolGetAccess, &access, pool, (CUmemLocation *)location);

    if (error == cudaSuccess)
        *flags = (enum cudaMemAccessFlags)access;
    return error;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    return RT_CALL(cuMemPoolTrimTo, pool, keep);
}
