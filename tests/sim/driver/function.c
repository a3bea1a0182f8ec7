/* SPDX-License-Identifier: MIT */
/* Questions of a program about kernels: attributes, names, parameters, occupancy. */
#include "launch.h"

static CUresult attribute(int *value, CUfunction_attribute attr, const void *handle)
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!value || (unsigned)attr >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        break;
    default:
        *value = f->attributes[attr];
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(const void *handle, CUfunction_attribute attr, int value)
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned)attr >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    f->attributes[attr] = value;
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetAttribute, (int *value, CUfunction_attribute attr, CUfunction f), (value, attr, f))
{
    return attribute(value, attr, f);
}

SIM_API(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute attr, int value), (f, attr, value))
{
    return set_attribute(f, attr, value);
}

SIM_API(cuKernelGetAttribute, (int *value, CUfunction_attribute attr, CUkernel k, CUdevice dev),
        (value, attr, k, dev))
{
    return sim_device_valid(dev) ? attribute(value, attr, k) : CUDA_ERROR_INVALID_DEVICE;
}

SIM_API(cuKernelSetAttribute, (CUfunction_attribute attr, int value, CUkernel k, CUdevice dev),
        (attr, value, k, dev))
{
    return sim_device_valid(dev) ? set_attribute(k, attr, value) : CUDA_ERROR_INVALID_DEVICE;
}

SIM_API(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache config), (f, config))
{
    (void)config;
    return sim_function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuKernelSetCacheConfig, (CUkernel k, CUfunc_cache config, CUdevice dev), (k, config, dev))
{
    (void)config, (void)dev;
    return sim_function_of(k) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult name_of(const char **name, const void *handle)
{
    struct sim_function *f = sim_function_of(handle);
    if (!f || !name)
        return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *name = f->name;
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetName, (const char **name, CUfunction f), (name, f))
{
    return name_of(name, f);
}

SIM_API(cuKernelGetName, (const char **name, CUkernel k), (name, k))
{
    return name_of(name, k);
}

static CUresult param_info(const void *handle, size_t index, size_t *offset, size_t *size)
{
    struct sim_function *f = sim_function_of(handle);
    size_t at = 0;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= f->nparams || !offset)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i <= index; i++) {
        size_t align = f->sizes[i] >= 8 ? 8 : f->sizes[i];
        at = (at + align - 1) / align * align;
        *offset = at;
        at += f->sizes[i];
    }
    if (size)
        *size = f->sizes[index];
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetParamInfo, (CUfunction f, size_t index, size_t *offset, size_t *size),
        (f, index, offset, size))
{
    return param_info(f, index, offset, size);
}

SIM_API(cuKernelGetParamInfo, (CUkernel k, size_t index, size_t *offset, size_t *size),
        (k, index, offset, size))
{
    return param_info(k, index, offset, size);
}

static CUresult occupancy(int *blocks, CUfunction f, int block_size)
{
    if (!sim_function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!blocks || block_size <= 0 || block_size > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / block_size > 32 ? 32 : 2048 / block_size;
    return CUDA_SUCCESS;
}

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (int *blocks, CUfunction f, int block_size, size_t shared), (blocks, f, block_size, shared))
{
    (void)shared;
    return occupancy(blocks, f, block_size);
}

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int *blocks, CUfunction f, int block_size, size_t shared, unsigned int flags),
        (blocks, f, block_size, shared, flags))
{
    (void)shared, (void)flags;
    return occupancy(blocks, f, block_size);
}

static CUresult potential(int *grid, int *block, CUfunction f, int limit)
{
    if (!sim_function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!grid || !block)
        return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = 132 * (2048 / *block);
    return CUDA_SUCCESS;
}

SIM_API(cuOccupancyMaxPotentialBlockSize,
        (int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared,
         int limit),
        (grid, block, f, shared_of, shared, limit))
{
    (void)shared_of, (void)shared;
    return potential(grid, block, f, limit);
}

SIM_API(cuOccupancyMaxPotentialBlockSizeWithFlags,
        (int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared,
         int limit, unsigned int flags),
        (grid, block, f, shared_of, shared, limit, flags))
{
    (void)shared_of, (void)shared, (void)flags;
    return potential(grid, block, f, limit);
}
