/* Blocks of `vmm` whose memory is attached late, and copies between them that become remaps. */
#include "place/grow.h"

#include <sched.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/message.h"
#include "catch/capture.h"
#include "catch/launch.h"
#include "catch/life.h"
#include "catch/request.h"
#include "catch/streams.h"
#include "log/log.h"
#include "place/stream.h"

/* From here on a request is held against what the device has: asking the driver costs more than a
 * small block is worth. */
#define ADMIT_FROM ((size_t)64 << 20)

static uint32_t turn;         /* Thread that has the turn, 0 for none. */
static struct zc_vmm *blocks; /* All blocks that are attached late. */
static unsigned open_blocks;  /* Those that are open. */
static uint64_t promised;     /* Bytes without memory; atomic. */

bool zc_grow_turn_take(void)
{
    uint32_t me = zc_thread_id(), nobody = 0;
    while (!__atomic_compare_exchange_n(&turn, &nobody, me, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        if (nobody == me)
            return false;
        if (nobody)
            sched_yield();
        nobody = 0;
    }
    return true;
}

void zc_grow_turn_drop(void)
{
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
}

uint64_t zc_grow_promised(void)
{
    return __atomic_load_n(&promised, __ATOMIC_RELAXED);
}

static CUresult before_launch(const struct zc_launch *launch);

/* Says anew whether something of a block is not done; launches are watched while any is open. */
static void note(struct zc_vmm *v)
{
    bool now = v->attached < v->span || v->source || v->sink;
    if (now != v->open)
        open_blocks += now ? 1u : -1u;
    __atomic_store_n(&v->open, now, __ATOMIC_RELEASE);
    zc_launch_call(ZC_LAUNCH_GROW, open_blocks ? before_launch : NULL);
}

/* Unmaps what another block has in the addresses of one that did not grow from it. */
static CUresult unalias(struct zc_vmm *v, const char **why)
{
    CUresult result = CUDA_SUCCESS;
    if (!v->like)
        return result;
    *why = "cuMemUnmap refuses";
    if (v->aliased)
        result = zc_real.cuMemUnmap(v->base, v->aliased);
    if (result != CUDA_SUCCESS)
        return result;
    v->like->echo = NULL;
    v->like = NULL;
    v->aliased = 0;
    return result;
}

/* Driver calls that a capture in global mode forbids are allowed to a thread that says so: CUDA
 * Driver API, cuThreadExchangeStreamCaptureMode. */
static CUresult attach(struct zc_vmm *v, const char **why)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    size_t held = v->held;
    bool relaxed = zc_capture_any() &&
                   zc_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    CUresult result = unalias(v, why);
    if (result == CUDA_SUCCESS)
        result = zc_vmm_attach(v, why);
    if (relaxed)
        zc_real.cuThreadExchangeStreamCaptureMode(&mode);
    __atomic_fetch_sub(&promised, v->held - held, __ATOMIC_RELAXED);
    note(v);
    return result;
}

static void record(struct zc_vmm *sink, enum zc_outcome outcome)
{
    sink->copy.outcome = outcome;
    zc_traffic_record(&sink->copy);
    if (zc_log_level() == ZC_LOG_EVENTS)
        zc_log_transfer(&sink->copy, &sink->call);
}

static void unlink_pair(struct zc_vmm *sink)
{
    struct zc_vmm *source = sink->source;
    sink->source = NULL;
    source->sink = NULL;
    note(source);
    note(sink);
}

/* Makes a pending copy.  It is complete on return, because events that the program recorded behind
 * its own copy do not cover this one.  After a failure it is still pending. */
static CUresult copy_now(struct zc_vmm *sink, const char **why)
{
    CUcontext current = NULL, popped;
    CUresult result = sink->attached < sink->span ? attach(sink, why) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    zc_real.cuCtxGetCurrent(&current);
    if (current != sink->context)
        result = zc_real.cuCtxPushCurrent_v2(sink->context);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuMemcpyDtoDAsync_v2(sink->base, sink->source->base, sink->copy.bytes,
                                          CU_STREAM_LEGACY);
    if (result == CUDA_SUCCESS)
        result = zc_stream_drain(CU_STREAM_LEGACY, ZC_LEGACY);
    if (current != sink->context)
        zc_real.cuCtxPopCurrent_v2(&popped);
    if (result == CUDA_SUCCESS) {
        record(sink, ZC_MOVED);
        unlink_pair(sink);
    }
    return result;
}

