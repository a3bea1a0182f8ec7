/* SPDX-License-Identifier: MIT */
/* The place `vmm`: reserved addresses, with device memory mapped behind them in chunks. */
#include "vmm/vmm.h"

#include <string.h>

#include "base/arena.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "vmm/access.h"
#include "vmm/grow.h"
#include "vmm/lazy.h"

/* Small blocks may have a part of the device, or so many granules on devices with little memory. */
#define SMALL_PART 256
#define SMALL_MIN 64

#define RANGES 32u /* Most ranges of a block that are noted, the innermost ones. */

/* What the driver says about a device's memory; it never changes. */
struct facts {
    bool known;               /* The other fields are set.  Atomic. */
    size_t granularity;       /* Sizes are multiples of it. */
    CUmemAllocationProp prop; /* Properties of the handles. */
    size_t small_most;        /* Small blocks that it may have. */
};
static struct facts facts[ZC_VA_DEVICES];
static ZC_OWN size_t small_blocks[ZC_VA_DEVICES]; /* Atomic. */
ZC_OWN uint32_t zc_vmm_movable, zc_vmm_hosted;

/* The host memory at both ends of every block that has a rim.  With the lock of vmm/access.h. */
static ZC_OWN struct {
    CUmemGenericAllocationHandle handle; /* 0 for none. */
    unsigned users;                      /* Number of blocks that map it. */
} rim;

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

/* Two threads that ask first store the same values.  NULL if the device can't map memory by
 * hand. */
