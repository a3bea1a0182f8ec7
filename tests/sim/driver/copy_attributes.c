/* SPDX-License-Identifier: MIT */
/* Single copies whose caller says when the source may be read (CUDA 13.2), and copies over a fabric
 * (CUDA 13.5), of which the simulation has no more than one host. */
#include "../fabric.h"
#include "array.h"
#include "copy.h"

static CUresult copy(const CUDA_MEMCPY3D *shape, int order, CUstream handle)
{
    if (order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_copy(shape, handle, sim_copy_mode_of(order));
}

SIM_API_PTSZ(cuMemcpyWithAttributesAsync,
             (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attributes,
              CUstream stream),
             (dst, src, size, attributes, stream))
{
    CUDA_MEMCPY3D shape =
        sim_copy_linear(CU_MEMORYTYPE_UNIFIED, dst, CU_MEMORYTYPE_UNIFIED, src, size);
    return attributes ? copy(&shape, (int)attributes->srcAccessOrder, stream)
                      : CUDA_ERROR_INVALID_VALUE;
}

SIM_API_PTSZ(cuMemcpy3DWithAttributesAsync,
             (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream stream),
             (op, flags, stream))
{
    CUDA_MEMCPY3D shape;
    if (!op || flags || sim_copy_of_op(op, &shape) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return copy(&shape, (int)op->srcAccessOrder, stream);
}

/* Endpoints lead to other hosts. */
static CUresult check_op(const CUDA_FABRIC_COPY_BATCH_OP *op, int device)
{
    CUDA_MEMCPY3D shape = sim_copy_linear(CU_MEMORYTYPE_UNIFIED, op->dst.op.ptr.ptr,
                                          CU_MEMORYTYPE_UNIFIED, op->src.op.ptr.ptr, op->size);
    if (op->dst.type != CU_FABRIC_COPY_OPERAND_TYPE_POINTER ||
        op->src.type != CU_FABRIC_COPY_OPERAND_TYPE_POINTER)
        return CUDA_ERROR_NOT_SUPPORTED;
    return op->size ? sim_copy_check(&shape, device) : CUDA_SUCCESS;
}

SIM_API_PTSZ(cuFabricCpyBatchAsync,
             (size_t count, CUDA_FABRIC_COPY_BATCH_OP *ops, unsigned long long flags,
              CUstream stream),
             (count, ops, flags, stream))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS && (!ops || !count || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = check_op(&ops[i], ctx->device);
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        CUDA_MEMCPY3D shape =
            sim_copy_linear(CU_MEMORYTYPE_UNIFIED, ops[i].dst.op.ptr.ptr, CU_MEMORYTYPE_UNIFIED,
                            ops[i].src.op.ptr.ptr, ops[i].size);
        r = ops[i].size ? sim_copy(&shape, stream, SIM_COPY_ASYNC) : CUDA_SUCCESS;
    }
    return r;
}
