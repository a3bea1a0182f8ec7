/* SPDX-License-Identifier: MIT */
/* Which devices can reach memory that libzc mapped by hand. */
#include "vmm/access.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "vmm/vmm.h"

/* A pair of contexts: kernels of `user` may use the memory of the other. */
struct peers {
    struct peers *next;
    CUcontext user; /* Its device is `device`. */
    CUcontext owner;
    int device;
    bool counts; /* False while access is being disabled. */
};

static bool many; /* This process may have to deal with more than one device.  Atomic. */
static ZC_OWN struct peers *peers; /* With the lock of vmm/va.h. */

/* The devices that peer access lets reach an entered range. */
static uint64_t let_in(const struct zc_va *va)
{
    uint64_t mask = zc_va_bit(va->device);
    for (const struct peers *p = peers; p; p = p->next)
        if (p->owner == va->context && p->counts)
            mask |= zc_va_bit(p->device);
    return mask;
}

CUresult zc_access_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                           const char **why)
{
    *why = "cuMemAddressReserve refuses";
    int devices = 0;
    CUresult result = va->base ? CUDA_SUCCESS : zc_va_reserve(va, span, granularity, wide);
    if (result != CUDA_SUCCESS)
        return result;
    ZC_VA_LOCKED;
    /* If the number of devices is unknown, assume several. */
    if (!many && (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices > 1))
        __atomic_store_n(&many, true, __ATOMIC_RELAXED);
    va->devices = let_in(va);
    DL_PREPEND2(zc_va_list, va, before, next);
    return CUDA_SUCCESS;
}

/* Gives a range exactly the devices that should reach it.  On failure it keeps those it had. */
static CUresult apply_rights(struct zc_va *va)
{
    uint64_t mask = let_in(va) | va->copying, give = mask & ~va->devices,
             take = va->devices & ~mask;
    CUresult result = zc_va_set_devices(va, give, take);
    if (result == CUDA_SUCCESS)
        va->devices = mask;
    else
        zc_va_set_devices(va, take, give);
    return result;
}

/* Does so for the ranges of a context, or for all with NULL.  Returns the first error. */
static CUresult apply_rights_all(CUcontext owner)
{
    CUresult result = CUDA_SUCCESS;
    for (struct zc_va *va = zc_va_list; va; va = va->next) {
        CUresult applied = !owner || va->context == owner ? apply_rights(va) : CUDA_SUCCESS;
        result = result == CUDA_SUCCESS ? applied : result;
    }
    return result;
}

/* On failure nothing has changed. */
static CUresult set_counts(struct peers *p, bool counts)
{
    p->counts = counts;
    CUresult result = apply_rights_all(p->owner);
    if (result != CUDA_SUCCESS) {
        p->counts = !counts;
        apply_rights_all(p->owner);
    }
    return result;
}

