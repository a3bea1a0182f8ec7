/* SPDX-License-Identifier: MIT */
/* Device memory of the simulated driver: addresses, sizes, misuse, what a kernel can reach. */
#include "sim_test.h"
#include <signal.h>
#include <sys/mman.h>

static void cpu_touching_device_memory_gets_SIGSEGV(void **state)
{
    CUdeviceptr d;
    int status;
    (void)state;
    ok(cuMemAlloc_v2(&d, 4096));
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile char *)(uintptr_t)d);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    ok(cuMemFree_v2(d));
}

static void blocks_are_aligned_hold_garbage_and_have_exact_ranges(void **state)
{
    CUdeviceptr a, b, base;
    size_t size;
    unsigned char seen[1000];
    (void)state;
    ok(cuMemAlloc_v2(&a, 1000));
    ok(cuMemAlloc_v2(&b, 1));
    assert_int_equal(0, a % 512);
    assert_int_equal(0, b % 512);
    ok(cuMemcpyDtoH_v2(seen, a, sizeof seen));
    assert_int_equal(0xA5, seen[0]);
    assert_int_equal(0xA5, seen[999]);
    ok(cuMemGetAddressRange_v2(&base, &size, a + 999));
    assert_int_equal(a, base);
    assert_int_equal(1000, size);
    ok(cuMemFree_v2(a));
    ok(cuMemFree_v2(b));
}

static void misuse_of_blocks_is_refused_as_the_driver_refuses_it(void **state)
{
    CUdeviceptr d;
    char host[8] = {0};
    (void)state;
    refused(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&d, 0));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&d, 0, CU_MEM_ATTACH_GLOBAL));
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&d, (size_t)1 << 40));
    ok(cuMemAlloc_v2(&d, 4096));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d + 512));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(d + 4090, host, sizeof host));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(d, 0, 4097));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, host, 8));
    ok(cuMemFree_v2(d));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(d, host, sizeof host));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2((CUdeviceptr)(uintptr_t)host));
    ok(cuMemFree_v2(0));
}

static void memory_info_is_exact_and_out_of_memory_is_told(void **state)
{
    size_t before, now, total;
    CUdeviceptr big, rest;
    (void)state;
    ok(cuMemGetInfo_v2(&before, &total));
    assert_int_equal(total, before);
    ok(cuMemAlloc_v2(&big, total - 2 * MIB));
    ok(cuMemGetInfo_v2(&now, NULL));
    assert_int_equal(2 * MIB, now);
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&rest, 4 * MIB));
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&rest, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemFree_v2(big));
    ok(cuMemGetInfo_v2(&now, NULL));
    assert_int_equal(before, now);
}

static void a_freed_block_is_no_longer_mapped_for_the_gpu(void **state)
{
    CUdeviceptr d;
    (void)state;
    ok(cuMemAlloc_v2(&d, 100));
    assert_non_null(sim_gpu_pointer(d + 99));
    assert_non_null(sim_gpu_pointer(d + 100)); /* Its page is mapped as a whole. */
    assert_null(sim_gpu_pointer(d + 2 * MIB));
    ok(cuMemFree_v2(d));
    assert_null(sim_gpu_pointer(d));
}

static void registered_memory_keeps_its_rights_and_its_codes(void **state)
{
    CUdeviceptr d, mapped;
    unsigned flags;
    char *host = aligned_alloc(4096, 8192);
    (void)state;
    memset(host, 7, 8192);
    assert_null(sim_gpu_pointer((CUdeviceptr)(uintptr_t)host));
    refused(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
    ok(cuMemHostRegister_v2(host, 8192, CU_MEMHOSTREGISTER_READ_ONLY));
    refused(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(host + 4096, 4096, 0));
    ok(cuMemHostGetDevicePointer_v2(&mapped, host + 5, 0));
    assert_int_equal((uintptr_t)host + 5, mapped);
    ok(cuMemHostGetFlags(&flags, host));
    assert_int_equal(CU_MEMHOSTALLOC_DEVICEMAP, flags);
    assert_int_equal(7, *(char *)sim_gpu_pointer(mapped - 5));
    assert_null(sim_gpu_pointer_write(mapped));
    ok(cuMemAlloc_v2(&d, 8192));
    ok(cuMemcpyHtoD_v2(d, host, 8192));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, d, 8192));
    ok(cuCtxSynchronize());
    ok(cuMemHostUnregister(host));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
    ok(cuMemFree_v2(d));
    free(host);
}

/* Of pages 1 to 3 of a block all but the first and the last 100 bytes are registered. */
static void a_registration_ends_by_its_first_byte_alone(void **state)
{
    static char page[5][4096] __attribute__((aligned(4096)));
    char *first = page[1] + 100, *end = page[4] - 100;
    char *const inside[] = {first + 1, page[2] - 1, page[2], page[2] + 100, end - 1};
    char *const beside[] = {page[1], first - 1, end, page[4] - 1, page[4]};
    (void)state;
    ok(cuMemHostRegister_v2(first, (size_t)(end - first), 0));
    for (int i = 0; i < 5; i++) {
        refused(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(inside[i]));
        refused(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(beside[i]));
    }
    ok(cuMemHostUnregister(first));
    refused(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(first));
}

