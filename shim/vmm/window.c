/* SPDX-License-Identifier: MIT */
/* Addresses that are reserved for memory mapped by hand, and what is mapped in them. */
#include "vmm/window.h"

#include <string.h>

#include "base/arena.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "vmm/access.h"

#define WIDE_MAX 64 /* Windows that are much larger than their blocks. */

static unsigned wide_windows; /* Atomic. */

/* Addresses for an array that grows and the block that grows from it; 0 once they have gone. */
static CUdeviceptr ready[2]; /* Atomic. */
static size_t ready_size;    /* Bytes of each. */

void zc_window_prepare(size_t size, size_t granularity)
{
    ready_size = zc_window_round_up(size, granularity);
    for (unsigned i = 0; i < 2; i++)
        if (zc_real.cuMemAddressReserve(&ready[i], ready_size, granularity, 0, 0) != CUDA_SUCCESS)
            ready[i] = 0;
}

static CUdeviceptr take_ready(unsigned i)
{
    return __atomic_load_n(&ready[i], __ATOMIC_RELAXED)
               ? __atomic_exchange_n(&ready[i], 0, __ATOMIC_ACQ_REL)
               : 0;
}

void zc_window_trim(void)
{
    for (unsigned i = 0; i < 2; i++) {
        CUdeviceptr base = take_ready(i);
        if (base)
            zc_real.cuMemAddressFree(base, ready_size);
    }
}

static void in_child(void)
{
    ready[0] = ready[1] = 0;
}

static bool reserve_wide(struct zc_window *w, size_t size, size_t granularity)
{
    for (unsigned i = 0; i < 2 && !w->base && size <= ready_size; i++)
        w->base = take_ready(i);
    w->size = w->base ? ready_size : zc_window_round_up(size, granularity);
    return w->base ||
           zc_real.cuMemAddressReserve(&w->base, w->size, granularity, 0, 0) == CUDA_SUCCESS;
}

static CUresult reserve(struct zc_window *w, size_t span, size_t granularity, bool wide)
{
    size_t total = 0;
    if (wide && __atomic_load_n(&wide_windows, __ATOMIC_RELAXED) < WIDE_MAX &&
        zc_real.cuDeviceTotalMem_v2(&total, w->device) == CUDA_SUCCESS && total > span)
        w->wide = reserve_wide(w, total, granularity);
    __atomic_fetch_add(&wide_windows, w->wide, __ATOMIC_RELAXED);
    if (w->wide)
        return CUDA_SUCCESS;
    w->size = span;
    return zc_real.cuMemAddressReserve(&w->base, span, granularity, 0, 0);
}

/* Gives the addresses back. */
static CUresult give_back(struct zc_window *w)
{
    CUdeviceptr base = w->base;
    __atomic_fetch_sub(&wide_windows, w->wide, __ATOMIC_RELAXED);
    w->base = 0;
    return zc_real.cuMemAddressFree(base, w->size);
}

CUresult zc_window_reserve(struct zc_window *w, size_t span, size_t granularity, bool wide,
                           const char **why)
{
    *why = "cuMemAddressReserve refuses";
    CUresult result = reserve(w, span, granularity, wide);
    bool mine = zc_access_turn_take();
    if (result == CUDA_SUCCESS) {
        *why = "cuDeviceCanAccessPeer refuses";
        result = zc_access_enter(w);
        if (result != CUDA_SUCCESS)
            give_back(w);
    }
    if (mine)
        zc_access_turn_drop();
    return result;
}

/* The first run that ends behind `at`, or `count`. */
static unsigned run_behind(const struct zc_window *w, size_t at)
{
    unsigned i = 0;
    while (i < w->count && w->run[i].to <= at)
        i++;
    return i;
}

bool zc_window_holds(const struct zc_window *w, size_t from, size_t to)
{
    unsigned i = run_behind(w, from);
    return from >= to || (i < w->count && w->run[i].from <= from && w->run[i].to >= to);
}

/* Room for one more run. */
static bool make_room(struct zc_window *w)
{
    unsigned room = w->room ? 2 * w->room : 1;
    if (w->count < w->room)
        return true;
    struct zc_run *more = zc_arena_get(room * sizeof(*more));
    if (!more)
        return false;
    if (w->run)
        memcpy(more, w->run, w->count * sizeof(*more));
    zc_arena_put(w->run, w->room * sizeof(*more));
    w->run = more;
    w->room = room;
    return true;
}

