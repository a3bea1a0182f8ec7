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
#include "ledger/site.h"
#include "log/refusals.h"
#include "memory/budget.h"
#include "memory/limits.h"
#include "vmm/access.h"
#include "vmm/lazy.h"

/* Most handles of host memory that are kept for no block: creating one takes longest of all.  They
 * stay mapped, because mapping and unmapping takes longer than a copy. */
#define SPARES 4

#define PIECES 16u              /* Most pieces in which a block is copied, */
#define PIECE ((size_t)2 << 20) /* and the bytes of the least one. */

#define AHEAD 2u /* Most blocks that are copied in advance: the link is never idle. */

#define USERS_MS 10 /* How long a move waits for calls that use the blocks. */

/* The memory behind a block. */
struct behind {
    struct zc_chunks chunks;
    struct zc_va_host host;
    struct zc_va *beside; /* As in struct zc_movable. */
    bool guard;           /* The chunks at both ends are guards. */
};

static ZC_OWN struct {
    uint32_t moving; /* Blocks are being moved.  Atomic. */
    uint32_t users;  /* Calls that have been announced.  Atomic. */
    /* Host memory that blocks have left, oldest first.  With the driver lock, as what follows. */
    struct cached {
        const struct zc_rule *rule; /* Rule and device decide where on the host it lies. */
        const struct zc_vmm *owner; /* The block that has left it, if kernels only read that: what
                                     * it holds as long as the block is clean.  Else NULL. */
        int device;
        struct behind behind;
    } * cache;
    unsigned cached, room; /* Their number, and the capacity of the array. */
    /* Blocks that are copied to the device while kernels run, in one stream. */
    struct ahead {
        struct zc_vmm *of;      /* NULL: none. */
        struct zc_block counts; /* A copy of its block, for the limits. */
        struct behind device;   /* The memory that it gets, */
        struct zc_va *at;       /* mapped at other addresses. */
        CUevent done;           /* Its copy has ended. */
    } ahead[AHEAD];
    CUstream stream; /* Of that context; NULL once it has gone. */
    CUcontext context;
    struct zc_vmm *left; /* A block that has left the device, and is mapped at the end. */
} move;
ZC_OWN uint64_t zc_move_cached;

static void forget_user(void)
{
    __atomic_fetch_sub(&move.users, 1, __ATOMIC_SEQ_CST);
    zc_wake(&move.users);
}

/* Users increment the count, then check `moving`; the mover sets `moving`, then checks the
 * count. So one of them sees the other. */
bool zc_move_announce(void)
{
    for (;;) {
        __atomic_fetch_add(&move.users, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&move.moving, __ATOMIC_SEQ_CST))
            return true;
        forget_user();
        if (!zc_driver_lock())
            return false; /* A signal handler that interrupted the mover. */
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
    zc_move_written(block, false);
    return zc_va_open_host(&v->va);
}

/* If the driver does not open it, it refuses what would write. */
void zc_move_written(const struct zc_block *block, bool fills)
{
    struct zc_vmm *v = zc_move_of(block);
    if (!v || v->rule->access != ZC_ACCESS_READ)
        return;
    if (fills)
        __atomic_store_n(&zc_movable(v)->filled, true, __ATOMIC_RELAXED);
    __atomic_store_n(&zc_movable(v)->clean, false, __ATOMIC_RELAXED);
    zc_va_seal(&v->va, false);
}

bool zc_move_reads(const struct zc_vmm *v)
{
    return v->rule->access == ZC_ACCESS_READ &&
           __atomic_load_n(&zc_movable(v)->filled, __ATOMIC_RELAXED);
}

/* A call that libzc does not know may have written what is not sealed any more. */
static bool is_clean(const struct zc_vmm *v)
{
    return __atomic_load_n(&zc_movable(v)->clean, __ATOMIC_RELAXED) && v->va.sealed;
}

