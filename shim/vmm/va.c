/* SPDX-License-Identifier: MIT */
/* Reserved ranges of virtual addresses, and what is mapped in them. */
#include "vmm/va.h"

#include <string.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"

#define WIDE_MAX 64 /* Most ranges that may be much larger than their blocks. */

static ZC_OWN unsigned wide_ranges; /* Those in use.  Atomic. */

static ZC_LOCK(lock, ZC_RANK_ACCESS);
ZC_OWN struct zc_va *zc_va_list;

bool zc_va_lock(void)
{
    return zc_lock_take(&lock);
}

void zc_va_unlock(void)
{
    zc_lock_drop(&lock);
}

CUresult zc_va_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide)
{
    size_t total = 0;
    if (wide && __atomic_load_n(&wide_ranges, __ATOMIC_RELAXED) < WIDE_MAX &&
        zc_real.cuDeviceTotalMem_v2(&total, va->device) == CUDA_SUCCESS && total > span) {
        va->size = zc_va_round_up(total, granularity);
        va->wide =
            zc_real.cuMemAddressReserve(&va->base, va->size, granularity, 0, 0) == CUDA_SUCCESS;
    }
    __atomic_fetch_add(&wide_ranges, va->wide, __ATOMIC_RELAXED);
    if (va->wide)
        return CUDA_SUCCESS;
    va->size = span;
    return zc_real.cuMemAddressReserve(&va->base, span, granularity, 0, 0);
}

/* Index of the first run that ends behind `at`, or `count`. */
static unsigned run_behind(const struct zc_va *va, size_t at)
{
    unsigned i = 0;
    while (i < va->count && va->run[i].to <= at)
        i++;
    return i;
}

bool zc_va_holds(const struct zc_va *va, size_t from, size_t to)
{
    unsigned i = run_behind(va, from);
    return from >= to || (i < va->count && va->run[i].from <= from && va->run[i].to >= to);
}

/* Records a new run, which overlaps no other but may touch some.  There must be room for it. */
static void add_run(struct zc_va *va, size_t from, size_t to)
{
    unsigned i = run_behind(va, from);
    bool left = i > 0 && va->run[i - 1].to == from;
    bool right = i < va->count && va->run[i].from == to;
    if (left && right) {
        va->run[i - 1].to = va->run[i].to;
        va->count--;
        memmove(&va->run[i], &va->run[i + 1], (va->count - i) * sizeof(*va->run));
    } else if (left) {
        va->run[i - 1].to = to;
    } else if (right) {
        va->run[i].from = from;
    } else {
        memmove(&va->run[i + 1], &va->run[i], (va->count - i) * sizeof(*va->run));
        va->run[i] = (struct zc_run){from, to};
        va->count++;
    }
}

/* Opens the mapped bytes [from, to) to devices. */
static CUresult open_range(const struct zc_va *va, uint64_t devices, size_t from, size_t to)
{
    CUmemAccessDesc desc[ZC_DEVICES];
    size_t count = 0;
    for (int d = 0; d < ZC_DEVICES; d++)
        if (devices & zc_va_bit(d)) {
            desc[count] =
                (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                  .flags = va->reads ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                     : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            desc[count++].location.id = d;
        }
    return count ? zc_real.cuMemSetAccess(va->base + from, to - from, desc, count) : CUDA_SUCCESS;
}

CUresult zc_va_open(const struct zc_va *va, uint64_t devices)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < va->count && result == CUDA_SUCCESS; i++)
        result = open_range(va, devices, va->run[i].from, va->run[i].to);
    return result;
}

/* Opens the host memory among the bytes [from, to) to the CPU. */
static CUresult open_host(const struct zc_va *va, size_t from, size_t to)
{
    from = from > va->host.from * ZC_VA_UNIT ? from : va->host.from * ZC_VA_UNIT;
    to = to < va->host.to * ZC_VA_UNIT ? to : va->host.to * ZC_VA_UNIT;
    const CUmemAccessDesc cpu = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST},
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return from < to ? zc_real.cuMemSetAccess(va->base + from, to - from, &cpu, 1) : CUDA_SUCCESS;
}

CUresult zc_va_open_host(struct zc_va *va)
{
    ZC_VA_LOCKED;
    bool mapped = zc_va_holds(va, va->host.from * ZC_VA_UNIT, va->host.to * ZC_VA_UNIT);
    CUresult result = va->host.closed && mapped ? open_host(va, 0, va->size) : CUDA_SUCCESS;
    va->host.closed = result != CUDA_SUCCESS;
    return result;
}

