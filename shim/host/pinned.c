/* SPDX-License-Identifier: MIT */
/* Registers extents of the host heap, and ends registrations. */
#include "host/pinned.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/life.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/extent.h"
#include "host/hostblock.h"
#include "host/hostheap.h"
#include "host/maps.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "ledger/block.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "log/refusals.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "memory/place.h"
#include "memory/quota.h"
#include "memory/workers.h"

/* A block is registered once copies have moved 1/WORTH_PART of it: registering costs about a third
 * of copying the block as pageable memory. */
#define WORTH_PART 16

/* Blocks of which the program may not use all, the pages of one that are asked for, and how many of
 * them may be missing. */
#define LARGE ((size_t)16 << 20)
#define LOOKS 32
#define LOOKS_MISSING 2

/* Threads bring in no more than this before the host is asked again whether it has the rest. */
#define AHEAD (16 * ZC_BLOCK_PART)

/* Of a private view the kernel copies each page first that was not written: registering 256 MiB
 * took 162 ms, and 121 since as many threads as help bring the pages in before.  A copy of it as
 * pageable memory takes 36, or 17 by threads (one H100). */
#define WORTH_COPIES 2
#define VIEW_THREADS 4
#define VIEW_PART ((size_t)8 << 20)

/* The kernel limits the mappings of a process, and registrations use some; the rest is for the
 * program. */
#define MAPS_PERCENT 75

/* Mean that there is no room for one more registration, or that the host has not so much memory.
 * Registering itself never returns them. */
#define FULL CUDA_ERROR_MAP_FAILED
#define SHORT CUDA_ERROR_NOT_READY

/* How long a call that can't go on beside a registration waits for the GPU where streams may wait
 * for the program. */
#define RESTS_MS 5000u

static ZC_OWN struct {
    uint64_t registrations; /* Atomic, as the next. */
    bool forgone;           /* Of blocks with 'async = staged' none are made. */
} pinned;

/* Registrations of the first `bytes` of an extent. */
static uint64_t parts_of(const struct zc_extent *e, size_t bytes)
{
    return (bytes + e->part - 1) / e->part;
}

static uint64_t most_registrations(void)
{
    return zc_limits_maps() / 100 * MAPS_PERCENT;
}

static void pinned_refused(const struct zc_extent *e, CUresult result)
{
    if (result == FULL && zc_message_first("registrations"))
        zc_message(ZC_WARN, "fallback",
                   "host blocks stay pageable: %U registrations are %u %% of vm.max_map_count; "
                   "raise it, or give their rules a larger 'size'",
                   most_registrations(), (unsigned)MAPS_PERCENT);
    else if (result != FULL && result != CUDA_ERROR_DEINITIALIZED && zc_message_first("register"))
        zc_message(ZC_WARN, "fallback",
                   "host blocks stay pageable: cuMemHostRegister of %B returned %u; 'zc doctor' "
                   "tells what pinning needs",
                   (uint64_t)zc_extent_span(e), (unsigned)result);
}

void zc_pinned_release(struct zc_extent *e, enum zc_extent_pin pin)
{
    __atomic_store_n(&e->pin, pin, __ATOMIC_RELEASE);
    if (e->use == ZC_EXTENT_FREE)
        __atomic_store_n(&zc_extent_unlisted, true, __ATOMIC_RELEASE);
    zc_wake(&e->pin);
}

static enum zc_extent_pin pin_of(const struct zc_extent *e)
{
    return (enum zc_extent_pin)__atomic_load_n(&e->pin, __ATOMIC_ACQUIRE);
}

/* The NUMA node next to the current device, or a negative number. */
static int node_here(void)
{
    CUdevice device;
    return zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? zc_node_of_device(device) : -1;
}

static void make_own(void *view, size_t at, size_t n)
{
    zc_workers_reach((char *)view + at, n, true);
}

/* Registering a private view gives it pages of its own: none is left to share with a device block.
 */
static void leave_file(struct zc_extent *e, uintptr_t at, size_t n)
{
    size_t part = n / VIEW_THREADS;
    zc_memfile_freeze(e);
    zc_workers_split(make_own, (void *)at, n, part > VIEW_PART ? part : VIEW_PART, ZC_HUGE_PAGE);
    __atomic_store_n(&e->stale, false, __ATOMIC_RELEASE);
}

