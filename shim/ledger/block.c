/* SPDX-License-Identifier: MIT */
/* The life of a block in the ledger, and the gauges. */
#include "ledger/block.h"

#include <string.h>

#include "base/arena.h"
#include "base/lock.h"
#include "base/own.h"
#include "ledger/index.h"
#include "ledger/site.h"
#include "policy/policy.h"

/*
 * Removed blocks are not reused until this many more were removed.  So if a program frees a block
 * twice from two threads, the second one claims a removed block, which fails, and not another live
 * one.
 */
#define RESTING 64u

#define BUSY UINT64_MAX /* Of struct zc_index_seen: being written, and no sequence. */

_Static_assert(sizeof(struct zc_block) <= 104, "memory for each live block is bounded");

__thread struct zc_index_seen zc_block_seen[ZC_BLOCK_SEEN][2]
    __attribute__((tls_model("initial-exec")));

static ZC_LOCK(ledger_lock, ZC_RANK_LEDGER);
static ZC_OWN struct {
    uint64_t serial;                         /* Id given last. */
    struct zc_block *rest_first, *rest_last; /* Removed, not reused yet; oldest first. */
    uint32_t resting;                        /* Number of them. */
    uint64_t untracked;                      /* Atomic. */
} ledger;
ZC_OWN bool zc_block_padded;
ZC_OWN void (*zc_block_on_device)(int device, int64_t bytes);

static void gauge_bytes(struct zc_block_gauge *gauge, int sign, uint64_t change)
{
    uint64_t bytes = sign > 0 ? gauge->bytes + change : gauge->bytes - change;
    __atomic_store_n(&gauge->bytes, bytes, __ATOMIC_RELAXED);
    if (bytes > gauge->peak_bytes)
        __atomic_store_n(&gauge->peak_bytes, bytes, __ATOMIC_RELAXED);
}

/* Updates the gauges; quarantined blocks no longer count.  Only the lock's holder writes them, but
 * any process may read them. */
static void gauge_change(const struct zc_block *block, int sign)
{
    if (block->flags & ZC_BLOCK_QUARANTINED)
        return;
    struct zc_block_gauge *gauge = &zc_counters()->place[block->place];
    __atomic_store_n(&gauge->blocks, gauge->blocks + (uint64_t)(int64_t)sign, __ATOMIC_RELAXED);
    gauge_bytes(gauge, sign, block->size - zc_block_spilled(block));
    gauge_bytes(&zc_counters()->place[ZC_PLACE_MAPPED], sign, zc_block_spilled(block));
    void (*changed)(int, int64_t) = __atomic_load_n(&zc_block_on_device, __ATOMIC_ACQUIRE);
    if (changed != NULL && block->place == ZC_PLACE_DEVICE)
        changed(block->device, sign * (int64_t)block->size);
}

static void block_rest(struct zc_block *block)
{
    block->next_dead = NULL;
    if (ledger.rest_last != NULL)
        ledger.rest_last->next_dead = block;
    else
        ledger.rest_first = block;
    ledger.rest_last = block;
    ledger.resting++;
}

/* A removed block that may be reused, or fresh memory.  Under the lock. */
static struct zc_block *block_new(void)
{
    struct zc_block *block = ledger.rest_first;
    if (ledger.resting <= RESTING)
        return zc_arena_get(sizeof(*block));
    ledger.rest_first = block->next_dead;
    ledger.resting--;
    return block;
}

/* Removes a block whose addresses the driver has given to a newer one. */
static void block_displace(struct zc_block *old)
{
    zc_index_remove(&old->node);
    gauge_change(old, -1);
    /* Its claimer is about to remove it. */
    if (!zc_block_claim(old))
        return;
    zc_cell_fold_all(old->cell, old->site);
    block_rest(old);
}

/* Readers that come to the block by the index look at these two words. */
static void block_set(struct zc_block *block, const struct zc_block *like)
{
    const size_t node = sizeof(block->node);
    __atomic_store_n(&block->base, like->base, __ATOMIC_RELEASE);
    __atomic_store_n(&block->size, like->size, __ATOMIC_RELEASE);
    memcpy((char *)block + node, (const char *)like + node, sizeof(*block) - node);
    block->id = ++ledger.serial;
    __atomic_store_n(&block->state, ZC_BLOCK_LIVE, __ATOMIC_RELAXED);
}

static void block_enter(struct zc_block *block)
{
    struct zc_index_node *old;
    while ((old = zc_index_insert(&block->node)) != NULL)
        block_displace((struct zc_block *)old);
    if (block->before != 0 || block->behind != 0)
        __atomic_store_n(&zc_block_padded, true, __ATOMIC_RELAXED);
    gauge_change(block, 1);
    zc_site_note_request(block->site, block->size, block->rule);
}

struct zc_block *zc_block_add(const struct zc_block *like)
{
    struct zc_block *block = NULL;
    if (zc_lock_take(&ledger_lock)) {
        block = block_new();
        if (block != NULL) {
            block_set(block, like);
            block_enter(block);
        }
        zc_lock_drop(&ledger_lock);
    }
    if (block == NULL)
        __atomic_fetch_add(&ledger.untracked, 1, __ATOMIC_RELAXED);
    return block;
}

