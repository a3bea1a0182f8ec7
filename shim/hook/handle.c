/* SPDX-License-Identifier: MIT */
/* Handles of physical memory to which a rule applies, and their mappings. */
#include "hook/handle.h"

#include <string.h>

#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "ledger/rules.h"
#include "memory/budget.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "place/fallback.h"

static ZC_LOCK(lock, ZC_RANK_HANDLE);
static ZC_OWN struct {
    struct zc_handle *known; /* By handle; under the lock. */
    unsigned records;        /* Atomic: programs without such rules need no lock. */
} handles;

/* Under the lock. */
static bool link_in(struct zc_handle *h)
{
    HASH_ADD(hh, handles.known, handle, sizeof(h->handle), h);
    return h->hh.tbl;
}

static bool remember_handle(struct zc_handle *h)
{
    if (!zc_lock_take(&lock))
        return false;
    bool added = link_in(h);
    zc_lock_drop(&lock);
    if (!added)
        return false;
    __atomic_fetch_add(&handles.records, 1, __ATOMIC_RELEASE);
    return true;
}

/* Frees the record: nothing uses the memory any more, and it no longer counts. */
static void forget_handle(struct zc_handle *h)
{
    __atomic_fetch_sub(&handles.records, 1, __ATOMIC_RELEASE);
    if (h->backing)
        zc_place_release(h->backing, true);
    if (h->budget)
        zc_budget_give(h->rule, h->size);
    zc_arena_put(h, sizeof(*h));
}

bool zc_handle_any(void)
{
    return __atomic_load_n(&handles.records, __ATOMIC_ACQUIRE) && zc_life_on();
}

struct zc_handle *zc_handle_map(CUmemGenericAllocationHandle handle)
{
    if (!zc_handle_any() || !zc_lock_take(&lock))
        return NULL;
    struct zc_handle *h;
    HASH_FIND(hh, handles.known, &handle, sizeof(handle), h);
    if (h)
        h->mapped++;
    zc_lock_drop(&lock);
    return h;
}

void zc_handle_unmap(struct zc_handle *h)
{
    if (!h || !zc_lock_take(&lock))
        return;
    bool last = --h->mapped == 0 && !h->held;
    zc_lock_drop(&lock);
    if (last)
        forget_handle(h);
}

/* If memory is short, what libzc keeps for later is given back first.  What is in managed memory is
 * not available. */
static CUresult forwarded(__typeof__(cuMemCreate) *real, CUmemGenericAllocationHandle *handle,
                          size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
    int device = zc_life_on() && prop ? zc_location_device(&prop->location) : -1;
    if (device >= 0 && !zc_limits_device_holds(device, bytes, false))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return ZC_RECLAIMING(real(handle, bytes, prop, flags));
}

/* True for device memory in ordinary mappings; tiles of sparse arrays can't be elsewhere. */
static bool placeable(const CUmemGenericAllocationHandle *handle, size_t bytes,
                      const CUmemAllocationProp *prop, unsigned long long flags)
{
    return handle && bytes && prop && !flags && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !prop->allocFlags.usage &&
           (zc_rules()->apis & (UINT64_C(1) << ZC_API_cuMemCreate));
}

static const struct zc_rule *rule_of(const struct zc_entry *entry, size_t bytes, int device)
{
    struct zc_ask ask = {.entry = entry,
                         .api = ZC_API_cuMemCreate,
                         .size = bytes,
                         .asked = ZC_KIND_DEVICE,
                         .home = ZC_PLACE_DEVICE};
    if (!zc_ask_begin(&ask))
        return NULL;
    ask.device = device; /* A handle belongs to the device that it names, whichever is current. */
    return zc_ask_rule(&ask);
}

/* Tries the rule's list.  Fills h->backing, `why` and `budget`; on success the handle is in
 * *out. */