/* Memory that the program registers must have such pages before: a private view that is made later,
 * for a fork or for rights that the program changes, would part it from what the device sees.  The
 * file keeps nothing of it where no device block has shown that. */
static void leave_file_part(struct zc_extent *e, uint64_t address, uint64_t end)
{
    uintptr_t base = zc_extent_base(e), last = base + zc_extent_span(e);
    uintptr_t low = address > base ? zc_page_start(address) : base;
    uintptr_t high = end < last ? zc_page_end(end) : last;
    bool unseen = zc_memfile_shareable(e) && !e->private_bytes;
    if (!e->inode)
        return;
    leave_file(e, low, high - low);
    if (unseen && zc_workers_reach((void *)low, high - low, true))
        zc_memfile_forget(e, low - base, high - low);
}

/* Ends the registrations that an extent has, or had when a part of them was ended.  CUDA_SUCCESS,
 * or the code of one that the driver keeps. */
static CUresult end_parts(const struct zc_extent *e)
{
    CUresult kept = CUDA_SUCCESS;
    for (size_t at = 0; at < e->pinned; at += e->part) {
        CUresult result = zc_real.cuMemHostUnregister((void *)(zc_extent_base(e) + at));
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
            kept = result;
    }
    return kept;
}

static struct zc_extent *adopted_at(const void *p)
{
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    return e && e->adopted && zc_hostheap_mine(e) ? e : NULL;
}

CUresult zc_pinned_end(void *p)
{
    struct zc_extent *e = adopted_at(p);
    if (e && __atomic_load_n(&e->program, __ATOMIC_ACQUIRE) > 1)
        return CUDA_SUCCESS; /* It serves another one of the program's, too. */
    CUresult result = e ? end_parts(e) : zc_real.cuMemHostUnregister(p);
    if (result == CUDA_SUCCESS && e) {
        e->adopted = false;
        __atomic_fetch_sub(&pinned.registrations, parts_of(e, e->pinned), __ATOMIC_RELAXED);
    }
    return result;
}

/* Large fresh memory comes in huge pages, but for what would be more than the program asked for,
 * and what the kernel has none free for: to make some it moves other pages, for minutes where
 * memory is full. */
static struct zc_fill *fill_fresh(char *base, size_t bytes)
{
    bool huge = bytes >= LARGE && zc_pages_free_huge() >= bytes;
    if (huge && bytes % ZC_HUGE_PAGE)
        zc_memory_advise(base + (bytes - bytes % ZC_HUGE_PAGE), ZC_HUGE_PAGE, MADV_NOHUGEPAGE);
    return zc_workers_fill(base, bytes, huge ? ZC_FILL_FILE : ZC_FILL_FRESH, node_here());
}

static bool is_missing(uintptr_t page)
{
    unsigned char there = 0;
    return mincore((void *)page, zc_page_end(1), &there) == 0 && !(there & 1);
}

/* Of LOOKS pages of a range, how many are so: at multiples of the golden ratio, because programs
 * use every second piece of a block, of some power of two of bytes. */
static unsigned count_pages(uintptr_t base, size_t bytes, bool (*is_so)(uintptr_t page))
{
    unsigned count = 0;
    for (uint32_t i = 0; i < LOOKS; i++) {
        uint64_t at = (bytes >> 12) * (i * 0x9e3779b9u) >> 32 << 12;
        count += is_so(zc_page_start(base + at));
    }
    return count;
}

/* Registers the next bytes of an extent in parts.  Pages that are not there come in by threads
 * ahead of the driver, which takes them one by one while others wait for it. */
