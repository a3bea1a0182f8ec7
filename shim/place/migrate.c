/* SPDX-License-Identifier: MIT */
/* Which blocks that move are on the device. */
#include "place/migrate.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/life.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "copy/links.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/marks.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "memory/regret.h"
#include "place/order.h"
#include "place/rates.h"
#include "place/room.h"
#include "vmm/access.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

/* How much slower kernels are over the link: at least, where the device's memory bounds them, and
 * at most, where its caches serve them (36 and 270 were measured). */
#define LINK_LEAST 32u
#define LINK_MOST 192u

/* How much longer than known times say a launch waits for the GPU: for the first times of its
 * kernel, and for it to rest.  That holds nothing up but kernels that wait for the program, and
 * these once. */
#define WAIT_MS 5000u

#define SURE 8u   /* After so many uses in a known order a block comes ahead of its launch, */
#define NEAR 128u /* which is one of the next uses: the next one, or where what may leave */
#define MANY 8u   /* is so much more another one, as a place taken early costs moves. */

#define NAP_US 20u

/* While no block is in host memory, only every so many launches are looked at. */
#define SAMPLE 16u

/* Launches that leave a block where it is after one could not move it: each try holds them up. */
#define AGAIN 64u

/* A block that leaves for the first time has host memory made, which takes as long as so many
 * copies from there (23 to 37 ms, and 2.4, were measured of 128 MiB).  The more of them there are,
 * the less each gains by being free to leave: one may after so many cheap moves for each of them.
 */
#define DEAR 15

static ZC_OWN struct moving {
    CUcontext context;       /* The context whose blocks move, that of the first one.  Atomic. */
    uint64_t begun, earlier; /* Uses before this launch, and before the one before it. */
    uint32_t seen;           /* Launches while no block was in host memory, */
    bool unmarked;           /* of which some may run that have no marks. */
    bool impatient;          /* A launch has waited in vain for the GPU to rest. */
    bool elsewhere, rest;    /* Another context uses the GPU; all others rest, which has ended */
    uint64_t ended;          /* so many copies by streams of other devices. */
    uint64_t waited;         /* Ticks that launches have waited since the last move. */
    uint64_t before;         /* The mark of the launch before one that a block is fetched for. */
    unsigned cheap;          /* Blocks that left since one had host memory made, */
    unsigned dear;           /* and those that would have it made. */
    uint64_t ahead[2];       /* The last blocks that came ahead of a launch, the last one first. */
    struct zc_order order;
} moving[ZC_DEVICES];
static ZC_OWN uint64_t moving_devices; /* One bit for each that has had a context.  Atomic. */

static struct moving *moving_of(const struct zc_block *block)
{
    return &moving[zc_vmm_of(block)->va.device];
}

static int moving_device(const struct moving *m)
{
    return m ? (int)(m - moving) : 0;
}

static CUcontext moving_context(const struct moving *m)
{
    return m ? __atomic_load_n(&m->context, __ATOMIC_ACQUIRE) : NULL;
}

/* Blocks that a launch names. */
struct named {
    struct zc_rated note; /* Of those that are not fetched. */
    struct moving *on;    /* The device that has them; NULL: they stay. */
    enum zc_fn fn;
    bool timed;      /* This launch of the kernel is. */
    CUresult result; /* The first refusal. */
    unsigned count;
    struct zc_block *of[ZC_LAUNCH_NAMED]; /* So many are set, */
    uint64_t at[ZC_LAUNCH_NAMED];         /* and addresses in them. */
};

static bool migrate_fetches(void)
{
    return __atomic_load_n(&zc_vmm_counts.fetched, __ATOMIC_RELAXED);
}

static bool may_fetch(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_move_of(block);
    return v && zc_vmm_may_fetch(v);
}

static bool is_fetched(const struct zc_block *block)
{
    return may_fetch(block) && zc_vmm_of(block)->filled;
}

static void find_unkept(struct zc_block *block, void *arg)
{
    const struct zc_block **found = arg;
    if (block->place == ZC_PLACE_VMM && may_fetch(block) &&
        !__atomic_load_n(&zc_movable(zc_vmm_of(block))->stays, __ATOMIC_ACQUIRE))
        *found = block;
}

