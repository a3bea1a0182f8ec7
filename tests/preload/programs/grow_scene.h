/* SPDX-License-Identifier: MIT */
/* Shared by the programs of growing arrays: blocks, their bytes, and the driver's copies. */
#ifndef TESTS_PRELOAD_GROW_SCENE_H
#define TESTS_PRELOAD_GROW_SCENE_H

#include "program.h"

#define MIB ((size_t)1 << 20)

static char host[4 * MIB];

static inline CUdeviceptr make(size_t bytes)
{
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

/* The beginning, middle and end of a block have one value. */
static inline void has(CUdeviceptr p, int value, size_t bytes)
{
    size_t part = bytes < sizeof(host) / 4 ? bytes : sizeof(host) / 4;
    size_t at[] = {0, (bytes - part) / 2, bytes - part};
    for (int i = 0; i < 3; i++) {
        memset(host, 0x77, part);
        CHECK(cuMemcpyDtoH(host, p + at[i], part));
        EXPECT(all_are(host, value, part));
    }
}

/* A pair of blocks, the copy between them made by the program and the old one not freed. */
static CUdeviceptr from, to;

static inline void pair(void)
{
    start_gpu(0);
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    to = make(8 * MIB);
    CHECK(cuMemcpyDtoD(to, from, 4 * MIB));
}

/* A program's step of growth: the larger block, which has the bytes of the old one. */
static inline CUdeviceptr grow_to(size_t larger, CUdeviceptr old, size_t bytes)
{
    CUdeviceptr more = make(larger);
    CHECK(cuMemcpyDtoD(more, old, bytes));
    CHECK(cuMemFree(old));
    return more;
}

static inline void finish(CUdeviceptr left)
{
    if (left)
        CHECK(cuMemFree(left));
    end_gpu(0);
}

#endif
