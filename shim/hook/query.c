/* SPDX-License-Identifier: MIT */
/* Answers what a program asks about a block as if it were the requested memory. */
#include <string.h>

#include "base/life.h"
#include "base/memory.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "hook/diagnose.h"
#include "place/placed.h"
#include "hook/request.h"
#include "ledger/rules.h"
#include "memory/device.h"
#include "place/freed.h"
#include "place/room.h"
#include "place/verbs.h"

/* Bytes that the driver writes of CU_POINTER_ATTRIBUTE_P2P_TOKENS (measured). */
#define P2P_TOKENS 12

/* The driver maps memory of its own in pages of this size. */
#define HUGE_PAGE ((CUdeviceptr)2 << 20)

/* The pages that an answer about a mapping speaks of. */
static CUdeviceptr first_page(const struct zc_block *b)
{
    return b->flags & ZC_BLOCK_ADOPTED ? zc_page_start(b->base) : b->base & ~(HUGE_PAGE - 1);
}
static uint64_t pages_of(const struct zc_block *b)
{
    CUdeviceptr end = b->base + b->size;
    return (b->flags & ZC_BLOCK_ADOPTED ? zc_page_end(end)
                                        : (end + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)) -
           first_page(b);
}

static struct zc_block *asked_about(CUdeviceptr ptr)
{
    return zc_life_on() ? zc_placed_at(ptr) : NULL;
}

static CUresult put_int(void *data, int value)
{
    *(int *)data = value;
    return CUDA_SUCCESS;
}

static CUresult put_word(void *data, uint64_t value)
{
    *(uint64_t *)data = value;
    return CUDA_SUCCESS;
}

/* The driver's ids, which only have to be unique, stay below. */
#define OWN_IDS ((uint64_t)1 << 62)

/* True for a block with all its memory on its device. */
static bool query_on_device(const struct zc_block *b)
{
    return zc_place_on_device(b) >= (int64_t)b->size;
}

/* A lazy block has no memory yet that another device could reach, and none reaches host memory. */
static int reached_by_bus(__typeof__(cuPointerGetAttribute) *real, const struct zc_block *b,
                          CUdeviceptr ptr)
{
    int reached = 0;
    if (!query_on_device(b) ||
        real(&reached, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, ptr) != CUDA_SUCCESS)
        return 0;
    return reached;
}

/* CUDA_ERROR_INVALID_VALUE for an attribute that came with a newer driver. */
static CUresult attribute_known(const struct zc_block *b, CUpointer_attribute attribute)
{
    uint64_t unknown[8];
    void *answers = unknown;
    bool pushed = zc_context_push_if_none(b->context);
    CUresult result =
        zc_real.cuPointerGetAttributes(1, &attribute, &answers, (CUdeviceptr)&unknown);
    zc_context_pop(pushed);
    return result == CUDA_ERROR_INVALID_VALUE ? result : CUDA_SUCCESS;
}

/* An attribute that libzc does not know, of a block that the driver gets to know if it knows the
 * attribute. */
static CUresult ask_driver(__typeof__(cuPointerGetAttribute) *real, const struct zc_block *b,
                           void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CUresult result =
        attribute_known(b, attribute)
            ?: zc_place_retreat(b, ZC_FN_cuPointerGetAttribute, false, ZC_RETREAT_ASKED);
    return result == CUDA_SUCCESS ? ZC_HOLDING_STILL(real(data, attribute, ptr)) : result;
}

/*
 * One attribute of a converted block, answered as for the requested memory, whatever lies behind it
 * at present.  Some attributes tell the truth: whether other processes, other bus devices and the
 * decompression engine can use the block, because a program that asks has another way if they
 * can't.  The id is libzc's, because the memory may have been another block's before, or change.
 */
