/* SPDX-License-Identifier: MIT */
/* The step of an array that grows from one block into the next. */
#include "vmm/growth.h"

#include <string.h>

#include "base/arena.h"
#include "base/own.h"
#include "memory/limits.h"

#define AHEAD_MOST ((size_t)512 << 20)
#define DEVICE_PART 256

/* Most blocks that keep addresses: as many as have room for larger ones (vmm/va.c).  With more
 * growing arrays in turn, more is mapped anew. */
#define KEEPERS 64

static ZC_OWN struct {
    struct zc_vmm *keeper[KEEPERS]; /* Blocks with `kept`; the first one has had it longest. */
    unsigned keepers;
    size_t headroom[ZC_DEVICES]; /* Bytes in use, by device. */
} growth;

static void link_step(struct zc_growth *g, struct zc_vmm *new, struct zc_vmm *old)
{
    g->new = new;
    g->old = old;
    new->as_new = old->as_old = g;
}

static void forget_old(struct zc_growth *g)
{
    if (g->old)
        g->old->as_old = NULL;
    g->old = NULL;
}

static void unlink_step(struct zc_growth *g)
{
    forget_old(g);
    g->new->as_new = NULL;
    zc_arena_put(g, sizeof(*g));
}

/* Takes the kept addresses from a block, and removes them from the ledger.  The block that had them
 * is the caller's then. */
static struct zc_vmm *take_kept(struct zc_vmm *v)
{
    struct zc_block *block = v->kept;
    struct zc_backing *backing = block->backing;
    struct zc_vmm *old = backing->vmm;
    unsigned i = 0;
    while (growth.keeper[i] != v)
        i++;
    memmove(&growth.keeper[i], &growth.keeper[i + 1],
            (--growth.keepers - i) * sizeof(*growth.keeper));
    v->kept = NULL;
    zc_block_remove(block);
    zc_arena_put(backing, sizeof(*backing));
    return old;
}

/* Gives the addresses that a block keeps back to the driver. */
static void drop_kept(struct zc_vmm *v)
{
    if (v->kept)
        zc_vmm_give_back(take_kept(v));
}

static void keep_addresses(struct zc_vmm *v, struct zc_block *block)
{
    if (growth.keepers == KEEPERS)
        drop_kept(growth.keeper[0]);
    growth.keeper[growth.keepers++] = v;
    v->kept = block;
}

/* True if `v` can use the addresses that `b` keeps. */
static bool may_precede(const struct zc_vmm *b, const struct zc_vmm *v)
{
    const struct zc_va *kept = &zc_vmm_of(b->kept)->va;
    return b->va.device == v->va.device && b->va.context == v->va.context &&
           zc_vmm_own(b) <= v->span && v->span <= kept->size && b->held >= b->span && !b->as_old;
}

/* The largest of several arrays takes the addresses; of arrays that grow in turn, the one that grew
 * first. */
void zc_growth_enter(struct zc_vmm *v)
{
    struct zc_vmm *b = NULL;
    for (unsigned i = 0; i < growth.keepers; i++)
        if (may_precede(growth.keeper[i], v) && (!b || growth.keeper[i]->span > b->span))
            b = growth.keeper[i];
    struct zc_growth *g = b ? zc_arena_get(sizeof(*g)) : NULL;
    if (!g)
        return;
    struct zc_vmm *old = take_kept(b);
    zc_va_move(&v->va, &old->va);
    zc_vmm_drop(old);
    link_step(g, v, b);
    g->mapped = true;
}

CUresult zc_growth_detach(struct zc_vmm *v, const char **why)
{
    struct zc_growth *g = v->as_new;
    if (!g || !g->mapped)
        return CUDA_SUCCESS;
    *why = "what is mapped in its addresses can't be unmapped";
    CUresult result = zc_va_unmap(&v->va);
    if (result != CUDA_SUCCESS)
        return result;
    g->mapped = false;
    if (!g->pending)
        unlink_step(g);
    return CUDA_SUCCESS;
}

struct zc_growth *zc_growth_begin(struct zc_vmm *new, struct zc_vmm *old)
{
    const char *why;
    if (old->as_old && old->as_old->new == new)
        return old->as_old;
    if (zc_growth_detach(new, &why) != CUDA_SUCCESS ||
        (old->as_old && zc_growth_detach(old->as_old->new, &why) != CUDA_SUCCESS))
        return NULL;
    struct zc_growth *g = zc_arena_get(sizeof(*g));
    if (g)
        link_step(g, new, old);
    return g;
}

void zc_growth_end(struct zc_growth *g)
{
    g->pending = false;
    if (!g->mapped)
        unlink_step(g);
}

void zc_growth_inherit(struct zc_growth *g, struct zc_block *block)
{
    struct zc_vmm *old = g->old, *new = g->new;
    size_t held = old->held;
    drop_kept(old);
    new->chunks = old->chunks;
    new->held = held;
    old->chunks = (struct zc_chunks){0};
    old->held = 0;
    zc_growth_count(old, held);
    zc_growth_count(new, 0);
    g->mapped = false; /* The chunks mapped there are its own now. */
    keep_addresses(new, block);
}

void zc_growth_leave(struct zc_vmm *v)
{
    const char *why;
    /* If the driver refuses, something is still mapped there, but no other block's memory. */
    if (v->as_old && zc_growth_detach(v->as_old->new, &why) != CUDA_SUCCESS)
        forget_old(v->as_old);
    if (v->as_new)
        unlink_step(v->as_new);
    drop_kept(v);
    growth.headroom[v->va.device] -= v->held > v->span ? v->held - v->span : 0;
}

size_t zc_growth_headroom(const struct zc_vmm *v)
{
    size_t total = zc_vmm_facts(v->va.device)->total, room = v->va.size - v->span;
    size_t taken = growth.headroom[v->va.device];
    /* If the rule sets `chunk` or a limit, do not allocate more than was requested. */
    if (!v->kept || v->rule->chunk || v->rule->budget.kind != ZC_LIMIT_NONE ||
        zc_limits_device_bound() || total / DEVICE_PART <= taken)
        return 0;
    size_t more = v->span < AHEAD_MOST              ? AHEAD_MOST - v->span
                  : v->span - v->held < v->span / 8 ? v->span / 8
                                                    : 0;
    size_t most = total / DEVICE_PART - taken < room ? total / DEVICE_PART - taken : room;
    return (more < most ? more : most) / v->granularity * v->granularity;
}

void zc_growth_count(const struct zc_vmm *v, size_t held)
{
    growth.headroom[v->va.device] += v->held > v->span ? v->held - v->span : 0;
    growth.headroom[v->va.device] -= held > v->span ? held - v->span : 0;
}

struct search {
    int device;
    CUcontext context;
    size_t span, most;
};

static void compare_held(struct zc_block *block, void *arg)
{
    struct search *s = arg;
    const struct zc_vmm *b = zc_vmm_of(block);
    if (!b || !b->grows || !b->lazy || b->va.device != s->device ||
        (s->context && b->va.context != s->context))
        return;
    size_t own = zc_vmm_own(b), limit = s->context ? s->span : own;
    size_t held = b->held < limit ? b->held : limit;
    s->most = own <= s->span && held > s->most ? held : s->most;
}

size_t zc_growth_largest(int device, CUcontext context, size_t span)
{
    struct search s = {.device = device, .context = context, .span = span};
    zc_block_each(compare_held, &s);
    return s.most;
}
