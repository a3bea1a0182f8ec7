/* The end of blocks: one by one, or all of a context. */
#define _GNU_SOURCE
#include "array.h"
#include "memory.h"
#include "pool.h"
#include "vmm.h"
#include <sys/mman.h>

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
        sim_device_give(b->device, b->footprint);
        munmap(b->storage, b->footprint);
        break;
    case SIM_HOST:
        munmap(b->storage, b->footprint);
        break;
    case SIM_REGISTERED:
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
