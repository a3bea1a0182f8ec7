/* SPDX-License-Identifier: MIT */
/* Copies of two and three dimensions, and between contexts. */
#include "copy.h"

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *c)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
                           .srcY = c->srcY,
                           .srcMemoryType = c->srcMemoryType,
                           .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray,
                           .srcPitch = c->srcPitch,
                           .dstXInBytes = c->dstXInBytes,
                           .dstY = c->dstY,
                           .dstMemoryType = c->dstMemoryType,
                           .dstHost = c->dstHost,
                           .dstDevice = c->dstDevice,
                           .dstArray = c->dstArray,
                           .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height,
                           .Depth = 1};
}

static CUDA_MEMCPY3D from_peer(const CUDA_MEMCPY3D_PEER *c)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
                           .srcY = c->srcY,
                           .srcZ = c->srcZ,
                           .srcMemoryType = c->srcMemoryType,
                           .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray,
                           .srcPitch = c->srcPitch,
                           .srcHeight = c->srcHeight,
                           .dstXInBytes = c->dstXInBytes,
                           .dstY = c->dstY,
                           .dstZ = c->dstZ,
                           .dstMemoryType = c->dstMemoryType,
                           .dstHost = c->dstHost,
                           .dstDevice = c->dstDevice,
                           .dstArray = c->dstArray,
                           .dstPitch = c->dstPitch,
                           .dstHeight = c->dstHeight,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height,
                           .Depth = c->Depth,
                           .reserved0 = c->srcContext,
                           .reserved1 = c->dstContext};
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, enum sim_copy_mode mode)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D shape = from_2d(c);
    return sim_copy(&shape, stream, mode);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, enum sim_copy_mode mode)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D shape = *c;
    shape.reserved0 = shape.reserved1 = NULL;
    return sim_copy(&shape, stream, mode);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream stream, enum sim_copy_mode mode)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D shape = from_peer(c);
    return sim_copy_peer(&shape, stream, mode);
}

SIM_API_PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *c), (c))
{
    return copy_2d(c, NULL, SIM_COPY_SYNC);
}

SIM_API_PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *c), (c))
{
    return copy_2d(c, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c, CUstream stream), (c, stream))
{
    return copy_2d(c, stream, SIM_COPY_ASYNC);
}

SIM_API_PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *c), (c))
{
    return copy_3d(c, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *c, CUstream stream), (c, stream))
{
    return copy_3d(c, stream, SIM_COPY_ASYNC);
}

SIM_API_PTDS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *c), (c))
{
    return copy_3d_peer(c, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *c, CUstream stream), (c, stream))
{
    return copy_3d_peer(c, stream, SIM_COPY_ASYNC);
}
