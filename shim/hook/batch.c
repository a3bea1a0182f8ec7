/* SPDX-License-Identifier: MIT */
/* Batches of copies, sets and prefetches: each element is recorded as a transfer of its own. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/life.h"
#include "copy/staged.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "hook/diagnose.h"
#include "hook/copy.h"
#include "hook/parts.h"
#include "hook/request.h"
#include "hook/unknown.h"
#include "place/migrate.h"
#include "shared/backing.h"
#include "vmm/access.h"
#include "vmm/move.h"

/* A batch: lines or prefetches, or with one of the lists 3D copies, copies over a fabric, or
 * decompressions. */
struct batch {
    CUdeviceptr *dsts, *srcs; /* `srcs` is NULL for prefetches. */
    size_t *sizes;
    const CUDA_MEMCPY3D_BATCH_OP *ops;
    const CUDA_FABRIC_COPY_BATCH_OP *fabric;
    const CUmemDecompressParams *packed;
    size_t count; /* 0 if the program gives no elements. */
    CUstream stream;
    size_t *fail_index; /* Receives the index of the first element that fails; or NULL. */
    bool held; /* Blocks stay where they are from begin_batch() to end_batch() (vmm/move.h). */
};

/* The size that a decompression expects is optional; it writes no further than its block. */
static void describe_packed(struct zc_copy *c, const CUmemDecompressParams *p)
{
    CUdeviceptr dst = (CUdeviceptr)p->dst;
    zc_describe_line(c, ZC_SIDE_ANY, dst, ZC_SIDE_ANY, (CUdeviceptr)p->src, p->srcNumBytes);
    const struct zc_block *block = p->dstNumBytes ? NULL : zc_block_find(dst);
    c->dst.span = block ? block->base + block->size - dst : p->dstNumBytes;
}

