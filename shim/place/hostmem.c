/* SPDX-License-Identifier: MIT */
/* Blocks of libc's malloc family in the host heap: made, resized and freed. */
#include "place/hostmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "driver/stream.h"
#include "host/hostblock.h"
#include "host/pinned.h"
#include "host/visits.h"
#include "ledger/rules.h"
#include "memory/device.h"
#include "memory/workers.h"
#include "shared/early.h"
#include "shared/backing.h"

/* Records the owner of the memory at `p`.  False if the ledger has no memory for that. */
static bool fill_slot(void *p, struct zc_slot *slot, const struct zc_hostmem_request *request,
                      uint32_t site, const struct zc_rule *rule)
{
    slot->size = request->size;
    slot->site = site;
    slot->rule = (int16_t)(rule - zc_rules()->rules);
    slot->api = (uint8_t)request->api;
    return zc_hostblock_enter(p, slot);
}

static int node_of(const struct zc_rule *rule)
{
    if (!(rule->given & ZC_KEY_BIT(ZC_KEY_NUMA)))
        return ZC_NODE_ANY;
    return rule->numa.local ? ZC_NODE_LOCAL : (int)rule->numa.node;
}

static void *place(const struct zc_hostmem_request *request, uint32_t site,
                   const struct zc_rule *rule)
{
    const struct zc_host_want want = {.size = request->size,
                                      .alignment = request->alignment,
                                      .node = node_of(rule),
                                      .zero = request->zero,
                                      .shareable = zc_hostrule_shares(rule),
                                      .spread = !zc_hostrule_shares(rule)};
    struct zc_slot *slot = NULL;
    const char *why = "";
    void *p = zc_hostheap_get(&want, &slot, &why);
    if (!p) {
        zc_hostrule_note(why, rule);
        return NULL;
    }
    if (!fill_slot(p, slot, request, site, rule)) {
        zc_hostheap_put(p);
        return NULL;
    }
    if (want.shareable)
        zc_early_want(zc_hostheap_extent((uintptr_t)p));
    return p;
}

void *zc_hostmem_get(const struct zc_hostmem_request *request)
{
    uint32_t site = 0;
    int saved = errno;
    void *p = NULL;
    if (zc_hostrule_ready() && request->size >= zc_hostheap.threshold &&
        request->alignment <= ZC_HOST_UNIT) {
        const struct zc_rule *rule = zc_hostrule_of(request, &site);
        if (rule)
            p = place(request, site, rule);
    }
    errno = saved;
    return p;
}

void zc_hostmem_put(void *p)
{
    int saved = errno;
    if (!zc_hostblock_slot(p)) {
        zc_message(ZC_ERROR, "free", "free(): %p is no block of libc's", p);
        abort();
    }
    struct zc_extent *extent = zc_hostheap_extent((uintptr_t)p);
    bool alone = extent->use == ZC_EXTENT_BLOCK;
    if (alone)
        zc_hostheap_claim(extent);
    zc_hostblock_leave(p);
    if (alone) {
        zc_early_freed(extent);
        zc_shared_host_gone(extent);
    }
    zc_hostheap_put(p);
    errno = saved;
}

size_t zc_hostmem_size(const void *p)
{
    const struct zc_slot *slot = zc_hostblock_slot(p);
    return slot ? slot->size : 0;
}

/* A block that shrinks far below its room moves, so that memory is given back. */
static bool fits_in_place(const void *p, const struct zc_hostmem_request *request)
{
    size_t room = zc_hostheap_room(p);
    return request->size <= room && request->size >= room / 2;
}

static void *resize(void *p, struct zc_slot *slot, const struct zc_hostmem_request *request)
{
    uint32_t site = 0;
    const struct zc_rule *rule = zc_hostrule_of(request, &site);
    if (!rule)
        return NULL;
    struct zc_extent *extent = zc_hostheap_extent((uintptr_t)p);
    bool stays = extent->node == node_of(rule), alone = extent->use == ZC_EXTENT_BLOCK;
    if (alone)
        zc_hostheap_claim(extent);
    /* Before another block can get its addresses. */
    zc_hostblock_leave(p);
    void *moved = fits_in_place(p, request) ? p
                  : stays                   ? zc_hostheap_resize(p, request->size, &slot)
                                            : NULL;
    if (moved)
        fill_slot(moved, slot, request, site, rule);
    if (alone && (!moved || moved == p))
        zc_hostheap_unclaim(extent);
    if (moved)
        return moved;
    moved = place(request, site, rule);
    if (moved) {
        zc_workers_copy(moved, p, slot->size < request->size ? slot->size : request->size);
        zc_hostmem_put(p);
    } else {
        zc_hostblock_enter(p, slot);
    }
    return moved;
}

void *zc_hostmem_resize(void *p, const struct zc_hostmem_request *request)
{
    struct zc_slot *slot = zc_hostblock_slot(p);
    int saved = errno;
    void *out = slot && request->size >= zc_hostheap.threshold ? resize(p, slot, request) : NULL;
    errno = saved;
    return out;
}

CUresult zc_hostmem_yield(void *p, size_t bytes, enum zc_fn fn)
{
    struct zc_shared *pair = zc_shared_at((uint64_t)(uintptr_t)p);
    CUresult state = pair ? zc_stream_state() : CUDA_SUCCESS;
    if (state == CUDA_SUCCESS)
        state = zc_shared_to_own(pair, fn, "the program registers its host block");
    if (state != CUDA_SUCCESS || !zc_hostmem_owns(p) || !bytes)
        return state;
    if (zc_pinned_freed((CUdeviceptr)p, bytes))
        return zc_stream_refusal();
    zc_hostblock_hide((CUdeviceptr)p);
    zc_pinned_yield((CUdeviceptr)p, bytes);
    return CUDA_SUCCESS;
}

void zc_hostmem_return(void *p, size_t bytes)
{
    if (zc_hostmem_owns(p) && bytes)
        zc_pinned_return((CUdeviceptr)p, bytes);
}

void zc_hostmem_fit(bool all)
{
    int saved = errno;
    zc_hostheap_fit(all);
    errno = saved;
}
