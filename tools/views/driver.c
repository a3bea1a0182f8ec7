/* SPDX-License-Identifier: MIT */
/* The CUDA driver, for zc-views. */
#include "tools/views/driver.h"

#include <dlfcn.h>

#include "tools/views/kernels.h"

struct view_driver driver;
CUdeviceptr view_out;
CUstream view_stream;
static CUfunction functions[VIEW_KERNELS];

const char *view_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return dlerror();
#define FIND(name)                                                                                 \
    if (!(driver.name = (__typeof__(driver.name))dlsym(library, #name)))                           \
        return "the driver has no " #name;
    VIEW_CALLS(FIND)
#undef FIND
    driver.cuMemPrefetchAsync =
        (__typeof__(driver.cuMemPrefetchAsync))dlsym(library, "cuMemPrefetchAsync");
    return driver.cuInit(0) == CUDA_SUCCESS ? NULL : "cuInit fails";
}

static bool has(int number, CUdevice_attribute attribute)
{
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, attribute, number) == CUDA_SUCCESS && value;
}

struct view_device view_device(int number)
{
    bool tables = has(number, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
    return (struct view_device){
        .number = number,
        .reaches = tables || has(number, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
        .tables = tables,
        .read_only = has(number, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)};
}

void view_must(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS)
        view_wrong("%s returned %d", call, (int)result);
}

static void load_kernels(void)
{
    static const char *const names[VIEW_KERNELS] = {
        [VIEW_COPY] = "view_copy",
        [VIEW_FILL] = "view_fill",
        [VIEW_WATCH] = "view_watch",
        [VIEW_COUNT] = "view_count",
    };
    CUmodule module;
    MUST(cuModuleLoadData, &module, view_kernels);
    for (int i = 0; i < VIEW_KERNELS; i++)
        MUST(cuModuleGetFunction, &functions[i], module, names[i]);
}

void view_start(const struct view_device *device, size_t bytes)
{
    CUcontext context;
    MUST(cuDevicePrimaryCtxRetain, &context, device->number);
    MUST(cuCtxSetCurrent, context);
    MUST(cuStreamCreate, &view_stream, CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc_v2, &view_out, bytes);
    load_kernels();
}

CUresult view_launch(enum view_kernel kernel, CUstream stream, void **arguments)
{
    bool one = kernel == VIEW_WATCH || kernel == VIEW_COUNT;
    return driver.cuLaunchKernel(functions[kernel], one ? 1 : 64, 1, 1, one ? 1 : 256, 1, 1, 0,
                                 stream, arguments, NULL);
}
