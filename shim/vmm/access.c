/* SPDX-License-Identifier: MIT */
/* Which devices can reach memory that libzc mapped by hand. */
#include "vmm/access.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "vmm/vmm.h"

/* A pair of contexts: kernels of `user` may use the memory of the other. */
struct pair {
    struct pair *next;
    CUcontext user; /* Its device is `device`. */
    CUcontext owner;
    int device;
    bool ending; /* Access is being disabled, so the pair no longer counts. */
};

/* True once this process may have to deal with more than one device.  Atomic. */
static bool many;

static ZC_LOCK(lock, ZC_RANK_ACCESS);
static ZC_OWN struct zc_va *ranges; /* All reserved ranges. */
static ZC_OWN struct pair *pairs;

bool zc_access_lock(void)
{
    return zc_lock_take(&lock);
}

void zc_access_unlock(void)
{
    zc_lock_drop(&lock);
}

static uint64_t bit(int device)
{
    return device >= 0 && device < ZC_VA_DEVICES ? UINT64_C(1) << device : 0;
}

/* Adds the devices that can reach the memory of `device`. */
static CUresult add_able(int device, uint64_t *mask)
{
    int devices = 0;
    CUresult result = zc_real.cuDeviceGetCount(&devices);
    for (int d = 0; d < devices && d < ZC_VA_DEVICES && result == CUDA_SUCCESS; d++) {
        int can = 0;
        result = d == device ? CUDA_SUCCESS : zc_real.cuDeviceCanAccessPeer(&can, d, device);
        *mask |= can ? bit(d) : 0;
    }
    return result;
}

/* Stands for the pool of a range once the program has destroyed the pool.  No pool has this
 * handle. */
#define NO_POOL ((CUmemoryPool)&ranges)

/* Asks the driver which devices the rights of a pool let reach its memory. */
static CUresult ask_pool(CUmemoryPool pool, uint64_t *mask)
{
    int devices = 0;
    CUresult result = zc_real.cuDeviceGetCount(&devices);
    *mask = 0;
    for (int d = 0; d < devices && d < ZC_VA_DEVICES && result == CUDA_SUCCESS; d++) {
        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
        location.id = d;
        result = zc_real.cuMemPoolGetAccess(&flags, pool, &location);
        *mask |= flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? bit(d) : 0;
    }
    return result;
}

/* The devices that the pool, peer access or the rule let reach an entered range. */
static uint64_t let(const struct zc_va *va)
{
    uint64_t mask = bit(va->device);
    if (va->pool && va->peers == ZC_PEERS_ENABLED)
        return mask | va->granted;
    for (const struct pair *p = pairs; p && va->peers == ZC_PEERS_ENABLED; p = p->next)
        if (p->owner == va->context && !p->ending)
            mask |= bit(p->device);
    return va->peers == ZC_PEERS_ALL ? va->devices : mask;
}

/* The devices that should reach a range now. */
static uint64_t wanted(const struct zc_va *va)
{
    return let(va) | va->copying;
}

CUresult zc_access_enter(struct zc_va *va)
{
    int devices = 0;
    /* If the number of devices is unknown, assume several. */
    if (!many && (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices > 1))
        __atomic_store_n(&many, true, __ATOMIC_RELAXED);
    if (!va->devices) {
        uint64_t mask = bit(va->device);
        CUresult result = va->peers == ZC_PEERS_ALL ? add_able(va->device, &mask)
                          : va->pool && many        ? ask_pool(va->pool, &va->granted)
                                                    : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            return result;
        va->devices = mask | (va->peers == ZC_PEERS_ALL ? 0 : wanted(va));
    }
    DL_PREPEND2(ranges, va, before, next);
    return CUDA_SUCCESS;
}

void zc_access_leave(struct zc_va *va)
{
    DL_DELETE2(ranges, va, before, next);
}

static size_t describe(uint64_t mask, CUmemAccess_flags flags, CUmemAccessDesc *desc, size_t count)
{
    for (int d = 0; d < ZC_VA_DEVICES; d++)
        if (mask & bit(d)) {
            desc[count] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                            .flags = flags};
            desc[count++].location.id = d;
        }
    return count;
}

