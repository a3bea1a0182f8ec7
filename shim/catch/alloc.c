/* Requests for device memory. */
#include <string.h>

#include "catch/capture.h"
#include "catch/life.h"
#include "catch/pool.h"
#include "catch/request.h"
#include "place/budget.h"
#include "place/park.h"
#include "place/warm.h"

/* The program's own call, to be made where no place takes the request. */
struct forward {
    CUresult (*call)(const struct forward *f);
    void *real;
    CUdeviceptr *dptr;
    size_t bytes;
    CUstream stream;
    CUmemoryPool pool;
    size_t *pitch, width, height; /* cuMemAllocPitch */
    unsigned element;
};

/* Memory that libzc keeps for later must not be what the program's own call lacks. */
static CUresult forwarded(const struct forward *f)
{
    CUresult result = f->call(f);
    return result == CUDA_ERROR_OUT_OF_MEMORY && zc_place_relieve() ? f->call(f) : result;
}

/* Memory that was freed before, of the place that comes first. */
static struct zc_backing *take_freed(const struct zc_ask *ask, const struct zc_want *want,
                                      CUstream stream, unsigned *rung)
{
    const struct zc_place_list *list = &want->rule->place;
    struct zc_backing *backing = NULL;
    if (list->item[0] == ZC_PLACE_DEVICE || !zc_budget_take(want->rule, want->device, want->size))
        return NULL;
    *rung = 0;
    if (ask->flags & ZC_BLOCK_STREAM)
        backing = zc_park_take(list->item[0], want, stream, ask->entry->flavour);
    if (!backing && list->item[0] == ZC_PLACE_VMM)
        backing = zc_warm_take(want);
    if (!backing)
        zc_budget_give(want->rule, want->size);
    return backing;
}

/*
 * Walks the rule's list; where it says `device`, or ends, the program's own call is made.  If the
 * driver has no memory for that, the walk goes on below it.
 */
static CUresult climb(struct zc_ask *ask, const struct zc_rule *rule, const struct forward *f)
{
    const struct zc_want want = {.size = ask->size, .device = ask->device,
                                 .context = ask->context, .rule = rule, .api = ask->api,
                                 .stream_ordered = ask->flags & ZC_BLOCK_STREAM};
    unsigned rung = 0;
    char why[256] = "";
    struct zc_backing *backing = take_freed(ask, &want, f->stream, &rung);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!backing)
        backing = zc_place_climb(&want, 0, &rung, why, sizeof(why));
    if (rung == 0)
        ask->flags |= ZC_BLOCK_BUDGET;
    if (!backing) {
        result = forwarded(f);
        bool tracked =
            result == CUDA_SUCCESS && zc_ask_track(ask, *f->dptr, NULL, rule, why);
        if (!tracked && rung == 0)
            zc_budget_give(rule, ask->size);
        ask->flags &= ~ZC_BLOCK_BUDGET;
        if (result != CUDA_ERROR_OUT_OF_MEMORY || rung >= rule->place.count)
            return result;
        backing = zc_place_climb(&want, rung + 1, &rung, why, sizeof(why));
        if (!backing)
            return result;
        strncpy(why, "device: out of memory", sizeof(why) - 1);
    }
    if (!zc_ask_track(ask, backing->base, backing, rule, why)) {
        if (ask->flags & ZC_BLOCK_BUDGET)
            zc_budget_give(rule, ask->size);
        zc_place_release(backing, false); /* What the ledger does not know could not be freed. */
        return forwarded(f);
    }
    *f->dptr = backing->base;
    return CUDA_SUCCESS;
}

static CUresult request(struct zc_ask *ask, const struct forward *f, bool convertible)
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
    else if (rule && !convertible)
        why = "the memory must stay exportable";
    else if (rule)
        return climb(ask, rule, f);
    CUresult result = forwarded(f);
    if (result == CUDA_SUCCESS && ask->size && f->dptr && *f->dptr)
        zc_ask_track(ask, *f->dptr, NULL, rule, why);
    return result;
}

static CUresult call_alloc(const struct forward *f)
{
    return ((__typeof__(cuMemAlloc_v2) *)f->real)(f->dptr, f->bytes);
}

ZC_BODY(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytes))
{
    struct zc_ask ask = {.entry = entry, .api = ZC_API_cuMemAlloc, .size = bytes,
                         .asked = ZC_KIND_DEVICE, .flags = ZC_BLOCK_SYNC_MEMOPS,
                         .home = ZC_PLACE_DEVICE};
    const struct forward f = {.call = call_alloc, .real = (void *)real, .dptr = dptr,
                              .bytes = bytes};
    return request(&ask, &f, true);
}

