/* SPDX-License-Identifier: MIT */
/* A request: its caller, its rule, and its entry in the ledger. */
#include "hook/request.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/life.h"
#include "base/module.h"
#include "hook/diagnose.h"
#include "ledger/missed.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "log/ranges.h"
#include "memory/limits.h"
#include "memory/device.h"
#include "place/fallback.h"
#include "place/verbs.h"

static uint32_t generation = 1; /* Counts destroyed contexts, because handles are reused. */

/* The device of the context that this thread used last; asking the driver costs a call. */
static __thread struct {
    CUcontext context;
    int device;
    uint32_t generation;
} last;

static void find_context(struct zc_request *request)
{
    CUdevice device;
    uint32_t now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    request->context = NULL;
    request->device = -1;
    if (zc_real.cuCtxGetCurrent(&request->context) != CUDA_SUCCESS || !request->context)
        return;
    if (last.context != request->context || last.generation != now) {
        if (zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
            return;
        last.context = request->context;
        last.device = device;
        last.generation = now;
    }
    request->device = last.device;
}

bool zc_request_begin(struct zc_request *request)
{
    if (!zc_life_on())
        return false;
    request->site = zc_site_here(request->entry->frame, request->entry->pc);
    find_context(request);
    return true;
}

const struct zc_rule *zc_request_rule(const struct zc_request *request)
{
    const struct zc_policy *policy = zc_rules();
    if (policy->rule_count == 0)
        return NULL;
    struct zc_match match = {.api = request->api, .size = request->size, .device = request->device};
    if (__builtin_expect(policy->apis & (UINT64_C(1) << request->api), 0))
        return zc_rules_match(&match, request->site);
    zc_missed_note(policy, &match, request->site, false);
    return NULL;
}

static void log_alloc(const struct zc_block *block, const struct zc_request *request,
                      const struct zc_rule *rule, const char *why)
{
    char thread[16]; /* prctl(2): at most 16 bytes with the 0. */
    const struct zc_log_request line = {
        .stream = request->stream,
        .thread = prctl(PR_GET_NAME, thread) == 0 ? thread : NULL,
        .rule = rule ? rule->name : NULL,
        .line = rule ? rule->line : 0,
        .why = why && *why ? why : NULL,
        .range = zc_ranges_here(),
    };
    if (zc_site_is_new(block->site))
        zc_log_site(block->site);
    zc_log_alloc(block, &line);
}

/* Pages that the place has mapped from a block's last byte on; 0 if the block uses them all. */
static uint32_t pages_behind(const struct zc_backing *b, size_t size)
{
    CUdeviceptr end = b->base + b->room + ZC_BLOCK_PAGE - 1;
    return b->room > size ? (uint32_t)(end / ZC_BLOCK_PAGE - (b->base + size - 1) / ZC_BLOCK_PAGE)
                          : 0;
}

bool zc_request_track(const struct zc_request *request, CUdeviceptr address,
                      struct zc_backing *backing, const struct zc_rule *rule, const char *why)
{
    struct zc_block
        like; /* Sets field by field: clearing it first takes longer than all the rest. */
    uint32_t flags = request->flags;
    like.base = address;
    like.size = request->size;
    like.before = backing ? backing->before & 0xfff : 0;
    like.behind = backing ? pages_behind(backing, request->size) : 0;
    like.context = backing ? backing->context : request->context;
    like.backing = backing;
    for (unsigned i = 0; i < ZC_BLOCK_CELLS; i++)
        like.cell[i] = NULL;
    like.site = (uint16_t)request->site;
    if (backing && zc_spilled(backing)) {
        flags |= ZC_BLOCK_SPILLED;
        like.behind |= (uint32_t)((request->size - zc_spilled(backing)) / ZC_BLOCK_UNIT)
                       << ZC_BLOCK_BEHIND_BITS;
    }
    like.flags = (uint16_t)(flags | (backing ? ZC_BLOCK_CONVERTED : 0));
    like.device = (int8_t)request->device;
    like.rule = rule ? (int16_t)(rule - zc_rules()->rules) : -1;
    like.api = request->api & 31;
    like.place = (backing ? backing->place : zc_place_bare(request->asked)) & 7;
    like.asked = request->asked & 15;
    like.real = (uint8_t)(zc_block_spilled(&like) == like.size ? ZC_KIND_PINNED
                          : backing                            ? zc_place_of(backing->place)->real
                                                               : request->asked);
    struct zc_block *b = zc_block_add(&like);
    if (!b)
        return false;
    if (backing) {
        zc_diagnose_watch();
        zc_place_entered(b);
    }
    if (__builtin_expect(zc_log_level() >= ZC_LOG_ALLOCS, 0))
        log_alloc(b, request, rule, why);
    return true;
}

void zc_track_foreign(const struct zc_entry *entry, enum zc_api api, CUdeviceptr address,
                      size_t bytes, enum zc_kind kind)
{
    struct zc_request request = {
        .entry = entry, .api = api, .size = bytes, .asked = kind, .flags = ZC_BLOCK_FOREIGN};
    CUdeviceptr base = address;
    if (!zc_request_begin(&request))
        return;
    const struct zc_block *known = zc_block_at(address);
    if (known && known->size == bytes)
        return; /* Asking for a module's global again gives the same block. */
    if (!bytes && zc_real.cuMemGetAddressRange_v2(&base, &request.size, address) != CUDA_SUCCESS)
        return;
    if (request.size)
        zc_request_track(&request, address, NULL, NULL, NULL);
}

void zc_track_found(const struct zc_entry *entry, const CUdeviceptr *ptr, const size_t *bytes,
                    enum zc_kind kind)
{
    enum zc_api api = kind == ZC_KIND_MANAGED ? ZC_API_cuMemAllocManaged : ZC_API_cuMemAlloc;
    if (ptr && *ptr)
        zc_track_foreign(entry, api, *ptr, bytes ? *bytes : 0, kind);
}

void zc_untrack_foreign(CUdeviceptr address)
{
    struct zc_untracked gone;
    const struct zc_block *block = zc_life_on() ? zc_block_at(address) : NULL;
    if (block && (block->flags & ZC_BLOCK_FOREIGN))
        zc_untrack(address, &gone);
}

void zc_note_free(struct zc_block *b)
{
    if (zc_log_level() >= ZC_LOG_ALLOCS)
        zc_log_block(b, false);
    zc_site_note_free(b->site);
    zc_budget_change(b, -1);
}

void zc_untrack(CUdeviceptr address, struct zc_untracked *out)
{
    zc_untrack_block(zc_life_on() ? zc_block_at(address) : NULL, out);
}

void zc_untrack_block(struct zc_block *b, struct zc_untracked *out)
{
    out->taken = b && !(b->flags & ZC_BLOCK_CONVERTED) && zc_block_claim(b);
    if (!out->taken)
        return;
    out->copy = *b;
    zc_note_free(b);
    zc_block_remove(b);
}

bool zc_retrack(const struct zc_untracked *block, CUresult result)
{
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED)
        return false;
    struct zc_block like = block->copy;
    memset(like.cell, 0, sizeof(like.cell));
    if (block->taken && zc_block_add(&like))
        zc_budget_change(&like, 1);
    return true;
}

static void request_context_gone(CUcontext context)
{
    (void)context;
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
}

const struct zc_module zc_module_request = {.context_gone = request_context_gone};
