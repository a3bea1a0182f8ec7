/* SPDX-License-Identifier: MIT */
/*
 * driver_saxpy [elements]: y = a x + y through the CUDA driver API and nothing else: a context of
 * its own, a module loaded from embedded PTX, explicit copies and cuLaunchKernel.
 */
#include <cuda.h>

#include "common.h"

/* driver_saxpy.cuh as PTX, by nvcc -ptx: a C string, as cuModuleLoadData wants. */
#include "driver_saxpy_ptx.h"

#define CHECK(call) check_cuda((call), #call)

static void check_cuda(CUresult error, const char *call)
{
    const char *name = NULL;

    if (error == CUDA_SUCCESS)
        return;
    cuGetErrorName(error, &name);
    fprintf(stderr, "%s: %s (%d)\n", call, name != NULL ? name : "unknown error", (int)error);
    exit(EXIT_CUDA);
}

static CUcontext create_context(void)
{
    CUdevice device;
    CUcontext context;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
#if CUDA_VERSION >= 13000
    CHECK(cuCtxCreate(&context, NULL, 0, device));
#else
    CHECK(cuCtxCreate(&context, 0, device));
#endif
    return context;
}

static void launch(CUfunction function, float a, CUdeviceptr x, CUdeviceptr y, unsigned n)
{
    const unsigned threads = 128;
    void *arguments[] = {&a, &x, &y, &n};

    CHECK(cuLaunchKernel(function, (n + threads - 1) / threads, 1, 1, threads, 1, 1, 0, NULL,
                         arguments, NULL));
    CHECK(cuCtxSynchronize());
}

/* All values are small whole numbers: exact with and without fused multiply-add. */
static int verify(const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (y[i] != 3.0f * (float)(i % 511) + (float)(i % 97))
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct report report = {.length = 0};
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr device_x, device_y;

    at_most_arguments(argc, argv, 1, "[elements]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 20, 1, (size_t)1 << 30);
    size_t bytes = n * sizeof(float);
    float *x = host_alloc(bytes);
    float *y = host_alloc(bytes);
    report_size(&report, "elements", n);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i % 511);
        y[i] = (float)(i % 97);
    }

    phase_begin(&report);
    context = create_context();
    CHECK(cuModuleLoadData(&module, driver_saxpy_ptx));
    CHECK(cuModuleGetFunction(&function, module, "saxpy"));
    phase_end(&report, "setup");

    CHECK(cuMemAlloc(&device_x, bytes));
    CHECK(cuMemAlloc(&device_y, bytes));
    CHECK(cuMemcpyHtoD(device_x, x, bytes));
    CHECK(cuMemcpyHtoD(device_y, y, bytes));
    phase_end(&report, "copy");

    launch(function, 3.0f, device_x, device_y, (unsigned)n);
    phase_end(&report, "kernel");

    CHECK(cuMemcpyDtoH(y, device_y, bytes));
    phase_end(&report, "result");

    int verified = verify(y, n);
    uint64_t checksum = fnv1a(FNV_START, y, bytes);
    CHECK(cuMemFree(device_x));
    CHECK(cuMemFree(device_y));
    CHECK(cuModuleUnload(module));
    CHECK(cuCtxDestroy(context));
    free(x);
    free(y);
    return report_print(&report, "driver_saxpy", checksum, verified);
}