/* Notes a run that touches others or none, and overlaps none.  There is room for it. */
static void add_run(struct zc_window *w, size_t from, size_t to)
{
    unsigned i = run_behind(w, from);
    bool left = i > 0 && w->run[i - 1].to == from;
    bool right = i < w->count && w->run[i].from == to;
    w->mapped += to - from;
    if (left && right) {
        w->run[i - 1].to = w->run[i].to;
        w->count--;
        memmove(&w->run[i], &w->run[i + 1], (w->count - i) * sizeof(*w->run));
    } else if (left) {
        w->run[i - 1].to = to;
    } else if (right) {
        w->run[i].from = from;
    } else {
        memmove(&w->run[i + 1], &w->run[i], (w->count - i) * sizeof(*w->run));
        w->run[i] = (struct zc_run){from, to};
        w->count++;
    }
}

/* Maps pieces side by side that begin at `at`, until one is mapped already or lies behind `to`.
 * *end_out is where they end. */
static CUresult map_run(struct zc_window *w, const struct zc_piece *piece, unsigned count,
                        size_t at, size_t to, size_t *end_out, const char **why)
{
    size_t end = at;
    CUresult result = CUDA_SUCCESS;
    *why = "libzc has no memory for its record";
    if (!make_room(w))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count && end < to && result == CUDA_SUCCESS; i++) {
        if (zc_window_holds(w, end, end + 1))
            break;
        *why = "cuMemMap refuses";
        result = zc_real.cuMemMap(w->base + end, piece[i].size, 0, piece[i].handle, 0);
        if (result == CUDA_SUCCESS)
            end += piece[i].size;
    }
    if (result == CUDA_SUCCESS) {
        *why = "cuMemSetAccess refuses";
        result = zc_access_open(w, at, end);
    }
    if (result == CUDA_SUCCESS)
        add_run(w, at, end);
    else if (end > at)
        zc_real.cuMemUnmap(w->base + at, end - at);
    *end_out = end;
    return result;
}

CUresult zc_window_map(struct zc_window *w, const struct zc_piece *piece, unsigned count,
                       size_t from, size_t to, const char **why)
{
    CUresult result = CUDA_SUCCESS;
    size_t at = 0, end = 0;
    bool mine = zc_access_turn_take();
    for (unsigned i = 0; i < count && at < to && result == CUDA_SUCCESS; at += piece[i++].size)
        if (at + piece[i].size > from && at >= end && !zc_window_holds(w, at, at + 1))
            result = map_run(w, piece + i, count - i, at, to, &end, why);
    if (mine)
        zc_access_turn_drop();
    return result;
}

/* The work of a context that is gone is gone, too. */
CUresult zc_window_wait(struct zc_window *w)
{
    if (!w->busy)
        return CUDA_SUCCESS;
    if (zc_capture_any()) /* Waiting would end the capture. */
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = zc_stream_wait_context(w->context);
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        result = CUDA_SUCCESS;
    w->busy = result != CUDA_SUCCESS;
    return result;
}

/* Runs that the driver refuses to unmap move to the front. */
static CUresult unmap(struct zc_window *w)
{
    CUresult result = zc_window_wait(w);
    unsigned kept = 0;
    if (result != CUDA_SUCCESS)
        return result;
    for (unsigned i = 0; i < w->count; i++) {
        struct zc_run r = w->run[i];
        CUresult unmapped = zc_real.cuMemUnmap(w->base + r.from, r.to - r.from);
        if (unmapped == CUDA_SUCCESS)
            w->mapped -= r.to - r.from;
        else
            w->run[kept++] = r;
        result = result == CUDA_SUCCESS ? unmapped : result;
    }
    w->count = kept;
    return result;
}

CUresult zc_window_unmap(struct zc_window *w)
{
    bool mine = zc_access_turn_take();
    CUresult result = unmap(w);
    if (mine)
        zc_access_turn_drop();
    return result;
}

void zc_window_rest(struct zc_window *w)
{
    bool mine = zc_access_turn_take();
    w->busy = false;
    if (mine)
        zc_access_turn_drop();
}

void zc_window_move(struct zc_window *to, struct zc_window *from)
{
    bool mine = zc_access_turn_take();
    zc_access_leave(from);
    *to = *from;
    zc_access_enter(to);
    if (mine)
        zc_access_turn_drop();
}

CUresult zc_window_free(struct zc_window *w)
{
    bool mine = zc_access_turn_take();
    CUresult unmapped = unmap(w);
    zc_access_leave(w);
    if (mine)
        zc_access_turn_drop();
    CUresult freed = give_back(w);
    zc_arena_put(w->run, w->room * sizeof(*w->run));
    return unmapped != CUDA_SUCCESS ? unmapped : freed;
}

static void context_gone(CUcontext context)
{
    (void)context;
    zc_window_trim();
}

const struct zc_module zc_module_window = {.child = in_child, .context_gone = context_gone};
