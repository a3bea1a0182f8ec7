/* SPDX-License-Identifier: MIT */
/* The ordered table of blocks, and what a copy or a kernel may do at an address. */
#include "hmm.h"
#include "memory.h"
#include "pool.h"
#include "../sim.h"
#include <stdlib.h>
#include <string.h>

/* The blocks, sorted by address, in leaves of bounded size, so that a million of them are no
 * slower than a few. */
#define LEAF 512
struct leaf {
    CUdeviceptr first;             /* address of its first block */
    size_t count;                  /* 1 at least */
    struct sim_block *block[LEAF]; /* in the order of their addresses */
};
static struct leaf **leaves; /* owned array, sorted */
static size_t leaf_count, leaf_capacity;
static size_t walked, walked_leaf, walked_at; /* where sim_block_at has got to; 0, 0, 0 to begin */
__thread int sim_kernel_device = -1;

/* Index of the leaf that an address belongs to; the first one for lower addresses. */
static size_t leaf_of(CUdeviceptr va)
{
    size_t low = 0, high = leaf_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (leaves[mid]->first <= va)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? low - 1 : 0;
}

/* Index in the leaf of the first block that starts after `va`. */
static size_t block_after(const struct leaf *l, CUdeviceptr va)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (l->block[mid]->va <= va)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct sim_block *sim_block_find(CUdeviceptr va)
{
    if (leaf_count == 0)
        return NULL;
    const struct leaf *l = leaves[leaf_of(va)];
    size_t at = block_after(l, va);
    return at > 0 && va - l->block[at - 1]->va < l->block[at - 1]->size ? l->block[at - 1] : NULL;
}

struct sim_block *sim_block_overlap(CUdeviceptr va, size_t size)
{
    struct sim_block *b = sim_block_find(va), *next = NULL;
    size_t i = leaf_of(va), at = leaf_count ? block_after(leaves[i], va) : 0;
    if (b || leaf_count == 0)
        return b;
    if (at < leaves[i]->count)
        next = leaves[i]->block[at];
    else if (i + 1 < leaf_count)
        next = leaves[i + 1]->block[0];
    return next && next->va - va < size ? next : NULL;
}

struct sim_block *sim_block_at(size_t i)
{
    if (i < walked)
        walked = walked_leaf = walked_at = 0;
    while (walked_leaf < leaf_count) {
        size_t left = leaves[walked_leaf]->count - walked_at;
        if (i - walked < left) {
            walked_at += i - walked;
            walked = i;
            return leaves[walked_leaf]->block[walked_at];
        }
        walked += left;
        walked_at = 0;
        walked_leaf++;
    }
    return NULL;
}

static void leaf_insert(size_t i, struct leaf *l)
{
    if (leaf_count == leaf_capacity) {
        leaf_capacity = leaf_capacity ? 2 * leaf_capacity : 64;
        leaves = realloc(leaves, leaf_capacity * sizeof *leaves);
    }
    memmove(leaves + i + 1, leaves + i, (leaf_count - i) * sizeof *leaves);
    leaves[i] = l;
    leaf_count++;
}

/* The leaf for a new block, with room for it. */
static struct leaf *leaf_with_room(CUdeviceptr va)
{
    size_t i = leaf_of(va);
    if (leaf_count == 0)
        leaf_insert(0, calloc(1, sizeof(struct leaf)));
    struct leaf *l = leaves[i];
    if (l->count < LEAF)
        return l;
    struct leaf *more = calloc(1, sizeof *more);
    l->count = LEAF / 2;
    more->count = LEAF - l->count;
    memcpy(more->block, l->block + l->count, more->count * sizeof *more->block);
    more->first = more->block[0]->va;
    leaf_insert(i + 1, more);
    return va < more->first ? l : more;
}

struct sim_block *sim_block_add(CUdeviceptr va, size_t size, enum sim_kind kind, int device,
                                struct sim_context *ctx)
{
    struct sim_block *b = calloc(1, sizeof *b);
    struct leaf *l = leaf_with_room(va);
    size_t at = block_after(l, va);
    memmove(l->block + at + 1, l->block + at, (l->count - at) * sizeof *l->block);
    l->block[at] = b;
    l->count++;
    b->va = va;
    l->first = l->block[0]->va;
    walked = walked_leaf = walked_at = 0;
    b->size = size;
    b->kind = kind;
    b->device = device;
    b->ctx = sim_context_base(ctx);
    b->id = sim_next_id();
    b->sync_memops = kind != SIM_HOST && kind != SIM_REGISTERED;
    return b;
}

void sim_block_remove(struct sim_block *block)
{
    size_t i = leaf_of(block->va);
    struct leaf *l = leaves[i];
    size_t at = block_after(l, block->va);
    memmove(l->block + at - 1, l->block + at, (l->count - at) * sizeof *l->block);
    walked = walked_leaf = walked_at = 0;
    free(block);
    if (--l->count > 0) {
        l->first = l->block[0]->va;
        return;
    }
    leaf_count--;
    memmove(leaves + i, leaves + i + 1, (leaf_count - i) * sizeof *leaves);
    free(l);
}

/* Whether a run of mappings side by side, which are one range, holds the bytes with these rights,
 * and of what handles it consists.  Between a mapping and registered pages a driver refuses a copy
 * (measured). */
static bool run_holds(const struct sim_block *b, CUdeviceptr va, size_t size, int user, bool write,
                      struct sim_place *out)
{
    CUdeviceptr end = va + size;
    bool on_host = b->device < 0;
    out->mixed = out->hosted = false;
    if (end < va)
        return false;
    while (b->kind == SIM_VMM) {
        if (b->access[user] <
            (write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ))
            return false;
        out->mixed = out->mixed || (b->device < 0) != on_host;
        if (end <= b->va + b->size)
            return true;
        out->hosted = out->hosted || b->device < 0;
        b = sim_block_find(b->va + b->size);
        if (!b || b->kind != SIM_VMM)
            return false;
        out->hosted = out->hosted || b->device < 0;
    }
    return end <= b->va + b->size;
}

