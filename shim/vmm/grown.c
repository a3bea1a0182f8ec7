/* SPDX-License-Identifier: MIT */
/* Whether an array on the device has grown in this process. */
#include "vmm/grow.h"

#include "base/module.h"
#include "base/own.h"
#include "ledger/rules.h"

/* The chunk of memory below which a block has no use for `vmm`. */
#define LEAST ((uint64_t)2 << 20)
#define COPIES 8 /* Most copies that are remembered. */

bool zc_grown_asked;

/* Copies of blocks into larger ones, by the ids of both, as they came; 0: none.  Atomics: of a copy
 * that another thread replaces, the two may belong to different ones, and then no array may grow,
 * or one too early. */
static ZC_OWN struct {
    uint64_t from, to;
} copies[COPIES];
static ZC_OWN uint32_t next; /* Atomic. */

bool zc_grown_whole(const struct zc_copy *c)
{
    const struct zc_block *from = c->src.block, *to = c->dst.block;
    return c->shape == ZC_SHAPE_LINE && from && to && c->src.address == from->base &&
           c->dst.address == to->base && c->bytes >= from->size / 2;
}

static bool is_array(const struct zc_block *b)
{
    return b->asked == ZC_KIND_DEVICE &&
           !(b->flags & (ZC_BLOCK_STREAM | ZC_BLOCK_FOREIGN | ZC_BLOCK_QUARANTINED));
}

void zc_grown_note(const struct zc_copy *c)
{
    const struct zc_block *from = c->src.block, *to = c->dst.block;
    if (!zc_grown_whole(c) || !is_array(from) || !is_array(to) || from->device != to->device ||
        from->size < LEAST || to->size <= from->size)
        return;
    unsigned at = 0;
    while (at < COPIES && __atomic_load_n(&copies[at].from, __ATOMIC_RELAXED) != from->id)
        at++; /* A block that is copied often takes one place. */
    if (at == COPIES)
        at = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % COPIES;
    __atomic_store_n(&copies[at].from, from->id, __ATOMIC_RELAXED);
    __atomic_store_n(&copies[at].to, to->id, __ATOMIC_RELAXED);
}

void zc_grown_freed(const struct zc_block *block)
{
    if (!__atomic_load_n(&zc_grown_asked, __ATOMIC_RELAXED))
        return;
    for (unsigned i = 0; i < COPIES; i++) {
        if (__atomic_load_n(&copies[i].to, __ATOMIC_RELAXED) == block->id)
            __atomic_store_n(&copies[i].from, 0, __ATOMIC_RELAXED);
        if (__atomic_load_n(&copies[i].from, __ATOMIC_RELAXED) != block->id)
            continue;
        zc_rules_grown();
        __atomic_store_n(&zc_grown_asked, false, __ATOMIC_RELAXED);
    }
}

static void grown_start(const struct zc_policy *policy)
{
    __atomic_store_n(&zc_grown_asked, (policy->needs & ZC_NEED_GROWN) != 0, __ATOMIC_RELAXED);
}

const struct zc_module zc_module_grown = {.start = grown_start};