static CUresult make_parts(struct zc_extent *e, size_t bytes, bool fresh)
{
    char *base = (char *)zc_extent_base(e) + e->pinned;
    bool missing = !fresh && bytes >= LARGE && count_pages((uintptr_t)base, bytes, is_missing) &&
                   zc_pinned_host_has(bytes);
    struct zc_fill *fill = fresh     ? fill_fresh(base, bytes)
                           : missing ? zc_workers_fill(base, bytes, ZC_FILL_USED, node_here())
                                     : NULL;
    CUresult result = CUDA_SUCCESS;
    for (size_t at = 0, n; result == CUDA_SUCCESS && at < bytes; at += n) {
        n = bytes - at < e->part ? bytes - at : e->part;
        zc_workers_filled(fill, at + n);
        result = zc_real.cuMemHostRegister_v2(
            base + at, n, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        e->pinned += result == CUDA_SUCCESS ? n : 0;
    }
    zc_workers_end_fill(fill);
    return result;
}

/* A kernel without free pages ends a process, and the driver's own cuMemHostAlloc fails. */
static CUresult make_registrations(struct zc_extent *e, size_t bytes)
{
    bool fresh = e->owner && !e->slot[0].dirty, asks = fresh && bytes >= LARGE;
    CUresult result = CUDA_SUCCESS;
    e->pinned = 0;
    while (result == CUDA_SUCCESS && e->pinned < bytes) {
        size_t left = bytes - e->pinned, next = fresh && left > AHEAD ? AHEAD : left;
        result = asks && !zc_pinned_host_has(left) ? SHORT : make_parts(e, next, fresh);
    }
    if (result != CUDA_SUCCESS)
        end_parts(e);
    return result;
}

/* Another thread may be freeing the block. */
static size_t block_bytes(const struct zc_extent *e)
{
    return __atomic_load_n(&e->slot[0].size, __ATOMIC_RELAXED);
}

/* Registers an extent, without a message of its own: all of it for libc's blocks, which may get it
 * by a registered pool; of a block for the program's cuMemHostAlloc what that would make resident.
 * Returns FULL if there is no room. */
static CUresult enrol(struct zc_extent *e)
{
    CUcontext context = NULL;
    size_t span = zc_extent_span(e);
    bool block = e->owner && e->use == ZC_EXTENT_BLOCK;
    size_t bytes = block ? zc_page_end(block_bytes(e)) : span;
    CUresult result = zc_real.cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS || !context)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_CONTEXT;
    e->part = block ? ZC_BLOCK_PART : span;
    if (!zc_quota_add(&pinned.registrations, parts_of(e, bytes), most_registrations()))
        return FULL;
    if (__atomic_load_n(&e->private_bytes, __ATOMIC_ACQUIRE))
        leave_file(e, zc_extent_base(e), span);
    result = make_registrations(e, bytes);
    if (result != CUDA_SUCCESS)
        __atomic_fetch_sub(&pinned.registrations, parts_of(e, bytes), __ATOMIC_RELAXED);
    e->context = context;
    return result;
}

/* True if the call may succeed elsewhere: with a context, or outside of a host function. */
static bool not_here(CUresult result)
{
    return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_PERMITTED;
}

/* For a copy, which ends no capture that another thread begins meanwhile.  The caller has moved
 * `pin` to MAKING. */
static bool pin_extent(struct zc_extent *e)
{
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = enrol(e);
    zc_capture_restore(before);
    if (result != CUDA_SUCCESS && !not_here(result))
        pinned_refused(e, result);
    if (result == CUDA_SUCCESS && e->use == ZC_EXTENT_BLOCK)
        __atomic_fetch_add(&zc_log_registered[e->slot[0].site], block_bytes(e), __ATOMIC_RELAXED);
    zc_pinned_release(e, result == CUDA_SUCCESS ? ZC_PIN_DONE
                         : not_here(result)     ? ZC_PIN_NONE
                                                : ZC_PIN_REFUSED);
    return result == CUDA_SUCCESS;
}

/* Waits for another thread that registers the same slab, and returns the outcome.  In a child of
 * fork(2) that thread does not exist. */
static enum zc_extent_pin await_pin(const struct zc_extent *e)
{
    enum zc_extent_pin pin;
    while ((pin = pin_of(e)) == ZC_PIN_MAKING && zc_hostheap_mine(e))
        zc_wait(&e->pin, ZC_PIN_MAKING);
    return pin;
}

enum zc_extent_pin zc_pinned_hold(struct zc_extent *e)
{
    uint32_t pin = await_pin(e);
    while (!__atomic_compare_exchange_n(&e->pin, &pin, ZC_PIN_MAKING, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_ACQUIRE))
        pin = await_pin(e);
    return (enum zc_extent_pin)pin;
}

/* The driver takes a moment to say that a stream has nothing to do any more.  Where a stream waits
 * for the program, a second is to pass before copies wait for that answer again. */