/* Names the block whose memory could not be made ready, and its rule. */
static CUresult blame(const struct zc_vmm *v, enum zc_fn fn, CUresult code, const char *why)
{
    const struct zc_block *b = zc_block_find(v->base);
    if (code == CUDA_ERROR_DEINITIALIZED || !b || b->rule < 0)
        return code;
    const struct zc_policy *policy = zc_life_policy();
    const struct zc_rule *rule = &policy->rules[b->rule];
    zc_message(ZC_ERROR, "late",
               "%s returned %u: block %U (%B at %x) gets its memory late by rule %s (%s:%u), and "
               "%s",
               zc_fn_name(fn), (unsigned)code, b->id, b->size, b->base, rule->name, policy->file,
               rule->line, why);
    return code;
}

/* Waiting looks at no memory. */
static bool only_waits(enum zc_fn fn)
{
    return fn == ZC_FN_cuCtxSynchronize || fn == ZC_FN_cuStreamSynchronize ||
           fn == ZC_FN_cuStreamSynchronize_ptsz || fn == ZC_FN_cuEventSynchronize;
}

/* A launch can touch every block. */
static CUresult before_launch(const struct zc_launch *launch)
{
    CUresult result = CUDA_SUCCESS;
    const char *why = "";
    if (only_waits(launch->fn) || !zc_grow_turn_take())
        return CUDA_SUCCESS;
    for (struct zc_vmm *v = blocks; v && result == CUDA_SUCCESS; v = v->next) {
        if (v->source)
            result = copy_now(v, &why);
        else if (v->attached < v->span)
            result = attach(v, &why);
        if (result != CUDA_SUCCESS)
            blame(v, launch->fn, result, why);
    }
    zc_grow_turn_drop();
    return result;
}

/* The legacy stream orders a copy behind everything but the streams that are independent of it;
 * behind other streams a copy is in order only if nothing runs.  Work that is not before the copy
 * might change the source after it. */
static bool in_order(const struct zc_copy *c)
{
    bool legacy = c->stream == CU_STREAM_LEGACY || (!c->stream && c->flavour == ZC_LEGACY);
    return (legacy || zc_stream_idle(CU_STREAM_LEGACY, ZC_LEGACY)) && zc_streams_idle();
}

/* A copy of the whole of one block into the beginning of a larger one that is still empty. */
static bool grows(const struct zc_copy *c, const struct zc_vmm *to, const struct zc_vmm *from)
{
    if (!to || !from || to == from || !to->grows || !from->grows || !c->linear || c->peer)
        return false;
    bool whole = c->dst.address == to->base && c->src.address == from->base &&
                 c->bytes >= c->src.block->size / 2;
    bool empty = !to->held && !to->source && !to->sink;
    bool full = from->attached == from->span && !from->source && !from->sink;
    return whole && empty && full && to->span >= from->span && to->device == from->device &&
           to->context == from->context && !zc_capture_any() && in_order(c);
}

static void leave_pending(struct zc_copy *c, struct zc_vmm *to, struct zc_vmm *from)
{
    to->source = from;
    from->sink = to;
    to->copy = (struct zc_transfer){.bytes = c->bytes, .copies = c->copies,
                                    .dst = c->dst.block, .src = c->src.block,
                                    .ticks = zc_ticks() - c->start};
    zc_copy_flows(c, &to->copy.asked, &to->copy.real);
    to->call = (struct zc_log_call){
        .function = zc_fn_name(c->fn),
        .dst = c->dst.address,
        .src = c->src.address,
        .stream = c->async ? zc_stream_kind_of(c->stream, c->flavour) : ZC_STREAM_NONE,
        .handle = (uintptr_t)c->stream,
    };
    c->on = false; /* Recorded once it is known what became of it. */
    c->result = CUDA_SUCCESS;
    note(from);
    note(to);
}

