/* SPDX-License-Identifier: MIT */
/* Describes copies, sets and prefetches by their parameters. */
#include "driver/copy.h"

#include <stddef.h>
#include <string.h>

#include "driver/stream.h"
#include "ledger/site_path.h"
#include "log/ranges.h"

struct zc_transfer zc_copy_transfer(const struct zc_copy *c)
{
    return (struct zc_transfer){.asked = zc_copy_asked(c),
                                .real = zc_copy_real(c),
                                .outcome = ZC_MOVED,
                                .bytes = c->bytes,
                                .copies = c->copies,
                                .links = c->links,
                                .dst = c->dst.block,
                                .src = c->src.block,
                                .ticks = zc_ticks() - c->start,
                                .call = zc_log_level() >= ZC_LOG_ALLOCS && c->frame
                                            ? (uint16_t)zc_site_here(c->frame, c->pc)
                                            : 0,
                                .continues = c->continues};
}

struct zc_log_call zc_copy_call(const struct zc_copy *c)
{
    return (struct zc_log_call){
        .function = zc_fn_name(c->fn),
        .dst = c->dst.address,
        .src = c->src.address,
        .stream = c->async ? zc_stream_kind_of(c->stream, c->flavour) : ZC_STREAM_NONE,
        .handle = (uintptr_t)c->stream,
        .range = zc_ranges_here(),
    };
}

/* Sets what a call says of a side; zc_copy_init() has set the other fields. */
static void set_operand(struct zc_operand *b, enum zc_side side, CUdeviceptr address, size_t span)
{
    b->side = side;
    b->address = side == ZC_SIDE_ARRAY ? 0 : address;
    b->span = span;
}

void zc_describe_peer(struct zc_copy *c, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                      CUcontext src_context, size_t n)
{
    zc_describe_line(c, ZC_SIDE_DEVICE, dst, ZC_SIDE_DEVICE, src, n);
    c->dst.context = dst_context;
    c->src.context = src_context;
}

/* The side that a CUmemorytype means, and which of the two address fields it uses. */
static enum zc_side copy_side_of(CUmemorytype type)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return ZC_SIDE_HOST;
    case CU_MEMORYTYPE_DEVICE:
        return ZC_SIDE_DEVICE;
    case CU_MEMORYTYPE_ARRAY:
        return ZC_SIDE_ARRAY;
    default:
        return ZC_SIDE_ANY;
    }
}

/* CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices. */
#define MOST ((size_t)INT32_MAX)

/* True if no driver can object to how rows and slices follow each other.  A pitch or height may be
 * left out where there is one row or one slice. */
static bool steps_fit(size_t pitch, size_t height, const size_t at[3], const size_t extent[3])
{
    bool one_slice = extent[2] < 2 && !at[2];
    bool one_row = one_slice && extent[1] < 2 && !at[1];
    return (pitch ? pitch <= MOST && pitch >= zc_sum(at[0], extent[0]) : one_row) &&
           (height ? height <= MOST && height >= zc_sum(at[1], extent[1]) : one_slice);
}

/* One side of a 2D or 3D copy.  A pitch or height of 0 means "tightly packed".  A pitch has a sign
 * (measured): rows may lie one before the other.  An array has its own layout, whatever the pitch
 * says (cuda.h).  False for what a driver may refuse in any memory.
 */
static bool set_region(struct zc_operand *b, CUmemorytype type, const void *host,
                       CUdeviceptr device, size_t pitch, size_t height, const size_t at[3],
                       const size_t extent[3])
{
    enum zc_side side = copy_side_of(type);
    CUdeviceptr base = side == ZC_SIDE_HOST ? (CUdeviceptr)host : device;
    bool backwards = (ptrdiff_t)pitch < 0;
    size_t packed = backwards ? 0 - pitch : pitch ? pitch : zc_sum(at[0], extent[0]);
    size_t slice = zc_product(packed, height ? height : extent[1]), first = 0, rest = 0, span = 0;
    if (extent[0] && extent[1] && extent[2]) {
        first = zc_sum(zc_product(at[2], slice), zc_product(at[1], packed));
        rest = zc_sum(zc_product(extent[2] - 1, slice), zc_product(extent[1] - 1, packed));
        span = zc_sum(rest, extent[0]);
        base = zc_sum(base, at[0]);
    }
    if (backwards)
        base = base > zc_sum(first, rest) ? base - first - rest : SIZE_MAX;
    set_operand(b, side, backwards ? base : zc_sum(base, first), span);
    b->pitch = packed;
    b->slice = slice;
    return side == ZC_SIDE_ARRAY ||
           (type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED && b->address != SIZE_MAX &&
            steps_fit(pitch, height, at, extent));
}