static void remove_peers(CUcontext user, CUcontext owner)
{
    for (struct peers **at = &peers; *at;) {
        struct peers *p = *at;
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
    CUresult result = zc_real.cuCtxGetDevice(&device) ?: zc_real.cuCtxGetCurrent(&user);
    if (result != CUDA_SUCCESS)
        return result;
    struct peers *p = zc_arena_get(sizeof(*p));
    if (!p || !zc_va_lock()) {
        zc_arena_put(p, sizeof(*p));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *p = (struct peers){.next = peers, .user = user, .owner = peer, .device = device};
    peers = p;
    result = set_counts(p, true);
    if (result != CUDA_SUCCESS)
        remove_peers(user, peer);
    zc_va_unlock();
    return result;
}

CUresult zc_access_disable(CUcontext peer, CUresult (*driver)(CUcontext peer))
{
    CUcontext user = NULL;
    if (!zc_va_lock())
        return CUDA_ERROR_NOT_PERMITTED;
    struct peers *p = peers;
    CUresult result = p ? zc_real.cuCtxGetCurrent(&user) : CUDA_SUCCESS;
    while (p && (p->user != user || p->owner != peer))
        p = p->next;
    if (p && result == CUDA_SUCCESS)
        result = set_counts(p, false);
    if (result == CUDA_SUCCESS)
        result = driver(peer);
    if (p && result == CUDA_SUCCESS)
        remove_peers(user, peer);
    else if (p)
        set_counts(p, true);
    zc_va_unlock();
    return result;
}

static void access_context_gone(CUcontext context)
{
    if (!zc_va_lock())
        return;
    remove_peers(context, NULL);
    remove_peers(NULL, context);
    CUresult result = apply_rights_all(NULL);
    zc_va_unlock();
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
 * cuMemcpy).  If the devices can't reach each other, the driver is left to refuse.  With the lock.
 */
static CUresult let_copy(struct zc_va *va, int device)
{
    if (va->device == device || (va->devices & zc_va_bit(device)))
        return CUDA_SUCCESS;
    CUstreamCaptureMode before = zc_capture_relax();
    va->copying |= zc_va_bit(device);
    CUresult result = apply_rights(va);
    if (result != CUDA_SUCCESS)
        va->copying &= ~zc_va_bit(device);
    if (result != CUDA_SUCCESS && !can_reach(device, va->device))
        result = CUDA_SUCCESS;
    zc_capture_restore(before);
    return result;
}

CUresult zc_access_end_copies(struct zc_va *va)
{
    if (!va->copying)
        return CUDA_SUCCESS;
    ZC_VA_LOCKED;
    va->copying = 0;
    return apply_rights(va);
}

/* True if a device may set memory of the range: only its own device and those with peer access
 * may. */
static bool may_set(const struct zc_va *va, int device)
{
    if (va->device == device || !zc_va_lock())
        return true;
    bool may = let_in(va) & zc_va_bit(device);
    zc_va_unlock();
    return may;
}

static CUresult open_side(const struct zc_block *side, int device)
{
    struct zc_vmm *v = zc_vmm_of(side);
    if (!v || v->va.device == device || !zc_va_lock())
        return CUDA_SUCCESS;
    CUresult result = let_copy(&v->va, device);
    zc_va_unlock();
    return result;
}

/* The driver may refuse to open a block to the CPU. */
static CUresult open_to_cpu(const struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    return v && v->va.host.closed ? zc_va_open_host(&v->va) : CUDA_SUCCESS;
}

CUresult zc_vmm_open(const struct zc_copy *c)
{
    int device;
    bool set = c->shape == ZC_SHAPE_SET;
    const struct zc_vmm *to = zc_vmm_of(c->dst.block);
    CUresult result = open_to_cpu(c->dst.block) ?: open_to_cpu(c->src.block);
    if (result != CUDA_SUCCESS || !__atomic_load_n(&many, __ATOMIC_RELAXED) || zc_copy_peers(c) ||
        (!to && !zc_vmm_of(c->src.block)))
        return result;
    result = zc_stream_device(c->stream, c->flavour, &device);
    if (result == CUDA_SUCCESS && set && to)
        return may_set(&to->va, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    result = result ?: open_side(c->dst.block, device);
    return result == CUDA_SUCCESS && !set ? open_side(c->src.block, device) : result;
}

CUresult zc_access_open_all(void)
{
    int devices;
    if (!__atomic_load_n(&zc_va_list, __ATOMIC_RELAXED))
        return CUDA_SUCCESS;
    CUresult result = zc_real.cuDeviceGetCount(&devices);
    if (result != CUDA_SUCCESS || !zc_va_lock())
        return result;
    for (struct zc_va *va = zc_va_list; va && result == CUDA_SUCCESS; va = va->next) {
        result = zc_va_open_host(va);
        for (int d = 0; d < devices && d < ZC_VA_DEVICES && result == CUDA_SUCCESS; d++)
            result = let_copy(va, d);
    }
    zc_va_unlock();
    return result;
}

const struct zc_module zc_module_access = {.context_gone = access_context_gone};
