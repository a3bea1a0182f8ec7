/* SPDX-License-Identifier: MIT */
/* Objects that kernels are given for an address: textures of linear memory, which are created
 * whatever lies there (tests/gpu/graph_facts.h200.txt), and tensor maps. */
#include "call.h"
#include "../sim.h"
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 512u /* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, */
#define PITCH 32u      /* and _TEXTURE_PITCH_ALIGNMENT. */

SIM_API(cuTexObjectCreate,
        (CUtexObject * out, const CUDA_RESOURCE_DESC *r, const CUDA_TEXTURE_DESC *desc,
         const CUDA_RESOURCE_VIEW_DESC *view),
        (out, r, desc, view))
{
    CUdeviceptr at;
    if (!out || !r || !desc || view)
        return CUDA_ERROR_INVALID_VALUE;
    if (r->resType != CU_RESOURCE_TYPE_LINEAR && r->resType != CU_RESOURCE_TYPE_PITCH2D)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool rows = r->resType == CU_RESOURCE_TYPE_PITCH2D;
    at = rows ? r->res.pitch2D.devPtr : r->res.linear.devPtr;
    if (at % ALIGNMENT || (rows && r->res.pitch2D.pitchInBytes % PITCH))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr *object = malloc(sizeof *object);
    *object = at;
    *out = (CUtexObject)(uintptr_t)object;
    return CUDA_SUCCESS;
}

SIM_API(cuTexObjectDestroy, (CUtexObject object), (object))
{
    free((void *)(uintptr_t)object);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUdeviceptr sim_texture_address(CUtexObject object)
{
    return *(const CUdeviceptr *)(uintptr_t)object;
}

/* Nobody says where a map holds its address: one kind has it as it is here, the other hides it. */
static CUresult encode(CUtensorMap *map, const void *address, bool hides)
{
    const cuuint64_t at = (uintptr_t)address;
    if (!map || at % 16)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->opaque[0] = hides ? at << 8 : at;
    map->opaque[1] = hides;
    return CUDA_SUCCESS;
}

SIM_API(cuTensorMapEncodeTiled,
        (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void *address,
         const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
         const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
         CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill),
        (map, type, rank, address, dim, strides, box, steps, interleave, swizzle, promotion, fill))
{
    (void)dim, (void)strides, (void)box, (void)steps;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    return rank && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ ? encode(map, address, false)
                                                                : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuTensorMapEncodeIm2col,
        (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void *address,
         const cuuint64_t *dim, const cuuint64_t *strides, const int *lower, const int *upper,
         cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
         CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
         CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill),
        (map, type, rank, address, dim, strides, lower, upper, channels, pixels, steps, interleave,
         swizzle, promotion, fill))
{
    (void)dim, (void)strides, (void)lower, (void)upper, (void)steps;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    return rank >= 3 && channels && pixels && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
               ? encode(map, address, true)
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuTensorMapReplaceAddress, (CUtensorMap * map, void *address), (map, address))
{
    return encode(map, address, map && map->opaque[1]);
}

SIM_EXPORT CUdeviceptr sim_tensor_address(const CUtensorMap *map)
{
    return map->opaque[1] ? map->opaque[0] >> 8 : map->opaque[0];
}
