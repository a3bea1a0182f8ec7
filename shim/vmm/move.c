/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` that are whole on the device or in host memory, and move. */
#include "vmm/move.h"

#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "memory/budget.h"
#include "memory/limits.h"
#include "vmm/access.h"
#include "vmm/lazy.h"

/* Most handles of host memory that are kept: creating one takes longest of all. */
#define SPARES 4

#define SOON 200 /* Looks, 50 us apart. */

static ZC_OWN uint32_t moving; /* Blocks are being moved.  Atomic. */
static ZC_OWN uint32_t users;  /* Calls that have been announced.  Atomic. */

/*
 * Host memory for blocks: a handle, mapped at addresses of its own as long as it is used, because
 * mapping and unmapping it takes longer than a copy.
 */
struct host {
    struct zc_chunk chunk;
    struct zc_va *at; /* From the arena; NULL: it is mapped nowhere. */
};

/* Host memory that blocks have left, oldest first.  With the driver lock. */
static struct spare {
    const struct zc_rule *rule; /* Which decides where on the host it lies, */
    int device;                 /* and this. */
    struct host host;
} spares[SPARES];
static ZC_OWN unsigned spare_count;

/* Who announces itself counts first and looks then, who moves looks at the count after it has said
 * so: one of both sees the other. */
bool zc_move_announce(void)
{
    for (;;) {
        __atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&moving, __ATOMIC_SEQ_CST))
            return true;
        __atomic_fetch_sub(&users, 1, __ATOMIC_SEQ_CST);
        if (!zc_driver_lock())
            return false; /* A signal handler that interrupted who moves. */
        zc_driver_unlock();
    }
}

void zc_move_leave(bool entered)
{
    if (entered)
        __atomic_fetch_sub(&users, 1, __ATOMIC_SEQ_CST);
}

CUresult zc_move_never(const struct zc_block *block)
{
    struct zc_vmm *v = zc_move_of(block);
    if (!v)
        return CUDA_SUCCESS;
    __atomic_store_n(&zc_movable(v)->stays, true, __ATOMIC_SEQ_CST);
    return zc_access_open_host(&v->va);
}

static bool unused(void)
{
    const struct timespec moment = {.tv_nsec = 50000};
    for (unsigned i = 0; i < SOON; i++) {
        if (!__atomic_load_n(&users, __ATOMIC_SEQ_CST))
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

/* What was on its way to the driver when the GPU had come to rest may run now. */
bool zc_move_begin(unsigned most_ms)
{
    __atomic_store_n(&moving, 1, __ATOMIC_SEQ_CST);
    bool rests =
        zc_stream_rests(most_ms) && zc_launch_settles() && unused() && zc_stream_rests(most_ms);
    if (!rests)
        zc_move_end();
    return rests;
}

void zc_move_end(void)
{
    __atomic_store_n(&moving, 0, __ATOMIC_SEQ_CST);
}

static void drop_host(struct host *h)
{
    zc_va_drop(h->at);
    zc_real.cuMemRelease(h->chunk.handle);
}

static void forget_spare(unsigned i)
{
    zc_limits_give(ZC_PLACE_MAPPED, spares[i].device, spares[i].host.chunk.size);
    memmove(&spares[i], &spares[i + 1], (--spare_count - i) * sizeof(*spares));
}

static void drop_spare(unsigned i)
{
    drop_host(&spares[i].host);
    forget_spare(i);
}

static void keep_spare(const struct zc_vmm *v, struct host *h)
{
    const char *why;
    if (!zc_limits_take(ZC_PLACE_MAPPED, v->device, h->chunk.size, &why)) {
        drop_host(h);
        return;
    }
    if (spare_count == SPARES)
        drop_spare(0);
    spares[spare_count++] = (struct spare){v->rule, v->device, *h};
}

static bool take_spare(const struct zc_vmm *v, size_t size, struct host *out)
{
    for (unsigned i = spare_count; i-- > 0;) {
        const struct spare *s = &spares[i];
        if (s->host.chunk.size != size || s->rule != v->rule || s->device != v->device)
            continue;
        *out = s->host;
        forget_spare(i);
        return true;
    }
    return false;
}

static CUresult map_beside(const struct zc_vmm *v, struct host *h, const char **why)
{
    *why = "libzc has no memory for its record";
    struct zc_va *at = h->at ? NULL : zc_arena_get(sizeof(*at));
    if (!at)
        return h->at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    at->device = v->va.device;
    at->context = v->va.context;
    at->peers = v->va.peers;
    CUresult result = zc_va_reserve(at, h->chunk.size, v->granularity, false, why);
    if (result != CUDA_SUCCESS) {
        zc_arena_put(at, sizeof(*at));
        return result;
    }
    h->at = at;
    return zc_va_map(at, &h->chunk, 1, 0, h->chunk.size, why);
}

/* What lies behind a block. */
struct behind {
    struct zc_chunk *list; /* From the arena, for `room` chunks. */
    unsigned count, room;
    uint32_t host, host_end; /* As in struct zc_va, */
    bool closed;             /* this, too. */
    struct zc_va *beside;
};

static struct behind behind(const struct zc_vmm *v)
{
    return (struct behind){v->chunks,
                           v->count,
                           v->room,
                           v->va.host,
                           v->va.host_end,
                           v->va.closed,
                           zc_movable(v)->beside};
}

static void put_behind(struct zc_vmm *v, const struct behind *b)
{
    v->chunks = b->list;
    v->count = b->count;
    v->room = b->room;
    v->va.host = b->host;
    v->va.host_end = b->host_end;
    v->va.closed = b->closed;
    zc_movable(v)->beside = b->beside;
}

/* On success *b is what was behind the block before; else it is unchanged. */
static CUresult exchange(struct zc_vmm *v, struct behind *b, const char **why)
{
    const char *other;
    const struct behind before = behind(v);
    *why = "cuMemUnmap refuses";
    CUresult result = zc_va_unmap(&v->va);
    if (result != CUDA_SUCCESS)
        return result;
    put_behind(v, b);
    result = zc_va_map(&v->va, v->chunks, v->count, 0, v->span, why);
    if (result == CUDA_SUCCESS) {
        *b = before;
        return result;
    }
    put_behind(v, &before);
    if (zc_va_map(&v->va, v->chunks, v->count, 0, v->span, &other) != CUDA_SUCCESS) {
        v->lazy = true; /* Who touches it tries again. */
        zc_lazy_update(v);
    }
    return result;
}

/* Gives back what is not behind a block, or keeps it: host memory is one handle. */
static void give_back(const struct zc_vmm *v, struct behind *b)
{
    for (unsigned i = v->rim; i < b->count - v->rim; i++) {
        struct host h = {b->list[i], b->beside};
        if (b->host_end)
            keep_spare(v, &h);
        else
            zc_real.cuMemRelease(b->list[i].handle);
    }
    zc_arena_put(b->list, b->room * sizeof(*b->list));
}

/* Fills *b, but for the rim, with what a block of this content would have in host memory, */
static CUresult copy_out(struct zc_vmm *v, struct behind *b, const char **why)
{
    struct host h = {{.size = zc_vmm_own(v)}, NULL};
    CUresult result = CUDA_SUCCESS;
    *why = "the driver refuses host memory";
    if (!take_spare(v, h.chunk.size, &h))
        result = zc_vmm_handle(v, true, h.chunk.size, &h.chunk.handle);
    if (result != CUDA_SUCCESS)
        return result;
    result = map_beside(v, &h, why);
    if (result == CUDA_SUCCESS) {
        *why = "the driver refuses the copy";
        result = zc_vmm_carry_out(h.at->base, v->va.base + zc_vmm_rim(v), h.chunk.size);
    }
    if (result != CUDA_SUCCESS) {
        drop_host(&h);
        return result;
    }
    b->list[v->rim] = h.chunk;
    b->beside = h.at;
    b->host = (uint32_t)(zc_vmm_rim(v) / ZC_VA_UNIT);
    b->host_end = b->host + (uint32_t)(h.chunk.size / ZC_VA_UNIT);
    b->closed = true;
    return CUDA_SUCCESS;
}

/* and on the device. */
static CUresult copy_in(struct zc_vmm *v, struct behind *b, const char **why)
{
    struct zc_chunk chunk = {.size = zc_vmm_own(v)};
    *why = "the device has no memory for it";
    CUresult result = zc_vmm_handle(v, false, chunk.size, &chunk.handle);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_vmm_carry_in(v, &chunk, 1, chunk.size, why);
    if (result == CUDA_SUCCESS)
        b->list[v->rim] = chunk;
    else
        zc_real.cuMemRelease(chunk.handle);
    return result;
}

static CUresult change(struct zc_vmm *v, bool to_host, const char **why)
{
    struct behind b = {.count = v->rim ? 3 : 1, .room = v->rim ? 3 : 1};
    b.list = zc_arena_get(b.room * sizeof(*b.list));
    *why = "libzc has no memory for its record";
    if (!b.list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b.list[0] = b.list[b.count - 1] = v->chunks[0]; /* The rim, if there is one. */
    CUresult result = (to_host ? copy_out : copy_in)(v, &b, why);
    if (result != CUDA_SUCCESS) {
        zc_arena_put(b.list, b.room * sizeof(*b.list));
        return result;
    }
    result = exchange(v, &b, why);
    give_back(v, &b);
    return result;
}

/* Counts a block where it goes. */
static bool count(const struct zc_block *block, bool host, const char **why)
{
    const struct zc_rule *rule = &zc_rules()->rules[block->rule];
    bool budget = !host && (block->flags & ZC_BLOCK_BUDGET);
    *why = "over its budget";
    if (budget && !zc_budget_take(rule, block->device, block->size))
        return false;
    if (zc_limits_take(host ? ZC_PLACE_MAPPED : ZC_PLACE_VMM, block->device, block->size, why))
        return true;
    if (budget)
        zc_budget_give(rule, block->size);
    return false;
}

static void uncount(const struct zc_block *block, bool host)
{
    zc_limits_give(host ? ZC_PLACE_MAPPED : ZC_PLACE_VMM, block->device, block->size);
    if (!host && (block->flags & ZC_BLOCK_BUDGET))
        zc_budget_give(&zc_rules()->rules[block->rule], block->size);
}

bool zc_move_block(struct zc_block *block, bool to_host, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    struct zc_backing *backing = block->backing;
    if (!count(block, to_host, why))
        return false;
    if (change(v, to_host, why) != CUDA_SUCCESS) {
        uncount(block, to_host);
        return false;
    }
    uncount(block, !to_host);
    backing->spilled = to_host ? block->size : 0;
    zc_block_spill(block, to_host);
    __atomic_fetch_add(&zc_vmm_hosted, to_host ? 1 : -1, __ATOMIC_RELAXED);
    return true;
}

static unsigned reclaim(int place)
{
    unsigned given = 0;
    if ((place != ZC_PLACE_COUNT && place != ZC_PLACE_MAPPED) || !spare_count || !zc_driver_lock())
        return 0;
    for (; spare_count; given++)
        drop_spare(spare_count - 1);
    zc_driver_unlock();
    return given;
}

static void context_gone(CUcontext context)
{
    (void)context;
    reclaim(ZC_PLACE_MAPPED);
}

const struct zc_module zc_module_move = {.context_gone = context_gone, .reclaim = reclaim};
