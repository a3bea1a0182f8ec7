/* SPDX-License-Identifier: MIT */
/* Shared by the scenes with pairs: blocks with patterns, and kernels that read and write them. */
#ifndef SHARED_SCENE_H
#define SHARED_SCENE_H

#include "program.h"

#define MIB ((size_t)1 << 20)
#define UNIT (2 * MIB) /* Host blocks become private in such steps. */
#define SIZE (6 * MIB)

/* Says what differs between runs with and without libzc, where no comparison of outputs sees it. */
#define TELL(...) fprintf(stderr, __VA_ARGS__)

/* Byte `i` of the pattern `seed`: neighbours, pages and units differ. */
static inline unsigned char pattern(size_t i, unsigned seed)
{
    return (unsigned char)((i >> 21) * 67 + (i >> 12) * 31 + i + seed * 101);
}

/* Writes [from, from + n) of a pattern to its place in a block. */
static inline void paint_part(unsigned char *block, size_t from, size_t n, unsigned seed)
{
    for (size_t i = from; i < from + n; i++)
        block[i] = pattern(i, seed);
}

static inline void paint(unsigned char *block, size_t n, unsigned seed)
{
    paint_part(block, 0, n, seed);
}

static inline bool shows_part(const unsigned char *block, size_t from, size_t n, unsigned seed)
{
    for (size_t i = from; i < from + n; i++)
        if (block[i] != pattern(i, seed))
            return false;
    return true;
}

static inline bool shows(const unsigned char *block, size_t n, unsigned seed)
{
    return shows_part(block, 0, n, seed);
}

/* A host block, and a device block.  Functions of their own: one site each. */
static __attribute__((noinline, unused)) unsigned char *host_block(size_t n)
{
    unsigned char *p = malloc(n);
    EXPECT(p);
    return p;
}

static __attribute__((noinline, unused)) CUdeviceptr device_block(size_t n)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, n));
    return p;
}

/* Both, in the order that most programs have. */
struct pair {
    unsigned char *h;
    CUdeviceptr d;
};

static inline struct pair new_pair(size_t n)
{
    struct pair p = {host_block(n), 0};
    p.d = device_block(n);
    return p;
}

/* A kernel: paint(d, from, n, seed). */
static inline int paint_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr d = *(CUdeviceptr *)args[0];
    size_t from = *(size_t *)args[1], n = *(size_t *)args[2];
    for (size_t at = from; at < from + n; at += UNIT)
        if (!sim_gpu_pointer_write(d + at))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    paint_part(sim_gpu_pointer_write(d), from, n, *(unsigned *)args[3]);
    return 0;
}

/* A kernel: *result = shows(d, from, n, seed). */
static inline int shows_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr d = *(CUdeviceptr *)args[0];
    const unsigned char *block = sim_gpu_pointer(d);
    if (!block)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    **(int **)args[4] =
        shows_part(block, *(size_t *)args[1], *(size_t *)args[2], *(unsigned *)args[3]);
    return 0;
}

/* A kernel: adds `seed` to the bytes of d. */
static inline int add_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    unsigned char *block = sim_gpu_pointer_write(*(CUdeviceptr *)args[0]);
    size_t from = *(size_t *)args[1], n = *(size_t *)args[2];
    if (!block)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = from; i < from + n; i++)
        block[i] = (unsigned char)(block[i] + *(unsigned *)args[3]);
    return 0;
}

enum kernel { PAINT, SHOWS, ADD, KERNELS };

static inline CUfunction kernel_of(enum kernel which)
{
    static const struct {
        const char *name;
        sim_thunk grid;
    } kernels[KERNELS] = {{"paint", paint_grid}, {"shows", shows_grid}, {"add", add_grid}};
    static const size_t sizes[] = {8, 8, 8, 4, 8};
    CUmodule module;
    CUfunction function;
    sim_kernel_register(kernels[which].name, kernels[which].grid, 5, sizes);
    CHECK(cuModuleLoadData(&module, ""));
    CHECK(cuModuleGetFunction(&function, module, kernels[which].name));
    return function;
}

static inline CUresult try_kernel(enum kernel which, CUdeviceptr d, size_t from, size_t n,
                                  unsigned seed, int *result, CUstream stream)
{
    void *args[] = {&d, &from, &n, &seed, &result};
    return cuLaunchKernel(kernel_of(which), 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

/* The kernel writes a pattern to d. */
static inline void gpu_paint(CUdeviceptr d, size_t from, size_t n, unsigned seed)
{
    CHECK(try_kernel(PAINT, d, from, n, seed, NULL, NULL));
}

/* A kernel's view of d. */
static inline bool gpu_sees(CUdeviceptr d, size_t from, size_t n, unsigned seed)
{
    int result = -1;
    CHECK(try_kernel(SHOWS, d, from, n, seed, &result, NULL));
    CHECK(cuCtxSynchronize());
    return result == 1;
}

/* The bytes that a copy brings from d, to memory that no rule can place. */
static inline bool copy_sees(CUdeviceptr d, size_t from, size_t n, unsigned seed)
{
    static unsigned char seen[16 * MIB];
    CHECK(cuMemcpyDtoH(seen + from, d + from, n));
    return shows_part(seen, from, n, seed);
}

/* Whether d has a pattern, for a copy and for a kernel. */
static inline bool sees(CUdeviceptr d, size_t from, size_t n, unsigned seed)
{
    return copy_sees(d, from, n, seed) && gpu_sees(d, from, n, seed);
}

static bool kernels_read; /* The run is one in which kernels write no device block of a pair. */

/* Gives d a pattern: by a kernel, or by a copy where kernels only read. */
static inline void put(CUdeviceptr d, size_t n, unsigned seed)
{
    static unsigned char source[16 * MIB];
    if (!kernels_read) {
        gpu_paint(d, 0, n, seed);
        return;
    }
    paint(source, n, seed);
    CHECK(cuMemcpyHtoD(d, source, n));
}

/* A pair that was filled and copied: its pages are one. */
static inline struct pair filled_pair(size_t n, unsigned seed)
{
    struct pair p = new_pair(n);
    paint(p.h, n, seed);
    CHECK(cuMemcpyHtoD(p.d, p.h, n));
    return p;
}

static inline void give_back(struct pair p)
{
    CHECK(cuMemFree(p.d));
    free(p.h);
}

/* Writes to each page of a pair that was copied, and checks both sides. */
static inline void write_all(struct pair p, size_t n, unsigned old, unsigned seed)
{
    paint(p.h, n, seed);
    EXPECT(shows(p.h, n, seed) && copy_sees(p.d, 0, n, old));
    CHECK(cuMemcpyHtoD(p.d, p.h, n));
    EXPECT(copy_sees(p.d, 0, n, seed));
}

/* main(): SCENE [read], on the first device. */
static inline int run_scenes(const struct scenario *all, size_t count, int argc, char **argv)
{
    kernels_read = argc > 2 && !strcmp(argv[2], "read");
    start_gpu(0);
    int status = run_scenario(all, count, argc, argv);
    end_gpu(0);
    return status;
}

#define RUN_SCENES(all, argc, argv) run_scenes(all, sizeof(all) / sizeof((all)[0]), argc, argv)

#endif
