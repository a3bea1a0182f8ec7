/* The place `vmm`: reserved addresses with device memory mapped behind them in pieces. */
#include "place/vmm.h"

#include <string.h>

#include "base/arena.h"
#include "place/grow.h"

#define DEVICES_MAX 64
#define WIDE_MAX 64 /* Blocks that get more addresses than they ask for. */

/* What the driver says about a device's memory; it does not change. */
struct facts {
    bool known;              /* Atomic: the rest is set. */
    size_t granularity;      /* Bytes that sizes are multiples of. */
    CUmemAllocationProp prop; /* Of the handles. */
};
static struct facts facts[DEVICES_MAX];

static unsigned wide_blocks; /* Atomic. */

static bool attribute(int device, CUdevice_attribute which)
{
    int value = 0;
    return zc_real.cuDeviceGetAttribute &&
           zc_real.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value;
}

/* Exportable and usable by other bus devices where the device can, so that a program which asks for
 * a file descriptor of its block is not refused for where it lies. */
static CUmemAllocationProp properties(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    prop.location.id = device;
    if (attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        prop.allocFlags.gpuDirectRDMACapable = 1;
    return prop;
}

/* Two threads that ask first store the same.  NULL where the device can't map memory by hand. */
static const struct facts *facts_of(int device)
{
    struct facts *f = &facts[device < DEVICES_MAX ? device : DEVICES_MAX - 1];
    CUmemAllocationProp prop;
    size_t granularity = 0;
    if (__atomic_load_n(&f->known, __ATOMIC_ACQUIRE))
        return f;
    if (device >= DEVICES_MAX ||
        !attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return NULL;
    prop = properties(device);
    if (zc_real.cuMemGetAllocationGranularity(&granularity, &prop,
                                              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
            CUDA_SUCCESS ||
        !granularity)
        return NULL;
    f->granularity = granularity;
    f->prop = prop;
    __atomic_store_n(&f->known, true, __ATOMIC_RELEASE);
    return f;
}

/* cuMemAlloc's memory is reachable from every device that can be a peer; so is this. */
static CUresult open_access(CUdeviceptr base, size_t span, int device)
{
    CUmemAccessDesc desc[DEVICES_MAX];
    int devices = 0;
    size_t count = 0;
    if (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices <= device)
        devices = device + 1;
    for (int d = 0; d < devices && count < DEVICES_MAX; d++) {
        int can = d == device;
        if (!can && zc_real.cuDeviceCanAccessPeer(&can, d, device) != CUDA_SUCCESS)
            can = 0;
        if (!can)
            continue;
        desc[count] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        desc[count++].location.id = d;
    }
    return zc_real.cuMemSetAccess(base, span, desc, count);
}

static bool push(struct zc_vmm *v, CUmemGenericAllocationHandle handle, size_t size)
{
    if (v->count == v->room) {
        unsigned room = v->room ? 2 * v->room : 4;
        struct zc_piece *more = zc_arena_get(room * sizeof(*more));
        if (!more)
            return false;
        if (v->piece)
            memcpy(more, v->piece, v->count * sizeof(*more));
        zc_arena_put(v->piece, v->room * sizeof(*more));
        v->piece = more;
        v->room = room;
    }
    v->piece[v->count++] = (struct zc_piece){handle, size};
    v->held += size;
    return true;
}

/* Memory that nobody uses may be what is missing. */
static CUresult create(size_t size, const CUmemAllocationProp *prop,
                       CUmemGenericAllocationHandle *out)
{
    CUresult result = zc_real.cuMemCreate(out, size, prop, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && zc_place_relieve())
        result = zc_real.cuMemCreate(out, size, prop, 0);
    return result;
}

/* Releases the pieces from `count` on. */
static CUresult drop_pieces(struct zc_vmm *v, unsigned count)
{
    CUresult result = CUDA_SUCCESS;
    while (v->count > count) {
        const struct zc_piece *p = &v->piece[--v->count];
        CUresult released = zc_real.cuMemRelease(p->handle);
        v->held -= p->size;
        result = result == CUDA_SUCCESS ? released : result;
    }
    return result;
}

static CUresult create_missing(struct zc_vmm *v)
{
    CUmemGenericAllocationHandle handle;
    const struct facts *f = facts_of(v->device);
    unsigned before = v->count;
    while (v->held < v->span) {
        size_t missing = v->span - v->held;
        size_t size = v->chunk && v->chunk < missing ? v->chunk : missing;
        CUresult result = create(size, &f->prop, &handle);
        if (result == CUDA_SUCCESS && !push(v, handle, size)) {
            zc_real.cuMemRelease(handle);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (result != CUDA_SUCCESS) {
            drop_pieces(v, before);
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/* Maps the pieces behind `attached`, all or none. */
static CUresult map_pieces(struct zc_vmm *v, const char **why)
{
    size_t at = 0, mapped = v->attached;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < v->count && result == CUDA_SUCCESS; at += v->piece[i++].size) {
        if (at < v->attached)
            continue;
        *why = "cuMemMap refuses";
        result = zc_real.cuMemMap(v->base + at, v->piece[i].size, 0, v->piece[i].handle, 0);
        if (result == CUDA_SUCCESS)
            mapped += v->piece[i].size;
    }
    if (result == CUDA_SUCCESS && mapped > v->attached) {
        *why = "cuMemSetAccess refuses";
        result = open_access(v->base + v->attached, mapped - v->attached, v->device);
    }
    if (result == CUDA_SUCCESS)
        v->attached = mapped;
    else if (mapped > v->attached)
        zc_real.cuMemUnmap(v->base + v->attached, mapped - v->attached);
    return result;
}

CUresult zc_vmm_attach(struct zc_vmm *v, const char **why)
{
    const char *other;
    unsigned before = v->count;
    *why = "cuMemCreate refuses";
    CUresult result = create_missing(v);
    if (result != CUDA_SUCCESS) {
        map_pieces(v, &other); /* What was taken over from another block holds data. */
        return result;
    }
    result = map_pieces(v, why);
    if (result != CUDA_SUCCESS)
        drop_pieces(v, before);
    return result;
}

struct zc_vmm *zc_vmm_of(const struct zc_block *block)
{
    if (!block || block->place != ZC_PLACE_VMM || !(block->flags & ZC_BLOCK_CONVERTED))
        return NULL;
    return ((const struct zc_backing *)block->backing)->vmm;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static void drop(struct zc_vmm *v)
{
    zc_arena_put(v->piece, v->room * sizeof(*v->piece));
    zc_arena_put(v, sizeof(*v));
}

/* Addresses for a block.  One that grows gets room for all that the device has, so that the block
 * that grows from it can have them again; how many get that is bounded, because addresses are. */
static CUresult reserve(struct zc_vmm *v, size_t granularity)
{
    size_t total = 0;
    if (v->grows && __atomic_load_n(&wide_blocks, __ATOMIC_RELAXED) < WIDE_MAX &&
        zc_real.cuDeviceTotalMem_v2(&total, v->device) == CUDA_SUCCESS && total > v->span) {
        v->window = round_up(total, granularity);
        v->wide = zc_real.cuMemAddressReserve(&v->base, v->window, granularity, 0, 0) ==
                  CUDA_SUCCESS;
    }
    __atomic_fetch_add(&wide_blocks, v->wide, __ATOMIC_RELAXED);
    if (v->wide)
        return CUDA_SUCCESS;
    v->window = v->span;
    return zc_real.cuMemAddressReserve(&v->base, v->span, granularity, 0, 0);
}

/* Reserves the addresses and attaches the memory, unless that is to be done late. */
static CUresult fill(struct zc_vmm *v, size_t granularity, const char **why)
{
    CUresult result = CUDA_SUCCESS;
    if (v->late) {
        result = zc_grow_admit(v, why);
        if (result != CUDA_SUCCESS)
            return result;
    }
    if (!v->base) {
        *why = "cuMemAddressReserve refuses";
        result = reserve(v, granularity);
    }
    if (result == CUDA_SUCCESS && !v->late) {
        result = zc_vmm_attach(v, why);
        if (result != CUDA_SUCCESS)
            zc_real.cuMemAddressFree(v->base, v->window);
    }
    if (result != CUDA_SUCCESS && v->late)
        zc_grow_forget(v);
    return result;
}

static CUresult make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    const struct facts *f = facts_of(want->device);
    if (!f) {
        *why = "the device has no virtual memory management";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct zc_vmm *v = zc_arena_get(sizeof(*v));
    if (!v) {
        *why = "libzc has no memory for its record";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    v->span = round_up(want->size, f->granularity);
    v->chunk = round_up(want->rule->chunk, f->granularity);
    v->device = want->device;
    v->context = want->context;
    /* Stream-ordered memory is not waited for: its growth has no moment at which nothing runs. */
    v->grows = want->rule->grow && !want->stream_ordered;
    v->late = v->grows || (want->rule->commit == ZC_COMMIT_LAZY && !want->stream_ordered);
    CUresult result = fill(v, f->granularity, why);
    if (result != CUDA_SUCCESS) {
        drop(v);
        return result;
    }
    out->vmm = v;
    out->base = v->base;
    out->span = v->span;
    return CUDA_SUCCESS;
}

CUresult zc_vmm_give_back(struct zc_vmm *v)
{
    CUresult unmapped = CUDA_SUCCESS;
    if (v->attached)
        unmapped = zc_real.cuMemUnmap(v->base, v->attached);
    CUresult released = drop_pieces(v, 0);
    CUresult freed = zc_real.cuMemAddressFree(v->base, v->window);
    __atomic_fetch_sub(&wide_blocks, v->wide, __ATOMIC_RELAXED);
    drop(v);
    return unmapped != CUDA_SUCCESS ? unmapped : released != CUDA_SUCCESS ? released : freed;
}

/* Handles and addresses belong to the process, not to a context, so they are given back also when
 * the context is gone. */
static CUresult unmake(struct zc_backing *backing, bool gone)
{
    struct zc_vmm *v = backing->vmm;
    (void)gone;
    if (v->late)
        zc_grow_forget(v);
    return zc_vmm_give_back(v);
}

const struct zc_place zc_place_vmm = {ZC_PLACE_VMM, ZC_KIND_DEVICE, false, make, unmake};
