/* SPDX-License-Identifier: MIT */
/* Contexts: made ones, peer access between them, and destroyed ones, which take their memory along.
 */
#include "base/life.h"
#include "base/message.h"
#include "base/module.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "hook/request.h"
#include "ledger/counters.h"
#include "ledger/rules.h"
#include "memory/limits.h"
#include "place/fallback.h"
#include "place/hostmem.h"
#include "place/verbs.h"
#include "vmm/access.h"

#define BATCH 64 /* Blocks collected in one walk of the ledger. */

struct collect {
    CUcontext context;
    bool primary; /* The device's primary context, which is reset as a whole. */
    struct zc_block *block[BATCH];
    unsigned count;
};

static void collect(struct zc_block *block, void *arg)
{
    struct collect *c = arg;
    bool pooled = !c->primary && (block->flags & ZC_BLOCK_STREAM);
    /* Pool memory outlives the context. */
    if (c->count < BATCH && block->context == c->context && !pooled &&
        !(block->flags & ZC_BLOCK_QUARANTINED) && zc_block_claim(block))
        c->block[c->count++] = block;
}

/* A registration of the program's goes, too; its pages may be in the host heap. */
static void forget_block(struct zc_block *block)
{
    bool registered = block->api == ZC_API_cuMemHostRegister && (block->flags & ZC_BLOCK_FOREIGN);
    uint64_t base = block->base, size = block->size;
    zc_block_remove(block);
    if (registered)
        zc_hostmem_return((void *)base, size);
}

/* The driver has freed its own memory: removes it from the ledger, and gives libzc's back. */
static void context_forget(CUcontext context, bool primary)
{
    struct collect c = {.context = context, .primary = primary};
    zc_modules_context_lost(context);
    do {
        bool mine = zc_driver_lock(); /* No thread moves blocks while they are claimed. */
        c.count = 0;
        zc_block_each(collect, &c);
        if (mine)
            zc_driver_unlock();
        for (unsigned i = 0; i < c.count; i++) {
            struct zc_backing *backing = c.block[i]->backing;
            zc_budget_change(c.block[i], -1);
            forget_block(c.block[i]);
            if (backing)
                zc_place_release(backing, true);
        }
    } while (c.count == BATCH);
    zc_modules_context_gone(context);
    zc_context_note(context, false);
}

/* Before and after a call that may destroy a context, which is returned; NULL if it is unknown.
 * `sure`: other threads leave it alone meanwhile. */
static CUcontext begin_leaving(struct zc_leaving *leaving, CUcontext context, bool sure)
{
    *leaving = (struct zc_leaving){.noted = false};
    if (context && sure)
        zc_leaving_begin(leaving, context);
    zc_launch_forget();
    zc_place_pause();
    return context;
}

static CUresult end_leaving(struct zc_leaving *leaving, CUresult result, CUcontext gone,
                            bool primary)
{
    if (result == CUDA_SUCCESS && gone)
        context_forget(gone, primary);
    zc_place_resume();
    zc_leaving_end(leaving);
    return result;
}

/* The time is part of the driver's start. */
#define MAKES_CONTEXT(base, params, args)                                                          \
    ZC_BODY(base, params)                                                                          \
    {                                                                                              \
        uint64_t begun = zc_counters_begin_start();                                                \
        CUresult result = real args;                                                               \
        zc_counters_end_start(begun);                                                              \
        if (result == CUDA_SUCCESS && zc_life_on())                                                \
            zc_context_note(*context, true);                                                       \
        return result;                                                                             \
    }
MAKES_CONTEXT(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))
MAKES_CONTEXT(cuCtxCreate_v2, (CUcontext * context, unsigned int flags, CUdevice device),
              (context, flags, device))
MAKES_CONTEXT(cuCtxCreate_v3,
              (CUcontext * context, CUexecAffinityParam *params, int count, unsigned int flags,
               CUdevice device),
              (context, params, count, flags, device))
MAKES_CONTEXT(cuCtxCreate_v4,
              (CUcontext * context, CUctxCreateParams *params, unsigned int flags, CUdevice device),
              (context, params, flags, device))

ZC_BODY(cuCtxDestroy, (CUcontext context))
{
    struct zc_leaving leaving;
    CUcontext known = begin_leaving(&leaving, zc_life_on() ? context : NULL, true);
    return end_leaving(&leaving, real(context), known, false);
}

/* Only the last reference destroys it, and then it can't be pushed. */
ZC_BODY(cuCtxDetach, (CUcontext context))
{
    struct zc_leaving leaving;
    CUcontext known = begin_leaving(&leaving, zc_life_on() ? context : NULL, true);
    bool pushed;
    CUresult result = real(context);
    bool lives =
        result == CUDA_SUCCESS && known && zc_context_push(context, &pushed) == CUDA_SUCCESS;
    zc_context_pop(lives && pushed);
    return end_leaving(&leaving, result, lives ? NULL : known, false);
}

/* NULL while the process exits: the kernel will free everything. */
static CUcontext primary_of(CUdevice device)
{
    return zc_life_on() && !zc_life_closing() ? zc_context_primary(device) : NULL;
}

ZC_BODY(cuDevicePrimaryCtxReset, (CUdevice device))
{
    struct zc_leaving leaving;
    CUcontext context = begin_leaving(&leaving, primary_of(device), true);
    return end_leaving(&leaving, real(device), context, true);
}

/* Only the last release destroys the context. */
ZC_BODY(cuDevicePrimaryCtxRelease, (CUdevice device))
{
    struct zc_leaving leaving;
    CUcontext context = begin_leaving(&leaving, primary_of(device), false);
    CUresult result = real(device);
    bool gone = result == CUDA_SUCCESS && context && !zc_context_primary(device);
    return end_leaving(&leaving, result, gone ? context : NULL, false);
}

/* If the rights of a block can't be changed, the program gets that code, and its call has not
 * happened. */
ZC_BODY(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))
{
    CUresult result = real(peer, flags);
    if (result != CUDA_SUCCESS || !zc_life_on() || zc_life_closing())
        return result;
    result = zc_access_enable(peer);
    if (result != CUDA_SUCCESS)
        zc_real.cuCtxDisablePeerAccess(peer);
    return result;
}
