/* SPDX-License-Identifier: MIT */
/* grow_memory SCENARIO: how much memory arrays that grow, or are attached lazily, may have, what
 * the driver is told of it, and threads that make such blocks at once.  Each checks its bytes. */
#include <pthread.h>

#include "grow_scene.h"

/* No device has so much, and rounding it up gives 0. */
static void too_large(void)
{
    CUdeviceptr p = 0;
    start_gpu(0);
    SHOW(cuMemAlloc(&p, SIZE_MAX));
    SHOW(cuMemAlloc(&p, SIZE_MAX - MIB));
    SHOW(cuMemAllocAsync(&p, SIZE_MAX, NULL));
    end_gpu(0);
}

/* Grows as far as the device goes; prints the largest size in MiB. */
static void as_far_as_it_goes(void)
{
    size_t bytes = 8 * MIB;
    CUdeviceptr more;
    start_gpu(0);
    CUdeviceptr array = make(bytes);
    fill(array, 1, bytes, NULL);
    while (cuMemAlloc(&more, bytes + 8 * MIB) == CUDA_SUCCESS) {
        CHECK(cuMemcpyDtoD(more, array, bytes));
        CHECK(cuMemFree(array));
        array = more;
        bytes += 8 * MIB;
        fill(array + bytes - 8 * MIB, 1, 8 * MIB, NULL);
    }
    has(array, 1, bytes);
    printf("%zu MiB\n", bytes / MIB);
    finish(array);
}

/* Asks for two large blocks with small ones between them that leave no room for the second. */
static void room_taken_between(void)
{
    CUdeviceptr first, second = 0, small[3];
    start_gpu(0);
    CHECK(cuMemAlloc(&first, 64 * MIB));
    for (int i = 0; i < 3; i++)
        CHECK(cuMemAlloc(&small[i], 48 * MIB));
    SHOW(cuMemAlloc(&second, 64 * MIB));
    fill(first, 1, 64 * MIB, NULL);
    has(first, 1, 64 * MIB);
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(small[i]));
    CHECK(cuMemFree(second));
    finish(first);
}

/* The same, where what is promised is another context's. */
static void room_taken_from_a_context(void)
{
    CUdeviceptr first, second = 0, small[3];
    unsigned char last = 0;
    CUcontext mine = start_gpu(0), other = another_context();
    CHECK(cuMemAlloc(&first, 64 * MIB));
    CHECK(cuCtxSetCurrent(mine));
    for (int i = 0; i < 3; i++)
        CHECK(cuMemAlloc(&small[i], 48 * MIB));
    SHOW(cuMemAlloc(&second, 64 * MIB));
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuMemsetD8(first, 1, 64 * MIB));
    CHECK(cuMemcpyDtoH(&last, first + 64 * MIB - 1, 1));
    printf("last %d\n", last);
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(mine));
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(small[i]));
}

/* The same, where the program makes and maps the memory itself. */
static void room_taken_by_a_handle(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr first;
    start_gpu(0);
    CHECK(cuMemAlloc(&first, 128 * MIB));
    CUresult result = cuMemCreate(&handle, 192 * MIB, &prop, 0);
    printf("cuMemCreate -> %d\n", (int)result);
    if (result == CUDA_SUCCESS)
        CHECK(cuMemRelease(handle));
    fill(first, 1, 128 * MIB, NULL);
    has(first, 1, 128 * MIB);
    finish(first);
}

/* The call that needs memory which is not there says so, and what was there can be saved. */
static void no_memory_left(void)
{
    CUdeviceptr ballast;
    size_t available, total;
    pair();
    CHECK(cuMemFree(from));
    CHECK(cuMemGetInfo(&available, &total));
    sim_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0);
    SHOW(cuMemsetD8(to + 5 * MIB, 2, MIB));
    void *args[] = {NULL};
    SHOW(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    has(to, 1, 4 * MIB);
    sim_fail(NULL, CUDA_SUCCESS, 0);
    fill(to + 4 * MIB, 2, 4 * MIB, NULL);
    has(to, 1, 4 * MIB);
    has(to + 4 * MIB, 2, 4 * MIB);
    CHECK(cuMemAlloc(&ballast, MIB));
    CHECK(cuMemFree(ballast));
    finish(to);
}

/* The same with the old array still there, from which the new one has not been copied. */
static void no_memory_to_copy(void)
{
    pair();
    sim_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 1);
    SHOW(cuMemsetD8(to + MIB, 2, MIB));
    sim_fail(NULL, CUDA_SUCCESS, 0);
    has(to, 1, 4 * MIB);
    SHOW(cuMemsetD8(to + MIB, 2, MIB));
    has(to + MIB, 2, MIB);
    has(from, 1, 4 * MIB);
    CHECK(cuMemFree(from));
    finish(to);
}

/* The free memory that the program is told does not depend on when memory is attached. */
static void free_memory(void)
{
    size_t before, promised, attached, after, total;
    start_gpu(0);
    CHECK(cuMemGetInfo(&before, &total));
    CUdeviceptr p = make(8 * MIB);
    CHECK(cuMemGetInfo(&promised, &total));
    fill(p, 1, 8 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo(&attached, &total));
    CHECK(cuMemFree(p));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(before - promised == 8 * MIB && promised == attached && after == before);
    pair();
    CHECK(cuMemGetInfo(&promised, &total));
    EXPECT(before - promised == 12 * MIB);
    CHECK(cuMemFree(from));
    CHECK(cuMemGetInfo(&promised, &total));
    EXPECT(before - promised == 8 * MIB);
    CHECK(cuMemFree(to));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(after == before);
    end_gpu(0);
}