/* What of the bytes [from, to) is host memory. */
static CUresult open_host(const struct zc_va *va, size_t from, size_t to)
{
    from = from > va->host * ZC_VA_UNIT ? from : va->host * ZC_VA_UNIT;
    to = to < va->host_end * ZC_VA_UNIT ? to : va->host_end * ZC_VA_UNIT;
    const CUmemAccessDesc cpu = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST},
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (from < to)
        return zc_real.cuMemSetAccess(va->base + from, to - from, &cpu, 1);
    return CUDA_SUCCESS;
}

CUresult zc_access_open(const struct zc_va *va, size_t from, size_t to)
{
    CUmemAccessDesc desc[ZC_VA_DEVICES];
    size_t count = describe(va->devices, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, desc, 0);
    CUresult result = zc_real.cuMemSetAccess(va->base + from, to - from, desc, count);
    return result == CUDA_SUCCESS && !va->closed ? open_host(va, from, to) : result;
}

static CUresult open_host_locked(struct zc_va *va)
{
    bool mapped = zc_va_holds(va, va->host * ZC_VA_UNIT, va->host_end * ZC_VA_UNIT);
    CUresult result = va->closed && mapped ? open_host(va, 0, va->size) : CUDA_SUCCESS;
    va->closed = result != CUDA_SUCCESS;
    return result;
}

CUresult zc_access_open_host(struct zc_va *va)
{
    bool mine = zc_access_lock();
    CUresult result = open_host_locked(va);
    if (mine)
        zc_access_unlock();
    return result;
}

/* Sets which devices reach the first `runs` runs of a range. */
static CUresult change(const struct zc_va *va, unsigned runs, uint64_t give, uint64_t take)
{
    CUmemAccessDesc desc[ZC_VA_DEVICES];
    CUresult result = CUDA_SUCCESS;
    size_t count = describe(give, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, desc, 0);
    count = describe(take, CU_MEM_ACCESS_FLAGS_PROT_NONE, desc, count);
    for (unsigned i = 0; i < runs && result == CUDA_SUCCESS; i++) {
        const struct zc_run *r = &va->run[i];
        result = zc_real.cuMemSetAccess(va->base + r->from, r->to - r->from, desc, count);
    }
    return result;
}

/* Gives a range exactly the devices that should reach it.  On failure it keeps those it had. */
static CUresult apply_rights(struct zc_va *va)
{
    uint64_t mask = wanted(va), give = mask & ~va->devices, take = va->devices & ~mask;
    CUresult result = give || take ? change(va, va->count, give, take) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        va->devices = mask;
    else
        change(va, va->count, take, give);
    return result;
}

/* Does so for the ranges of a context, or for all with NULL.  Returns the first error. */
static CUresult apply_rights_all(CUcontext owner)
{
    CUresult result = CUDA_SUCCESS;
    for (struct zc_va *va = ranges; va; va = va->next) {
        CUresult settled = !owner || va->context == owner ? apply_rights(va) : CUDA_SUCCESS;
        result = result == CUDA_SUCCESS ? settled : result;
    }
    return result;
}

