/* SPDX-License-Identifier: MIT */
/* vmm/move.c for its tests: a driver whose memory has letters, and neighbours that count. */
#ifndef TESTS_UNIT_VMM_MOVE_TEST_H
#define TESTS_UNIT_VMM_MOVE_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/module.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "memory/limits.h"
#include "memory/regret.h"
#include "real_test.h"

#define zc_va_lock fake_lock /* Also where a header calls them. */
#define zc_va_unlock fake_unlock
#define zc_va_holds fake_holds
#include "vmm/access.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

#define MIB ((size_t)1 << 20)
#define GRANULE (2 * MIB)
#define HOME ((CUcontext)0x50)
#define DEVICE 2

enum { BLOCKS = 8, HANDLES = 64, RANGES = 64, WORK = 64, UNITS = 1024, GUARD = HANDLES - 1 };

/* A piece of work in a stream: a copy, or an event that is recorded. */
struct work {
    CUdeviceptr to, from;
    size_t bytes;
    CUevent event;
};

/* A driver whose memory has one letter for each 64 KiB, and the neighbours.  What goes into the
 * second stream is done at once, what goes into the first only when somebody waits for it. */
static struct {
    unsigned calls, fails, refused; /* The call that fails, from 1 on; 0: none. */
    struct {
        bool live, host;
        size_t size;
        char text[UNITS];
    } handle[HANDLES];
    struct {
        const struct zc_va *va;
        CUdeviceptr base;
        size_t before;  /* Bytes of the guard. */
        unsigned inner; /* The handle that is mapped; 0: none. */
    } range[RANGES];
    struct work work[WORK];
    unsigned queued, done;
    unsigned streams, events, live_events, copies, aliases, arena;
    uint64_t now, out_bytes, in_bytes, moved_bytes, began;
    unsigned moved, whole_waits, marks, updates, locked, relaxed;
    bool no_mark, no_kept, no_handle, no_copy, no_unmap, locked_out, whole;
    CUcontext current;
    int64_t mapped, vmm, kept, budget, spills;
    unsigned rests, drains, waits, woken, diagnosed, opened, dropped_copies;
    uint32_t *ends_move;         /* Which the mover sets to 0 before it leaves the lock. */
    unsigned locks, moves_again; /* It was taken; the mover begins again as often. */
    size_t attached;
    uint64_t others; /* Devices with lasting access. */
} has;

static struct zc_rule rules[3];
static struct zc_policy rule_set = {.rules = rules, .rule_count = 3};
static struct zc_block blocks[BLOCKS];
static struct zc_backing backings[BLOCKS];
static struct zc_movable mov[BLOCKS];

static bool fails(void)
{
    if (++has.calls != has.fails)
        return false;
    has.refused++;
    return true;
}

static CUresult answer(void)
{
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static unsigned range_of(const struct zc_va *va)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (has.range[i].va == va)
            return i;
    fail_msg("not a range");
    return 0;
}

/* The letters at an address, which must be mapped. */
static char *text_at(CUdeviceptr address, size_t bytes)
{
    for (unsigned i = 0; i < RANGES; i++) {
        CUdeviceptr first = has.range[i].base + has.range[i].before;
        unsigned h = has.range[i].inner;
        if (!has.range[i].va || !h || address < first || address >= first + has.handle[h].size)
            continue;
        assert_true(has.handle[h].live);
        assert_true(address + bytes <= first + has.handle[h].size);
        return has.handle[h].text + (address - first) / ZC_VA_UNIT;
    }
    fail_msg("a copy of memory that is not mapped");
    return NULL;
}

static void do_work(void)
{
    const struct work *w = &has.work[has.done++];
    if (w->bytes)
        memcpy(text_at(w->to, w->bytes), text_at(w->from, w->bytes), w->bytes / ZC_VA_UNIT);
}

static void do_all(void)
{
    while (has.done < has.queued)
        do_work();
}

static CUresult create_stream(CUstream *stream, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = (CUstream)(uintptr_t)(0x100 + ++has.streams);
    return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
    assert_non_null(stream);
    assert_int_equal(has.done, has.queued);
    has.streams--;
    return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *event, unsigned flags)
{
    assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = (CUevent)(uintptr_t)(0x500 + ++has.events);
    has.live_events++;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    assert_non_null(event);
    has.live_events--;
    return CUDA_SUCCESS;
}