#define IDLE_MS 100u
#define VAIN_NS UINT64_C(1000000000)

/* After a fork the pages are registered anew; those whose mappings the program has changed are from
 * here on a matter of program, CPU and kernel alone, as pageable memory is. */
void zc_pinned_end_stale(struct zc_extent *e, bool needed)
{
    static uint64_t vain; /* When the devices were last waited for in vain.  Atomic. */
    if (!zc_hostheap_mine(e) || zc_pinned_lasts(e))
        return;
    uint64_t now = zc_ticks(), last = __atomic_load_n(&vain, __ATOMIC_RELAXED);
    bool soon = last && zc_ticks_to_ns(now - last) < VAIN_NS;
    unsigned most_ms = soon ? 0 : IDLE_MS;
    bool rests = needed || zc_capture_any() ? zc_stream_may_wait(most_ms)
                                            : zc_stream_others_rest(NULL, most_ms);
    if (!rests) {
        __atomic_store_n(&vain, now, __ATOMIC_RELAXED);
        return;
    }
    enum zc_extent_pin pin = zc_pinned_hold(e);
    if (pin == ZC_PIN_DONE && zc_pinned_unregister(e))
        pin = ZC_PIN_NONE;
    if (pin != ZC_PIN_DONE)
        __atomic_store_n(&e->stale, false, __ATOMIC_RELEASE);
    bool no_reuse = __atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE);
    zc_pinned_release(e, pin == ZC_PIN_NONE && no_reuse ? ZC_PIN_REFUSED : pin);
}

static bool pinned_worth(const struct zc_extent *e, uint64_t copied)
{
    size_t span = zc_extent_span(e);
    bool views = __atomic_load_n(&e->private_bytes, __ATOMIC_ACQUIRE) && e->cpu_copied < span;
    return copied >= (views ? span * WORTH_COPIES : span / WORTH_PART);
}

/* True for a page that the program has not written, or as it was.  It may have no right to it. */
static bool is_unused(uintptr_t page)
{
    static const char zero[4096];
    char now[sizeof(zero)];
    struct iovec to = {now, sizeof(now)}, from = {(void *)page, sizeof(now)};
    return is_missing(page) ||
           (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof(now) &&
            memcmp(now, zero, sizeof(now)) == 0);
}

/* Registering brings in all pages of a block.  What the program has not used of it, by some pages,
 * counts as touched ahead of it; where that is too much, it has to use more first.  `bytes` are
 * copied now.  Only with `pin` at MAKING. */
static bool may_fill(struct zc_extent *e, uint64_t bytes)
{
    bool whole = e->use == ZC_EXTENT_BLOCK && !e->owner;
    size_t size = whole ? e->lead + block_bytes(e) : 0, ahead = e->prefaulted, unused = 0;
    unsigned missing = 0;
    if (size >= LARGE && bytes <= size - size / 8) {
        uintptr_t base = zc_extent_base(e);
        missing = count_pages(base, size, is_missing);
        unsigned looks = ahead ? count_pages(base, size, is_unused) : 0;
        size_t zeros = looks > missing ? size / LOOKS * (looks - missing) : 0;
        unused = zeros < ahead ? zeros : ahead;
        unused += size / LOOKS * missing;
    }
    zc_hostheap_needed(e);
    if (zc_heap_may_prefault(e, unused) == unused || missing <= LOOKS_MISSING)
        return true;
    zc_hostheap_needed(e);
    zc_heap_may_prefault(e, ahead);
    return false;
}

void zc_pinned_bring_in(const void *memory, size_t bytes)
{
    uintptr_t first = zc_page_start((uintptr_t)memory);
    uintptr_t end = zc_page_end((uintptr_t)memory + bytes), huge = zc_pages_span(first);
    unsigned cpu, node = 0;
    if (bytes < LARGE || end < first || !count_pages(first, end - first, is_missing) ||
        !zc_pinned_host_has(bytes) || zc_maps_ask((void *)first, end - first, true) != ZC_MAPS_YES)
        return;
    /* The driver would take pages that are near the thread. */
    syscall(SYS_getcpu, &cpu, &node, NULL);
    struct zc_fill *fill = zc_workers_fill((void *)huge, end - huge, ZC_FILL_USED, (int)node);
    zc_workers_reach((void *)first, huge - first, true);
    zc_workers_filled(fill, end - huge);
    zc_workers_end_fill(fill);
}

