/* SPDX-License-Identifier: MIT */
/* Batches of copies, sets and prefetches: each element is recorded as a transfer of its own. */
#include "base/clock.h"
#include "base/life.h"
#include "copy/staged.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/stream.h"
#include "driver/unknown.h"
#include "hook/diagnose.h"
#include "hook/copy.h"
#include "hook/parts.h"
#include "hook/request.h"
#include "place/verbs.h"

/* A batch: lines or prefetches, or with one of the lists 3D copies or decompressions. */
struct batch {
    CUdeviceptr *dsts, *srcs; /* `srcs` is NULL for prefetches. */
    size_t *sizes;
    const CUmemcpyAttributes *attrs; /* Of lines, with the next two. */
    const size_t *indices;
    size_t attr_count;
    const CUDA_MEMCPY3D_BATCH_OP *ops;
    const CUmemDecompressParams *packed;
    size_t count; /* 0 if the program gives no elements. */
    CUstream stream;
    size_t *fail_index; /* Receives the index of the first element that fails; or NULL. */
    bool whole;         /* It has no elements that can be made one by one. */
};

/* The size that a decompression expects is optional; it writes no further than its block. */
static void describe_packed(struct zc_copy *c, const CUmemDecompressParams *p)
{
    CUdeviceptr dst = (CUdeviceptr)p->dst;
    zc_describe_line(c, ZC_SIDE_ANY, dst, ZC_SIDE_ANY, (CUdeviceptr)p->src, p->srcNumBytes);
    const struct zc_block *block = p->dstNumBytes ? NULL : zc_block_find(dst);
    c->dst.span = block ? block->base + block->size - dst : p->dstNumBytes;
}

/* Describes an element, as part of a call; a box by *as, which has to live as long. */
static void describe_element(const struct zc_entry *entry, const struct batch *b, size_t i,
                             struct zc_copy *c, CUDA_MEMCPY3D *as)
{
    zc_copy_init(c, entry->fn, entry->flavour);
    zc_copy_on_stream(c, b->stream);
    c->frame = entry->frame;
    c->pc = entry->pc;
    if (b->packed) {
        describe_packed(c, &b->packed[i]);
    } else if (b->ops) {
        zc_describe_op(c, as, &b->ops[i], 0);
    } else if (b->srcs) {
        zc_describe_line(c, ZC_SIDE_ANY, b->dsts[i], ZC_SIDE_ANY, b->srcs[i], b->sizes[i]);
    } else {
        zc_describe_prefetch(c, b->dsts[i], b->sizes[i]);
    }
}

/* Records the elements of a batch that the driver took as a whole.  They share the call's time
 * evenly.  A batch that names a block of the host heap is complete when the call returns. */
static CUresult record_batch(const struct zc_entry *entry, const struct batch *b, uint64_t start)
{
    struct zc_copy staged = {.async = false};
    if (!start)
        return CUDA_SUCCESS;
    uint64_t share = b->count ? (zc_ticks() - start) / b->count : 0;
    for (size_t i = 0; i < b->count; i++) {
        CUDA_MEMCPY3D as;
        struct zc_copy c;
        describe_element(entry, b, i, &c, &as);
        c.start = zc_ticks() - share;
        zc_copy_resolve(&c);
        if (c.shape != ZC_SHAPE_PREFETCH && zc_copy_staged(&c))
            staged = c;
        zc_copy_end(&c);
    }
    return staged.async && !zc_capture_holds(staged.stream, staged.flavour)
               ? zc_staged_wait(&staged)
               : CUDA_SUCCESS;
}

/* Names the rule of a side that libzc made. */
static CUresult batch_diagnose(const struct zc_copy *c, CUresult code)
{
    return zc_diagnose(c->fn, zc_placed_at(c->dst.address) ? c->dst.address : c->src.address, code);
}

