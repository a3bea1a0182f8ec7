/* SPDX-License-Identifier: MIT */
/* Memory that another API allocated, and what a single GPU refuses: multicast objects. */
#include "sim_test.h"
#include <sys/mman.h>

static CUexternalMemory import(int *pages_of_file)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 2 * MIB};
    CUexternalMemory memory;
    int fd = memfd_create("external", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(0, ftruncate(fd, 2 * MIB));
    *pages_of_file = dup(fd);
    desc.handle.fd = fd;
    ok(cuImportExternalMemory(&memory, &desc));
    return memory;
}

static void its_buffers_are_device_memory_on_the_same_pages(void **state)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.offset = MIB, .size = 4096};
    CUdeviceptr d, base;
    size_t size;
    int file, type, value = 7;
    CUexternalMemory memory = import(&file);
    int *pages = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)state;
    ok(cuExternalMemoryGetMappedBuffer(&d, memory, &desc));
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
    assert_int_equal(CU_MEMORYTYPE_DEVICE, type);
    ok(cuMemGetAddressRange_v2(&base, &size, d + 100));
    assert_int_equal(4096, size);
    ok(cuMemcpyHtoD_v2(d, &value, sizeof value));
    assert_int_equal(7, pages[MIB / sizeof(int)]);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(d + 4095, &value, 2));
    ok(cuMemFree_v2(d));
    ok(cuDestroyExternalMemory(memory));
    refused(CUDA_ERROR_INVALID_HANDLE, cuExternalMemoryGetMappedBuffer(&d, memory, &desc));
    munmap(pages, 2 * MIB);
    close(file);
}

static void what_is_not_in_the_import_is_refused(void **state)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC other = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32,
                                              .size = MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.offset = MIB, .size = MIB + 1};
    CUexternalMemory memory;
    CUdeviceptr d;
    int file;
    (void)state;
    refused(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&memory, &other));
    memory = import(&file);
    refused(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&d, memory, &desc));
    ok(cuDestroyExternalMemory(memory));
    close(file);
}

static void one_gpu_makes_no_multicast_objects(void **state)
{
    CUmulticastObjectProp prop = {.numDevices = 1, .size = 2 * MIB};
    CUmemGenericAllocationHandle handle;
    int supported = 1;
    (void)state;
    ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    assert_int_equal(0, supported);
    refused(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, &prop));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(its_buffers_are_device_memory_on_the_same_pages),
        sim_test(what_is_not_in_the_import_is_refused),
        sim_test(one_gpu_makes_no_multicast_objects),
    };
    return sim_main(tests);
}