static void remember_extent(struct zc_copy *c, const size_t extent[3], bool fits)
{
    c->unit = fits;
    for (int i = 0; i < 3; i++)
        c->extent[i] = extent[i];
    c->bytes = zc_product(zc_product(extent[0], extent[1]), extent[2]);
    c->shape = ZC_SHAPE_STRIDED;
}

void zc_describe_2d(struct zc_copy *c, const CUDA_MEMCPY2D *p)
{
    if (!p)
        return;
    const size_t extent[3] = {p->WidthInBytes, p->Height, 1};
    const size_t dst_at[3] = {p->dstXInBytes, p->dstY, 0}, src_at[3] = {p->srcXInBytes, p->srcY, 0};
    bool dst = set_region(&c->dst, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, 0,
                          dst_at, extent);
    bool src = set_region(&c->src, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch, 0,
                          src_at, extent);
    remember_extent(c, extent, dst && src);
    c->given = p;
    c->flat = true;
}

/* `own`: the reserved fields are, and not contexts. */
static void describe_3d(struct zc_copy *c, const CUDA_MEMCPY3D *p, bool own)
{
    const size_t extent[3] = {p->WidthInBytes, p->Height, p->Depth};
    const size_t dst_at[3] = {p->dstXInBytes, p->dstY, p->dstZ};
    const size_t src_at[3] = {p->srcXInBytes, p->srcY, p->srcZ};
    bool dst = set_region(&c->dst, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch,
                          p->dstHeight, dst_at, extent);
    bool src = set_region(&c->src, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch,
                          p->srcHeight, src_at, extent);
    bool named = p->srcLOD || p->dstLOD || (own && (p->reserved0 || p->reserved1));
    remember_extent(c, extent, dst && src && !named);
    c->given = p;
    c->flat = false;
}

void zc_describe_3d(struct zc_copy *c, const CUDA_MEMCPY3D *p)
{
    if (p)
        describe_3d(c, p, true);
}

/* The contexts of the one are reserved fields of the other. */
_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D) &&
                   offsetof(CUDA_MEMCPY3D_PEER, Depth) == offsetof(CUDA_MEMCPY3D, Depth),
               "both descriptions have the same layout");

void zc_describe_3d_peer(struct zc_copy *c, const CUDA_MEMCPY3D_PEER *p)
{
    CUDA_MEMCPY3D same;
    if (!p)
        return;
    memcpy(&same, p, sizeof(same));
    describe_3d(c, &same, false);
    c->given = p->dstContext && p->srcContext ? p : NULL; /* Else the driver refuses it. */
    c->dst.context = p->dstContext;
    c->src.context = p->srcContext;
}

#define ELEMENT_MOST 16

/* Bytes of an element of an array, at most ELEMENT_MOST; 0 for what is no array, and for compressed
 * and planar formats. */
static size_t array_element(CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    if (zc_life_closing() || zc_real.cuArray3DGetDescriptor_v2(&desc, array) != CUDA_SUCCESS)
        return 0;
    switch (desc.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return desc.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * (size_t)desc.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * (size_t)desc.NumChannels;
    default:
        return 0;
    }
}

static size_t element_of(const CUmemcpy3DOperand *o)
{
    return o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? array_element(o->op.array.array) : 0;
}