CUresult zc_migrate_keep_all(enum zc_fn fn)
{
    const struct zc_block *found;
    CUresult result = CUDA_SUCCESS;
    if (!migrate_fetches())
        return result;
    do {
        found = NULL;
        zc_block_each(find_unkept, &found);
        CUresult kept = found ? zc_move_never(found, fn) : CUDA_SUCCESS;
        result = result == CUDA_SUCCESS ? kept : result;
    } while (found);
    return result;
}

/* A block that is fetched stays mapped from now on. */
static void keep_fetched(const struct zc_block *block, struct named *n)
{
    CUresult result = may_fetch(block) ? zc_move_never(block, n->fn) : CUDA_SUCCESS;
    n->result = n->result == CUDA_SUCCESS ? result : n->result;
}

/* This launch does not see when blocks of other contexts move. */
static void add_named(uint64_t word, void *arg)
{
    struct named *n = arg;
    struct zc_block *block = zc_vmm_may_move(word) ? zc_block_find(word) : NULL;
    const struct zc_vmm *v = zc_move_of(block);
    for (unsigned i = 0; v && i < n->count; i++)
        if (n->of[i] == block)
            return;
    bool takes = v && v->va.context == moving_context(n->on) && n->count < ZC_LAUNCH_NAMED;
    if (v && !takes)
        keep_fetched(block, n);
    if (!takes)
        return;
    n->at[n->count] = word;
    n->of[n->count++] = block;
    if (zc_vmm_is_fetched(v))
        return;
    n->note.bytes += block->size;
    n->note.spilled += zc_block_spilled(block);
}

/* A kernel whose arguments nobody knows may use every block. */
static void name_blocks(const struct zc_launch *launch, struct moving *on, struct named *n)
{
    const struct zc_launch_graph *graph = launch->graph;
    memset(n, 0, offsetof(struct named, of));
    n->on = on;
    n->note.device = moving_device(on);
    n->note.kernel = graph ? graph->kernels : (uintptr_t)launch->function;
    n->fn = launch->fn;
    for (unsigned i = 0; graph && i < graph->count; i++)
        add_named(graph->address[i], n);
    if (!zc_launch_words(launch, add_named, n) && launch->fn != ZC_FN_cuGraphLaunch &&
        launch->fn != ZC_FN_cuGraphLaunch_ptsz && n->result == CUDA_SUCCESS)
        n->result = zc_migrate_keep_all(n->fn);
}

/* Blocks stay while the driver lock is held, because a free claims its block with that lock: so
 * those that were found before it are looked up again. */
static void name_again(struct named *n)
{
    unsigned count = n->count;
    n->note.bytes = n->note.spilled = n->count = 0;
    for (unsigned i = 0; i < count; i++)
        add_named(n->at[i], n);
}

static void add_address(uint64_t word, void *arg)
{
    struct zc_launch_graph *g = arg;
    const struct zc_block *block = zc_block_find(word);
    if (may_fetch(block))
        zc_move_never(block, ZC_FN_cuGraphLaunch);
    if (!zc_move_of(block) || g->count == ZC_LAUNCH_NAMED)
        return;
    for (unsigned i = 0; i < g->count; i++)
        if (g->address[i] == block->base)
            return;
    g->address[g->count++] = block->base;
}

/* The first device whose blocks move in a context; NULL: none. */
static struct moving *moving_in(CUcontext context)
{
    uint64_t left = context ? __atomic_load_n(&moving_devices, __ATOMIC_ACQUIRE) : 0;
    while (left && moving_context(&moving[__builtin_ctzll(left)]) != context)
        left &= left - 1;
    return left ? &moving[__builtin_ctzll(left)] : NULL;
}

/* Another context than the one whose blocks move uses a device, or with -1 any. */
static void end_moves(int device)
{
    uint64_t left = __atomic_load_n(&moving_devices, __ATOMIC_ACQUIRE);
    for (; left; left &= left - 1) {
        struct moving *m = &moving[__builtin_ctzll(left)];
        if (moving_context(m) && (device < 0 || moving_device(m) == device))
            __atomic_store_n(&m->elsewhere, true, __ATOMIC_RELAXED);
    }
}

