/* SPDX-License-Identifier: MIT */
/* Peer access: lets kernels of one context use the memory of another. */
#include "base/life.h"
#include "driver/call.h"
#include "vmm/access.h"

/* If the rights of a block can't be changed, the program gets that code, and its call has not
 * happened. */
ZC_BODY(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))
{
    CUresult result = real(peer, flags);
    if (result != CUDA_SUCCESS || !zc_life_on() || zc_life_closing())
        return result;
    result = zc_access_enable(peer);
    if (result != CUDA_SUCCESS)
        zc_real.cuCtxDisablePeerAccess(peer);
    return result;
}

ZC_BODY(cuCtxDisablePeerAccess, (CUcontext peer))
{
    return zc_life_on() && !zc_life_closing() ? zc_access_disable(peer, real) : real(peer);
}
