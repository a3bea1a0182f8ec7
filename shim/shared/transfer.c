/* SPDX-License-Identifier: MIT */
/* Copies and sets that meet a device block of `shared` or its host block. */
#include "shared/transfer.h"

#include "base/lock.h"
#include "copy/cpu.h"
#include "copy/staged.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/memfile.h"
#include "host/visits.h"
#include "ledger/site.h"
#include "shared/backing.h"
#include "shared/heat.h"
#include "shared/reach.h"
#include "vmm/lazy.h"
#include "vmm/vmm.h"

#define REWRITES "the CPU rewrites the host block before most copies"

static struct zc_shared *device_side(const struct zc_operand *b)
{
    return zc_shared_of(b->block);
}

/* The device block that a host block is one with. */
static struct zc_shared *host_side(const struct zc_operand *b)
{
    return b->extent ? __atomic_load_n(&b->extent->shared, __ATOMIC_ACQUIRE) : NULL;
}

bool zc_shared_meets(const struct zc_operand *b)
{
    return b->block && b->block->place == ZC_PLACE_SHARED;
}

/* Programs round the sizes of device blocks up, and copy large ones part by part.  A copy
 * into the middle of a larger block, or a small piece of it, says little of the rest. */
static bool transfer_suits(const struct zc_copy *c, const struct zc_shared *p,
                           const struct zc_extent *e)
{
    const struct zc_block *d = c->dst.block;
    size_t span = zc_extent_span(e), held = e->slot[0].size;
    bool alike = held <= d->size && d->size - held < ZC_HOST_UNIT;
    return c->shape == ZC_SHAPE_LINE &&
           c->src.address - zc_extent_base(e) == c->dst.address - p->vmm->va.base &&
           d->size <= span && span <= p->vmm->span && (alike || c->bytes >= d->size / 2);
}

/* Nobody else is at the host block: its only visit is this copy's. */
static bool transfer_available(const struct zc_extent *e)
{
    return e->use == ZC_EXTENT_BLOCK && !e->lead && zc_hostheap_mine(e) && !e->no_reuse &&
           zc_memfile_shareable(e) && __atomic_load_n(&e->visits, __ATOMIC_ACQUIRE) == 1;
}

/* For the log.  NULL: the ledger had no memory for the host block. */
static void name_host(struct zc_shared *p, const struct zc_block *host)
{
    if (!host)
        return;
    p->names.host_block = host->id;
    p->names.host_site = zc_site_id(host->site);
}

/* Returns why not, or NULL. */
static const char *transfer_become_one(struct zc_copy *c, struct zc_shared *p, struct zc_extent *e)
{
    const char *why = "its host block is in use, or the program changed its pages";
    if (!zc_hostheap_claim_for_device(e))
        return why;
    if (host_side(&c->src))
        why = "its host block is one with another device block";
    else if (zc_coherent_unprofitable(e))
        why = REWRITES;
    else if (!e->inode)
        why = "the kernel or a limit gives its host block no file";
    else if (!zc_memfile_shareable(e))
        why = "its host block has private pages since a fork or its registration";
    else if (transfer_available(e))
        why = zc_shared_to_one(p, e, c->bytes >= c->dst.block->size);
    if (!why) {
        zc_heat_watch();
        name_host(p, c->src.block);
    }
    zc_hostheap_unclaim(e);
    return why;
}

static bool has_changed(const struct zc_extent *e)
{
    return __atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE);
}

/* Why each side must have its own memory: nothing may be copied into the pages that the device
 * block shows, or too much would be.  NULL if it need not. */
static const char *reason_to_unshare(struct zc_shared *p, uint64_t low, uint64_t high)
{
    const char *why = NULL;
    struct zc_extent *e = p->extent;
    if (!zc_shared_lock_host(p, e))
        return NULL;
    if (has_changed(e))
        why = "the program changed the pages of its host block";
    else if (zc_coherent_unprofitable(e))
        why = REWRITES;
    else if (!zc_memfile_shareable(e) && zc_coherent_differs(e, low, high))
        why = "the host block is private after a fork";
    else if (zc_memfile_shareable(e) && !zc_memfile_make_private(e, high))
        why = "the kernel gives the host block no private view";
    zc_word_unlock(&p->owner);
    return why;
}

static bool transfer_is_straight(const struct zc_copy *c, const struct zc_shared *p)
{
    const struct zc_operand *d =
        c->dst.block && zc_shared_of(c->dst.block) == p ? &c->dst : &c->src;
    const struct zc_operand *h = d == &c->dst ? &c->src : &c->dst;
    return c->shape == ZC_SHAPE_LINE && h->extent &&
           h->address - zc_extent_base(h->extent) == d->address - p->vmm->va.base;
}

/* In bytes from the device block's beginning. */
static uint64_t first_byte(const struct zc_copy *c, const struct zc_shared *p, bool in)
{
    return (in ? c->dst.address : c->src.address) - p->vmm->va.base;
}

/* Between the two sides of one pair, at the same offset.  False where the device block has got
 * memory of its own meanwhile, or must. */
static bool transfer_step(struct zc_copy *c, struct zc_shared *p, bool in, struct zc_moved *moved)
{
    struct zc_extent *e = in ? c->src.extent : c->dst.extent;
    uint64_t low = first_byte(c, p, in);
    if (!zc_shared_lock_host(p, e))
        return false;
    uintptr_t d = p->window ? p->window : p->vmm->va.base;
    bool done = zc_coherent_copy(e, d, low, low + c->bytes, in, moved);
    zc_word_unlock(&p->owner);
    return done;
}

