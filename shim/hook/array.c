/* SPDX-License-Identifier: MIT */
/* Requests for arrays, which the driver lays out: they get the memory that libzc keeps for later.
 */
#include "driver/call.h"
#include "memory/reclaim.h"

ZC_BODY(cuArrayCreate_v2, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *desc))
{
    return ZC_RECLAIMING(real(array, desc));
}

ZC_BODY(cuArray3DCreate_v2, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *desc))
{
    return ZC_RECLAIMING(real(array, desc));
}

ZC_BODY(cuMipmappedArrayCreate,
        (CUmipmappedArray * mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels))
{
    return ZC_RECLAIMING(real(mipmap, desc, levels));
}