/* At rest: what is mapped next, kernels may only read, if the program's copies have filled it. */
static void set_clean(struct zc_vmm *v)
{
    v->va.sealed = zc_move_reads(v);
    __atomic_store_n(&zc_movable(v)->clean, v->va.sealed, __ATOMIC_RELAXED);
}

/* A launch that was inside the driver at the first look may run now, so there is a second one. */
bool zc_move_begin(unsigned most_ms)
{
    __atomic_store_n(&move.moving, 1, __ATOMIC_SEQ_CST);
    bool rests = zc_stream_rests(most_ms) && zc_launch_drain_briefly() &&
                 zc_wait_until(&move.users, 0, USERS_MS) && zc_stream_rests(most_ms);
    if (!rests)
        zc_move_end();
    return rests;
}

static void map_left(void);

void zc_move_end(void)
{
    map_left();
    __atomic_store_n(&move.moving, 0, __ATOMIC_SEQ_CST);
}

/* Bytes of memory that is one handle. */
static size_t size_of(const struct behind *b)
{
    return b->chunks.list[b->guard].size;
}

static void drop_behind(struct behind *b)
{
    zc_va_drop(b->beside);
    for (unsigned i = b->guard; i + b->guard < b->chunks.count; i++)
        zc_real.cuMemRelease(b->chunks.list[i].handle);
    zc_arena_put(b->chunks.list, b->chunks.room * sizeof(*b->chunks.list));
}

static struct behind take_cached(unsigned i)
{
    struct cached c = move.cache[i];
    __atomic_fetch_sub(&zc_move_cached, size_of(&c.behind), __ATOMIC_RELAXED);
    zc_limits_give(ZC_PLACE_MAPPED, c.device, size_of(&c.behind));
    memmove(&move.cache[i], &move.cache[i + 1], (--move.cached - i) * sizeof(*move.cache));
    return c.behind;
}

static void drop_cached(unsigned i)
{
    struct behind b = take_cached(i);
    drop_behind(&b);
}

/* How many are kept for a block, or with NULL for none; *first is the first of them. */
static unsigned count_cached(const struct zc_vmm *owner, unsigned *first)
{
    unsigned n = 0;
    for (unsigned i = move.cached; i-- > 0;)
        if (move.cache[i].owner == owner) {
            *first = i;
            n++;
        }
    return n;
}

/* Gives back what is not behind a block, or keeps it if it is host memory. */
static void give_back(const struct zc_vmm *v, const struct zc_vmm *owner, struct behind *b)
{
    const char *why;
    unsigned first;
    if (!b->host.to ||
        !zc_arena_extend(&move.cache, &move.room, move.cached, sizeof(*move.cache), SPARES) ||
        !zc_limits_take(ZC_PLACE_MAPPED, v->va.device, size_of(b), &why)) {
        drop_behind(b);
        return;
    }
    if (!owner && count_cached(NULL, &first) == SPARES)
        drop_cached(first);
    move.cache[move.cached++] = (struct cached){v->rule, owner, v->va.device, *b};
    __atomic_fetch_add(&zc_move_cached, size_of(b), __ATOMIC_RELAXED);
}

/* Its own, or what no block has left. */
static bool find_cached(const struct zc_vmm *v, struct behind *out)
{
    unsigned found = move.cached;
    for (unsigned i = move.cached; i-- > 0;) {
        const struct cached *c = &move.cache[i];
        if (size_of(&c->behind) != zc_vmm_own(v) || c->rule != v->rule ||
            c->device != v->va.device || c->behind.guard != v->guard)
            continue;
        if (c->owner == v || (!c->owner && found == move.cached))
            found = i;
        if (c->owner == v)
            break;
    }
    if (found == move.cached)
        return false;
    *out = take_cached(found);
    return true;
}

