/* SPDX-License-Identifier: MIT */
/* grow_apart SCENARIO: arrays that grow beside blocks, contexts and devices that they have nothing
 * to do with.  Each checks its bytes. */
#include <pthread.h>

#include "grow_scene.h"

/* An array that another context writes and then copies, in the order of its own stream: a stream of
 * the first context waits for that, and for nothing else. */
static void other_context(void)
{
    static struct gate gate;
    CUcontext mine = start_gpu(0), other;
    CUstream apart;
    CUevent copied;
    unsigned char *seen;
    CHECK(cuMemHostAlloc((void **)&seen, MIB, 0));
    CHECK(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    other = another_context();
    CHECK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
    gate_close_by_kernel(&gate, NULL);
    CHECK(cuMemsetD8Async(from, 2, 4 * MIB, NULL));
    CHECK(cuCtxPushCurrent(mine));
    to = make(8 * MIB);
    CHECK(cuCtxPopCurrent(&mine));
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, NULL));
    CHECK(cuEventRecord(copied, NULL));
    CHECK(cuCtxSetCurrent(mine));
    CHECK(cuStreamWaitEvent(apart, copied, 0));
    CHECK(cuMemcpyDtoHAsync(seen, to, MIB, apart));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(apart));
    EXPECT(all_are(seen, 2, MIB));
    CHECK(cuCtxDestroy(other));
    CHECK(cuMemFreeHost(seen));
    CHECK(cuMemFree(from));
    finish(to);
}

/* An array grows twice, and a block that another rule has follows; then another device uses it. */
static void other_peers(void)
{
    CUcontext first;
    pair();
    CHECK(cuMemFree(from));
    fill(to + 4 * MIB, 1, 4 * MIB, NULL);
    CUdeviceptr third = make(16 * MIB);
    fill(third, 3, 16 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxGetCurrent(&first));
    start_gpu(1);
    fill_kernel = NULL;
    CHECK(cuCtxEnablePeerAccess(first, 0));
    fill(third, 4, 16 * MIB, NULL);
    printf("kernel %d\n", cuCtxSynchronize());
}

/* An array that grows in small steps, and a block that is to have the rest of the device. */
static void rest_promised(void)
{
    size_t available, total;
    pair();
    CHECK(cuMemFree(from));
    CHECK(cuMemGetInfo(&available, &total));
    CUdeviceptr rest = make(available);
    CHECK(cuMemsetD8(to + 4 * MIB, 2, 4 * MIB));
    CHECK(cuMemsetD8(rest, 3, available));
    has(to, 1, 4 * MIB);
    has(to + 4 * MIB, 2, 4 * MIB);
    has(rest, 3, available);
    CHECK(cuMemFree(rest));
    finish(to);
}

/* A block has the addresses of an array's last step, where the driver first refuses to unmap what
 * the array had there as that goes; then another array of the same size grows into the block. */
static void not_unmapped(void)
{
    pair();
    CHECK(cuMemFree(from));
    fill(to + 4 * MIB, 1, 4 * MIB, NULL);
    CUdeviceptr block = make(16 * MIB);
    has(to, 1, 8 * MIB);
    sim_fail("cuMemUnmap", CUDA_ERROR_UNKNOWN, 1);
    CUresult refused = cuMemFree(to);
    sim_fail(NULL, CUDA_SUCCESS, 0);
    if (refused == CUDA_ERROR_UNKNOWN) {
        has(to, 1, 8 * MIB);
        CHECK(cuMemFree(to));
    }
    CUdeviceptr array = make(8 * MIB);
    CHECK(cuMemsetD8(array, 5, 8 * MIB));
    CHECK(cuMemcpyDtoD(block, array, 8 * MIB));
    CHECK(cuMemFree(array));
    has(block, 5, 8 * MIB);
    finish(block);
}

static CUdeviceptr grown(CUdeviceptr array, size_t bytes, size_t more)
{
    CUdeviceptr larger = grow_to(bytes + more, array, bytes);
    fill(larger + bytes, 1, more, NULL);
    return larger;
}

