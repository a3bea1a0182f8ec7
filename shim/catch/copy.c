/* The choke point of all transfers: what stands on both sides, who does it, what is recorded. */
#include "base/clock.h"
#include "base/message.h"
#include "catch/call.h"
#include "catch/capture.h"
#include "catch/describe.h"
#include "log/log.h"
#include "place/copy.h"

/* The kind of an address that is in no block.  Only calls that leave it open need the driver. */
static enum zc_kind unknown_kind(const struct zc_box *b)
{
    unsigned type = 0;
    switch (b->side) {
    case ZC_SIDE_ARRAY:
        return ZC_KIND_ARRAY;
    case ZC_SIDE_DEVICE:
        return ZC_KIND_DEVICE;
    case ZC_SIDE_ANY:
        if (zc_real.cuPointerGetAttribute &&
            zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->address) ==
                CUDA_SUCCESS)
            return type == CU_MEMORYTYPE_DEVICE ? ZC_KIND_DEVICE : ZC_KIND_PINNED;
        return ZC_KIND_PAGEABLE;
    default:
        return ZC_KIND_PAGEABLE;
    }
}

static void resolve_box(struct zc_box *b)
{
    if (b->side == ZC_SIDE_NONE)
        return;
    b->block = b->address ? zc_block_find(b->address) : NULL;
    b->asked = b->block ? (enum zc_kind)b->block->asked : unknown_kind(b);
    b->real = b->block ? (enum zc_kind)b->block->real : b->asked;
}

void zc_copy_resolve(struct zc_copy *c)
{
    resolve_box(&c->dst);
    resolve_box(&c->src);
}

static bool on_device(enum zc_kind kind)
{
    return kind == ZC_KIND_DEVICE || kind == ZC_KIND_MANAGED;
}

/* Blocks of two devices make a peer copy, whatever the call is named; so CUPTI counts them. */
static bool crosses_devices(const struct zc_copy *c, enum zc_kind src, enum zc_kind dst)
{
    return on_device(src) && on_device(dst) && c->src.block && c->dst.block &&
           c->src.block->device != c->dst.block->device;
}

static enum zc_dir direction(const struct zc_copy *c, enum zc_kind src, enum zc_kind dst)
{
    if (c->set)
        return ZC_DIR_MEMSET;
    if (c->prefetch)
        return ZC_DIR_PREFETCH;
    return crosses_devices(c, src, dst) ? ZC_DIR_PTOP : zc_dir_of(src, dst);
}

void zc_copy_flows(const struct zc_copy *c, unsigned *asked, unsigned *real)
{
    bool one = c->set || c->prefetch;
    enum zc_kind as = one ? c->dst.asked : c->src.asked, rs = one ? c->dst.real : c->src.real;
    *asked = zc_flow(direction(c, as, c->dst.asked), as, c->dst.asked);
    *real = *asked; /* Mostly nothing was placed elsewhere. */
    if (rs != as || c->dst.real != c->dst.asked)
        *real = zc_flow(direction(c, rs, c->dst.real), rs, c->dst.real);
}

static bool converted(const struct zc_box *b)
{
    return b->block && (b->block->flags & ZC_BLOCK_CONVERTED);
}

/* The driver refuses a range that leaves the allocation it begins in, to the byte.  The pages
 * behind a converted block are rounded up, and stay for a while after a free in stream order, so
 * the check is libzc's. */
static bool leaves_block(const struct zc_box *b)
{
    return converted(b) && ((b->block->flags & ZC_BLOCK_GHOST) ||
                            b->span > b->block->base + b->block->size - b->address);
}

bool zc_copy_begin(struct zc_copy *c)
{
    if (!c->on)
        return false;
    zc_copy_resolve(c);
    if (__builtin_expect(!converted(&c->dst) && !converted(&c->src), 1) || !c->bytes)
        return false;
    if (leaves_block(&c->dst) || leaves_block(&c->src)) {
        c->result = CUDA_ERROR_INVALID_VALUE;
        return true;
    }
    if (c->prefetch) { /* Only managed memory can be prefetched, and the program has none here. */
        c->result = CUDA_ERROR_INVALID_VALUE;
        return true;
    }
    return zc_place_copy(c);
}

CUresult zc_copy_end(struct zc_copy *c)
{
    if (!c->on)
        return c->result;
    if (__builtin_expect(c->result != CUDA_SUCCESS, 0)) {
        struct zc_box *b = converted(&c->dst) ? &c->dst : &c->src;
        bool outside = leaves_block(&c->dst) || leaves_block(&c->src);
        return converted(b) && !outside && !c->prefetch ? zc_blame(c->fn, b->address, c->result)
                                                        : c->result;
    }
    /* A captured copy has not happened yet; the graph's launches count it. */
    if (!c->bytes || (c->async && zc_capture_holds(c->stream, c->flavour)))
        return c->result;
    struct zc_transfer t = {.outcome = c->outcome,
                            .bytes = c->bytes,
                            .dst = c->dst.block,
                            .src = c->src.block,
                            .ticks = zc_ticks() - c->start};
    zc_copy_flows(c, &t.asked, &t.real);
    zc_traffic_record(&t);
    if (__builtin_expect(zc_log_level() == ZC_LOG_EVENTS, 0))
        zc_log_transfer(&t, zc_fn_name(c->fn));
    return c->result;
}