/* Fills one side of a description, `side` being src or dst. */
#define SET_SIDE(as, side, o, unit, e)                                                             \
    do {                                                                                           \
        if ((o)->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {                                           \
            (as)->side##MemoryType = CU_MEMORYTYPE_ARRAY;                                          \
            (as)->side##Array = (o)->op.array.array;                                               \
            (as)->side##XInBytes = zc_product((o)->op.array.offset.x, unit);                       \
            (as)->side##Y = (o)->op.array.offset.y;                                                \
            (as)->side##Z = (o)->op.array.offset.z;                                                \
        } else {                                                                                   \
            (as)->side##MemoryType = CU_MEMORYTYPE_UNIFIED;                                        \
            (as)->side##Device = (o)->op.ptr.ptr;                                                  \
            (as)->side##Pitch =                                                                    \
                zc_product((o)->op.ptr.rowLength ? (o)->op.ptr.rowLength : (e)->width, unit);      \
            (as)->side##Height = (o)->op.ptr.layerHeight ? (o)->op.ptr.layerHeight : (e)->height;  \
        }                                                                                          \
    } while (0)

static bool is_operand(const CUmemcpy3DOperand *o)
{
    return o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY || o->type == CU_MEMCPY_OPERAND_TYPE_POINTER;
}

/* Lengths count elements: of the array where one side is an array, else of one byte. */
void zc_describe_op(struct zc_copy *c, CUDA_MEMCPY3D *as, const CUDA_MEMCPY3D_BATCH_OP *op,
                    unsigned long long flags)
{
    if (!op || flags || !is_operand(&op->src) || !is_operand(&op->dst)) {
        zc_describe_order(c, 0); /* The driver refuses it. */
        return;
    }
    bool arrays = op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ||
                  op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
    size_t element = element_of(&op->src) ? element_of(&op->src) : element_of(&op->dst);
    size_t unit = !arrays ? 1 : element ? element : ELEMENT_MOST;
    *as = (CUDA_MEMCPY3D){.WidthInBytes = zc_product(op->extent.width, unit),
                          .Height = op->extent.height,
                          .Depth = op->extent.depth};
    SET_SIDE(as, src, &op->src, unit, &op->extent);
    SET_SIDE(as, dst, &op->dst, unit, &op->extent);
    zc_describe_3d(c, as);
    zc_describe_order(c, (int)op->srcAccessOrder);
    if (arrays && !element)
        c->given = NULL; /* The size is only a bound. */
}

void zc_describe_set_2d(struct zc_copy *c, CUdeviceptr dst, size_t pitch, unsigned value,
                        uint8_t unit, size_t width, size_t height)
{
    size_t row = zc_product(width, unit);
    /* A set with a negative pitch is one of the same rows, seen from the last one. */
    bool backwards = (ptrdiff_t)pitch < 0;
    size_t step = backwards ? 0 - pitch : pitch, rest = height ? zc_product(height - 1, step) : 0;
    zc_describe_set(c, backwards ? dst - rest : dst, value, unit, zc_product(width, height));
    c->dst.span = width && height ? zc_sum(rest, row) : 0;
    c->dst.pitch = step;
    c->extent[0] = row;
    c->extent[1] = height;
}

void zc_describe_value(struct zc_copy *c, CUdeviceptr address, uint8_t width, unsigned flags,
                       unsigned known, CUstream stream)
{
    zc_copy_on_stream(c, stream);
    c->unknown = flags & ~known;
    zc_describe_set(c, address, 0, c->unknown ? 0 : width, 1);
    c->word = true;
}

bool zc_describe_of_type(CUgraphNode node, CUgraphNodeType type)
{
    CUgraphNodeType its;
    return node && !zc_life_closing() && zc_real.cuGraphNodeGetType(node, &its) == CUDA_SUCCESS &&
           its == type;
}

void zc_describe_set_node(struct zc_copy *c, const CUDA_MEMSET_NODE_PARAMS *p)
{
    if (p)
        zc_describe_set_2d(c, p->dst, p->pitch, p->value,
                           p->elementSize > 4 ? 0 : (uint8_t)p->elementSize, p->width, p->height);
}

void zc_describe_node(struct zc_copy *c, const CUgraphNodeParams *p)
{
    if (p && p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        zc_describe_3d(c, &p->memcpy.copyParams);
    else if (p && p->type == CU_GRAPH_NODE_TYPE_MEMSET)
        zc_describe_set_node(c, (const void *)&p->memset); /* A context follows in the newer one. */
    else
        c->unknown = p && !zc_known_node(p->type);
}

const CUgraphNodeParams *zc_describe_if(CUgraphNode node, const CUgraphNodeParams *params)
{
    return params && zc_describe_of_type(node, params->type) ? params : NULL;
}

bool zc_copy_well_formed(const struct zc_copy *c)
{
    const size_t *e = c->extent;
    if (c->order < 0)
        return false;
    if (c->shape == ZC_SHAPE_SET) /* Elements of 1, 2, 4 or 8 bytes. */
        return c->unit && !(c->unit & (c->unit - 1)) && c->dst.address % c->unit == 0 &&
               (e[1] < 2 || (c->dst.pitch >= e[0] && c->dst.pitch % c->unit == 0));
    return c->shape != ZC_SHAPE_STRIDED || c->unit;
}

void zc_describe_prefetch(struct zc_copy *c, CUdeviceptr ptr, size_t n)
{
    set_operand(&c->dst, ZC_SIDE_DEVICE, ptr, n);
    c->bytes = n;
    c->shape = ZC_SHAPE_PREFETCH;
}

unsigned zc_memory_type(CUdeviceptr address)
{
    unsigned type = 0;
    bool known = zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
                 CUDA_SUCCESS;
    return known ? type : 0;
}

bool zc_memory_managed(CUdeviceptr address)
{
    unsigned managed = 0;
    return zc_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
               CUDA_SUCCESS &&
           managed;
}
