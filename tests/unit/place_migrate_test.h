/* SPDX-License-Identifier: MIT */
/* place/migrate.c and rates.c for their tests: the clock, the moves and the GPU are theirs, and
 * each call of the source leaves its name. */
#ifndef TESTS_UNIT_PLACE_MIGRATE_TEST_H
#define TESTS_UNIT_PLACE_MIGRATE_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/life.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/marks.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "memory/regret.h"
#include "place/migrate.h"
#include "place/room.h"
#include "real_test.h"
#include "vmm/access.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

enum { BLOCKS = 6, MIB = 1 << 20 };
#define HOME ((CUcontext)0x77)
#define OTHER ((CUcontext)0x99)
#define AT(i) (UINT64_C(0x100000000) * ((i) + 1))

static struct zc_block blocks[BLOCKS];
static struct zc_movable mov[BLOCKS];
static struct zc_rule rules[2];
static struct zc_policy rule_set = {.rules = rules, .rule_count = 2};
static struct zc_vmm_counts counts;
static struct {
    bool locked_out, capture, closing, awaits, leaving, no_begin, no_fit, no_move, whole, again;
    zc_move_carry carried; /* With the last move. */
    bool told, unknown, marks_pend, no_rest, late, pending, no_words, here, held, drained, dear;
    bool no_memory, coming, others_work;
    unsigned queries; /* So many times a copy has not ended, with `coming` always. */
    unsigned held_locks, ms, words, finds;
    uint64_t now, room, mark, passed, cost, took; /* The time in nanoseconds; what a wait takes. */
    uint64_t word[8];
    CUresult never, attach, current;
    CUdevice device;
    CUcontext home;
    zc_launch_fn party;
} has;
static char trace[1024];

static bool said(const char *format, ...)
{
    size_t n = strlen(trace);
    va_list list;
    assert_true(n + 300 < sizeof(trace));
    va_start(list, format);
    vsnprintf(trace + n, sizeof(trace) - n - 1, format, list);
    va_end(list);
    strcat(trace, " ");
    return true;
}

static void says(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
    assert_int_equal(has.held_locks, 0);
}

static int no(const struct zc_block *block)
{
    return block ? (int)(block - blocks) : -1;
}

static bool fake_take(void)
{
    has.held_locks += !has.locked_out;
    return !has.locked_out;
}

static struct zc_block *fake_find(uint64_t address)
{
    has.finds++;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].size && address - AT(i) < blocks[i].size)
            return &blocks[i];
    return NULL;
}

static struct zc_vmm *fake_vmm(const struct zc_block *block)
{
    return block ? &mov[no(block)].vmm : NULL;
}

static struct zc_vmm *fake_move_of(const struct zc_block *block)
{
    return block && mov[no(block)].vmm.moves ? &mov[no(block)].vmm : NULL;
}

static void fake_each(void (*visit)(struct zc_block *block, void *arg), void *arg)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].size)
            visit(&blocks[i], arg);
}

static bool fake_move(struct zc_block *leaves, struct zc_block *comes, zc_move_carry carry,
                      const char **why)
{
    has.carried = carry;
    said("move/%d/%d", no(leaves), no(comes));
    *why = "cuMemMap refuses";
    has.now += 2000;
    if (has.no_move)
        return false;
    if (leaves) {
        leaves->flags |= ZC_BLOCK_SPILLED;
        mov[no(leaves)].vmm.va.reads = false;
        has.room += leaves->size;
    }
    if (comes) {
        comes->flags &= (uint16_t)~ZC_BLOCK_SPILLED;
        mov[no(comes)].vmm.va.reads = mov[no(comes)].vmm.filled;
        has.room -= comes->size;
    }
    return true;
}

static void fake_log(const struct zc_block *block, bool to_host, uint64_t bytes, const char *reason,
                     uint64_t ticks, uint64_t waited, bool ahead)
{
    assert_int_equal(bytes, block->size);
    said("log/%d/%s/%s/%u/%u/%d", no(block), to_host ? "host" : "device", reason, (unsigned)ticks,
         (unsigned)waited, ahead);
}

static void fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    assert_int_equal(severity, ZC_NOTE);
    said("%s: %.40s", code, format);
}

static bool fake_rests(CUcontext context, unsigned ms)
{
    assert_ptr_equal(context, HOME);
    has.ms = ms;
    has.now += has.took;
    said("rests?");
    return !has.no_rest;
}

