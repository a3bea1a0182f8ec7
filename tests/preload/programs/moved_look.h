/* SPDX-License-Identifier: MIT */
/* Blocks that the program fills, and kernels that look whether each has what it must. */
#pragma once

#include "moved_scene.h"

static CUfunction reader;
static atomic_uint wrong; /* Blocks that a kernel has read and that were not what they must be. */

#define HELD UINT32_MAX
static atomic_bool held;

/* A kernel look(struct work, what each byte must be); `near`: microseconds that it waits first, or
 * HELD: as long as the program has it so. */
static inline int look_grid(void *const *args, const struct sim_launch *launch)
{
    const struct work *w = args[0];
    const unsigned char *p = sim_gpu_pointer(w->at);
    (void)launch;
    while (w->near == HELD && held)
        usleep(100);
    if (w->near != HELD)
        usleep(w->near);
    if (!p || !sim_gpu_pointer(w->at + w->bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    wrong += !all_are(p, *(const unsigned char *)args[1], w->bytes);
    return 0;
}

static inline CUresult try_look(unsigned i, CUstream stream, unsigned microseconds)
{
    static const size_t sizes[] = {sizeof(struct work), 1};
    if (!reader)
        reader = load_kernel("look", look_grid, 2, sizes);
    struct work w = {blocks[i], BLOCK, microseconds, 0};
    void *args[] = {&w, &value[i]};
    return cuLaunchKernel(reader, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

static inline void look(unsigned i, CUstream stream)
{
    CHECK(try_look(i, stream, 0));
}

static inline void look_through(unsigned from, unsigned to, unsigned times)
{
    for (unsigned t = 0; t < times; t++)
        for (unsigned i = from; i < to; i++)
            look(i, NULL);
}

static inline void bring(unsigned i)
{
    memset(out, ++value[i], BLOCK);
    CHECK(cuMemcpyHtoD(blocks[i], out, BLOCK));
}

static inline CUcontext start(unsigned n)
{
    CUcontext context = start_gpu(0);
    make(n);
    for (unsigned i = 0; i < n; i++)
        bring(i);
    return context;
}

static inline void sweep_six(unsigned times)
{
    start(6);
    look_through(0, 6, times);
}

static inline void finish(void)
{
    CHECK(cuCtxSynchronize());
    printf("wrong: %u\n", wrong);
    end();
}