void zc_migrate_note(struct zc_launch_graph *graph, const struct zc_launch *kernel, CUcontext of)
{
    CUcontext current = NULL;
    CUdevice device = 0;
    zc_real.cuCtxGetCurrent(&current);
    if (of && of != current)
        end_moves(zc_context_device(of, &device) == CUDA_SUCCESS ? device : -1);
    if (!zc_launch_words(kernel, add_address, graph))
        zc_migrate_keep_all(ZC_FN_cuGraphLaunch);
    graph->kernels = graph->kernels * 31 + (uintptr_t)kernel->function;
}

/* A search for blocks that may leave the device for another one. */
struct search {
    const struct zc_block *for_block;
    const struct moving *on;            /* Its device. */
    uint64_t from;                      /* Uses in which they are not due. */
    uint64_t used;                      /* The last one that they may have had. */
    uint64_t bytes;                     /* Of all that were found. */
    struct zc_block *farthest, *second; /* Those that are due last. */
    uint64_t farthest_due, second_due;
    unsigned dear;  /* Those that never left. */
    bool ahead;     /* The block comes ahead of its launch, */
    bool far;       /* and that is not the next one: of kernels that have ended one leaves, */
    uint64_t ended; /* up to this mark. */
};

/* No other device uses a block.  `asks`: that is asked anew; nothing waits for their work. */
static bool is_apart(const struct zc_vmm *v, bool asks)
{
    struct moving *m = &moving[v->va.device];
    bool open = zc_access_others(&v->va);
    if (asks)
        m->rest = (open || __atomic_load_n(&zc_vmm_counts.far, __ATOMIC_ACQUIRE) > m->ended) &&
                  zc_stream_others_rest(v->va.context, 0);
    return m->rest || (!open && __atomic_load_n(&zc_movable(v)->far, __ATOMIC_ACQUIRE) <= m->ended);
}

/* Nobody but libzc has part in the memory of a block, and no other device or context. */
static bool may_move(const struct zc_block *block, const struct zc_vmm *v)
{
    const struct moving *m = moving_of(block);
    return !__atomic_load_n(&m->elsewhere, __ATOMIC_ACQUIRE) &&
           !(block->flags & (ZC_BLOCK_QUARANTINED | ZC_BLOCK_EXPORTED)) &&
           (!v->lazy || zc_vmm_may_fetch(v)) &&
           !__atomic_load_n(&zc_movable(v)->stays, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&block->state, __ATOMIC_ACQUIRE) == ZC_BLOCK_LIVE &&
           v->va.context == moving_context(m) && is_apart(v, false);
}

uint64_t zc_migrate_due(const struct zc_block *block)
{
    return may_move(block, zc_vmm_of(block)) ? zc_order_due(&moving_of(block)->order, block) : 0;
}

static void look_at(struct zc_block *block, void *arg)
{
    struct search *s = arg;
    const struct zc_vmm *v = block->place == ZC_PLACE_VMM ? zc_move_of(block) : NULL;
    if (!v || moving_of(block) != s->on || block->rule != s->for_block->rule ||
        zc_block_spilled(block) || !zc_movable(v)->last || !may_move(block, v))
        return;
    uint64_t due = zc_order_due(&s->on->order, block);
    if (zc_movable(v)->last > s->used || due < s->from)
        return;
    s->dear += !v->va.reads;
    s->bytes += block->size;
    if (s->far && !(v->va.reads && zc_movable(v)->mark <= s->ended))
        return;
    if (v->va.reads && s->on->cheap < DEAR * s->on->dear)
        due *= DEAR;
    due *= block->size == s->for_block->size ? 4 : 3; /* They change places. */
    if (due > s->farthest_due) {
        s->second = s->farthest;
        s->second_due = s->farthest_due;
        s->farthest = block;
        s->farthest_due = due;
    } else if (due > s->second_due) {
        s->second = block;
        s->second_due = due;
    }
}

/* Nothing uses a block any more: only launches that name it do where it is read-only. */
static bool use_ended(const struct zc_block *block, unsigned most_ms)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v->va.reads && !__atomic_load_n(&moving_of(block)->unmarked, __ATOMIC_RELAXED)
               ? zc_mark_passed(v->va.device, zc_movable(v)->mark, most_ms)
               : zc_stream_rests_in(v->va.context, most_ms);
}

