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

bool zc_vmm_copy(struct zc_copy *c)
{
    const struct zc_vmm *to = zc_vmm_of(c->dst.block);
    if (zc_copy_peers(c) || (!to && !zc_vmm_of(c->src.block)))
        return false;
    int device;
    CUresult result = zc_stream_device(c->stream, c->flavour, &device);
    if (result == CUDA_SUCCESS && c->set && to && !to->va.pool)
        result = zc_access_may_set(&to->va, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    else if (result == CUDA_SUCCESS)
        result = open_side(c->dst.block, device);
    if (result == CUDA_SUCCESS && !c->set)
        result = open_side(c->src.block, device);
    c->result = result != CUDA_SUCCESS ? result : c->result;
    return result != CUDA_SUCCESS;
}

CUresult zc_vmm_named(CUdeviceptr address, CUstream stream, enum zc_flavour flavour)
{
    bool many = __atomic_load_n(&zc_access_many, __ATOMIC_RELAXED);
    const struct zc_block *block = many && address ? zc_block_find(address) : NULL;
    int device;
    if (!zc_vmm_of(block))
        return CUDA_SUCCESS;
    CUresult result = zc_stream_device(stream, flavour, &device);
    return result == CUDA_SUCCESS ? open_side(block, device) : result;
}
