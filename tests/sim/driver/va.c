/* SPDX-License-Identifier: MIT */
/* Addresses: a reserved public range that the CPU can't touch, and for each device an alias range
 * of the same layout, at which the CPU, playing that device, finds the bytes. Access rights are the
 * rights of the alias pages. */
#define _GNU_SOURCE
#include "memory.h"
#include "range.h"
#include <string.h>
#include <sys/mman.h>

#define VA_SIZE ((size_t)256 << 30) /* small enough for ThreadSanitizer's map of addresses */

static struct sim_ranges va_free;
static char *va_base;
static char *alias_base[SIM_MAX_DEVICES];

static char *reserve(void)
{
    char *p = mmap(NULL, VA_SIZE + SIM_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, VA_SIZE + SIM_PAGE, MADV_DONTDUMP);
    return (char *)(((uintptr_t)p + SIM_PAGE - 1) & ~(SIM_PAGE - 1));
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
    sim_ranges_give(&va_free, (uint64_t)(uintptr_t)base, VA_SIZE);
    return CUDA_SUCCESS;
}

bool sim_va_reserved(CUdeviceptr va)
{
    return va_base && va - (CUdeviceptr)(uintptr_t)va_base < VA_SIZE;
}

char *sim_alias(CUdeviceptr va, int device)
{
    return alias_base[device] + (va - (CUdeviceptr)(uintptr_t)va_base);
}

CUdeviceptr sim_va_take(size_t size, size_t alignment)
{
    uint64_t start;
    if (size > VA_SIZE || !sim_ranges_take(&va_free, size, alignment, &start))
        return 0;
    return start;
}

bool sim_va_take_at(CUdeviceptr va, size_t size)
{
    return sim_va_reserved(va) && size <= VA_SIZE && sim_ranges_take_at(&va_free, va, size);
}

void sim_va_give(CUdeviceptr va, size_t size)
{
    sim_ranges_give(&va_free, va, size);
}

bool sim_alias_back(CUdeviceptr va, size_t size, int device)
{
    char *p = mmap(sim_alias(va, device), size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED)
        return false;
    memset(p, 0xA5,
           size); /* fresh device memory holds garbage: a program that relies on zeros must fail */
    return true;
}

void sim_alias_drop(CUdeviceptr va, size_t size, int device)
{
    mmap(sim_alias(va, device), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