/* Maps chunks of a block at other addresses, if they are not; *at is NULL after a failure. */
static CUresult map_beside(const struct zc_vmm *v, const struct zc_chunks *chunks, bool guard,
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
    CUresult result = map_beside(v, &v->chunks, false, &at, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = copy_from_host(at->base, v->va.base, bytes);
    CUresult freed = zc_va_drop(at);
    return result == CUDA_SUCCESS ? freed : result;
}

static struct behind behind(const struct zc_vmm *v)
{
    return (struct behind){v->chunks, v->va.host, zc_movable(v)->beside, v->guard};
}

static void put_behind(struct zc_vmm *v, const struct behind *b)
{
    v->chunks = b->chunks;
    v->va.host = b->host;
    zc_movable(v)->beside = b->beside;
}

/* Maps what is behind a block again.  If the driver refuses, the next call that
 * touches it tries that. */
static void map_again(struct zc_vmm *v)
{
    const char *why;
    if (zc_va_map(&v->va, &v->chunks, 0, v->span, &why) == CUDA_SUCCESS)
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
    result = zc_va_map(&v->va, &v->chunks, 0, v->span, why);
    if (result == CUDA_SUCCESS) {
        *b = before;
        return result;
    }
    put_behind(v, &before);
    map_again(v);
    return result;
}

/* The same of memory that will hold what the block does. */
static CUresult arrive(struct zc_vmm *v, struct behind *b, const char **why)
{
    bool clean = is_clean(v), sealed = v->va.sealed;
    set_clean(v);
    CUresult result = exchange(v, b, why);
    if (result != CUDA_SUCCESS) {
        __atomic_store_n(&zc_movable(v)->clean, clean, __ATOMIC_RELAXED);
        zc_va_seal(&v->va, sealed);
    }
    return result;
}

/* Makes what a block can have behind it: one handle, of device memory, or of host memory that is
 * mapped beside. */
static CUresult make_behind(struct zc_vmm *v, bool host, struct behind *b, const char **why)
{
    unsigned last = v->guard ? 2 : 0;
    struct behind made = {.guard = v->guard};
    CUresult result = CUDA_SUCCESS;
    if (!host || !find_cached(v, &made)) {
        struct zc_chunk *list = zc_arena_get((last + 1) * sizeof(*list));
        *why = "libzc has no memory for its record";
        if (!list)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *why = host ? "the driver refuses host memory" : "the device has no memory for it";
        list[v->guard].size = zc_vmm_own(v);
        result = zc_vmm_handle(v, host, true, list[v->guard].size, &list[v->guard].handle);
        made.chunks = (struct zc_chunks){list, result == CUDA_SUCCESS ? last + 1 : 0, last + 1};
    }
    if (result == CUDA_SUCCESS && v->guard)
        made.chunks.list[0] = made.chunks.list[last] = v->chunks.list[0];
    if (result == CUDA_SUCCESS && host)
        result = map_beside(v, &made.chunks, v->guard, &made.beside, why);
    if (result != CUDA_SUCCESS) {
        drop_behind(&made);
        return result;
    }
    uint32_t from = (uint32_t)(zc_vmm_guard(v) / ZC_VA_UNIT);
    if (host)
        made.host = (struct zc_va_host){from, from + (uint32_t)(zc_vmm_own(v) / ZC_VA_UNIT), true};
    *b = made;
    return CUDA_SUCCESS;
}

/* A pipelined copy out of device memory, and one into it behind that. */
struct copies {
    CUdeviceptr device;
    size_t bytes, piece;
    CUstream out, in;
    CUevent gone[PIECES]; /* NULL where nothing leaves. */
};

static CUresult copy_pieces(struct copies *c, CUdeviceptr host, bool in)
{
    CUstream *stream = in ? &c->in : &c->out;
    CUresult result = zc_real.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
    for (size_t i = 0, at = 0; at < c->bytes && result == CUDA_SUCCESS; i++, at += c->piece) {
        size_t size = c->bytes - at < c->piece ? c->bytes - at : c->piece;
        CUdeviceptr from = in ? host : c->device, to = in ? c->device : host;
        if (!in)
            result = zc_real.cuEventCreate(&c->gone[i], CU_EVENT_DISABLE_TIMING);
        else if (c->gone[i])
            result = zc_real.cuStreamWaitEvent(*stream, c->gone[i], 0);
        if (result == CUDA_SUCCESS)
            result = zc_real.cuMemcpyDtoDAsync_v2(to + at, from + at, size, *stream);
        if (result == CUDA_SUCCESS)
            zc_traffic_own(in ? zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE)
                              : zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, ZC_KIND_PINNED),
                           size);
        if (result == CUDA_SUCCESS && !in)
            result = zc_real.cuEventRecord(c->gone[i], *stream);
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
static CUresult leave_device(struct zc_vmm *v, struct copies *c, struct behind *host,
                             const char **why)
{
    CUresult result = make_behind(v, true, host, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = copy_pieces(c, host->beside->base, false);
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
static CUresult exchange_blocks(struct zc_vmm *leaves, struct zc_vmm *comes, bool *left,
                                const char **why)
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
        result = make_behind(comes, false, &device, why);
    if (result == CUDA_SUCCESS && comes)
        result = map_beside(comes, &comes->chunks, comes->guard, beside, why);
    if (result == CUDA_SUCCESS)
        result = map_beside(v, &device.chunks, v->guard, &alias, why);
    c.device = alias ? alias->base : 0;
    if (result == CUDA_SUCCESS && leaves) {
        result = leave_device(leaves, &c, &host, why);
        *left = result == CUDA_SUCCESS;
    }
    if (*left) {
        put_behind(leaves, &host);
        set_clean(leaves);
    }
    if (result == CUDA_SUCCESS && comes) {
        *why = "the driver refuses the copy";
        result = copy_pieces(&c, (*beside)->base, true);
    }
    if (*left)
        map_again(leaves);
    if (result == CUDA_SUCCESS && comes)
        result = arrive(comes, &device, why);
    end_copies(&c, v->va.context);
    zc_va_drop(alias);
    give_back(v, comes && result == CUDA_SUCCESS && is_clean(comes) ? comes : NULL,
              leaves && !*left ? &host : &device);
    return result;
}

/* Counts a block where it goes; what is kept in host memory makes room for it. */
static bool count_at(const struct zc_block *block, bool host, const char **why)
{
    const struct zc_rule *rule = &zc_rules()->rules[block->rule];
    bool budget = !host && (block->flags & ZC_BLOCK_BUDGET);
    *why = "over its budget";
    if (budget && !zc_budget_take(rule, block->device, block->size))
        return false;
    enum zc_place_id place = host ? ZC_PLACE_MAPPED : ZC_PLACE_VMM;
    bool taken;
    while (!(taken = zc_limits_take(place, block->device, block->size, why)) && host && move.cached)
        drop_cached(0);
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

static void note_at(struct zc_block *block, bool host)
{
    struct zc_backing *backing = block->backing;
    backing->spilled = host ? block->size : 0;
    zc_block_spill(block, host);
    __atomic_fetch_add(&zc_vmm_hosted, host ? 1 : -1, __ATOMIC_RELAXED);
}

/* Host memory that is kept for the block holds its bytes. */
static bool has_copy(const struct zc_vmm *v, unsigned *at)
{
    return is_clean(v) && count_cached(v, at);
}

bool zc_move_fits(const struct zc_block *leaves, const struct zc_block *comes)
{
    const struct zc_vmm *l = zc_vmm_of(leaves), *c = zc_vmm_of(comes);
    unsigned at;
    return !has_copy(l, &at) && leaves->size == comes->size && zc_vmm_own(l) == zc_vmm_own(c) &&
           l->guard == c->guard && !((leaves->flags ^ comes->flags) & ZC_BLOCK_BUDGET);
}

static void map_left(void)
{
    if (move.left)
        map_again(move.left);
    move.left = NULL;
}

/* The block leaves the device for the memory that is kept for it, which zc_move_end() maps: the
 * copy of another one need not wait for that. */
static bool leave_clean(struct zc_block *block, unsigned at, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    struct behind b = take_cached(at), before = behind(v);
    bool counted = count_at(block, true, why);
    *why = counted ? "cuMemUnmap refuses" : *why;
    bool left = counted && zc_va_unmap(&v->va) == CUDA_SUCCESS;
    map_left();
    if (left) {
        put_behind(v, &b);
        move.left = v;
        note_at(block, true);
    }
    if (counted)
        uncount(block, !left);
    give_back(v, left ? NULL : v, left ? &before : &b);
    return left;
}

static struct ahead *find_ahead(const struct zc_vmm *v)
{
    for (struct ahead *a = move.ahead; a < move.ahead + AHEAD; a++)
        if (a->of == v)
            return a;
    return NULL;
}

static void end_ahead(struct ahead *a)
{
    if (a->done)
        zc_real.cuEventDestroy_v2(a->done);
    zc_va_drop(a->at);
    *a = (struct ahead){.device = a->device};
}

static void abandon(struct ahead *a)
{
    if (move.stream && zc_stream_drain(move.stream, ZC_LEGACY) != CUDA_SUCCESS)
        zc_stream_wait_context(move.context);
    uncount(&a->counts, false);
    end_ahead(a);
    drop_behind(&a->device);
}

bool zc_move_abandon(void)
{
    bool any = false;
    for (struct ahead *a = move.ahead; a < move.ahead + AHEAD; a++)
        if (a->of) {
            abandon(a);
            any = true;
        }
    return any;
}

bool zc_move_fetched(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v && find_ahead(v) && is_clean(v);
}

bool zc_move_may_fetch(void)
{
    return find_ahead(NULL);
}

static CUresult take_stream(const struct zc_vmm *v)
{
    if (move.stream)
        return move.context == v->va.context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = zc_real.cuStreamCreate(&move.stream, CU_STREAM_NON_BLOCKING);
    move.stream = result == CUDA_SUCCESS ? move.stream : NULL;
    move.context = v->va.context;
    return result;
}

/* Maps the copy, and copies. */
static CUresult start_ahead(struct zc_vmm *v, struct ahead *a, const char **why)
{
    struct zc_va **beside = &zc_movable(v)->beside;
    CUresult result = map_beside(v, &v->chunks, v->guard, beside, why);
    if (result == CUDA_SUCCESS)
        result = map_beside(v, &a->device.chunks, v->guard, &a->at, why);
    *why = result == CUDA_SUCCESS ? "cuMemSetAccess refuses" : *why;
    if (result == CUDA_SUCCESS)
        result = zc_va_seal(&v->va, true);
    if (result != CUDA_SUCCESS)
        return result;
    __atomic_store_n(&zc_movable(v)->clean, true, __ATOMIC_RELAXED);
    *why = "the driver refuses the copy";
    result = take_stream(v);
    if (result == CUDA_SUCCESS)
        result =
            zc_real.cuMemcpyDtoDAsync_v2(a->at->base, (*beside)->base, zc_vmm_own(v), move.stream);
    if (result != CUDA_SUCCESS)
        return result;
    zc_traffic_own(zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE), zc_vmm_own(v));
    a->done = zc_stream_mark_here(move.stream, ZC_LEGACY);
    return a->done ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

bool zc_move_ahead(const struct zc_block *block, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    struct behind device = {0};
    struct ahead *a = find_ahead(v);
    if (a) /* The program has written it since. */
        abandon(a);
    if (!count_at(block, false, why))
        return false;
    CUresult result = make_behind(v, false, &device, why);
    a = find_ahead(NULL);
    *a = (struct ahead){.of = v, .counts = *block, .device = device};
    if (result == CUDA_SUCCESS)
        result = start_ahead(v, a, why);
    if (result != CUDA_SUCCESS)
        abandon(a);
    return result == CUDA_SUCCESS;
}

/* A block that was fetched comes to the device. */
static bool land(struct zc_block *block, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    struct ahead *a = find_ahead(v);
    *why = "the driver refuses the copy";
    if (zc_real.cuEventSynchronize(a->done) != CUDA_SUCCESS ||
        arrive(v, &a->device, why) != CUDA_SUCCESS) {
        abandon(a);
        return false;
    }
    end_ahead(a);
    note_at(block, false);
    uncount(block, true);
    give_back(v, v, &a->device);
    return true;
}

void zc_move_forget(const struct zc_vmm *v)
{
    unsigned at;
    bool mine = zc_driver_lock();
    struct ahead *a = find_ahead(v);
    if (a)
        abandon(a);
    while (count_cached(v, &at))
        drop_cached(at);
    if (mine)
        zc_driver_unlock();
}

bool zc_move(struct zc_block *leaves, struct zc_block *comes, const char **why)
{
    bool left = false;
    unsigned at;
    if (leaves && has_copy(zc_vmm_of(leaves), &at))
        return leave_clean(leaves, at, why);
    if (comes && zc_move_fetched(comes))
        return land(comes, why);
    if (!(leaves ? count_at(leaves, true, why) : count_at(comes, false, why)))
        return false;
    CUresult result = exchange_blocks(zc_vmm_of(leaves), zc_vmm_of(comes), &left, why);
    bool came = comes && result == CUDA_SUCCESS;
    if (left)
        note_at(leaves, true);
    if (came) {
        note_at(comes, false);
        uncount(comes, true);
    } else if (leaves) {
        uncount(leaves, !left);
    } else {
        uncount(comes, false);
    }
    return result == CUDA_SUCCESS;
}

struct sealed {
    const struct zc_block *first;
    unsigned count;
};

static bool find_sealed(struct zc_block *block, void *arg)
{
    struct sealed *s = arg;
    const struct zc_vmm *v = zc_move_of(block);
    if (v && v->va.sealed && !s->count++)
        s->first = block;
    return true;
}

void zc_move_diagnose(void)
{
    static bool said; /* Atomic: all later calls fail, too. */
    struct sealed s = {.count = 0};
    if (__atomic_load_n(&said, __ATOMIC_RELAXED))
        return;
    zc_block_each(find_sealed, &s);
    if (!s.count || __atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        return;
    const struct zc_rule *rule = zc_vmm_of(s.first)->rule;
    zc_refusal_count(zc_rules(), rule);
    zc_refusal_read_only(zc_rules(), rule, s.first->id, s.first->size, s.first->base,
                         zc_site_id(s.first->site), s.count - 1);
}

static bool gives(int place, enum zc_place_id what)
{
    return place == ZC_PLACE_COUNT || place == (int)what;
}

static unsigned move_reclaim(int place)
{
    unsigned given = 0;
    if (!(gives(place, ZC_PLACE_MAPPED) || gives(place, ZC_PLACE_VMM)) || !zc_driver_lock())
        return 0;
    if (gives(place, ZC_PLACE_VMM) && !zc_leaving(move.context))
        given += zc_move_abandon();
    for (; gives(place, ZC_PLACE_MAPPED) && move.cached; given++)
        drop_cached(move.cached - 1);
    zc_driver_unlock();
    return given;
}

static uint64_t move_idle_bytes(void)
{
    CUdevice device;
    uint64_t bytes = 0;
    for (const struct ahead *a = move.ahead; a < move.ahead + AHEAD; a++) {
        const struct zc_vmm *v = __atomic_load_n(&a->of, __ATOMIC_RELAXED);
        if (v && zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && a->counts.device == device)
            bytes += a->counts.size;
    }
    return bytes;
}

static void move_context_lost(CUcontext context)
{
    bool mine = zc_driver_lock();
    if (move.context == context) {
        move.stream = NULL;
        for (struct ahead *a = move.ahead; a < move.ahead + AHEAD; a++)
            a->done = NULL;
    }
    if (mine)
        zc_driver_unlock();
}

static void move_context_gone(CUcontext context)
{
    (void)context;
    move_reclaim(ZC_PLACE_MAPPED);
}

const struct zc_module zc_module_move = {.context_lost = move_context_lost,
                                         .context_gone = move_context_gone,
                                         .reclaim = move_reclaim,
                                         .idle_bytes = move_idle_bytes};
