/*
 * Asks the CUDA driver what the simulated GPU has to imitate: error codes, pointer attributes, which
 * calls wait for what, and what a stream capture allows.  Prints one line a fact, without addresses
 * and times, so that two drivers can be compared by comparing their output.
 *
 *   driver_facts      ends with status 77 where no driver answers
 *
 * The facts themselves are the rows of driver_facts.def.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define HOST_BYTES (16 * MIB)
#define WAIT_NS 300000000L /* How long pending work lasts when a call waits for it. */

/* Device 0 and what the rows allocate on it. */
static CUdevice device;
static CUcontext context;
static CUstream stream, second, apart; /* Two blocking streams and a non-blocking one. */
static CUevent event;
static CUmemoryPool pool;
static CUdeviceptr a, b, m, p, q, v, y, z;
static void *h, *other, *nothing;
static char *pages, *spare; /* Pageable memory, HOST_BYTES each, page-aligned. */
static size_t pitch, bytes;
static unsigned flags;
static int number;
static CUipcMemHandle ipc;
static CUmemGenericAllocationHandle handle;
static const CUmemLocation on_device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
static const CUmemAllocationProp properties = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    .allocFlags = {.gpuDirectRDMACapable = 1},
};
static const CUmemAccessDesc access_of_device = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static const char *code(long long result)
{
    const char *name = NULL;

    return cuGetErrorName((CUresult)result, &name) == CUDA_SUCCESS ? name : "unknown code";
}

/* Bytes of device memory that went since the first call. */
static long long free_bytes_taken(void)
{
    static size_t first;
    size_t left = 0, total;

    cuMemGetInfo(&left, &total);
    if (first == 0)
        first = left;
    return (long long)(first - left);
}

static long long pool_bytes(CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    return cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? (long long)value : -1;
}

static CUresult set_sync_memops(CUdeviceptr pointer)
{
    int on = 1;

    return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer);
}

static CUresult record_and_wait(CUstream where)
{
    CUresult result = cuEventRecord(event, where);

    return result == CUDA_SUCCESS ? cuEventSynchronize(event) : result;
}