/* Makes one side of a transfer ready: `end` bytes from the block's beginning are touched. */
static CUresult ready(struct zc_vmm *v, size_t end, bool written, enum zc_fn fn)
{
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    if (v->source)
        result = copy_now(v, &why);
    else if (v->sink && written)
        result = copy_now(v->sink, &why);
    if (result == CUDA_SUCCESS && end > v->attached)
        result = attach(v, &why);
    /* Data that was there before is reachable, even if there is no more memory. */
    if (result != CUDA_SUCCESS && !v->source && !v->sink && end <= v->attached)
        return CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? result : blame(v, fn, result, why);
}

static size_t end_of(const struct zc_box *b)
{
    return b->address + b->span - b->block->base;
}

static struct zc_vmm *open_block(const struct zc_box *b)
{
    struct zc_vmm *v = zc_vmm_of(b->block);
    return v && v->late ? v : NULL;
}

static bool is_open(const struct zc_vmm *v)
{
    return v && __atomic_load_n(&v->open, __ATOMIC_ACQUIRE);
}

bool zc_grow_copy(struct zc_copy *c)
{
    struct zc_vmm *to = open_block(&c->dst), *from = open_block(&c->src);
    CUresult result = CUDA_SUCCESS;
    const char *why;
    if ((!is_open(to) && !is_open(from)) || !zc_grow_turn_take())
        return false;
    bool pending = grows(c, to, from);
    if (pending && to->like != from)
        pending = unalias(to, &why) == CUDA_SUCCESS;
    if (pending)
        leave_pending(c, to, from);
    if (!pending && is_open(to))
        result = ready(to, end_of(&c->dst), true, c->fn);
    if (!pending && result == CUDA_SUCCESS && is_open(from))
        result = ready(from, end_of(&c->src), false, c->fn);
    zc_grow_turn_drop();
    if (result == CUDA_SUCCESS)
        return pending;
    c->on = false; /* The refusal is explained already. */
    c->result = result;
    return true;
}

CUresult zc_grow_settle(const struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    if (!is_open(v) || zc_life_closing() || !zc_grow_turn_take())
        return CUDA_SUCCESS;
    if (v->sink)
        result = copy_now(v->sink, &why);
    if (v->source && result == CUDA_SUCCESS)
        result = copy_now(v, &why);
    if (v->attached < v->span && result == CUDA_SUCCESS)
        result = attach(v, &why);
    zc_grow_turn_drop();
    return result;
}

/* Takes a block out of those that launches look at. */
static void take_out(struct zc_vmm *v)
{
    for (struct zc_vmm **at = &blocks; *at; at = &(*at)->next)
        if (*at == v) {
            *at = v->next;
            break;
        }
    open_blocks -= v->open;
    v->open = false;
    if (!open_blocks)
        zc_launch_call(ZC_LAUNCH_GROW, NULL);
}

/* Gives the addresses of a block that grew away back. */
static CUresult drop_spare(struct zc_vmm *v)
{
    struct zc_vmm *spare = v->spare;
    if (!spare)
        return CUDA_SUCCESS;
    struct zc_backing *backing = spare->ghost->backing;
    v->spare = NULL;
    zc_block_remove(spare->ghost);
    zc_arena_put(backing, sizeof(*backing));
    return zc_vmm_give_back(spare);
}

/*
 * The small block's memory becomes the large one's, which maps what is not mapped there already
 * when it is needed.  The small one's mapping stays, for the block that will grow from the large
 * one.  A large block that got memory of its own for a copy that failed is copied again.
 */
static CUresult hand_over(struct zc_vmm *from, struct zc_block *block, bool *kept, const char **why)
{
    struct zc_vmm *to = from->sink;
    if (to->held)
        return copy_now(to, why);
    drop_spare(from);
    to->piece = from->piece;
    to->count = from->count;
    to->room = from->room;
    to->held = from->held;
    to->attached = to->aliased;
    to->aliased = 0;
    to->like = from->echo = NULL;
    from->piece = NULL;
    from->count = from->room = 0;
    from->held = 0;
    __atomic_fetch_sub(&promised, to->held, __ATOMIC_RELAXED);
    record(to, ZC_ELIDED);
    unlink_pair(to);
    take_out(from);
    from->ghost = block;
    to->spare = from;
    *kept = true;
    return CUDA_SUCCESS;
}