/* Nor is memory counted that was freed in the order of a stream, once the stream has passed. */
static void free_memory_in_order(void)
{
    size_t before, after, total;
    start_gpu(0);
    CHECK(cuMemGetInfo(&before, &total));
    CUdeviceptr p = make(8 * MIB);
    fill(p, 1, 8 * MIB, NULL);
    CHECK(cuMemFreeAsync(p, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(after == before);
    end_gpu(0);
}

/* Many attributes at once are asked of the driver, which knows no address without memory. */
static void attributes(void)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    unsigned long long id = 0;
    unsigned type = 0;
    void *data[] = {&id, &type};
    start_gpu(0);
    CUdeviceptr p = make(4 * MIB);
    CHECK(cuPointerGetAttributes(2, which, data, p));
    EXPECT(id != 0 && type == CU_MEMORYTYPE_DEVICE);
    finish(p);
}

/* Whether other devices of the bus reach a block, once it has memory. */
static int reached(CUdeviceptr p)
{
    int answer = -1;
    CHECK(cuMemsetD8(p, 7, MIB));
    CHECK(cuPointerGetAttribute(&answer, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, p));
    return answer;
}

/* Three requests of a size, the second one's block filled from the first one's. */
static void other_devices_of_the_bus(void)
{
    start_gpu(0);
    CUdeviceptr first = make(4 * MIB);
    printf("%d", reached(first));
    CUdeviceptr second = make(4 * MIB);
    CHECK(cuMemcpyDtoD(second, first, 4 * MIB));
    CHECK(cuMemFree(first));
    has(second, 7, MIB);
    printf(" %d", reached(second));
    CUdeviceptr third = make(4 * MIB);
    printf(" %d\n", reached(third));
    CHECK(cuMemFree(second));
    finish(third);
}

#define THREADS 8

static void *grow_alone(void *context)
{
    char bytes[256];
    CHECK(cuCtxSetCurrent(context));
    for (int round = 0; round < 10; round++) {
        int value = 1 + round;
        CUdeviceptr array = make(2 * MIB);
        CHECK(cuMemsetD8(array, (unsigned char)value, 2 * MIB));
        for (size_t size = 2 * MIB; size < 16 * MIB; size *= 2) {
            array = grow_to(2 * size, array, size);
            CHECK(cuMemsetD8(array + size, (unsigned char)value, size));
        }
        for (size_t at = 0; at < 16 * MIB; at += MIB) {
            CHECK(cuMemcpyDtoH(bytes, array + at, sizeof(bytes)));
            EXPECT(all_are(bytes, value, sizeof(bytes)));
        }
        CHECK(cuMemFree(array));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    CUcontext context = start_gpu(0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, grow_alone, context));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL));
    end_gpu(0);
}

static CUcontext shared_context;
static atomic_bool made_all;

static void *make_and_free(void *unused)
{
    CHECK(cuCtxSetCurrent(shared_context));
    for (int i = 0; i < 2000; i++)
        CHECK(cuMemFree(make(2 * MIB)));
    atomic_store(&made_all, true);
    return unused;
}

/* Blocks come and go in one thread while another one launches kernels. */
static void made_while_launching(void)
{
    pthread_t thread;
    shared_context = start_gpu(0);
    CUdeviceptr mine = make(2 * MIB);
    CHECK(pthread_create(&thread, NULL, make_and_free, NULL));
    while (!atomic_load(&made_all)) {
        fill(mine, 1, 64, NULL);
        CHECK(cuStreamSynchronize(NULL));
    }
    CHECK(pthread_join(thread, NULL));
    CHECK(cuMemFree(mine));
    end_gpu(0);
}

/* A driver that fails the copy, which is pending until the smaller array is freed. */
static void copy_refused(void)
{
    char byte;
    start_gpu(0);
    CUdeviceptr old = make(2 * MIB), more = make(4 * MIB);
    CHECK(cuMemsetD8(old, 1, 2 * MIB));
    CHECK(cuMemcpyDtoD(more, old, 2 * MIB));
    SHOW(cuMemcpyDtoH(&byte, more, 1));
    SHOW(cuMemFree(old));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"made_while_launching", made_while_launching},
        {"too_large", too_large},
        {"as_far_as_it_goes", as_far_as_it_goes},
        {"room_taken_between", room_taken_between},
        {"room_taken_from_a_context", room_taken_from_a_context},
        {"room_taken_by_a_handle", room_taken_by_a_handle},
        {"no_memory_left", no_memory_left},
        {"no_memory_to_copy", no_memory_to_copy},
        {"free_memory", free_memory},
        {"free_memory_in_order", free_memory_in_order},
        {"attributes", attributes},
        {"copy_refused", copy_refused},
        {"other_devices_of_the_bus", other_devices_of_the_bus},
        {"threads", threads},
    };
    return RUN_SCENARIO(all, argc, argv);
}
