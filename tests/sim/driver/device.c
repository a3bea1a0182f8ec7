/* SPDX-License-Identifier: MIT */
/* Devices: how many, how large, and their attributes. */
#include "hmm.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct sim_device sim_devices[SIM_MAX_DEVICES];
int sim_device_count;

/* Attributes that are not 0; those of one H200, as far as policies read them. HMM and ATS have
 * others (hmm.h). */
static const struct {
    int attribute; /* CUdevice_attribute */
    int value;     /* what cuDeviceGetAttribute gives */
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, SIM_MAX_PITCH},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4194304},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
#if CUDA_VERSION >= 13000
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
#endif
};

static const char *attribute_text; /* SIM_ATTR, read by cuInit */

/* SIM_ATTR is a list "<number>=<value>,...". */
static bool attribute_override(int attribute, int *value)
{
    const char *text = attribute_text;
    int number, wanted, used;
    while (text && sscanf(text, "%d=%d%n", &number, &wanted, &used) == 2) {
        if (number == attribute) {
            *value = wanted;
            return true;
        }
        text += used;
        if (*text++ != ',')
            break;
    }
    return false;
}

static int environment(const char *name, int fallback, int low, int high)
{
    const char *text = getenv(name);
    int value = text ? atoi(text) : fallback;
    return value < low ? low : value > high ? high : value;
}

/* Memory that all processes have of each device, in the file of that name; NULL without one. */
static size_t *devices_beside(const char *name)
{
    const size_t bytes = SIM_MAX_DEVICES * sizeof(size_t);
    int fd = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    void *at = fd >= 0 && !ftruncate(fd, (off_t)bytes)
                   ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                   : MAP_FAILED;
    if (name && at == MAP_FAILED)
        abort();
    if (fd >= 0)
        close(fd);
    return name ? at : NULL;
}

void sim_devices_end(void)
{
    for (int d = 0; d < sim_device_count; d++)
        __atomic_fetch_sub(sim_devices[d].used, sim_devices[d].own, __ATOMIC_RELAXED);
}

CUresult sim_devices_start(void)
{
    attribute_text = getenv("SIM_ATTR");
    sim_hmm_start();
    sim_device_count = environment("SIM_DEVICES", 1, 0, SIM_MAX_DEVICES);
    if (sim_device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    size_t *beside = devices_beside(getenv("SIM_BESIDE"));
    for (int d = 0; d < sim_device_count; d++) {
        sim_devices[d].alone = d ? (size_t)environment("SIM_TAKEN_MIB", 0, 0, 1 << 20) << 20 : 0;
        sim_devices[d].used = beside ? &beside[d] : &sim_devices[d].alone;
        sim_devices[d].total = (size_t)environment("SIM_MEMORY_MIB", 1024, 2, 1 << 20) << 20;
    }
    CUresult r = sim_memory_start();
    if (r == CUDA_SUCCESS) {
        sim_pools_start();
        sim_guard_start();
    }
    return r;
}

bool sim_device_valid(CUdevice dev)
{
    return dev >= 0 && dev < sim_device_count;
}

CUresult sim_device_attribute(int *value, int attribute, int device)
{
    if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute_override(attribute, value) || sim_hmm_attribute(attribute, value))
        return CUDA_SUCCESS;
    *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = device + 1;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    return CUDA_SUCCESS;
}

bool sim_supports(int device, CUdevice_attribute attribute)
{
    int value;
    return sim_device_attribute(&value, (int)attribute, device) == CUDA_SUCCESS && value != 0;
}

SIM_API(cuDeviceGetCount, (int *count), (count))
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGet, (CUdevice * dev, int ordinal), (dev, ordinal))
{
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = ordinal;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice dev),
        (value, attribute, dev))
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return sim_device_attribute(value, (int)attribute, dev);
}

SIM_API(cuDeviceGetName, (char *name, int size, CUdevice dev), (name, size, dev))
{
    if (!name || size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)size, "Simulated GPU (libzc tests)");
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), (bytes, dev))
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = sim_devices[dev].total;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceComputeCapability, (int *major, int *minor, CUdevice dev), (major, minor, dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_device_attribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
    return sim_device_attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

SIM_API(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), (uuid, dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "simulated GPU", 13);
    uuid->bytes[15] = (char)dev;
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuDeviceGetUuid, body_cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), (uuid, dev))

SIM_API(cuDeviceGetPCIBusId, (char *text, int size, CUdevice dev), (text, size, dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!text || size < 13)
        return CUDA_ERROR_INVALID_VALUE;
    const char *begin = getenv("SIM_BUS");
    snprintf(text, (size_t)size, "%s%02x:00.0", begin ? begin : "ffff:", dev + 1);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetByPCIBusId, (CUdevice * dev, const char *text), (dev, text))
{
    unsigned domain, bus;
    if (!dev || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x", &domain, &bus) != 2 || !sim_device_valid((int)bus - 1))
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (int)bus - 1;
    return CUDA_SUCCESS;
}
