/* SPDX-License-Identifier: MIT */
/* Reservations, mappings and access rights. A mapping is a block whose pages appear in the alias
 * range of each device that may touch it, with that device's rights, and at the public address for
 * the CPU if the handle is host memory. */
#define _GNU_SOURCE
#include "vmm.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct sim_range *reservations; /* sorted by address */
static size_t reservation_count, reservation_capacity;

size_t sim_reservations_count(void)
{
    return reservation_count;
}

/* The number of reservations that start at `va` or before. */
static size_t reservations_until(CUdeviceptr va)
{
    size_t low = 0, high = reservation_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (reservations[mid].base <= va)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void reservation_add(CUdeviceptr va, size_t size)
{
    size_t at = reservations_until(va);
    if (reservation_count == reservation_capacity) {
        reservation_capacity = reservation_capacity ? 2 * reservation_capacity : 64;
        reservations = realloc(reservations, reservation_capacity * sizeof *reservations);
    }
    memmove(reservations + at + 1, reservations + at,
            (reservation_count - at) * sizeof *reservations);
    reservations[at] = (struct sim_range){va, size};
    reservation_count++;
}

static bool aligned(uint64_t a)
{
    return a % SIM_PAGE == 0;
}

SIM_API(cuMemAddressReserve,
        (CUdeviceptr * out, size_t size, size_t alignment, CUdeviceptr hint,
         unsigned long long flags),
        (out, size, alignment, hint, flags))
{
    bool power = (alignment & (alignment - 1)) == 0;
    if (!out || size == 0 || !aligned(size) || !power || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr va = hint ? sim_va_take_hint(hint, size) : 0;
    if (!va)
        va = sim_va_take(size, alignment > SIM_PAGE ? alignment : SIM_PAGE);
    if (!va)
        return CUDA_ERROR_OUT_OF_MEMORY;
    reservation_add(va, size);
    *out = va;
    return CUDA_SUCCESS;
}

/* The whole reservation at once, and nothing mapped in it. */
SIM_API(cuMemAddressFree, (CUdeviceptr va, size_t size), (va, size))
{
    size_t behind = reservations_until(va);
    struct sim_range *r = reservations + behind - 1;
    if (behind == 0 || r->base != va || r->size != size || sim_block_overlap(va, size))
        return CUDA_ERROR_INVALID_VALUE;
    reservation_count--;
    memmove(r, r + 1, (reservation_count + 1 - behind) * sizeof *r);
    sim_va_end(va, size);
    return CUDA_SUCCESS;
}

struct sim_range sim_reservation_of(CUdeviceptr va)
{
    size_t behind = reservations_until(va);
    return behind > 0 ? reservations[behind - 1] : (struct sim_range){0, 0};
}

bool sim_reservation_holds(CUdeviceptr va, size_t size)
{
    size_t behind = reservations_until(va);
    const struct sim_range *r = reservations + behind - 1;
    return behind > 0 && size <= r->size && va - r->base <= r->size - size;
}

/* A part of a handle can't be mapped (measured: 801). */
SIM_API(cuMemMap,
        (CUdeviceptr va, size_t size, size_t offset, CUmemGenericAllocationHandle value,
         unsigned long long flags),
        (va, size, offset, value, flags))
{
    struct sim_handle *h = sim_handle_of(value);
    if (!h || flags || size == 0 || !aligned(va) || !aligned(size) || !aligned(offset))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_reservation_holds(va, size) || sim_block_overlap(va, size) || offset + size > h->size)
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || size != h->size)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_block *b = sim_block_add(va, size, SIM_VMM, h->device, NULL);
    b->handle = h;
    h->mappings++;
    return CUDA_SUCCESS;
}

/* Walks the mappings of [va, va+size), which must start and end at their borders; NULL at the end
 * or at a gap. */
static struct sim_block *mapping_at(CUdeviceptr va, CUdeviceptr end)
{
    struct sim_block *b = va < end ? sim_block_find(va) : NULL;
    return b && b->kind == SIM_VMM && b->va == va && b->va + b->size <= end ? b : NULL;
}

static bool whole_mappings(CUdeviceptr va, size_t size)
{
    CUdeviceptr end = va + size;
    struct sim_block *b;
    if (size == 0 || end < va)
        return false;
    while ((b = mapping_at(va, end)) != NULL)
        va += b->size;
    return va == end;
}

static int location_index(CUmemLocation at)
{
    switch ((int)at.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_valid(at.id) ? at.id : -1;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return SIM_CPU;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return at.id == 0 ? SIM_CPU : -1;
    default:
        return -1;
    }
}

SIM_API(cuMemUnmap, (CUdeviceptr va, size_t size), (va, size))
{
    CUdeviceptr end = va + size;
    struct sim_block *b;
    if (!aligned(va) || !aligned(size) || !whole_mappings(va, size))
        return CUDA_ERROR_INVALID_VALUE;
    while ((b = mapping_at(va, end)) != NULL) {
        struct sim_handle *h = b->handle;
        va += b->size;
        for (int user = 0; user <= SIM_CPU; user++)
            sim_mapping_protect(b, user, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        sim_block_remove(b);
        h->mappings--;
        sim_handle_settle(h);
    }
    return CUDA_SUCCESS;
}

/* The CPU can be given access to host memory alone. */
static CUresult access_check(CUdeviceptr va, CUdeviceptr end, const CUmemAccessDesc *d)
{
    int user = location_index(d->location);
    bool flags = d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                 d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                 d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (user < 0)
        return d->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                               : CUDA_ERROR_INVALID_VALUE;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_block *b; (b = mapping_at(va, end)) != NULL; va += b->size)
        if (user == SIM_CPU && b->device >= 0)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

SIM_API(cuMemSetAccess, (CUdeviceptr va, size_t size, const CUmemAccessDesc *desc, size_t count),
        (va, size, desc, count))
{
    CUdeviceptr end = va + size;
    struct sim_block *b;
    if (!desc || count == 0 || !aligned(va) || !aligned(size) || !whole_mappings(va, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult r = access_check(va, end, &desc[i]);
        if (r != CUDA_SUCCESS)
            return r;
    }
    for (; (b = mapping_at(va, end)) != NULL; va += b->size)
        for (size_t i = 0; i < count; i++) {
            CUresult r = sim_mapping_protect(b, location_index(desc[i].location),
                                             (unsigned char)desc[i].flags);
            if (r != CUDA_SUCCESS)
                return r;
        }
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr va),
        (flags, location, va))
{
    struct sim_block *b = sim_block_find(va);
    int user = location ? location_index(*location) : -1;
    if (!flags || user < 0 || !b || b->kind != SIM_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = b->access[user];
    return CUDA_SUCCESS;
}
