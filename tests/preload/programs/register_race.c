/* SPDX-License-Identifier: MIT */
/* Two threads register and unregister neighbours at the same time, which libzc may have registered
 * as one before: each gets what the driver gives for memory that is nobody else's. */
#include <pthread.h>

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

int main(void)
{
    pthread_t thread[2];
    char *memory[2] = {malloc(BYTES), malloc(BYTES)};
    context = start_gpu(0);
    CHECK(cuMemAlloc(&target, BYTES));
    CHECK(pthread_barrier_init(&together, NULL, 2));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, work, memset(memory[i], 1, BYTES)));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL));
    free(memory[0]);
    free(memory[1]);
    return 0;
}
