/* SPDX-License-Identifier: MIT */
/* Kernels as objects: the launch configuration of <<<>>>, attributes and occupancy. */
#include "runtime.h"

#include <string.h>

/* The deepest nesting of a <<<>>> inside another's arguments that anyone will write. */
#define CONFIGURATIONS 16

/* One <<<grid, block, shared, stream>>> that waits for its stub to take it. */
struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
};

static __thread struct configuration configurations[CONFIGURATIONS];
static __thread unsigned depth;

/* nvcc's generated code declares these; see register.c. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);

/* Not 0 makes the generated code leave out the launch. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream)
{
    if (depth == CONFIGURATIONS) {
        rt_fail(cudaErrorMissingConfiguration);
        return 1;
    }
    configurations[depth++] = (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    const struct configuration *c;

    if (depth == 0)
        return rt_fail(cudaErrorMissingConfiguration);
    c = &configurations[--depth];
    *grid = c->grid;
    *block = c->block;
    *shared_bytes = c->shared_bytes;
    *(void **)stream = c->stream;
    return cudaSuccess;
}

/* A cudaKernel_t and a CUkernel are one handle. */
cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    cudaError_t error = rt_enter();
    CUkernel found;

    if (error != cudaSuccess)
        return error;
    error = kernel == NULL ? cudaErrorInvalidValue : rt_kernel(stub, &found);
    if (error != cudaSuccess)
        return rt_fail(error);
    *kernel = (cudaKernel_t)found;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    return cudaGetKernel(kernel, stub);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *stub)
{
    CUfunction kernel;
    cudaError_t error = rt_enter_function(stub, &kernel);

    return error != cudaSuccess
               ? error
               : rt_return(rt_driver.cuKernelGetFunction((CUfunction *)function, (CUkernel)kernel));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *stub)
{
    struct cudaFuncAttributes a;
    const struct {
        CUfunction_attribute attribute;
        int *number;   /* where an int goes, or */
        size_t *bytes; /* where a size goes */
    } rows[] = {
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, NULL, &a.sharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, NULL, &a.constSizeBytes},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, NULL, &a.localSizeBytes},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &a.maxThreadsPerBlock, NULL},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &a.numRegs, NULL},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &a.ptxVersion, NULL},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &a.binaryVersion, NULL},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &a.cacheModeCA, NULL},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &a.maxDynamicSharedSizeBytes, NULL},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &a.preferredShmemCarveout, NULL},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &a.clusterDimMustBeSet, NULL},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &a.requiredClusterWidth, NULL},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &a.requiredClusterHeight, NULL},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &a.requiredClusterDepth, NULL},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, &a.nonPortableClusterSizeAllowed,
         NULL},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
         &a.clusterSchedulingPolicyPreference, NULL},
    };
    CUfunction function;
    CUcontext current;
    CUdevice device;
    cudaError_t error = rt_enter_function(stub, &function);

    if (error == cudaSuccess && attributes == NULL)
        error = rt_fail(cudaErrorInvalidValue);
    if (error == cudaSuccess)
        error = rt_return(rt_driver.cuCtxGetCurrent(&current));
    if (error == cudaSuccess)
        error = rt_return(rt_driver.cuCtxGetDevice(&device, current));
    if (error != cudaSuccess)
        return error;
    memset(&a, 0, sizeof(a));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int value = 0;

        error = rt_return(
            rt_driver.cuKernelGetAttribute(&value, rows[i].attribute, (CUkernel)function, device));
        if (error != cudaSuccess)
            return error;
        if (rows[i].number != NULL)
            *rows[i].number = value;
        else
            *rows[i].bytes = (size_t)value;
    }
    *attributes = a;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *stub, enum cudaFuncAttribute attribute, int value)
{
    CUfunction function;
    cudaError_t error = rt_enter_function(stub, &function);

    return error != cudaSuccess ? error
                                : rt_return(rt_driver.cuFuncSetAttribute(
                                      function, (CUfunction_attribute)attribute, value));
}

cudaError_t cudaFuncSetCacheConfig(const void *stub, enum cudaFuncCache config)
{
    CUfunction function;
    cudaError_t error = rt_enter_function(stub, &function);

    return error != cudaSuccess
               ? error
               : rt_return(rt_driver.cuFuncSetCacheConfig(function, (CUfunc_cache)config));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *stub,
                                                                   int block_size,
                                                                   size_t shared_bytes,
                                                                   unsigned int flags)
{
    CUfunction function;
    cudaError_t error = rt_enter_function(stub, &function);

    return error != cudaSuccess
               ? error
               : rt_return(rt_driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                     blocks, function, block_size, shared_bytes, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *stub,
                                                          int block_size, size_t shared_bytes)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, stub, block_size, shared_bytes, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *stub, int blocks,
                                                      int block_size)
{
    CUfunction function;
    cudaError_t error = rt_enter_function(stub, &function);

    return error != cudaSuccess ? error
                                : rt_return(rt_driver.cuOccupancyAvailableDynamicSMemPerBlock(
                                      bytes, function, blocks, block_size));
}