static bool has_ended(const struct zc_block *block)
{
    return zc_vmm_of(block)->va.reads && use_ended(block, 0);
}

/* A fetched block may come while the kernels run that use the block that is due last: then of both
 * that are due last the one leaves whose kernels will have ended first. */
static void find_leaver(struct search *s, const struct zc_block *block)
{
    /* The kernel of the launch before runs while one is fetched. */
    const struct moving *m = moving_of(block);
    bool running = is_fetched(block) && !s->from && m->earlier;
    *s = (struct search){.for_block = block, .on = m, .from = s->from, .ahead = s->ahead};
    s->far = s->ahead && s->from > 2;
    s->ended = s->far ? zc_mark_ended(moving_device(m)) : 0;
    s->used = running ? m->earlier : m->begun;
    zc_block_each(look_at, s);
    if (running && !s->farthest) {
        s->used = m->begun;
        zc_block_each(look_at, s);
    }
    const struct zc_vmm *first = s->second ? zc_vmm_of(s->farthest) : NULL,
                        *next = s->second ? zc_vmm_of(s->second) : NULL;
    if (is_fetched(block) && next && next->va.reads &&
        s->second_due > s->farthest_due - s->farthest_due / 16 * 4 && !has_ended(s->farthest) &&
        zc_movable(next)->mark < zc_movable(first)->mark)
        s->farthest = s->second;
}

/* Bytes that there is room for on the device. */
static uint64_t migrate_room(const struct zc_block *block)
{
    const struct zc_rule *rule = &zc_rules()->rules[block->rule];
    return zc_room_left(rule, block->device, block->flags & ZC_BLOCK_BUDGET);
}

static void count_wait(struct moving *m, uint64_t since)
{
    __atomic_fetch_add(&m->waited, zc_ticks() - since, __ATOMIC_RELAXED);
}

static const char later[] = "a later kernel will read it";

static void log_move(struct zc_block *block, uint64_t before, const char *reason, uint64_t ticks)
{
    struct moving *m = moving_of(block);
    uint64_t spilled = zc_block_spilled(block);
    bool to_host = spilled > before;
    __atomic_store_n(&zc_movable(zc_vmm_of(block))->owed, 0, __ATOMIC_RELAXED);
    if (spilled != before)
        zc_log_move(block, to_host, to_host ? spilled - before : before - spilled, reason, ticks,
                    __atomic_exchange_n(&m->waited, 0, __ATOMIC_RELAXED),
                    !to_host && is_fetched(block) &&
                        (reason == later ||
                         (m->before && !zc_mark_passed(moving_device(m), m->before, 0))));
}

/* One block leaves the device, another one comes, or both. */
static bool migrate_move(struct zc_block *leaves, struct zc_block *comes, const char *reason)
{
    const char *why;
    const struct zc_block *stays = comes ? comes : leaves;
    struct moving *m = moving_of(stays);
    uint64_t start = zc_ticks(), before = leaves ? zc_block_spilled(leaves) : 0;
    if (leaves) {
        m->cheap = zc_vmm_of(leaves)->va.reads ? m->cheap + 1 : 0;
        m->order.there = 0;
    }
    bool by_links = zc_rules()->links > ZC_LINKS_OWN;
    bool moved = zc_move(leaves, comes, by_links ? zc_links_copy : NULL, &why);
    uint64_t each = (zc_ticks() - start) / (leaves && comes ? 2 : 1);
    if (leaves)
        log_move(leaves, before, "others are used before it", each);
    if (comes)
        log_move(comes, comes->size, reason, each);
    if (!moved && zc_message_first("move"))
        zc_message(ZC_NOTE, "move", "block %U (%B) stays %s: %s", stays->id, stays->size,
                   comes ? "in host memory" : "on the device", why);
    return moved;
}

