/* SPDX-License-Identifier: MIT */
/* Launches: what places have to know before the GPU is given work that no call describes. */
#ifndef ZC_DRIVER_LAUNCH_H
#define ZC_DRIVER_LAUNCH_H

#include "driver/real.h"

/* Who may ask to be called; the order is that of the calls. */
enum zc_launch_party {
    ZC_LAUNCH_GROW,     /* vmm: memory that is not attached yet, copies not made yet. */
    ZC_LAUNCH_SHARED,   /* shared: kernels may write the device side. */
    ZC_LAUNCH_PREFETCH, /* managed: pages that go to where they will be used. */
    ZC_LAUNCH_DIAGNOSE, /* Any place: an answer that tells of a kernel that failed. */
    ZC_LAUNCH_PARTIES
};

/* Work that is about to be given to the driver. */
struct zc_launch {
    enum zc_fn fn;           /* Entry point. */
    enum zc_flavour flavour; /* What the NULL stream means. */
    CUstream stream;         /* As the program gave it; NULL for calls without one. */
    bool kernels;            /* Kernels or a graph.  False for calls that name their addresses but
                              * are not described as copies: stream memory operations, batches,
                              * nodes of graphs, imports. */
};

/* Called before the driver is.  A code other than CUDA_SUCCESS is returned to the program, and
 * nothing is launched. */
typedef CUresult (*zc_launch_fn)(const struct zc_launch *launch);

/* A bit for each party that wants to be called; atomic.  Read by every launch, with one relaxed
 * load: a party sets its bit before the program's call returns that made it necessary, so that a
 * launch ordered after that call sees it. */
extern unsigned zc_launch_watch;

/* From here on `fn` is called before each launch; NULL: no more. */
void zc_launch_call(enum zc_launch_party party, zc_launch_fn fn);

/* Calls the parties until one refuses. */
CUresult zc_do_launch(enum zc_fn fn, enum zc_flavour flavour, CUstream stream, bool kernels);

/* The same where nobody mostly wants to know, as on the path of every launch. */
static inline CUresult zc_launch_before(enum zc_fn fn, enum zc_flavour flavour, CUstream stream,
                                        bool kernels)
{
    if (__builtin_expect(!__atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED), 1))
        return CUDA_SUCCESS;
    return zc_do_launch(fn, flavour, stream, kernels);
}

void zc_launch_reset(void); /* For the child of fork(2): nobody wants to know. */

#endif
