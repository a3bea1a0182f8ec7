/* SPDX-License-Identifier: MIT */
/* The end of blocks: one by one, or all of a context. */
#define _GNU_SOURCE
#include "array.h"
#include "host_slab.h"
#include "memory.h"
#include "pages.h"
#include "pool.h"
#include "vmm.h"

/* The CPU's side of memory from the driver goes, whatever the program put there; that of registered
 * memory stays the program's. */
static void unpin(struct sim_block *b)
{
    struct sim_view view = b->view;
    if (b->slab)
        sim_slab_give(b->slab, (void *)(uintptr_t)b->va, b->size);
    else if (b->kind == SIM_HOST)
        sim_munmap((void *)(uintptr_t)b->va, b->footprint);
    sim_block_remove(b);
    sim_view_close(&view);
}

void sim_block_free(struct sim_block *b)
{
    switch (b->kind) {
    case SIM_DEVICE:
        sim_device_free(b);
        return;
    case SIM_POOLED:
        sim_pool_free(b);
        return;
    case SIM_MANAGED:
        if (b->pool)
            sim_pool_free(b);
        sim_device_give(b->device, b->taken);
        sim_munmap(b->storage, b->footprint);
        break;
    case SIM_HOST:
    case SIM_REGISTERED:
        unpin(b);
        return;
    case SIM_VMM:
    case SIM_GLOBAL:
        break;
    }
    sim_block_remove(b);
}

/* VMM mappings and pooled blocks belong to the process and its pools, not to a context. */
void sim_memory_context_end(struct sim_context *ctx)
{
    struct sim_block *b;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL;) {
        if (b->ctx == ctx && b->kind != SIM_VMM && b->kind != SIM_POOLED)
            sim_block_free(b);
        else
            i++;
    }
    sim_arrays_context_end(ctx);
}
