/* SPDX-License-Identifier: MIT */
/* Which devices can reach memory that libzc mapped by hand. */
#include "vmm/access.h"

#include "base/list.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "vmm/vmm.h"

static ZC_OWN struct {
    bool many;                   /* There may be more than one device.  Atomic. */
    bool all;                    /* So may unknown calls.  Atomic. */
    uint64_t let_in[ZC_DEVICES]; /* By the device that has the memory: those with peer access.
                                  * Atomic. */
} rights;

/* The devices that peer access lets reach a range. */
static uint64_t let_in(const struct zc_va *va)
{
    return zc_va_bit(va->device) | __atomic_load_n(&rights.let_in[va->device], __ATOMIC_RELAXED);
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
    if (!rights.many && (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices > 1))
        __atomic_store_n(&rights.many, true, __ATOMIC_RELAXED);
    va->devices = let_in(va);
    DL_PREPEND2(zc_va_list, va, before, next);
    return CUDA_SUCCESS;
}

uint64_t zc_access_others(const struct zc_va *va)
{
    return (__atomic_load_n(&rights.all, __ATOMIC_RELAXED) ? va->devices : let_in(va)) &
           ~zc_va_bit(va->device);
}

/* Opens an entered range to one more device.  With the lock. */
static CUresult let_device(struct zc_va *va, int device)
{
    if (va->devices & zc_va_bit(device))
        return CUDA_SUCCESS;
    CUresult result = zc_va_open(va, zc_va_bit(device));
    va->devices |= result == CUDA_SUCCESS ? zc_va_bit(device) : 0;
    return result;
}

CUresult zc_access_enable(CUcontext peer)
{
    CUdevice user, owner;
    CUresult result = zc_real.cuCtxGetDevice(&user) ?: zc_context_device(peer, &owner);
    if (result != CUDA_SUCCESS || owner >= ZC_DEVICES)
        return result;
    if (!zc_va_lock())
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct zc_va *va = zc_va_list; va && result == CUDA_SUCCESS; va = va->next)
        result = va->device == owner ? let_device(va, user) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        __atomic_fetch_or(&rights.let_in[owner], zc_va_bit(user), __ATOMIC_RELAXED);
    zc_va_unlock();
    return result;
}

static bool can_reach(int device, int memory)
{
    int can = 0;
    return zc_real.cuDeviceCanAccessPeer(&can, device, memory) != CUDA_SUCCESS || can;
}

/* If the devices can't reach each other, the driver is left to refuse. */
CUresult zc_access_let_copy(struct zc_va *va, int device)
{
    ZC_VA_LOCKED;
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = let_device(va, device);
    if (result != CUDA_SUCCESS && !can_reach(device, va->device))
        result = CUDA_SUCCESS;
    zc_capture_restore(before);
    return result;
}

static CUresult open_side(const struct zc_block *side, int device)
{
    struct zc_vmm *v = zc_vmm_of(side);
    if (!v || v->va.device == device || !zc_va_lock())
        return CUDA_SUCCESS;
    CUresult result = zc_access_let_copy(&v->va, device);
    zc_va_unlock();
    return result;
}

/* The driver may refuse to open a block to the CPU. */
static CUresult open_to_cpu(const struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    return v && v->va.host.closed ? zc_va_open_host(&v->va) : CUDA_SUCCESS;
}

/* Devices that may have the memory of a side, one bit each: an array does not say where it is. */
static uint64_t side_devices(const struct zc_operand *side)
{
    const struct zc_vmm *v = zc_vmm_of(side->block);
    uint64_t devices = 0;
    int device = -1, count = 0;
    if (side->side == ZC_SIDE_ARRAY && !side->context)
        zc_real.cuDeviceGetCount(&count);
    for (int d = 0; d < count && d < ZC_DEVICES; d++)
        devices |= zc_context_primary(d) ? zc_va_bit(d) : 0;
    if (v)
        device = v->va.device;
    else if (side->context)
        zc_context_device(side->context, &device);
    else if (side->real == ZC_KIND_DEVICE || side->real == ZC_KIND_MANAGED)
        zc_real.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, side->address);
    return devices | zc_va_bit(device);
}

/* Host memory of a block has to be open to the device that has the other side, too, or the copy
 * faults or ends the process, whichever device makes it (tests/gpu/peer_facts.c). */
static CUresult open_host_part(const struct zc_operand *side, const struct zc_operand *other)
{
    const struct zc_vmm *v = zc_vmm_of(side->block);
    uint64_t devices = v && zc_vmm_spilled(v) ? side_devices(other) : 0;
    CUresult result = CUDA_SUCCESS;
    for (int d = 0; d < ZC_DEVICES && devices && result == CUDA_SUCCESS; d++)
        result = devices & zc_va_bit(d) ? open_side(side->block, d) : CUDA_SUCCESS;
    return result;
}

CUresult zc_vmm_open_far(const struct zc_copy *c)
{
    if (!__atomic_load_n(&rights.many, __ATOMIC_RELAXED) || c->shape == ZC_SHAPE_SET)
        return CUDA_SUCCESS;
    return open_host_part(&c->dst, &c->src) ?: open_host_part(&c->src, &c->dst);
}

static CUresult open_sides(const struct zc_copy *c, int device)
{
    return open_side(c->dst.block, device) ?: open_side(c->src.block, device);
}

/* A driver asks for the rights of the current context's device, whose stream a copy may not be in;
 * for sets and batches it asks for those of the stream's (measured). */
CUresult zc_vmm_open(const struct zc_copy *c, bool batch)
{
    int device;
    bool set = c->shape == ZC_SHAPE_SET;
    const struct zc_vmm *to = zc_vmm_of(c->dst.block);
    CUresult result = open_to_cpu(c->dst.block) ?: open_to_cpu(c->src.block);
    if (result != CUDA_SUCCESS || !__atomic_load_n(&rights.many, __ATOMIC_RELAXED) ||
        (!to && !zc_vmm_of(c->src.block)))
        return result;
    result = zc_vmm_open_far(c);
    if (result != CUDA_SUCCESS || zc_copy_peers(c))
        return result;
    if (set || batch)
        result = zc_stream_device(c->stream, c->flavour, &device);
    if (result == CUDA_SUCCESS && set && to) /* As the driver says it of devices without access. */
        return let_in(&to->va) & zc_va_bit(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS || set)
        return result;
    if (batch)
        result = open_sides(c, device);
    return result == CUDA_SUCCESS && zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS
               ? open_sides(c, device)
               : result;
}

CUresult zc_access_open_all(void)
{
    int devices;
    if (!__atomic_load_n(&zc_va_list, __ATOMIC_RELAXED))
        return CUDA_SUCCESS;
    CUresult result = zc_real.cuDeviceGetCount(&devices);
    if (result != CUDA_SUCCESS || !zc_va_lock())
        return result;
    __atomic_store_n(&rights.all, true, __ATOMIC_RELAXED);
    for (struct zc_va *va = zc_va_list; va && result == CUDA_SUCCESS; va = va->next) {
        result = zc_va_open_host(va);
        for (int d = 0; d < devices && d < ZC_DEVICES && result == CUDA_SUCCESS; d++)
            result = zc_access_let_copy(va, d);
    }
    zc_va_unlock();
    return result;
}