/* Describes an element, as part of a call. */
static void describe_element(const struct zc_entry *entry, const struct batch *b, size_t i,
                             struct zc_copy *c)
{
    CUDA_MEMCPY3D as;
    zc_copy_init(c, entry->fn, entry->flavour);
    zc_copy_on_stream(c, b->stream);
    if (b->packed) {
        describe_packed(c, &b->packed[i]);
    } else if (b->ops) {
        zc_describe_op(c, &as, &b->ops[i], 0);
        c->given = NULL;
    } else if (b->fabric) {
        zc_describe_over_fabric(c, &b->fabric[i]);
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
        struct zc_copy c;
        describe_element(entry, b, i, &c);
        c.frame = entry->frame;
        c.pc = entry->pc;
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

/* Boxes and what a fabric copies can't be cut at a border. */
static bool crosses(const struct batch *b, struct zc_operand *o)
{
    o->block = zc_block_find(o->address);
    return (b->ops || b->fabric || b->packed) && zc_parts_border(o);
}

/* A captured copy is made at the launches of its graph. */
static CUresult leave_to_graph(const struct zc_entry *entry, const struct zc_operand *o)
{
    CUresult result = zc_shared_source(entry->fn, o->address);
    return result == CUDA_SUCCESS ? zc_move_never(o->block) : result;
}

/* The code for a batch with a range that leaves its block. */
static CUresult refuse_batch(const struct zc_entry *entry, const struct batch *b)
{
    struct zc_copy c;
    zc_copy_init(&c, entry->fn, entry->flavour);
    zc_copy_on_stream(&c, b->stream);
    c.facts = ZC_FACT_IF(CAPTURE, zc_capture_any());
    return zc_parts_refused(&c, true, true);
}

/* Prepares an operand for the driver; returns an error if the driver may not be given it. */
static CUresult leave_operand(const struct zc_entry *entry, const struct batch *b,
                              const struct zc_operand *operand, bool written)
{
    struct zc_operand o = *operand;
    if (!o.address || !zc_life_on())
        return CUDA_SUCCESS;
    if (zc_copy_leaves(o.address, o.span))
        return refuse_batch(entry, b);
    if (crosses(b, &o))
        return zc_diagnose(entry->fn, o.address, CUDA_ERROR_INVALID_VALUE);
    CUresult result = written ? zc_shared_forward(entry->fn, o.address) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && zc_capture_holds(b->stream, entry->flavour))
        result = leave_to_graph(entry, &o);
    if (result != CUDA_SUCCESS)
        return result;
    if (zc_move_of(o.block) && !zc_migrate_meets(b->stream, entry->flavour))
        zc_move_never(o.block);
    result = zc_vmm_named(o.address, b->stream, entry->flavour);
    return result == CUDA_SUCCESS ? result : zc_diagnose(entry->fn, o.address, result);
}

/* The same for both sides of an element, and for the word where a decompression counts. */
static CUresult leave_element(const struct zc_entry *entry, const struct batch *b, size_t i)
{
    struct zc_copy c;
    describe_element(entry, b, i, &c);
    CUresult result = c.unknown && c.on ? zc_unknown_value(entry->fn) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = leave_operand(entry, b, &c.dst, true);
    if (result == CUDA_SUCCESS)
        result = leave_operand(entry, b, &c.src, false);
    if (result != CUDA_SUCCESS || !b->packed)
        return result;
    const struct zc_operand word = {.side = ZC_SIDE_ANY,
                                    .address = (CUdeviceptr)b->packed[i].dstActBytes,
                                    .span = sizeof(cuuint32_t)};
    return leave_operand(entry, b, &word, true);
}

/* The start time of the call; 0 if libzc is off. */
static uint64_t batch_started(void)
{
    return zc_life_on() ? zc_ticks() : 0;
}

/* Prepares all operands, and what a launch needs. */
static CUresult begin_batch(const struct zc_entry *entry, struct batch *b, uint64_t *start_out)
{
    b->held = zc_move_enter();
    for (size_t i = 0; i < b->count; i++) {
        CUresult result = leave_element(entry, b, i);
        if (result == CUDA_SUCCESS)
            continue;
        if (b->fail_index)
            *b->fail_index = i;
        zc_move_leave(b->held);
        return result;
    }
    CUresult result = zc_launch_before(entry->fn, entry->flavour, b->stream);
    if (result != CUDA_SUCCESS)
        zc_move_leave(b->held);
    *start_out = result == CUDA_SUCCESS ? batch_started() : 0;
    return result;
}

/* A refused batch names its first converted block.  An invalid value is invalid in any memory, but
 * not every memory can be decompressed or sent over a fabric. */
static CUresult end_batch(const struct zc_entry *entry, const struct batch *b, uint64_t start,
                          CUresult result)
{
    zc_move_leave(b->held);
    if (result == CUDA_SUCCESS)
        return b->packed ? result : record_batch(entry, b, start);
    if ((result == CUDA_ERROR_INVALID_VALUE && !b->packed && !b->fabric) || !zc_life_on())
        return result;
    for (size_t i = 0; i < b->count; i++) {
        struct zc_copy c;
        describe_element(entry, b, i, &c);
        CUdeviceptr placed = zc_placed_at(c.dst.address) ? c.dst.address : c.src.address;
        if (zc_placed_at(placed))
            return zc_diagnose(entry->fn, placed, result);
    }
    return result;
}

/* A batch of lines in which each line that crosses a border is several. */
struct cut {
    struct batch b;
    size_t *indices; /* The first line of each attribute. */
    size_t words;    /* Of memory that it takes; 0: it is the program's own. */
    CUresult result; /* Why it could not be cut. */
};

/* Adds what becomes of a line to a batch, if that is not NULL; the number of lines. */
static size_t cut_line(struct batch *to, const struct batch *from, size_t i)
{
    size_t lines = 0, at = 0;
    do {
        CUdeviceptr dst = from->dsts[i] + at, src = from->srcs[i] + at;
        size_t n = zc_parts_line(dst, src, from->sizes[i] - at);
        if (to) {
            to->dsts[to->count] = dst;
            to->srcs[to->count] = src;
            to->sizes[to->count++] = n;
        }
        at += n;
        lines++;
    } while (at < from->sizes[i]);
    return lines;
}

static struct cut cut_lines(const struct batch *b, size_t *indices, size_t attributes)
{
    struct cut cut = {*b, indices, 0, CUDA_SUCCESS};
    size_t lines = 0, at = 0;
    for (size_t i = 0; i < b->count && zc_life_on(); i++)
        lines += cut_line(NULL, b, i);
    if (lines <= b->count)
        return cut;
    bool right = indices && attributes <= b->count; /* Else the driver refuses the batch. */
    size_t words = 3 * lines + attributes;
    CUdeviceptr *memory = right ? zc_arena_get(words * sizeof(*memory)) : NULL;
    cut.result = right ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if (!memory)
        return cut;
    cut.result = CUDA_SUCCESS;
    cut.words = words;
    cut.b.dsts = memory;
    cut.b.srcs = memory + lines;
    cut.b.sizes = (size_t *)(memory + 2 * lines);
    cut.indices = (size_t *)(memory + 3 * lines);
    cut.b.count = 0;
    for (size_t i = 0; i < b->count; i++) { /* The driver takes sorted indices alone. */
        while (at < attributes && indices[at] == i)
            cut.indices[at++] = cut.b.count;
        cut_line(&cut.b, b, i);
    }
    while (at < attributes)
        cut.indices[at++] = SIZE_MAX;
    return cut;
}

/* The failed line is counted as the program counts. */
static CUresult end_lines(const struct zc_entry *entry, const struct cut *cut,
                          const struct batch *b, uint64_t start, CUresult result)
{
    size_t lines = 0, i = 0;
    if (result != CUDA_SUCCESS && b->fail_index && cut->words && *b->fail_index < cut->b.count) {
        while ((lines += cut_line(NULL, b, i)) <= *b->fail_index)
            i++;
        *b->fail_index = i;
    }
    result = end_batch(entry, &cut->b, start, result);
    if (cut->words)
        zc_arena_put(cut->b.dsts, cut->words * sizeof(*cut->b.dsts));
    return result;
}

/* A body of the calls that copy lines; `...` are the last arguments of the driver's call. */
#define COPY_LINES(fails, ...)                                                                     \
    {                                                                                              \
        struct batch b = {.dsts = dsts,                                                            \
                          .srcs = srcs,                                                            \
                          .sizes = sizes,                                                          \
                          .count = dsts && srcs && sizes ? count : 0,                              \
                          .stream = stream,                                                        \
                          .fail_index = fails};                                                    \
        uint64_t start;                                                                            \
        CUresult result = begin_batch(entry, &b, &start);                                          \
        if (result != CUDA_SUCCESS)                                                                \
            return result;                                                                         \
        struct cut cut = cut_lines(&b, attr_indices, attr_count);                                  \
        if (cut.result != CUDA_SUCCESS) {                                                          \
            zc_move_leave(b.held);                                                                 \
            return cut.result;                                                                     \
        }                                                                                          \
        result = real(cut.b.dsts, cut.b.srcs, cut.b.sizes, cut.words ? cut.b.count : count, attrs, \
                      cut.indices, attr_count, __VA_ARGS__);                                       \
        return end_lines(entry, &cut, &b, start, result);                                          \
    }

ZC_BODY(cuMemcpyBatchAsync, (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                             CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
                             size_t *fail_index, CUstream stream))
COPY_LINES(fail_index, fail_index, stream)

/* A body of the calls that take a list; `...` are the arguments of the driver's call. */
#define COPY_LIST(list, name, fails, ...)                                                          \
    {                                                                                              \
        struct batch b = {                                                                         \
            .list = name, .count = (name) ? count : 0, .stream = stream, .fail_index = fails};     \
        uint64_t start;                                                                            \
        CUresult result = begin_batch(entry, &b, &start);                                          \
        return result == CUDA_SUCCESS ? end_batch(entry, &b, start, real(__VA_ARGS__)) : result;   \
    }

ZC_BODY(cuMemcpy3DBatchAsync, (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
                               unsigned long long flags, CUstream stream))
COPY_LIST(ops, ops, fail_index, count, ops, fail_index, flags, stream)

ZC_BODY(cuMemcpyBatchAsync_v2,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
         CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count, CUstream stream))
