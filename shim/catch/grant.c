/* Granting a request for memory. */
#include "catch/grant.h"

#include <string.h>

#include "catch/capture.h"
#include "catch/life.h"
#include "place/park.h"

static struct zc_backing *take_parked(const struct zc_ask *ask, const struct zc_want *want,
                                      CUstream stream, unsigned *rung)
{
    const struct zc_place_list *list = &want->rule->place;
    if (list->item[0] == ZC_PLACE_DEVICE || !(ask->flags & ZC_BLOCK_STREAM))
        return NULL;
    *rung = 0;
    return zc_park_take(list->item[0], want, stream, ask->entry->flavour);
}

/*
 * Walks the rule's list; where it says `device`, or ends, the program's own call is made.  If the
 * driver has no memory for that, the walk goes on below it.
 */
static CUresult climb(const struct zc_ask *ask, const struct zc_rule *rule,
                      const struct zc_forward *f)
{
    const struct zc_want want = {.size = ask->size,
                                 .device = ask->device,
                                 .context = ask->context,
                                 .rule = rule,
                                 .api = ask->api,
                                 .flags = f->flags};
    unsigned rung = 0;
    char why[256] = "";
    struct zc_backing *backing = take_parked(ask, &want, f->stream, &rung);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!backing)
        backing = zc_place_climb(&want, 0, &rung, why, sizeof(why));
    if (!backing) {
        result = f->call(f);
        if (result == CUDA_SUCCESS)
            zc_ask_track(ask, *f->dptr, NULL, rule, why);
        if (result != CUDA_ERROR_OUT_OF_MEMORY || rung >= rule->place.count)
            return result;
        backing = zc_place_climb(&want, rung + 1, &rung, why, sizeof(why));
        if (!backing)
            return result;
        strncpy(why, "device: out of memory", sizeof(why) - 1);
    }
    if (!zc_ask_track(ask, backing->base, backing, rule, why)) {
        zc_place_release(backing, false); /* What the ledger does not know could not be freed. */
        return f->call(f);
    }
    *f->dptr = backing->base;
    return CUDA_SUCCESS;
}

CUresult zc_grant(struct zc_ask *ask, const struct zc_forward *f, const char *unfit)
{
    if (!zc_ask_begin(ask))
        return f->call(f);
    const struct zc_rule *rule = NULL;
    const char *why = NULL;
    /* Zero sizes and null results have error codes of the driver's, and so has a missing
     * context. */
    if (f->dptr && ask->size && ask->device >= 0)
        rule = zc_ask_rule(ask);
    if (rule && zc_capture_any())
        why = "a stream is being captured";
    else if (rule && unfit)
        why = unfit;
    else if (rule)
        return climb(ask, rule, f);
    CUresult result = f->call(f);
    if (result == CUDA_SUCCESS && ask->size && f->dptr && *f->dptr)
        zc_ask_track(ask, *f->dptr, NULL, rule, why);
    return result;
}
