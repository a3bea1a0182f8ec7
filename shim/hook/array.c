/* SPDX-License-Identifier: MIT */
/* Requests for arrays: opaque to programs, never moved, only counted at their sites. */
#include "base/life.h"
#include "hook/request.h"
#include "ledger/block.h"
#include "ledger/site_path.h"
#include "memory/reclaim.h"

/* Bytes of an element; 0 for compressed and planar formats, whose size follows no simple rule. */
static size_t element_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

/* A height or depth of 0 means one or two dimensions (cuArray3DCreate). */
static void note(const struct zc_entry *entry, CUarray_format format, unsigned channels,
                 size_t width, size_t height, size_t depth)
{
    if (zc_life_on())
        zc_block_note_request(zc_site_here(entry->frame, entry->pc),
                              element_bytes(format) * channels * width * (height ? height : 1) *
                                  (depth ? depth : 1));
}

ZC_BODY(cuArrayCreate_v2, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *desc))
{
    CUresult result = ZC_RECLAIMING(real(array, desc));
    if (result == CUDA_SUCCESS)
        note(entry, desc->Format, desc->NumChannels, desc->Width, desc->Height, 0);
    return result;
}

ZC_BODY(cuArray3DCreate_v2, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *desc))
{
    CUresult result = ZC_RECLAIMING(real(array, desc));
    if (result == CUDA_SUCCESS)
        note(entry, desc->Format, desc->NumChannels, desc->Width, desc->Height, desc->Depth);
    return result;
}

ZC_BODY(cuMipmappedArrayCreate,
        (CUmipmappedArray * mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels))
{
    CUresult result = ZC_RECLAIMING(real(mipmap, desc, levels));
    if (result == CUDA_SUCCESS)
        note(entry, desc->Format, desc->NumChannels, desc->Width, desc->Height, desc->Depth);
    return result;
}