COPY_LINES(NULL, stream)

ZC_BODY(cuMemcpy3DBatchAsync_v2,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream))
COPY_LIST(ops, ops, NULL, count, ops, flags, stream)

ZC_BODY(cuFabricCpyBatchAsync,
        (size_t count, CUDA_FABRIC_COPY_BATCH_OP *ops, unsigned long long flags, CUstream stream))
COPY_LIST(fabric, ops, NULL, count, ops, flags, stream)

ZC_BODY(cuMemBatchDecompressAsync, (CUmemDecompressParams * params, size_t count,
                                    unsigned int flags, size_t *error_index, CUstream stream))
COPY_LIST(packed, params, error_index, params, count, flags, error_index, stream)

/* Prefetching and discarding need managed memory.  In blocks that the program requested as device
 * or pinned memory they are refused, as the driver would do. */
static bool any_converted(const CUdeviceptr *ptrs, size_t count)
{
    for (size_t i = 0; ptrs && i < count; i++)
        if (zc_placed_near(ptrs[i]))
            return true;
    return false;
}

ZC_BODY(cuMemPrefetchBatchAsync,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
         size_t location_count, unsigned long long flags, CUstream stream))
{
    if (any_converted(ptrs, count))
        return CUDA_ERROR_INVALID_VALUE;
    const struct batch b = {.dsts = ptrs, .sizes = sizes, .count = count, .stream = stream};
    uint64_t start = batch_started();
    CUresult result = real(ptrs, sizes, count, locations, indices, location_count, flags, stream);
    return result == CUDA_SUCCESS ? record_batch(entry, &b, start) : result;
}

ZC_BODY(cuMemDiscardBatchAsync, (CUdeviceptr * ptrs, size_t *sizes, size_t count,
                                 unsigned long long flags, CUstream stream))
{
    return any_converted(ptrs, count) ? CUDA_ERROR_INVALID_VALUE
                                      : real(ptrs, sizes, count, flags, stream);
}
