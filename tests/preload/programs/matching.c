/* SPDX-License-Identifier: MIT */
/* Requests that differ in one thing each, so that every match key of a rule has something to
 * choose. Each has a size of its own, by which the test knows it in the log. */
#include <pthread.h>
#include <sys/prctl.h>

#include "program.h"

static void request(size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, bytes));
}

__attribute__((noinline)) static void from_here(void)
{
    request(1000);
}

__attribute__((noinline)) static void from_there(void)
{
    request(2000);
}

static void *from_thread(void *context)
{
    prctl(PR_SET_NAME, "loader-7");
    CHECK(cuCtxSetCurrent(context));
    request(3000);
    return NULL;
}

static void on_streams(void)
{
    CUstream created;
    CUdeviceptr p;
    CHECK(cuStreamCreate(&created, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&p, 4000, NULL));
    CHECK(cuMemAllocAsync(&p, 5000, CU_STREAM_LEGACY));
    CHECK(cuMemAllocAsync(&p, 6000, CU_STREAM_PER_THREAD));
    CHECK(cuMemAllocAsync(&p, 7000, created));
    CHECK(cuCtxSynchronize());
}

int main(void)
{
    pthread_t thread;
    CUcontext context = start_gpu(0);
    from_here();
    from_there();
    pthread_create(&thread, NULL, from_thread, context);
    pthread_join(thread, NULL);
    on_streams();
    start_gpu(1);
    request(8000);
    return 0;
}
