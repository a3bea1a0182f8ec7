/* SPDX-License-Identifier: MIT */
/* Calls registered parties before each launch. */
#include "driver/launch.h"

#include "base/life.h"
#include "base/module.h"

unsigned zc_launch_watch;
static zc_launch_fn parties[ZC_LAUNCH_PARTIES];

/* The function is set before the bit and stays after it.  So a launch that still sees the bit of a
 * party that has left finds its function or NULL. */
void zc_launch_call(enum zc_launch_party party, zc_launch_fn fn)
{
    if (!fn)
        __atomic_fetch_and(&zc_launch_watch, ~(1u << party), __ATOMIC_ACQ_REL);
    __atomic_store_n(&parties[party], fn, __ATOMIC_RELEASE);
    if (fn)
        __atomic_fetch_or(&zc_launch_watch, 1u << party, __ATOMIC_ACQ_REL);
}

/* After exit has begun libzc makes no calls of its own; but kernels must still find the memory and
 * the bytes that the program was given. */
CUresult zc_do_launch(enum zc_fn fn, enum zc_flavour flavour, CUstream stream, bool kernels)
{
    const struct zc_launch launch = {fn, flavour, stream, kernels};
    for (unsigned i = 0; i < ZC_LAUNCH_PARTIES; i++) {
        if (zc_life_closing() && i == ZC_LAUNCH_PREFETCH)
            break;
        zc_launch_fn party = __atomic_load_n(&parties[i], __ATOMIC_ACQUIRE);
        CUresult result = party ? party(&launch) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

void zc_launch_reset(void)
{
    zc_launch_watch = 0;
    for (unsigned i = 0; i < ZC_LAUNCH_PARTIES; i++)
        parties[i] = NULL;
}

const struct zc_module zc_module_launch = {.child = zc_launch_reset};