static CUresult record_event(CUevent event, CUstream stream)
{
    assert_non_null(stream);
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    assert_true(has.queued < WORK);
    has.work[has.queued++] = (struct work){.event = event};
    return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags)
{
    assert_true(stream && flags == 0);
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    bool found = false;
    for (unsigned i = 0; i < has.queued; i++)
        found |= has.work[i].event == event;
    assert_true(found);
    while (has.done == 0 || has.work[has.done - 1].event != event)
        do_work();
    return CUDA_SUCCESS;
}

/* Device memory goes out, into host memory, when it is waited for; in at once. */
static CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    assert_non_null(stream);
    assert_true(bytes > 0 && bytes % ZC_VA_UNIT == 0);
    if (fails() || has.no_copy)
        return CUDA_ERROR_UNKNOWN;
    has.copies++;
    bool in = false;
    for (unsigned i = 0; i < RANGES; i++)
        if (has.range[i].va && has.range[i].inner && to >= has.range[i].base &&
            to - has.range[i].base < has.handle[has.range[i].inner].size + has.range[i].before)
            in = !has.handle[has.range[i].inner].host;
    if (in) {
        memcpy(text_at(to, bytes), text_at(from, bytes), bytes / ZC_VA_UNIT);
        has.began = has.began ? has.began : has.now;
        return CUDA_SUCCESS;
    }
    assert_true(has.queued < WORK);
    has.work[has.queued++] = (struct work){.to = to, .from = from, .bytes = bytes};
    return CUDA_SUCCESS;
}

static CUresult copy_from_pages(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    assert_non_null(stream);
    assert_true(from);
    text_at(to, bytes);
    has.copies++;
    return answer();
}

static CUresult get_current(CUcontext *context)
{
    *context = has.current;
    return answer();
}

static CUresult get_device(CUdevice *device)
{
    *device = DEVICE;
    return answer();
}

static CUresult fake_handle(const struct zc_vmm *v, bool host, bool reclaims, size_t size,
                            CUmemGenericAllocationHandle *handle)
{
    assert_true(reclaims && size == zc_vmm_own(v));
    if (fails() || has.no_handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 1; i < GUARD; i++)
        if (!has.handle[i].live) {
            has.handle[i].live = true;
            has.handle[i].host = host;
            has.handle[i].size = size;
            memset(has.handle[i].text, '?', UNITS);
            *handle = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_UNKNOWN;
}

static unsigned new_range(const struct zc_va *va, size_t before)
{
    unsigned i = 0;
    while (has.range[i].va)
        assert_true(++i < RANGES);
    has.range[i].va = va;
    has.range[i].before = before;
    has.range[i].base = UINT64_C(0x1000000000) * (i + 1);
    return i;
}

static CUresult fake_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                             const char **why)
{
    assert_true(va->device == DEVICE && va->context == HOME && !wide && granularity == GRANULE);
    if (fails()) {
        *why = "cuMemAddressReserve refuses";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    has.aliases++;
    va->base = has.range[new_range(va, 0)].base;
    va->size = span;
    return CUDA_SUCCESS;
}

static CUresult fake_map(struct zc_va *va, const struct zc_chunks *chunks, size_t from, size_t to,
                         const char **why)
{
    unsigned i = range_of(va), guard = chunks->count == 3;
    size_t bytes = chunks->list[guard].size + 2 * guard * GRANULE;
    assert_true(chunks->count == 1 || guard);
    assert_true(from == 0 && to == bytes);
    assert_int_equal(has.range[i].before, guard * GRANULE);
    if (guard)
        assert_true(chunks->list[0].handle == GUARD && chunks->list[2].handle == GUARD &&
                    chunks->list[0].size == GRANULE && chunks->list[2].size == GRANULE);
    assert_true(has.handle[chunks->list[guard].handle].live);
    if (fails()) {
        *why = "cuMemMap refuses";
        return CUDA_ERROR_UNKNOWN;
    }
    has.range[i].inner = (unsigned)chunks->list[guard].handle;
    return CUDA_SUCCESS;
}

static CUresult fake_unmap_part(struct zc_va *va, size_t from, size_t to)
{
    unsigned i = range_of(va), h = has.range[i].inner;
    assert_int_equal(from, has.range[i].before);
    if (fails() || has.no_unmap)
        return CUDA_ERROR_UNKNOWN;
    if (h)
        assert_int_equal(to - from, has.handle[h].size);
    has.range[i].inner = 0;
    return CUDA_SUCCESS;
}

/* Copies that use what goes must be over. */
static CUresult fake_drop(struct zc_va *va)
{
    if (!va)
        return CUDA_SUCCESS;
    assert_int_equal(has.done, has.queued);
    has.aliases--;
    memset(&has.range[range_of(va)], 0, sizeof(has.range[0]));
    has.arena--;
    zc_arena_put(va, sizeof(*va));
    return answer();
}

static void fake_drop_backed(struct zc_backed *b)
{
    fake_drop(b->alias);
    for (unsigned i = b->guard; i + b->guard < b->chunks.count; i++) {
        unsigned h = (unsigned)b->chunks.list[i].handle;
        assert_true(has.handle[h].live && has.done == has.queued);
        has.handle[h].live = false;
    }
    has.arena -= b->chunks.list != NULL;
    zc_arena_put(b->chunks.list, b->chunks.room * sizeof(*b->chunks.list));
    *b = (struct zc_backed){.guard = false};
}

static void *fake_get(size_t bytes)
{
    void *memory = fails() ? NULL : zc_arena_get(bytes);
    has.arena += memory != NULL;
    return memory;
}

static void fake_put(void *memory, size_t bytes)
{
    has.arena -= memory != NULL;
    zc_arena_put(memory, bytes);
}

static CUresult fake_drain(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream && flavour == ZC_LEGACY);
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    do_all();
    return CUDA_SUCCESS;
}

