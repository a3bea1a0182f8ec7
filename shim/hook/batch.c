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
#include "place/migrate.h"
#include "shared/backing.h"
#include "vmm/access.h"
#include "vmm/move.h"

/* A batch: lines or prefetches, or with `ops` 3D copies. */
struct batch {
    CUdeviceptr *dsts, *srcs; /* `srcs` is NULL for prefetches. */
    size_t *sizes;
    const CUDA_MEMCPY3D_BATCH_OP *ops;
    size_t count; /* 0 if the program gives no elements. */
    CUstream stream;
    size_t *fail_index; /* Receives the index of the first element that fails; or NULL. */
    bool held;          /* Blocks stay where they are from begin() to end() (vmm/move.h). */
};

#define OPERANDS(ops, count, stream, fail_index)                                                   \
    {                                                                                              \
        NULL, NULL, NULL, ops, (ops) ? (count) : 0, stream, fail_index, false                      \
    }

/* Arrays have no address. */
static struct zc_operand operand(const CUmemcpy3DOperand *o, size_t span)
{
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return (struct zc_operand){.side = ZC_SIDE_ARRAY};
    return (struct zc_operand){.side = ZC_SIDE_ANY, .address = o->op.ptr.ptr, .span = span};
}

#define ELEMENT_MOST 16 /* Bytes of an array's largest elements. */

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

/* One side of an element: its destination if `side` is 0, else its source. */
static struct zc_operand operand_of(const struct batch *b, size_t i, int side)
{
    if (!b->ops)
        return (struct zc_operand){
            .side = ZC_SIDE_ANY, .address = (side ? b->srcs : b->dsts)[i], .span = b->sizes[i]};
    const CUmemcpy3DOperand *o = side ? &b->ops[i].src : &b->ops[i].dst;
    return operand(o,
                   o->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? span_of(o, &b->ops[i].extent) : 0);
}

static void describe(const struct batch *b, size_t i, struct zc_copy *c)
{
    if (b->ops) {
        const CUextent3D *e = &b->ops[i].extent;
        c->dst = operand(&b->ops[i].dst, e->width);
        c->src = operand(&b->ops[i].src, e->width);
        c->bytes = e->width * e->height * e->depth;
    } else if (b->srcs) {
        zc_describe_line(c, ZC_SIDE_ANY, b->dsts[i], ZC_SIDE_ANY, b->srcs[i], b->sizes[i]);
    } else {
        zc_describe_prefetch(c, b->dsts[i], b->sizes[i]);
    }
}

/* Records the elements of a batch that the driver took as a whole.  They share the call's time
 * evenly.  A batch that names a block of the host heap is complete when the call returns. */
static CUresult record(const struct zc_entry *entry, const struct batch *b, uint64_t start)
{
    struct zc_copy staged = {.async = false};
    if (!start)
        return CUDA_SUCCESS;
    uint64_t share = b->count ? (zc_ticks() - start) / b->count : 0;
    for (size_t i = 0; i < b->count; i++) {
        struct zc_copy c;
        zc_copy_init(&c, entry->fn, entry->flavour);
        c.frame = entry->frame;
        c.pc = entry->pc;
        c.start = zc_ticks() - share;
        zc_copy_on_stream(&c, b->stream);
        describe(b, i, &c);
        zc_copy_resolve(&c);
        if (c.shape != ZC_SHAPE_PREFETCH && zc_copy_staged(&c))
            staged = c;
        zc_copy_end(&c);
    }
    return staged.async && !zc_capture_holds(staged.stream, staged.flavour)
               ? zc_staged_wait(&staged)
               : CUDA_SUCCESS;
}

/* True for an operand of a box that may cross a border. */
static bool crosses(const struct batch *b, size_t i, struct zc_operand *o)
{
    const CUDA_MEMCPY3D_BATCH_OP *op = &b->ops[i];
    bool array = op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
                 op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER;
    o->block = zc_block_find(o->address);
    o->span = zc_product(o->span, array ? ELEMENT_MOST : 1);
    return zc_parts_border(o);
}

