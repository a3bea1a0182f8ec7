/* SPDX-License-Identifier: MIT */
/* Batches of copies, sets and prefetches: each element is recorded as a transfer of its own. */
#include "base/clock.h"
#include "base/life.h"
#include "copy/staged.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "hook/diagnose.h"
#include "hook/copy.h"
#include "hook/request.h"
#include "shared/backing.h"
#include "vmm/access.h"

#if CUDA_VERSION >= 12080

/* Records the elements of a batch that the driver took as a whole.  They share the call's time
 * evenly. */
static void begin_element(struct zc_copy *c, const struct zc_entry *entry, uint64_t start,
                          uint64_t share, CUstream stream)
{
    zc_copy_init(c, entry->fn, entry->flavour);
    c->frame = entry->frame;
    c->pc = entry->pc;
    c->start = start ? zc_ticks() - share : 0;
    zc_copy_on_stream(c, stream);
}

/* A batch that names a block of the host heap is complete when the call returns. */
static CUresult complete(const struct zc_copy *staged)
{
    return staged->async && !zc_capture_holds(staged->stream, staged->flavour)
               ? zc_staged_wait(staged)
               : CUDA_SUCCESS;
}

static CUresult record_lines(const struct zc_entry *entry, uint64_t start, const CUdeviceptr *dsts,
                             const CUdeviceptr *srcs, const size_t *sizes, size_t count,
                             CUstream stream)
{
    struct zc_copy staged = {.async = false};
    if (!start)
        return CUDA_SUCCESS;
    uint64_t share = count ? (zc_ticks() - start) / count : 0;
    for (size_t i = 0; i < count; i++) {
        struct zc_copy c;
        begin_element(&c, entry, start, share, stream);
        zc_describe_line(&c, ZC_SIDE_ANY, dsts[i], ZC_SIDE_ANY, srcs[i], sizes[i]);
        zc_copy_resolve(&c);
        if (zc_copy_staged(&c))
            staged = c;
        zc_copy_end(&c);
    }
    return complete(&staged);
}

/* The address of an operand; arrays have none. */
static void operand(const CUmemcpy3DOperand *o, const CUextent3D *extent, struct zc_operand *out)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        *out = (struct zc_operand){.side = ZC_SIDE_ARRAY};
        return;
    }
    *out =
        (struct zc_operand){.side = ZC_SIDE_ANY, .address = o->op.ptr.ptr, .span = extent->width};
}

/* Prepares an operand for the driver; returns an error if the driver may not be given it. */
static CUresult leave(const struct zc_entry *entry, CUdeviceptr address, size_t span, bool target,
                      CUstream stream)
{
    if (zc_life_on() && zc_copy_leaves(address, span))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = target ? zc_shared_forward(entry->fn, address, span) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_vmm_named(address, stream, entry->flavour);
    return result == CUDA_SUCCESS ? result : zc_diagnose(entry->fn, address, result);
}

/* The same for all operands of lines or of 3D copies.  The index of the first one that fails is
 * stored in *fail_index, if the call has that. */
static CUresult leave_lines(const struct zc_entry *entry, const CUdeviceptr *dsts,
                            const CUdeviceptr *srcs, const size_t *sizes, size_t count,
                            CUstream stream, size_t *fail_index)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; dsts && srcs && sizes && i < count && result == CUDA_SUCCESS; i++) {
        result = leave(entry, dsts[i], sizes[i], true, stream);
        if (result == CUDA_SUCCESS)
            result = leave(entry, srcs[i], sizes[i], false, stream);
        if (result != CUDA_SUCCESS && fail_index)
            *fail_index = i;
    }
    return result;
}

/* Bytes from the first to the last one of an operand that is not an array.  Next to an array
 * lengths count its elements, of at least a byte. */
