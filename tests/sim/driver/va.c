/* SPDX-License-Identifier: MIT */
/* Addresses: a reserved public range that the CPU can't touch, and for each device an alias range
 * of the same layout, at which the CPU, playing that device, finds the bytes. Access rights are the
 * rights of the alias pages. */
#define _GNU_SOURCE
#include "hmm.h"
#include "memory.h"
#include "pages.h"
#include "range.h"
#include <stdlib.h>
#include <string.h>

#define VA_SIZE ((size_t)256 << 30) /* small enough for ThreadSanitizer's map of addresses */

/* A driver takes hints at multiples of this, and no others (measured on an H200). */
#define HINT_UNIT ((CUdeviceptr)32 << 20)

/* A reservation at a hint outside of the public range, which has aliases of addresses inside. */
struct guest {
    CUdeviceptr va;     /* first address, as the program knows it */
    CUdeviceptr inside; /* the one that it stands for */
    size_t size;        /* bytes */
};

static struct guest *guests; /* owned array, in no order */
static size_t guest_count;
static struct sim_ranges va_free;
static char *va_base;
static char *alias_base[SIM_MAX_DEVICES];
static bool left_open; /* the CPU may have pages at addresses that are free again */

/* Only the driver has the memory that mapped device memory switches ATS off for. */
static char *reserve(void)
{
    size_t bytes = VA_SIZE + SIM_ATS_GRANULE;
    char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_DONTDUMP);
    return (char *)(((uintptr_t)p + SIM_ATS_GRANULE - 1) & ~(SIM_ATS_GRANULE - 1));
}

CUresult sim_memory_start(void)
{
    if (va_base)
        return CUDA_SUCCESS;
    char *base = reserve();
    for (int d = 0; base && d < sim_device_count; d++)
        if (!(alias_base[d] = reserve()))
            return CUDA_ERROR_OUT_OF_MEMORY;
    if (!base)
        return CUDA_ERROR_OUT_OF_MEMORY;
    va_base = base;
    /* Memory just before the first block is the driver's as well. */
    sim_ranges_give(&va_free, (uint64_t)(uintptr_t)base + SIM_PAGE, VA_SIZE - SIM_PAGE);
    return CUDA_SUCCESS;
}

static bool in_public_range(CUdeviceptr va)
{
    return va_base && va - (CUdeviceptr)(uintptr_t)va_base < VA_SIZE;
}

static struct guest *guest_of(CUdeviceptr va)
{
    for (size_t i = 0; i < guest_count; i++)
        if (va - guests[i].va < guests[i].size)
            return &guests[i];
    return NULL;
}

bool sim_va_reserved(CUdeviceptr va)
{
    return in_public_range(va) || guest_of(va);
}

char *sim_alias(CUdeviceptr va, int device)
{
    const struct guest *g = in_public_range(va) ? NULL : guest_of(va);
    if (g)
        va = g->inside + (va - g->va);
    return alias_base[device] + (va - (CUdeviceptr)(uintptr_t)va_base);
}

static void *close_addresses(CUdeviceptr va, size_t size, int flag)
{
    return sim_mmap((void *)(uintptr_t)va, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flag, -1, 0);
}

CUdeviceptr sim_va_take(size_t size, size_t alignment)
{
    uint64_t start;
    if (size > VA_SIZE || !sim_ranges_take(&va_free, size, alignment, &start))
        return 0;
    if (left_open)
        close_addresses(start, size, MAP_FIXED);
    return start;
}

CUdeviceptr sim_va_take_hint(CUdeviceptr hint, size_t size)
{
    if (hint % HINT_UNIT || size > VA_SIZE)
        return 0;
    if (in_public_range(hint))
        return sim_ranges_take_at(&va_free, hint, size) &&
                       (!left_open || close_addresses(hint, size, MAP_FIXED) != MAP_FAILED)
                   ? hint
                   : 0;
    if (close_addresses(hint, size, MAP_FIXED_NOREPLACE) != (void *)(uintptr_t)hint)
        return 0;
    CUdeviceptr inside = sim_va_take(size, SIM_PAGE);
    if (!inside) {
        sim_munmap((void *)(uintptr_t)hint, size);
        return 0;
    }
    guests = realloc(guests, (guest_count + 1) * sizeof *guests);
    guests[guest_count++] = (struct guest){hint, inside, size};
    return hint;
}

void sim_va_end(CUdeviceptr va, size_t size)
{
    struct guest *g = in_public_range(va) ? NULL : guest_of(va);
    if (g) {
        sim_munmap((void *)(uintptr_t)va, size);
        va = g->inside;
        *g = guests[--guest_count];
    }
    left_open = true; /* what the CPU has mapped there stays (measured) */
    sim_va_give(va, size);
}

void sim_va_give(CUdeviceptr va, size_t size)
{
    sim_ranges_give(&va_free, va, size);
}

bool sim_alias_back(CUdeviceptr va, size_t size, int device)
{
    char *p = sim_mmap(sim_alias(va, device), size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED)
        return false;
    /* Fresh device memory holds garbage: a program that relies on zeros must fail.  Huge pages make
     * that quick. */
    sim_madvise(p, size, MADV_HUGEPAGE);
    memset(p, 0xA5, size);
    return true;
}

void sim_alias_drop(CUdeviceptr va, size_t size, int device)
{
    sim_mmap(sim_alias(va, device), size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