/* Opens the just mapped bytes [from, to). */
static CUresult open_run(const struct zc_va *va, size_t from, size_t to)
{
    CUresult result = open_range(va, va->devices, from, to);
    return result == CUDA_SUCCESS && !va->host.closed ? open_host(va, from, to) : result;
}

/* Maps consecutive chunks from `at` on, up to `to` or to one that is mapped already. *end_out is
 * where they end. */
static CUresult map_run(struct zc_va *va, const struct zc_chunk *chunk, unsigned count, size_t at,
                        size_t to, size_t *end_out, const char **why)
{
    size_t end = at;
    CUresult result = CUDA_SUCCESS;
    *why = "libzc has no memory for its record";
    if (!zc_arena_extend(&va->run, &va->room, va->count, sizeof(*va->run), 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count && end < to && result == CUDA_SUCCESS; i++) {
        if (zc_va_holds(va, end, end + 1))
            break;
        *why = "cuMemMap refuses";
        result = zc_real.cuMemMap(va->base + end, chunk[i].size, 0, chunk[i].handle, 0);
        if (result == CUDA_SUCCESS)
            end += chunk[i].size;
    }
    if (result == CUDA_SUCCESS) {
        *why = "cuMemSetAccess refuses";
        result = open_run(va, at, end);
    }
    if (result == CUDA_SUCCESS)
        add_run(va, at, end);
    else if (end > at)
        zc_real.cuMemUnmap(va->base + at, end - at);
    *end_out = end;
    return result;
}

CUresult zc_va_map(struct zc_va *va, const struct zc_chunks *chunks, size_t from, size_t to,
                   const char **why)
{
    CUresult result = CUDA_SUCCESS;
    size_t at = 0, end = 0, size;
    ZC_VA_LOCKED;
    for (unsigned i = 0; i < chunks->count && at < to && result == CUDA_SUCCESS; i++, at += size) {
        size = chunks->list[i].size;
        if (at + size > from && at >= end && !zc_va_holds(va, at, at + 1))
            result = map_run(va, chunks->list + i, chunks->count - i, at, to, &end, why);
    }
    return result;
}

CUresult zc_va_unmap_part(struct zc_va *va, size_t from, size_t to)
{
    ZC_VA_LOCKED;
    CUresult result = CUDA_SUCCESS;
    if (from && !zc_arena_extend(&va->run, &va->room, va->count, sizeof(*va->run), 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = run_behind(va, from); i < va->count && va->run[i].from < to; i++) {
        struct zc_run *r = &va->run[i], all = *r;
        size_t low = all.from > from ? all.from : from, high = all.to < to ? all.to : to;
        CUresult unmapped = zc_real.cuMemUnmap(va->base + low, high - low);
        result = result == CUDA_SUCCESS ? unmapped : result;
        if (unmapped != CUDA_SUCCESS)
            continue;
        /* The part that is left below stays here, and one above goes behind that. */
        bool below = all.from < low, above = high < all.to;
        memmove(r + below + above, r + 1, (va->count - i - 1) * sizeof(*r));
        if (below)
            r->to = low;
        if (above)
            r[below] = (struct zc_run){high, all.to};
        va->count += below + above - 1;
        i += below + above - 1;
    }
    return result;
}

CUresult zc_va_unmap(struct zc_va *va)
{
    return zc_va_unmap_part(va, 0, va->size);
}

void zc_va_move(struct zc_va *to, struct zc_va *from)
{
    ZC_VA_LOCKED;
    DL_DELETE2(zc_va_list, from, before, next);
    *to = *from;
    DL_PREPEND2(zc_va_list, to, before, next);
}

static CUresult leave_list(struct zc_va *va)
{
    ZC_VA_LOCKED;
    CUresult unmapped = zc_va_unmap(va);
    DL_DELETE2(zc_va_list, va, before, next);
    return unmapped;
}

CUresult zc_va_free(struct zc_va *va)
{
    CUresult unmapped = leave_list(va);
    CUresult freed = zc_real.cuMemAddressFree(va->base, va->size);
    __atomic_fetch_sub(&wide_ranges, va->wide, __ATOMIC_RELAXED);
    va->base = 0;
    zc_arena_put(va->run, va->room * sizeof(*va->run));
    return unmapped != CUDA_SUCCESS ? unmapped : freed;
}

CUresult zc_va_drop(struct zc_va *va)
{
    CUresult result = va ? zc_va_free(va) : CUDA_SUCCESS;
    zc_arena_put(va, sizeof(*va));
    return result;
}
