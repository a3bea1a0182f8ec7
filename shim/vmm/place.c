/* SPDX-License-Identifier: MIT */
/* The place `vmm`: makes blocks of mapped memory. */
#include "base/arena.h"
#include "base/message.h"
#include "base/text.h"
#include "driver/lock.h"
#include "driver/marks.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/refusals.h"
#include "memory/limits.h"
#include "vmm/access.h"
#include "vmm/grow.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

/* Reserves the addresses, and attaches the memory unless the block is lazy. */
static CUresult vmm_place_fill(struct zc_vmm *v, const char **why)
{
    if (v->lazy)
        return zc_lazy_admit(v, why);
    zc_lazy_before_request(v->va.device, zc_vmm_due(v));
    CUresult result = zc_access_reserve(&v->va, v->span, v->granularity, false, why);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_vmm_attach(v, 0, v->span, 0, why);
    if (result != CUDA_SUCCESS)
        zc_va_free(&v->va);
    return result;
}

/* Why a request can't have vmm memory; CUDA_SUCCESS if it can. */
static CUresult vmm_place_refuse(const struct zc_want *want, const struct zc_vmm_facts *f,
                                 size_t placed, const char **why)
{
    *why = "the device has no virtual memory management";
    if (!f)
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "at most 1 MiB, of which the driver packs several into the 2 MiB that it would take";
    if (want->size <= f->granularity / 2)
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "more than the device has free"; /* With guards it can't even be rounded up. */
    if (want->size > SIZE_MAX - 3 * f->granularity)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *why = "more than the device has beside managed memory";
    if (placed && !zc_limits_device_holds(want->device, placed, false))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* Places the block in its range: what its last granule leaves over is split to both sides of it,
 * or guard granules are added; see zc_margin().  Returns the bytes before the block. */
static size_t lay_out(struct zc_vmm *v, size_t slack, const struct zc_vmm_facts *f)
{
    size_t before = slack / 2 / ZC_BLOCK_PAGE * ZC_BLOCK_PAGE;
    if (before < ZC_MARGIN_MAX && f->granularity <= ZC_BEFORE_MAX && zc_vmm_take_guard(v)) {
        before = f->granularity;
        v->span += 2 * before;
    }
    return before < ZC_BEFORE_MAX ? before : ZC_BEFORE_MAX;
}

static CUresult vmm_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    const struct zc_vmm_facts *f = zc_vmm_facts(want->device);
    bool grows = want->rule->grow && !want->lazy;
    bool lazy = grows || want->lazy || want->rule->commit == ZC_COMMIT_LAZY;
    size_t placed = want->size - out->spilled;
    CUresult result = vmm_place_refuse(want, f, lazy ? 0 : placed, why);
    if (result != CUDA_SUCCESS)
        return result;
    struct zc_vmm *v = zc_arena_get(zc_vmm_record(want->rule));
    if (!v) {
        *why = "libzc has no memory for its record";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    v->granularity = (uint32_t)f->granularity;
    v->span = zc_va_round_up(want->size, f->granularity);
    v->va.device = want->device;
    v->va.context = want->context;
    bool moves = want->rule->spill >= ZC_SPILL_MOVE && !lazy;
    v->rdma = moves ? ZC_RDMA_NO : want->rule->rdma; /* A network card would not see it move. */
    v->rule = want->rule;
    v->grows = grows;
    v->lazy = lazy;
    v->va.base = v->span <= want->at_bytes ? want->at : 0;
    v->va.size = want->at_bytes;
    size_t before = lazy ? 0 : lay_out(v, placed % want->size ? 0 : v->span - want->size, f);
    if (out->spilled) {
        v->va.host.to = (uint32_t)((v->span - zc_vmm_guard(v)) / ZC_VA_UNIT);
        v->va.host.from = (uint32_t)((zc_vmm_guard(v) + placed) / ZC_VA_UNIT);
    }
    result = vmm_place_fill(v, why);
    if (result != CUDA_SUCCESS) {
        zc_vmm_drop(v);
        return result;
    }
    v->moves = moves;
    if (moves)
        zc_vmm_count_movable(v, 1);
    out->vmm = v;
    out->base = v->va.base + before;
    out->before = (uint16_t)(before / ZC_BLOCK_PAGE);
    out->room = v->va.size - before;
    return CUDA_SUCCESS;
}

/* Handles and addresses belong to the process, not to a context, so they are given back even if the
 * context is gone. */
static CUresult vmm_unmake(struct zc_backing *backing, bool gone)
{
    struct zc_vmm *v = backing->vmm;
    if (gone && v->moves)
        zc_movable(v)->came = NULL; /* The event has gone with its context. */
    if (v->lazy)
        zc_grow_forget(v);
    return zc_vmm_give_back(v);
}

/* If the driver refuses, all of it is mapped as before. */
static CUresult vmm_detach(struct zc_backing *backing)
{
    struct zc_vmm *v = backing->vmm;
    const char *why;
    ZC_DRIVER_HELD mine = v->lazy && zc_driver_lock();
    CUresult result = zc_va_unmap(&v->va);
    if (result != CUDA_SUCCESS)
        zc_va_map(&v->va, &v->chunks, 0, v->held, &why);
    return result;
}

/* A block that moves is brought to rest where it is. */
static CUresult vmm_retreat(const struct zc_block *block, enum zc_fn fn, bool keeps,
                            const char *why)
{
    (void)why;
    bool held = zc_move_enter();
    keeps |= zc_move_of(block) && zc_vmm_may_fetch(zc_vmm_of(block));
    CUresult result = keeps ? zc_move_never(block, fn) : CUDA_SUCCESS;
    zc_move_leave(held);
    return result == CUDA_SUCCESS ? zc_grow_materialize(block, fn) : result;
}

struct given {
    int rule;
    uint64_t ended[ZC_DEVICES];
    struct zc_text text;
};

/* Adds a block of a rule, if its last launch has not ended. */
static void list_given(struct zc_block *b, void *arg)
{
    struct given *g = arg;
    const struct zc_vmm *v = b->place == ZC_PLACE_VMM && b->rule == g->rule ? zc_move_of(b) : NULL;
    if (v && __atomic_load_n(&zc_movable(v)->mark, __ATOMIC_RELAXED) > g->ended[v->va.device])
        zc_text_fmt(&g->text, "%sblock %U (%B at %x), site %X", g->text.len ? ", " : "", b->id,
                    b->size, b->base, zc_site_id(b->site));
}

/* A kernel failed with an illegal address: names the rules whose blocks it may have used other than
 * promised, and those that it may have been given. */
static void vmm_diagnose(void)
{
    char list[400];
    static bool said; /* Atomic. */
    const struct zc_policy *policy = zc_rules();
    if (!__atomic_load_n(&zc_vmm_counts.fetched, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        return;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct zc_rule *rule = &policy->rules[i];
        if (rule->spill != ZC_SPILL_FETCH)
            continue;
        struct given g = {.rule = (int)i, .text = zc_text_on(list, sizeof(list))};
        for (int d = 0; d < ZC_DEVICES; d++)
            g.ended[d] = zc_mark_ended(d);
        zc_block_each(list_given, &g);
        zc_refusal_count(policy, rule);
        zc_message(
            ZC_ERROR, "refused",
            "a kernel failed with an illegal address, as one does that writes a block of "
            "rule %s (%s:%u), or reaches one by other addresses than the arguments of its "
            "launch: 'spill = fetch' is the promise that none does; say 'spill = move' there; %s%s",
            rule->name, policy->file, rule->line,
            g.text.len ? "launches that may not have ended were given "
                       : "no launch that may not have ended was given one",
            zc_text_cstr(&g.text));
    }
}

const struct zc_place zc_place_vmm = {.id = ZC_PLACE_VMM,
                                      .real = ZC_KIND_DEVICE,
                                      .make = vmm_make,
                                      .detach = vmm_detach,
                                      .unmake = vmm_unmake,
                                      .retreat = vmm_retreat,
                                      .diagnose = vmm_diagnose};