/* While a child has the pages of a block, registering would give this process all of them a second
 * time.  Threads copy as fast without. */
static bool is_inherited(struct zc_extent *e)
{
    uintptr_t base = zc_extent_base(e);
    if (!__atomic_load_n(&e->inherited, __ATOMIC_RELAXED) || e->inode ||
        zc_rules()->pageable_copy != ZC_PAGEABLE_COPY_PARALLEL)
        return false;
    if (zc_pagemap_inherited(base, base + zc_extent_span(e), LOOKS) > LOOKS_MISSING)
        return true;
    __atomic_store_n(&e->inherited, false, __ATOMIC_RELAXED);
    return false;
}

bool zc_pinned_first(const struct zc_extent *e, uint64_t bytes)
{
    uint64_t before = __atomic_load_n(&e->copied, __ATOMIC_RELAXED);
    return pin_of(e) == ZC_PIN_NONE && zc_hostheap_mine(e) && !pinned_worth(e, before) &&
           pinned_worth(e, before + bytes) && !__atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE) &&
           !zc_capture_any();
}

/* The rule of a block in the extent, or NULL; with `staged` of one whose asynchronous copies libzc
 * has to complete while it is registered. */
static const struct zc_rule *rule_in(const struct zc_extent *e, bool staged)
{
    for (unsigned i = 0; i < ZC_HOST_SLOTS; i++) {
        int rule = e->slot[i].size ? e->slot[i].rule : -1;
        if (rule >= 0 && (!staged || zc_rules()->rules[rule].async == ZC_ASYNC_STAGED))
            return &zc_rules()->rules[rule];
    }
    return NULL;
}

/* Each page of a private view gets a second one then, and where a control group or the host has
 * none left, Linux ends the process. */
static bool pinned_has_room(const struct zc_extent *e)
{
    return !__atomic_load_n(&e->private_bytes, __ATOMIC_ACQUIRE) ||
           zc_pinned_host_has(zc_extent_span(e));
}

static bool may_register(const struct zc_extent *e, uint64_t copied)
{
    return pinned_worth(e, copied) && pinned_has_room(e) && !zc_capture_any() &&
           !zc_life_closing() &&
           !(__atomic_load_n(&pinned.forgone, __ATOMIC_SEQ_CST) && rule_in(e, true));
}