/* Waits for the GPU as long as launches have patience: `rests` says whether it has come to rest. */
static bool wait_for(bool (*rests)(const struct zc_block *block, unsigned most_ms),
                     const struct zc_block *block)
{
    struct moving *m = moving_of(block);
    bool waits = !__atomic_load_n(&m->impatient, __ATOMIC_RELAXED), known = zc_stream_rest_known();
    unsigned most_ms = waits ? WAIT_MS + zc_rate_busy_ms(moving_device(m)) : 0;
    uint64_t start = zc_ticks();
    bool rested = rests(block, most_ms);
    uint64_t took_ms = zc_ticks_to_ns(zc_ticks() - start) / 1000000;
    count_wait(m, start);
    if (!rested && waits && (!known || took_ms >= most_ms)) {
        __atomic_store_n(&m->impatient, true, __ATOMIC_RELAXED);
        zc_message(ZC_NOTE, "move",
                   "%s before launches, one of which has waited %U ms for that: they wait no more, "
                   "and blocks move only where it rests",
                   known ? "the GPU does not come to rest"
                         : "the driver does not tell of all streams",
                   took_ms);
    }
    return rested;
}

/* Nothing uses a block that is mapped nowhere, and launches that name it one that is read-only. */
static bool needs_rest(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return !is_fetched(block) || !(v->va.reads || zc_lazy_pending(v));
}

/* With the driver lock: whether blocks may move now, in this context, and this one may. */
static bool may_now(const struct zc_block *block)
{
    CUcontext current = NULL;
    return !zc_await_any() && !zc_capture_any() &&
           zc_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
           current == zc_vmm_of(block)->va.context && !zc_leaving(current) &&
           is_apart(zc_vmm_of(block), true) && may_move(block, zc_vmm_of(block));
}

/* As zc_move_begin().  Others may have begun to use the block until it has returned. */
static bool begin_moves(const struct zc_block *block, unsigned most_ms)
{
    struct moving *m = moving_of(block);
    bool rest = needs_rest(block) || __atomic_load_n(&m->unmarked, __ATOMIC_RELAXED);
    if (!zc_move_begin(rest ? moving_context(m) : NULL, most_ms))
        return false;
    if (rest)
        __atomic_store_n(&m->unmarked, false, __ATOMIC_RELAXED);
    if (is_apart(zc_vmm_of(block), true) && m->rest)
        m->ended = __atomic_load_n(&zc_vmm_counts.far, __ATOMIC_ACQUIRE);
    if (!is_fetched(block))
        zc_rate_rests(moving_device(m));
    return true;
}

/* With the driver lock, after begin_moves(): *s says what leaves first, if there is no room. */
static void bring_in(struct zc_block *block, const char *reason, struct search *s)
{
    bool rested = needs_rest(block);
    while (migrate_room(block) < block->size) {
        if (!s->farthest || !may_move(s->farthest, zc_vmm_of(s->farthest)))
            find_leaver(s, block);
        struct zc_block *leaves = s->farthest;
        moving_of(block)->dear = s->dear;
        if (!leaves || (s->ahead && !has_ended(leaves)) || !(rested || wait_for(use_ended, leaves)))
            return;
        bool fits = zc_move_fits(leaves, block);
        if (!migrate_move(leaves, fits ? block : NULL, reason) || fits)
            return;
        s->farthest = NULL;
    }
    migrate_move(NULL, block, reason);
}

/* Whether a block finds room on the device; *s says what leaves for it. */
static bool has_place(const struct zc_block *block, struct search *s)
{
    uint64_t free_bytes = migrate_room(block);
    if (free_bytes >= block->size)
        return true;
    find_leaver(s, block);
    if (s->ahead && (!s->farthest || !has_ended(s->farthest)))
        return false;
    return s->bytes >= (s->far ? MANY * block->size : block->size - free_bytes);
}

/* With the driver lock.  Returns the microseconds that moves have taken. */
static uint64_t try_to(struct zc_block *block, uint64_t from, const char *reason)
{
    uint64_t took = 0;
    struct search s = {.from = from, .ahead = reason == later};
    if (!may_now(block) || !has_place(block, &s))
        return 0;
    if (wait_for(begin_moves, block)) {
        uint64_t start = zc_ticks();
        if (may_move(block, zc_vmm_of(block)))
            bring_in(block, reason, &s);
        zc_move_end();
        took = zc_ticks_to_ns(zc_ticks() - start) / 1000;
    }
    if (zc_block_spilled(block) && reason != later)
        zc_movable(zc_vmm_of(block))->again = moving_of(block)->order.count + AGAIN;
    return took;
}