void zc_block_spill(struct zc_block *block, uint64_t spilled)
{
    ZC_LOCK_HELD(mine, &ledger_lock);
    if (mine)
        gauge_change(block, -1);
    uint32_t front = (uint32_t)((block->size - spilled) / ZC_BLOCK_UNIT);
    if (spilled)
        block->behind = (block->behind & ZC_BLOCK_BEHIND) | front << ZC_BLOCK_BEHIND_BITS;
    if (spilled)
        __atomic_fetch_or(&block->flags, ZC_BLOCK_SPILLED, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&block->flags, (uint16_t)~ZC_BLOCK_SPILLED, __ATOMIC_RELEASE);
    __atomic_store_n(&block->real,
                     (uint8_t)(spilled == block->size ? ZC_KIND_PINNED : ZC_KIND_DEVICE),
                     __ATOMIC_RELAXED);
    if (mine)
        gauge_change(block, 1);
}

/* A handler that interrupts this finds BUSY in the first record, and leaves both alone. */
static void seen_remember(struct zc_index_seen seen[2], const struct zc_index_seen *now)
{
    uint64_t was = seen[0].sequence;
    if (was == BUSY)
        return;
    seen[0].sequence = BUSY;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    seen[1] =
        seen[0]; /* A handler may have written it since: then `was` is of now, or of no use. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    seen[1].sequence = was;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    seen[0].base = now->base;
    seen[0].bytes = now->bytes;
    seen[0].node = now->node;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    seen[0].sequence = now->sequence;
}

static struct zc_index_seen block_look(uint64_t address)
{
    struct zc_index_seen now;
    if (zc_index_find(address, &now)) {
        seen_remember(zc_block_seen_at(address), &now);
    } else if (zc_lock_take(&ledger_lock)) {
        zc_index_find(address, &now);
        zc_lock_drop(&ledger_lock);
    }
    return now;
}

struct zc_block *zc_block_look(uint64_t address)
{
    struct zc_index_seen now;
    bool known = zc_block_recall(&zc_block_seen_at(address)[1], address, &now);
    return (struct zc_block *)(known ? now.node : block_look(address).node);
}

struct zc_index_seen zc_block_see(uint64_t address)
{
    const struct zc_index_seen *seen = zc_block_seen_at(address);
    struct zc_index_seen now;
    bool known =
        zc_block_recall(&seen[0], address, &now) || zc_block_recall(&seen[1], address, &now);
    return known ? now : block_look(address);
}

bool zc_block_in_margin_any(uint64_t address)
{
    struct zc_index_seen gap = block_look(address);
    if (gap.node || !gap.bytes)
        return false;
    const struct zc_block *below = gap.base ? zc_block_find(gap.base - 1) : NULL;
    const struct zc_block *above = zc_block_find(gap.base + gap.bytes);
    uint32_t mask = below && (below->flags & ZC_BLOCK_SPILLED) ? ZC_BLOCK_BEHIND : ~0u;
    if (below && address / ZC_BLOCK_PAGE - (gap.base - 1) / ZC_BLOCK_PAGE < (below->behind & mask))
        return true;
    return above && above->base - address <= above->before * ZC_BLOCK_PAGE;
}

bool zc_block_claim(struct zc_block *block)
{
    uint8_t live = ZC_BLOCK_LIVE;
    return __atomic_compare_exchange_n(&block->state, &live, ZC_BLOCK_FREEING, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void zc_block_unclaim(struct zc_block *block)
{
    __atomic_store_n(&block->state, ZC_BLOCK_LIVE, __ATOMIC_RELEASE);
}

void zc_block_quarantine(struct zc_block *block)
{
    ZC_LOCK_HELD(mine, &ledger_lock);
    if (mine)
        gauge_change(block, -1);
    __atomic_fetch_or(&block->flags, ZC_BLOCK_QUARANTINED, __ATOMIC_RELEASE);
}

void zc_block_remove(struct zc_block *block)
{
    zc_cell_fold_all(block->cell, block->site);
    if (!zc_lock_take(&ledger_lock))
        return;
    /* If a newer block has replaced it, it is no longer in the index. */
    if (zc_index_remove(&block->node))
        gauge_change(block, -1);
    block_rest(block);
    zc_lock_drop(&ledger_lock);
}

static struct zc_block *next_block(uint64_t from)
{
    return (struct zc_block *)zc_index_next(from);
}

void zc_block_each(void (*visit)(struct zc_block *block, void *arg), void *arg)
{
    struct zc_block *block;
    ZC_LOCK_HELD(mine, &ledger_lock);
    for (uint64_t from = 0; mine && (block = next_block(from)) != NULL; from = block->base + 1)
        visit(block, arg);
}

uint64_t zc_block_untracked(void)
{
    return __atomic_load_n(&ledger.untracked, __ATOMIC_RELAXED);
}