static size_t span_of(const CUmemcpy3DOperand *o, const CUextent3D *e)
{
    size_t row = o->op.ptr.rowLength ? o->op.ptr.rowLength : e->width;
    size_t rows = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : e->height;
    if (!e->width || !e->height || !e->depth)
        return 0;
    size_t before = zc_sum(zc_product(e->depth - 1, rows), e->height - 1); /* Rows. */
    return zc_sum(zc_product(before, row), e->width);
}

static CUresult leave_operands(const struct zc_entry *entry, const CUDA_MEMCPY3D_BATCH_OP *ops,
                               size_t count, CUstream stream, size_t *fail_index)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; ops && i < count && result == CUDA_SUCCESS; i++) {
        const CUmemcpy3DOperand *side[2] = {&ops[i].dst, &ops[i].src};
        for (int s = 0; s < 2 && result == CUDA_SUCCESS; s++)
            if (side[s]->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
                result = leave(entry, side[s]->op.ptr.ptr, span_of(side[s], &ops[i].extent), s == 0,
                               stream);
        if (result != CUDA_SUCCESS && fail_index)
            *fail_index = i;
    }
    return result;
}

static CUresult record_operands(const struct zc_entry *entry, uint64_t start,
                                const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count, CUstream stream)
{
    struct zc_copy staged = {.async = false};
    if (!start)
        return CUDA_SUCCESS;
    uint64_t share = count ? (zc_ticks() - start) / count : 0;
    for (size_t i = 0; i < count; i++) {
        const CUextent3D *e = &ops[i].extent;
        struct zc_copy c;
        begin_element(&c, entry, start, share, stream);
        operand(&ops[i].dst, e, &c.dst);
        operand(&ops[i].src, e, &c.src);
        c.bytes = e->width * e->height * e->depth;
        zc_copy_resolve(&c);
        if (zc_copy_staged(&c))
            staged = c;
        zc_copy_end(&c);
    }
    return complete(&staged);
}

/* The start time of the call; 0 if libzc is off. */
static uint64_t started(void)
{
    return zc_life_on() ? zc_ticks() : 0;
}

/* A refused batch names its first converted block.  An invalid value is invalid in any memory. */
static bool may_diagnose(CUresult result)
{
    return result != CUDA_ERROR_INVALID_VALUE && zc_life_on();
}

static CUresult refused_lines(const struct zc_entry *entry, const CUdeviceptr *dsts,
                              const CUdeviceptr *srcs, size_t count, CUresult result)
{
    for (size_t i = 0; may_diagnose(result) && dsts && srcs && i < 2 * count; i++) {
        CUdeviceptr at = (i % 2 ? srcs : dsts)[i / 2];
        if (zc_placed_at(at))
            return zc_diagnose(entry->fn, at, result);
    }
    return result;
}

static CUresult refused_operands(const struct zc_entry *entry, const CUDA_MEMCPY3D_BATCH_OP *ops,
                                 size_t count, CUresult result)
{
    for (size_t i = 0; may_diagnose(result) && ops && i < 2 * count; i++) {
        const CUmemcpy3DOperand *o = i % 2 ? &ops[i / 2].src : &ops[i / 2].dst;
        if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER && zc_placed_at(o->op.ptr.ptr))
            return zc_diagnose(entry->fn, o->op.ptr.ptr, result);
    }
    return result;
}

ZC_BODY(cuMemcpyBatchAsync, (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                             CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
                             size_t *fail_index, CUstream stream))
{
    CUresult before = leave_lines(entry, dsts, srcs, sizes, count, stream, fail_index);
    if (before == CUDA_SUCCESS)
        before = zc_launch_before(entry->fn, entry->flavour, stream, false);
    if (before != CUDA_SUCCESS)
        return before;
    uint64_t start = started();
    CUresult result =
        real(dsts, srcs, sizes, count, attrs, attr_indices, attr_count, fail_index, stream);
    if (result != CUDA_SUCCESS)
        return refused_lines(entry, dsts, srcs, count, result);
    return record_lines(entry, start, dsts, srcs, sizes, count, stream);
}