static enum sim_traffic_kind traffic_kind(const struct sim_block *b, bool on_host)
{
    switch (b->kind) {
    case SIM_HOST:
    case SIM_REGISTERED:
        return SIM_PINNED;
    case SIM_MANAGED:
        return SIM_UNIFIED;
    default:
        return on_host ? SIM_PINNED : SIM_ON_DEVICE;
    }
}

/* A mapping that the device may not touch but the CPU may is pageable memory to the copy engine. */
static CUresult resolve_cpu_only(const struct sim_block *b, CUdeviceptr va, size_t size, bool write,
                                 struct sim_place *out)
{
    if (b->kind != SIM_VMM || !run_holds(b, va, size, SIM_CPU, write, out))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_place){(char *)(uintptr_t)va, SIM_PAGEABLE, -1, false, false};
    return CUDA_SUCCESS;
}

/* The GPU's address of a byte of a block. */
static char *storage_of(const struct sim_block *b, CUdeviceptr va, int device)
{
    if (b->kind != SIM_VMM)
        return b->kind == SIM_REGISTERED ? sim_wrong_view(b->storage + (va - b->va))
                                         : b->storage + (va - b->va);
    char *wrong = sim_wrong_mapping(va);
    return wrong ? wrong : sim_alias(va, device);
}

/* A pool's rights are those of all its blocks, whenever these were made; copies need them as
 * kernels do (two H200s). */
static bool pool_lets(const struct sim_block *b, int device)
{
    return b->kind != SIM_POOLED || b->device == device || b->pool->access[device];
}

CUresult sim_resolve(CUdeviceptr va, size_t size, int device, bool write, bool pageable,
                     struct sim_place *out)
{
    struct sim_block *b = sim_block_find(va);
    if (!b) {
        bool cpus = !sim_va_reserved(va) ||
                    (sim_reservation_holds(va, size) && !sim_block_overlap(va, size));
        if (!(pageable || sim_reaches_all(device)) || va == 0 || !cpus)
            return CUDA_ERROR_INVALID_VALUE;
        char *p = pageable ? (char *)(uintptr_t)va : sim_system_view(va, device);
        *out = (struct sim_place){p, SIM_PAGEABLE, -1, false, false};
        return CUDA_SUCCESS;
    }
    if (b->dormant)
        return CUDA_ERROR_INVALID_VALUE;
    if (write && b->kind == SIM_REGISTERED && (b->flags & CU_MEMHOSTREGISTER_READ_ONLY))
        return CUDA_ERROR_INVALID_VALUE;
    if (!pool_lets(b, device))
        return CUDA_ERROR_INVALID_VALUE;
    if (!run_holds(b, va, size, device, write, out))
        return pageable ? resolve_cpu_only(b, va, size, write, out) : CUDA_ERROR_INVALID_VALUE;
    bool on_host = b->kind == SIM_VMM && b->device < 0;
    out->kind = traffic_kind(b, on_host);
    out->device = out->kind == SIM_ON_DEVICE || b->kind == SIM_MANAGED ? b->device : -1;
    out->pointer = storage_of(b, va, device);
    return CUDA_SUCCESS;
}

bool sim_has_peer(int device, int other)
{
    for (struct sim_context *ctx = sim_contexts; ctx; ctx = ctx->next)
        if (ctx->alive && ctx->device == device && ctx->peer[other])
            return true;
    return false;
}

bool sim_reaches(const struct sim_block *b, int device)
{
    bool on_device = b->kind == SIM_DEVICE || b->kind == SIM_GLOBAL;
    return !on_device || b->device == device || sim_has_peer(device, b->device);
}

/* The block that an address without one shares a 2 MiB page of device memory with: the page is
 * mapped as a whole. */
static struct sim_block *page_mate(CUdeviceptr va)
{
    struct sim_block *b =
        sim_va_reserved(va) ? sim_block_overlap(va & ~(CUdeviceptr)(SIM_PAGE - 1), SIM_PAGE) : NULL;
    return b && (b->kind == SIM_DEVICE || b->kind == SIM_POOLED) ? b : NULL;
}

/* The memory of a kernel of `device` behind an address; NULL is a page fault. */
static void *gpu_view(CUdeviceptr va, int device, bool write)
{
    struct sim_block *b = sim_block_find(va);
    if (!b && (b = page_mate(va)) == NULL)
        return sim_system_view(va, device);
    if (b->dormant || (b->kind == SIM_VMM && b->access[device] < (write ? 3 : 1)))
        return NULL;
    if (write && b->kind == SIM_REGISTERED && (b->flags & CU_MEMHOSTREGISTER_READ_ONLY) &&
        !sim_wrong(SIM_UPGRADE))
        return NULL;
    if (!sim_reaches(b, device))
        return NULL;
    if (!pool_lets(b, device))
        return NULL;
    return storage_of(b, va, device);
}

static void *gpu_pointer(CUdeviceptr va, bool write)
{
    struct sim_context *ctx;
    sim_relock();
    int device = sim_kernel_device;
    if (device < 0)
        device = sim_current(&ctx) == CUDA_SUCCESS ? ctx->device : 0;
    void *p = gpu_view(va, device, write);
    sim_unlock();
    return p;
}

SIM_EXPORT void *sim_gpu_pointer(CUdeviceptr va)
{
    return gpu_pointer(va, false);
}

SIM_EXPORT void *sim_gpu_pointer_write(CUdeviceptr va)
{
    return gpu_pointer(va, true);
}
