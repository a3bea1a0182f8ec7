/* SPDX-License-Identifier: MIT */
/* All transfers pass here: resolves both sides, decides who makes the copy, and records it. */
#include "hook/copy.h"
#include "base/clock.h"
#include "copy/cpu.h"
#include "copy/parallel.h"
#include "copy/links.h"
#include "copy/staged.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/stream.h"
#include "driver/unknown.h"
#include "hook/diagnose.h"
#include "hook/parts.h"
#include "hook/request.h"
#include "host/source.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "place/sides.h"
#include "place/verbs.h"

/* True if a range leaves its block.  The driver refuses that to the byte. */
static bool leaves_any_block(const struct zc_operand *b)
{
    return b->block && ((b->block->flags & ZC_BLOCK_QUARANTINED) ||
                        b->span > b->block->base + b->block->size - b->address);
}

/* The same for what libzc has to check.  The pages behind a converted block are rounded up, and
 * stay for a while after a free in stream order.  Pinned memory is copied with the CPU. */
static bool leaves_block(const struct zc_operand *b)
{
    return leaves_any_block(b) && (zc_operand_converted(b) || b->asked == ZC_KIND_PINNED);
}

static bool is_no_range(const struct zc_operand *b)
{
    return b->in_margin || leaves_block(b) || zc_side_refused(b);
}

/* False for memory of the driver's or the program's own. */
static inline bool is_ours(const struct zc_operand *b)
{
    return zc_operand_converted(b) || b->extent || b->in_margin;
}

/* For a range that is none to the program.  The driver may object to something else first. */
static CUresult refusal(const struct zc_copy *c)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    CUdevice device;
    bool array = c->src.side == ZC_SIDE_ARRAY || c->dst.side == ZC_SIDE_ARRAY;
    CUresult result = c->async ? zc_stream_device(c->stream, c->flavour, &device) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && array && c->shape == ZC_SHAPE_LINE)
        result = zc_real.cuArray3DGetDescriptor_v2(&desc, c->array);
    return result == CUDA_SUCCESS ? zc_stream_refusal() : result;
}

/* True when the call is answered. */
static bool carry_out(struct zc_copy *c)
{
    switch (c->way) {
    case ZC_WAY_REFUSE:
        if (c->result == CUDA_SUCCESS)
            c->result = refusal(c);
        return true;
    case ZC_WAY_SPLIT:
        zc_sides_leave(c);
        zc_parts_copy(c, &(const struct zc_parts_calls){zc_copy_begin, zc_copy_end});
        return true;
    case ZC_WAY_REMAP:
        return true;
    case ZC_WAY_PAIR:
        return zc_sides_copy(c);
    case ZC_WAY_RING:
        zc_staged_send(c);
        return true;
    case ZC_WAY_THREADS:
    case ZC_WAY_LINKS:
        if (c->way == ZC_WAY_LINKS ? zc_links_copy(c, NULL) : zc_sides_by_threads(c))
            return true;
        __attribute__((fallthrough));
    case ZC_WAY_FORWARD:
    case ZC_WAY_FORWARD_WAIT:
        c->result = zc_sides_end_stale(c);
        return c->result != CUDA_SUCCESS;
    default:
        zc_cpu_copy(c);
        return true;
    }
}

static void copy_plan(struct zc_copy *c, bool ours, bool large)
{
    c->facts = ZC_FACT_IF(OURS, ours) | ZC_FACT_IF(LARGE, large) | ZC_FACT_IF(ASYNC, c->async) |
               ZC_FACT_IF(CAPTURE, zc_capture_any()) |
               ZC_FACT_IF(SHARED, ours && zc_sides_pair(c)) |
               ZC_FACT_IF(LEAVES, ours && (is_no_range(&c->dst) || is_no_range(&c->src) ||
                                           (c->shape == ZC_SHAPE_PREFETCH && !c->dst.extent))) |
               ZC_FACT_IF(BORDER, ours && zc_parts_side(c));
    while ((c->way = zc_plan(c->facts)) >= ZC_WAY_COUNT)
        c->facts |= zc_sides_answer(c, c->way);
}

