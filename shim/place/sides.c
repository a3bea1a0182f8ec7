/* SPDX-License-Identifier: MIT */
/* The sides of copies and sets: what lies there, and what makes it ready. */
#include "place/sides.h"

#include "copy/cpu.h"
#include "copy/links.h"
#include "copy/parallel.h"
#include "copy/staged.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/pinned.h"
#include "host/visits.h"
#include "ledger/rules.h"
#include "ledger/unwind.h"
#include "managed/hint.h"
#include "memory/device.h"
#include "place/migrate.h"
#include "place/placed.h"
#include "vmm/access.h"

#define CHANGED "the program has changed pages that it copies"

/* The kind of an address outside of blocks.  The driver is asked only if the call does not say. */
static enum zc_kind unknown_kind(const struct zc_operand *b)
{
    unsigned type;
    switch (b->side) {
    case ZC_SIDE_ARRAY:
        return ZC_KIND_ARRAY;
    case ZC_SIDE_DEVICE:
        return ZC_KIND_DEVICE;
    case ZC_SIDE_ANY:
        type = zc_memory_type(b->address);
        return !type                          ? ZC_KIND_PAGEABLE
               : type == CU_MEMORYTYPE_DEVICE ? ZC_KIND_DEVICE
                                              : ZC_KIND_PINNED;
    default:
        return ZC_KIND_PAGEABLE;
    }
}

