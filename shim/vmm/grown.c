/* SPDX-License-Identifier: MIT */
/* Whether an array on the device has grown in this process. */
#include "vmm/grown.h"

#include "base/module.h"
#include "base/own.h"
#include "policy/policy.h"

/* The chunk of memory below which a block has no use for `vmm`. */
#define LEAST ((uint64_t)2 << 20)
#define COPIES 8 /* Most copies that are remembered. */

bool zc_grown_asked;
static ZC_OWN bool grown; /* Atomic. */

/* Copies of blocks into larger ones, by the ids of both, as they came; 0: none.  Atomics: of a copy
 * that another thread replaces, the two may belong to different ones, and then no array may grow,
 * or one too early. */
static ZC_OWN struct {
    uint64_t from, to;
} copies[COPIES];
static ZC_OWN uint32_t next; /* Atomic. */

bool zc_grown(void)
{
    return __atomic_load_n(&grown, __ATOMIC_RELAXED);
}

static bool is_array(const struct zc_operand *b)
{
    return b->block && b->block->asked == ZC_KIND_DEVICE && b->address == b->block->base &&
           !(b->block->flags & (ZC_BLOCK_STREAM | ZC_BLOCK_FOREIGN | ZC_BLOCK_QUARANTINED));
}

void zc_grown_note(const struct zc_copy *c)
{
    const struct zc_block *from = c->src.block, *to = c->dst.block;
    if (c->shape != ZC_SHAPE_LINE || !is_array(&c->src) || !is_array(&c->dst) ||
        from->device != to->device || from->size < LEAST || to->size <= from->size ||
        c->bytes < from->size / 2)
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
        __atomic_store_n(&grown, true, __ATOMIC_RELAXED);
        __atomic_store_n(&zc_grown_asked, false, __ATOMIC_RELAXED);
    }
}

static void start(const struct zc_policy *policy)
{
    __atomic_store_n(&zc_grown_asked, (policy->needs & ZC_NEED_GROWN) && !zc_grown(),
                     __ATOMIC_RELAXED);
}

const struct zc_module zc_module_grown = {.start = start};
