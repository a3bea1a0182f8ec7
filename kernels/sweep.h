/* SPDX-License-Identifier: MIT */
/*
 * Shared by the sweeps: blocks that are more than a budget of device memory, through all
 * of which kernels go again and again.  They differ in how the blocks come to the GPU.
 */
#ifndef KERNELS_SWEEP_H
#define KERNELS_SWEEP_H

#include "common.cuh"
#include "sweep.cuh"

#define SWEEP_MOST 256 /* blocks */

struct sweep {
    size_t blocks, words; /* of 16 bytes, in each block */
    size_t bytes;         /* of a block */
    size_t fit;           /* blocks that the budget has room for */
    size_t sweeps;
    unsigned touches; /* of each word in one launch */
};

/* Reads [blocks [MiB of each [blocks that fit [sweeps [touches]]]]]. */
static inline struct sweep sweep_arguments(int argc, char **argv, struct report *report)
{
    struct sweep s = {};

    at_most_arguments(argc, argv, 5, "[blocks [MiB [blocks that fit [sweeps [touches]]]]]");
    s.blocks = size_argument(argc, argv, 1, "blocks", 6, 1, SWEEP_MOST);
    s.bytes = size_argument(argc, argv, 2, "MiB", 1, 1, 4096) << 20;
    s.fit = size_argument(argc, argv, 3, "blocks that fit", 4, 3, SWEEP_MOST);
    s.sweeps = size_argument(argc, argv, 4, "sweeps", 2, 1, 1000);
    s.touches = (unsigned)size_argument(argc, argv, 5, "touches", 1, 1, 1 << 20);
    s.words = s.bytes / sizeof(uint4);
    report_size(report, "blocks", s.blocks);
    report_size(report, "block_bytes", s.bytes);
    report_size(report, "fit", s.fit);
    report_size(report, "sweeps", s.sweeps);
    report_size(report, "touches", s.touches);
    return s;
}

static inline void sweep_fill(uint4 *block, size_t index, const struct sweep *s)
{
    for (size_t i = 0; i < s->words; i++)
        block[i].x = block[i].y = block[i].z = block[i].w = (unsigned)(i * 2654435761u + index);
}

/* Changes all of a block on the GPU. */
static inline void sweep_launch(uint4 *block, const struct sweep *s, cudaStream_t stream)
{
    update<<<1056, 256, 0, stream>>>(block, (unsigned)s->words, s->touches);
    CHECK(cudaGetLastError());
}

/* One block on the host, as the kernels have left it. */
static inline int sweep_verify(const uint4 *block, size_t index, const struct sweep *s)
{
    unsigned more = (unsigned)(s->sweeps * s->touches);

    for (size_t i = 0; i < s->words; i++) {
        unsigned was = (unsigned)(i * 2654435761u + index);
        if (block[i].x != was + more || block[i].y != was + 3 * more || block[i].z != was ||
            block[i].w != was)
            return 0;
    }
    return 1;
}

#endif
