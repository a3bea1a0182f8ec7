/* SPDX-License-Identifier: MIT */
/* Reuses the addresses of an array that grew when it grows again. */
#include "vmm/reuse.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/module.h"
#include "vmm/access.h"

/* How many kept ranges a request is compared with.  With more growing arrays in turn, more is
 * mapped anew. */
#define LOOKED_AT 64

static struct zc_vmm *keepers; /* Blocks with a `previous`, linked by `reuse_next`. */

CUresult zc_reuse_unalias(struct zc_vmm *v, const char **why)
{
    if (!v->growth->alias_of)
        return CUDA_SUCCESS;
    *why = "what is mapped in its addresses can't be unmapped";
    CUresult result = zc_va_unmap(&v->va);
    if (result != CUDA_SUCCESS)
        return result;
    v->growth->alias_of->growth->alias = NULL;
    v->growth->alias_of = NULL;
    return CUDA_SUCCESS;
}

/* Takes the kept block out and removes its addresses from the ledger.  Its range is the caller's
 * then. */
static struct zc_vmm *take_previous(struct zc_vmm *v)
{
    struct zc_vmm *previous = v->growth->previous;
    struct zc_backing *backing = previous->quarantined->backing;
    v->growth->previous = NULL;
    DL_DELETE2(keepers, v, growth->reuse_before, growth->reuse_next);
    zc_block_remove(previous->quarantined);
    zc_arena_put(backing, sizeof(*backing));
    return previous;
}

void zc_reuse_drop(struct zc_vmm *v)
{
    if (v->growth->previous)
        zc_vmm_give_back(take_previous(v));
}

void zc_reuse_keep(struct zc_vmm *to, struct zc_vmm *from, struct zc_block *block)
{
    if (zc_access_end_copies(&from->va) != CUDA_SUCCESS)
        zc_va_unmap(&from->va);
    from->quarantined = block;
    to->growth->previous = from;
    DL_PREPEND2(keepers, to, growth->reuse_before, growth->reuse_next);
}

/* True if `v` can use the addresses that `b` keeps. */
static bool may_precede(const struct zc_vmm *b, const struct zc_vmm *v)
{
    return b->device == v->device && b->va.context == v->va.context &&
           b->growth->previous->va.peers == v->va.peers && zc_vmm_own(b) <= v->span &&
           v->span <= b->growth->previous->va.size && b->held == b->span && !b->growth->copy_to;
}

/* The largest of several arrays takes the range; of arrays that grow in turn, the one that grew
 * first. */
void zc_reuse_adopt(struct zc_vmm *v)
{
    struct zc_vmm *b = NULL;
    unsigned seen = 0;
    for (struct zc_vmm *at = v->grows ? keepers : NULL; at && seen < LOOKED_AT;
         at = at->growth->reuse_next, seen++)
        if (may_precede(at, v) && (!b || at->span >= b->span))
            b = at;
    if (!b)
        return;
    struct zc_vmm *previous = take_previous(b);
    zc_va_move(&v->va, &previous->va);
    v->growth->alias_of = b;
    b->growth->alias = v;
    zc_vmm_drop(previous);
}

void zc_reuse_forget(struct zc_vmm *v)
{
    const char *why;
    /* If the driver refuses, something is still mapped there, but no other block's memory. */
    if (v->growth->alias && zc_reuse_unalias(v->growth->alias, &why) != CUDA_SUCCESS)
        v->growth->alias->growth->alias_of = v->growth->alias;
    if (v->growth->alias_of)
        v->growth->alias_of->growth->alias = NULL;
    zc_reuse_drop(v);
}

static void in_child(void)
{
    keepers = NULL;
}

const struct zc_module zc_module_reuse = {.child = in_child};
