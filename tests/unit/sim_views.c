/* SPDX-License-Identifier: MIT */
/* Two page tables: what the CPU does to its side of pinned memory does not reach the GPU's, and the
 * GPU's rights do not bind the CPU. */
#include "sim_views.h"
#include <stdio.h>
#include <pthread.h>

static void kernels_and_copies_go_on_where_the_cpu_may_touch_nothing(void **state)
{
    volatile int *p = pinned(0);
    (void)state;
    assert_int_equal(0, mprotect((void *)p, PAGE, PROT_NONE));
    assert_int_equal(7, gpu_reads(p));
    ok(gpu_writes(p, 8));
    assert_int_equal(8, dma_reads(p));
    ok(cuMemsetD32_v2(at(p), 9, 1));
    assert_int_equal(0, mprotect((void *)p, PAGE, PROT_READ | PROT_WRITE));
    assert_int_equal(9, *p);
    release(p);
}

static void a_page_that_replaces_another_is_the_cpus_alone(void **state)
{
    volatile int *p = pinned(0), *other = pages(PAGE);
    (void)state;
    *other = 8;
    assert_ptr_equal(p, move(other, p));
    assert_int_equal(8, *p);
    assert_int_equal(7, gpu_reads(p));
    assert_int_equal(7, dma_reads(p));
    ok(gpu_writes(p, 9));
    assert_int_equal(8, *p);
    ok(cuMemHostUnregister((void *)p));
    assert_int_equal(8, *p);
    munmap((void *)p, 2 * PAGE);
}

static void a_page_moves_aside_and_back(void **state)
{
    volatile int *p = pinned(0), *aside = pages(PAGE), *other = pages(PAGE);
    (void)state;
    *other = 8;
    assert_ptr_equal(aside, move(p, aside));
    assert_ptr_equal(p, move(other, p));
    *aside = 5;
    assert_int_equal(5, gpu_reads(p));
    ok(gpu_writes(p, 6));
    assert_int_equal(6, *aside);
    assert_int_equal(8, *p);
    assert_int_equal(6, dma_reads(aside)); /* by the CPU's page table: nobody registered it */
    memcpy((void *)aside, (void *)p, PAGE);
    assert_ptr_equal(p, move(aside, p));
    assert_int_equal(8, gpu_reads(p));
    *p = 10;
    assert_int_equal(10, gpu_reads(p));
    release(p);
}

static void pages_that_the_cpu_dropped_stay_the_gpus_until_they_are_unregistered(void **state)
{
    volatile int *p = pinned(0);
    (void)state;
    munmap((void *)p, 2 * PAGE);
    assert_int_equal(7, gpu_reads(p));
    ok(gpu_writes(p, 8));
    assert_int_equal(8, dma_reads(p));
    ok(cuMemHostUnregister((void *)p));
    assert_null(sim_gpu_pointer(at(p)));
}

static void pages_that_the_cpu_needs_no_more_are_zeroes_to_it_and_stay_the_gpus(void **state)
{
    volatile int *p = pinned(0), *second = p + PAGE / 4;
    (void)state;
    *second = 8;
    assert_int_equal(0, madvise((void *)p, PAGE, MADV_FREE));
    assert_int_equal(7, *p);
    assert_int_equal(-1, madvise((void *)p, PAGE, MADV_REMOVE));
    assert_int_equal(0, madvise((void *)p, PAGE, MADV_DONTNEED));
    assert_int_equal(0, *p);
    assert_int_equal(8, *second);
    *p = 9;
    assert_int_equal(7, gpu_reads(p));
    assert_int_equal(7, dma_reads(p));
    assert_int_equal(8, gpu_reads(second));
    ok(cuMemHostUnregister((void *)p));
    ok(cuMemHostRegister_v2((void *)p, 2 * PAGE, 0));
    assert_int_equal(9, gpu_reads(p));
    assert_int_equal(8, gpu_reads(second));
    release(p);
}

static void pages_that_the_cpu_removed_from_a_file_stay_the_gpus(void **state)
{
    volatile int *p =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *second = p + PAGE / 4;
    (void)state;
    *p = 7;
    ok(cuMemHostRegister_v2((void *)p, 2 * PAGE, 0));
    assert_int_equal(0, madvise((void *)p, PAGE, MADV_REMOVE));
    assert_int_equal(0, *p);
    *p = 9;
    assert_int_equal(7, gpu_reads(p));
    *second = 8;
    assert_int_equal(8, gpu_reads(second));
    ok(cuMemHostUnregister((void *)p));
    munmap((void *)p, 2 * PAGE);
}