bool zc_pinned_use(struct zc_extent *e, uint64_t bytes)
{
    enum zc_extent_pin pin = await_pin(e);
    uint32_t none = ZC_PIN_NONE;
    if (pin != ZC_PIN_NONE || !zc_hostheap_mine(e))
        return pin == ZC_PIN_DONE && zc_hostheap_mine(e) && !zc_pinned_stuck(e);
    uint64_t copied = __atomic_add_fetch(&e->copied, bytes, __ATOMIC_RELAXED);
    if (!may_register(e, copied))
        return false;
    if (!__atomic_compare_exchange_n(&e->pin, &none, ZC_PIN_MAKING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return await_pin(e) == ZC_PIN_DONE;
    if (!is_inherited(e) && may_fill(e, bytes))
        return pin_extent(e);
    __atomic_store_n(&e->copied, 0, __ATOMIC_RELAXED); /* Asked again after as much more. */
    zc_pinned_release(e, ZC_PIN_NONE);
    return false;
}

CUresult zc_pinned_now(struct zc_extent *e, const char **why)
{
    enum zc_extent_pin pin = zc_pinned_hold(e);
    /* A registration that failed before may be possible now. */
    CUresult result = pin == ZC_PIN_DONE ? CUDA_SUCCESS : enrol(e);
    zc_pinned_release(e, result == CUDA_SUCCESS ? ZC_PIN_DONE : pin);
    if (result == CUDA_SUCCESS)
        return result;
    *why = result == FULL    ? "registrations are 75 % of vm.max_map_count"
           : result == SHORT ? "the host has not so much memory left"
                             : "cuMemHostRegister refuses";
    return result;
}

bool zc_pinned_hides_own(uint64_t address)
{
    const struct zc_extent *e = zc_hostheap_extent(address);
    if (!e)
        return false;
    enum zc_extent_pin pin = pin_of(e);
    /* The caller adds or removes one registration of the program's. */
    bool counting = pin == ZC_PIN_MAKING && __atomic_load_n(&e->program, __ATOMIC_ACQUIRE);
    return e->adopted ? !zc_block_find(address) : pin != ZC_PIN_PROGRAM && !counting;
}

const char zc_pinned_pageable[64];

bool zc_pinned_adopted(const void *p, unsigned *flags)
{
    const struct zc_extent *e = adopted_at(p);
    if (e && !e->portable)
        *flags &= ~(unsigned)CU_MEMHOSTREGISTER_PORTABLE;
    return e;
}

bool zc_pinned_unregister(struct zc_extent *e)
{
    bool pushed = zc_context_push_if_none(e->context);
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = end_parts(e);
    zc_capture_restore(before);
    zc_context_pop(pushed);
    if (result != CUDA_SUCCESS)
        return false;
    __atomic_fetch_sub(&pinned.registrations, parts_of(e, e->pinned), __ATOMIC_RELAXED);
    __atomic_store_n(&e->graphed, false, __ATOMIC_RELEASE);
    return true;
}

CUresult zc_pinned_sync(CUdeviceptr address, bool on)
{
    const struct zc_extent *e = zc_hostheap_extent(address);
    CUresult result = CUDA_SUCCESS;
    int value = on;
    for (size_t at = 0; result == CUDA_SUCCESS && e && at < e->pinned; at += e->part)
        result = zc_real.cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                               zc_extent_base(e) + at);
    return result;
}

void zc_pinned_in_graph(struct zc_extent *e)
{
    if (e && await_pin(e) == ZC_PIN_DONE && zc_hostheap_mine(e))
        __atomic_store_n(&e->graphed, true, __ATOMIC_RELEASE);
}

static struct zc_extent *next_in(uint64_t *at, uint64_t end)
{
    struct zc_extent *e = *at < end ? zc_hostheap_extent(*at) : NULL;
    if (e)
        *at = zc_extent_base(e) + zc_extent_span(e);
    return e;
}

bool zc_pinned_freed(uint64_t address, size_t bytes)
{
    uint64_t at = address, end = address + bytes;
    for (const struct zc_extent *e; (e = next_in(&at, end));)
        if (e->use == ZC_EXTENT_FREE || e->use == ZC_EXTENT_HOLE || e->use == ZC_EXTENT_NONE)
            return true;
    return at < end && zc_hostheap_owns(at);
}

/* True where libzc's registration of a block, as it is, can serve as one that the program makes of
 * the whole: to end it and let the driver register the block anew would wait for the device. */
static bool adoptable(const struct zc_extent *e, uint64_t address, size_t bytes, unsigned flags)
{
    const unsigned plain = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    uint64_t base = zc_extent_base(e), block = base + e->lead, end = address + bytes;
    bool whole = e->use == ZC_EXTENT_BLOCK && base <= address && address <= block &&
                 block + block_bytes(e) <= end && end <= base + e->pinned;
    bool as_is = !__atomic_load_n(&e->early, __ATOMIC_ACQUIRE) && !zc_pinned_stale(e) &&
                 !__atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE) && !zc_pinned_lasts(e) &&
                 !zc_memfile_shareable(e);
    CUcontext context = NULL;
    CUdevice device = -1;
    zc_real.cuCtxGetCurrent(&context);
    return whole && as_is && !(flags & ~plain) && context == e->context &&
           zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && zc_device_one_address(device);
}

CUresult zc_pinned_yield(uint64_t address, size_t bytes, unsigned flags, enum zc_fn fn)
{
    uint64_t at = address, end = address + bytes;
    for (struct zc_extent *e; (e = next_in(&at, end));)
        if (!e->owner && zc_extent_registered(e) && !adoptable(e, address, bytes, flags) &&
            (zc_pinned_lasts(e) || !zc_stream_may_wait(RESTS_MS)))
            return zc_pinned_refuse(e, fn, "the program registers them itself");
    zc_hostblock_unlist(address, false);
    at = address;
    for (struct zc_extent *e; (e = next_in(&at, end));) {
        if (e->owner)
            continue; /* Pinned memory: the driver refuses a second time. */
        enum zc_extent_pin pin = zc_pinned_hold(e);
        bool done = pin == ZC_PIN_DONE && zc_hostheap_mine(e);
        if (done && adoptable(e, address, bytes, flags)) {
            e->adopted = true;
            e->portable = flags & CU_MEMHOSTREGISTER_PORTABLE;
            zc_hostblock_unlist(zc_extent_base(e) + e->lead, false);
        }
        bool kept = done && !e->adopted && !zc_pinned_unregister(e);
        __atomic_fetch_add(&e->program, 1, __ATOMIC_ACQ_REL);
        if (!kept && !e->adopted)
            leave_file_part(e, address, end);
        zc_pinned_release(e, kept ? pin : ZC_PIN_PROGRAM);
    }
    return CUDA_SUCCESS;
}

