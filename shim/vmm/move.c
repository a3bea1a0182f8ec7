/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` that are whole on the device or in host memory, and move. */
#include "vmm/move.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "memory/limits.h"
#include "memory/regret.h"
#include "vmm/access.h"
#include "vmm/lazy.h"

/* Most handles of host memory that are kept: creating one takes longest of all.  They stay mapped,
 * because mapping and unmapping takes longer than a copy. */
#define CACHED 4

#define PIECES 16u              /* Most pieces in which a block is copied, */
#define PIECE ((size_t)2 << 20) /* and the bytes of the least one, where no other links help. */

#define USERS_MS 10 /* How long a move waits for calls that use the blocks. */

static ZC_OWN struct {
    uint32_t moving; /* Blocks are being moved.  Atomic. */
    uint32_t users;  /* Calls that have been announced.  Atomic. */
    /* Host memory that blocks have left, oldest first.  With the driver lock. */
    struct cached {
        const struct zc_rule *rule; /* Rule and device decide where on the host it lies. */
        int device;
        struct zc_backed behind;
    } cache[CACHED];
    unsigned cached;
    struct copying {
        CUstream stream;
        CUcontext in;      /* NULL: there is none. */
    } copying[ZC_DEVICES]; /* Kept by copy_stream(), for each device. */
} move;

static void forget_user(void)
{
    __atomic_fetch_sub(&move.users, 1, __ATOMIC_SEQ_CST);
    zc_wake(&move.users);
}

/* Users increment the count, then check `moving`; the mover sets `moving`, then checks the
 * count. So one of them sees the other.  With the lock nothing moves. */
bool zc_move_announce(void)
{
    __atomic_fetch_add(&move.users, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&move.moving, __ATOMIC_SEQ_CST))
        return true;
    forget_user();
    if (!zc_driver_lock())
        return false; /* A signal handler that interrupted the mover. */
    __atomic_fetch_add(&move.users, 1, __ATOMIC_SEQ_CST);
    zc_driver_unlock();
    return true;
}

void zc_move_leave(bool entered)
{
    if (entered)
        forget_user();
}

/* Its device memory becomes what cudaMalloc gives, or its host memory what `spill = host` does. */
static CUresult stay_mapped(struct zc_vmm *v, const char **why)
{
    CUresult result = zc_vmm_whole(v) ? CUDA_SUCCESS : zc_lazy_attach(v, 0, v->span, why);
    if (result == CUDA_SUCCESS && v->va.reads) {
        CUstreamCaptureMode before = zc_capture_relax();
        *why = "cuMemSetAccess refuses";
        ZC_VA_LOCKED;
        v->va.reads = false;
        result = zc_va_open(&v->va, v->va.devices);
        v->va.reads = result != CUDA_SUCCESS;
        zc_capture_restore(before);
        if (result == CUDA_SUCCESS)
            zc_vmm_drop_host_copy(v);
    }
    return result;
}

CUresult zc_move_never(const struct zc_block *block, enum zc_fn fn)
{
    struct zc_vmm *v = zc_move_of(block);
    const char *why = "";
    if (!v)
        return CUDA_SUCCESS;
    ZC_DRIVER_HELD mine = zc_driver_lock();
    __atomic_store_n(&zc_movable(v)->stays, true, __ATOMIC_SEQ_CST);
    CUresult result = zc_vmm_may_fetch(v) ? stay_mapped(v, &why) : CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? zc_va_open_host(&v->va) : zc_lazy_diagnose(v, fn, result, why);
}

/* A launch that was inside the driver at the first look may run now, so there is a second one. */
bool zc_move_begin(CUcontext rest, unsigned most_ms)
{
    __atomic_store_n(&move.moving, 1, __ATOMIC_SEQ_CST);
    bool rests = (!rest || zc_stream_rests_in(rest, most_ms)) && zc_launch_drain_briefly() &&
                 zc_wait_until(&move.users, 0, USERS_MS) &&
                 (!rest || zc_stream_rests_in(rest, most_ms));
    if (!rests)
        zc_move_end();
    return rests;
}

void zc_move_end(void)
{
    __atomic_store_n(&move.moving, 0, __ATOMIC_SEQ_CST);
}

/* Bytes of memory that is one handle. */
static size_t size_of(const struct zc_backed *b)
{
    return b->chunks.list[b->guard].size;
}

static struct zc_backed take_cached(unsigned i)
{
    struct cached c = move.cache[i];
    zc_limits_give(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT, size_of(&c.behind));
    memmove(&move.cache[i], &move.cache[i + 1], (--move.cached - i) * sizeof(*move.cache));
    return c.behind;
}

static void drop_cached(unsigned i)
{
    struct zc_backed b = take_cached(i);
    zc_vmm_drop_backed(&b);
}

/* Gives back what is not behind a block, or keeps it if it is host memory. */
static void move_give_back(const struct zc_vmm *v, struct zc_backed *b)
{
    const char *why;
    bool split = b->chunks.count > 1u + 2u * b->guard;
    if (split || !b->host.to ||
        !zc_limits_take(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT, size_of(b), &why)) {
        zc_vmm_drop_backed(b);
        return;
    }
    if (move.cached == CACHED)
        drop_cached(0);
    move.cache[move.cached++] = (struct cached){v->rule, v->va.device, *b};
}

static bool find_cached(const struct zc_vmm *v, struct zc_backed *out)
{
    for (unsigned i = move.cached; i-- > 0;) {
        const struct cached *c = &move.cache[i];
        if (size_of(&c->behind) != zc_vmm_own(v) || c->rule != v->rule ||
            c->device != v->va.device || c->behind.guard != v->guard)
            continue;
        *out = take_cached(i);
        return true;
    }
    return false;
}

/* Maps chunks of a block at other addresses, if they are not; *at is NULL after a failure. */
static CUresult map_alias(const struct zc_vmm *v, const struct zc_chunks *chunks, bool guard,
                          struct zc_va **at, const char **why)
{
    const struct zc_chunks inner = {chunks->list + guard, chunks->count - 2 * guard, 0};
    *why = "libzc has no memory for its record";
    struct zc_va *va = *at ? NULL : zc_arena_get(sizeof(*va));
    if (!va)
        return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    va->device = v->va.device;
    va->context = v->va.context;
    CUresult result = zc_access_reserve(va, zc_vmm_own(v), v->granularity, false, why);
    if (result != CUDA_SUCCESS) {
        zc_arena_put(va, sizeof(*va));
        return result;
    }
    result = zc_va_map(va, &inner, 0, va->size, why);
    if (result == CUDA_SUCCESS)
        *at = va;
    else
        zc_va_drop(va);
    return result;
}

/* The stream of copies that the program's work does not hold up: kept, because making one takes a
 * part of a copy's time.  In the blocks' context. */
static CUresult copy_stream(CUstream *stream)
{
    CUcontext context = NULL;
    CUdevice device = 0;
    CUresult result = zc_real.cuCtxGetCurrent(&context) ?: zc_real.cuCtxGetDevice(&device);
    struct copying *c = &move.copying[device];
    if (result == CUDA_SUCCESS && context != c->in) {
        result = zc_real.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
        if (result == CUDA_SUCCESS && c->in)
            zc_real.cuStreamDestroy_v2(c->stream);
        if (result == CUDA_SUCCESS)
            *c = (struct copying){*stream, context};
    }
    *stream = result == CUDA_SUCCESS ? c->stream : NULL;
    return result;
}

/* The copy may use its memory until it has been waited for. */
static CUresult copy_from_host(const struct zc_vmm *v, CUdeviceptr there, size_t bytes)
{
    CUstream stream;
    CUresult result = copy_stream(&stream);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t start = zc_ticks();
    result = zc_real.cuMemcpyHtoDAsync_v2(there, (void *)v->va.base, bytes, stream);
    CUresult waited = zc_stream_drain(stream, ZC_LEGACY);
    if (waited != CUDA_SUCCESS)
        zc_stream_wait_context(v->va.context);
    result = result == CUDA_SUCCESS ? waited : result;
    if (result != CUDA_SUCCESS)
        return result;
    zc_regret_moved(bytes, start);
    zc_traffic_own(zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE), bytes);
    return result;
}

CUresult zc_move_in(const struct zc_vmm *v, size_t bytes, const char **why)
{
    struct zc_va *at = NULL;
    CUresult result = map_alias(v, &v->chunks, false, &at, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = copy_from_host(v, at->base, bytes);
    CUresult freed = zc_va_drop(at);
    return result == CUDA_SUCCESS ? freed : result;
}

bool zc_move_under_way(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_move_of(block);
    CUevent came = v ? zc_movable(v)->came : NULL;
    return came && zc_real.cuEventQuery(came) == CUDA_ERROR_NOT_READY;
}

static struct zc_backed move_behind(const struct zc_vmm *v)
{
    return (struct zc_backed){v->chunks, v->va.host, zc_movable(v)->alias, v->guard, 0};
}

static void put_behind(struct zc_vmm *v, const struct zc_backed *b)
{
    v->chunks = b->chunks;
    v->va.host = b->host;
    v->va.reads = zc_vmm_is_fetched(v) && !b->host.to;
    zc_movable(v)->alias = b->alias;
}

/* All but the guards, which stay what they are. */
static CUresult unmap_inner(struct zc_vmm *v)
{
    size_t guard = zc_vmm_guard(v);
    ZC_VA_LOCKED;
    v->va.devices = zc_va_bit(v->va.device) | zc_access_others(&v->va); /* No copy is under way. */
    return zc_va_unmap_part(&v->va, guard, guard + zc_vmm_own(v));
}

/* Maps what is behind a block again, unless that is fetched by the launch that names it.  If the
 * driver refuses, the next call that touches it tries that. */
static void map_again(struct zc_vmm *v, bool fetched)
{
    const char *why;
    if (!fetched && zc_va_map(&v->va, &v->chunks, 0, v->span, &why) == CUDA_SUCCESS)
        return;
    v->lazy = true;
    zc_lazy_update(v);
}

/* On success *b is what was behind the block before; else it is unchanged. */
static CUresult move_exchange(struct zc_vmm *v, struct zc_backed *b, const char **why)
{
    const struct zc_backed before = move_behind(v);
    *why = "cuMemUnmap refuses";
    CUresult result = unmap_inner(v);
    if (result != CUDA_SUCCESS)
        return result;
    put_behind(v, b);
    result = zc_va_map(&v->va, &v->chunks, 0, v->span, why);
    if (result == CUDA_SUCCESS) {
        *b = before;
        return result;
    }
    put_behind(v, &before);
    map_again(v, false);
    return result;
}

/* Bytes in front of a block that stay on the device where it leaves: whole chunks. */
static size_t front_kept(const struct zc_vmm *v)
{
    size_t chunk = v->chunks.list[v->guard].size;
    return zc_movable(v)->keeps / chunk * chunk;
}

/* Makes what a block can have behind it: one handle, of device memory, or behind the front that
 * stays of host memory, which is mapped at other addresses. */
static CUresult make_behind(struct zc_vmm *v, bool host, struct zc_backed *b, const char **why)
{
    size_t front = host ? front_kept(v) : 0, size = zc_vmm_own(v) - front;
    struct zc_backed made = {.guard = v->guard};
    made.kept = (unsigned)(front / v->chunks.list[v->guard].size);
    unsigned at = v->guard + made.kept, last = at + v->guard;
    CUresult result = CUDA_SUCCESS;
    if (!host || front || !find_cached(v, &made)) {
        struct zc_chunk *list = zc_arena_get((last + 1) * sizeof(*list));
        *why = "libzc has no memory for its record";
        if (!list)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *why = host ? "the driver refuses host memory" : "the device has no memory for it";
        memcpy(list, v->chunks.list, at * sizeof(*list));
        list[at].size = size;
        result = zc_vmm_handle(v, host, true, size, &list[at].handle);
        made.chunks = (struct zc_chunks){list, result == CUDA_SUCCESS ? last + 1 : 0, last + 1};
    }
    if (result == CUDA_SUCCESS && v->guard)
        made.chunks.list[0] = made.chunks.list[last] = v->chunks.list[0];
    if (result == CUDA_SUCCESS && host)
        result = map_alias(v, &made.chunks, v->guard, &made.alias, why);
    if (result != CUDA_SUCCESS) {
        zc_vmm_drop_backed(&made);
        return result;
    }
    uint32_t from = (uint32_t)((zc_vmm_guard(v) + front) / ZC_VA_UNIT);
    if (host)
        made.host = (struct zc_va_host){from, from + (uint32_t)(size / ZC_VA_UNIT), true};
    *b = made;
    return CUDA_SUCCESS;
}

/* A pipelined copy out of device memory, and one into it behind that. */
struct copies {
    struct zc_va *device;
    size_t front, bytes, piece, border; /* `border`: what is behind lies in host memory. */
    zc_move_carry carry;
    CUstream out, in;
    CUevent gone[PIECES + 1]; /* NULL where nothing leaves. */
    uint64_t start;           /* Of the copies that were begun last, in ticks. */
    bool whole;               /* Those into device memory have all been begun. */
};

static CUresult copy_pieces(struct copies *c, struct zc_va *host, bool in)
{
    CUstream *stream = in ? &c->in : &c->out;
    CUresult result =
        in ? copy_stream(stream) : zc_real.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
    c->start = zc_ticks();
    for (size_t i = 0, at = c->front, size; at < c->bytes && result == CUDA_SUCCESS;
         i++, at += size) {
        bool hosted = at >= c->border;
        size = (hosted ? c->bytes : c->border) - at;
        size = size < c->piece ? size : c->piece;
        struct zc_va *va[] = {in ? host : c->device, in ? c->device : host};
        struct zc_copy copy = {.stream = *stream, .bytes = size, .async = true};
        copy.src.address = va[0]->base + at;
        copy.dst.address = va[1]->base + at;
        copy.dst.asked = in ? ZC_KIND_DEVICE : ZC_KIND_PINNED;
        if (!in)
            result = zc_real.cuEventCreate(&c->gone[i], CU_EVENT_DISABLE_TIMING);
        else if (c->gone[i])
            result = zc_real.cuStreamWaitEvent(*stream, c->gone[i], 0);
        if (result == CUDA_SUCCESS)
            result = !hosted && c->carry && c->carry(&copy, va)
                         ? copy.result
                         : zc_real.cuMemcpyDtoDAsync_v2(copy.dst.address, copy.src.address, size,
                                                        *stream);
        if (result == CUDA_SUCCESS)
            zc_traffic_own(in       ? zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE)
                           : hosted ? zc_flow(ZC_DIR_HTOH, ZC_KIND_PINNED, ZC_KIND_PINNED)
                                    : zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, ZC_KIND_PINNED),
                           size);
        if (result == CUDA_SUCCESS && !in)
            result = zc_real.cuEventRecord(c->gone[i], *stream);
    }
    c->whole = in && result == CUDA_SUCCESS;
    return result;
}

/* A copy that fails on its way leaves a context in which nothing works any more. */
static void end_copies(struct copies *c, CUcontext context)
{
    if ((c->out && zc_stream_drain(c->out, ZC_LEGACY) != CUDA_SUCCESS) ||
        (c->in && zc_stream_drain(c->in, ZC_LEGACY) != CUDA_SUCCESS))
        zc_stream_wait_context(context);
    else if (c->whole && c->in) /* One that only a mark is behind may be under way still. */
        zc_regret_moved(c->bytes, c->start);
    for (unsigned i = 0; i < PIECES + 1 && c->gone[i]; i++)
        zc_real.cuEventDestroy_v2(c->gone[i]);
    if (c->out)
        zc_real.cuStreamDestroy_v2(c->out);
    *c = (struct copies){.out = NULL};
}

/* The block is mapped nowhere, and its content in *host: copied, or where it came from.  On failure
 * it is where it was. */
static CUresult leave_device(struct zc_vmm *v, struct copies *c, struct zc_backed *host,
                             const char **why)
{
    CUresult result = v->va.reads ? CUDA_SUCCESS : make_behind(v, true, host, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    if (!v->va.reads)
        result = copy_pieces(c, host->alias, false);
    result = result ?: zc_vmm_arrive(v);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "cuMemUnmap refuses";
    result = unmap_inner(v);
    if (result == CUDA_SUCCESS && v->va.reads) {
        *host = zc_movable(v)->host_copy;
        zc_movable(v)->host_copy = (struct zc_backed){.guard = false};
    }
    return result;
}

/* Maps a block to *device, into which it is being copied; after that *device is what was behind it,
 * if nobody keeps that.  What is fetched is mapped by the launch that names it, once it is there.
 */
static CUresult come_to(struct zc_vmm *v, struct zc_backed *device, struct copies *c,
                        const char **why)
{
    if (!zc_vmm_is_fetched(v))
        return move_exchange(v, device, why);
    *why = "cuMemUnmap refuses";
    CUresult result = unmap_inner(v);
    if (result != CUDA_SUCCESS)
        return result;
    zc_movable(v)->came = zc_stream_mark_here(c->in, ZC_LEGACY);
    c->in = zc_movable(v)->came ? NULL : c->in;
    zc_movable(v)->host_copy = move_behind(v);
    zc_movable(v)->host_copy.host.closed = true;
    put_behind(v, device);
    *device = (struct zc_backed){.guard = false};
    v->lazy = true;
    zc_lazy_update(v);
    return result;
}

/*
 * One block leaves the device, another one comes, into the same memory, or both; NULL for none.
 * Blocks are mapped while they are copied: mapping host memory takes half as long as a copy.  Once
 * *left is true the first one is in host memory, whatever becomes of the other one, whose content
 * still lies there, too.
 */
static CUresult exchange_blocks(struct zc_vmm *leaves, struct zc_vmm *comes, zc_move_carry carry,
                                bool *left, const char **why)
{
    struct zc_vmm *v = leaves ? leaves : comes;
    bool read = leaves && leaves->va.reads;
    size_t own = zc_vmm_own(v), least = carry ? ZC_LINKS_LEAST : PIECE;
    size_t piece = own / PIECES > least ? own / PIECES : least;
    piece = leaves && !read ? piece : own;
    struct copies c = {
        .carry = carry, .bytes = own, .piece = zc_va_round_up(piece, v->granularity)};
    c.border = leaves ? own - zc_vmm_spilled(leaves) : own;
    c.front = leaves ? front_kept(leaves) : 0;
    struct zc_backed host = {.guard = false}, device = {.guard = false};
    struct zc_va **alias = leaves ? &zc_movable(leaves)->alias : &device.alias;
    CUresult result = leaves ? CUDA_SUCCESS : make_behind(v, false, &device, why);
    if (result == CUDA_SUCCESS && comes)
        result = map_alias(comes, &comes->chunks, comes->guard, &zc_movable(comes)->alias, why);
    if (result == CUDA_SUCCESS)
        result = map_alias(v, leaves ? &leaves->chunks : &device.chunks, v->guard, alias, why);
    c.device = *alias;
    if (result == CUDA_SUCCESS && leaves) {
        result = leave_device(leaves, &c, &host, why);
        *left = result == CUDA_SUCCESS;
    }
    if (*left) {
        device = move_behind(leaves);
        device.kept = host.kept;
        put_behind(leaves, &host);
    }
    if (result == CUDA_SUCCESS && comes) {
        *why = "the driver refuses the copy";
        result = copy_pieces(&c, zc_movable(comes)->alias, true);
    }
    if (*left)
        map_again(leaves, read);
    if (result == CUDA_SUCCESS && comes)
        result = come_to(comes, &device, &c, why);
    end_copies(&c, v->va.context);
    move_give_back(v, leaves && !*left ? &host : &device);
    return result;
}

/* Counts a block where it goes; what is kept in host memory makes room for it. */
static bool count_at(const struct zc_block *block, bool host, uint64_t bytes, const char **why)
{
    const struct zc_rule *rule = &zc_rules()->rules[block->rule];
    bool budget = !host && (block->flags & ZC_BLOCK_BUDGET);
    *why = "over its budget";
    if (budget && !zc_budget_take(rule, block->device, bytes))
        return false;
    enum zc_place_id place = host ? ZC_PLACE_MAPPED : ZC_PLACE_VMM;
    bool taken;
    while (!(taken = zc_limits_take(place, block->device, bytes, why)) && host && move.cached)
        drop_cached(0);
    if (taken)
        return true;
    if (budget)
        zc_budget_give(rule, block->device, bytes);
    return false;
}

static void move_uncount(const struct zc_block *block, bool host, uint64_t bytes)
{
    zc_limits_give(host ? ZC_PLACE_MAPPED : ZC_PLACE_VMM, block->device, bytes);
    if (!host && (block->flags & ZC_BLOCK_BUDGET))
        zc_budget_give(&zc_rules()->rules[block->rule], block->device, bytes);
}

static void note_at(struct zc_block *block, bool host)
{
    struct zc_backing *backing = block->backing;
    int change = !host ? -1 : backing->spilled ? 0 : 1;
    size_t front = backing->vmm->va.host.from * ZC_VA_UNIT - zc_vmm_guard(backing->vmm);
    backing->spilled = host ? block->size - front : 0;
    zc_vmm_count_host_copy(backing->vmm, host || !backing->vmm->va.reads ? 0 : block->size);
    zc_block_spill(block, backing->spilled);
    __atomic_fetch_add(&zc_vmm_counts.spilled, change, __ATOMIC_RELAXED);
}

bool zc_move_fits(const struct zc_block *leaves, const struct zc_block *comes)
{
    const struct zc_vmm *l = zc_vmm_of(leaves), *c = zc_vmm_of(comes);
    return leaves->size == comes->size && zc_vmm_own(l) == zc_vmm_own(c) && l->guard == c->guard &&
           l->va.reads == zc_vmm_is_fetched(c) &&
           !((leaves->flags ^ comes->flags) & ZC_BLOCK_BUDGET);
}

bool zc_move(struct zc_block *leaves, struct zc_block *comes, zc_move_carry carry, const char **why)
{
    bool left = false;
    bool keeps = leaves ? zc_vmm_of(leaves)->va.reads : zc_vmm_is_fetched(zc_vmm_of(comes));
    const struct zc_block *first = leaves ? leaves : comes;
    uint64_t stays = leaves ? zc_block_spilled(leaves) + front_kept(zc_vmm_of(leaves)) : 0;
    uint64_t bytes = first->size - stays;
    if (!(leaves && keeps) && !count_at(first, leaves, bytes, why))
        return false;
    CUresult result = exchange_blocks(zc_vmm_of(leaves), zc_vmm_of(comes), carry, &left, why);
    bool came = comes && result == CUDA_SUCCESS;
    if (left)
        note_at(leaves, true);
    if (came) {
        note_at(comes, false);
        if (!keeps)
            move_uncount(comes, true, comes->size);
    } else if (!leaves || !keeps || left) {
        move_uncount(first, leaves && !left, bytes);
    }
    return result == CUDA_SUCCESS;
}

static unsigned move_reclaim(int place)
{
    unsigned given = 0;
    ZC_DRIVER_HELD mine =
        (place == ZC_PLACE_COUNT || place == ZC_PLACE_MAPPED) && move.cached && zc_driver_lock();
    for (; mine && move.cached; given++)
        drop_cached(move.cached - 1);
    return given;
}

static void move_context_gone(CUcontext context)
{
    move_reclaim(ZC_PLACE_MAPPED);
    for (unsigned d = 0; d < ZC_DEVICES; d++)
        if (move.copying[d].in == context)
            move.copying[d].in = NULL;
}

const struct zc_module zc_module_move = {.context_gone = move_context_gone,
                                         .reclaim = move_reclaim};