static void memory_from_the_driver_has_two_sides_as_well(void **state)
{
    volatile int *p;
    (void)state;
    ok(cuMemHostAlloc((void **)&p, 4 * 4096, 0));
    assert_int_equal(0, *p);
    *p = 7;
    assert_int_equal(0, mprotect((void *)p, 4096, PROT_NONE));
    assert_int_equal(7, gpu_reads(p));
    ok(gpu_writes(p, 8));
    assert_int_equal(0, mprotect((void *)p, 4096, PROT_READ));
    assert_int_equal(8, *p);
    ok(cuMemFreeHost((void *)p));
    ok(cuMemAllocHost_v2((void **)&p, 4096));
    munmap((void *)p, 4096);
    ok(gpu_writes(p, 9));
    assert_int_equal(9, gpu_reads(p));
    ok(cuMemFreeHost((void *)p));
}

static void a_copy_into_memory_registered_for_reading_is_refused(void **state)
{
    volatile int *p = pinned(CU_MEMHOSTREGISTER_READ_ONLY);
    int value = 8;
    (void)state;
    assert_int_equal(7, gpu_reads(p));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy(at(p), at(&value), 4));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(at(p), 8, 1));
    *p = 9;
    assert_int_equal(9, dma_reads(p));
    release(p);
}

static void what_the_cpu_may_only_read_can_only_be_registered_for_reading(void **state)
{
    volatile int *p = pages(2 * PAGE), *aside = pages(PAGE);
    (void)state;
    *p = 7;
    mprotect((void *)p, 2 * PAGE, PROT_READ);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2((void *)p, 2 * PAGE, 0));
    ok(cuMemHostRegister_v2((void *)p, 2 * PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    assert_int_equal(7, gpu_reads(p));
    assert_ptr_equal(aside, move(p, aside));
    mprotect((void *)aside, PAGE, PROT_READ | PROT_WRITE);
    *aside = 8;
    assert_int_equal(8, gpu_reads(p));
    mprotect((void *)(p + PAGE / 4), PAGE, PROT_NONE);
    assert_int_equal(0, gpu_reads(p + PAGE / 4));
    munmap((void *)aside, PAGE);
    ok(cuMemHostUnregister((void *)p));
    refused(CUDA_ERROR_INVALID_VALUE,
            cuMemHostRegister_v2((void *)p, 2 * PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    munmap((void *)p, 2 * PAGE);
}

static void neighbours_in_one_page_come_and_go_by_themselves(void **state)
{
    char *p = (char *)pages(3 * 4096);
    (void)state;
    ok(cuMemHostRegister_v2(p, 6000, 0));
    ok(cuMemHostRegister_v2(p + 6000, 6000, 0));
    strcpy(p + 5000, "left");
    strcpy(p + 7000, "right");
    ok(cuMemHostUnregister(p));
    assert_string_equal("right", sim_gpu_pointer(at(p + 7000)));
    strcpy(p + 7000, "still");
    assert_string_equal("still", sim_gpu_pointer(at(p + 7000)));
    assert_string_equal("left", p + 5000);
    ok(cuMemHostUnregister(p + 6000));
    assert_string_equal("still", p + 7000);
    munmap(p, 3 * 4096);
}

static void memory_that_is_shared_already_stays_what_it_is(void **state)
{
    volatile int *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    (void)state;
    ok(cuMemHostRegister_v2((void *)p, PAGE, 0));
    pid_t pid = fork();
    if (pid == 0) {
        *p = 7;
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(7, gpu_reads(p));
    mprotect((void *)p, PAGE, PROT_NONE);
    ok(gpu_writes(p, 8));
    mprotect((void *)p, PAGE, PROT_READ);
    assert_int_equal(8, *p);
    ok(cuMemHostUnregister((void *)p));
    munmap((void *)p, PAGE);
}

static void a_stack_can_be_registered(void **state)
{
    int value[1024] = {7};
    (void)state;
    ok(cuMemHostRegister_v2(value, sizeof value, 0));
    assert_int_equal(7, gpu_reads(value));
    ok(gpu_writes(value, 8));
    assert_int_equal(8, *(volatile int *)value);
    ok(cuMemHostUnregister(value));
    assert_int_equal(8, *(volatile int *)value);
}

/* Of a child: 0 where its pages hold what they did. */
static int look(volatile int *p, volatile int *aside, volatile int *from_driver)
{
    if (p[PAGE / 4] != 8 || *aside != 7 || *from_driver != 9)
        return 1;
    p[PAGE / 4] = *aside = *from_driver = 1;
    return p[PAGE / 4] == 1 && *aside == 1 && *from_driver == 1 ? 0 : 2;
}

static void a_forked_child_has_registered_pages_of_its_own_and_shares_the_drivers(void **state)
{
    volatile int *p = pinned(0), *aside = pages(PAGE), *from_driver;
    (void)state;
    ok(cuMemHostAlloc((void **)&from_driver, 4096, 0));
    *from_driver = 9;
    p[PAGE / 4] = 8;
    assert_ptr_equal(aside, move(p, aside));
    mprotect((void *)(p + PAGE / 4), PAGE, PROT_NONE);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            usleep(5000); /* the parent writes meanwhile */
            mprotect((void *)(p + PAGE / 4), PAGE, PROT_READ | PROT_WRITE);
            _exit(look(p, aside, from_driver));
        }
        *aside = 70;
        waitpid(pid, &status, 0);
        assert_int_equal(0, status);
        assert_int_equal(1, gpu_reads(from_driver));
        assert_int_equal(70, *aside);
        assert_int_equal(70, gpu_reads(p));
        *aside = 7;
        *from_driver = 9;
    }
    ok(cuMemFreeHost((void *)from_driver));
    munmap((void *)aside, PAGE);
    ok(cuMemHostUnregister((void *)p));
    munmap((void *)(p + PAGE / 4), PAGE);
}

static void *room;  /* where a child may map what it likes, */
static int *mapped; /* and what it mapped there, ahead of the driver's handler */

static void map_in_the_child(void)
{
    if (!room)
        return;
    mapped = mmap(room, 4096, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != MAP_FAILED)
        *mapped = 7;
}

static void a_child_loses_nothing_where_its_parents_view_was_of_pages_that_it_has_not(void **state)
{
    volatile int *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    (void)state;
    assert_int_equal(0, madvise((void *)p, PAGE, MADV_DONTFORK));
    ok(cuMemHostRegister_v2((void *)p, PAGE, 0));
    room = sim_gpu_pointer(at(p));
    pid_t pid = fork();
    if (pid == 0)
        _exit(mapped != MAP_FAILED && *mapped != 7);
    room = NULL;
    waitpid(pid, &status, 0);
    assert_int_equal(0, status);
    ok(cuMemHostUnregister((void *)p));
    munmap((void *)p, PAGE);
}

static void copies_within_a_graph_take_the_gpus_view(void **state)
{
    volatile int *p = pinned(0), *other = pages(PAGE);
    CUdeviceptr from = at(p);
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode copy, kernel;
    CUcontext ctx;
    CUDA_MEMCPY3D shape = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .WidthInBytes = 4,
                           .Height = 1,
                           .Depth = 1};
    CUdeviceptr second;
    void *args[] = {&from, &second};
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = load,
                                         .gridDimX = 1,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = 1,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = args};
    int got[2] = {0};
    (void)state;
    ok(cuCtxGetCurrent(&ctx));
    ok(cuMemAlloc_v2(&out, 8));
    second = out + 4;
    shape.srcDevice = from;
    shape.dstDevice = out;
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &shape, ctx));
    ok(cuGraphAddKernelNode_v2(&kernel, graph, &copy, 1, &params));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    *other = 8;
    assert_ptr_equal(p, move(other, p));
    ok(cuGraphLaunch(exec, NULL));
    ok(cuMemcpyDtoH_v2(got, out, 8));
    assert_int_equal(7, got[0]);
    assert_int_equal(7, got[1]);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuMemFree_v2(out));
    release(p);
}

