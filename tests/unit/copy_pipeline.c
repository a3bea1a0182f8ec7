/* SPDX-License-Identifier: MIT */
/* Copies through the ring, with a copy engine of this program's: every byte arrives, whatever
 * fails. */
#include "host_test.h"
#include "late_threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/limits.h"
#include "copy/pipeline.h"

#define QUEUE 4096u

/* The engine: a thread that makes the copies of the one stream that there is, in order. */
static struct {
    char *dst, *src;
    size_t bytes;
} queue[QUEUE];
static unsigned asked, made;     /* Copies of the queue; atomic. */
static unsigned refused, broken; /* The number of the copy that the driver refuses, or that fails
                                  * when it is made; 0 for none. */
static bool no_events;
static unsigned live_events; /* Atomic. */

static void *engine(void *unused)
{
    for (;; sched_yield())
        while (__atomic_load_n(&made, __ATOMIC_RELAXED) !=
               __atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
            unsigned i = made % QUEUE;
            memcpy(queue[i].dst, queue[i].src, queue[i].bytes);
            __atomic_store_n(&made, made + 1, __ATOMIC_RELEASE);
        }
    return unused;
}

static CUresult enqueue(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    if (refused && asked + 1 >= refused)
        return CUDA_ERROR_LAUNCH_FAILED;
    queue[asked % QUEUE].dst = (char *)dst;
    queue[asked % QUEUE].src = (char *)src;
    queue[asked % QUEUE].bytes = n;
    __atomic_store_n(&asked, asked + 1, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI htod(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    (void)stream;
    return enqueue(dst, (CUdeviceptr)src, n);
}

static CUresult CUDAAPI dtoh(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
    (void)stream;
    return enqueue((CUdeviceptr)dst, src, n);
}

static CUresult CUDAAPI event_create(CUevent *event, unsigned flags)
{
    (void)flags;
    if (no_events)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = (CUevent)malloc(sizeof(unsigned));
    live_events++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_destroy(CUevent event)
{
    free(event);
    live_events--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_record(CUevent event, CUstream stream)
{
    (void)stream;
    *(unsigned *)(void *)event = asked;
    return CUDA_SUCCESS;
}

static CUstreamCaptureMode mode; /* Of the thread. */

static CUresult CUDAAPI exchange(CUstreamCaptureMode *other)
{
    CUstreamCaptureMode before = mode;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

/* A capture that another thread has begun would forbid the question. */
static CUresult CUDAAPI event_query(CUevent event)
{
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    unsigned at = *(unsigned *)(void *)event;
    if (broken && at >= broken)
        return CUDA_ERROR_ECC_UNCORRECTABLE;
    return __atomic_load_n(&made, __ATOMIC_ACQUIRE) >= at ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult CUDAAPI synchronize(CUstream stream)
{
    (void)stream;
    while (__atomic_load_n(&made, __ATOMIC_ACQUIRE) != asked)
        sched_yield();
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_current(CUcontext *context)
{
    *context = (CUcontext)0x1000;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI do_register(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    return p && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static char *memory(size_t n)
{
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

#define MOST (75 * MIB + 1003) /* More than the ring holds. */
static char *device, *host, *wanted;

static int setup(void **state)
{
    (void)state;
    pthread_t thread;
    host_policy("[defaults]\nmax_pinned = 1G\n");
    zc_limits_start(zc_rules());
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuMemHostRegister_v2 = do_register;
    zc_real.cuMemcpyHtoDAsync_v2 = htod;
    zc_real.cuMemcpyDtoHAsync_v2 = dtoh;
    zc_real.cuEventCreate = event_create;
    zc_real.cuEventDestroy_v2 = event_destroy;
    zc_real.cuEventRecord = event_record;
    zc_real.cuEventQuery = event_query;
    zc_real.cuStreamSynchronize = synchronize;
    zc_real.cuThreadExchangeStreamCaptureMode = exchange;
    device = memory(MOST);
    host = memory(MOST + 4096);
    wanted = memory(MOST);
    for (size_t i = 0; i < MOST - 8; i += 8)
        memcpy(wanted + i, &(uint64_t){i * UINT64_C(0x9e3779b97f4a7c15)}, 8);
    return pthread_create(&thread, NULL, engine, NULL);
}

static int fresh(void **state)
{
    (void)state;
    refused = broken = 0;
    no_events = false;
    return 0;
}

/* One copy of n bytes from or to host + 5. */
static bool run(struct zc_copy *c, size_t n, bool in, bool reachable)
{
    *c = (struct zc_copy){.bytes = n, .result = CUDA_SUCCESS};
    const struct zc_pipeline p = {
        .c = c, .host = host + 5, .device = (CUdeviceptr)device, .in = in, .reachable = reachable};
    bool done = zc_pipeline_run(&p);
    assert_int_equal(live_events, 0);
    return done;
}

static void every_byte_of_every_size_arrives_both_ways(void **state)
{
    (void)state;
    const size_t sizes[] = {MIB,      MIB + 1,         8 * MIB - 1,  8 * MIB,      8 * MIB + 1,
                            9 * MIB,  16 * MIB + 4097, 32 * MIB - 1, 32 * MIB,     32 * MIB + 1,
                            33 * MIB, 33 * MIB + 7,    64 * MIB,     64 * MIB + 1, MOST};
    struct zc_copy c;
    for (size_t s = 0; s < 2 * sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s / 2];
        bool reachable = s % 2;
        memcpy(host + 5, wanted, n);
        memset(device, 1, n);
        assert_true(run(&c, n, true, reachable));
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_true(c.copies >= n / (8 * MIB));
        assert_memory_equal(device, wanted, n);
        memset(host, 2, n + 10);
        assert_true(run(&c, n, false, reachable));
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_memory_equal(host + 5, wanted, n);
        assert_memory_equal(host, "\2\2\2\2\2", 5);
        assert_memory_equal(host + 5 + n, "\2\2\2\2\2", 5);
    }
}

static void a_copy_that_the_driver_refuses_ends_with_its_error(void **state)
{
    (void)state;
    struct zc_copy c;
    for (unsigned way = 0; way < 4; way++)
        for (unsigned number = 1; number < 12; number += 5) {
            unsigned *which = way & 1 ? &refused : &broken;
            *which = asked + number;
            assert_true(run(&c, MOST, way & 2, true));
            assert_int_equal(c.result,
                             way & 1 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ECC_UNCORRECTABLE);
            *which = 0;
            /* Nothing is under way behind the call's back. */
            memset(host, 3, MOST);
            assert_int_equal(made, asked);
            memcpy(wanted + MOST - 8, host + MOST - 8, 8);
            assert_true(run(&c, MOST, true, true));
            assert_memory_equal(device, host + 5, MOST - 5);
        }
    memset(wanted + MOST - 8, 0, 8);
}

static char *slow; /* Page that is checked so late that other threads have nothing left to check. */

/* In place of libc's, for libzc. */
long syscall(long number, ...)
{
    static long (*next)(long, ...);
    unsigned long a[6];
    va_list args;
    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(args, unsigned long);
    va_end(args);
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_madvise && (uintptr_t)slow - a[0] < a[1])
        usleep(20000);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void memory_out_of_reach_is_left_to_the_driver(void **state)
{
    (void)state;
    const size_t n = 32 * MIB;
    char *gap = host + 17 * MIB;
    struct zc_copy c;
    memset(host, 4, n);
    memset(device, 5, n);
    for (unsigned times = 0; times < 8; times++) {
        slow = times ? gap : NULL;
        mprotect(gap, 4096, PROT_NONE);
        assert_false(run(&c, n, true, false));
        assert_int_equal(made, asked);
        mprotect(gap, 4096, PROT_READ);
        assert_false(run(&c, n, false, false));
        assert_int_equal(made, asked);
    }
    slow = NULL;
    mprotect(gap, 4096, PROT_READ | PROT_WRITE);
    assert_true(run(&c, n, true, false));
    assert_memory_equal(device, host + 5, n);
}

static void without_events_nothing_is_done(void **state)
{
    (void)state;
    struct zc_copy c;
    unsigned before = asked;
    no_events = true;
    assert_false(run(&c, 4 * MIB, true, true));
    assert_int_equal(asked, before);
}

static void a_copy_arrives_without_threads_that_do_not_run(void **state)
{
    (void)state;
    struct zc_copy c;
    late_threads_hold(true);
    memcpy(host + 5, wanted, MOST);
    assert_true(run(&c, MOST, true, true));
    assert_memory_equal(device, wanted, MOST);
    memset(host, 2, MOST + 10);
    assert_true(run(&c, MOST, false, true));
    assert_memory_equal(host + 5, wanted, MOST);
    late_threads_hold(false);
    late_threads_wait(1); /* The engine. */
    assert_memory_equal(host + 5, wanted, MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_byte_of_every_size_arrives_both_ways, fresh),
        cmocka_unit_test_setup(a_copy_that_the_driver_refuses_ends_with_its_error, fresh),
        cmocka_unit_test_setup(memory_out_of_reach_is_left_to_the_driver, fresh),
        cmocka_unit_test_setup(without_events_nothing_is_done, fresh),
        cmocka_unit_test_setup(a_copy_arrives_without_threads_that_do_not_run, fresh),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