/* Prepares both sides for the driver; returns an error if it may not be given them. */
static CUresult batch_leave(struct zc_copy *c)
{
    bool graph = zc_capture_holds(c->stream, c->flavour);
    c->facts = ZC_FACT_IF(CAPTURE, zc_capture_any());
    CUresult result = c->unknown ? zc_unknown_value(c->fn) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && !zc_copy_reaches(c))
        result = zc_stream_refusal();
    else if (result == CUDA_SUCCESS && zc_parts_side(c)) /* It can't be cut. */
        result = zc_diagnose_border(c->fn, zc_parts_side(c)->address, CUDA_ERROR_INVALID_VALUE);
    if (result == CUDA_SUCCESS)
        result = zc_place_retreat(c->dst.block, c->fn, graph, ZC_RETREAT_WRITTEN);
    if (result == CUDA_SUCCESS && graph)
        result = zc_place_retreat(c->src.block, c->fn, graph, ZC_RETREAT_GRAPH);
    if (result == CUDA_SUCCESS)
        result = zc_sides_end_stale(c);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_sides_open(c);
    return result == CUDA_SUCCESS ? result : batch_diagnose(c, result);
}

/* The same for an element, and for the word where a decompression counts. */
static CUresult leave_element(const struct zc_entry *entry, const struct batch *b, size_t i)
{
    CUDA_MEMCPY3D as;
    struct zc_copy c;
    describe_element(entry, b, i, &c, &as);
    CUresult result = c.on ? batch_leave(&c) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS || !b->packed || !c.on)
        return result;
    zc_copy_init(&c, entry->fn, entry->flavour);
    zc_copy_on_stream(&c, b->stream);
    zc_describe_line(&c, ZC_SIDE_ANY, (CUdeviceptr)b->packed[i].dstActBytes, ZC_SIDE_NONE, 0,
                     sizeof(cuuint32_t));
    return batch_leave(&c);
}

/* Prepares all operands, and what a launch needs.  In a graph a newer driver makes one node of a
 * batch, which libzc does not know.  *start_out: the time; 0 if libzc is off. */
static CUresult begin_batch(const struct zc_entry *entry, const struct batch *b,
                            uint64_t *start_out)
{
    bool graph = zc_life_on() && zc_capture_holds(b->stream, entry->flavour);
    CUresult result = graph ? zc_unknown_value(entry->fn) : CUDA_SUCCESS;
    for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++) {
        result = leave_element(entry, b, i);
        if (result != CUDA_SUCCESS && b->fail_index)
            *b->fail_index = i;
    }
    if (result == CUDA_SUCCESS)
        result = zc_launch_before(entry->fn, entry->flavour, b->stream);
    *start_out = zc_life_on() ? zc_ticks() : 0;
    return result;
}

/* A refused batch names its first converted block.  An invalid value is invalid in any memory, but
 * not every memory can be decompressed. */
static CUresult end_batch(const struct zc_entry *entry, const struct batch *b, uint64_t start,
                          CUresult result)
{
    if (result == CUDA_SUCCESS)
        return b->packed ? result : record_batch(entry, b, start);
    if ((result == CUDA_ERROR_INVALID_VALUE && !b->packed) || !zc_life_on())
        return result;
    for (size_t i = 0; i < b->count; i++) {
        CUDA_MEMCPY3D as;
        struct zc_copy c;
        describe_element(entry, b, i, &c, &as);
        if (zc_placed_at(c.dst.address) || zc_placed_at(c.src.address))
            return batch_diagnose(&c, result);
    }
    return result;
}

/* False as well if a box has a size that only the driver knows. */
static bool any_crosses(const struct zc_entry *entry, const struct batch *b)
{
    bool any = false, given = !b->whole;
    for (size_t i = 0; i < b->count && zc_life_on() && given; i++) {
        CUDA_MEMCPY3D as;
        struct zc_copy c;
        describe_element(entry, b, i, &c, &as);
        c.dst.block = zc_block_find(c.dst.address);
        c.src.block = zc_block_find(c.src.address);
        any = any || zc_parts_side(&c);
        given = !b->ops || c.given;
    }
    return any && given;
}