void zc_pinned_return(uint64_t address, size_t bytes)
{
    uint64_t at = address, end = address + bytes;
    for (struct zc_extent *e; (e = next_in(&at, end));) {
        if (e->owner)
            continue;
        enum zc_extent_pin pin = zc_pinned_hold(e);
        bool ended = __atomic_load_n(&e->program, __ATOMIC_ACQUIRE) == 1 && pin == ZC_PIN_PROGRAM;
        if (ended)
            pin = !zc_hostblock_relist(e) ? ZC_PIN_REFUSED : e->adopted ? ZC_PIN_DONE : ZC_PIN_NONE;
        e->adopted = e->adopted && !ended;
        __atomic_fetch_sub(&e->program, 1, __ATOMIC_ACQ_REL);
        zc_pinned_release(e, pin);
        if (ended)
            zc_hostheap_revive(e);
    }
}

/* Free memory in the pool, too: its next block would be registered. */
static bool is_staged(const struct zc_extent *e)
{
    enum zc_extent_pin pin = pin_of(e);
    return !e->owner && zc_hostheap_mine(e) && (pin == ZC_PIN_DONE || pin == ZC_PIN_MAKING) &&
           (!e->live || rule_in(e, true));
}

CUresult zc_pinned_refuse(const struct zc_extent *e, enum zc_fn fn, const char *why)
{
    const struct zc_policy *policy = zc_rules();
    const struct zc_rule *rule = rule_in(e, false);
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;
    if (!rule)
        return code;
    zc_refusal_count(policy, rule);
    zc_message(ZC_ERROR, "refused",
               "%s returned %u: %s, and libzc can't end the registration of host blocks of rule "
               "%s (%s:%u) while a graph copies them, or a stream waits for the program; give that "
               "rule 'place = pageable'",
               zc_fn_name(fn), (unsigned)code, why, rule->name, policy->file, rule->line);
    return code;
}

CUresult zc_pinned_forgo(enum zc_fn fn)
{
    CUresult result = CUDA_SUCCESS;
    __atomic_store_n(&pinned.forgone, true, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&pinned.registrations, __ATOMIC_SEQ_CST))
        return CUDA_SUCCESS;
    for (struct zc_extent *e = NULL;
         result == CUDA_SUCCESS && (e = zc_hostheap_next(e, is_staged));) {
        bool may_end = !zc_pinned_lasts(e) && zc_stream_may_wait(RESTS_MS);
        enum zc_extent_pin pin = zc_pinned_hold(e);
        bool ended = pin == ZC_PIN_DONE && may_end && zc_pinned_unregister(e);
        if (pin == ZC_PIN_DONE && !ended && rule_in(e, true))
            result = zc_pinned_refuse(e, fn, "libzc does not know it");
        zc_pinned_release(e, ended ? ZC_PIN_NONE : pin);
    }
    return result;
}

static void forget_registration(struct zc_extent *e, void *context)
{
    bool done = pin_of(e) == ZC_PIN_DONE;
    if ((!done && !e->adopted) || e->context != context || !zc_hostheap_mine(e))
        return;
    __atomic_fetch_sub(&pinned.registrations, parts_of(e, e->pinned), __ATOMIC_RELAXED);
    e->adopted = false;
    if (done)
        zc_pinned_release(e, ZC_PIN_NONE);
}

static void pinned_forget_context(CUcontext context)
{
    if (!zc_heap_lock())
        return;
    zc_extent_each(forget_registration, context);
    zc_heap_unlock();
}

const struct zc_module zc_module_pinned = {.context_lost = pinned_forget_context};
