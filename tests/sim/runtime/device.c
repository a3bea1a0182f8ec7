/* SPDX-License-Identifier: MIT */
/* Devices: how many, what they can do, and which versions runtime and driver have. */
#include "runtime.h"

#include <string.h>

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* No driver at all is version 0 and no error. */
cudaError_t cudaDriverGetVersion(int *version)
{
    if (version == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *version = 0;
    (void)rt_load();
    if (rt_driver.cuDriverGetVersion == NULL)
        return cudaSuccess;
    return rt_return(rt_driver.cuDriverGetVersion(version));
}

/* Needs no context. Without a device the count is 0, and the error says why. */
cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = rt_load();

    if (count == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *count = error == cudaSuccess ? rt_device_count() : 0;
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

/* The runtime's and the driver's device attributes have the same numbers. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = rt_load();
    CUdevice handle;

    if (error == cudaSuccess)
        error = rt_device(device, &handle);
    return error != cudaSuccess ? rt_fail(error)
                                : rt_return(rt_driver.cuDeviceGetAttribute(
                                      value, (CUdevice_attribute)attribute, handle));
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    cudaError_t error = rt_load();

    return error != cudaSuccess ? rt_fail(error)
                                : rt_return(rt_driver.cuDeviceGetPCIBusId(text, length, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    cudaError_t error = rt_load();

    return error != cudaSuccess ? rt_fail(error)
                                : rt_return(rt_driver.cuDeviceGetByPCIBusId(device, text));
}

/* A field of cudaDeviceProp that is one attribute of the driver's: an int, or widened to size_t. */
struct property {
    CUdevice_attribute attribute;
    size_t offset; /* of the field */
    size_t bytes;  /* size of the field */
};

#define PROPERTY(name, field)                                                                      \
    {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##name, offsetof(struct cudaDeviceProp, field),                        \
            sizeof(((struct cudaDeviceProp *)NULL)->field)                                         \
    }

static const struct property properties[] = {
    PROPERTY(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
    PROPERTY(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
    PROPERTY(WARP_SIZE, warpSize),
    PROPERTY(MAX_PITCH, memPitch),
    PROPERTY(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
    PROPERTY(MAX_BLOCK_DIM_X, maxThreadsDim[0]),
    PROPERTY(MAX_BLOCK_DIM_Y, maxThreadsDim[1]),
    PROPERTY(MAX_BLOCK_DIM_Z, maxThreadsDim[2]),
    PROPERTY(MAX_GRID_DIM_X, maxGridSize[0]),
    PROPERTY(MAX_GRID_DIM_Y, maxGridSize[1]),
    PROPERTY(MAX_GRID_DIM_Z, maxGridSize[2]),
    PROPERTY(TOTAL_CONSTANT_MEMORY, totalConstMem),
    PROPERTY(COMPUTE_CAPABILITY_MAJOR, major),
    PROPERTY(COMPUTE_CAPABILITY_MINOR, minor),
    PROPERTY(TEXTURE_ALIGNMENT, textureAlignment),
    PROPERTY(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
    PROPERTY(MULTIPROCESSOR_COUNT, multiProcessorCount),
    PROPERTY(INTEGRATED, integrated),
    PROPERTY(CAN_MAP_HOST_MEMORY, canMapHostMemory),
    PROPERTY(CONCURRENT_KERNELS, concurrentKernels),
    PROPERTY(ECC_ENABLED, ECCEnabled),
    PROPERTY(PCI_BUS_ID, pciBusID),
    PROPERTY(PCI_DEVICE_ID, pciDeviceID),
    PROPERTY(PCI_DOMAIN_ID, pciDomainID),
    PROPERTY(ASYNC_ENGINE_COUNT, asyncEngineCount),
    PROPERTY(UNIFIED_ADDRESSING, unifiedAddressing),
    PROPERTY(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
    PROPERTY(L2_CACHE_SIZE, l2CacheSize),
    PROPERTY(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
    PROPERTY(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
    PROPERTY(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
    PROPERTY(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
    PROPERTY(MANAGED_MEMORY, managedMemory),
    PROPERTY(HOST_NATIVE_ATOMIC_SUPPORTED, hostNativeAtomicSupported),
    PROPERTY(PAGEABLE_MEMORY_ACCESS, pageableMemoryAccess),
    PROPERTY(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
    PROPERTY(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
    PROPERTY(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
    PROPERTY(COOPERATIVE_LAUNCH, cooperativeLaunch),
    PROPERTY(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
    PROPERTY(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, pageableMemoryAccessUsesHostPageTables),
    PROPERTY(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, directManagedMemAccessFromHost),
    PROPERTY(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
    PROPERTY(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
    PROPERTY(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
    PROPERTY(READ_ONLY_HOST_REGISTER_SUPPORTED, hostRegisterReadOnlySupported),
    PROPERTY(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
    PROPERTY(MEMPOOL_SUPPORTED_HANDLE_TYPES, memoryPoolSupportedHandleTypes),
    PROPERTY(IPC_EVENT_SUPPORTED, ipcEventSupported),
};

static CUresult read_properties(CUdevice device, struct cudaDeviceProp *p)
{
    CUresult result = rt_driver.cuDeviceGetName(p->name, sizeof(p->name), device);

    if (result == CUDA_SUCCESS)
        result = rt_driver.cuDeviceGetUuid((CUuuid *)&p->uuid, device);
    if (result == CUDA_SUCCESS)
        result = rt_driver.cuDeviceTotalMem(&p->totalGlobalMem, device);
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
        char *field = (char *)p + properties[i].offset;
        int value = 0;

        if (result != CUDA_SUCCESS)
            break;
        result = rt_driver.cuDeviceGetAttribute(&value, properties[i].attribute, device);
        if (properties[i].bytes == sizeof(int))
            memcpy(field, &value, sizeof(value));
        else
            *(size_t *)field = (size_t)value;
    }
    return result;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties_out, int device)
{
    cudaError_t error = rt_load();
    CUdevice handle;

    if (error == cudaSuccess && properties_out == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_device(device, &handle);
    if (error != cudaSuccess)
        return rt_fail(error);
    memset(properties_out, 0, sizeof(*properties_out));
    return rt_return(read_properties(handle, properties_out));
}
