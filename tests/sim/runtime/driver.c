/* SPDX-License-Identifier: MIT */
/*
 * The way to the driver: one dlopen, one dlsym, and cuGetProcAddress for all the rest, as NVIDIA's
 * runtime does it.
 */
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>

struct rt_driver rt_driver;
struct rt_streams rt_streams[2];

/* Destination of one request's answer; NULL for a request whose answer is not used. */
struct request {
    const char *name;
    int version;
    cuuint64_t flags;
    void *slot;
};

/* The first request of NVIDIA's runtime carries no name; interposers have to bear it. */
static const struct request requests[] = {
    {"", 0, CU_GET_PROC_ADDRESS_DEFAULT, NULL},
#define UNUSED(name, version) {#name, version, CU_GET_PROC_ADDRESS_DEFAULT, NULL},
#define DRIVER(name, version) {#name, version, CU_GET_PROC_ADDRESS_DEFAULT, &rt_driver.name},
#define STREAM(name, version, per_thread_version)                                                  \
    {#name, version, CU_GET_PROC_ADDRESS_DEFAULT, &rt_streams[0].name},                            \
        {#name, per_thread_version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,                 \
         &rt_streams[1].name},
#include "driver.def"
};

static CUdevice devices[RT_MAX_DEVICES];
static int device_count; /* set once, before any rt_load succeeds */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t load_error = cudaErrorInsufficientDriver;

/* Stands for an entry point that the driver lacks; what cudart says to a call it cannot make. */
static CUresult missing(void)
{
    return (CUresult)cudaErrorCallRequiresNewerDriver;
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    PFN_cuGetProcAddress_v12000 first;

    if (library == NULL)
        return;
    first = (PFN_cuGetProcAddress_v12000)(uintptr_t)dlsym(library, "cuGetProcAddress_v2");
    if (first == NULL)
        return;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const struct request *r = &requests[i];
        PFN_cuGetProcAddress_v12000 ask =
            rt_driver.cuGetProcAddress != NULL ? rt_driver.cuGetProcAddress : first;
        CUdriverProcAddressQueryResult status;
        void *answer = NULL;

        if (ask(r->name, &answer, r->version, r->flags, &status) != CUDA_SUCCESS || answer == NULL)
            answer = (void *)(uintptr_t)missing;
        if (r->slot != NULL)
            *(void **)r->slot = answer;
    }
    load_error = cudaSuccess;
}

static CUresult find_devices(void)
{
    int count = 0;
    CUresult result = rt_driver.cuDeviceGetCount(&count);

    for (int i = 0; i < count && i < RT_MAX_DEVICES && result == CUDA_SUCCESS; i++)
        result = rt_driver.cuDeviceGet(&devices[i], i);
    if (result == CUDA_SUCCESS)
        device_count = count < RT_MAX_DEVICES ? count : RT_MAX_DEVICES;
    return result == CUDA_SUCCESS && count == 0 ? CUDA_ERROR_NO_DEVICE : result;
}

/* A start that failed is tried again at the next call; threads that come together may both try. */
cudaError_t rt_load(void)
{
    static _Atomic bool ready;
    CUresult result;
    int version = 0;

    pthread_once(&once, load);
    if (load_error != cudaSuccess || ready)
        return load_error;
    result = rt_driver.cuDriverGetVersion(&version);
    if (result != CUDA_SUCCESS)
        return (cudaError_t)result;
    /* A driver of the same major release is enough ("CUDA Minor Version Compatibility"). */
    if (version / 1000 < CUDART_VERSION / 1000)
        return cudaErrorInsufficientDriver;
    result = rt_driver.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = find_devices();
    ready = result == CUDA_SUCCESS;
    return (cudaError_t)result;
}

int rt_device_count(void)
{
    return device_count;
}

cudaError_t rt_device(int ordinal, CUdevice *device_out)
{
    if (ordinal < 0 || ordinal >= device_count)
        return cudaErrorInvalidDevice;
    *device_out = devices[ordinal];
    return cudaSuccess;
}
