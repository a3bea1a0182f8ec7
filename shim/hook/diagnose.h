/* SPDX-License-Identifier: MIT */
/* Names the rules that may be why the driver refused a call, or why a kernel failed. */
#pragma once

#include "driver/real.h"

/*
 * Explains a refused call: if `address` is in a block that libzc placed elsewhere, one message
 * names the rule, its line and the block.  Returns the driver's code unchanged.
 */
CUresult zc_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code);

/* The same for a call about a range from `address` on that crosses a border (hook/parts.h). */
CUresult zc_diagnose_border(enum zc_fn fn, CUdeviceptr address, CUresult code);

/* The same for a copy in an executable graph that can't become one of pageable memory: because of
 * the block that it was made with, or that it would copy. */
CUresult zc_diagnose_frail(enum zc_fn fn, CUdeviceptr made, CUdeviceptr then, CUresult code);

/* A call of `fn` reports that a kernel failed with an illegal address: names, once a process, the
 * rules that have placed blocks, and the blocks that kernels may only read. */
void zc_diagnose_kernel(enum zc_fn fn);

/* A block was placed: checks launches, too, from now on. */
void zc_diagnose_watch(void);

/* Every wrapper returns through this, because any call may be the first to report a failed kernel.
 * Returns the code unchanged. */
static inline CUresult zc_check_sticky(enum zc_fn fn, CUresult code)
{
    if (__builtin_expect(code == CUDA_ERROR_ILLEGAL_ADDRESS, 0))
        zc_diagnose_kernel(fn);
    return code;
}
