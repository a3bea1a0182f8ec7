/* SPDX-License-Identifier: MIT */
/* Kernels read blocks that move between the device and host memory; the program fills them. */
#include <dlfcn.h>
#include <pthread.h>

#include "moved_scene.h"

static CUfunction reader;
static atomic_uint wrong; /* Blocks that a kernel has read and that were not what they must be. */

/* A kernel look(struct work, what each byte must be). */
static int look_grid(void *const *args, const struct sim_launch *launch)
{
    const struct work *w = args[0];
    const unsigned char *p = sim_gpu_pointer(w->at);
    (void)launch;
    if (!p || !sim_gpu_pointer(w->at + w->bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    wrong += !all_are(p, *(const unsigned char *)args[1], w->bytes);
    sim_kernel_takes(hosted(w->at) ? w->far : w->near);
    return 0;
}

static void look(unsigned i, CUstream stream)
{
    static const size_t sizes[] = {sizeof(struct work), 1};
    if (!reader)
        reader = load_kernel("look", look_grid, 2, sizes);
    struct work w = {blocks[i], BLOCK, 5, 20000};
    void *args[] = {&w, &value[i]};
    CHECK(cuLaunchKernel(reader, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void look_through(unsigned from, unsigned to, unsigned times)
{
    for (unsigned t = 0; t < times; t++)
        for (unsigned i = from; i < to; i++)
            look(i, NULL);
}

static void bring(unsigned i)
{
    memset(out, ++value[i], BLOCK);
    CHECK(cuMemcpyHtoD(blocks[i], out, BLOCK));
}

static CUcontext start(unsigned n)
{
    CUcontext context = start_gpu(0);
    make(n);
    for (unsigned i = 0; i < n; i++)
        bring(i);
    return context;
}

static void finish(void)
{
    CHECK(cuCtxSynchronize());
    printf("wrong: %u\n", wrong);
    end();
}

/* Each sweep needs two blocks more than there is room for. */
static void cycle(void)
{
    start(6);
    look_through(0, 6, 8);
    finish();
}

static unsigned long long copied, awaited;

static void count_calls(void)
{
    copied = sim_calls("cuMemcpyDtoDAsync_v2");
    awaited = sim_calls("cuEventSynchronize") + sim_calls("cuStreamSynchronize");
}

/* When the driver is given a kernel, a copy for a later one may have begun, which nobody has
 * waited for. */
static void ahead(void)
{
    unsigned begun = 0;
    start(6);
    look_through(0, 6, 4);
    for (unsigned i = 0; i < 6; i++) {
        CHECK(cuCtxSynchronize());
        usleep(1000);
        sim_reset_counts();
        sim_before("cuLaunchKernel", count_calls);
        look(i, NULL);
        if (copied == 1)                     /* A block that was not fetched comes in two pieces. */
            begun += awaited <= 1 ? 1 : 100; /* It waits for the copy of its own. */
    }
    printf("copies begun: %u\n", begun);
    finish();
}

/* The program writes blocks, among them the one that is being copied. */
static void written(void)
{
    start(6);
    look_through(0, 6, 3);
    for (unsigned t = 0; t < 36; t++) {
        look(t % 6, NULL);
        if (t % 2)
            bring((t + 1 + t / 6) % 6);
        else if (t % 3)
            CHECK(cuMemsetD8(blocks[(t + 1) % 6], ++value[(t + 1) % 6], BLOCK));
    }
    finish();
}

/* A copy by a call that libzc does not know, wherever the blocks are. */
static void unknown(void)
{
    CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream);
    CUdeviceptr from;
    start(6);
    look_through(0, 6, 3);
    *(void **)&copy = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemcpyFutureAsync");
    CHECK(cuMemHostAlloc((void **)&from, BLOCK, 0));
    for (unsigned i = 0; i < 6; i++) {
        memset((void *)from, ++value[i], BLOCK);
        SHOW(copy(blocks[i], from, BLOCK, NULL));
        CHECK(cuCtxSynchronize());
    }
    look_through(0, 6, 2);
    CHECK(cuMemFreeHost((void *)from));
    finish();
}

/* Launches that keep no order, which is learned all the same. */
static void disorder(void)
{
    start(6);
    look_through(0, 6, 2);
    for (unsigned t = 1; t < 60; t++)
        look(t * t % 7 % 6, NULL);
    finish();
}

/* Blocks that only kernels have filled, they may write. */
static void unfilled(void)
{
    start_gpu(0);
    make(6);
    sweep(0, 6, 4, 5, 20000);
    end();
}

/* The program copies into a block, whose kernels write it all the same. */
static void promise(void)
{
    start(6);
    look_through(0, 6, 3);
    add(4, 5, 20000, NULL);
    SHOW(cuCtxSynchronize());
}

/* Blocks are freed while they are copied. */
static void freed(void)
{
    start(6);
    look_through(0, 6, 3);
    for (unsigned i = 0; i < 6; i++) {
        look(i, NULL);
        CHECK(cuMemFree(blocks[(i + 1) % 6]));
        CHECK(cuMemAlloc(&blocks[(i + 1) % 6], BLOCK));
        bring((i + 1) % 6);
    }
    look_through(0, 6, 3);
    finish();
}

/* The context goes while a block is copied. */
static void gone(void)
{
    start(6);
    look_through(0, 6, 3);
    look(0, NULL);
    kernel = reader = NULL;
    end_gpu(0);
    start(6);
    look_through(0, 6, 3);
    finish();
}

/* Each of some driver calls fails in turn while blocks move. */
static void fails(void)
{
    static const char *const names[] = {
        "cuMemCreate",      "cuMemAddressReserve",   "cuMemMap",          "cuMemSetAccess",
        "cuStreamCreate",   "cuMemcpyDtoDAsync_v2",  "cuStreamWaitEvent", "cuEventCreate",
        "cuEventRecord",    "cuEventSynchronize",    "cuEventQuery",      "cuMemGetInfo_v2",
        "cuCtxGetCurrent",  "cuEventElapsedTime_v2", "cuMemUnmap",        "cuMemRelease",
        "cuMemAddressFree", "cuStreamDestroy_v2"};
    start_gpu(0);
    for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++) {
        unsigned nth = 0;
        do {
            make(6);
            for (unsigned i = 0; i < 6; i++)
                bring(i);
            look_through(0, 6, 2);
            sim_reset_counts();
            sim_fail(names[n], CUDA_ERROR_UNKNOWN, ++nth);
            look_through(0, 6, 1);
            sim_fail(NULL, 0, 0);
            look_through(0, 6, 1);
            CHECK(cuCtxSynchronize());
            check_all();
            for (; count; count--)
                CHECK(cuMemFree(blocks[count - 1]));
        } while (sim_calls(names[n]) > nth && nth < 20);
    }
    finish();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"cycle", cycle},       {"ahead", ahead},       {"written", written}, {"unknown", unknown},
        {"disorder", disorder}, {"unfilled", unfilled}, {"promise", promise}, {"freed", freed},
        {"gone", gone},         {"fails", fails}};
    return RUN_SCENARIO(all, argc, argv);
}
