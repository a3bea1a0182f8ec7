/* SPDX-License-Identifier: MIT */
/* Copies that the driver makes with the caller's CPU: they take the CPU's view of pinned memory,
 * and what the CPU may not touch faults in the program. */
#include "sim_test.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#define PAGE (2 * MIB)        /* what is registered, and replaced */
#define SHORT ((size_t)24576) /* the longest copy that the driver makes with the CPU */

static CUdeviceptr device; /* PAGE bytes */
static CUstream stream;    /* not blocking */

static int start(void **state)
{
    sim_test_start(state);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    ok(cuMemAlloc_v2(&device, PAGE));
    return 0;
}

static int clean(void **state)
{
    ok(cuMemFree_v2(device));
    sim_fail(NULL, CUDA_SUCCESS, 0);
    (void)state;
    return sim_leaks(SIM_LEAK_CLASSES) == 1 ? 0 : -1; /* the stream */
}

#define copy_test(f) cmocka_unit_test_setup_teardown(f, fresh, clean)

static CUdeviceptr at(const volatile void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static char *pages(char value)
{
    char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(MAP_FAILED, p);
    memset(p, value, PAGE);
    return p;
}

/* Registered memory that holds 7 for the GPU and 8 for the CPU. */
static char *parted(void)
{
    char *p = pages(7), *other = pages(8);
    ok(cuMemHostRegister_v2(p, PAGE, 0));
    assert_ptr_equal(p, mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p));
    return p;
}

static void release(char *p)
{
    ok(cuMemHostUnregister(p));
    munmap(p, PAGE);
}

/* The byte that came to the device, the same in all `bytes` of it. */
static int arrived(size_t bytes)
{
    char *got = malloc(bytes);
    int value;
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH_v2(got, device, bytes));
    value = got[0];
    assert_memory_equal(got, got + 1, bytes - 1);
    free(got);
    return value;
}

static void short_copies_to_the_device_take_the_cpus_view_and_long_ones_the_gpus(void **state)
{
    char *p = parted();
    (void)state;
    ok(cuMemcpyHtoD_v2(device, p, SHORT));
    assert_int_equal(8, arrived(SHORT));
    ok(cuMemcpyHtoD_v2(device, p, SHORT + 1));
    assert_int_equal(7, arrived(SHORT + 1));
    ok(cuMemcpyHtoDAsync_v2(device, p, 2, stream));
    memset(p, 9, 2); /* read already */
    assert_int_equal(8, arrived(2));
    release(p);
}

static void copies_of_rows_take_the_gpus_view(void **state)
{
    char *p = parted();
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = p,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = device,
                          .dstPitch = 8,
                          .WidthInBytes = 8,
                          .Height = 4};
    (void)state;
    ok(cuMemcpy2D_v2(&rows));
    assert_int_equal(7, arrived(32));
    release(p);
}

static void CUDA_CB wait_for(void *go)
{
    while (!*(volatile int *)go)
        usleep(100);
}

static void short_copies_behind_other_work_take_the_gpus_view(void **state)
{
    char *p = parted();
    volatile int go = 0;
    (void)state;
    ok(cuLaunchHostFunc(stream, wait_for, (void *)&go));
    ok(cuMemcpyHtoDAsync_v2(device, p, 4, stream));
    go = 1;
    assert_int_equal(7, arrived(4));
    release(p);
}

static void copies_to_the_host_take_the_gpus_view(void **state)
{
    char *p = parted();
    (void)state;
    ok(cuMemsetD8_v2(device, 9, PAGE));
    ok(cuMemcpyDtoH_v2(p, device, 4));
    assert_int_equal(8, p[0]);
    assert_int_equal(9, *(char *)sim_gpu_pointer(at(p)));
    release(p);
}

static void copies_from_host_to_host_take_the_cpus_view_of_both(void **state)
{
    char *from = parted(), *to = parted();
    (void)state;
    memset(from, 5, PAGE);
    ok(cuMemcpy(at(to), at(from), PAGE));
    assert_int_equal(5, to[PAGE - 1]);
    assert_int_equal(7, *(char *)sim_gpu_pointer(at(to)));
    release(from);
    release(to);
}

static void a_graph_of_one_copy_reads_as_the_copy_does(void **state)
{
    char *p = parted();
    CUgraph graph;
    CUgraphExec exec;
    volatile int go = 0;
    (void)state;
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ok(cuMemcpyHtoDAsync_v2(device, p, 4, stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, stream));
    assert_int_equal(8, arrived(4));
    ok(cuLaunchHostFunc(stream, wait_for, (void *)&go));
    ok(cuGraphLaunch(exec, stream));
    go = 1;
    assert_int_equal(7, arrived(4));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    release(p);
}

static char *closed;            /* PAGE bytes that the CPU may not touch */
static pthread_t toucher;       /* who touched them */
static volatile CUresult asked; /* what the driver answered within the fault handler */

static void open_pages(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if ((uintptr_t)info->si_addr - (uintptr_t)closed >= PAGE)
        _exit(3);
    toucher = pthread_self();
    asked = cuStreamQuery(stream);
    mprotect(closed, PAGE, PROT_READ | PROT_WRITE);
}

static void close_pages(char *p)
{
    closed = p;
    toucher = 0;
    asked = CUDA_ERROR_UNKNOWN;
    assert_int_equal(0, mprotect(p, PAGE, PROT_NONE));
}

/* Checks that the caller, and nobody else, touched the pages since they were closed. */
static void touched(void)
{
    assert_true(pthread_equal(pthread_self(), toucher));
    ok(asked);
}

static void what_the_cpu_may_not_touch_faults_in_the_program(void **state)
{
    struct sigaction action = {.sa_sigaction = open_pages, .sa_flags = SA_SIGINFO}, before;
    char *p = pages(5), *pinned;
    (void)state;
    ok(cuMemHostAlloc((void **)&pinned, PAGE, 0));
    sigaction(SIGSEGV, &action, &before);
    close_pages(p);
    ok(cuMemcpyHtoD_v2(device, p, PAGE));
    touched();
    assert_int_equal(5, arrived(PAGE));
    close_pages(p);
    ok(cuMemcpyHtoDAsync_v2(device, p, PAGE, stream));
    touched();
    assert_int_equal(5, arrived(PAGE));
    ok(cuMemsetD8_v2(device, 6, PAGE));
    ok(cuCtxSynchronize());
    close_pages(p);
    ok(cuMemcpyDtoHAsync_v2(p, device, PAGE, stream));
    touched();
    assert_int_equal(6, p[PAGE - 1]);
    close_pages(pinned);
    ok(cuMemcpyHtoD_v2(device, pinned, 4));
    touched();
    close_pages(pinned);
    ok(cuMemcpy(at(pinned), at(p), PAGE));
    touched();
    assert_int_equal(6, pinned[PAGE - 1]);
    sigaction(SIGSEGV, &before, NULL);
    ok(cuMemFreeHost(pinned));
    munmap(p, PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        copy_test(short_copies_to_the_device_take_the_cpus_view_and_long_ones_the_gpus),
        copy_test(copies_of_rows_take_the_gpus_view),
        copy_test(short_copies_behind_other_work_take_the_gpus_view),
        copy_test(copies_to_the_host_take_the_gpus_view),
        copy_test(copies_from_host_to_host_take_the_cpus_view_of_both),
        copy_test(a_graph_of_one_copy_reads_as_the_copy_does),
        copy_test(what_the_cpu_may_not_touch_faults_in_the_program),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, NULL);
}
