/* SPDX-License-Identifier: MIT */
/* The place `vmm`: reserved addresses, with device memory mapped behind them in chunks. */
#include "vmm/vmm.h"

#include "base/arena.h"
#include "base/message.h"
#include "base/own.h"
#include "driver/stream.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/reclaim.h"

/* Chunks of a block in both memories, which gives way by them, if the rule does not say `chunk`. */
#define FRONT_CHUNKS 16

static struct zc_vmm_facts facts[ZC_DEVICES];
static ZC_OWN struct {
    /* The host memory at both ends of every block with guards, 0 for none, and the number of blocks
     * that map it.  With the lock of vmm/va.h. */
    CUmemGenericAllocationHandle guard;
    unsigned guard_users;
} own;
ZC_OWN struct zc_vmm_counts zc_vmm_counts;

/* Memory is exportable and usable by other bus devices if the device can do that, so that a program
 * can export its block as a file descriptor. */
static CUmemAllocationProp properties(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    prop.location.id = device;
    if (zc_device_has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (zc_device_has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        prop.allocFlags.gpuDirectRDMACapable = 1;
    return prop;
}

/* Two threads that ask first store the same values. */
const struct zc_vmm_facts *zc_vmm_facts(int device)
{
    struct zc_vmm_facts *f = &facts[device < ZC_DEVICES ? device : ZC_DEVICES - 1];
    size_t granularity = 0;
    if (__atomic_load_n(&f->known, __ATOMIC_ACQUIRE))
        return f;
    if (device >= ZC_DEVICES ||
        !zc_device_has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return NULL;
    CUmemAllocationProp prop = properties(device);
    if (zc_real.cuMemGetAllocationGranularity(
            &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
        !granularity || granularity > UINT32_MAX)
        return NULL;
    zc_real.cuDeviceTotalMem_v2(&f->total, device);
    f->granularity = granularity;
    f->prop = prop;
    __atomic_store_n(&f->known, true, __ATOMIC_RELEASE);
    return f;
}

static bool vmm_push(struct zc_vmm *v, CUmemGenericAllocationHandle handle, size_t size)
{
    struct zc_chunks *c = &v->chunks;
    if (!zc_arena_extend(&c->list, &c->room, c->count, sizeof(*c->list), v->guard ? 3 : 1))
        return false;
    c->list[c->count++] = (struct zc_chunk){handle, size};
    v->held += size;
    return true;
}

CUresult zc_vmm_handle(const struct zc_vmm *v, bool host, bool reclaims, size_t size,
                       CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp prop = facts[v->va.device].prop;
    if (host) {
        int node = zc_node_of_device(v->va.device);
        prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        prop.location.id = node < 0 ? 0 : node;
    }
    /* They never reach host memory: a driver refuses what asks for that (measured). */
    if (host || v->rdma == ZC_RDMA_NO)
        prop.allocFlags.gpuDirectRDMACapable = 0;
    return reclaims && !host ? ZC_RECLAIMING(zc_real.cuMemCreate(handle, size, &prop, 0))
                             : zc_real.cuMemCreate(handle, size, &prop, 0);
}

/* It is host memory, so that as much device memory is free as without libzc. */
bool zc_vmm_take_guard(struct zc_vmm *v)
{
    if (!zc_va_lock())
        return false;
    if (!own.guard_users &&
        zc_vmm_handle(v, true, true, v->granularity, &own.guard) != CUDA_SUCCESS)
        own.guard = 0;
    v->guard = own.guard;
    own.guard_users += v->guard;
    zc_va_unlock();
    return v->guard;
}

static void drop_guard(void)
{
    ZC_VA_LOCKED;
    if (!--own.guard_users)
        zc_real.cuMemRelease(own.guard);
}

CUresult zc_vmm_drop_chunks(struct zc_vmm *v, unsigned count)
{
    CUresult result = CUDA_SUCCESS;
    while (v->chunks.count > count) {
        const struct zc_chunk *p = &v->chunks.list[--v->chunks.count];
        bool shared = v->guard && p->handle == own.guard;
        CUresult released = shared ? CUDA_SUCCESS : zc_real.cuMemRelease(p->handle);
        v->held -= p->size;
        result = result == CUDA_SUCCESS ? released : result;
    }
    return result;
}

static CUresult push_guard(struct zc_vmm *v)
{
    return !v->guard || vmm_push(v, own.guard, v->granularity) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult zc_vmm_create(struct zc_vmm *v, size_t ahead)
{
    CUmemGenericAllocationHandle handle;
    unsigned before = v->chunks.count;
    CUresult result = push_guard(v);
    size_t most = v->span - zc_vmm_guard(v) + ahead;
    size_t border = zc_vmm_spilled(v) ? v->va.host.from * ZC_VA_UNIT : most;
    size_t each = v->rule->chunk || border == most ? v->rule->chunk : border / FRONT_CHUNKS;
    while (result == CUDA_SUCCESS && v->held < most) {
        bool host = v->held >= border;
        size_t missing = (host ? most : border) - v->held;
        /* Host memory is one chunk: the driver sets no two handles of it. */
        size_t chunk = host ? 0 : zc_va_round_up(each, v->granularity);
        size_t size = chunk && chunk < missing ? chunk : missing;
        result = zc_vmm_handle(v, host, !ahead, size, &handle);
        if (result == CUDA_SUCCESS && !vmm_push(v, handle, size)) {
            zc_real.cuMemRelease(handle);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (result == CUDA_SUCCESS)
        result = push_guard(v);
    if (result != CUDA_SUCCESS)
        zc_vmm_drop_chunks(v, before);
    return result;
}

CUresult zc_vmm_attach(struct zc_vmm *v, size_t from, size_t to, size_t ahead, const char **why)
{
    const char *other;
    unsigned before = v->chunks.count;
    CUresult result = CUDA_SUCCESS;
    *why = "cuMemCreate refuses";
    if (to > v->held)
        result = zc_vmm_create(v, ahead);
    if (result != CUDA_SUCCESS) { /* Chunks taken over from another block hold data, so they must
                                   * stay reachable. */
        zc_va_map(&v->va, &v->chunks, from, to, &other);
        return result;
    }
    result = zc_va_map(&v->va, &v->chunks, from, to, why);
    /* The new chunks are at the end, so none of them is mapped in this case. */
    if (result != CUDA_SUCCESS)
        zc_vmm_drop_chunks(v, before);
    return result;
}

struct zc_vmm *zc_vmm_of(const struct zc_block *block)
{
    if (!block || (block->place != ZC_PLACE_VMM && block->place != ZC_PLACE_SHARED) ||
        !(block->flags & ZC_BLOCK_CONVERTED))
        return NULL;
    return ((const struct zc_backing *)block->backing)->vmm;
}

void zc_vmm_count_movable(const struct zc_vmm *v, int change)
{
    zc_raise_shared(&zc_vmm_counts.below, UINT64_MAX - v->va.base);
    zc_raise_shared(&zc_vmm_counts.to, v->va.base + v->va.size);
    __atomic_fetch_add(&zc_vmm_counts.spilled, zc_vmm_spilled(v) ? change : 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&zc_vmm_counts.fetched, zc_vmm_may_fetch(v) ? change : 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&zc_vmm_counts.movable, change, __ATOMIC_RELEASE);
}

void zc_vmm_drop_backed(struct zc_backed *b)
{
    zc_va_drop(b->alias);
    for (unsigned i = b->guard + b->kept; i + b->guard < b->chunks.count; i++)
        zc_real.cuMemRelease(b->chunks.list[i].handle);
    zc_arena_put(b->chunks.list, b->chunks.room * sizeof(*b->chunks.list));
    *b = (struct zc_backed){.guard = false};
}

CUresult zc_vmm_arrive(struct zc_vmm *v)
{
    CUevent came = v->moves ? zc_movable(v)->came : NULL;
    if (!came)
        return CUDA_SUCCESS;
    zc_movable(v)->came = NULL;
    CUresult result = zc_stream_wait_mark(came);
    return result == CUDA_SUCCESS ? result : zc_stream_wait_context(v->va.context);
}

void zc_vmm_count_host_copy(struct zc_vmm *v, size_t bytes)
{
    zc_limits_keep(v->va.device, (int64_t)(bytes - zc_movable(v)->host_copy_bytes));
    zc_movable(v)->host_copy_bytes = bytes;
}

void zc_vmm_drop_host_copy(struct zc_vmm *v)
{
    zc_limits_give(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT, zc_movable(v)->host_copy_bytes);
    zc_movable(v)->host_copy_bytes = 0;
    zc_vmm_drop_backed(&zc_movable(v)->host_copy);
}

void zc_vmm_drop(struct zc_vmm *v)
{
    if (v->moves) {
        zc_va_drop(zc_movable(v)->alias);
        zc_vmm_drop_host_copy(v);
        zc_vmm_count_movable(v, -1);
    }
    if (v->guard)
        drop_guard();
    zc_arena_put(v->chunks.list, v->chunks.room * sizeof(*v->chunks.list));
    zc_arena_put(v, zc_vmm_record(v->rule));
}

CUresult zc_vmm_give_back(struct zc_vmm *v)
{
    zc_vmm_arrive(v);
    CUresult unmapped = zc_va_unmap(&v->va);
    if (unmapped != CUDA_SUCCESS && unmapped != CUDA_ERROR_DEINITIALIZED &&
        zc_message_first("release"))
        zc_message(ZC_WARN, "refused",
                   "the driver does not unmap %B of 'vmm' that the program has freed (code %u): it "
                   "stays allocated",
                   (uint64_t)v->span, (unsigned)unmapped);
    CUresult released = zc_vmm_drop_chunks(v, 0);
    CUresult freed = zc_va_free(&v->va);
    zc_vmm_drop(v);
    return unmapped != CUDA_SUCCESS ? unmapped : released != CUDA_SUCCESS ? released : freed;
}