static void remove_pairs(CUcontext user, CUcontext owner)
{
    for (struct pair **at = &pairs; *at;) {
        struct pair *p = *at;
        if ((user && p->user != user) || (owner && p->owner != owner)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        zc_arena_put(p, sizeof(*p));
    }
}

CUresult zc_access_enable(CUcontext peer)
{
    CUdevice device;
    CUcontext user = NULL;
    CUresult result = zc_real.cuCtxGetDevice(&device);
    if (result == CUDA_SUCCESS)
        result = zc_real.cuCtxGetCurrent(&user);
    if (result != CUDA_SUCCESS)
        return result;
    struct pair *p = zc_arena_get(sizeof(*p));
    if (!p || !zc_access_lock()) {
        zc_arena_put(p, sizeof(*p));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *p = (struct pair){.next = pairs, .user = user, .owner = peer, .device = device};
    pairs = p;
    result = apply_rights_all(peer);
    if (result != CUDA_SUCCESS) {
        remove_pairs(user, peer);
        apply_rights_all(peer);
    }
    zc_access_unlock();
    return result;
}

static struct pair *pair_of(CUcontext user, CUcontext owner)
{
    struct pair *p = pairs;
    while (p && (p->user != user || p->owner != owner))
        p = p->next;
    return p;
}

CUresult zc_access_disable(CUcontext peer, CUresult (*driver)(CUcontext peer))
{
    CUcontext user = NULL;
    if (!zc_access_lock())
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = pairs ? zc_real.cuCtxGetCurrent(&user) : CUDA_SUCCESS;
    struct pair *p = result == CUDA_SUCCESS ? pair_of(user, peer) : NULL;
    if (p) {
        p->ending = true;
        result = apply_rights_all(peer);
    }
    if (result == CUDA_SUCCESS)
        result = driver(peer);
    if (p && result == CUDA_SUCCESS) {
        remove_pairs(user, peer);
    } else if (p) {
        p->ending = false;
        apply_rights_all(peer);
    }
    zc_access_unlock();
    return result;
}

/* Gives the ranges of a pool new rights.  Returns the first error. */
static CUresult regrant(CUmemoryPool pool, uint64_t granted)
{
    CUresult result = CUDA_SUCCESS;
    for (struct zc_va *va = ranges; va; va = va->next) {
        if (va->pool != pool)
            continue;
        va->granted = granted;
        CUresult settled = apply_rights(va);
        result = result == CUDA_SUCCESS ? settled : result;
    }
    return result;
}

/* Restores the rights that a pool had for the devices of a call. */
static void take_back(CUmemoryPool pool, uint64_t before, const CUmemAccessDesc *map, size_t count,
                      __typeof__(cuMemPoolSetAccess) *driver)
{
    CUmemAccessDesc desc[ZC_VA_DEVICES];
    uint64_t named = 0;
    for (size_t i = 0; i < count; i++)
        named |= bit(map[i].location.id);
    size_t n = describe(named & before, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, desc, 0);
    driver(pool, desc, describe(named & ~before, CU_MEM_ACCESS_FLAGS_PROT_NONE, desc, n));
    regrant(pool, before);
}

static bool has_ranges(CUmemoryPool pool)
{
    const struct zc_va *va = ranges;
    while (va && va->pool != pool)
        va = va->next;
    return va;
}

CUresult zc_access_grant(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count,
                         __typeof__(cuMemPoolSetAccess) *driver)
{
    uint64_t before = 0, now;
    if (!zc_access_lock())
        return driver(pool, map, count);
    bool follow = pool && map && has_ranges(pool);
    CUresult result = follow ? ask_pool(pool, &before) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = driver(pool, map, count);
    if (follow && result == CUDA_SUCCESS) {
        result = ask_pool(pool, &now);
        if (result == CUDA_SUCCESS)
            result = regrant(pool, now);
        if (result != CUDA_SUCCESS)
            take_back(pool, before, map, count, driver);
    }
    zc_access_unlock();
    return result;
}

void zc_access_forget_pool(CUmemoryPool pool)
{
    if (!zc_access_lock())
        return;
    for (struct zc_va *va = ranges; va; va = va->next)
        if (va->pool == pool)
            va->pool = NO_POOL;
    zc_access_unlock();
}

CUresult zc_access_quiesce(void)
{
    CUresult result = CUDA_SUCCESS;
    if (!zc_access_lock())
        return result;
    for (struct zc_va *va = ranges; va && result == CUDA_SUCCESS; va = va->next)
        result = zc_leaving(va->context) ? CUDA_SUCCESS : zc_va_wait(va);
    zc_access_unlock();
    return result;
}

static void context_gone(CUcontext context)
{
    if (!zc_access_lock())
        return;
    remove_pairs(context, NULL);
    remove_pairs(NULL, context);
    CUresult result = apply_rights_all(NULL);
    zc_access_unlock();
    if (result != CUDA_SUCCESS) /* No call is left that could return the error. */
        zc_message(ZC_WARN, "peers",
                   "a context is gone, but cuMemSetAccess returned %d: its device still reaches "
                   "blocks in 'vmm' that it had peer access to",
                   (int)result);
}

static bool can_reach(int device, int memory)
{
    int can = 0;
    return zc_real.cuDeviceCanAccessPeer(&can, device, memory) != CUDA_SUCCESS || can;
}

/* Opens a range to a device that makes a copy; copies need no peer access (CUDA Driver API,
 * cuMemcpy).  If the devices can't reach each other, the driver is left to refuse. */
static CUresult let_copy_locked(struct zc_va *va, int device)
{
    if (va->device == device || (va->devices & bit(device)))
        return CUDA_SUCCESS;
    CUstreamCaptureMode before = zc_capture_relax();
    va->copying |= bit(device);
    CUresult result = apply_rights(va);
    if (result != CUDA_SUCCESS)
        va->copying &= ~bit(device);
    if (result != CUDA_SUCCESS && !can_reach(device, va->device))
        result = CUDA_SUCCESS;
    zc_capture_restore(before);
    return result;
}

static CUresult let_copy(struct zc_va *va, int device)
{
    if (va->device == device || !zc_access_lock())
        return CUDA_SUCCESS;
    CUresult result = let_copy_locked(va, device);
    zc_access_unlock();
    return result;
}

CUresult zc_access_end_copies(struct zc_va *va)
{
    if (!va->copying)
        return CUDA_SUCCESS;
    bool mine = zc_access_lock();
    va->copying = 0;
    CUresult result = apply_rights(va);
    if (mine)
        zc_access_unlock();
    return result;
}

/* True if a device may set memory of the range: only its own device and those with peer access
 * may. */
static bool may_set(const struct zc_va *va, int device)
{
    if (va->device == device || !zc_access_lock())
        return true;
    bool may = let(va) & bit(device);
    zc_access_unlock();
    return may;
}

static CUresult open_side(const struct zc_block *side, int device)
{
    struct zc_vmm *v = zc_vmm_of(side);
    return v ? let_copy(&v->va, device) : CUDA_SUCCESS;
}

static CUresult open_to_cpu(const struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    return v && v->va.closed ? zc_access_open_host(&v->va) : CUDA_SUCCESS;
}

CUresult zc_vmm_open(const struct zc_copy *c)
{
    bool set = c->shape == ZC_SHAPE_SET;
    const struct zc_vmm *to = zc_vmm_of(c->dst.block);
    if (zc_block_paused(c->dst.block) || zc_block_paused(c->src.block))
        return CUDA_ERROR_ILLEGAL_STATE;
    CUresult reached = open_to_cpu(c->dst.block);
    reached = reached == CUDA_SUCCESS ? open_to_cpu(c->src.block) : reached;
    if (reached != CUDA_SUCCESS)
        return reached;
    if (!__atomic_load_n(&many, __ATOMIC_RELAXED) || zc_copy_peers(c) ||
        (!to && !zc_vmm_of(c->src.block)))
        return CUDA_SUCCESS;
    int device;
    CUresult result = zc_stream_device(c->stream, c->flavour, &device);
    if (result == CUDA_SUCCESS && set && to && !to->va.pool)
        result = may_set(&to->va, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    else if (result == CUDA_SUCCESS)
        result = open_side(c->dst.block, device);
    return result == CUDA_SUCCESS && !set ? open_side(c->src.block, device) : result;
}

static CUresult open_to_all(struct zc_va *va, int devices)
{
    CUresult result = va->closed ? open_host_locked(va) : CUDA_SUCCESS;
    for (int d = 0; d < devices && d < ZC_VA_DEVICES && result == CUDA_SUCCESS; d++)
        result = let_copy_locked(va, d);
    return result;
}

CUresult zc_access_open_all(void)
{
    int devices = 0;
    CUresult result = CUDA_SUCCESS;
    if (__atomic_load_n(&many, __ATOMIC_RELAXED))
        result = zc_real.cuDeviceGetCount(&devices);
    if (!__atomic_load_n(&ranges, __ATOMIC_RELAXED) || result != CUDA_SUCCESS || !zc_access_lock())
        return result;
    for (struct zc_va *va = ranges; va && result == CUDA_SUCCESS; va = va->next)
        result = open_to_all(va, devices);
    zc_access_unlock();
    return result;
}

CUresult zc_vmm_named(CUdeviceptr address, CUstream stream, enum zc_flavour flavour)
{
    const struct zc_block *block = address ? zc_block_find(address) : NULL;
    int device;
    if (zc_block_paused(block))
        return CUDA_ERROR_ILLEGAL_STATE;
    CUresult result = open_to_cpu(block);
    if (result != CUDA_SUCCESS || !__atomic_load_n(&many, __ATOMIC_RELAXED) || !zc_vmm_of(block))
        return result;
    result = zc_stream_device(stream, flavour, &device);
    return result == CUDA_SUCCESS ? open_side(block, device) : result;
}

const struct zc_module zc_module_access = {.context_gone = context_gone};