ZC_BODY(cuMemcpy3DBatchAsync, (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
                               unsigned long long flags, CUstream stream))
{
    CUresult before = leave_operands(entry, ops, count, stream, fail_index);
    if (before == CUDA_SUCCESS)
        before = zc_launch_before(entry->fn, entry->flavour, stream, false);
    if (before != CUDA_SUCCESS)
        return before;
    uint64_t start = started();
    CUresult result = real(count, ops, fail_index, flags, stream);
    return result == CUDA_SUCCESS ? record_operands(entry, start, ops, count, stream)
                                  : refused_operands(entry, ops, count, result);
}

#endif

#if CUDA_VERSION >= 13000

ZC_BODY(cuMemcpyBatchAsync_v2,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
         CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count, CUstream stream))
{
    CUresult before = leave_lines(entry, dsts, srcs, sizes, count, stream, NULL);
    if (before == CUDA_SUCCESS)
        before = zc_launch_before(entry->fn, entry->flavour, stream, false);
    if (before != CUDA_SUCCESS)
        return before;
    uint64_t start = started();
    CUresult result = real(dsts, srcs, sizes, count, attrs, attr_indices, attr_count, stream);
    if (result != CUDA_SUCCESS)
        return refused_lines(entry, dsts, srcs, count, result);
    return record_lines(entry, start, dsts, srcs, sizes, count, stream);
}

ZC_BODY(cuMemcpy3DBatchAsync_v2,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream))
{
    CUresult before = leave_operands(entry, ops, count, stream, NULL);
    if (before == CUDA_SUCCESS)
        before = zc_launch_before(entry->fn, entry->flavour, stream, false);
    if (before != CUDA_SUCCESS)
        return before;
    uint64_t start = started();
    CUresult result = real(count, ops, flags, stream);
    return result == CUDA_SUCCESS ? record_operands(entry, start, ops, count, stream)
                                  : refused_operands(entry, ops, count, result);
}

/* Prefetching and discarding need managed memory.  In blocks that the program requested as device
 * or pinned memory they are refused, as the driver would do. */
static bool any_converted(const CUdeviceptr *ptrs, size_t count)
{
    for (size_t i = 0; ptrs && zc_life_on() && i < count; i++)
        if (zc_placed_at(ptrs[i]))
            return true;
    return false;
}

static void record_prefetches(const struct zc_entry *entry, uint64_t start, const CUdeviceptr *ptrs,
                              const size_t *sizes, size_t count, CUstream stream)
{
    if (!start)
        return;
    uint64_t share = count ? (zc_ticks() - start) / count : 0;
    for (size_t i = 0; i < count; i++) {
        struct zc_copy c;
        begin_element(&c, entry, start, share, stream);
        zc_describe_prefetch(&c, ptrs[i], sizes[i]);
        zc_copy_resolve(&c);
        zc_copy_end(&c);
    }
}

ZC_BODY(cuMemPrefetchBatchAsync,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
         size_t location_count, unsigned long long flags, CUstream stream))
{
    if (any_converted(ptrs, count))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t start = started();
    CUresult result = real(ptrs, sizes, count, locations, indices, location_count, flags, stream);
    if (result == CUDA_SUCCESS)
        record_prefetches(entry, start, ptrs, sizes, count, stream);
    return result;
}

ZC_BODY(cuMemDiscardBatchAsync, (CUdeviceptr * ptrs, size_t *sizes, size_t count,
                                 unsigned long long flags, CUstream stream))
{
    return any_converted(ptrs, count) ? CUDA_ERROR_INVALID_VALUE
                                      : real(ptrs, sizes, count, flags, stream);
}

ZC_BODY(cuMemDiscardAndPrefetchBatchAsync,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
         size_t location_count, unsigned long long flags, CUstream stream))
{
    return zc_do_cuMemPrefetchBatchAsync(real, entry, ptrs, sizes, count, locations, indices,
                                         location_count, flags, stream);
}

#endif
