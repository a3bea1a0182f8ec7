/* SPDX-License-Identifier: MIT */
/* The error check of the programs that use the CUDA runtime API, and all of common.h. */
#ifndef KERNELS_COMMON_CUH
#define KERNELS_COMMON_CUH

#include "common.h"

/* Runs a runtime call; on an error it names the call and exits, as these programs never recover. */
#define CHECK(call) check_cuda((call), #call)

static inline void check_cuda(cudaError_t error, const char *call)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s (%s)\n", call, cudaGetErrorString(error), cudaGetErrorName(error));
        exit(EXIT_CUDA);
    }
}

#endif
