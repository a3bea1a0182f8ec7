/* SPDX-License-Identifier: MIT */
/* Copies and sets that cross a border. */
#include "hook/parts.h"

/* A part: `extent[0]` bytes of a row, rows of a slice, slices, from `at` on. */
struct box {
    size_t at[3], extent[3];
};

static size_t step_of(const struct zc_operand *b, int dimension)
{
    return dimension == 0 ? 1 : dimension == 1 ? b->pitch : b->slice;
}

/* Bytes from the first to the last one of a box, in its first `dimensions` dimensions. */
static size_t span_of(const struct zc_operand *b, const struct box *box, int dimensions)
{
    size_t span = 1;
    for (int d = 0; d < dimensions; d++)
        span += (box->extent[d] - 1) * step_of(b, d);
    return span;
}

static CUdeviceptr first_of(const struct zc_operand *b, const struct box *box)
{
    CUdeviceptr first = b->address;
    for (int d = 0; d < 3; d++)
        first += box->at[d] ? box->at[d] * step_of(b, d) : 0;
    return first;
}

static struct box parts_whole(const struct zc_copy *c)
{
    struct box box = {{0, 0, 0}, {c->bytes, 1, 1}};
    bool rows = c->shape == ZC_SHAPE_STRIDED || (c->shape == ZC_SHAPE_SET && c->extent[1] > 1);
    for (int d = 0; d < 3 && rows; d++)
        box.extent[d] = c->shape == ZC_SHAPE_SET && d == 2 ? 1 : c->extent[d];
    return box;
}

/* Cuts a box at a border in one of its sides, or next to the row or slice that the border lies in.
 * False if nothing crosses one.  Addresses grow with slices, rows and bytes in turn. */
static bool parts_cut(const struct zc_operand *b, const struct box *box, struct box *low,
                      struct box *high)
{
    CUdeviceptr first = first_of(b, box), border = zc_block_border(b->block, first);
    if (!border || border - first >= span_of(b, box, 3))
        return false;
    int d = box->extent[2] > 1 ? 2 : box->extent[1] > 1 ? 1 : 0;
    size_t unit = span_of(b, box, d), before = border - first;
    size_t units = before < unit ? 1 : (before - unit) / step_of(b, d) + 1;
    *low = *high = *box;
    low->extent[d] = units;
    high->at[d] += units;
    high->extent[d] -= units;
    return true;
}

/* True for a copy or set that can be made in parts: the driver refuses some shapes in any memory.
 */
static bool divisible(const struct zc_copy *c)
{
    return (c->shape != ZC_SHAPE_STRIDED || c->given) && zc_copy_well_formed(c);
}

/* The driver's call, in the same form as the program's: one that has no form with a stream, and one
 * that has. */
#define CALL_SYNC(c, form, ...)                                                                    \
    ((c)->flavour == ZC_PER_THREAD && zc_real.form##_ptds ? zc_real.form##_ptds(__VA_ARGS__)       \
                                                          : zc_real.form(__VA_ARGS__))
#define CALL(c, sync_form, async_form, ...)                                                        \
    ((c)->async || ((c)->facts & ZC_FACT_UNWAITED)                                                 \
         ? ZC_FLAVOURED((c)->flavour, async_form)(__VA_ARGS__, (c)->stream)                        \
         : CALL_SYNC(c, sync_form, __VA_ARGS__))

static CUresult array_line(const struct zc_copy *c)
{
    CUdeviceptr dst = c->dst.address, src = c->src.address;
    size_t at = c->array_at, n = c->bytes;
    if (c->src.side == ZC_SIDE_HOST)
        return CALL(c, cuMemcpyHtoA_v2, cuMemcpyHtoAAsync_v2, c->array, at, (const void *)src, n);
    if (c->dst.side == ZC_SIDE_HOST)
        return CALL(c, cuMemcpyAtoH_v2, cuMemcpyAtoHAsync_v2, (void *)dst, c->array, at, n);
    return c->src.side == ZC_SIDE_DEVICE ? CALL_SYNC(c, cuMemcpyDtoA_v2, c->array, at, src, n)
                                         : CALL_SYNC(c, cuMemcpyAtoD_v2, dst, c->array, at, n);
}

