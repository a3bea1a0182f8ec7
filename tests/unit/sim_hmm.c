/* SPDX-License-Identifier: MIT */
/* Machines whose GPUs reach all host memory, by HMM or ATS, and machines that do wrong what libzc
 * relies on: each in a process of its own, because the driver reads the environment once. */
#include "sim_views.h"
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* A preloaded library's change to the flags of UVM_INITIALIZE, and whether the driver asked. */
static uint64_t added_flags;
static int initialised;

/* PROCMAP_QUERY, which tells of a mapping the inode in word INODE of 13; and one that stands for
 * another. */
#define QUERY _IOWR('f', 17, uint64_t[13])
#define INODE 8
static uint64_t inode, stands_for;

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    uint64_t *argument = va_arg(list, uint64_t *);
    va_end(list);
    if (request == 0x30000001) {
        initialised++;
        *argument |= added_flags;
    }
    int result = (int)syscall(SYS_ioctl, fd, request, argument);
    if (request == QUERY && result == 0 && inode && argument[INODE] == inode)
        argument[INODE] = stands_for;
    return result;
}

static void on_machine(const char *environment, void (*scene)(void))
{
    sim_on_machine(environment, start, scene);
}

static volatile int *shared, *own, *view; /* one file: to write, private, to read */

static uint64_t inode_of(int fd)
{
    struct stat stat;
    assert_int_equal(0, fstat(fd, &stat));
    return stat.st_ino;
}

static volatile int *map(int fd, int rights, int sharing)
{
    void *p = mmap(NULL, PAGE, rights, sharing, fd, 0);
    assert_ptr_not_equal(MAP_FAILED, p);
    return p;
}

static void map_file(void)
{
    int fd = memfd_create("pages", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(0, ftruncate(fd, PAGE));
    shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
    own = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    view = map(fd, PROT_READ, MAP_SHARED);
    *shared = 7;
    close(fd);
}

static int attribute(CUdevice_attribute which)
{
    int value = -1;
    ok(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static void attributes_are(int pageable, int by_host_tables, int read_only)
{
    assert_int_equal(pageable, attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS));
    assert_int_equal(by_host_tables,
                     attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES));
    assert_int_equal(read_only, attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED));
}

/* The scenes. */
static void plain(void)
{
    volatile int *p = pages(PAGE);
    attributes_are(0, 0, 1);
    assert_int_equal(0, initialised);
    refused(CUDA_ERROR_ILLEGAL_ADDRESS, gpu_writes(p, 8));
}

