/* Times a transfer and the kernel behind it, through the driver API: managed_speed WHAT MIB, where
 * WHAT is `copy` (device memory, copied from pinned memory) or `by_hand` (managed memory that the
 * CPU wrote, prefetched).  Prints lines "NAME VALUE" in microseconds.  Exits with 77 where there is
 * no GPU that runs PTX. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS 15
#define THREADS 256

#define DRIVER(X)                                                                                  \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)                                                                              \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemPrefetchAsync_v2)                                                                       \
    X(cuMemcpyHtoDAsync_v2)                                                                        \
    X(cuMemcpyDtoH_v2)

static struct {
#define FIELD(name) __typeof__(name) *name;
    DRIVER(FIELD)
#undef FIELD
} cu;

/* add_one(p, n): adds 1 to each of n words. */
static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry add_one(.param .u64 p, .param .u64 n)\n{\n"
                          ".reg .pred %q;\n.reg .b32 %r<5>;\n.reg .b64 %d<6>;\n"
                          "ld.param.u64 %d1, [p];\nld.param.u64 %d2, [n];\n"
                          "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
                          "mad.wide.u32 %d3, %r1, %r2, 0;\ncvt.u64.u32 %d4, %r3;\n"
                          "add.s64 %d3, %d3, %d4;\nsetp.ge.u64 %q, %d3, %d2;\n@%q bra done;\n"
                          "cvta.to.global.u64 %d1, %d1;\nshl.b64 %d4, %d3, 2;\n"
                          "add.s64 %d5, %d1, %d4;\nld.global.u32 %r4, [%d5];\n"
                          "add.s32 %r4, %r4, 1;\nst.global.u32 [%d5], %r4;\ndone:\nret;\n}\n";

static CUfunction kernel;
static size_t bytes;

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(name, ...) check(#name, cu.name(__VA_ARGS__))

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void start(void)
{
    CUcontext context;
    CUmodule module;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle)
        exit(77);
#define FIND(name) cu.name = (__typeof__(name) *)dlsym(handle, #name);
    DRIVER(FIND)
    if (!cu.cuInit || !cu.cuMemPrefetchAsync_v2 || cu.cuInit(0) != CUDA_SUCCESS)
        exit(77);
    CHECK(cuDevicePrimaryCtxRetain, &context, 0);
    CHECK(cuCtxSetCurrent, context);
    CHECK(cuModuleLoadData, &module, ptx);
    if (cu.cuModuleGetFunction(&kernel, module, "add_one") != CUDA_SUCCESS)
        exit(77);
}

static void launch(CUdeviceptr p)
{
    size_t n = bytes / 4;
    void *args[] = {&p, &n};
    unsigned blocks = (unsigned)((n + THREADS - 1) / THREADS);
    CHECK(cuLaunchKernel, kernel, blocks, 1, 1, THREADS, 1, 1, 0, NULL, args, NULL);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, REPEATS, sizeof(*values), by_value);
    return values[REPEATS / 2];
}

/* The first round is the program's first use of its block, the others are what follows. */
static void rounds(uint32_t *host, CUdeviceptr block, int managed)
{
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    double both[REPEATS], alone[REPEATS];
    for (int i = -1; i < REPEATS; i++) {
        for (size_t w = 0; w < bytes / 4; w++)
            host[w] = (uint32_t)w;
        CHECK(cuCtxSynchronize);
        double t = now();
        if (managed)
            CHECK(cuMemPrefetchAsync_v2, block, bytes, device, 0, NULL);
        else
            CHECK(cuMemcpyHtoDAsync_v2, block, host, bytes, NULL);
        launch(block);
        CHECK(cuCtxSynchronize);
        double used = now();
        launch(block);
        CHECK(cuCtxSynchronize);
        double end = now();
        if (i < 0) {
            printf("first %.1f\n", used - t);
            continue;
        }
        both[i] = used - t;
        alone[i] = end - used;
    }
    printf("pair %.1f\nkernel %.1f\n", median(both), median(alone));
}

static void verify(CUdeviceptr block)
{
    uint32_t last = 0;
    CHECK(cuMemcpyDtoH_v2, &last, block + bytes - 4, 4);
    if (last != (uint32_t)(bytes / 4 - 1) + 2)
        exit(1);
}

int main(int argc, char **argv)
{
    CUdeviceptr block = 0;
    void *host = NULL;
    int managed = argc > 1 && !strcmp(argv[1], "by_hand");
    bytes = (size_t)((argc > 2 ? atof(argv[2]) : 64) * (1 << 20));
    start();
    if (managed) {
        CHECK(cuMemAllocManaged, &block, bytes, CU_MEM_ATTACH_GLOBAL);
        host = (void *)block;
    } else {
        CHECK(cuMemAlloc_v2, &block, bytes);
        CHECK(cuMemHostAlloc, &host, bytes, 0);
    }
    rounds(host, block, managed);
    verify(block);
    return 0;
}