static bool fake_others_rest(CUcontext but, unsigned ms)
{
    assert_true(but == HOME && ms == 0);
    said("others?");
    return !has.others_work;
}

static bool fake_passed(int device, uint64_t mark, unsigned ms)
{
    assert_int_equal(device, 3);
    has.ms = ms;
    return mark <= has.passed;
}

static bool fake_begin(CUcontext rest, unsigned ms)
{
    assert_true(!rest || rest == HOME);
    has.ms = ms;
    has.now += has.took;
    said(rest ? "begin-rest" : "begin");
    return !has.no_begin;
}

static CUresult fake_never(const struct zc_block *block, enum zc_fn fn)
{
    said("never/%d/%d", no(block), fn == ZC_FN_cuGraphLaunch);
    mov[no(block)].stays = true;
    return has.never;
}

static CUresult fake_attach(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    said("attach/%d", (int)((struct zc_movable *)v - mov));
    assert_true(from == 0 && to == v->span);
    *why = "no memory";
    return has.attach;
}

static bool fake_words(const struct zc_launch *launch, void (*word)(uint64_t word, void *arg),
                       void *arg)
{
    assert_non_null(launch);
    for (unsigned i = 0; i < has.words; i++)
        word(has.word[i], arg);
    return !has.no_words;
}

static bool fake_owes(uint64_t *owed, uint64_t lost, uint64_t bytes)
{
    *owed += lost;
    said("owes/%u/%u", (unsigned)lost, (unsigned)bytes);
    return has.dear;
}

static bool fake_time(const struct zc_launch *launch, zc_timed_fn told, const void *noted,
                      size_t bytes)
{
    const struct {
        uint64_t kernel, bytes, spilled;
        int device;
    } *n = noted;
    assert_int_equal(n->device, has.home == HOME ? 3 : 4);
    assert_true(launch && told && bytes == sizeof(*n));
    said("time/%u/%u", (unsigned)n->bytes, (unsigned)n->spilled);
    return true;
}

static void fake_wait(bool (*unknown)(const void *arg), const void *arg, unsigned ms)
{
    has.ms = ms;
    said("wait/%d", unknown(arg));
}

static void fake_call(enum zc_launch_party party, zc_launch_fn fn)
{
    assert_int_equal(party, ZC_LAUNCH_MOVE);
    said(fn ? "watch" : "unwatch");
    has.party = fn;
}

static CUresult fake_device(CUdevice *device)
{
    *device = has.device;
    return has.current;
}

static CUresult get_current(CUcontext *context)
{
    *context = has.home;
    return has.current;
}

static CUresult fake_query(CUevent event)
{
    said("query/%u", (unsigned)(uintptr_t)event);
    bool comes = has.coming || has.queries;
    has.queries -= has.queries > 0;
    return comes ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static bool fake_under_way(const struct zc_block *block)
{
    CUevent came = block ? mov[no(block)].came : NULL;
    return came && fake_query(came) == CUDA_ERROR_NOT_READY;
}

static void fake_nap(unsigned microseconds)
{
    assert_int_equal(has.held_locks, 0);
    said("nap/%u", microseconds);
}

static void blocks_anew(void)
{
    memset(&has, 0, sizeof(has));
    memset(blocks, 0, sizeof(blocks));
    memset(mov, 0, sizeof(mov));
    memset(rules, 0, sizeof(rules));
    memset(&counts, 0, sizeof(counts));
    trace[0] = 0;
    rules[0].spill = ZC_SPILL_MOVE;
    rules[1].spill = ZC_SPILL_FETCH;
    has.now = 1000000000;
    has.here = has.whole = true;
    has.home = HOME;
    counts.movable = BLOCKS;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i].base = AT(i);
        blocks[i].size = MIB;
        blocks[i].place = ZC_PLACE_VMM;
        blocks[i].state = ZC_BLOCK_LIVE;
        mov[i].vmm.moves = true;
        mov[i].vmm.rule = &rules[0];
        mov[i].vmm.span = MIB;
        mov[i].vmm.va.context = HOME;
        mov[i].vmm.va.device = 3;
        mov[i].vmm.va.devices = 1 << 3;
    }
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = fake_device;
    zc_real.cuEventQuery = fake_query;
}

static _Alignas(64) char fresh[40000]; /* For a device. */

