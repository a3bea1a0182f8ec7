/* SPDX-License-Identifier: MIT */
/* Refusals that a place caused are named by their rule. */
#ifndef ZC_HOOK_DIAGNOSE_H
#define ZC_HOOK_DIAGNOSE_H

#include "driver/real.h"

/*
 * Says why the driver refused a call: when `address` lies in a block that libzc placed elsewhere,
 * one message names the rule, its line and the block.  Returns the driver's code unchanged.
 */
CUresult zc_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code);

/* A call of `fn` tells of a kernel that failed with an illegal address: names, once a process, the
 * rules that have placed blocks, and the blocks that kernels may only read. */
void zc_diagnose_kernel(enum zc_fn fn);

/* From here on launches, too, are looked at: a block was placed. */
void zc_diagnose_watch(void);

/* What every wrapper returns: any call may be the first to tell of a kernel that failed.  Returns
 * the code unchanged. */
static inline CUresult zc_check_sticky(enum zc_fn fn, CUresult code)
{
    if (__builtin_expect(code == CUDA_ERROR_ILLEGAL_ADDRESS, 0))
        zc_diagnose_kernel(fn);
    return code;
}

#endif
