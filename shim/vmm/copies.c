/* SPDX-License-Identifier: MIT */
/* Copies and sets by one device that touch vmm blocks of another. */
#include "vmm/copies.h"

#include "driver/stream.h"
#include "vmm/access.h"
#include "vmm/vmm.h"

static CUresult open_side(const struct zc_block *side, int device)
{
    struct zc_vmm *v = zc_vmm_of(side);
    return v ? zc_access_let_copy(&v->va, device) : CUDA_SUCCESS;
}

static bool many_devices(void)
{
    return __atomic_load_n(&zc_access_many, __ATOMIC_RELAXED);
}

CUresult zc_vmm_open(const struct zc_copy *c)
{
    bool set = c->shape == ZC_SHAPE_SET;
    const struct zc_vmm *to = zc_vmm_of(c->dst.block);
    if (!many_devices() || zc_copy_peers(c) || (!to && !zc_vmm_of(c->src.block)))
        return CUDA_SUCCESS;
    int device;
    CUresult result = zc_stream_device(c->stream, c->flavour, &device);
    if (result == CUDA_SUCCESS && set && to && !to->va.pool)
        result = zc_access_may_set(&to->va, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    else if (result == CUDA_SUCCESS)
        result = open_side(c->dst.block, device);
    return result == CUDA_SUCCESS && !set ? open_side(c->src.block, device) : result;
}

CUresult zc_vmm_named(CUdeviceptr address, CUstream stream, enum zc_flavour flavour)
{
    const struct zc_block *block = many_devices() && address ? zc_block_find(address) : NULL;
    int device;
    if (!zc_vmm_of(block))
        return CUDA_SUCCESS;
    CUresult result = zc_stream_device(stream, flavour, &device);
    return result == CUDA_SUCCESS ? open_side(block, device) : result;
}