static void kernels_and_copies_reach_all(void)
{
    volatile int *p = pages(PAGE);
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    *p = 7;
    assert_int_equal(7, gpu_reads(p));
    ok(gpu_writes(p, 8));
    assert_int_equal(8, *p);
    ok(cuMemAlloc_v2(&out, 4));
    ok(cuMemcpyDtoD_v2(out, at(p), 4));
    *p = 0;
    ok(cuMemcpyDtoD_v2(at(p), out, 4));
    assert_int_equal(8, *p);
    ok(cuMemsetD32_v2(at(p), 9, 1));
    ok(cuCtxSynchronize());
    assert_int_equal(9, *p);
    ok(cuMemAdvise_v2(at(p), PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
    ok(cuMemPrefetchAsync_v2(at(p), PAGE, here, 0, NULL));
}

static void hmm(void)
{
    attributes_are(1, 0, 0);
    assert_int_equal(1, initialised);
    kernels_and_copies_reach_all();
}

static void ats(void)
{
    attributes_are(1, 1, 0);
    assert_int_equal(0, initialised);
    kernels_and_copies_reach_all();
}

static void write_to_read_only(void)
{
    map_file();
    assert_int_equal(7, gpu_reads(view));
    refused(CUDA_ERROR_ILLEGAL_ADDRESS, gpu_writes(view, 8));
    assert_int_equal(7, *shared);
}

static void closed(void)
{
    volatile int *p = pages(PAGE);
    mprotect((void *)p, PAGE, PROT_NONE);
    refused(CUDA_ERROR_ILLEGAL_ADDRESS, gpu_writes(p, 8));
}

static void private_pages(void)
{
    map_file();
    *own = 8;
    assert_int_equal(8, gpu_reads(own));
    assert_int_equal(7, gpu_reads(view));
    ok(gpu_writes(own, 9));
    assert_int_equal(7, *shared);
}

static void registration(void)
{
    map_file();
    refused(CUDA_ERROR_NOT_SUPPORTED,
            cuMemHostRegister_v2((void *)view, PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    ok(cuMemHostRegister_v2((void *)shared, PAGE, 0));
    munmap((void *)shared, PAGE);
    assert_int_equal(7, gpu_reads(shared));
}

/* Device memory at an address of `where`, where the CPU has pages of its own. */
static volatile int *mapped_over_pages(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr d;
    ok(cuMemAddressReserve(&d, 2 * PAGE, 0, 0, 0));
    volatile int *p = mmap((void *)d, 2 * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    *p = 8;
    ok(cuMemCreate(&handle, PAGE, &prop, 0));
    ok(cuMemMap(d, PAGE, 0, handle, 0));
    ok(cuMemSetAccess(d, PAGE, &access, 1));
    ok(cuMemsetD32_v2(d, 7, 1));
    ok(cuCtxSynchronize());
    return p;
}

static void mappings_are_the_gpus(void)
{
    volatile int *p = mapped_over_pages();
    p[PAGE / 4] = 9;
    assert_int_equal(7, gpu_reads(p));
    assert_int_equal(8, *p);
    assert_int_equal(9, gpu_reads(p + PAGE / 4));
}

static void mappings_switch_ats_off_around_them(void)
{
    volatile int *p = mapped_over_pages();
    assert_int_equal(7, gpu_reads(p));
    refused(CUDA_ERROR_ILLEGAL_ADDRESS, gpu_writes(p + PAGE / 4, 8));
}

static void left_off(void)
{
    assert_int_equal(1, initialised);
    initialised = 0;
    plain();
}

static void left_off_and_refused(void)
{
    attributes_are(0, 0, 0);
    registration();
}

static void flag_without_effect(void)
{
    attributes_are(1, 0, 0);
    kernels_and_copies_reach_all();
}

static void parted(void)
{
    map_file();
    *own = 8;
    assert_int_equal(8, gpu_reads(view));
}

static void parted_though_registered(void)
{
    map_file();
    ok(cuMemHostRegister_v2((void *)view, PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    *own = 8;
    assert_int_equal(8, gpu_reads(view));
    assert_int_equal(8, dma_reads(view));
}

/* Numbers of inodes are a file system's own. */
static void parted_by_no_other_file(void)
{
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd = memfd_create("pages", 0);
    uint64_t query[13] = {sizeof query, 0, at(map(program, PROT_READ, MAP_PRIVATE))};
    assert_int_equal(0, ftruncate(fd, PAGE));
    shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
    *shared = 7;
    inode = inode_of(program);
    stands_for = inode_of(fd);
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (ioctl(maps, QUERY, query) == 0) /* Linux 6.11 */
        assert_true(query[INODE] == stands_for);
    assert_int_equal(7, gpu_reads(shared));
    ok(cuMemHostRegister_v2((void *)shared, PAGE, 0));
    assert_int_equal(7, dma_reads(shared));
}

static void upgraded(void)
{
    map_file();
    ok(gpu_writes(view, 8));
    assert_int_equal(8, *shared);
}

static void upgraded_though_registered(void)
{
    map_file();
    ok(cuMemHostRegister_v2((void *)view, PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    ok(gpu_writes(view, 8));
    assert_int_equal(8, *shared);
}

static void served(void)
{
    volatile int *p = mapped_over_pages();
    *p = 9;
    assert_int_equal(9, gpu_reads(p));
}

static void without_either_a_gpu_reaches_what_it_was_given(void **state)
{
    (void)state;
    on_machine("SIM_HMM=0", plain);
}

static void kernels_copies_and_sets_reach_all_host_memory(void **state)
{
    (void)state;
    on_machine("SIM_HMM=1", hmm);
    on_machine("SIM_ATS=1", ats);
}

static void the_cpus_page_table_decides(void **state)
{
    static void (*const scenes[])(void) = {write_to_read_only, closed, private_pages, registration};
    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        on_machine("SIM_HMM=1", scenes[i]);
        on_machine("SIM_ATS=1", scenes[i]);
    }
}

static void mapped_device_memory_is_never_taken_for_the_cpus(void **state)
{
    (void)state;
    on_machine("SIM_HMM=1", mappings_are_the_gpus);
    on_machine("SIM_ATS=1", mappings_switch_ats_off_around_them);
}

static void a_process_can_leave_hmm_off_and_not_ats(void **state)
{
    (void)state;
    added_flags = 1;
    on_machine("SIM_HMM=1", left_off);
    on_machine("SIM_ATS=1", ats);
    on_machine("SIM_HMM=1 SIM_WRONG=flag", flag_without_effect);
    on_machine("SIM_HMM=1 SIM_WRONG=refused", left_off_and_refused);
    added_flags = 0;
}

static void machines_can_be_wrong_in_each_step(void **state)
{
    (void)state;
    on_machine("SIM_HMM=1 SIM_WRONG=parted", parted);
    on_machine("SIM_ATS=1 SIM_WRONG=upgrade,parted", parted);
    on_machine("SIM_WRONG=parted", parted_though_registered);
    on_machine("SIM_HMM=1 SIM_WRONG=parted", parted_by_no_other_file);
    on_machine("SIM_HMM=1 SIM_WRONG=upgrade", upgraded);
    on_machine("SIM_WRONG=upgrade", upgraded_though_registered);
    on_machine("SIM_HMM=1 SIM_WRONG=served", served);
    on_machine("SIM_WRONG=served", served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_either_a_gpu_reaches_what_it_was_given),
        cmocka_unit_test(kernels_copies_and_sets_reach_all_host_memory),
        cmocka_unit_test(the_cpus_page_table_decides),
        cmocka_unit_test(mapped_device_memory_is_never_taken_for_the_cpus),
        cmocka_unit_test(a_process_can_leave_hmm_off_and_not_ats),
        cmocka_unit_test(machines_can_be_wrong_in_each_step),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
