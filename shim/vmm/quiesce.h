/* SPDX-License-Identifier: MIT */
/* Waits for deferred work before a stream may wait for the CPU. */
#ifndef ZC_VMM_QUIESCE_H
#define ZC_VMM_QUIESCE_H

#include "driver/real.h"

/* `fn` is about to give a stream work that may wait for the CPU (driver/await.h): waits first for
 * everything that libzc has deferred.  A code other than CUDA_SUCCESS is returned to the
 * program. */
CUresult zc_quiesce(enum zc_fn fn);

#endif