static bool begin_planned(struct zc_copy *c, bool large)
{
    c->planned = true;
    if (c->unknown) {
        c->result = zc_unknown_value(c->fn);
        if (c->result != CUDA_SUCCESS)
            return true;
        zc_copy_resolve(c);
    }
    zc_sides_hold(c);
    bool ours = (is_ours(&c->dst) || is_ours(&c->src)) && c->bytes;
    if (!ours && !large)
        return false;
    if (ours)
        zc_sides_visit(c);
    bool answered;
    do { /* Other threads may change what lies behind a block of `shared` meanwhile. */
        do
            copy_plan(c, ours, large);
        while (!zc_sides_keep(c));
        answered = carry_out(c);
    } while (!answered && c->way == ZC_WAY_PAIR);
    if (!answered && c->way != ZC_WAY_FORWARD_WAIT)
        c->way = ZC_WAY_FORWARD;
    return answered;
}

/* Memory that is what the program asked for, and the driver's or the program's own.  What lies at a
 * device address of no block is left to zc_copy_resolve(). */
static inline bool is_plain(const struct zc_block *block, enum zc_side side)
{
    return !block ? side == ZC_SIDE_HOST
                  : !(block->flags & (ZC_BLOCK_KNOWN | ZC_BLOCK_HOST)) &&
                        __atomic_load_n(&block->real, __ATOMIC_RELAXED) == block->asked;
}

/* The calling thread's last small copies, by a hash of their pages.  A handler that interrupts one
 * that is being written leaves all as they are. */
#define LAST 4u
#define BUSY UINT64_MAX /* Of `sequence`: being written. */
static __thread struct {
    uint64_t changes; /* Odd during one. */
    struct last {
        uint64_t dst, dst_bytes, src, src_bytes; /* Ranges for which it is the same. */
        struct zc_plain_copy copy;
    } last[LAST];
} quick_last __attribute__((tls_model("initial-exec")));

static inline struct last *last_of(CUdeviceptr dst, CUdeviceptr src)
{
    uint64_t pages = dst / ZC_BLOCK_PAGE + src / ZC_BLOCK_PAGE * 3;
    return &quick_last.last[pages * UINT64_C(0x9e3779b97f4a7c15) >> 62];
}

static void quick_remember(struct last *last, struct last now)
{
    uint64_t sequence = now.copy.sequence;
    if (quick_last.changes & 1)
        return;
    quick_last.changes++;
    last->copy.sequence = now.copy.sequence = BUSY;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *last = now;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    last->copy.sequence = sequence;
    quick_last.changes++;
}

__attribute__((noinline)) static bool quick_look(struct zc_plain_copy *copy, enum zc_side dst_side,
                                                 CUdeviceptr dst, enum zc_side src_side,
                                                 CUdeviceptr src, uint64_t bytes)
{
    bool set = src_side == ZC_SIDE_NONE;
    struct zc_index_seen to = zc_block_see(dst), from = {to.sequence, 0, 1, NULL};
    if (!set)
        from = zc_block_see(src);
    struct zc_block *d = (struct zc_block *)to.node, *s = (struct zc_block *)from.node;
    if (!is_plain(d, dst_side) || !(set || is_plain(s, src_side)))
        return false;
    enum zc_kind dst_kind = d ? (enum zc_kind)d->asked : ZC_KIND_PAGEABLE;
    enum zc_kind src_kind = s ? (enum zc_kind)s->asked : ZC_KIND_PAGEABLE;
    enum zc_dir dir = set ? ZC_DIR_MEMSET : zc_copy_dir(src_kind, dst_kind, s, d);
    *copy = (struct zc_plain_copy){.dst = d,
                                   .src = s,
                                   .sequence = to.sequence,
                                   .bytes = bytes,
                                   .flow = zc_flow(dir, set ? dst_kind : src_kind, dst_kind),
                                   .sides = dst_side << 8 | src_side};
    if (!zc_traffic_cells(copy) || to.sequence != from.sequence)
        copy->sequence = BUSY;
    else
        quick_remember(last_of(dst, src),
                       (struct last){to.base, to.bytes, from.base, from.bytes, *copy});
    return true;
}