/* Prepares an operand for the driver; returns an error if the driver may not be given it. */
static CUresult leave(const struct zc_entry *entry, const struct batch *b, size_t i, int side)
{
    struct zc_operand o = operand_of(b, i, side);
    if (o.side == ZC_SIDE_ARRAY)
        return CUDA_SUCCESS;
    if (zc_life_on() && zc_copy_leaves(o.address, o.span))
        return CUDA_ERROR_INVALID_VALUE;
    if (b->ops && zc_life_on() && crosses(b, i, &o))
        return zc_diagnose(entry->fn, zc_parts_placed(&o), CUDA_ERROR_INVALID_VALUE);
    CUresult result = side ? CUDA_SUCCESS : zc_shared_forward(entry->fn, o.address, o.span);
    if (result != CUDA_SUCCESS)
        return result;
    const struct zc_block *block = zc_block_find(o.address);
    if (zc_move_of(block) && !zc_migrate_meets(b->stream, entry->flavour))
        zc_move_never(block);
    result = zc_vmm_named(o.address, b->stream, entry->flavour);
    return result == CUDA_SUCCESS ? result : zc_diagnose(entry->fn, o.address, result);
}

/* The start time of the call; 0 if libzc is off. */
static uint64_t started(void)
{
    return zc_life_on() ? zc_ticks() : 0;
}

/* Prepares all operands, and what a launch needs. */
static CUresult begin(const struct zc_entry *entry, struct batch *b, uint64_t *start_out)
{
    b->held = zc_move_enter();
    for (size_t i = 0; i < 2 * b->count; i++) {
        CUresult result = leave(entry, b, i / 2, i % 2);
        if (result == CUDA_SUCCESS)
            continue;
        if (b->fail_index)
            *b->fail_index = i / 2;
        zc_move_leave(b->held);
        return result;
    }
    CUresult result = zc_launch_before(entry->fn, entry->flavour, b->stream);
    if (result != CUDA_SUCCESS)
        zc_move_leave(b->held);
    *start_out = result == CUDA_SUCCESS ? started() : 0;
    return result;
}

/* A refused batch names its first converted block.  An invalid value is invalid in any memory. */
static CUresult end(const struct zc_entry *entry, const struct batch *b, uint64_t start,
                    CUresult result)
{
    zc_move_leave(b->held);
    if (result == CUDA_SUCCESS)
        return record(entry, b, start);
    if (result == CUDA_ERROR_INVALID_VALUE || !zc_life_on())
        return result;
    for (size_t i = 0; i < 2 * b->count; i++) {
        const struct zc_operand o = operand_of(b, i / 2, i % 2);
        if (zc_placed_at(o.address))
            return zc_diagnose(entry->fn, o.address, result);
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
    result = end(entry, &cut->b, start, result);
    if (cut->words)
        zc_arena_put(cut->b.dsts, cut->words * sizeof(*cut->b.dsts));
    return result;
}

/* A body of the calls that copy lines; `...` are the last arguments of the driver's call. */
#define COPY_LINES(fails, ...)                                                                     \
    {                                                                                              \
        struct batch b = {dsts,   srcs,  sizes, NULL, dsts && srcs && sizes ? count : 0,           \
                          stream, fails, false};                                                   \
        uint64_t start;                                                                            \
        CUresult result = begin(entry, &b, &start);                                                \
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

ZC_BODY(cuMemcpy3DBatchAsync, (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
                               unsigned long long flags, CUstream stream))
{
    struct batch b = OPERANDS(ops, count, stream, fail_index);
    uint64_t start;
    CUresult result = begin(entry, &b, &start);
    return result == CUDA_SUCCESS
               ? end(entry, &b, start, real(count, ops, fail_index, flags, stream))
               : result;
}

ZC_BODY(cuMemcpyBatchAsync_v2,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
         CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count, CUstream stream))
COPY_LINES(NULL, stream)

ZC_BODY(cuMemcpy3DBatchAsync_v2,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream))
{
    struct batch b = OPERANDS(ops, count, stream, NULL);
    uint64_t start;
    CUresult result = begin(entry, &b, &start);
    return result == CUDA_SUCCESS ? end(entry, &b, start, real(count, ops, flags, stream)) : result;
}

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
    uint64_t start = started();
    CUresult result = real(ptrs, sizes, count, locations, indices, location_count, flags, stream);
    return result == CUDA_SUCCESS ? record(entry, &b, start) : result;
}

ZC_BODY(cuMemDiscardBatchAsync, (CUdeviceptr * ptrs, size_t *sizes, size_t count,
                                 unsigned long long flags, CUstream stream))
{
    return any_converted(ptrs, count) ? CUDA_ERROR_INVALID_VALUE
                                      : real(ptrs, sizes, count, flags, stream);
}
