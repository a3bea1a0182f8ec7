/* Contexts take their memory with them. */
#include "catch/life.h"
#include "catch/request.h"
#include "catch/streams.h"
#include "place/access.h"
#include "place/budget.h"
#include "place/managed_pool.h"
#include "place/park.h"
#include "place/pinned.h"
#include "place/ring.h"
#include "place/warm.h"

#define BATCH 64 /* Blocks collected per walk of the ledger, whose lock covers no driver call. */

struct collect {
    CUcontext context;
    struct zc_block *block[BATCH];
    unsigned count;
};

static bool collect(struct zc_block *block, void *arg)
{
    struct collect *c = arg;
    /* Memory of a pool outlives the context. */
    bool stays = block->flags & (ZC_BLOCK_GHOST | ZC_BLOCK_POOLED);
    if (block->context == c->context && !stays && zc_block_claim(block))
        c->block[c->count++] = block;
    return c->count < BATCH;
}

/* The driver has freed what was its own; the ledger forgets it, and what is libzc's is given
 * back. */
static void forget(CUcontext context)
{
    struct collect c = {.context = context};
    zc_pinned_forget(context); /* Before blocks return to the pool: they are registered no more. */
    do {
        c.count = 0;
        zc_block_each(collect, &c);
        for (unsigned i = 0; i < c.count; i++) {
            struct zc_backing *backing = c.block[i]->backing;
            zc_budget_return(c.block[i]);
            zc_block_remove(c.block[i]);
            if (backing)
                zc_place_release(backing, true);
        }
    } while (c.count == BATCH);
    zc_park_drop_context(context);
    zc_warm_trim();
    zc_access_forget(context);
    zc_managed_pool_trim();
    zc_ring_forget(context);
    zc_streams_forget(context);
    zc_ask_forget_contexts();
}

ZC_BODY(cuCtxDestroy, (CUcontext context))
{
    (void)entry;
    CUresult result = real(context);
    if (result == CUDA_SUCCESS && zc_life_on())
        forget(context);
    return result;
}

ZC_BODY(cuCtxDestroy_v2, (CUcontext context))
{
    return zc_do_cuCtxDestroy(real, entry, context);
}

static bool primary_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    return zc_real.cuDevicePrimaryCtxGetState &&
           zc_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

/* The handle of an active primary context: retained for a moment, because nothing else tells it.
 * NULL while the process exits: then the kernel takes back what is libzc's. */
static CUcontext primary_of(CUdevice device)
{
    CUcontext context = NULL;
    if (!zc_life_on() || zc_life_closing() || !primary_active(device) ||
        !zc_real.cuDevicePrimaryCtxRetain || !zc_real.cuDevicePrimaryCtxRelease_v2 ||
        zc_real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    zc_real.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

ZC_BODY(cuDevicePrimaryCtxReset, (CUdevice device))
{
    (void)entry;
    CUcontext context = primary_of(device);
    CUresult result = real(device);
    if (result == CUDA_SUCCESS && context)
        forget(context);
    return result;
}

ZC_BODY(cuDevicePrimaryCtxReset_v2, (CUdevice device))
{
    return zc_do_cuDevicePrimaryCtxReset(real, entry, device);
}

/* Only the last release destroys the context. */
ZC_BODY(cuDevicePrimaryCtxRelease, (CUdevice device))
{
    (void)entry;
    CUcontext context = primary_of(device);
    CUresult result = real(device);
    if (result == CUDA_SUCCESS && context && !primary_active(device))
        forget(context);
    return result;
}

ZC_BODY(cuDevicePrimaryCtxRelease_v2, (CUdevice device))
{
    return zc_do_cuDevicePrimaryCtxRelease(real, entry, device);
}