static CUresult place_handle(__typeof__(cuMemCreate) *real, CUmemGenericAllocationHandle *out,
                             struct zc_handle *h)
{
    const struct zc_want want = {.size = h->size,
                                 .device = h->asked.location.id,
                                 .rule = h->rule,
                                 .api = ZC_API_cuMemCreate,
                                 .prop = &h->asked};
    unsigned index = 0;
    h->backing = zc_place_try(&want, 0, &index, h->why, sizeof(h->why));
    h->budget = index == 0;
    if (!h->backing) {
        CUresult result = forwarded(real, out, h->size, &h->asked, 0);
        if (result != CUDA_SUCCESS && h->budget)
            zc_budget_give(h->rule, h->size);
        if (result != CUDA_ERROR_OUT_OF_MEMORY || index >= h->rule->place.count)
            return result;
        h->budget = false;
        h->backing = zc_place_try(&want, index + 1, &index, h->why, sizeof(h->why));
        if (!h->backing)
            return result;
        strncpy(h->why, "device: out of memory", sizeof(h->why) - 1);
    }
    *out = h->backing->handle;
    return CUDA_SUCCESS;
}

ZC_BODY(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes,
                      const CUmemAllocationProp *prop, unsigned long long flags))
{
    const struct zc_rule *rule = NULL;
    struct zc_handle *h = NULL;
    if (zc_life_on() && placeable(handle, bytes, prop, flags))
        rule = rule_of(entry, bytes, prop->location.id);
    if (rule)
        h = zc_arena_get(sizeof(*h));
    if (!h)
        return forwarded(real, handle, bytes, prop, flags);
    h->asked = *prop;
    h->rule = rule;
    h->size = bytes;
    h->held = 1;
    CUresult result = place_handle(real, handle, h);
    zc_limits_end_room(); /* A mapping of it counts, not the handle. */
    if (result != CUDA_SUCCESS) {
        zc_arena_put(h, sizeof(*h));
        return result;
    }
    h->handle = *handle;
    if (!remember_handle(h)) {
        if (h->backing)
            zc_place_release(h->backing, false);
        if (h->budget)
            zc_budget_give(rule, bytes);
        bool hosted = h->backing;
        zc_arena_put(h, sizeof(*h));
        return hosted ? forwarded(real, handle, bytes, prop, flags) : CUDA_SUCCESS;
    }
    return CUDA_SUCCESS;
}

/* Removed from the table before the driver can reuse the number. */
ZC_BODY(cuMemRelease, (CUmemGenericAllocationHandle handle))
{
    struct zc_handle *h = zc_handle_map(handle);
    if (!h || !zc_lock_take(&lock))
        return real(handle);
    if (--h->held == 0)
        HASH_DEL(handles.known, h);
    zc_lock_drop(&lock);
    CUresult result = real(handle);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && zc_lock_take(&lock)) {
        if (h->held++ == 0)
            link_in(h);
        zc_lock_drop(&lock);
    }
    zc_handle_unmap(h);
    return result;
}

/* Another reference, maybe after the program released all that it had. */
static void note_retained(struct zc_handle *h, CUmemGenericAllocationHandle handle)
{
    if (!zc_lock_take(&lock))
        return;
    if (h->held && h->handle == handle) {
        h->held++;
    } else if (!h->held) {
        h->handle = handle;
        h->held = 1;
        link_in(h);
    }
    zc_lock_drop(&lock);
}

ZC_BODY(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address))
{
    if (zc_placed_near((CUdeviceptr)address))
        return CUDA_ERROR_INVALID_VALUE;
    const struct zc_block *b = zc_handle_any() ? zc_block_find((CUdeviceptr)address) : NULL;
    CUresult result = real(handle, address);
    if (result == CUDA_SUCCESS && b && (b->flags & ZC_BLOCK_MAPPING))
        note_retained(b->backing, *handle);
    return result;
}

/* Answers what the program asked for, except for fields that it is meant to check: compression
 * (CUDA Driver API, CUmemAllocationProp), and access by other bus devices. */
ZC_BODY(cuMemGetAllocationPropertiesFromHandle,
        (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle))
{
    CUresult result = real(prop, handle);
    struct zc_handle *h = result == CUDA_SUCCESS ? zc_handle_map(handle) : NULL;
    if (h && h->backing) {
        *prop = h->asked;
        prop->allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
        prop->allocFlags.gpuDirectRDMACapable = 0;
    }
    zc_handle_unmap(h);
    return result;
}