/* Views in /proc/self/maps, the GPU's side and the CPU's. */
static size_t view_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    size_t count = 0;
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "sim-registered") != NULL;
    fclose(maps);
    return count;
}

/* Pages of malloc's heap have what the driver keeps of blocks, too. */
static void a_child_changes_nothing_in_pages_that_it_shares_with_its_parent(void **state)
{
    enum { BLOCKS = 50, BYTES = 10000 };
    char *block[BLOCKS];
    int status;
    (void)state;
    size_t before = view_mappings();
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BYTES);
        ok(cuMemHostRegister_v2(block[i], BYTES, 0));
    }
    size_t made = view_mappings() - before;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, &status, 0);
    for (int i = 0; i < BLOCKS; i++)
        ok(cuMemHostUnregister(block[i]));
    assert_true(view_mappings() - before <= made / 2);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(kernels_and_copies_go_on_where_the_cpu_may_touch_nothing),
        sim_test(a_page_that_replaces_another_is_the_cpus_alone),
        sim_test(a_page_moves_aside_and_back),
        sim_test(pages_that_the_cpu_dropped_stay_the_gpus_until_they_are_unregistered),
        sim_test(pages_that_the_cpu_needs_no_more_are_zeroes_to_it_and_stay_the_gpus),
        sim_test(pages_that_the_cpu_removed_from_a_file_stay_the_gpus),
        sim_test(memory_from_the_driver_has_two_sides_as_well),
        sim_test(a_copy_into_memory_registered_for_reading_is_refused),
        sim_test(what_the_cpu_may_only_read_can_only_be_registered_for_reading),
        sim_test(neighbours_in_one_page_come_and_go_by_themselves),
        sim_test(memory_that_is_shared_already_stays_what_it_is),
        sim_test(a_stack_can_be_registered),
        sim_test(a_forked_child_has_registered_pages_of_its_own_and_shares_the_drivers),
        sim_test(a_child_loses_nothing_where_its_parents_view_was_of_pages_that_it_has_not),
        sim_test(a_child_changes_nothing_in_pages_that_it_shares_with_its_parent),
        sim_test(copies_within_a_graph_take_the_gpus_view),
    };
    pthread_atfork(NULL, NULL, map_in_the_child); /* ahead of cuInit's */
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, NULL);
}