/* A converted pitched block has the rows that the driver would give: both round the width up to the
 * texture alignment. */
static size_t pitch_of(size_t width)
{
    CUdevice device = 0;
    int alignment = 0;
    if (!zc_real.cuCtxGetDevice || zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        zc_real.cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device) !=
            CUDA_SUCCESS ||
        alignment <= 0)
        return 0;
    size_t unit = (size_t)alignment, pitch = (width + unit - 1) / unit * unit;
    return pitch < width ? 0 : pitch;
}

static CUresult call_pitch(const struct forward *f)
{
    return ((__typeof__(cuMemAllocPitch_v2) *)f->real)(f->dptr, f->pitch, f->width, f->height,
                                                       f->element);
}

ZC_BODY(cuMemAllocPitch_v2,
        (CUdeviceptr * dptr, size_t *pitch, size_t width, size_t height, unsigned int element))
{
    const struct forward f = {.call = call_pitch, .real = (void *)real, .dptr = dptr,
                              .pitch = pitch, .width = width, .height = height,
                              .element = element};
    size_t rows = 0, bytes = 0;
    bool good = dptr && pitch && width && height && (element == 4 || element == 8 || element == 16);
    if (good)
        rows = pitch_of(width);
    if (!rows || __builtin_mul_overflow(rows, height, &bytes))
        return call_pitch(&f);
    struct zc_ask ask = {.entry = entry, .api = ZC_API_cuMemAllocPitch, .size = bytes,
                         .asked = ZC_KIND_DEVICE, .flags = ZC_BLOCK_SYNC_MEMOPS,
                         .home = ZC_PLACE_DEVICE};
    CUresult result = request(&ask, &f, true);
    if (result == CUDA_SUCCESS && zc_converted_at(*dptr))
        *pitch = rows; /* Otherwise the driver has written it. */
    return result;
}

static CUresult call_async(const struct forward *f)
{
    return ((__typeof__(cuMemAllocAsync) *)f->real)(f->dptr, f->bytes, f->stream);
}

ZC_BODY(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytes, CUstream stream))
{
    struct zc_ask ask = {.entry = entry, .api = ZC_API_cuMemAllocAsync, .size = bytes,
                         .asked = ZC_KIND_DEVICE, .flags = ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS,
                         .home = ZC_PLACE_DEVICE,
                         .stream = zc_stream_kind_of(stream, entry->flavour)};
    const struct forward f = {.call = call_async, .real = (void *)real, .dptr = dptr,
                              .bytes = bytes, .stream = stream};
    ask.pool = zc_life_on() ? zc_pool_current() : NULL;
    return request(&ask, &f, !zc_pool_exportable(ask.pool));
}

static CUresult call_from_pool(const struct forward *f)
{
    return ((__typeof__(cuMemAllocFromPoolAsync) *)f->real)(f->dptr, f->bytes, f->pool, f->stream);
}

ZC_BODY(cuMemAllocFromPoolAsync,
        (CUdeviceptr * dptr, size_t bytes, CUmemoryPool pool, CUstream stream))
{
    struct zc_ask ask = {.entry = entry, .api = ZC_API_cuMemAllocFromPoolAsync, .size = bytes,
                         .asked = ZC_KIND_DEVICE, .flags = ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS,
                         .home = ZC_PLACE_DEVICE, .pool = pool,
                         .stream = zc_stream_kind_of(stream, entry->flavour)};
    const struct forward f = {.call = call_from_pool, .real = (void *)real, .dptr = dptr,
                              .bytes = bytes, .stream = stream, .pool = pool};
    return request(&ask, &f, pool && !zc_pool_exportable(pool));
}

/* The program asks for managed memory itself; it is counted and left as it is. */
ZC_BODY(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytes, unsigned int flags))
{
    struct zc_ask ask = {.entry = entry, .api = ZC_API_cuMemAllocManaged, .size = bytes,
                         .asked = ZC_KIND_MANAGED, .home = ZC_PLACE_MANAGED};
    CUresult result = real(dptr, bytes, flags);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && zc_place_relieve())
        result = real(dptr, bytes, flags);
    if (result == CUDA_SUCCESS && zc_ask_begin(&ask))
        zc_ask_track(&ask, *dptr, NULL, NULL, NULL);
    return result;
}