static CUresult query_answer(__typeof__(cuPointerGetAttribute) *real, const struct zc_block *b,
                             void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    bool hosted = zc_block_hosted(b);
    if (!data || (b->flags & ZC_BLOCK_QUARANTINED))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return put_word(data, OWN_IDS | b->id);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return put_word(data, (uint64_t)b->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return put_int(data, hosted ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return put_word(data, ptr);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return hosted ? put_word(data, ptr) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        if (!hosted)
            memset(data, 0, P2P_TOKENS);
        return hosted ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return put_int(data,
                       !!(__atomic_load_n(&b->flags, __ATOMIC_RELAXED) & ZC_BLOCK_SYNC_MEMOPS));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return put_int(data, 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return put_int(data, reached_by_bus(real, b, ptr));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return put_int(data, b->device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return put_word(data, b->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return put_word(data, b->size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return put_int(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return put_word(data, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return put_int(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return put_word(data, pages_of(b));
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return put_word(data, first_page(b));
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return attribute_known(b, attribute) ?: put_int(data, 0);
    case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
        return attribute_known(b, attribute) ?: put_int(data, -1);
    default:
        return ask_driver(real, b, data, attribute, ptr);
    }
}

ZC_BODY(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr ptr))
{
    const struct zc_block *b = asked_about(ptr);
    if (b)
        return query_answer(real, b, data, attribute, ptr);
    return zc_in_margin(ptr) ? CUDA_ERROR_INVALID_VALUE : real(data, attribute, zc_disguise(ptr));
}

/* Attributes that do not apply are 0, and the call succeeds (CUDA Driver API,
 * cuPointerGetAttributes).  About a block of libzc's the driver is asked as about memory that it
 * does not know: that is the answer of a freed one, and of another one the call's own checks.  It
 * returns that address itself as a host address (measured), so the program gets its own. */
ZC_BODY(cuPointerGetAttributes,
        (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr))
{
    static const char unknown;
    const struct zc_block *b = asked_about(ptr);
    CUdeviceptr instead = b || zc_in_margin(ptr) ? (CUdeviceptr)&unknown : zc_disguise(ptr);
    CUresult result = real(count, attributes, data, instead);
    bool freed = b && b->flags & ZC_BLOCK_QUARANTINED;
    for (unsigned i = 0; result == CUDA_SUCCESS && instead != ptr && i < count; i++) {
        bool host = attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER;
        if (host && *(const CUdeviceptr *)data[i] == instead)
            put_word(data[i], ptr);
        if (b && !freed &&
            query_answer(zc_real.cuPointerGetAttribute, b, data[i], attributes[i], ptr) !=
                CUDA_SUCCESS &&
            host)
            put_word(data[i], 0);
    }
    return result;
}

/* libzc stores the flag for converted blocks: its copies are never more asynchronous than the flag
 * allows, and the driver refuses it for some kinds of memory. */
ZC_BODY(cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr ptr))
{
    struct zc_block *b = asked_about(ptr);
    if (!b && zc_in_margin(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    if (!b || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return real(value, attribute, zc_disguise(ptr));
    if (!value || (b->flags & ZC_BLOCK_QUARANTINED))
        return CUDA_ERROR_INVALID_VALUE;
    /* The driver copies pinned blocks, so it must know the flag.  Other blocks in the same
     * registration wait as well. */
    if (zc_block_hosted(b)) {
        CUresult result = zc_pinned_sync(b->base, *(const int *)value);
        if (result != CUDA_SUCCESS)
            return result;
        if (b->backing)
            ((struct zc_backing *)b->backing)->synced = true;
    }
    if (*(const int *)value)
        __atomic_fetch_or(&b->flags, ZC_BLOCK_SYNC_MEMOPS, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&b->flags, (uint16_t)~ZC_BLOCK_SYNC_MEMOPS, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

ZC_BODY(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *bytes, CUdeviceptr ptr))
{
    const struct zc_block *b = asked_about(ptr);
    bool in_margin = !b && zc_in_margin(ptr);
    if (!b && !in_margin)
        return real(base, bytes, zc_disguise(ptr));
    CUresult state = zc_stream_state();
    if (state != CUDA_SUCCESS)
        return state;
    if (in_margin || (b->flags & ZC_BLOCK_QUARANTINED))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = b->base;
    if (bytes)
        *bytes = b->size;
    return CUDA_SUCCESS;
}

/* Memory that streams have passed counts as free. */
ZC_BODY(cuMemGetInfo_v2, (size_t * free, size_t *total))
{
    CUdevice device = 0;
    if (free && zc_life_on())
        zc_freed_reap(false);
    CUresult result = real(free, total);
    if (result != CUDA_SUCCESS || !zc_life_on())
        return result;
    zc_real.cuCtxGetDevice(&device);
    zc_room_report(device, free, total);
    return result;
}

/* A dma-buf of host memory is not what the program asked for.  A block of `shared` is device memory
 * from then on. */
ZC_BODY(cuMemGetHandleForAddressRange, (void *handle, CUdeviceptr ptr, size_t bytes,
                                        CUmemRangeHandleType type, unsigned long long flags))
{
    struct zc_block *b = zc_life_on() ? zc_converted_at(ptr) : NULL;
    if (zc_in_margin(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = CUDA_SUCCESS,
             result = zc_place_retreat(b, entry->fn, false, ZC_RETREAT_ASKED);
    if (result != CUDA_SUCCESS)
        return result;
    bool mine = b && zc_driver_lock(); /* It is not moved meanwhile. */
    if (b && !query_on_device(b))
        refused = CUDA_ERROR_NOT_SUPPORTED;
    else
        result = real(handle, ptr, bytes, type, flags);
    if (b && !refused && result == CUDA_SUCCESS)
        __atomic_fetch_or(&b->flags, ZC_BLOCK_EXPORTED, __ATOMIC_RELAXED);
    if (mine)
        zc_driver_unlock();
    return refused ? zc_diagnose(entry->fn, ptr, refused) : result;
}
