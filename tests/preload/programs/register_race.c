/* SPDX-License-Identifier: MIT */
/* Two threads and neighbours, which libzc registers as one.  `neighbours`: both register and
 * unregister them, and get what the driver gives for memory that is nobody else's.  `arrives`: an
 * asynchronous copy to one has arrived when it returns, while a copy of the other lets libzc
 * register both. */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

#define BYTES ((size_t)100000)
#define ROUNDS 500

static CUcontext context;
static CUdeviceptr target;
static pthread_barrier_t together;

static void *work(void *memory)
{
    CHECK(cuCtxSetCurrent(context));
    for (int round = 0; round < ROUNDS; round++) {
        /* As often as makes a registration worth its while. */
        for (int copy = 0; copy < 4; copy++)
            CHECK(cuMemcpyHtoD(target, memory, BYTES));
        pthread_barrier_wait(&together);
        CHECK(cuMemHostRegister(memory, BYTES, 0));
        pthread_barrier_wait(&together);
        CHECK(cuMemHostUnregister(memory));
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void neighbours(void)
{
    pthread_t thread[2];
    char *memory[2] = {malloc(BYTES), malloc(BYTES)};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, work, memset(memory[i], 1, BYTES)));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL));
    free(memory[0]);
    free(memory[1]);
}

static char *block, *neighbour;

static void CUDA_CB nap(void *unused)
{
    (void)unused;
    usleep(20000);
}

static void *copy_neighbour(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    for (int copy = 0; copy < 3; copy++)
        CHECK(cuMemcpyHtoD(target + BYTES, neighbour, BYTES));
    return unused;
}

static void copy_beside(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, copy_neighbour, NULL));
    CHECK(pthread_join(thread, NULL));
}

static void arrives(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemsetD8(target, 7, BYTES));
    CHECK(cuCtxSynchronize());
    block = memset(malloc(BYTES), 1, BYTES);
    neighbour = memset(malloc(BYTES), 2, BYTES);
    CHECK(cuLaunchHostFunc(stream, nap, NULL));
    sim_before("cuMemcpyDtoHAsync_v2", copy_beside);
    CHECK(cuMemcpyDtoHAsync(block, target, BYTES, stream));
    EXPECT(all_are(block, 7, BYTES));
    EXPECT(sim_calls("cuMemHostRegister_v2") == 1);
    CHECK(cuStreamSynchronize(stream));
    free(block);
    free(neighbour);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"neighbours", neighbours}, {"arrives", arrives}};
    context = start_gpu(0);
    CHECK(cuMemAlloc(&target, 2 * BYTES));
    CHECK(pthread_barrier_init(&together, NULL, 2));
    return RUN_SCENARIO(all, argc, argv);
}