static void *destroy(void *context)
{
    CHECK(cuCtxDestroy(context));
    return NULL;
}

/* A thread destroys a context, in which an array was copied behind a kernel that runs yet, while
 * another thread launches in a context of its own. */
static void launch_beside_destroy(void)
{
    static struct gate gate;
    pthread_t destroyer;
    CUcontext mine = start_gpu(0), other = another_context();
    gate_close_by_kernel(&gate, NULL);
    from = make(4 * MIB);
    CHECK(cuMemsetD8Async(from, 2, 4 * MIB, NULL));
    to = make(8 * MIB);
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, NULL));
    CHECK(cuCtxSetCurrent(mine));
    CUdeviceptr own = make(4 * MIB);
    EXPECT(!pthread_create(&destroyer, NULL, destroy, other));
    while (!sim_calls("cuCtxDestroy_v2")) /* Then it waits for the kernel. */
        usleep(200);
    fill_kernel = NULL;
    fill(own, 3, 4 * MIB, NULL);
    has(own, 3, 4 * MIB);
    gate_open(&gate);
    EXPECT(!pthread_join(destroyer, NULL));
    finish(own);
}

/* Prints what arrays have that grow in turn beyond what they asked for, and that they may have so
 * much again once they are gone. */
static void ahead_together(void)
{
    size_t before, after, total;
    start_gpu(0);
    CHECK(cuMemGetInfo(&before, &total));
    for (int round = 0; round < 2; round++) {
        CUdeviceptr arrays[3];
        for (int i = 0; i < 3; i++) {
            arrays[i] = make(4 * MIB);
            fill(arrays[i], 1, 4 * MIB, NULL);
            arrays[i] = grown(arrays[i], 4 * MIB, 4 * MIB);
            arrays[i] = grown(arrays[i], 8 * MIB, 2 * MIB);
            CHECK(cuMemGetInfo(&after, &total));
            printf("%zu ", (before - after) / MIB - (size_t)(i + 1) * 10);
        }
        printf("ahead of at most %zu\n", total / 256 / MIB);
        for (int i = 0; i < 3; i++) {
            has(arrays[i], 1, 10 * MIB);
            CHECK(cuMemFree(arrays[i]));
        }
    }
    end_gpu(0);
}

/* Arrays of two devices that grow by turns, the second device's always to the larger size. */
static void two_devices(void)
{
    CUdeviceptr arrays[2];
    CUcontext home[2];
    size_t before[2], after, total;
    for (int d = 0; d < 2; d++) {
        home[d] = start_gpu(d);
        CHECK(cuMemGetInfo(&before[d], &total));
        arrays[d] = make(4 * MIB);
        CHECK(cuMemsetD8(arrays[d], (unsigned char)(d + 1), 4 * MIB));
    }
    for (size_t size = 4 * MIB; size < 64 * MIB; size *= 2)
        for (int d = 0; d < 2; d++) {
            int ordinal = -1;
            CHECK(cuCtxSetCurrent(home[d]));
            fill_kernel = NULL;
            arrays[d] = grow_to(2 * size, arrays[d], size);
            has(arrays[d], d + 1, size);
            fill(arrays[d] + size, d + 1, size, NULL);
            CHECK(cuCtxSynchronize());
            has(arrays[d], d + 1, 2 * size);
            CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, arrays[d]));
            EXPECT(ordinal == d);
        }
    for (int d = 0; d < 2; d++) {
        CHECK(cuCtxSetCurrent(home[d]));
        CHECK(cuMemGetInfo(&after, &total));
        EXPECT(before[d] - after >= 64 * MIB && before[d] - after < 96 * MIB);
        CHECK(cuMemFree(arrays[d]));
        end_gpu(d);
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"other_context", other_context},   {"other_peers", other_peers},
        {"rest_promised", rest_promised},   {"not_unmapped", not_unmapped},
        {"ahead_together", ahead_together}, {"launch_beside_destroy", launch_beside_destroy},
        {"two_devices", two_devices},
    };
    return RUN_SCENARIO(all, argc, argv);
}