#define zc_ticks() has.now
#define zc_ticks_to_ns(ticks) (ticks)
#define zc_lock_take(lock) ((void)(lock), fake_take())
#define zc_lock_drop(lock) ((void)(lock), has.held_locks--)
#include "lock_held_test.h"
#define zc_driver_lock fake_take
#define zc_driver_unlock() has.held_locks--
#define zc_block_find fake_find
#define zc_block_each fake_each
#define zc_vmm_of fake_vmm
#define zc_move_of fake_move_of
#define zc_vmm_counts counts
#define zc_vmm_may_move(word) ((word) >= AT(0))
#define zc_vmm_whole(v) ((void)(v), has.whole)
#define zc_lazy_pending(v) ((void)(v), has.pending)
#define zc_lazy_attach fake_attach
#define zc_lazy_diagnose(v, fn, result, why) ((void)(v), (void)(fn), said("%s", why), result)
#define zc_move fake_move
#define zc_move_never fake_never
#define zc_move_under_way fake_under_way
#define zc_nap fake_nap
#define zc_move_fits(leaves, comes) ((void)(leaves), (void)(comes), !has.no_fit)
#define zc_move_begin fake_begin
#define zc_move_end() said("end")
#define zc_move_enter() said("enter")
#define zc_move_leave(entered) ((entered) ? said("leave") : false)
#define zc_log_move fake_log
#define zc_message fake_message
#define zc_message_first(code) ((void)(code), !has.told)
#define zc_stream_rests_in fake_rests
#define zc_stream_others_rest fake_others_rest
#define zc_access_others(va) ((va)->devices & ~(UINT64_C(1) << (va)->device))
#define zc_stream_rest_known() (!has.unknown)
#define zc_stream_context(stream, flavour)                                                         \
    ((void)(stream), (void)(flavour), has.here ? has.home : NULL)
#define zc_stream_device(stream, flavour, device)                                                  \
    ((void)(stream), (void)(flavour), fake_device(device))
#define zc_context_device(context, device) ((void)(context), fake_device(device))
#define zc_arena_get(bytes) (has.no_memory ? NULL : memset(fresh, 0, bytes))
#define zc_mark_passed fake_passed
#define zc_mark_ended(device) ((void)(device), has.passed)
#define zc_mark_launch(device, context) ((void)(device), (void)(context), has.mark)
#define zc_rules() (&rule_set)
#define zc_room_left(rule, device, counted)                                                        \
    ((void)(device), assert_ptr_equal(rule, &rules[0]), (counted) ? has.room / 2 : has.room)
#define zc_regret_cost(bytes) ((void)(bytes), has.cost)
#define zc_regret_owes fake_owes
#define zc_regret_wait fake_wait
#define zc_regret_time fake_time
#define zc_regret_collect() said("collect")
#define zc_launch_again() has.again
#define zc_launch_words fake_words
#define zc_launch_drain_briefly() (said("drain"), has.drained)
#define zc_launch_call fake_call
#define zc_await_any() has.awaits
#define zc_capture_any() has.capture
#define zc_capture_holds(stream, flavour) ((void)(stream), (void)(flavour), has.held)
#define zc_capture_relax() (said("relax"), (CUstreamCaptureMode)0)
#define zc_capture_restore(mode) ((void)(mode), said("restore"))
#define zc_life_closing() has.closing
#define zc_leaving(context) ((void)(context), has.leaving)

#include "../../shim/place/migrate.c"

static struct search leaver(const struct zc_block *block, uint64_t from)
{
    struct search s = {.from = from};
    find_leaver(&s, block);
    return s;
}
#include "../../shim/place/order.c"
#include "../../shim/place/rates.c"

#define third moving[3]
static uint64_t orders[2][ZC_ORDER]; /* Of devices 3 and 4. */

static int anew(void **state)
{
    (void)state;
    memset(&moving, 0, sizeof(moving));
    memset(&known, 0, sizeof(known));
    memset(orders, 0, sizeof(orders));
    third.order.used = orders[0];
    moving[4].order.used = orders[1];
    third.context = HOME;
    moving_devices = 1 << 3;
    blocks_anew();
    return 0;
}

static void fetched(unsigned i, bool spilled)
{
    mov[i].vmm.rule = &rules[1];
    mov[i].vmm.filled = true;
    mov[i].vmm.va.reads = !spilled;
    counts.fetched++;
    blocks[i].flags = spilled ? ZC_BLOCK_SPILLED : 0;
}

#endif
