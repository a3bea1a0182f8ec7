/* SPDX-License-Identifier: MIT */
/* What is left behind for later must be done before a stream may wait for the CPU. */
#ifndef ZC_VMM_QUIESCE_H
#define ZC_VMM_QUIESCE_H

#include "driver/real.h"

/* Before `fn` gives a stream work that may wait for the CPU (driver/await.h): waits for what is
 * left behind by now.  A code other than CUDA_SUCCESS is returned to the program. */
CUresult zc_quiesce(enum zc_fn fn);

#endif