bool zc_copy_quick(struct zc_plain_copy *copy, enum zc_side dst_side, CUdeviceptr dst,
                   enum zc_side src_side, CUdeviceptr src, uint64_t bytes)
{
    if (__atomic_load_n(&zc_life_state, __ATOMIC_RELAXED) != ZC_LIFE_ON || !bytes ||
        bytes >= ZC_SOURCE_LEAST || zc_log_level() >= ZC_LOG_ALLOCS || zc_capture_any() ||
        zc_rules()->links == ZC_LINKS_IDLE)
        return false;
    uint64_t changes = quick_last.changes;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const struct last *last = last_of(dst, src);
    *copy = last->copy;
    bool held = dst - last->dst < last->dst_bytes && src - last->src < last->src_bytes &&
                copy->sides == (dst_side << 8 | src_side) &&
                copy->sequence == __atomic_load_n(&zc_index_sequence, __ATOMIC_ACQUIRE);
    copy->bytes = bytes;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(held && quick_last.changes == changes, 1))
        return true;
    return quick_look(copy, dst_side, dst, src_side, src, bytes);
}

bool zc_copy_begin(struct zc_copy *c)
{
    if (!c->on)
        return false;
    zc_copy_resolve(c);
    bool large = zc_parallel_large(c);
    if (zc_rules()->links == ZC_LINKS_IDLE && c->bytes < ZC_LINKS_LEAST)
        zc_links_small();
    bool any = large || c->unknown || is_ours(&c->dst) || is_ours(&c->src);
    return any && begin_planned(c, large);
}

/* Not inlined: used only from the level `events` on. */
__attribute__((noinline)) static void log_transfer(const struct zc_copy *c,
                                                   const struct zc_transfer *t)
{
    const struct zc_log_call call = zc_copy_call(c);
    zc_log_transfer(t, &call);
}

static bool has_source(const struct zc_copy *c)
{
    return c->bytes >= ZC_SOURCE_LEAST &&
           (c->src.asked == ZC_KIND_PAGEABLE || c->dst.asked == ZC_KIND_PAGEABLE);
}

static void copy_record(const struct zc_copy *c, struct zc_transfer *t)
{
    if (has_source(c))
        zc_source_tell(t, c->dst.address, c->src.address);
    zc_traffic_record(t);
    if (zc_site_is_new(t->call))
        zc_log_site(t->call);
    if (zc_log_level() >= ZC_LOG_EVENTS)
        log_transfer(c, t);
}

/* One call, whose parts count by their outcomes. */
static void record_parts(const struct zc_copy *c, struct zc_transfer *t)
{
    for (unsigned i = 0; i < ZC_OUTCOME_COUNT; i++) {
        if (!c->part[i])
            continue;
        t->outcome = (enum zc_outcome)i;
        t->bytes = c->part[i];
        copy_record(c, t);
        t->continues = true;
        t->ticks = 0;
    }
}

/* A capture forbids calls that wait, and work on the legacy stream; once invalid it accepts
 * nothing.  That does not depend on where blocks are. */
