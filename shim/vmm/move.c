/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` that are whole on the device or in host memory, and move. */
#include "vmm/move.h"

#include <string.h>

#include "base/arena.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
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

#define PIECES 16u              /* Most pieces in which a block is copied, */
#define PIECE ((size_t)2 << 20) /* and the bytes of the least one. */

#define USERS_MS 10 /* How long a move waits for calls that use the blocks. */

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
ZC_OWN uint64_t zc_move_spares;

static void forget_user(void)
{
    __atomic_fetch_sub(&users, 1, __ATOMIC_SEQ_CST);
    zc_wake(&users);
}

/* Who announces itself counts first and looks then, who moves looks at the count after it has said
 * so: one of both sees the other. */
bool zc_move_announce(void)
{
    for (;;) {
        __atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&moving, __ATOMIC_SEQ_CST))
            return true;
        forget_user();
        if (!zc_driver_lock())
            return false; /* A signal handler that interrupted who moves. */
        zc_driver_unlock();
    }
}

void zc_move_leave(bool entered)
{
    if (entered)
        forget_user();
}

CUresult zc_move_never(const struct zc_block *block)
{
    struct zc_vmm *v = zc_move_of(block);
    if (!v)
        return CUDA_SUCCESS;
    __atomic_store_n(&zc_movable(v)->stays, true, __ATOMIC_SEQ_CST);
    return zc_access_open_host(&v->va);
}

/* What was on its way to the driver when the GPU had come to rest may run now. */
bool zc_move_begin(unsigned most_ms)
{
    __atomic_store_n(&moving, 1, __ATOMIC_SEQ_CST);
    bool rests = zc_stream_rests(most_ms) && zc_launch_settles() &&
                 zc_wait_until(&users, 0, USERS_MS) && zc_stream_rests(most_ms);
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
    size_t size = spares[i].host.chunk.size;
    __atomic_fetch_sub(&zc_move_spares, size, __ATOMIC_RELAXED);
    zc_limits_give(ZC_PLACE_MAPPED, spares[i].device, size);
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
    __atomic_fetch_add(&zc_move_spares, h->chunk.size, __ATOMIC_RELAXED);
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

/* Maps memory of a block at other addresses, if it is not; *at is NULL after a failure. */
static CUresult map_beside(const struct zc_vmm *v, const struct zc_chunk *chunk, unsigned count,
                           struct zc_va **at, const char **why)
{
    size_t span = 0;
    *why = "libzc has no memory for its record";
    struct zc_va *va = *at ? NULL : zc_arena_get(sizeof(*va));
    if (!va)
        return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        span += chunk[i].size;
    va->device = v->va.device;
    va->context = v->va.context;
    va->peers = v->va.peers;
    CUresult result = zc_access_reserve(va, span, v->granularity, false, why);
    if (result != CUDA_SUCCESS) {
        zc_arena_put(va, sizeof(*va));
        return result;
    }
    result = zc_va_map(va, chunk, count, 0, span, why);
    if (result == CUDA_SUCCESS)
        *at = va;
    else
        zc_va_drop(va);
    return result;
}

/* In a stream of its own, whose copies the program's work does not hold up.  The copy may use its
 * memory until it has been waited for. */
static CUresult copy_from_host(CUdeviceptr there, CUdeviceptr here, size_t bytes)
{
    CUstream stream;
    CUcontext context = NULL;
    CUresult result = zc_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuMemcpyHtoDAsync_v2(there, (void *)here, bytes, stream);
    CUresult waited = zc_stream_drain(stream, ZC_LEGACY);
    if (waited != CUDA_SUCCESS && zc_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS)
        zc_stream_wait_context(context);
    zc_real.cuStreamDestroy_v2(stream);
    result = result == CUDA_SUCCESS ? waited : result;
    if (result == CUDA_SUCCESS)
        zc_traffic_own(zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE), bytes);
    return result;
}

CUresult zc_move_in(const struct zc_vmm *v, size_t bytes, const char **why)
{
    struct zc_va *at = NULL;
    CUresult result = map_beside(v, v->chunks, v->count, &at, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = copy_from_host(at->base, v->va.base, bytes);
    CUresult freed = zc_va_drop(at);
    return result == CUDA_SUCCESS ? freed : result;
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

/* Maps what is behind a block again.  If the driver refuses, who touches it tries that. */
static void map_again(struct zc_vmm *v)
{
    const char *why;
    if (zc_va_map(&v->va, v->chunks, v->count, 0, v->span, &why) == CUDA_SUCCESS)
        return;
    v->lazy = true;
    zc_lazy_update(v);
}

/* On success *b is what was behind the block before; else it is unchanged. */
static CUresult exchange(struct zc_vmm *v, struct behind *b, const char **why)
{
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
    map_again(v);
    return result;
}

/* Gives back what is not behind a block, if anything, or keeps it: host memory is one handle. */
static void give_back(const struct zc_vmm *v, struct behind *b)
{
    for (unsigned i = v->rim; i + v->rim < b->count; i++) {
        struct host h = {b->list[i], b->beside};
        if (b->host_end)
            keep_spare(v, &h);
        else
            zc_real.cuMemRelease(b->list[i].handle);
    }
    zc_arena_put(b->list, b->room * sizeof(*b->list));
}

/* Makes what a block has behind it that is one handle. */
static CUresult make_behind(const struct zc_vmm *v, const struct host *h, struct behind *b,
                            const char **why)
{
    unsigned count = v->rim ? 3 : 1;
    struct zc_chunk *list = zc_arena_get(count * sizeof(*list));
    *why = "libzc has no memory for its record";
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    list[0] = list[count - 1] = v->chunks[0]; /* The rim, if there is one. */
    list[v->rim] = h->chunk;
    *b = (struct behind){.list = list, .count = count, .room = count, .beside = h->at};
    return CUDA_SUCCESS;
}

static CUresult take_device(struct zc_vmm *v, struct behind *b, const char **why)
{
    struct host h = {{.size = zc_vmm_own(v)}, NULL};
    *why = "the device has no memory for it";
    CUresult result = zc_vmm_handle(v, false, h.chunk.size, &h.chunk.handle);
    if (result != CUDA_SUCCESS)
        return result;
    result = make_behind(v, &h, b, why);
    if (result != CUDA_SUCCESS)
        drop_host(&h);
    return result;
}

/* Mapped beside. */
static CUresult take_host(struct zc_vmm *v, struct behind *b, const char **why)
{
    struct host h = {{.size = zc_vmm_own(v)}, NULL};
    CUresult result = CUDA_SUCCESS;
    *why = "the driver refuses host memory";
    if (!take_spare(v, h.chunk.size, &h))
        result = zc_vmm_handle(v, true, h.chunk.size, &h.chunk.handle);
    if (result != CUDA_SUCCESS)
        return result;
    result = map_beside(v, &h.chunk, 1, &h.at, why);
    if (result == CUDA_SUCCESS)
        result = make_behind(v, &h, b, why);
    if (result != CUDA_SUCCESS) {
        drop_host(&h);
        return result;
    }
    b->host = (uint32_t)(zc_vmm_rim(v) / ZC_VA_UNIT);
    b->host_end = b->host + (uint32_t)(h.chunk.size / ZC_VA_UNIT);
    b->closed = true;
    return CUDA_SUCCESS;
}

/* Copies piece by piece out of device memory, and into it behind those. */
struct copies {
    CUdeviceptr device;
    size_t bytes, piece;
    CUstream out, in;
    CUevent gone[PIECES]; /* NULL where nothing leaves. */
};

static CUresult copy_out(struct copies *c, CUdeviceptr to)
{
    CUresult result = zc_real.cuStreamCreate(&c->out, CU_STREAM_NON_BLOCKING);
    for (size_t i = 0, at = 0; at < c->bytes && result == CUDA_SUCCESS; i++, at += c->piece) {
        size_t size = c->bytes - at < c->piece ? c->bytes - at : c->piece;
        result = zc_real.cuEventCreate(&c->gone[i], CU_EVENT_DISABLE_TIMING);
        if (result == CUDA_SUCCESS)
            result = zc_real.cuMemcpyDtoDAsync_v2(to + at, c->device + at, size, c->out);
        if (result == CUDA_SUCCESS) {
            zc_traffic_own(zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, ZC_KIND_PINNED), size);
            result = zc_real.cuEventRecord(c->gone[i], c->out);
        }
    }
    return result;
}

static CUresult copy_in(struct copies *c, CUdeviceptr from)
{
    CUresult result = zc_real.cuStreamCreate(&c->in, CU_STREAM_NON_BLOCKING);
    for (size_t i = 0, at = 0; at < c->bytes && result == CUDA_SUCCESS; i++, at += c->piece) {
        size_t size = c->bytes - at < c->piece ? c->bytes - at : c->piece;
        if (c->gone[i])
            result = zc_real.cuStreamWaitEvent(c->in, c->gone[i], 0);
        if (result == CUDA_SUCCESS)
            result = zc_real.cuMemcpyDtoDAsync_v2(c->device + at, from + at, size, c->in);
        if (result == CUDA_SUCCESS)
            zc_traffic_own(zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE), size);
    }
    return result;
}

/* A copy that fails on its way leaves a context in which nothing works any more. */
static void end_copies(const struct copies *c, CUcontext context)
{
    if ((c->out && zc_stream_drain(c->out, ZC_LEGACY) != CUDA_SUCCESS) ||
        (c->in && zc_stream_drain(c->in, ZC_LEGACY) != CUDA_SUCCESS))
        zc_stream_wait_context(context);
    for (unsigned i = 0; i < PIECES && c->gone[i]; i++)
        zc_real.cuEventDestroy_v2(c->gone[i]);
    if (c->in)
        zc_real.cuStreamDestroy_v2(c->in);
    if (c->out)
        zc_real.cuStreamDestroy_v2(c->out);
}

/* The block is copied, and mapped nowhere.  On failure it is where it was. */
static CUresult leave(struct zc_vmm *v, struct copies *c, struct behind *host, const char **why)
{
    CUresult result = take_host(v, host, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = copy_out(c, host->beside->base);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "cuMemUnmap refuses";
    return zc_va_unmap(&v->va);
}

/*
 * One block leaves the device, another one comes, into the same memory, or both; NULL for none.
 * Blocks are mapped while they are copied: mapping host memory takes half as long as a copy.  Once
 * *left is true the first one is in host memory, whatever becomes of the other one, whose content
 * still lies there, too.
 */
static CUresult change(struct zc_vmm *leaves, struct zc_vmm *comes, bool *left, const char **why)
{
    struct zc_vmm *v = leaves ? leaves : comes;
    size_t own = zc_vmm_own(v), piece = own / PIECES > PIECE ? own / PIECES : PIECE;
    struct copies c = {.bytes = own, .piece = zc_va_round_up(piece, v->granularity)};
    struct zc_va *alias = NULL, **beside = comes ? &zc_movable(comes)->beside : NULL;
    struct behind host = {0}, device = {0};
    CUresult result = CUDA_SUCCESS;
    if (leaves)
        device = behind(leaves);
    else
        result = take_device(comes, &device, why);
    if (result == CUDA_SUCCESS && comes)
        result = map_beside(comes, &comes->chunks[comes->rim], 1, beside, why);
    if (result == CUDA_SUCCESS)
        result = map_beside(v, &device.list[v->rim], device.count - 2 * v->rim, &alias, why);
    c.device = alias ? alias->base : 0;
    if (result == CUDA_SUCCESS && leaves) {
        result = leave(leaves, &c, &host, why);
        *left = result == CUDA_SUCCESS;
    }
    if (*left)
        put_behind(leaves, &host);
    if (result == CUDA_SUCCESS && comes) {
        *why = "the driver refuses the copy";
        result = copy_in(&c, (*beside)->base);
    }
    if (*left)
        map_again(leaves);
    if (result == CUDA_SUCCESS && comes)
        result = exchange(comes, &device, why);
    end_copies(&c, v->va.context);
    zc_va_drop(alias);
    give_back(v, leaves && !*left ? &host : &device);
    return result;
}

/* Counts a block where it goes; what is kept in host memory makes room for it. */
static bool count(const struct zc_block *block, bool host, const char **why)
{
    const struct zc_rule *rule = &zc_rules()->rules[block->rule];
    bool budget = !host && (block->flags & ZC_BLOCK_BUDGET);
    *why = "over its budget";
    if (budget && !zc_budget_take(rule, block->device, block->size))
        return false;
    enum zc_place_id place = host ? ZC_PLACE_MAPPED : ZC_PLACE_VMM;
    bool taken;
    while (!(taken = zc_limits_take(place, block->device, block->size, why)) && host && spare_count)
        drop_spare(0);
    if (taken)
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

static void note(struct zc_block *block, bool host)
{
    struct zc_backing *backing = block->backing;
    backing->spilled = host ? block->size : 0;
    zc_block_spill(block, host);
    __atomic_fetch_add(&zc_vmm_hosted, host ? 1 : -1, __ATOMIC_RELAXED);
}

bool zc_move_fits(const struct zc_block *leaves, const struct zc_block *comes)
{
    const struct zc_vmm *l = zc_vmm_of(leaves), *c = zc_vmm_of(comes);
    return leaves->size == comes->size && zc_vmm_own(l) == zc_vmm_own(c) && l->rim == c->rim &&
           !((leaves->flags ^ comes->flags) & ZC_BLOCK_BUDGET);
}

bool zc_move(struct zc_block *leaves, struct zc_block *comes, const char **why)
{
    bool left = false;
    if (!(leaves ? count(leaves, true, why) : count(comes, false, why)))
        return false;
    CUresult result = change(zc_vmm_of(leaves), zc_vmm_of(comes), &left, why);
    bool came = comes && result == CUDA_SUCCESS;
    if (left)
        note(leaves, true);
    if (came) {
        note(comes, false);
        uncount(comes, true);
    } else if (leaves) {
        uncount(leaves, !left);
    } else {
        uncount(comes, false);
    }
    return result == CUDA_SUCCESS;
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
