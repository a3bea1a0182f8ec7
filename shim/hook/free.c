/* SPDX-License-Identifier: MIT */
/* Freeing device memory. */
#include "base/life.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "hook/diagnose.h"
#include "hook/request.h"
#include "place/freed.h"

/* A free while the process exits.  The memory goes with the process; `answer`, the driver's code
 * for freeing NULL, shows whether it still exists. */
static CUresult free_at_exit(struct zc_block *block, CUresult answer)
{
    if (!zc_block_claim(block))
        return CUDA_ERROR_INVALID_VALUE;
    zc_note_free(block);
    zc_block_remove(block);
    return answer;
}

static CUresult free_placed(enum zc_fn fn, struct zc_block *block)
{
    CUdeviceptr address = block->base;
    bool diagnosed;
    CUresult result = zc_place_free(block, zc_note_free, &diagnosed);
    diagnosed = diagnosed || result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE;
    return diagnosed ? result : zc_diagnose(fn, address, result);
}

/* The driver reports a sticky error, or a capture, before it looks at the address; so does freeing
 * NULL. */
static CUresult free_block(enum zc_fn fn, struct zc_block *block, CUdeviceptr address)
{
    CUresult state = zc_real.cuMemFree_v2(0);
    if (state != CUDA_SUCCESS && !zc_life_closing())
        return state;
    if (block->base != address || (block->flags & ZC_BLOCK_QUARANTINED))
        return CUDA_ERROR_INVALID_VALUE;
    return zc_life_closing() ? free_at_exit(block, state) : free_placed(fn, block);
}

/* Without a context the errors of a block's count, but not at an address inside of it (measured).
 */
CUresult zc_free_block(enum zc_fn fn, struct zc_block *block, CUdeviceptr address)
{
    bool pushed = block->base == address && zc_context_push_if_none(block->context);
    CUresult result = free_block(fn, block, address);
    zc_context_pop(pushed);
    return result;
}

/* Host memory is not a device block: refused, unless the driver has another error to report
 * first. */
ZC_BODY(cuMemFree_v2, (CUdeviceptr dptr))
{
    struct zc_block *block = dptr && zc_life_on() ? zc_block_find(dptr) : NULL;
    if (block && zc_block_hosted(block))
        return real(0) ?: CUDA_ERROR_INVALID_VALUE;
    if (block && (block->flags & ZC_BLOCK_CONVERTED))
        return zc_free_block(entry->fn, block, dptr);
    struct zc_untracked untracked;
    zc_untrack_block(block && block->base == dptr ? block : NULL, &untracked);
    CUresult result = real(dptr);
    zc_retrack(&untracked, result);
    if (result == CUDA_SUCCESS && untracked.taken && !(untracked.copy.flags & ZC_BLOCK_STREAM))
        zc_freed_bare(&untracked.copy);
    return result;
}

/* The program may use the block until the stream reaches the free; after that its pages may go. */
ZC_BODY(cuMemFreeAsync, (CUdeviceptr dptr, CUstream stream))
{
    struct zc_block *block = dptr && zc_life_on() ? zc_converted_at(dptr) : NULL;
    if (block && !zc_capture_holds(stream, entry->flavour)) {
        if (block->base != dptr || (block->flags & ZC_BLOCK_QUARANTINED))
            return zc_stream_refusal();
        if (zc_life_closing())
            return free_at_exit(block, real(0, stream));
        CUevent event = zc_stream_mark(stream, entry->flavour);
        /* Without a mark the call waits.  During a capture that is forbidden; then the block stays
         * allocated. */
        CUresult waited = event              ? CUDA_SUCCESS
                          : zc_capture_any() ? CUDA_ERROR_OUT_OF_MEMORY
                                             : zc_stream_drain(stream, entry->flavour);
        if (waited != CUDA_SUCCESS)
            return zc_diagnose(entry->fn, dptr, waited);
        return zc_place_free_in_order(block, event, stream, entry->flavour, zc_note_free);
    }
    if (dptr && zc_life_on() && zc_hosted_at(dptr))
        return real(0, stream) ?: CUDA_ERROR_INVALID_VALUE;
    struct zc_untracked untracked;
    zc_untrack(dptr, &untracked);
    CUresult result = real(dptr, stream);
    zc_retrack(&untracked, result);
    return result;
}