bool zc_migrate_away(struct zc_block *block, uint64_t keeps, unsigned most_ms)
{
    if (!may_now(block))
        return false;
    if (zc_block_spilled(block))
        zc_movable(zc_vmm_of(block))->again = moving_of(block)->order.count + AGAIN;
    if (!begin_moves(block, most_ms))
        return false;
    zc_movable(zc_vmm_of(block))->keeps = keeps;
    bool left = may_move(block, zc_vmm_of(block)) &&
                (needs_rest(block) || use_ended(block, most_ms)) && migrate_move(block, NULL, NULL);
    zc_move_end();
    return left;
}

/* A block for which one launch loses more than the move takes may displace any that the next
 * launches do not use.  One that several launches have lost that much for may displace only blocks
 * that are used half as often, so that no two change places again and again. */
static void consider(struct zc_block *block, struct zc_rate *r, uint64_t bytes)
{
    struct zc_movable *used = zc_movable(zc_vmm_of(block));
    const struct zc_order *o = &moving_of(block)->order;
    if (o->count < used->again)
        return;
    uint64_t lost = zc_rate_loss(r, block->size);
    uint64_t cost = zc_regret_cost(block->size);
    if (!r->time_of_them) { /* It may take so long with the block there that it is not tried. */
        uint64_t time = zc_rate_scaled(r->time, bytes, r->bytes);
        if (cost <= LINK_LEAST * time && r->spent + cost <= LINK_MOST * time)
            r->spent += try_to(block, 2, "a kernel may take long to read it there");
        return;
    }
    bool owes = zc_regret_owes(&used->owed, lost, block->size);
    if (lost > cost + cost / 4)
        try_to(block, 2, "a kernel reads it more than once");
    else if (owes && o->as)
        try_to(block, 2 * zc_order_due(o, block), "kernels used it for long");
}

static bool untimed(const void *kernel)
{
    return !zc_rate_of(*(const uint64_t *)kernel).time_of_them;
}

/* A block comes before the launch, or if it can't is mapped to its host memory. */
static void fetch(struct zc_block *block, struct named *n)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    struct moving *m = n->on;
    uint64_t mark = zc_mark_launch(moving_device(m), moving_context(m));
    bool tries = m->order.count >= zc_movable(v)->again && mark;
    m->before = mark ? mark - 1 : 0;
    if (zc_block_spilled(block) && v->filled && tries && !zc_launch_again())
        try_to(block, 0, "a kernel will read it");
    __atomic_store_n(&zc_movable(v)->mark, mark, __ATOMIC_RELAXED);
    uint64_t start = zc_ticks();
    CUresult result = zc_vmm_whole(v) ? CUDA_SUCCESS : zc_lazy_attach(v, 0, v->span, &why);
    if (result != CUDA_SUCCESS && v->va.reads && migrate_move(block, NULL, NULL))
        result = zc_lazy_attach(v, 0, v->span, &why);
    if (result != CUDA_SUCCESS)
        n->result = zc_lazy_diagnose(v, n->fn, result, why);
    count_wait(m, start);
}

/* The live block of an earlier use: with the driver lock it stays that. */
static struct zc_block *live_at(uint64_t address)
{
    struct zc_block *block = zc_block_find(address);
    bool live = block && __atomic_load_n(&block->state, __ATOMIC_ACQUIRE) == ZC_BLOCK_LIVE;
    return live ? block : NULL;
}

/* The first block that a later launch lacks, and in *from the uses after that. */
static struct zc_block *next_missing(struct moving *m, uint64_t *from)
{
    struct zc_order *o = &m->order;
    bool there = true;
    uint64_t i = o->there > o->as ? o->there : o->as;
    while (o->sure >= SURE && ++i < o->count && i <= o->as + NEAR) {
        struct zc_block *block = live_at(zc_order_at(o, i));
        *from = i - o->as + 1;
        bool lacks = is_fetched(block) && moving_of(block) == m && zc_block_spilled(block);
        if (lacks && !needs_rest(block) && zc_movable(zc_vmm_of(block))->last <= m->begun &&
            o->count >= zc_movable(zc_vmm_of(block))->again)
            return block;
        there = there && !lacks;
        o->there = there ? i : o->there;
    }
    return NULL;
}