static CUresult parts_line(const struct zc_copy *c)
{
    CUdeviceptr dst = c->dst.address, src = c->src.address;
    if (c->dst.side == ZC_SIDE_ARRAY || c->src.side == ZC_SIDE_ARRAY)
        return array_line(c);
    if (c->dst.context || c->src.context)
        return CALL(c, cuMemcpyPeer, cuMemcpyPeerAsync, dst, c->dst.context, src, c->src.context,
                    c->bytes);
    if (c->dst.side == ZC_SIDE_ANY)
        return CALL(c, cuMemcpy, cuMemcpyAsync, dst, src, c->bytes);
    if (c->src.side == ZC_SIDE_HOST)
        return CALL(c, cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, dst, (const void *)src, c->bytes);
    if (c->dst.side == ZC_SIDE_HOST)
        return CALL(c, cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, (void *)dst, src, c->bytes);
    return CALL(c, cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, dst, src, c->bytes);
}

#define SET(c, bits, type)                                                                         \
    ((c)->extent[1] > 1                                                                            \
         ? CALL(c, cuMemsetD2D##bits##_v2, cuMemsetD2D##bits##Async, (c)->dst.address,             \
                (c)->dst.pitch, (type)(c)->value, (c)->extent[0] / sizeof(type), (c)->extent[1])   \
         : CALL(c, cuMemsetD##bits##_v2, cuMemsetD##bits##Async, (c)->dst.address,                 \
                (type)(c)->value, (c)->bytes / sizeof(type)))

static CUresult parts_set(const struct zc_copy *c)
{
    return c->unit == 4   ? SET(c, 32, unsigned)
           : c->unit == 2 ? SET(c, 16, unsigned short)
                          : SET(c, 8, unsigned char);
}

/* Moves a description of either form to a part. */
#define MOVE(p, box)                                                                               \
    ((p)->srcXInBytes += (box)->at[0], (p)->srcY += (box)->at[1],                                  \
     (p)->dstXInBytes += (box)->at[0], (p)->dstY += (box)->at[1],                                  \
     (p)->WidthInBytes = (box)->extent[0], (p)->Height = (box)->extent[1])

static CUDA_MEMCPY3D parts_moved(const struct zc_copy *c, const struct box *box)
{
    CUDA_MEMCPY3D p = *(const CUDA_MEMCPY3D *)c->given;
    p.srcZ += box->at[2];
    p.dstZ += box->at[2];
    p.Depth = box->extent[2];
    MOVE(&p, box);
    return p;
}

/* Both forms in three dimensions have one layout; a peer's has both contexts (driver/copy.c). */
static CUresult strided(const struct zc_copy *c, const struct box *box)
{
    if (c->flat) {
        CUDA_MEMCPY2D p = *(const CUDA_MEMCPY2D *)c->given;
        MOVE(&p, box);
        return CALL(c, cuMemcpy2DUnaligned_v2, cuMemcpy2DAsync_v2, &p);
    }
    union {
        CUDA_MEMCPY3D own;
        CUDA_MEMCPY3D_PEER peer;
    } p = {.own = parts_moved(c, box)};
    return c->dst.context ? CALL(c, cuMemcpy3DPeer, cuMemcpy3DPeerAsync, &p.peer)
                          : CALL(c, cuMemcpy3D_v2, cuMemcpy3DAsync_v2, &p.own);
}

/* Describes one side of a part. */
static struct zc_operand parts_side_of(const struct zc_operand *b, const struct box *box)
{
    struct zc_operand side = *b;
    side.block = NULL;
    side.extent = NULL;
    side.staged = false;
    if (b->side == ZC_SIDE_NONE || b->side == ZC_SIDE_ARRAY)
        return side;
    side.address = first_of(b, box);
    side.span = span_of(b, box, 3);
    return side;
}

