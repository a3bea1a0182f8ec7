/* SPDX-License-Identifier: MIT */
/* Times a transfer and the kernel behind it, through the driver API: managed_speed WHAT MIB, where
 * WHAT is `copy` (device memory, copied from pinned memory), `apart` (the same, but kernels start
 * when the copy has ended), `fresh` (device memory that kernels are the first to touch) or
 * `by_hand` (managed memory that the CPU wrote, prefetched).  Prints lines "NAME VALUE" in
 * microseconds.  Exits with 77 where there is no GPU that runs PTX. */
#include <stdint.h>
#include <string.h>

#define REPEATS 15
#define THREADS 256

#define DRIVER(X)                                                                                  \
    COMMON_CALLS(X)                                                                                \
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

#include "speed.h"

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
static int apart; /* Kernels start when the copy has ended. */
static int fresh; /* Nothing is copied. */
static size_t bytes;

static void start(void)
{
    CUmodule module;
    start_driver();
    if (!cu.cuMemPrefetchAsync_v2)
        exit(77);
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
        else if (!fresh)
            CHECK(cuMemcpyHtoDAsync_v2, block, host, bytes, NULL);
        if (apart)
            CHECK(cuCtxSynchronize);
        double there = now();
        launch(block);
        CHECK(cuCtxSynchronize);
        double used = now();
        launch(block);
        CHECK(cuCtxSynchronize);
        double end = now();
        if (i < 0) {
            printf("first %.1f\ncold %.1f\n", (used - t) * 1e3, (used - there) * 1e3);
            continue;
        }
        both[i] = (used - t) * 1e3;
        alone[i] = (end - used) * 1e3;
    }
    printf("pair %.1f\nkernel %.1f\n", median(both, REPEATS), median(alone, REPEATS));
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
    apart = argc > 1 && !strcmp(argv[1], "apart");
    fresh = argc > 1 && !strcmp(argv[1], "fresh");
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
    if (!fresh)
        verify(block);
    return 0;
}