/* No queued work can write pages that both sides show, so an asynchronous copy of them has nothing
 * to wait for; but kernels that reach the host block may write it. */
static CUresult wait_for_stream(struct zc_copy *c, struct zc_shared *p, bool in)
{
    CUdevice device;
    uint64_t low = first_byte(c, p, in);
    if (c->async && !(zc_reach() & ZC_REACH_ANY) &&
        !zc_coherent_differs(in ? c->src.extent : c->dst.extent, low, low + c->bytes))
        return zc_stream_device(c->stream, c->flavour, &device);
    return zc_capture_any() ? zc_staged_wait(c) : zc_copy_drain(c);
}

static void transfer_look_again(struct zc_operand *b)
{
    if (b->block)
        b->real = (enum zc_kind)__atomic_load_n(&b->block->real, __ATOMIC_RELAXED);
}

/* The device block gets memory of its own, and the driver copies. */
static uint32_t transfer_hand_over(struct zc_copy *c, struct zc_shared *p, const char *why)
{
    c->result = zc_shared_to_own(p, c->fn, why);
    c->answered = c->result != CUDA_SUCCESS;
    transfer_look_again(&c->dst);
    transfer_look_again(&c->src);
    return ZC_FACT_IF(FAILED, c->answered);
}

/* Something else than its host block is copied into a device block, or it is set. */
static uint32_t into_device(struct zc_copy *c, struct zc_shared *p, bool captured)
{
    struct zc_extent *e = c->src.extent;
    const char *why = "something else than its host block is copied into it", *kept = NULL;
    bool first = !zc_shared_is_one(p) && !__atomic_load_n(&p->stays_own, __ATOMIC_ACQUIRE);
    if (first && e && !captured)
        kept = transfer_suits(c, p, e) ? transfer_become_one(c, p, e)
                                       : "the host block copied into it does not fit";
    if (!zc_shared_is_one(p) || host_side(&c->src) != p || !transfer_is_straight(c, p) || captured)
        return transfer_hand_over(c, p, kept ? kept : why);
    uint64_t low = first_byte(c, p, true);
    why = reason_to_unshare(p, low, low + c->bytes);
    return why ? transfer_hand_over(c, p, why) : (uint32_t)ZC_FACT_PAIR;
}

uint32_t zc_shared_facts(struct zc_copy *c)
{
    struct zc_shared *to = device_side(&c->dst), *from = device_side(&c->src);
    if (c->shape == ZC_SHAPE_PREFETCH || c->order < 0 ||
        (c->shape == ZC_SHAPE_SET && !zc_copy_well_formed(c)))
        return 0; /* The driver says how it refuses that. */
    bool captured = c->async && zc_capture_holds(c->stream, c->flavour);
    if (from)
        zc_shared_decide(from);
    if (from && captured && transfer_hand_over(c, from, "a graph copies it"))
        return ZC_FACT_FAILED;
    if (to)
        return into_device(c, to, captured);
    if (!from || !zc_shared_is_one(from) || captured || host_side(&c->dst) != from ||
        !transfer_is_straight(c, from))
        return 0;
    if (!has_changed(c->dst.extent))
        return ZC_FACT_PAIR;
    return transfer_hand_over(c, from, "the program changed the pages of its host block");
}

/* A thread that gives the block memory of its own has made it pending, and holds driver/lock.h. */
static CUresult stays_one(const void *pair)
{
    const struct zc_shared *p = pair;
    if (zc_lazy_pending(p->vmm) && zc_driver_lock())
        zc_driver_unlock();
    return zc_shared_is_one(p) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

bool zc_shared_keep(struct zc_copy *c)
{
    struct zc_shared *from = device_side(&c->src);
    bool reads =
        c->way <= ZC_WAY_FORWARD_WAIT || (c->way >= ZC_WAY_CPU && c->way <= ZC_WAY_CPU_STAGED);
    if (!from || !reads || c->src.real != ZC_KIND_PINNED)
        return true;
    c->kept = zc_launch_enter(stays_one, from) == CUDA_SUCCESS;
    transfer_look_again(&c->src);
    return c->kept;
}

void zc_shared_release(struct zc_copy *c)
{
    if (c->kept)
        zc_launch_leave();
    c->kept = false;
}

static void transfer_count(struct zc_pair_counts *counts, const struct zc_moved *moved)
{
    zc_add_shared(&counts->elided_copies, !moved->copied);
    zc_add_shared(&counts->elided_bytes, moved->elided);
    zc_add_shared(&counts->copied_bytes, moved->copied);
}

static void transfer_record(struct zc_copy *c, struct zc_shared *p, const struct zc_moved *moved)
{
    c->part[ZC_MOVED] = 0;
    c->part[ZC_ELIDED] = moved->elided;
    c->part[ZC_CPU] = moved->copied;
    transfer_count(&p->counts, moved);
    transfer_count(&zc_log_pairs, moved);
}

bool zc_shared_copy(struct zc_copy *c)
{
    struct zc_shared *to = device_side(&c->dst), *p = to ? to : device_side(&c->src);
    struct zc_moved moved = {0, 0};
    CUstreamCaptureMode mode = zc_capture_relax();
    bool done = true;
    c->result = wait_for_stream(c, p, to != NULL);
    if (c->result == CUDA_SUCCESS)
        done = transfer_step(c, p, to != NULL, &moved);
    zc_capture_restore(mode);
    if (!done)
        return transfer_hand_over(c, p, "the host block is private after a fork");
    c->answered = true;
    if (c->result == CUDA_SUCCESS)
        transfer_record(c, p, &moved);
    return true;
}
