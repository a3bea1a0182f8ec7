/* SPDX-License-Identifier: MIT */
/* A program that copies a table to the device again and again, for the lines that reports name. */
#include <cuda.h>
#include <stdlib.h>

#define BYTES (4 << 20)
#define TIMES 8

/* As a runtime that is linked statically: its frames are the program's own. */
static CUresult cudaStandIn(CUdeviceptr *table)
{
    CUresult result = cuMemAlloc(table, BYTES);

    return result;
}

static CUdeviceptr load_table(const void *host)
{
    CUdeviceptr table;

    if (cudaStandIn(&table) != CUDA_SUCCESS)
        exit(1);
    for (int i = 0; i < TIMES; i++)
        cuMemcpyHtoD(table, host, BYTES);
    return table;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    void *host = calloc(1, BYTES);

    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) ||
        host == NULL)
        return 1;
    cuMemFree(load_table(host));
    free(host);
    return 0;
}
