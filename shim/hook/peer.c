/* SPDX-License-Identifier: MIT */
/* Peer access: whose memory the kernels of a context may use. */
#include "base/life.h"
#include "driver/call.h"
#include "vmm/access.h"

/* Where the rights of some block can't be changed the program gets that code, and its call, of
 * either function, has not happened. */
ZC_BODY(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))
{
    (void)entry;
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
    (void)entry;
    return zc_life_on() && !zc_life_closing() ? zc_access_disable(peer, real) : real(peer);
}
