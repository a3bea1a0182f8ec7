/* SPDX-License-Identifier: MIT */
/* copies KIND TIMES: copies 8 MiB of host memory to the device so many times. KIND is where they
 * lie: heap, map (memory that is not malloc's), or pinned. Prints the byte that came back last. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)8 << 20)

static char *host_memory(const char *kind)
{
    void *host = NULL;

    if (!strcmp(kind, "heap"))
        return malloc(BYTES);
    if (!strcmp(kind, "pinned"))
        return cuMemHostAlloc(&host, BYTES, 0) == CUDA_SUCCESS ? host : NULL;
    host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return host == MAP_FAILED ? NULL : host;
}

int main(int argc, char **argv)
{
    int times = argc > 2 ? atoi(argv[2]) : 1;
    CUdeviceptr table;
    CUcontext context;
    char *host, last = 0;

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&table, BYTES) != CUDA_SUCCESS ||
        (host = host_memory(argc > 1 ? argv[1] : "heap")) == NULL)
        return 1;
    memset(host, 7, BYTES);
    for (int i = 0; i < times; i++)
        if (cuMemcpyHtoD(table, host, BYTES) != CUDA_SUCCESS)
            return 1;
    if (cuMemcpyDtoH(&last, table + BYTES - 1, 1) != CUDA_SUCCESS)
        return 1;
    printf("%d\n", last);
    return 0;
}
