/* SPDX-License-Identifier: MIT */
/* Batches of copies, in the forms of CUDA 12.8 (with failIdx) and 13.0. They run on a stream of the
 * program's own, never on the legacy default stream, and with the rights of its device (two H200s).
 * Lines can be captured, as from CUDA 13.5 on.
 */
#include "array.h"
#include "copy.h"
#include "graph_work.h"

static CUresult batch_stream(CUstream handle, bool boxes, struct sim_stream **out)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    *out = s;
    if (s->capture && boxes)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return s == s->ctx->legacy ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Each attribute must apply to a run of copies that starts after the run before it. */
static bool attributes_valid(const CUmemcpyAttributes *attrs, const size_t *starts, size_t n,
                             size_t count)
{
    if (!attrs || !starts || n == 0 || n > count || starts[0] != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (attrs[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
            attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
            return false;
        if (i > 0 && (starts[i] <= starts[i - 1] || starts[i] >= count))
            return false;
    }
    return true;
}

/* All copies are checked before the first is queued. */
static CUresult batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                      CUmemcpyAttributes *attrs, size_t *starts, size_t n, size_t *fail,
                      CUstream stream)
{
    size_t attribute = 0;
    CUDA_MEMCPY3D shape;
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult r = batch_stream(stream, false, &s);
    if (fail)
        *fail = SIZE_MAX;
    if (r == CUDA_SUCCESS)
        r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!dsts || !srcs || !sizes || count == 0 || !attributes_valid(attrs, starts, n, count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        shape = sim_copy_linear(CU_MEMORYTYPE_UNIFIED, dsts[i], CU_MEMORYTYPE_UNIFIED, srcs[i],
                                sizes[i]);
        if (sizes[i] == 0 || sim_copy_check(&shape, s->ctx->device) != CUDA_SUCCESS) {
            if (fail)
                *fail = i;
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (s->capture && sim_driver_version() >= 13050) {
        const struct sim_batch_node p = {.count = count,
                                         .dsts = dsts,
                                         .srcs = srcs,
                                         .sizes = sizes,
                                         .attributes = attrs,
                                         .indices = starts,
                                         .attribute_count = n};
        struct sim_work work;
        r = sim_work_of_batch(&work, &p, s->ctx->device);
        return r == CUDA_SUCCESS ? sim_submit(s, &work) : r;
    }
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        shape = sim_copy_linear(CU_MEMORYTYPE_UNIFIED, dsts[i], CU_MEMORYTYPE_UNIFIED, srcs[i],
                                sizes[i]);
        while (attribute + 1 < n && starts[attribute + 1] <= i)
            attribute++;
        r = sim_copy_for(&shape, stream, sim_copy_mode_of((int)attrs[attribute].srcAccessOrder),
                         s->ctx->device);
    }
    return r;
}

static size_t element_of(const CUmemcpy3DOperand *o)
{
    struct sim_array *a =
        o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? sim_array_of(o->op.array.array) : NULL;
    return a && a->desc.Width ? a->row / a->desc.Width : 0;
}

static void source_of(const CUmemcpy3DOperand *o, size_t unit, CUDA_MEMCPY3D *c)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        c->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        c->srcArray = o->op.array.array;
        c->srcXInBytes = o->op.array.offset.x * unit;
        c->srcY = o->op.array.offset.y;
        c->srcZ = o->op.array.offset.z;
        return;
    }
    c->srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    c->srcDevice = o->op.ptr.ptr;
    c->srcPitch = (o->op.ptr.rowLength ? o->op.ptr.rowLength * unit : c->WidthInBytes);
    c->srcHeight = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : c->Height;
}

static void target_of(const CUmemcpy3DOperand *o, size_t unit, CUDA_MEMCPY3D *c)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        c->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c->dstArray = o->op.array.array;
        c->dstXInBytes = o->op.array.offset.x * unit;
        c->dstY = o->op.array.offset.y;
        c->dstZ = o->op.array.offset.z;
        return;
    }
    c->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    c->dstDevice = o->op.ptr.ptr;
    c->dstPitch = (o->op.ptr.rowLength ? o->op.ptr.rowLength * unit : c->WidthInBytes);
    c->dstHeight = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : c->Height;
}

static bool is_operand(const CUmemcpy3DOperand *o)
{
    return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER || o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ||
           ((int)o->type == SIM_FUTURE_OPERAND && sim_driver_version() >= SIM_FUTURE);
}

/* Extents and rows are in elements: of the array where one side is an array, else of one byte. */
CUresult sim_copy_of_op(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *c)
{
    size_t element = element_of(&op->src) ? element_of(&op->src) : element_of(&op->dst);
    size_t unit = element ? element : 1;
    if (op->extent.width == 0 || op->extent.height == 0 || op->extent.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_operand(&op->src) || !is_operand(&op->dst))
        return CUDA_ERROR_INVALID_VALUE;
    *c = (CUDA_MEMCPY3D){.WidthInBytes = op->extent.width * unit,
                         .Height = op->extent.height,
                         .Depth = op->extent.depth};
    source_of(&op->src, unit, c);
    target_of(&op->dst, unit, c);
    return CUDA_SUCCESS;
}

static CUresult batch_3d(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
                         unsigned long long flags, CUstream stream)
{
    CUDA_MEMCPY3D shape;
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult r = batch_stream(stream, true, &s);
    if (fail)
        *fail = SIZE_MAX;
    if (r == CUDA_SUCCESS)
        r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ops || count == 0 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (sim_copy_of_op(&ops[i], &shape) != CUDA_SUCCESS ||
            sim_copy_check(&shape, s->ctx->device) != CUDA_SUCCESS) {
            if (fail)
                *fail = i;
            return CUDA_ERROR_INVALID_VALUE;
        }
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        sim_copy_of_op(&ops[i], &shape);
        r = sim_copy_for(&shape, stream, sim_copy_mode_of((int)ops[i].srcAccessOrder),
                         s->ctx->device);
    }
    return r;
}

SIM_API_PTSZ(cuMemcpyBatchAsync,
             (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
              CUmemcpyAttributes *attrs, size_t *starts, size_t n, size_t *fail, CUstream stream),
             (dsts, srcs, sizes, count, attrs, starts, n, fail, stream))
{
    return batch(dsts, srcs, sizes, count, attrs, starts, n, fail, stream);
}

SIM_API_PTSZ(cuMemcpy3DBatchAsync,
             (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail, unsigned long long flags,
              CUstream stream),
             (count, ops, fail, flags, stream))
{
    return batch_3d(count, ops, fail, flags, stream);
}

SIM_API_PTSZ(cuMemcpyBatchAsync_v2,
             (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
              CUmemcpyAttributes *attrs, size_t *starts, size_t n, CUstream stream),
             (dsts, srcs, sizes, count, attrs, starts, n, stream))
{
    return batch(dsts, srcs, sizes, count, attrs, starts, n, NULL, stream);
}

SIM_API_PTSZ(cuMemcpy3DBatchAsync_v2,
             (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream),
             (count, ops, flags, stream))
{
    return batch_3d(count, ops, NULL, flags, stream);
}
