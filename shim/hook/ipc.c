/* SPDX-License-Identifier: MIT */
/* Memory shared between processes, or with graphics APIs. */
#include "base/life.h"
#include "hook/diagnose.h"
#include "hook/request.h"

/* Only memory of cuMemAlloc itself can be exported this way.  A converted block is refused with the
 * driver's code for memory that can't be exported, and a message names the rule. */
ZC_BODY(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr ptr))
{
    if (zc_life_on() && zc_converted_at(ptr))
        return zc_diagnose(entry->fn, ptr, CUDA_ERROR_INVALID_VALUE);
    return real(handle, ptr);
}

ZC_BODY(cuIpcCloseMemHandle, (CUdeviceptr ptr))
{
    zc_untrack_foreign(ptr);
    return real(ptr);
}