CUresult zc_grow_freeing(struct zc_block *block, bool *kept_out)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    *kept_out = false;
    if (!is_open(v) || !zc_grow_turn_take())
        return CUDA_SUCCESS;
    if (v->source) {
        record(v, ZC_ELIDED);
        unlink_pair(v);
    }
    if (v->sink)
        result = hand_over(v, block, kept_out, &why);
    if (result != CUDA_SUCCESS)
        blame(v, ZC_FN_cuMemFree_v2, result, why);
    if (!*kept_out)
        zc_grow_turn_drop();
    return result;
}

/* Largest block that a new one could take the memory of. */
static size_t largest(const struct zc_vmm *v)
{
    size_t most = 0;
    for (const struct zc_vmm *b = blocks; v->grows && b; b = b->next)
        if (b->grows && b->device == v->device && b->context == v->context && b->span <= v->span &&
            b->held > most)
            most = b->held;
    return most;
}

/* A block with addresses to spare that another can have. */
static bool may_precede(const struct zc_vmm *b, const struct zc_vmm *v)
{
    return b->spare && b->device == v->device && b->context == v->context && b->span <= v->span &&
           v->span <= b->spare->window && b->attached == b->span && !b->sink;
}

/* Takes the addresses that a block has to spare, in which the beginning of its memory is mapped: a
 * program that grew an array is about to grow it again.  Of several it will be the largest, and of
 * arrays that grow in turn the one that grew first. */
static void adopt_spare(struct zc_vmm *v)
{
    struct zc_vmm *b = NULL;
    for (struct zc_vmm *at = blocks; at && v->grows; at = at->next)
        if (may_precede(at, v) && (!b || at->span >= b->span))
            b = at;
    if (!b)
        return;
    struct zc_vmm *spare = b->spare;
    struct zc_backing *backing = spare->ghost->backing;
    v->base = spare->base;
    v->window = spare->window;
    v->wide = spare->wide;
    v->aliased = spare->attached;
    v->like = b;
    b->echo = v;
    b->spare = NULL;
    zc_block_remove(spare->ghost);
    zc_arena_put(backing, sizeof(*backing));
    zc_arena_put(spare, sizeof(*spare));
}

CUresult zc_grow_admit(struct zc_vmm *v, const char **why)
{
    size_t available = 0, total = 0;
    if (!zc_grow_turn_take()) {
        *why = "called from a signal handler";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t others = zc_grow_promised();
    if (v->span >= ADMIT_FROM &&
        (zc_real.cuMemGetInfo_v2(&available, &total) != CUDA_SUCCESS ||
         others + v->span > (uint64_t)available + largest(v))) {
        zc_grow_turn_drop();
        *why = "more than the device has free";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    __atomic_fetch_add(&promised, v->span, __ATOMIC_RELAXED);
    adopt_spare(v);
    v->next = blocks;
    blocks = v;
    note(v);
    zc_grow_turn_drop();
    return CUDA_SUCCESS;
}

/* Between forgetting and giving back nobody else can reach the block: the ledger has let it go.
 * What is mapped in its addresses is the caller's to unmap. */
void zc_grow_forget(struct zc_vmm *v)
{
    bool mine = zc_grow_turn_take();
    const char *why;
    if (v->source)
        unlink_pair(v);
    if (v->sink)
        unlink_pair(v->sink);
    if (v->echo)
        unalias(v->echo, &why);
    if (v->like) {
        v->like->echo = NULL;
        v->attached = v->aliased;
    }
    drop_spare(v);
    take_out(v);
    __atomic_fetch_sub(&promised, v->span - v->held, __ATOMIC_RELAXED);
    if (mine)
        zc_grow_turn_drop();
}

void zc_grow_finish(void)
{
    for (struct zc_vmm *v = blocks; v; v = v->next) {
        if (!v->source)
            continue;
        if (zc_block_find(v->base) != v->copy.dst)
            v->copy.dst = NULL;
        if (zc_block_find(v->source->base) != v->copy.src)
            v->copy.src = NULL;
        record(v, ZC_ELIDED);
    }
}

void zc_grow_reset(void)
{
    turn = 0;
    blocks = NULL;
    open_blocks = 0;
    promised = 0;
}
