/* SPDX-License-Identifier: MIT */
/* Pairs on devices that reach pageable memory: kernels that end late, and use the host block, or
 * the device block while that changes. */
#include "shared_scene.h"

#define LATE_US 60000

static unsigned char plain[SIZE];

static int late_paint(void *const *args, const struct sim_launch *launch)
{
    usleep(LATE_US);
    return paint_grid(args, launch);
}

/* It has begun where the block was, and reads on there. */
static int late_shows(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    const unsigned char *block = sim_gpu_pointer(*(CUdeviceptr *)args[0]);
    if (!block)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    usleep(LATE_US);
    **(int **)args[4] =
        shows_part(block, *(size_t *)args[1], *(size_t *)args[2], *(unsigned *)args[3]);
    return 0;
}

static CUdeviceptr at(const unsigned char *h)
{
    return (CUdeviceptr)h;
}

static void launch_late(enum kernel which, CUdeviceptr d, size_t from, size_t n, unsigned seed,
                        int *result, CUstream stream)
{
    static const size_t sizes[] = {8, 8, 8, 4, 8};
    void *args[] = {&d, &from, &n, &seed, &result};
    const char *name = which == PAINT ? "late_paint" : "late_shows";
    CUmodule module;
    CUfunction function;
    sim_kernel_register(name, which == PAINT ? late_paint : late_shows, 5, sizes);
    CHECK(cuModuleLoadData(&module, ""));
    CHECK(cuModuleGetFunction(&function, module, name));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static CUstream new_stream(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

/* A copy behind a kernel that writes h, on its stream, takes what that wrote.  CUDA promises it for
 * memory that a device reaches by itself and not for what the driver stages, so that a program that
 * needs no such promise waits in between. */
static void behind(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUstream s = new_stream();
    launch_late(PAINT, at(p.h), UNIT, 8192, 5, NULL, s);
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(sees(p.d, UNIT, 8192, 5) && sees(p.d, 0, UNIT, 1));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* Writes of kernels into h are there for the copies behind them, and for the CPU. */
static void written(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUstream s = new_stream();
    launch_late(PAINT, at(p.h), UNIT, 8192, 5, NULL, s);
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(shows_part(p.h, UNIT, 8192, 5) && shows_part(p.h, 0, UNIT, 1));
    EXPECT(sees(p.d, UNIT, 8192, 5) && sees(p.d, 0, UNIT, 1));
    CHECK(try_kernel(PAINT, at(p.h), 0, SIZE, 6, NULL, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(shows(p.h, SIZE, 6) && sees(p.d, UNIT, 8192, 5));
    CHECK(cuMemcpyHtoD(p.d, p.h, UNIT));
    EXPECT(sees(p.d, 0, UNIT, 6) && sees(p.d, UNIT, 8192, 5));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* A kernel that reads h has read it when a copy behind it comes. */
static void read_late(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUstream s = new_stream();
    int seen = -1;
    paint(p.h, SIZE, 2);
    launch_late(SHOWS, at(p.h), 0, SIZE, 2, &seen, s);
    CHECK(cuMemcpyDtoHAsync(p.h, p.d, SIZE, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(seen == 1 && shows(p.h, SIZE, 1) && gpu_sees(at(p.h), 0, SIZE, 1));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* A kernel reads d while the program gives it, or frees it. */
static void changed(void)
{
    struct pair p = filled_pair(SIZE, 1), q = filled_pair(SIZE, 2);
    CUstream s = new_stream();
    int seen[2] = {-1, -1};
    launch_late(SHOWS, p.d, 0, SIZE, 1, &seen[0], s);
    CHECK(cuMemsetD8Async(p.d, 9, 4096, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(seen[0] == 1 && shows(p.h, SIZE, 1) && sees(p.d, 4096, SIZE - 4096, 1));
    launch_late(SHOWS, q.d, 0, SIZE, 2, &seen[1], s);
    CHECK(cuMemFree(q.d));
    EXPECT(seen[1] == 1 && shows(q.h, SIZE, 2));
    free(q.h);
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* Kernels write what the first copy takes, before it and behind it. */
static void first_copy(void)
{
    struct pair p = new_pair(SIZE);
    CUstream s = new_stream();
    paint(p.h, SIZE, 1);
    launch_late(PAINT, at(p.h), 0, 4096, 7, NULL, s);
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(sees(p.d, 0, 4096, 7) && sees(p.d, 4096, SIZE - 4096, 1));
    CHECK(try_kernel(PAINT, at(p.h), 8192, 4096, 8, NULL, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(sees(p.d, 8192, 4096, 1) && shows_part(p.h, 8192, 4096, 8));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* Blocks into which nothing is copied: set, and written by a kernel. */
static void fresh(void)
{
    CUdeviceptr d[2] = {device_block(SIZE), device_block(SIZE)};
    int seen = -1;
    CHECK(cuMemsetD8(d[0], 5, SIZE));
    CHECK(cuMemcpyDtoH(plain, d[0], SIZE));
    EXPECT(all_are(plain, 5, SIZE));
    gpu_paint(d[1], 0, SIZE, 3);
    CHECK(try_kernel(SHOWS, d[1], 0, SIZE, 3, &seen, NULL));
    CHECK(cuCtxSynchronize());
    EXPECT(seen == 1 && copy_sees(d[1], 0, SIZE, 3));
    CHECK(cuMemFree(d[0]));
    CHECK(cuMemFree(d[1]));
}

/* A kernel breaks the promise not to write d. */
static void promise_broken(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CHECK(try_kernel(PAINT, p.d, 0, 4096, 9, NULL, NULL));
    SHOW(cuCtxSynchronize());
    EXPECT(shows(p.h, SIZE, 1));
    free(p.h);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"fresh", fresh},
        {"behind", behind},
        {"written", written},
        {"read_late", read_late},
        {"changed", changed},
        {"first_copy", first_copy},
        {"promise_broken", promise_broken},
    };
    return RUN_SCENES(all, argc, argv);
}
