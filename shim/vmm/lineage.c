/* SPDX-License-Identifier: MIT */
/* The generations of an array that grows. */
#include "vmm/lineage.h"

#include <string.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/own.h"
#include "vmm/access.h"

#define AHEAD ((size_t)512 << 20)
#define PART 256
#define DEVICES_MAX 64 /* As many as vmm serves. */

/* How many kept ranges a request is compared with.  With more growing arrays in turn, more is
 * mapped anew. */
#define LOOKED_AT 64

static ZC_OWN struct zc_vmm
    *growing; /* All live blocks that grow; those that keep addresses first. */
static ZC_OWN size_t headroom[DEVICES_MAX]; /* Bytes in use, by device. */

static void move_to(struct zc_vmm *v, bool front)
{
    DL_DELETE2(growing, v, lineage->before, lineage->next);
    if (front)
        DL_PREPEND2(growing, v, lineage->before, lineage->next);
    else
        DL_APPEND2(growing, v, lineage->before, lineage->next);
}

static void link(struct zc_vmm *newer, struct zc_vmm *older)
{
    newer->lineage->older = older;
    older->lineage->newer = newer;
}

static void unlink(struct zc_vmm *newer)
{
    if (newer->lineage->older)
        newer->lineage->older->lineage->newer = NULL;
    newer->lineage->older = NULL;
}

/* Takes the kept addresses from a block, and removes them from the ledger.  They are the caller's
 * then. */
static struct zc_vmm *take_previous(struct zc_vmm *v)
{
    struct zc_vmm *previous = v->lineage->previous;
    struct zc_backing *backing = v->lineage->quarantined->backing;
    v->lineage->previous = NULL;
    move_to(v, false);
    zc_block_remove(v->lineage->quarantined);
    zc_arena_put(backing, sizeof(*backing));
    return previous;
}

/* True if `v` can use the addresses that `b` keeps. */
static bool may_precede(const struct zc_vmm *b, const struct zc_vmm *v)
{
    const struct zc_va *kept = &b->lineage->previous->va;
    return b->device == v->device && b->va.context == v->va.context && kept->peers == v->va.peers &&
           zc_vmm_own(b) <= v->span && v->span <= kept->size && b->held >= b->span &&
           !zc_vmm_copy_to(b);
}

/* The largest of several arrays takes the addresses; of arrays that grow in turn, the one that grew
 * first. */
void zc_lineage_enter(struct zc_vmm *v)
{
    struct zc_vmm *b = NULL;
    unsigned seen = 0;
    for (struct zc_vmm *at = growing; at && at->lineage->previous && seen < LOOKED_AT;
         at = at->lineage->next, seen++)
        if (may_precede(at, v) && (!b || at->span >= b->span))
            b = at;
    DL_APPEND2(growing, v, lineage->before, lineage->next);
    if (!b)
        return;
    struct zc_vmm *previous = take_previous(b);
    zc_va_move(&v->va, &previous->va);
    zc_vmm_drop(previous);
    link(v, b);
    v->lineage->alias = true;
}

CUresult zc_lineage_part(struct zc_vmm *v, const char **why)
{
    if (!v->lineage->alias)
        return CUDA_SUCCESS;
    *why = "what is mapped in its addresses can't be unmapped";
    CUresult result = zc_va_unmap(&v->va);
    if (result != CUDA_SUCCESS)
        return result;
    v->lineage->alias = false;
    if (!v->lineage->copy)
        unlink(v);
    return CUDA_SUCCESS;
}

bool zc_lineage_join(struct zc_vmm *newer, struct zc_vmm *older)
{
    const char *why;
    struct zc_vmm *other = older->lineage->newer;
    if (other == newer)
        return true;
    if (zc_lineage_part(newer, &why) != CUDA_SUCCESS ||
        (other && zc_lineage_part(other, &why) != CUDA_SUCCESS))
        return false;
    link(newer, older);
    return true;
}

void zc_lineage_end_copy(struct zc_vmm *newer)
{
    zc_arena_put(newer->lineage->copy, sizeof(*newer->lineage->copy));
    newer->lineage->copy = NULL;
    if (!newer->lineage->alias)
        unlink(newer);
}

/* Gives the addresses that a block keeps back to the driver. */
static void drop_previous(struct zc_vmm *v)
{
    if (v->lineage->previous)
        zc_vmm_give_back(take_previous(v));
}

CUresult zc_lineage_end(struct zc_vmm *v, const char **why)
{
    struct zc_vmm *newer = v->lineage->newer;
    CUresult result = newer ? zc_lineage_part(newer, why) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = zc_lineage_part(v, why);
    if (result == CUDA_SUCCESS)
        drop_previous(v);
    return result;
}

void zc_lineage_inherit(struct zc_vmm *newer, struct zc_vmm *older, struct zc_block *block)
{
    drop_previous(older);
    newer->chunks = older->chunks;
    newer->count = older->count;
    newer->room = older->room;
    newer->held = older->held;
    older->chunks = NULL;
    older->count = older->room = 0;
    older->held = 0;
    zc_lineage_count(older);
    zc_lineage_count(newer);
    newer->lineage->alias = false; /* What is mapped there is its own now. */
    if (zc_access_end_copies(&older->va) != CUDA_SUCCESS)
        zc_va_unmap(&older->va);
    newer->lineage->previous = older;
    newer->lineage->quarantined = block;
    DL_DELETE2(growing, older, lineage->before, lineage->next);
    move_to(newer, true);
}

void zc_lineage_leave(struct zc_vmm *v)
{
    const char *why;
    struct zc_vmm *newer = v->lineage->newer;
    if (!v->grows)
        return;
    /* If the driver refuses, something is still mapped there, but no other block's memory. */
    if (newer && zc_lineage_part(newer, &why) != CUDA_SUCCESS)
        unlink(newer);
    unlink(v);
    drop_previous(v);
    headroom[v->device] -= v->lineage->headroom;
    DL_DELETE2(growing, v, lineage->before, lineage->next);
}

size_t zc_lineage_headroom(const struct zc_vmm *v)
{
    size_t total = 0, room = v->va.size - v->span, taken = headroom[v->device];
    /* If the rule sets `chunk` or a limit, do not allocate more than was requested. */
    if (!v->lineage->previous || v->rule->chunk || v->bound ||
        zc_real.cuDeviceTotalMem_v2(&total, v->device) != CUDA_SUCCESS || total / PART <= taken)
        return 0;
    size_t more = v->span < AHEAD                   ? AHEAD - v->span
                  : v->span - v->held < v->span / 8 ? v->span / 8
                                                    : 0;
    size_t most = total / PART - taken < room ? total / PART - taken : room;
    return (more < most ? more : most) / v->granularity * v->granularity;
}

void zc_lineage_count(struct zc_vmm *v)
{
    if (!v->grows)
        return;
    headroom[v->device] -= v->lineage->headroom;
    v->lineage->headroom = v->held > v->span ? v->held - v->span : 0;
    headroom[v->device] += v->lineage->headroom;
}

size_t zc_lineage_largest(int device, CUcontext context, size_t span)
{
    size_t most = 0;
    for (const struct zc_vmm *b = growing; b; b = b->lineage->next) {
        size_t own = zc_vmm_own(b), most_of_it = context ? span : own;
        size_t held = b->held < most_of_it ? b->held : most_of_it;
        if (b->device == device && !zc_vmm_paused(b) && (!context || b->va.context == context) &&
            own <= span && held > most)
            most = held;
    }
    return most;
}