/* A device that reaches all host memory takes pageable addresses for its own. */
static bool reaches_pageable(void)
{
    static int reaches = -1;
    CUdevice device;
    if (reaches < 0 && zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS)
        reaches = zc_device_has(device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    return reaches > 0;
}

/* True for an address outside of blocks that a call names as device memory or leaves open, although
 * the driver may know it: memory that a place mapped around a block, or that a block left in the
 * host heap. */
static bool in_margin(const struct zc_operand *b)
{
    if (b->side != ZC_SIDE_DEVICE && b->side != ZC_SIDE_ANY)
        return false;
    if (!zc_hostheap_owns(b->address))
        return zc_in_margin(b->address);
    return b->side == ZC_SIDE_DEVICE && zc_pinned_hides(b->address) && !reaches_pageable();
}

static void resolve_operand(struct zc_operand *b)
{
    b->in_margin = false;
    if (b->side == ZC_SIDE_NONE)
        return;
    b->block = zc_block_find(b->address);
    if (b->block && (b->block->flags & ZC_BLOCK_HOST) && zc_pinned_hides(b->address))
        b->extent = zc_hostheap_extent(b->address);
    if (!b->block) {
        b->in_margin = in_margin(b);
        b->asked = b->real = unknown_kind(b);
        return;
    }
    b->asked = (enum zc_kind)b->block->asked;
    b->real = (enum zc_kind)__atomic_load_n(&b->block->real, __ATOMIC_RELAXED);
    if (b->address - b->block->base >= b->block->size - zc_block_spilled(b->block))
        b->real = ZC_KIND_PINNED;
}

void zc_copy_resolve(struct zc_copy *c)
{
    resolve_operand(&c->dst);
    resolve_operand(&c->src);
}

/* The driver refuses pageable memory that a call names as device memory. */
bool zc_side_refused(const struct zc_operand *b)
{
    return b->extent && b->side == ZC_SIDE_DEVICE && !reaches_pageable();
}

/* True for an address that the call can't name, in memory outside of the ledger. */
bool zc_side_nobodys(const struct zc_operand *b)
{
    if (b->block || b->side == ZC_SIDE_NONE || b->side == ZC_SIDE_ARRAY)
        return false;
    return !b->address ||
           (!zc_memory_type(b->address) &&
            (b->side == ZC_SIDE_DEVICE ? !reaches_pageable()
                                       : b->side == ZC_SIDE_ANY && !zc_readable(b->address)));
}

/* True for memory that the driver treats as pageable, so its copies keep their meaning by
 * themselves. */
static bool keeps_meaning(const struct zc_operand *b)
{
    if (!b->extent || zc_rules()->rules[b->block->rule].async != ZC_ASYNC_STAGED)
        return false;
    uint32_t pin = __atomic_load_n(&b->extent->pin, __ATOMIC_ACQUIRE);
    return pin != ZC_PIN_NONE && pin != ZC_PIN_SHARED;
}

bool zc_copy_staged(const struct zc_copy *c)
{
    return keeps_meaning(&c->dst) || keeps_meaning(&c->src);
}

/* Registers a host block if that is worth it; then libzc has to keep its meaning as pageable
 * memory. */
static void use_host(struct zc_operand *b, uint64_t bytes)
{
    if (!b->extent)
        return;
    b->real = zc_pinned_use(b->extent, bytes) ? ZC_KIND_PINNED : ZC_KIND_PAGEABLE;
    __atomic_store_n(&b->block->real, (uint8_t)b->real, __ATOMIC_RELAXED);
    b->staged = keeps_meaning(b) || zc_pinned_stuck(b->extent);
}

/* While a host block is copied, no device block may become one with it by another copy. */
static void sides_visit(struct zc_operand *b)
{
    if (b->extent)
        zc_hostheap_visit(b->extent);
    b->visited = b->extent;
}

void zc_sides_visit(struct zc_copy *c)
{
    sides_visit(&c->dst);
    sides_visit(&c->src);
}

void zc_sides_leave(struct zc_copy *c)
{
    if (__builtin_expect(c->dst.visited != NULL, 0))
        zc_hostheap_leave(c->dst.visited);
    if (__builtin_expect(c->src.visited != NULL, 0))
        zc_hostheap_leave(c->src.visited);
    c->dst.visited = c->src.visited = NULL;
}

static void end_stale(const struct zc_copy *c)
{
    zc_pinned_end_if_stale(c->dst.extent);
    zc_pinned_end_if_stale(c->src.extent);
}

/* The facts of a copy that threads make instead of registering its host block. */
static uint32_t first_facts(const struct zc_copy *c)
{
    return ZC_FACT_LARGE | ZC_FACT_IDLE_KNOWN | ZC_FACT_IDLE | ZC_FACT_THREADS_KNOWN |
           ZC_FACT_THREADS | ZC_FACT_IF(INWARD, c->src.extent);
}

static CUresult unless_stuck(struct zc_extent *e, enum zc_fn fn)
{
    if (zc_pinned_stuck(e))
        zc_pinned_end_stale(e, true);
    return zc_pinned_stuck(e) ? zc_pinned_refuse(e, fn, CHANGED) : CUDA_SUCCESS;
}

CUresult zc_sides_end_stale_pins(const struct zc_copy *c)
{
    end_stale(c);
    return unless_stuck(c->dst.extent, c->fn) ?: unless_stuck(c->src.extent, c->fn);
}

CUresult zc_sides_in_graph(const struct zc_copy *c)
{
    end_stale(c);
    zc_pinned_in_graph(c->dst.extent);
    zc_pinned_in_graph(c->src.extent);
    return zc_vmm_open_far(c);
}

CUresult zc_side_launched(CUdeviceptr address, enum zc_fn fn, const struct zc_rule **late)
{
    struct zc_operand b = {.side = ZC_SIDE_HOST, .address = address};
    if (!zc_hostheap_owns(address))
        return CUDA_SUCCESS;
    resolve_operand(&b);
    zc_pinned_end_if_stale(b.extent);
    if (late && keeps_meaning(&b) &&
        __atomic_load_n(&b.extent->pin, __ATOMIC_ACQUIRE) == ZC_PIN_DONE)
        *late = &zc_rules()->rules[b.block->rule];
    return unless_stuck(b.extent, fn);
}

/* Does what every way to copy needs, and returns the facts that are known then. */
static uint32_t sides_make_ready(struct zc_copy *c)
{
    end_stale(c);
    c->first = zc_parallel_first(c);
    if (!c->first) {
        use_host(&c->dst, c->bytes);
        use_host(&c->src, c->bytes);
    }
    bool captured = zc_capture_holds(c->stream, c->flavour);
    if (captured)
        zc_sides_in_graph(c);
    c->result = zc_vmm_open(c, false);
    uint32_t ended = c->result == CUDA_SUCCESS ? zc_grow_facts(c) : ZC_FACT_FAILED;
    if (ended)
        return ended;
    zc_hint_copy(c);
    return zc_cpu_facts(c) | zc_staged_facts(c) | (c->first ? first_facts(c) : 0) |
           ZC_FACT_IF(MALFORMED, !zc_copy_well_formed(c)) |
           ZC_FACT_IF(AWAITED, c->sync && zc_await_any()) | ZC_FACT_IF(CAPTURED, captured);
}

/* Gathers the facts that a row asks for. */
uint32_t zc_sides_answer(struct zc_copy *c, enum zc_way question)
{
    switch (question) {
    case ZC_WAY_ASK_PAIR:
        return ZC_FACT_PAIR_KNOWN | zc_shared_facts(c);
    case ZC_WAY_ASK_READY:
        return ZC_FACT_READY_KNOWN | sides_make_ready(c);
    case ZC_WAY_ASK_UNWAITED:
        return ZC_FACT_UNWAITED_KNOWN | ZC_FACT_IF(UNWAITED, zc_cpu_unwaited(c));
    case ZC_WAY_ASK_CPU:
        return ZC_FACT_CPU_KNOWN | ZC_FACT_IF(CPU, zc_cpu_able(c));
    case ZC_WAY_ASK_IDLE:
        return ZC_FACT_IDLE_KNOWN | ZC_FACT_IF(IDLE, zc_stream_idle(c->stream, c->flavour));
    default:
        return ZC_FACT_THREADS_KNOWN | zc_parallel_facts(c) | zc_links_facts(c);
    }
}

/* If threads can't, the driver makes the copy, of a block that is registered after all. */
bool zc_sides_by_threads(struct zc_copy *c)
{
    struct zc_operand *host = c->src.extent ? &c->src : &c->dst;
    if (zc_parallel_copy(c))
        return true;
    if (c->first) {
        use_host(host, c->bytes);
        c->way = c->async && host->staged ? ZC_WAY_FORWARD_WAIT : ZC_WAY_FORWARD;
    }
    return false;
}

/* A stream of another device makes a copy of a block, which moves again once that has ended. */
static bool is_far(const struct zc_copy *c, struct zc_vmm *v)
{
    CUdevice device = 0;
    if (zc_stream_device(c->stream, c->flavour, &device) != CUDA_SUCCESS || device == v->va.device)
        return false;
    uint64_t number = __atomic_add_fetch(&zc_vmm_counts.far, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&zc_movable(v)->far, number, __ATOMIC_RELEASE);
    return true;
}

/* Work of other contexts goes unnoticed where blocks move, as do the launches of graphs.  The code
 * is that of a block which the driver maps nowhere. */
static CUresult sides_stay(const struct zc_copy *c, struct zc_block *side, bool follows)
{
    struct zc_vmm *v = zc_move_of(side);
    if (!v)
        return CUDA_SUCCESS;
    if (!(zc_migrate_meets(side, c->stream, c->flavour) || is_far(c, v)) ||
        zc_capture_holds(c->stream, c->flavour) || (zc_vmm_may_fetch(v) && !follows))
        return zc_move_never(side, c->fn);
    bool fills = side == c->dst.block && c->shape != ZC_SHAPE_SET &&
                 (c->src.asked == ZC_KIND_PAGEABLE || c->src.asked == ZC_KIND_PINNED);
    return zc_migrate_to_host(side, c->fn, fills);
}

void zc_sides_hold(struct zc_copy *c)
{
    if (!zc_move_of(c->dst.block) && !zc_move_of(c->src.block))
        return;
    c->held = zc_move_enter();
    zc_copy_resolve(c);
    sides_stay(c, c->dst.block, true);
    sides_stay(c, c->src.block, true);
    zc_copy_resolve(c);
}

CUresult zc_sides_open(const struct zc_copy *c)
{
    CUresult result = sides_stay(c, c->dst.block, false) ?: sides_stay(c, c->src.block, false);
    return result ?: zc_vmm_open(c, true);
}

void zc_sides_end(struct zc_copy *c)
{
    zc_move_leave(c->held);
    zc_sides_leave(c);
}
