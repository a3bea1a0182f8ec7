/* SPDX-License-Identifier: MIT */
/* One request of each kind that is granted, and one that the driver refuses. */
#include "program.h"

#define KIB ((size_t)1 << 10)

#define REFUSED(name, call)                                                                        \
    do {                                                                                           \
        sim_fail(name, CUDA_ERROR_OUT_OF_MEMORY, 0);                                               \
        EXPECT((call) == CUDA_ERROR_OUT_OF_MEMORY);                                                \
        sim_fail(NULL, CUDA_SUCCESS, 0);                                                           \
    } while (0)

int main(void)
{
    CUdeviceptr device, pooled, managed, rows;
    size_t pitch;
    void *host, *portable, *own = aligned_alloc(4096, 64 * KIB);
    start_gpu(0);
    CHECK(cuMemAlloc(&device, 1 * KIB));
    REFUSED("cuMemAlloc_v2", cuMemAlloc(&device, 1 * KIB));
    CHECK(cuMemAllocAsync(&pooled, 2 * KIB, NULL));
    REFUSED("cuMemAllocAsync", cuMemAllocAsync(&pooled, 2 * KIB, NULL));
    CHECK(cuMemAllocManaged(&managed, 3 * KIB, CU_MEM_ATTACH_GLOBAL));
    REFUSED("cuMemAllocManaged", cuMemAllocManaged(&managed, 3 * KIB, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAllocPitch(&rows, &pitch, 512, 8, 4));
    REFUSED("cuMemAllocPitch_v2", cuMemAllocPitch(&rows, &pitch, 512, 8, 4));
    CHECK(cuMemAllocHost(&host, 5 * KIB));
    REFUSED("cuMemAllocHost_v2", cuMemAllocHost(&host, 5 * KIB));
    CHECK(cuMemHostAlloc(&portable, 6 * KIB, CU_MEMHOSTALLOC_PORTABLE));
    REFUSED("cuMemHostAlloc", cuMemHostAlloc(&portable, 6 * KIB, 0));
    CHECK(cuMemHostRegister(own, 64 * KIB, 0));
    CHECK(cuCtxSynchronize());
    return 0;
}