static CUresult fake_wait_context(CUcontext context)
{
    assert_ptr_equal(context, HOME);
    do_all();
    has.whole_waits++;
    return CUDA_SUCCESS;
}

static CUevent fake_mark(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream && flavour == ZC_LEGACY);
    if (has.no_mark)
        return NULL;
    has.marks++;
    return (CUevent)0x900;
}

static CUresult fake_arrive(struct zc_vmm *v)
{
    zc_movable(v)->came = NULL;
    return answer();
}

static void fake_moved(uint64_t bytes, uint64_t start)
{
    has.moved++;
    has.moved_bytes = bytes;
    assert_in_range(start, 1, has.now);
}

static void fake_traffic(unsigned real, uint64_t bytes)
{
    if (real == zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE))
        has.in_bytes += bytes;
    else if (real == zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, ZC_KIND_PINNED))
        has.out_bytes += bytes;
    else
        fail_msg("another flow");
}

static int64_t *count_of(enum zc_place_id place, int device)
{
    if (place == ZC_PLACE_MAPPED && device == ZC_LIMITS_KEPT)
        return &has.kept;
    assert_int_equal(device, DEVICE);
    return place == ZC_PLACE_MAPPED ? &has.mapped : &has.vmm;
}

static bool fake_take(enum zc_place_id place, int device, size_t bytes, const char **why)
{
    int64_t *count = count_of(place, device);
    if ((count == &has.kept && has.no_kept) || fails()) {
        *why = "over max_pinned";
        return false;
    }
    *count += (int64_t)bytes;
    return true;
}

static void fake_give(enum zc_place_id place, int device, size_t bytes)
{
    *count_of(place, device) -= (int64_t)bytes;
}

static bool fake_budget_take(const struct zc_rule *rule, int device, uint64_t bytes)
{
    assert_true(rule == &rules[0] && device == DEVICE);
    if (fails())
        return false;
    has.budget += (int64_t)bytes;
    return true;
}

static void fake_budget_give(const struct zc_rule *rule, int device, uint64_t bytes)
{
    assert_true(rule == &rules[0] && device == DEVICE);
    has.budget -= (int64_t)bytes;
}

static void fake_spill(struct zc_block *block, uint64_t spilled)
{
    assert_true(block >= blocks && block < blocks + BLOCKS);
    assert_true(spilled == 0 || spilled == block->size);
    has.spills += spilled ? 1 : -1;
}

