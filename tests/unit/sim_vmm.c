/* SPDX-License-Identifier: MIT */
/* Virtual memory management of the simulated driver: rights, sizes, what is left behind. */
#include "sim_test.h"

static const CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
static const CUmemLocation cpu = {CU_MEM_LOCATION_TYPE_HOST, 0};

static CUmemGenericAllocationHandle handle_at(CUmemLocation at, size_t size, int shared)
{
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = at};
    p.requestedHandleTypes = shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    ok(cuMemCreate(&h, size, &p, 0));
    return h;
}

static void set_access(CUdeviceptr va, size_t size, CUmemLocation at, CUmemAccess_flags flags)
{
    CUmemAccessDesc d = {at, flags};
    ok(cuMemSetAccess(va, size, &d, 1));
}

static void a_mapping_has_the_rights_that_were_given(void **state)
{
    CUdeviceptr va;
    char byte = 3;
    CUmemGenericAllocationHandle h = handle_at(gpu, 2 * MIB, 0);
    (void)state;
    ok(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
    ok(cuMemMap(va, 2 * MIB, 0, h, 0));
    assert_null(sim_gpu_pointer(va));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(va, &byte, 1));
    set_access(va, 2 * MIB, gpu, CU_MEM_ACCESS_FLAGS_PROT_READ);
    assert_non_null(sim_gpu_pointer(va));
    assert_null(sim_gpu_pointer_write(va));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(va, &byte, 1));
    set_access(va, 2 * MIB, gpu, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemcpyHtoD_v2(va, &byte, 1));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(va, 4 * MIB));
    ok(cuMemUnmap(va, 2 * MIB));
    assert_null(sim_gpu_pointer(va));
    ok(cuMemRelease(h));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemRelease(h));
    ok(cuMemAddressFree(va, 4 * MIB));
}

static void mappings_side_by_side_are_one_range_for_copies(void **state)
{
    CUdeviceptr va;
    CUmemGenericAllocationHandle a = handle_at(gpu, 2 * MIB, 0), b = handle_at(gpu, 2 * MIB, 0);
    char in[64], out[64];
    (void)state;
    memset(in, 5, sizeof in);
    ok(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
    ok(cuMemMap(va, 2 * MIB, 0, b, 0));
    ok(cuMemMap(va + 2 * MIB, 2 * MIB, 0, a, 0));
    set_access(va, 4 * MIB, gpu, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemcpyHtoD_v2(va + 2 * MIB - 32, in, 64));
    ok(cuMemcpyDtoH_v2(out, va + 2 * MIB - 32, 64));
    assert_memory_equal(in, out, 64);
    ok(cuMemUnmap(va, 4 * MIB));
    ok(cuMemAddressFree(va, 4 * MIB));
    ok(cuMemRelease(a));
    ok(cuMemRelease(b));
}

static void host_memory_answers_as_measured(void **state)
{
    CUdeviceptr va, base = 1;
    size_t size = 0;
    int ordinal = -1;
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
    (void)state;
    p.allocFlags.gpuDirectRDMACapable = 1;
    refused(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 2 * MIB, &p, 0));
    p.allocFlags.gpuDirectRDMACapable = 0;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    ok(cuMemCreate(&h, 2 * MIB, &p, 0));
    ok(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    ok(cuMemMap(va, 2 * MIB, 0, h, 0));
    ok(cuMemRelease(h));
    p.location = cpu;
    refused(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 2 * MIB, &p, 0));
    set_access(va, 2 * MIB, gpu, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemGetAddressRange_v2(&base, &size, va + 5));
    assert_true(base == 0 && size == 2 * MIB);
    ok(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, va));
    assert_int_equal(0, ordinal);
    ok(cuMemUnmap(va, 2 * MIB));
    ok(cuMemAddressFree(va, 2 * MIB));
}

static void sizes_are_multiples_of_the_granularity_and_handles_whole(void **state)
{
    CUdeviceptr va;
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = gpu};
    size_t granularity;
    (void)state;
    ok(cuMemGetAllocationGranularity(&granularity, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(2 * MIB, granularity);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 4096, &p, 0));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&va, 4096, 0, 0, 0));
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&h, (size_t)1 << 40, &p, 0));
    h = handle_at(gpu, 4 * MIB, 0);
    ok(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
    refused(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(va, 2 * MIB, 0, h, 0));
    ok(cuMemRelease(h));
    ok(cuMemAddressFree(va, 4 * MIB));
}

static void host_memory_is_one_for_cpu_and_gpu_and_pageable_without_gpu_rights(void **state)
{
    CUdeviceptr va, d;
    CUmemGenericAllocationHandle h = handle_at(cpu, 2 * MIB, 0);
    (void)state;
    ok(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    ok(cuMemMap(va, 2 * MIB, 0, h, 0));
    set_access(va, 2 * MIB, cpu, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    int *host = (int *)(uintptr_t)va;
    *host = 42;
    assert_null(sim_gpu_pointer(va));
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuMemcpyHtoD_v2(d, host, 4));
    set_access(va, 2 * MIB, gpu, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    assert_int_equal(42, *(int *)sim_gpu_pointer(va));
    *(int *)sim_gpu_pointer(va) = 43;
    assert_int_equal(43, *host);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(host, 4096, 0));
    ok(cuMemUnmap(va, 2 * MIB));
    ok(cuMemAddressFree(va, 2 * MIB));
    ok(cuMemRelease(h));
    ok(cuMemFree_v2(d));
}

static void handles_go_through_a_file_descriptor_if_they_were_made_for_it(void **state)
{
    int fd;
    CUmemGenericAllocationHandle h = handle_at(gpu, 2 * MIB, 0), again;
    CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    (void)state;
    refused(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, h, type, 0));
    ok(cuMemRelease(h));
    h = handle_at(gpu, 2 * MIB, 1);
    ok(cuMemExportToShareableHandle(&fd, h, type, 0));
    ok(cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)fd, type));
    assert_int_equal(h, again);
    close(fd);
    ok(cuMemRelease(h));
    assert_int_equal(1, sim_leaks(SIM_LEAK_HANDLE));
    ok(cuMemRelease(h));
}

static void what_is_left_is_counted_by_class(void **state)
{
    CUdeviceptr va;
    CUmemGenericAllocationHandle h = handle_at(gpu, 2 * MIB, 0);
    (void)state;
    ok(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    ok(cuMemMap(va, 2 * MIB, 0, h, 0));
    assert_int_equal(1, sim_leaks(SIM_LEAK_HANDLE));
    assert_int_equal(1, sim_leaks(SIM_LEAK_RESERVATION));
    assert_int_equal(1, sim_leaks(SIM_LEAK_MAPPING));
    assert_int_equal(3, sim_leaks(SIM_LEAK_CLASSES));
    ok(cuMemRelease(h));
    ok(cuMemUnmap(va, 2 * MIB));
    ok(cuMemAddressFree(va, 2 * MIB));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(a_mapping_has_the_rights_that_were_given),
        sim_test(mappings_side_by_side_are_one_range_for_copies),
        sim_test(host_memory_answers_as_measured),
        sim_test(sizes_are_multiples_of_the_granularity_and_handles_whole),
        sim_test(host_memory_is_one_for_cpu_and_gpu_and_pageable_without_gpu_rights),
        sim_test(handles_go_through_a_file_descriptor_if_they_were_made_for_it),
        sim_test(what_is_left_is_counted_by_class),
    };
    return sim_main(tests);
}
