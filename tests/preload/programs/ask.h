/* SPDX-License-Identifier: MIT */
/* Questions of a program about a block, printed with addresses made relative: the output must not
 * depend on where blocks really are. */
#ifndef ASK_H
#define ASK_H

#include <cuda_runtime_api.h>

#include "program.h"

static CUcontext context; /* The one that blocks are asked for in. */
static CUmemoryPool pool; /* The program's own, if it has one. */
static CUstream stream;   /* For calls that want one. */

/* Prints an address as what it is to the block. */
static inline void relative(const char *what, CUdeviceptr address, CUdeviceptr base, int code)
{
    if (code != 0)
        printf("  %s: code %d\n", what, code);
    else if (!address)
        printf("  %s: 0\n", what);
    else
        printf("  %s: base%+lld\n", what, (long long)(address - base));
}

/* Attributes whose values are addresses, handles or numbers that only have to be unique. */
static inline bool names_something(int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return true;
    default:
        return false;
    }
}

static inline void show_attributes(CUdeviceptr at)
{
    for (int a = 1; a <= 23; a++) {
        unsigned char value[16];
        memset(value, 0x5a, sizeof(value)); /* Zeroes have to be written. */
        CUresult result = cuPointerGetAttribute(value, (CUpointer_attribute)a, at);
        printf("  attribute %d: code %d", a, (int)result);
        for (int i = 0; result == CUDA_SUCCESS && !names_something(a) && i < 16; i++)
            printf(" %02x", value[i]);
        printf("\n");
    }
}

static inline void show_pointer_attributes(CUdeviceptr at, CUdeviceptr base)
{
    CUcontext owner = NULL;
    CUmemoryPool from = NULL;
    CUdeviceptr p = 0;
    int code = (int)cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at);
    printf("  context: code %d %s\n", code,
           owner == context ? "current"
           : owner          ? "other"
                            : "none");
    code = (int)cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at);
    printf("  pool: code %d %s\n", code, from == pool ? "mine" : from ? "default" : "none");
    code = (int)cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at);
    relative("device pointer", p, base, code);
    code = (int)cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_HOST_POINTER, at);
    relative("host pointer", p, base, code);
    code = (int)cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    relative("range start", p, base, code);
    code = (int)cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at);
    printf("  mapping begins before: code %d %d\n", code, code == 0 && p <= at);
}

static inline void show_many_attributes(CUdeviceptr at, CUdeviceptr base)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 77;
    CUdeviceptr device = 77, on_host = 77;
    int managed = 77, ordinal = 77;
    size_t size = 77;
    void *data[] = {&type, &device, &on_host, &managed, &ordinal, &size};
    printf("  all at once: code %d\n", (int)cuPointerGetAttributes(6, names, data, at));
    printf("  type %u managed %d ordinal %d size %zu\n", type, managed, ordinal, size);
    relative("device", device, base, 0);
    relative("host", on_host, base, 0);
    struct cudaPointerAttributes runtime = {.type = cudaMemoryTypeHost};
    int code = (int)cudaPointerGetAttributes(&runtime, (void *)at);
    printf("  runtime: code %d type %d device %d\n", code, (int)runtime.type, runtime.device);
    relative("runtime's device pointer", (CUdeviceptr)runtime.devicePointer, base, code);
    relative("runtime's host pointer", (CUdeviceptr)runtime.hostPointer, base, code);
    (void)cudaGetLastError();
}

static inline void show_range(CUdeviceptr at, CUdeviceptr base)
{
    CUdeviceptr start = 0;
    size_t size = 0;
    int code = (int)cuMemGetAddressRange(&start, &size, at);
    relative("address range", start, base, code);
    printf("  its size: %zu\n", size);
    SHOW(cuMemGetAddressRange(NULL, &size, at));
    SHOW(cuMemGetAddressRange(&start, NULL, at));
}

/* The advised location of managed memory; cuda.h changed the type with version 13. */
#if CUDA_VERSION >= 13000
#define FIRST_DEVICE ((CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE})
#define PREFETCH(at, bytes) cuMemPrefetchAsync(at, bytes, FIRST_DEVICE, 0, stream)
#else
#define FIRST_DEVICE ((CUdevice)0)
#define PREFETCH(at, bytes) cuMemPrefetchAsync(at, bytes, FIRST_DEVICE, stream)
#endif

#endif
