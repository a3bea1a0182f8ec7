/* SPDX-License-Identifier: MIT */
/* Allocates: by a place of the request's rule, or by the program's own call. */
#include "hook/request.h"

#include "place/hostmem.h"

#include <string.h>

#include "base/text.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "ledger/site.h"
#include "log/lines.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "place/fallback.h"
#include "place/room.h"

/* Makes the program's own call.  If memory is short, what libzc keeps for later is given back
 * first.  Device memory that is promised, or that libzc holds in managed memory, is not
 * available. */
static CUresult by_original(const struct zc_request *request, const struct zc_original *f)
{
    if (request->asked == ZC_KIND_DEVICE && request->device >= 0 && f->dptr && !zc_capture_any() &&
        !zc_room_for_bare(request->device, request->size, request->flags & ZC_BLOCK_STREAM))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return ZC_RECLAIMING(f->call(f));
}

/*
 * Tries the rule's list.  At `device`, or at the end, makes the program's own call; if the driver
 * has no memory, tries the places after `device`.
 */
static CUresult place_request(struct zc_request *request, const struct zc_rule *rule,
                              const struct zc_original *f)
{
    const struct zc_want want = {.size = request->size,
                                 .device = request->device,
                                 .context = request->context,
                                 .rule = rule,
                                 .api = request->api,
                                 .flags = f->flags,
                                 .host_heap = zc_hostmem_open(rule)};
    unsigned index = 0;
    char why[256] = "";
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    struct zc_backing *backing = zc_place_try(&want, 0, &index, why, sizeof(why));
    if (index == 0)
        request->flags |= ZC_BLOCK_BUDGET;
    if (!backing) {
        result = by_original(request, f);
        bool tracked =
            result == CUDA_SUCCESS && zc_request_track(request, *f->dptr, NULL, rule, why);
        if (!tracked && index == 0)
            zc_budget_give(rule, request->device, request->size);
        request->flags &= ~ZC_BLOCK_BUDGET;
        if (result != CUDA_ERROR_OUT_OF_MEMORY || index >= rule->place.count)
            return result;
        char rest[192] = "";
        struct zc_text text = zc_text_on(why, sizeof(why));
        backing = zc_place_try(&want, index + 1, &index, rest, sizeof(rest));
        if (!backing)
            return result;
        zc_text_fmt(&text, "device: out of memory%s%s", *rest ? "; " : "", rest);
        zc_text_cstr(&text);
    }
    if (!zc_request_track(request, backing->base, backing, rule, why)) {
        if (request->flags & ZC_BLOCK_BUDGET)
            zc_budget_give(rule, request->device, request->size - zc_spilled(backing));
        /* Memory that the ledger does not know could not be freed. */
        zc_place_release(backing, false);
        return by_original(request, f);
    }
    *f->dptr = backing->base;
    return CUDA_SUCCESS;
}

/* Libraries that send memory to other processes and hosts export what they request, which only the
 * driver's own memory allows.  A rule that names them means it. */
static bool exported(const struct zc_rule *rule, uint32_t site)
{
    static const char *const libraries[] = {"libnccl", "libnvshmem", "libucp",   "libuct",
                                            "libucs",  "libmpi",     "libfabric"};
    if (rule->given & ZC_KEY_BIT(ZC_KEY_MODULE))
        return false;
    const char *module = zc_site_module(site);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (module && strncmp(module, libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

static void note_unmet(const struct zc_request *request, const struct zc_rule *rule,
                       CUresult result)
{
    if (result == CUDA_ERROR_OUT_OF_MEMORY && request->asked == ZC_KIND_DEVICE &&
        !(request->flags & ZC_BLOCK_STREAM) && !(rule && zc_place_hosts(rule)))
        zc_log_count_unmet(request->size, zc_device_free(request->device));
}

CUresult zc_allocate(struct zc_request *request, const struct zc_original *f)
{
    if (!zc_request_begin(request))
        return f->call(f);
    const struct zc_rule *rule = NULL;
    const char *why = NULL;
    CUresult result;
    /* Zero sizes, null results and a missing context get the driver's own error codes.  Memory in
     * stream order stays in its pool. */
    if (f->dptr && request->size && request->device >= 0 && !(request->flags & ZC_BLOCK_STREAM))
        rule = zc_request_rule(request);
    if (rule && zc_capture_any())
        why = "a stream is being captured";
    else if (rule && zc_stream_state() != CUDA_SUCCESS)
        why = "a kernel has failed"; /* Virtual memory management does not report it. */
    else if (rule && exported(rule, request->site))
        why = "a library that exports memory requests it (rules with 'module' place it)";
    else if (rule) {
        result = place_request(request, rule, f);
        note_unmet(request, rule, result);
        zc_limits_end_room();
        return result;
    }
    result = by_original(request, f);
    note_unmet(request, rule, result);
    if (result == CUDA_SUCCESS && request->size && f->dptr && *f->dptr)
        zc_request_track(request, *f->dptr, NULL, rule, why);
    return result;
}
