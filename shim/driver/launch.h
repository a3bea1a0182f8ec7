/* SPDX-License-Identifier: MIT */
/* Launches, and other work given to the GPU whose memory accesses no call describes. */
#ifndef ZC_DRIVER_LAUNCH_H
#define ZC_DRIVER_LAUNCH_H

#include "driver/real.h"

/* The parties, in the order in which they are called. */
enum zc_launch_party {
    ZC_LAUNCH_GROW,     /* vmm: attach memory, make pending copies. */
    ZC_LAUNCH_SHARED,   /* shared: kernels may write the device side. */
    ZC_LAUNCH_PREFETCH, /* managed: prefetch pages to where they will be used. */
    ZC_LAUNCH_DIAGNOSE, /* All places: check for the sticky error of a failed kernel. */
    ZC_LAUNCH_PARTIES
};

/* Work that is about to be given to the driver. */
struct zc_launch {
    enum zc_fn fn;           /* Entry point. */
    enum zc_flavour flavour; /* What the NULL stream means. */
    CUstream stream;         /* As the program gave it; NULL for calls without one. */
    bool kernels;            /* Kernels or a graph.  False for calls that name addresses without
                              * being described as copies: stream memory operations, batches, nodes
                              * of graphs, imports. */
};

/* Called before the driver.  If it returns an error, the program gets that, and nothing is
 * launched. */
typedef CUresult (*zc_launch_fn)(const struct zc_launch *launch);

/* One bit for each party that wants to be called.  Atomic.  Every launch reads it with one relaxed
 * load.  A party sets its bit before the program's call that made it necessary returns, so a launch
 * ordered after that call sees the bit. */
extern unsigned zc_launch_watch;

/* Calls `fn` before each launch from now on; NULL: no more. */
void zc_launch_call(enum zc_launch_party party, zc_launch_fn fn);

/* Calls the parties until one refuses. */
CUresult zc_do_launch(enum zc_fn fn, enum zc_flavour flavour, CUstream stream, bool kernels);

/* The same, fast for the common case that no party is registered. */
static inline CUresult zc_launch_before(enum zc_fn fn, enum zc_flavour flavour, CUstream stream,
                                        bool kernels)
{
    if (__builtin_expect(!__atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED), 1))
        return CUDA_SUCCESS;
    return zc_do_launch(fn, flavour, stream, kernels);
}

void zc_launch_reset(void); /* For the child of fork(2): no party is registered. */

#endif