/* The first block that is missing in the order begins to come, if another one leaves whose kernels
 * have ended.  A second one does while the first is on its way, unless one that came before waits
 * for its launch: what leaves for them might be needed before. */
static void fetch_ahead(struct moving *m)
{
    uint64_t from;
    struct zc_block *block = next_missing(m, &from);
    const struct zc_vmm *before = zc_move_of(live_at(m->ahead[1]));
    if (!block || (before && zc_movable(before)->came && zc_move_under_way(live_at(m->ahead[0]))))
        return;
    try_to(block, from, later);
    if (zc_block_spilled(block))
        return;
    m->ahead[1] = m->ahead[0];
    m->ahead[0] = block->base;
}

static void use_timed(struct named *n)
{
    struct zc_rate r = zc_rate_of(n->note.kernel);
    uint64_t before = r.spent;
    for (unsigned i = 0; i < n->count; i++)
        if (zc_block_spilled(n->of[i]) && !is_fetched(n->of[i]))
            consider(n->of[i], &r, n->note.bytes);
    n->note.spilled = 0;
    for (unsigned i = 0; i < n->count; i++)
        n->note.spilled += is_fetched(n->of[i]) ? 0 : zc_block_spilled(n->of[i]);
    n->timed = n->note.spilled || !r.time || n->on->order.count % SAMPLE < n->count;
    zc_rate_launched(&n->note, r.spent - before);
}

static void use_named(struct named *n)
{
    struct moving *m = n->on;
    name_again(n);
    if (!n->count)
        return;
    bool again = zc_launch_again();
    m->earlier = again ? m->earlier : m->begun;
    m->begun = again ? m->begun : m->order.count;
    for (unsigned i = 0; i < n->count && !again; i++)
        zc_order_note(&m->order, n->of[i]);
    for (unsigned i = 0; i < n->count; i++)
        if (may_fetch(n->of[i]))
            fetch(n->of[i], n);
    if (n->note.bytes)
        use_timed(n);
    if (!again)
        fetch_ahead(m);
}

/* All devices share the driver lock: where blocks of several move, a launch waits without it for
 * the copies of those that it names. */
static bool lock_for(const struct named *n)
{
    uint64_t devices = __atomic_load_n(&moving_devices, __ATOMIC_RELAXED), start = zc_ticks();
    bool mine = zc_driver_lock();
    for (unsigned i = 0; (devices & (devices - 1)) && i < n->count; i++)
        while (mine && zc_move_under_way(live_at(n->at[i]))) {
            zc_driver_unlock();
            zc_nap(NAP_US);
            mine = zc_driver_lock();
        }
    count_wait(n->on, start);
    return mine;
}

static CUresult migrate_use(const struct zc_launch *launch, struct moving *m)
{
    struct named n;
    name_blocks(launch, m, &n);
    uint64_t start = zc_ticks();
    if (n.note.spilled)
        zc_regret_wait(untimed, &n.note.kernel, WAIT_MS + zc_rate_busy_ms(moving_device(m)));
    count_wait(m, start);
    if (!n.count || !lock_for(&n))
        return n.result;
    use_named(&n);
    zc_driver_unlock();
    if (n.timed && n.result == CUDA_SUCCESS)
        zc_regret_time(launch, zc_rate_timed, &n.note, sizeof(n.note));
    return n.result;
}

/* If nothing moves now, what the launch names stays as it is, mapped: a graph's kernels run later,
 * and those of another context unseen. */
static CUresult migrate_keeps(const struct zc_launch *launch)
{
    struct named n = {.result = CUDA_SUCCESS};
    if (migrate_fetches())
        name_blocks(launch, NULL, &n);
    return n.result;
}

void zc_migrate_kept(enum zc_fn fn, CUdeviceptr address, const CUtensorMap *map)
{
    const struct zc_block *block = migrate_fetches() ? zc_block_find(address) : NULL;
    for (unsigned i = 0; map && i < sizeof(map->opaque) / sizeof(*map->opaque); i++)
        if (map->opaque[i] == address)
            return;
    if (may_fetch(block))
        zc_move_never(block, fn);
}

