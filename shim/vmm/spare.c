/* SPDX-License-Identifier: MIT */
/* The addresses of blocks that grew: kept mapped, for the block that grows next. */
#include "vmm/spare.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/module.h"
#include "vmm/access.h"
#include "vmm/late.h"

/* Blocks that a request may be compared with: more arrays that grow in turn only map more. */
#define LOOKED_AT 64

static struct zc_vmm *keepers; /* Those that have a spare, linked by `spares_next`. */

CUresult zc_spare_unalias(struct zc_vmm *v, const char **why)
{
    if (!v->growth->like)
        return CUDA_SUCCESS;
    *why = "what is mapped in its addresses can't be unmapped";
    CUresult result = zc_window_unmap(&v->window);
    if (result != CUDA_SUCCESS)
        return result;
    v->growth->like->growth->echo = NULL;
    v->growth->like = NULL;
    return CUDA_SUCCESS;
}

/* Ends a spare: the ledger forgets its addresses.  Its window is the caller's. */
static struct zc_vmm *take(struct zc_vmm *v)
{
    struct zc_vmm *spare = v->growth->spare;
    struct zc_backing *backing = spare->ghost->backing;
    v->growth->spare = NULL;
    DL_DELETE2(keepers, v, growth->spares_before, growth->spares_next);
    zc_block_remove(spare->ghost);
    zc_arena_put(backing, sizeof(*backing));
    return spare;
}

CUresult zc_spare_drop(struct zc_vmm *v)
{
    return v->growth->spare ? zc_vmm_give_back(take(v)) : CUDA_SUCCESS;
}

void zc_spare_keep(struct zc_vmm *to, struct zc_vmm *from, struct zc_block *block)
{
    if (zc_access_end_copies(&from->window) != CUDA_SUCCESS)
        zc_window_unmap(&from->window);
    from->ghost = block;
    to->growth->spare = from;
    DL_PREPEND2(keepers, to, growth->spares_before, growth->spares_next);
}

/* True if a block has addresses to spare that another can have. */
static bool may_precede(const struct zc_vmm *b, const struct zc_vmm *v)
{
    return b->device == v->device && b->window.context == v->window.context &&
           b->growth->spare->window.peers == v->window.peers && zc_vmm_own(b) <= v->span &&
           v->span <= b->growth->spare->window.size && b->held == b->span && !b->growth->sink;
}

/* Of several blocks it will be the largest, and of arrays that grow in turn the one that grew
 * first. */
void zc_spare_adopt(struct zc_vmm *v)
{
    struct zc_vmm *b = NULL;
    unsigned seen = 0;
    for (struct zc_vmm *at = v->grows ? keepers : NULL; at && seen < LOOKED_AT;
         at = at->growth->spares_next, seen++)
        if (may_precede(at, v) && (!b || at->span >= b->span))
            b = at;
    if (!b)
        return;
    struct zc_vmm *spare = take(b);
    zc_window_move(&v->window, &spare->window);
    v->growth->like = b;
    b->growth->echo = v;
    zc_vmm_drop(spare);
}

void zc_spare_forget(struct zc_vmm *v)
{
    const char *why;
    /* Where the driver refuses, something is mapped there yet, and no other block's. */
    if (v->growth->echo && zc_spare_unalias(v->growth->echo, &why) != CUDA_SUCCESS)
        v->growth->echo->growth->like = v->growth->echo;
    if (v->growth->like)
        v->growth->like->growth->echo = NULL;
    zc_spare_drop(v);
}

static void in_child(void)
{
    keepers = NULL;
}

const struct zc_module zc_module_spare = {.child = in_child};
