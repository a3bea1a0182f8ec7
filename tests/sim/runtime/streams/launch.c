/* SPDX-License-Identifier: MIT */
/* Kernel launches. */
#include "../runtime.h"

/* nvcc's generated code declares these; CUDA_API_PER_THREAD_DEFAULT_STREAM renames them by hand. */
#if RT_PER_THREAD
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream);

static cudaError_t launch(CUfunction function, dim3 grid, dim3 block, void **args,
                          size_t shared_bytes, cudaStream_t stream)
{
    return rt_return(rt_streams[RT_PER_THREAD].cuLaunchKernel(
        function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared_bytes, stream,
        args, NULL));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream)
{
    cudaError_t error = rt_enter();

    return error != cudaSuccess
               ? error
               : launch((CUfunction)kernel, grid, block, args, shared_bytes, stream);
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args,
                             size_t shared_bytes, cudaStream_t stream)
{
    CUfunction function;
    cudaError_t error = rt_enter_function(stub, &function);

    return error != cudaSuccess ? error : launch(function, grid, block, args, shared_bytes, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *stub, dim3 grid, dim3 block, void **args,
                                        size_t shared_bytes, cudaStream_t stream)
{
    CUfunction function;
    cudaError_t error = rt_enter_function(stub, &function);

    if (error != cudaSuccess)
        return error;
    return rt_return(rt_streams[RT_PER_THREAD].cuLaunchCooperativeKernel(
        function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared_bytes, stream,
        args));
}

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "one layout, two names");

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **args)
{
    CUfunction function;
    CUlaunchConfig launch_config;
    cudaError_t error = rt_enter_function(stub, &function);

    if (error != cudaSuccess)
        return error;
    if (config == NULL)
        return rt_fail(cudaErrorInvalidValue);
    launch_config = (CUlaunchConfig){
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    return rt_return(
        rt_streams[RT_PER_THREAD].cuLaunchKernelEx(&launch_config, function, args, NULL));
}