CUresult zc_migrate_to_host(struct zc_block *block, enum zc_fn fn, bool fills)
{
    CUresult result = CUDA_SUCCESS;
    struct zc_vmm *v = zc_vmm_of(block);
    if (!may_fetch(block) || !zc_driver_lock())
        return result;
    v->filled |= fills;
    __atomic_fetch_add(&zc_vmm_counts.away, 1, __ATOMIC_SEQ_CST); /* Launches wait for the lock. */
    CUstreamCaptureMode before = zc_capture_relax();
    if (v->va.reads && !zc_life_closing() && zc_launch_drain_briefly() &&
        (!zc_access_others(&v->va) || zc_stream_others_rest(v->va.context, 0)) &&
        wait_for(use_ended, block))
        migrate_move(block, NULL, NULL);
    if (v->va.reads)
        result = zc_move_never(block, fn);
    zc_capture_restore(before);
    __atomic_fetch_sub(&zc_vmm_counts.away, 1, __ATOMIC_SEQ_CST);
    zc_driver_unlock();
    return result;
}

/* The device whose blocks may be moved for a call, as it is made in their context; or NULL.
 * Another one of that device might use them unseen. */
static struct moving *moving_for(CUstream stream, enum zc_flavour flavour)
{
    CUdevice device = 0;
    struct moving *m = moving_in(zc_stream_context(stream, flavour));
    if (!m)
        end_moves(zc_stream_device(stream, flavour, &device) == CUDA_SUCCESS ? device : -1);
    return m;
}

bool zc_migrate_meets(const struct zc_block *block, CUstream stream, enum zc_flavour flavour)
{
    return moving_for(stream, flavour) == moving_of(block);
}

static CUresult migrate_before_launch(const struct zc_launch *launch)
{
    zc_move_leave(zc_move_enter()); /* Waits for blocks that are being moved. */
    if (!launch->kernels)
        return CUDA_SUCCESS;
    if (zc_life_closing())
        return migrate_keeps(launch);
    if (!__atomic_load_n(&zc_vmm_counts.movable, __ATOMIC_RELAXED)) {
        zc_launch_call(ZC_LAUNCH_MOVE, NULL);
        if (__atomic_load_n(&zc_vmm_counts.movable, __ATOMIC_RELAXED))
            zc_launch_call(ZC_LAUNCH_MOVE, migrate_before_launch);
        return CUDA_SUCCESS;
    }
    struct moving *m = zc_capture_holds(launch->stream, launch->flavour)
                           ? NULL
                           : moving_for(launch->stream, launch->flavour);
    if (!m || zc_capture_any())
        return migrate_keeps(launch);
    if (!__atomic_load_n(&zc_vmm_counts.spilled, __ATOMIC_RELAXED) &&
        !__atomic_load_n(&zc_vmm_counts.away, __ATOMIC_ACQUIRE) &&
        __atomic_add_fetch(&m->seen, 1, __ATOMIC_RELAXED) % SAMPLE) {
        __atomic_store_n(&m->unmarked, true, __ATOMIC_RELAXED);
        return CUDA_SUCCESS;
    }
    zc_regret_collect();
    return migrate_use(launch, m);
}

bool zc_migrate_watch(void)
{
    CUcontext current = NULL, first = NULL;
    CUdevice device = 0;
    bool known = zc_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
                 zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device < ZC_DEVICES;
    struct moving *m = &moving[known ? device : 0];
    if (known)
        __atomic_fetch_or(&moving_devices, UINT64_C(1) << device, __ATOMIC_RELEASE);
    zc_launch_call(ZC_LAUNCH_MOVE, migrate_before_launch);
    return known && !__atomic_load_n(&m->elsewhere, __ATOMIC_RELAXED) &&
           (__atomic_compare_exchange_n(&m->context, &first, current, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) ||
            first == current);
}

/* The next one with such a block has its device. */
static void migrate_context_gone(CUcontext context)
{
    struct moving *m = moving_in(context);
    if (!m)
        return;
    __atomic_store_n(&m->elsewhere, false, __ATOMIC_RELAXED);
    __atomic_store_n(&m->impatient, false, __ATOMIC_RELAXED);
    __atomic_store_n(&m->context, NULL, __ATOMIC_RELEASE);
}

const struct zc_module zc_module_migrate = {.context_gone = migrate_context_gone};