static void make_part(struct zc_copy *c, const struct box *box, const void *arg)
{
    const struct zc_parts_calls *calls = arg;
    struct zc_copy part = *c;
    part.facts = 0;
    part.way = ZC_WAY_FORWARD;
    part.held = part.planned = false;
    part.start = zc_ticks();
    part.dst = parts_side_of(&c->dst, box);
    part.src = parts_side_of(&c->src, box);
    for (int d = 0; d < 3; d++)
        part.extent[d] = box->extent[d];
    part.bytes = box->extent[0] * box->extent[1] * box->extent[2];
    part.array_at += box->at[0];
    if (!calls->begin(&part))
        part.result = c->shape == ZC_SHAPE_LINE  ? parts_line(&part)
                      : c->shape == ZC_SHAPE_SET ? parts_set(&part)
                                                 : strided(&part, box);
    /* These forms read the source in the order of their stream. */
    if (part.way == ZC_WAY_FORWARD && c->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
        part.way = ZC_WAY_FORWARD_WAIT;
    c->result = calls->end(&part);
    /* A border may cut an element of an array, of which the part says nothing. */
    c->answered = c->result != CUDA_SUCCESS && part.dst.side != ZC_SIDE_ARRAY &&
                  part.src.side != ZC_SIDE_ARRAY;
    c->continues = true;
}

/* Adds a node without dependencies to a graph. */
static void add_part(struct zc_copy *c, const struct box *box, const void *arg)
{
    CUgraph graph = *(const CUgraph *)arg;
    CUgraphNode node;
    if (c->shape == ZC_SHAPE_SET) {
        const CUDA_MEMSET_NODE_PARAMS p = {.dst = first_of(&c->dst, box),
                                           .pitch = c->dst.pitch,
                                           .value = c->value,
                                           .elementSize = c->unit,
                                           .width = box->extent[0] / c->unit,
                                           .height = box->extent[1]};
        c->result = zc_real.cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, c->behind->context);
    } else {
        const CUDA_MEMCPY3D p = parts_moved(c, box);
        c->result = zc_real.cuGraphAddMemcpyNode(&node, graph, NULL, 0, &p, c->behind->context);
    }
}

/* Does something for each part. */
typedef void part_fn(struct zc_copy *c, const struct box *box, const void *arg);

static void parts_make(struct zc_copy *c, const struct box *box, part_fn *part, const void *arg)
{
    struct box rest = *box, low, high;
    while (parts_cut(&c->dst, &rest, &low, &high) || parts_cut(&c->src, &rest, &low, &high)) {
        parts_make(c, &low, part, arg);
        if (c->result != CUDA_SUCCESS)
            return;
        rest = high;
    }
    part(c, &rest, arg);
}

void zc_parts_copy(struct zc_copy *c, const struct zc_parts_calls *calls)
{
    struct box box = parts_whole(c);
    if (divisible(c))
        parts_make(c, &box, make_part, calls);
    else
        c->result = CUDA_ERROR_INVALID_VALUE;
}

CUresult zc_parts_node(struct zc_copy *c)
{
    const struct zc_behind *at = c->behind;
    const struct box box = parts_whole(c);
    CUgraphNodeParams child = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraph graph;
    c->result = divisible(c) ? zc_real.cuGraphCreate(&graph, 0) : CUDA_ERROR_INVALID_VALUE;
    if (c->result != CUDA_SUCCESS)
        return c->result;
    parts_make(c, &box, add_part, &graph);
    child.graph.graph = graph;
    if (c->result == CUDA_SUCCESS && at->edges)
        c->result =
            zc_real.cuGraphAddNode_v2(at->node, at->graph, at->nodes, at->edges, at->count, &child);
    else if (c->result == CUDA_SUCCESS)
        c->result =
            zc_real.cuGraphAddChildGraphNode(at->node, at->graph, at->nodes, at->count, graph);
    zc_real.cuGraphDestroy(graph);
    return c->result;
}
