/* SPDX-License-Identifier: MIT */
/* A driver for device blocks of `shared` that refuses any call that it is told to. */
#ifndef TESTS_UNIT_SHARED_TEST_H
#define TESTS_UNIT_SHARED_TEST_H

#include "host_test.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE (6 * MIB)
#define UNIT ZC_HOST_UNIT

/* Device memory is a file, mapped where cuMemMap says. */
static unsigned driver_calls, driver_refuses; /* Which call since the count began; 0: none. */
static int live;       /* Addresses, memory, mappings and registrations that were not given back. */
static bool streaming; /* The stream of copies was made: it is kept. */
static CUcontext current = (CUcontext)0x1000;

static bool refused(void)
{
    return ++driver_calls == driver_refuses;
}

static CUresult answer(int balance)
{
    if (refused())
        return CUDA_ERROR_OUT_OF_MEMORY;
    live += balance;
    return CUDA_SUCCESS;
}

static void *map_raw(void *at, size_t n, int rights, int flags, int fd)
{
    return (void *)syscall(SYS_mmap, at, n, rights, flags, fd, 0);
}

static CUresult CUDAAPI not_supported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult CUDAAPI get_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_count(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute != CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS &&
             attribute != CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_granularity(size_t *bytes, const CUmemAllocationProp *prop,
                                        CUmemAllocationGranularity_flags flags)
{
    (void)prop, (void)flags;
    *bytes = UNIT;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_info(size_t *free_out, size_t *total)
{
    *free_out = *total = (size_t)1 << 40;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI synchronize(void)
{
    return answer(0);
}

static CUresult CUDAAPI reserve(CUdeviceptr *out, size_t n, size_t alignment, CUdeviceptr at,
                                unsigned long long flags)
{
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    (void)alignment, (void)at, (void)flags;
    if (answer(1) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t p = (uintptr_t)map_raw(NULL, n + UNIT, PROT_NONE, how, -1);
    *out = (p + UNIT - 1) / UNIT * UNIT; /* The rest stays; this is a test. */
    return CUDA_SUCCESS;
}

static CUdeviceptr mapped[2]; /* A block, and its memory elsewhere while it is filled. */

/* Mappings that the driver did not unmap before go with the addresses. */
static CUresult CUDAAPI give_addresses(CUdeviceptr at, size_t n)
{
    syscall(SYS_munmap, at, n);
    live -= 1 + (mapped[0] == at || mapped[1] == at);
    for (unsigned i = 0; i < 2; i++)
        mapped[i] = mapped[i] == at ? 0 : mapped[i];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI create(CUmemGenericAllocationHandle *out, size_t n,
                               const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)prop, (void)flags;
    if (answer(1) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUmemGenericAllocationHandle)memfd_create("device", 0);
    return ftruncate((int)*out, (off_t)n) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult CUDAAPI release(CUmemGenericAllocationHandle handle)
{
    close((int)handle);
    live--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI map(CUdeviceptr at, size_t n, size_t from, CUmemGenericAllocationHandle h,
                            unsigned long long flags)
{
    (void)from, (void)flags;
    if (answer(1) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapped[mapped[0] != 0] = at;
    map_raw((void *)at, n, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)h);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI unmap(CUdeviceptr at, size_t n)
{
    if (answer(-1) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapped[mapped[1] == at] = 0;
    map_raw((void *)at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI set_access(CUdeviceptr at, size_t n, const CUmemAccessDesc *who,
                                   size_t count)
{
    (void)who, (void)count;
    if (refused())
        return CUDA_ERROR_OUT_OF_MEMORY;
    return syscall(SYS_mprotect, at, n, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_UNKNOWN;
}

static bool read_only; /* The last that was registered. */

static CUresult CUDAAPI do_register(void *p, size_t n, unsigned flags)
{
    unsigned char pages[SIZE / 4096];
    read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
    assert_int_equal(n, SIZE);
    assert_int_equal(mincore(p, n, pages), 0);
    return answer(1);
}

static CUresult CUDAAPI do_unregister(void *p)
{
    (void)p;
    return answer(-1);
}

static CUresult CUDAAPI make_stream(CUstream *out, unsigned flags)
{
    (void)flags;
    *out = (CUstream)0x2000;
    assert_false(streaming);
    streaming = answer(0) == CUDA_SUCCESS;
    return streaming ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult CUDAAPI end_stream(CUstream stream)
{
    assert_ptr_equal(stream, (CUstream)0x2000);
    streaming = false;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI wait_stream(CUstream stream)
{
    (void)stream;
    return answer(0);
}

static CUresult CUDAAPI make_event(CUevent *out, unsigned flags)
{
    (void)flags;
    *out = (CUevent)0x3000;
    return answer(1);
}

static CUresult CUDAAPI record_event(CUevent event, CUstream stream)
{
    (void)event;
    return wait_stream(stream);
}

static CUresult CUDAAPI query_event(CUevent event)
{
    return wait_stream((CUstream)event);
}

static CUresult CUDAAPI end_event(CUevent event)
{
    assert_ptr_equal(event, (CUevent)0x3000);
    live--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI copy(CUdeviceptr to, const void *from, size_t n, CUstream stream)
{
    (void)stream;
    if (refused())
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy((void *)to, from, n);
    return CUDA_SUCCESS;
}

static void start_driver(void)
{
    void **function = (void **)&zc_real;
    for (size_t i = 0; i < sizeof(zc_real) / sizeof(*function); i++)
        function[i] = (void *)(uintptr_t)not_supported;
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuDeviceGetCount = get_count;
    zc_real.cuDeviceGetAttribute = get_attribute;
    zc_real.cuMemGetAllocationGranularity = get_granularity;
    zc_real.cuMemGetInfo_v2 = get_info;
    zc_real.cuCtxSynchronize = synchronize;
    zc_real.cuMemAddressReserve = reserve;
    zc_real.cuMemAddressFree = give_addresses;
    zc_real.cuMemCreate = create;
    zc_real.cuMemRelease = release;
    zc_real.cuMemMap = map;
    zc_real.cuMemUnmap = unmap;
    zc_real.cuMemSetAccess = set_access;
    zc_real.cuMemHostRegister_v2 = do_register;
    zc_real.cuMemHostUnregister = do_unregister;
    zc_real.cuStreamCreate = make_stream;
    zc_real.cuStreamDestroy_v2 = end_stream;
    zc_real.cuStreamSynchronize = zc_real.cuStreamQuery = wait_stream;
    zc_real.cuEventCreate = make_event;
    zc_real.cuEventRecord = record_event;
    zc_real.cuEventQuery = zc_real.cuEventSynchronize = query_event;
    zc_real.cuEventDestroy_v2 = end_event;
    zc_real.cuMemcpyHtoDAsync_v2 = copy;
}

#endif