/* True for what the driver takes; *waits: the attributes of some lines want them read at once. */
static bool batch_is_valid(const struct batch *b, bool *waits)
{
    bool counted = b->attr_count && b->attr_count <= b->count;
    bool lines = b->attrs && b->indices && counted && !b->indices[0];
    *waits = false;
    for (size_t i = 0; lines && i < b->attr_count; i++)
        *waits |= b->attrs[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    return b->stream && (b->ops || lines);
}

/* A batch of which one element crosses a border: each is a copy by itself, in the order of the
 * stream.  A batch promises none. */
static CUresult one_by_one(const struct zc_entry *entry, const struct batch *b)
{
    bool waits;
    CUresult result = batch_is_valid(b, &waits) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++) {
        CUDA_MEMCPY3D as;
        struct zc_copy c;
        describe_element(entry, b, i, &c, &as);
        if (!zc_copy_begin(&c))
            c.result = b->ops ? ZC_FLAVOURED(entry->flavour, cuMemcpy3DAsync_v2)(&as, b->stream)
                              : ZC_FLAVOURED(entry->flavour, cuMemcpyAsync)(b->dsts[i], b->srcs[i],
                                                                            b->sizes[i], b->stream);
        waits = waits || c.order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        result = zc_copy_end(&c);
        if (result != CUDA_SUCCESS && b->fail_index)
            *b->fail_index = i;
    }
    waits = waits && result == CUDA_SUCCESS && !zc_capture_holds(b->stream, entry->flavour);
    return waits ? zc_stream_drain(b->stream, entry->flavour) : result;
}

/* The body of a call that copies; `call` is the driver's, and `...` what it copies. */
#define BATCH(call, ...)                                                                           \
    {                                                                                              \
        const struct batch b = {.stream = stream, __VA_ARGS__};                                    \
        uint64_t start;                                                                            \
        return ZC_HOLDING_STILL(                                                                   \
            any_crosses(entry, &b)                                                                 \
                ? one_by_one(entry, &b)                                                            \
                : (begin_batch(entry, &b, &start) ?: end_batch(entry, &b, start, call)));          \
    }
#define LINES                                                                                      \
    .dsts = dsts, .srcs = srcs, .sizes = sizes, .count = dsts && srcs && sizes ? count : 0,        \
    .attrs = attrs, .indices = attr_indices, .attr_count = attr_count
#define BOXES .ops = ops, .count = ops ? count : 0, .whole = flags

ZC_BODY(cuMemcpyBatchAsync, (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                             CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
                             size_t *fail_index, CUstream stream))
BATCH(real(dsts, srcs, sizes, count, attrs, attr_indices, attr_count, fail_index, stream), LINES,
      .fail_index = fail_index)

ZC_BODY(cuMemcpyBatchAsync_v2,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
         CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count, CUstream stream))
BATCH(real(dsts, srcs, sizes, count, attrs, attr_indices, attr_count, stream), LINES)

ZC_BODY(cuMemcpy3DBatchAsync, (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
                               unsigned long long flags, CUstream stream))
BATCH(real(count, ops, fail_index, flags, stream), BOXES, .fail_index = fail_index)

ZC_BODY(cuMemcpy3DBatchAsync_v2,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream))
BATCH(real(count, ops, flags, stream), BOXES)

ZC_BODY(cuMemBatchDecompressAsync, (CUmemDecompressParams * params, size_t count,
                                    unsigned int flags, size_t *error_index, CUstream stream))
BATCH(real(params, count, flags, error_index, stream), .packed = params,
      .count = params ? count : 0, .fail_index = error_index, .whole = true)

ZC_BODY(cuMemPrefetchBatchAsync,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
         size_t location_count, unsigned long long flags, CUstream stream))
{
    CUresult refused = zc_refuse_managed_in(ptrs, count);
    if (refused != CUDA_SUCCESS)
        return refused;
    const struct batch b = {.dsts = ptrs, .sizes = sizes, .count = count, .stream = stream};
    uint64_t start = zc_life_on() ? zc_ticks() : 0;
    return real(ptrs, sizes, count, locations, indices, location_count, flags, stream)
               ?: record_batch(entry, &b, start);
}