static void fake_count_copy(struct zc_vmm *v, size_t bytes)
{
    zc_movable(v)->host_copy_bytes = bytes;
}

static void fake_drop_copy(struct zc_vmm *v)
{
    has.dropped_copies++;
    fake_drop_backed(&zc_movable(v)->host_copy);
    zc_movable(v)->host_copy_bytes = 0;
}

static void fake_update(struct zc_vmm *v)
{
    assert_true(v->lazy);
    has.updates++;
}

bool fake_lock(void)
{
    has.locked++;
    return true;
}

void fake_unlock(void)
{
    has.locked--;
}

static bool fake_driver_lock(void)
{
    has.locked += !has.locked_out;
    has.locks++;
    if (has.ends_move)
        *has.ends_move = 0;
    return !has.locked_out;
}

static void fake_driver_unlock(void)
{
    has.locked--;
    if (has.ends_move && has.locks <= has.moves_again)
        *has.ends_move = 1;
}

static CUstreamCaptureMode fake_relax(void)
{
    has.relaxed++;
    return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
}

static void fake_restore(CUstreamCaptureMode before)
{
    assert_int_equal(before, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    has.relaxed--;
}

static CUresult fake_attach(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    assert_int_equal(from, 0);
    has.attached = to;
    *why = "it can't be attached";
    (void)v;
    return answer();
}

static CUresult fake_open(const struct zc_va *va, uint64_t devices)
{
    assert_true(has.locked > 0 && has.relaxed == 1 && !va->reads);
    assert_true(devices == va->devices);
    return answer();
}

static CUresult fake_open_host(struct zc_va *va)
{
    assert_non_null(va);
    has.opened++;
    return answer();
}

static CUresult fake_diagnose(const struct zc_vmm *v, enum zc_fn fn, CUresult code, const char *why)
{
    assert_true(v && why && fn == ZC_FN_cuGraphLaunch);
    has.diagnosed++;
    return code;
}

bool fake_holds(const struct zc_va *va, size_t from, size_t to)
{
    assert_true(va && from == 0 && to > 0);
    return has.whole;
}

static bool fake_rests(CUcontext context, unsigned most_ms)
{
    assert_true(context == HOME && most_ms == 7);
    has.rests++;
    return !fails();
}

static bool fake_drain_launches(void)
{
    has.drains++;
    return !fails();
}

static bool fake_wait_until(const uint32_t *word, uint32_t value, unsigned most_ms);
static void fake_wake(const uint32_t *word);

#define zc_ticks() (++has.now)
#define zc_vmm_handle fake_handle
#define zc_access_reserve fake_reserve
#define zc_access_others(va) ((void)(va), has.others)
#define zc_va_map fake_map
#define zc_va_unmap_part fake_unmap_part
#define zc_va_drop fake_drop
#define zc_va_open fake_open
#define zc_va_open_host fake_open_host
#define zc_vmm_drop_backed fake_drop_backed
#define zc_vmm_arrive fake_arrive
#define zc_vmm_count_host_copy fake_count_copy
#define zc_vmm_drop_host_copy fake_drop_copy
#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_stream_drain fake_drain
#define zc_stream_wait_context fake_wait_context
#define zc_stream_mark_here fake_mark
#define zc_stream_rests_in fake_rests
#define zc_launch_drain_briefly fake_drain_launches
#define zc_wait_until fake_wait_until
#define zc_wake fake_wake
#define zc_regret_moved fake_moved
#define zc_traffic_own fake_traffic
#define zc_limits_take fake_take
#define zc_limits_give fake_give
#define zc_budget_take fake_budget_take
#define zc_budget_give fake_budget_give
#define zc_block_spill fake_spill
#define zc_lazy_update fake_update
#define zc_lazy_attach fake_attach
#define zc_lazy_diagnose fake_diagnose
#define zc_driver_lock fake_driver_lock
#define zc_driver_unlock fake_driver_unlock
#include "held_test.h"
#define zc_capture_relax fake_relax
#define zc_capture_restore fake_restore
#define zc_rules() (&rule_set)

#endif