static bool capture_forbids(const struct zc_copy *c)
{
    if (c->result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        return true;
    if (c->result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return !c->async || c->stream == CU_STREAM_LEGACY ||
               (!c->stream && c->flavour == ZC_LEGACY);
    return c->result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && !c->async;
}

/* True if a graph accepts an empty node after it has refused another one. */
static bool takes_nodes(const struct zc_behind *at)
{
    CUgraphNode node;
    CUresult result;
    CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    if (at->edges)
        result =
            zc_real.cuGraphAddNode_v2(&node, at->graph, at->nodes, at->edges, at->count, &empty);
    else
        result = zc_real.cuGraphAddEmptyNode(&node, at->graph, at->nodes, at->count);
    return result == CUDA_SUCCESS && zc_real.cuGraphDestroyNode(node) == CUDA_SUCCESS;
}

/* True if the driver refuses memory that libzc did not make, whatever is on the other side: a
 * mapping of the program's that the current device may not use, or a range that leaves the part
 * that the program has registered. */
static bool refuses_theirs(const struct zc_operand *b, bool written)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    unsigned long long rights;
    CUdeviceptr base;
    size_t size;
    if (b->side == ZC_SIDE_NONE || b->side == ZC_SIDE_ARRAY || zc_operand_converted(b) ||
        zc_real.cuCtxGetDevice(&here.id) != CUDA_SUCCESS)
        return false;
    if (zc_real.cuMemGetAccess(&rights, &here, b->address) == CUDA_SUCCESS)
        return rights != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
               (written || rights != CU_MEM_ACCESS_FLAGS_PROT_READ);
    return zc_real.cuMemGetAddressRange_v2(&base, &size, b->address) == CUDA_SUCCESS &&
           b->span > base + size - b->address;
}

/* Single values are refused because of their place only in managed memory and in pairs, copies with
 * an array only across a border. */
static bool fails_in_every_place(const struct zc_copy *c)
{
    bool array = c->src.side == ZC_SIDE_ARRAY || c->dst.side == ZC_SIDE_ARRAY;
    return capture_forbids(c) || !c->bytes || (array && !zc_parts_side(c)) ||
           is_no_range(&c->dst) || is_no_range(&c->src) || leaves_any_block(&c->dst) ||
           leaves_any_block(&c->src) || zc_side_nobodys(&c->dst) || zc_side_nobodys(&c->src) ||
           refuses_theirs(&c->dst, true) || refuses_theirs(&c->src, false) ||
           c->shape == ZC_SHAPE_PREFETCH || !zc_copy_well_formed(c) ||
           (c->word && c->dst.real != ZC_KIND_MANAGED) || (c->behind && !takes_nodes(c->behind));
}

/* Reports a refusal, unless `shared` has reported it already. */
static CUresult copy_refused(const struct zc_copy *c)
{
    const struct zc_operand *b = zc_operand_converted(&c->dst) ? &c->dst : &c->src;
    if (!zc_operand_converted(b) || c->answered || fails_in_every_place(c))
        return c->result;
    const struct zc_operand *over = zc_parts_side(c);
    return over ? zc_diagnose_border(c->fn, over->address, c->result)
                : zc_diagnose(c->fn, b->address, c->result);
}

bool zc_copy_reaches(struct zc_copy *c)
{
    if (!c->on)
        return true;
    zc_copy_resolve(c);
    return !c->bytes || !(is_no_range(&c->dst) || is_no_range(&c->src));
}

void zc_describe_values(struct zc_copy *c, unsigned count, const CUstreamBatchMemOpParams *p,
                        CUstream stream)
{
    zc_copy_on_stream(c, stream);
    struct zc_copy one = *c, placed = *c;
    for (unsigned i = 0; p && i < count; i++) {
        /* Waits and writes have the same first fields: operation, then address. */
        CUdeviceptr address = p[i].waitValue.address;
        unsigned op = p[i].operation;
        bool waits = op == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        bool wide = op == CU_STREAM_MEM_OP_WAIT_VALUE_64 || op == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        if (op == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES || op == CU_STREAM_MEM_OP_BARRIER)
            continue;
        c->unknown = !waits && !wide && op != CU_STREAM_MEM_OP_WRITE_VALUE_32;
        if (c->unknown)
            return;
        zc_describe_value(&one, address, wide ? 8 : 4,
                          waits ? p[i].waitValue.flags : p[i].writeValue.flags,
                          waits ? ZC_WAIT_FLAGS : ZC_WRITE_FLAGS, stream);
        bool bad = !zc_copy_reaches(&one) || !zc_copy_well_formed(&one);
        if (bad || (placed.shape != ZC_SHAPE_SET && zc_operand_converted(&one.dst)))
            placed = one;
        if (bad)
            break;
    }
    *c = placed;
}

CUresult zc_copy_before_node(struct zc_copy *c)
{
    CUresult result = c->unknown && c->on ? zc_unknown_value(c->fn) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = zc_copy_reaches(c) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && c->on)
        result = zc_place_retreat(c->dst.block, c->fn, true, ZC_RETREAT_WRITTEN);
    if (result == CUDA_SUCCESS && c->on)
        result = zc_place_retreat(c->src.block, c->fn, true, ZC_RETREAT_GRAPH);
    /* The border of a block that moves stays from here on. */
    bool parts = result == CUDA_SUCCESS && c->on && c->bytes && zc_parts_side(c);
    if (parts && !c->behind)
        return zc_copy_after_node(c, CUDA_ERROR_INVALID_VALUE);
    if (result == CUDA_SUCCESS)
        result = zc_sides_in_graph(c);
    if (result == CUDA_SUCCESS && zc_await_call(c->fn))
        result = zc_place_drain(c->fn);
    if (result == CUDA_SUCCESS)
        result = zc_launch_before(c->fn, c->flavour, c->stream);
    c->made = parts && result == CUDA_SUCCESS;
    return c->made ? zc_copy_after_node(c, ZC_HOLDING_STILL(zc_parts_node(c))) : result;
}

