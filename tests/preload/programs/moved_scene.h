/* SPDX-License-Identifier: MIT */
/* Shared by the scenes with blocks that move: blocks of known bytes, a kernel that uses them, and
 * where they are. */
#ifndef MOVED_SCENE_H
#define MOVED_SCENE_H

#include "include/zc.h"
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCK block_bytes() /* 4 MiB, or BLOCK_MIB. */
#define BLOCK_MOST (64 * MIB)
#define MOST 24

static CUdeviceptr blocks[MOST];
static unsigned char value[MOST]; /* Each byte of a block. */
static unsigned count;
static size_t more; /* Bytes that the third block and those after it are larger. */
static unsigned char out[BLOCK_MOST];
static CUfunction kernel;

/* MiB that went over the link of another device than the one that has the blocks. */
static inline unsigned over_the_other(void)
{
    return (unsigned)(sim_link_bytes(1) / MIB);
}

static inline size_t block_bytes(void)
{
    static size_t bytes;
    const char *mib = getenv("BLOCK_MIB");
    if (!bytes)
        bytes = mib ? (size_t)atoi(mib) * MIB : 4 * MIB;
    return bytes;
}

/* On the GPU's side: whether the block at an address is in host memory. */
static inline bool hosted(CUdeviceptr p)
{
    struct zc_memory m = {.device_bytes = -1};
    return zc_query((const void *)p, &m) && m.device_bytes == 0;
}

/* A kernel add(struct {pointer, bytes, microseconds on the device, and in host memory of 4 MiB}):
 * adds 1 to each byte and takes as long as a GPU would. */
struct work {
    CUdeviceptr at;
    size_t bytes;
    unsigned near, far;
};

static inline int add_grid(void *const *args, const struct sim_launch *launch)
{
    const struct work *w = args[0];
    unsigned char *p = sim_gpu_pointer_write(w->at);
    (void)launch;
    if (!p || !sim_gpu_pointer_write(w->at + w->bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < w->bytes; i++)
        p[i]++;
    sim_kernel_takes(hosted(w->at) ? w->far * (unsigned)(BLOCK / (4 * MIB)) : w->near);
    return 0;
}

static inline void add(unsigned i, unsigned near, unsigned far, CUstream stream)
{
    static const size_t sizes[] = {sizeof(struct work)};
    if (!kernel)
        kernel = load_kernel("add", add_grid, 1, sizes);
    struct work w = {blocks[i], BLOCK, near, far};
    void *args[] = {&w};
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    value[i]++;
}

static inline void make(unsigned n)
{
    count = n;
    for (unsigned i = 0; i < n; i++) {
        CHECK(cuMemAlloc(&blocks[i], BLOCK + (i > 1) * more));
        CHECK(cuMemsetD8(blocks[i], value[i] = (unsigned char)(40 * i), BLOCK));
    }
}

/* "DH": the first block is on the device, the second one in host memory. */
static inline void show(const char *when)
{
    printf("%s: ", when);
    for (unsigned i = 0; i < count; i++)
        putchar(hosted(blocks[i]) ? 'H' : 'D');
    putchar('\n');
}

static inline void check_all(void)
{
    for (unsigned i = 0; i < count; i++) {
        memset(out, 255, BLOCK);
        CHECK(cuMemcpyDtoH(out, blocks[i], BLOCK));
        EXPECT(all_are(out, value[i], BLOCK));
    }
}

static inline void end(void)
{
    check_all();
    for (unsigned i = 0; i < count; i++)
        CHECK(cuMemFree(blocks[i]));
    kernel = NULL;
    end_gpu(0);
    if (getenv("BLOCK_MIB"))
        printf("over the other: %u MiB\n", over_the_other());
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

static inline void sweep(unsigned from, unsigned to, unsigned times, unsigned near, unsigned far)
{
    for (unsigned t = 0; t < times; t++)
        for (unsigned i = from; i < to; i++)
            add(i, near, far, NULL);
}

#endif