/* Of memory that the driver knows, and of none; as measured on an H200. */
static void refuses_to_end(CUdeviceptr d, void *pinned)
{
    void *const known[] = {NULL, (void *)d, (void *)(d + 4 * MIB - 1), pinned, (char *)pinned + 1};
    void *const unknown[] = {(void *)(d - 1), (void *)(d + 4 * MIB), (char *)pinned + MIB, &d};
    for (int i = 0; i < 5; i++)
        refused(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(known[i]));
    for (int i = 0; i < 4; i++) {
        refused(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(unknown[i]));
        refused(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(unknown[i]));
        refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2((CUdeviceptr)unknown[i]));
    }
    ok(cuMemFreeHost(NULL));
    ok(cuMemFree_v2(0));
}

static void what_is_not_registered_is_refused_without_a_context_too(void **state)
{
    CUcontext context;
    CUdeviceptr d;
    void *pinned;
    (void)state;
    ok(cuMemAlloc_v2(&d, 4 * MIB));
    ok(cuMemHostAlloc(&pinned, MIB, 0));
    refuses_to_end(d, pinned);
    ok(cuCtxPopCurrent_v2(&context));
    refuses_to_end(d, pinned);
    ok(cuCtxPushCurrent_v2(context));
    ok(cuMemFree_v2(d));
    refused(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister((void *)d));
    ok(cuMemFreeHost(pinned));
}

static void pointer_attributes_tell_each_kind_of_memory(void **state)
{
    CUdeviceptr d, m;
    void *h;
    unsigned type, managed = 0;
    int ordinal = 5, host = 3;
    CUpointer_attribute two[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *out[] = {&type, &ordinal};
    (void)state;
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemAllocManaged(&m, 64, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemHostAlloc(&h, 64, 0));
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
    assert_int_equal(CU_MEMORYTYPE_DEVICE, type);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)h));
    assert_int_equal(CU_MEMORYTYPE_HOST, type);
    ok(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m));
    assert_int_equal(1, managed & 0xff);
    ok(cuPointerGetAttributes(2, two, out, (CUdeviceptr)(uintptr_t)&host));
    assert_int_equal(0, type);
    assert_int_equal(CU_DEVICE_INVALID, ordinal);
    refused(CUDA_ERROR_INVALID_VALUE,
            cuPointerGetAttribute(&type, two[0], (CUdeviceptr)(uintptr_t)&host));
    ok(cuMemFree_v2(d));
    ok(cuMemFree_v2(m));
    ok(cuMemFreeHost(h));
}

static void advice_and_ipc_want_the_right_kind_of_memory(void **state)
{
    CUdeviceptr d, m, opened;
    CUipcMemHandle handle;
    int last;
    (void)state;
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemAllocManaged(&m, 64, CU_MEM_ATTACH_GLOBAL));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(d, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(d, 64, 0, NULL));
    refused(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(m, 64, 77, NULL));
    ok(cuMemPrefetchAsync(m, 64, CU_DEVICE_CPU, NULL));
    ok(cuMemRangeGetAttribute(&last, sizeof last, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, m,
                              64));
    assert_int_equal(CU_DEVICE_CPU, last);
    ok(cuIpcGetMemHandle(&handle, d));
    refused(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&opened, handle, 1));
    refused(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, m));
    ok(cuMemFree_v2(d));
    ok(cuMemFree_v2(m));
}

/* Measured on an H200: MAPPING_SIZE of a block of 1000 bytes is 2 MiB. */
static void small_host_blocks_share_mappings(void **state)
{
    char *p[3], *q;
    (void)state;
    ok(cuMemHostAlloc((void **)&p[0], 1000, 0));
    ok(cuMemHostAlloc((void **)&p[1], 8, 0));
    ok(cuMemHostAlloc((void **)&p[2], 5000, 0));
    assert_int_equal(1024, p[1] - p[0]);
    assert_int_equal(4096, p[2] - p[0]);
    size_t mapping = 0;
    ok(cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                             (CUdeviceptr)(uintptr_t)p[1]));
    assert_int_equal(2 << 20, mapping);
    memset(p[2], 7, 5000);
    munmap(p[2], 8192);
    ok(cuMemFreeHost(p[2]));
    ok(cuMemHostAlloc((void **)&q, 5000, 0));
    assert_ptr_equal(p[2], q);
    assert_int_equal(0, q[4999]);
    ok(cuMemFreeHost(q));
    ok(cuMemFreeHost(p[1]));
    ok(cuMemFreeHost(p[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(cpu_touching_device_memory_gets_SIGSEGV),
        sim_test(blocks_are_aligned_hold_garbage_and_have_exact_ranges),
        sim_test(misuse_of_blocks_is_refused_as_the_driver_refuses_it),
        sim_test(memory_info_is_exact_and_out_of_memory_is_told),
        sim_test(a_freed_block_is_no_longer_mapped_for_the_gpu),
        sim_test(registered_memory_keeps_its_rights_and_its_codes),
        sim_test(a_registration_ends_by_its_first_byte_alone),
        sim_test(what_is_not_registered_is_refused_without_a_context_too),
        sim_test(pointer_attributes_tell_each_kind_of_memory),
        sim_test(advice_and_ipc_want_the_right_kind_of_memory),
        sim_test(small_host_blocks_share_mappings),
    };
    return sim_main(tests);
}