static const struct facts *facts_of(int device)
{
    struct facts *f = &facts[device < ZC_VA_DEVICES ? device : ZC_VA_DEVICES - 1];
    CUmemAllocationProp prop;
    size_t granularity = 0, total = 0;
    if (__atomic_load_n(&f->known, __ATOMIC_ACQUIRE))
        return f;
    if (device >= ZC_VA_DEVICES ||
        !zc_device_has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return NULL;
    prop = properties(device);
    if (zc_real.cuMemGetAllocationGranularity(
            &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
        !granularity || granularity > UINT32_MAX)
        return NULL;
    zc_real.cuDeviceTotalMem_v2(&total, device);
    f->granularity = granularity;
    f->prop = prop;
    f->small_most = total / SMALL_PART / granularity;
    f->small_most = f->small_most > SMALL_MIN ? f->small_most : SMALL_MIN;
    __atomic_store_n(&f->known, true, __ATOMIC_RELEASE);
    return f;
}

/* Asks the driver in advance what the first requests under a policy would ask, unless they are left
 * as they are until an array has grown, which most never do. */
static void start(const struct zc_policy *policy)
{
    size_t total = 0, most = 0, granularity = 0;
    bool placing = false, growing = false;
    int count = 0;
    for (size_t i = 0; i < policy->rule_count; i++) {
        bool places = zc_rule_has_place(&policy->rules[i], ZC_PLACE_VMM) && !policy->rules[i].grown;
        placing = placing || places;
        growing = growing || (places && policy->rules[i].grow);
    }
    if (!placing || zc_real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < count; i++) {
        const struct facts *f = facts_of(i);
        if (f && zc_real.cuDeviceTotalMem_v2(&total, i) == CUDA_SUCCESS) {
            most = total > most ? total : most;
            granularity = f->granularity > granularity ? f->granularity : granularity;
        }
    }
    if (growing && most)
        zc_va_prepare(most, granularity);
}

static bool push(struct zc_vmm *v, CUmemGenericAllocationHandle handle, size_t size)
{
    if (!zc_arena_extend(&v->chunks, &v->room, v->count, sizeof(*v->chunks), v->rim ? 3 : 1))
        return false;
    v->chunks[v->count++] = (struct zc_chunk){handle, size};
    v->held += size;
    return true;
}

/* The rim is host memory, so that as much device memory is free as without libzc. */
static bool take_rim(const struct zc_want *want, const struct facts *f)
{
    struct zc_want host = *want;
    struct zc_backing made = {0};
    const char *why;
    host.size = f->granularity;
    host.prop = &f->prop;
    if (!zc_access_lock())
        return false;
    if (!rim.users)
        rim.handle = zc_handle_make(&host, &made, &why) == CUDA_SUCCESS ? made.handle : 0;
    bool taken = rim.handle;
    rim.users += taken;
    zc_access_unlock();
    return taken;
}

static void drop_rim(void)
{
    bool mine = zc_access_lock();
    if (!--rim.users)
        zc_real.cuMemRelease(rim.handle);
    if (mine)
        zc_access_unlock();
}

/* Releases the chunks from `count` on. */
static CUresult drop_chunks(struct zc_vmm *v, unsigned count)
{
    CUresult result = CUDA_SUCCESS;
    while (v->count > count) {
        const struct zc_chunk *p = &v->chunks[--v->count];
        bool shared = v->rim && p->handle == rim.handle;
        bool none = shared || !p->handle;
        CUresult released = none ? CUDA_SUCCESS : zc_real.cuMemRelease(p->handle);
        v->held -= p->size;
        result = result == CUDA_SUCCESS ? released : result;
    }
    return result;
}

void zc_vmm_destroy(struct zc_vmm *v)
{
    drop_chunks(v, 0);
}

static CUresult push_rim(struct zc_vmm *v)
{
    return !v->rim || push(v, rim.handle, v->granularity) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create_host(struct zc_vmm *v, CUmemGenericAllocationHandle *handle, size_t size)
{
    const struct zc_want want = {
        .size = size, .device = v->device, .rule = v->rule, .prop = &facts_of(v->device)->prop};
    struct zc_backing made = {0};
    const char *why;
    CUresult result = zc_handle_make(&want, &made, &why);
    v->stuck = result != CUDA_SUCCESS;
    *handle = made.handle;
    return result;
}

static CUresult create_device(const struct zc_vmm *v, CUmemGenericAllocationHandle *handle,
                              size_t size, bool reclaims)
{
    CUmemAllocationProp prop = facts_of(v->device)->prop;
    if (v->rdma == ZC_RDMA_NO)
        prop.allocFlags.gpuDirectRDMACapable = 0;
    return reclaims ? ZC_RECLAIMING(zc_real.cuMemCreate(handle, size, &prop, 0))
                    : zc_real.cuMemCreate(handle, size, &prop, 0);
}

CUresult zc_vmm_handle(struct zc_vmm *v, bool host, size_t size,
                       CUmemGenericAllocationHandle *handle)
{
    return host ? create_host(v, handle, size) : create_device(v, handle, size, true);
}

CUresult zc_vmm_create(struct zc_vmm *v, size_t ahead)
{
    CUmemGenericAllocationHandle handle;
    unsigned before = v->count;
    CUresult result = push_rim(v);
    size_t most = v->span - zc_vmm_rim(v) + ahead;
    while (result == CUDA_SUCCESS && v->held < most) {
        bool split = zc_vmm_spilled(v), host = split && v->held >= zc_vmm_border(v);
        size_t missing = (split && !host ? zc_vmm_border(v) : most) - v->held;
        size_t chunk = host ? 0 : zc_vmm_chunk(v); /* The driver sets no two handles of it. */
        size_t size = chunk && chunk < missing ? chunk : missing;
        result = host ? create_host(v, &handle, size) : create_device(v, &handle, size, !ahead);
        if (result == CUDA_SUCCESS && !push(v, handle, size)) {
            zc_real.cuMemRelease(handle);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (result == CUDA_SUCCESS)
        result = push_rim(v);
    if (result != CUDA_SUCCESS)
        drop_chunks(v, before);
    return result;
}

CUresult zc_vmm_attach(struct zc_vmm *v, size_t from, size_t to, size_t ahead, const char **why)
{
    const char *other;
    unsigned before = v->count;
    CUresult result = CUDA_SUCCESS;
    *why = "cuMemCreate refuses";
    if (to > v->held)
        result = zc_vmm_create(v, ahead);
    if (result != CUDA_SUCCESS) { /* Chunks taken over from another block hold data, so they must
                                   * stay reachable. */
        zc_va_map(&v->va, v->chunks, v->count, from, to, &other);
        return result;
    }
    result = zc_va_map(&v->va, v->chunks, v->count, from, to, why);
    /* The new chunks are at the end, so none of them is mapped in this case. */
    if (result != CUDA_SUCCESS)
        drop_chunks(v, before);
    return result;
}

/* In a stream of its own, whose copies the program's work does not hold up.  The copy may use its
 * memory until it has been waited for. */
static CUresult carry(CUdeviceptr there, CUdeviceptr here, size_t bytes)
{
    CUstream stream;
    CUcontext context = NULL;
    CUresult result = zc_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuMemcpyHtoDAsync_v2(there, (void *)here, bytes, stream);
    CUresult waited = zc_stream_drain(stream, ZC_LEGACY);
    if (waited != CUDA_SUCCESS && zc_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS)
        zc_stream_wait_context(context);
    zc_real.cuStreamDestroy_v2(stream);
    result = result == CUDA_SUCCESS ? waited : result;
    if (result == CUDA_SUCCESS)
        zc_traffic_own(zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE), bytes);
    return result;
}

CUresult zc_vmm_carry_in(const struct zc_vmm *v, const struct zc_chunk *to, unsigned count,
                         size_t bytes, const char **why)
{
    struct zc_va elsewhere = {
        .device = v->va.device, .context = v->va.context, .peers = v->va.peers};
    size_t span = 0;
    for (unsigned i = 0; i < count; i++)
        span += to[i].size;
    CUresult result = zc_va_reserve(&elsewhere, span, v->granularity, false, why);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_va_map(&elsewhere, to, count, 0, span, why);
    if (result == CUDA_SUCCESS) {
        *why = "the driver refuses the copy";
        result = carry(elsewhere.base, v->va.base + zc_vmm_rim(v), bytes);
    }
    CUresult freed = zc_va_free(&elsewhere);
    return result == CUDA_SUCCESS ? freed : result;
}

size_t zc_vmm_empty(struct zc_vmm *v)
{
    size_t at = 0, first = zc_vmm_rim(v), end = first + zc_vmm_on_device(v), given = 0;
    for (struct zc_chunk *p = v->chunks; at < end; at += p++->size) {
        bool gone = at >= first && p->handle && zc_real.cuMemRelease(p->handle) == CUDA_SUCCESS;
        p->handle = gone ? 0 : p->handle;
        given += gone ? p->size : 0;
    }
    return given;
}

CUresult zc_vmm_refill(struct zc_vmm *v)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < v->count && result == CUDA_SUCCESS; i++) {
        CUmemGenericAllocationHandle handle;
        if (v->chunks[i].handle)
            continue;
        result = create_device(v, &handle, v->chunks[i].size, true);
        v->chunks[i].handle = result == CUDA_SUCCESS ? handle : 0;
    }
    if (result != CUDA_SUCCESS)
        zc_vmm_empty(v);
    return result;
}

struct zc_vmm *zc_vmm_of(const struct zc_block *block)
{
    if (!block || (block->place != ZC_PLACE_VMM && block->place != ZC_PLACE_SHARED) ||
        !(block->flags & ZC_BLOCK_CONVERTED))
        return NULL;
    return ((const struct zc_backing *)block->backing)->vmm;
}

CUdeviceptr zc_vmm_border_of(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v ? v->va.base + zc_vmm_border(v) : 0;
}

bool zc_vmm_enter_small(struct zc_vmm *v, size_t size)
{
    size_t *count = &small_blocks[v->device];
    if (size > v->granularity / 2)
        return true;
    v->small = __atomic_add_fetch(count, 1, __ATOMIC_RELAXED) <= facts[v->device].small_most;
    if (!v->small)
        __atomic_sub_fetch(count, 1, __ATOMIC_RELAXED);
    return v->small;
}

void zc_vmm_leave_small(struct zc_vmm *v)
{
    __atomic_sub_fetch(&small_blocks[v->device], v->small, __ATOMIC_RELAXED);
    v->small = false;
}

static void drop_ranges(struct zc_vmm *v)
{
    zc_arena_put(v->range, v->ranges * sizeof(*v->range));
    v->range = NULL;
    v->ranges = 0;
}

/* Where libzc has no memory for the list, the block can't be paused by a range. */
void zc_vmm_note_ranges(struct zc_vmm *v)
{
    unsigned count = zc_ranges_around(NULL, 0);
    count = count < RANGES ? count : RANGES;
    drop_ranges(v);
    v->range = count ? zc_arena_get(count * sizeof(*v->range)) : NULL;
    v->ranges = v->range ? count : 0;
    zc_ranges_around(v->range, v->ranges);
}

static void enter_movable(struct zc_vmm *v)
{
    v->moves = true;
    __atomic_fetch_add(&zc_vmm_hosted, zc_vmm_spilled(v) != 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&zc_vmm_movable, 1, __ATOMIC_RELEASE);
}

static void leave_movable(struct zc_vmm *v)
{
    zc_va_drop(zc_movable(v)->beside);
    __atomic_fetch_sub(&zc_vmm_hosted, zc_vmm_spilled(v) != 0, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&zc_vmm_movable, 1, __ATOMIC_RELEASE);
}

/* Bytes of a block's record. */
static size_t record_of(const struct zc_rule *rule)
{
    return rule->spill == ZC_SPILL_MOVE ? sizeof(struct zc_movable) : sizeof(struct zc_vmm);
}

void zc_vmm_drop(struct zc_vmm *v)
{
    if (v->paused)
        zc_stash_unmake(&v->paused->stash);
    zc_arena_put(v->paused, sizeof(*v->paused));
    drop_ranges(v);
    if (v->moves)
        leave_movable(v);
    zc_vmm_leave_small(v);
    if (v->rim)
        drop_rim();
    zc_arena_put(v->chunks, v->room * sizeof(*v->chunks));
    zc_arena_put(v, record_of(v->rule));
}

/* Reserves the addresses, and attaches the memory unless the block is lazy. */
static CUresult fill(struct zc_vmm *v, const char **why)
{
    if (v->lazy)
        return zc_lazy_admit(v, why);
    zc_lazy_before_request(v->device, zc_vmm_due(v));
    CUresult result = zc_va_reserve(&v->va, v->span, v->granularity, false, why);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_vmm_attach(v, 0, v->span, 0, why);
    if (result != CUDA_SUCCESS)
        zc_va_free(&v->va);
    return result;
}

/* Why a request can't have vmm memory; CUDA_SUCCESS if it can. */
static CUresult refuse(const struct zc_want *want, const struct facts *f, size_t spilled, bool lazy,
                       const char **why)
{
    *why = "the device has no virtual memory management";
    if (!f)
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "the driver does not say which pool it is for";
    if (!zc_vmm_names_devices(want))
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "more than the device has free"; /* With a rim it can't even be rounded up. */
    if (want->size > SIZE_MAX - 3 * f->granularity)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *why = "its parts are no multiple of what the device maps";
    if (spilled && ((want->size - spilled) % f->granularity || f->granularity % ZC_VA_UNIT))
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "more than the device has beside managed memory";
    if (!lazy && !zc_limits_device_holds(want->device, want->size - spilled, false))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* Places the block in its range: what the last chunk has to spare is split to both sides of it, or
 * a rim is added; see zc_margin().  Returns the bytes before the block. */
static size_t lay_out(struct zc_vmm *v, const struct zc_want *want, const struct facts *f)
{
    size_t slack = v->span - want->size, before = slack / 2 / ZC_BLOCK_PAGE * ZC_BLOCK_PAGE;
    if (before < ZC_MARGIN_MAX && f->granularity <= ZC_BEFORE_MAX && take_rim(want, f)) {
        v->rim = true;
        before = f->granularity;
        v->span += 2 * before;
    }
    return before < ZC_BEFORE_MAX ? before : ZC_BEFORE_MAX;
}

CUresult zc_vmm_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    const struct facts *f = facts_of(want->device);
    /* Stream-ordered memory does not grow: there is no moment at which nothing uses it. */
    bool grows = want->rule->grow && !want->stream_ordered && !want->lazy;
    bool lazy =
        grows || want->lazy || (want->rule->commit == ZC_COMMIT_LAZY && !want->stream_ordered);
    CUresult result = refuse(want, f, out->spilled, lazy, why);
    if (result != CUDA_SUCCESS)
        return result;
    struct zc_vmm *v = zc_arena_get(record_of(want->rule));
    if (!v) {
        *why = "libzc has no memory for its record";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    v->granularity = (uint32_t)f->granularity;
    v->span = zc_va_round_up(want->size, f->granularity);
    v->device = v->va.device = want->device;
    v->va.context = want->context;
    v->va.peers = want->rule->peers;
    v->va.pool = want->pool;
    bool moves = want->rule->spill == ZC_SPILL_MOVE && !lazy && !want->stream_ordered &&
                 (!out->spilled || out->spilled == want->size);
    v->rdma = moves ? ZC_RDMA_NO : want->rule->rdma; /* A network card would not see it move. */
    v->rule = want->rule;
    v->bound = want->rule->budget.kind != ZC_LIMIT_NONE || zc_limits_device_bound();
    v->grows = grows;
    v->lazy = lazy;
    *why = "small blocks, which take 2 MiB each here, have all that they may";
    if (!zc_vmm_enter_small(v, want->size)) {
        zc_vmm_drop(v);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    v->va.base = v->span == want->at_bytes ? want->at : 0;
    size_t before = lazy ? 0 : lay_out(v, want, f);
    if (out->spilled) {
        v->va.host_end = (uint32_t)((v->span - zc_vmm_rim(v)) / ZC_VA_UNIT);
        v->va.host = (uint32_t)((zc_vmm_rim(v) + want->size - out->spilled) / ZC_VA_UNIT);
    }
    result = fill(v, why);
    if (result != CUDA_SUCCESS) {
        if (v->stuck) {
            *why = "the driver refuses host memory for its last part";
            result = CUDA_ERROR_NOT_SUPPORTED;
        }
        zc_vmm_drop(v);
        return result;
    }
    if (moves)
        enter_movable(v);
    out->vmm = v;
    out->base = v->va.base + before;
    out->before = (uint16_t)(before / ZC_BLOCK_PAGE);
    out->room = v->va.size - before;
    return CUDA_SUCCESS;
}

CUresult zc_vmm_detach(struct zc_vmm *v)
{
    const char *why;
    bool mine = v->lazy && zc_driver_lock();
    CUresult result = zc_va_unmap(&v->va);
    if (result != CUDA_SUCCESS)
        zc_va_map(&v->va, v->chunks, v->count, 0, v->held, &why);
    if (mine)
        zc_driver_unlock();
    return result;
}

CUresult zc_vmm_give_back(struct zc_vmm *v)
{
    CUresult unmapped = zc_va_unmap(&v->va);
    if (unmapped != CUDA_SUCCESS && unmapped != CUDA_ERROR_DEINITIALIZED &&
        zc_message_first("release"))
        zc_message(ZC_WARN, "refused",
                   "the driver does not unmap %B of 'vmm' that the program has freed (code %u): it "
                   "stays allocated",
                   (uint64_t)v->span, (unsigned)unmapped);
    CUresult released = drop_chunks(v, 0);
    CUresult freed = zc_va_free(&v->va);
    zc_vmm_drop(v);
    return unmapped != CUDA_SUCCESS ? unmapped : released != CUDA_SUCCESS ? released : freed;
}

/* Handles and addresses belong to the process, not to a context, so they are given back even if the
 * context is gone. */
CUresult zc_vmm_unmake(struct zc_backing *backing, bool gone)
{
    struct zc_vmm *v = backing->vmm;
    (void)gone;
    if (v->lazy)
        zc_grow_forget(v);
    return zc_vmm_give_back(v);
}

static CUresult detach(struct zc_backing *backing)
{
    return zc_vmm_detach(backing->vmm);
}

const struct zc_place zc_place_vmm = {.id = ZC_PLACE_VMM,
                                      .real = ZC_KIND_DEVICE,
                                      .make = zc_vmm_make,
                                      .detach = detach,
                                      .unmake = zc_vmm_unmake};

const struct zc_module zc_module_vmm = {.start = start};
