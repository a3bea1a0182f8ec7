/* SPDX-License-Identifier: MIT */
/* Blocks that move over the links of two devices, which the policy says. */
#include <pthread.h>
#include <semaphore.h>

#include "moved_scene.h"

#define PAID (128 * MIB) /* Bytes of a copy by the program, */
#define TIMES 66         /* so many of which pay for a context on the other device. */
#define LONG 1000000     /* In host memory kernels take longer than moves, whatever the load. */

static char **arguments;

/* Blocks of which two fit, and two others, are used by turns.  Returns how often the first one
 * moved. */
static unsigned use(unsigned times)
{
    unsigned moved = 0;
    for (unsigned t = 0; t < 2 * times; t++) {
        bool was = hosted(blocks[0]);
        sweep(t % 2 * 2, t % 2 * 2 + 2, 2, 5, LONG);
        CHECK(cuCtxSynchronize());
        moved += was != hosted(blocks[0]);
    }
    return moved;
}

static void moved_while(const char *when)
{
    unsigned before = over_the_other();
    use(2);
    printf("%s: %s\n", when, over_the_other() > before ? "both links" : "the own link");
}

/* The other device is idle, busy, and idle again, before and after copies have paid for it. */
static void idle(void)
{
    struct gate gate;
    CUdeviceptr device;
    void *host;
    CUcontext near = start_gpu(0), far;
    CHECK(cuMemHostAlloc(&host, PAID, 0));
    CHECK(cuMemAlloc(&device, PAID));
    make(4);
    moved_while("unpaid");
    for (unsigned i = 0; i < TIMES; i++)
        CHECK(cuMemcpyHtoD(device, host, PAID));
    moved_while("paid");
    CHECK(cuDevicePrimaryCtxRetain(&far, 1));
    CHECK(cuCtxSetCurrent(far));
    gate_close_by_kernel(&gate, NULL);
    hold_kernel = NULL;
    CHECK(cuCtxSetCurrent(near));
    moved_while("busy");
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(far));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(near));
    moved_while("idle");
    CHECK(cuMemFree(device));
    CHECK(cuMemFreeHost(host));
    check_all();
}

/* The nth call of that name fails while blocks move: call_fails CALL NTH */
static void call_fails(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 1, 5, 20000);
    sim_fail(arguments[0], CUDA_ERROR_NOT_SUPPORTED, (unsigned)atoi(arguments[1]));
    use(1);
    sim_fail(NULL, CUDA_SUCCESS, 0);
    check_all();
    sweep(0, 2, 1, 5, 20000);
    end();
}

#define TURNS 12u

static sem_t turn, done;
static atomic_bool over;

/* Copies between pinned memory and a block that stays, some in each turn. */
static void *copies(void *context)
{
    CUdeviceptr device;
    unsigned char *host, *back;
    CUstream s;
    size_t n = 40 * MIB;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemHostAlloc((void **)&host, n, 0));
    CHECK(cuMemHostAlloc((void **)&back, n, 0));
    CHECK(cuMemAlloc(&device, n));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned char v = 1; sem_wait(&turn) == 0 && !over; v++) {
        memset(host, v, n);
        for (unsigned i = 0; i < 3; i++) {
            CHECK(cuMemcpyHtoDAsync(device, host, n, s));
            CHECK(cuMemcpyDtoHAsync(back, device, n, s));
            CHECK(cuStreamSynchronize(s));
        }
        EXPECT(all_are(back, v, n));
        sem_post(&done);
    }
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(device));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemFreeHost(back));
    return NULL;
}

/* Blocks move while another thread's copies take the same links.  A move that copies have kept from
 * beginning is not tried again for some launches: so there are turns without copies, and as many
 * turns as it takes. */
static void beside_copies(void)
{
    pthread_t thread;
    unsigned moved = 0;
    CUcontext context = start_gpu(0);
    make(4);
    sem_init(&turn, 0, 0);
    sem_init(&done, 0, 0);
    CHECK(pthread_create(&thread, NULL, copies, context));
    for (unsigned t = 0; t < TURNS || moved < 2; t++) {
        bool beside = t % 3 < 2;
        if (beside)
            sem_post(&turn);
        moved += use(1);
        if (beside)
            sem_wait(&done);
    }
    over = true;
    sem_post(&turn);
    CHECK(pthread_join(thread, NULL));
    end();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"idle", idle}, {"call_fails", call_fails}, {"beside_copies", beside_copies}};
    arguments = argv + 2;
    return RUN_SCENARIO(all, argc, argv);
}