/* The driver returns one code if it objects to the kind of memory. */
CUresult zc_copy_after_node(struct zc_copy *c, CUresult result)
{
    c->result = result;
    return result == CUDA_ERROR_INVALID_VALUE && c->on ? copy_refused(c) : result;
}

/* A captured copy or set has not happened yet; it is counted at the launches of its graph. */
static inline bool copy_counts(const struct zc_copy *c)
{
    return c->bytes && !(c->async && zc_capture_holds(c->stream, c->flavour));
}

/* Records a copy or set that was made. */
static void count(const struct zc_copy *c)
{
    zc_sides_note(c);
    bool by_cpu = c->way >= ZC_WAY_CPU && c->way <= ZC_WAY_CPU_STAGED;
    struct zc_transfer t = zc_copy_transfer(c);
    t.outcome = by_cpu ? ZC_CPU : ZC_MOVED;
    if (__builtin_expect(c->way == ZC_WAY_PAIR, 0))
        record_parts(c, &t);
    else
        copy_record(c, &t);
}

/* Another thread's copy may have registered the block, as one with its neighbours, between the plan
 * and the driver's call, which then did not wait. */
static bool is_staged_late(const struct zc_copy *c)
{
    return c->way == ZC_WAY_FORWARD && c->async && zc_copy_staged(c) &&
           !(c->facts & ZC_FACT_CAPTURED);
}

static CUresult end_planned(struct zc_copy *c)
{
    zc_sides_release(c);
    if (c->result == CUDA_SUCCESS && (c->way == ZC_WAY_FORWARD_WAIT || is_staged_late(c)))
        c->result = zc_staged_wait(c);
    if (c->result != CUDA_SUCCESS)
        c->result = copy_refused(c);
    else if (c->way != ZC_WAY_REMAP && c->way != ZC_WAY_SPLIT && copy_counts(c))
        count(c);
    zc_sides_end(c);
    zc_place_tidy();
    return c->result;
}

CUresult zc_copy_end(struct zc_copy *c)
{
    if (!c->on)
        return c->result;
    if (c->planned)
        return end_planned(c);
    if (c->result != CUDA_SUCCESS)
        return copy_refused(c);
    if (!copy_counts(c))
        return CUDA_SUCCESS;
    count(c);
    zc_place_tidy();
    return CUDA_SUCCESS;
}
