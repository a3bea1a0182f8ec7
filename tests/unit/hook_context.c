/* SPDX-License-Identifier: MIT */
/* Contexts that come and go: what of the ledger goes with them, and what is told before. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/life.h"
#include "base/module.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "hook/request.h"
#include "ledger/counters.h"
#include "memory/limits.h"
#include "place/fallback.h"
#include "place/hostmem.h"
#include "place/verbs.h"
#include "real_test.h"
#include "vmm/access.h"

#define OURS ((CUcontext)0x1000)
#define OTHER ((CUcontext)0x2000)
enum { MOST = 200 };

static struct {
    struct zc_block block[MOST];
    unsigned count;
    bool gone[MOST], refuses[MOST], locks;
    unsigned removed, returned, released, leaving, left, paused, resumed, forgotten, locked;
    unsigned lost, context_gone, noted, budget, starts, calls, disabled, pops;
    uint64_t started;
    bool there, closing;
    CUcontext note, primary_now;
    CUresult real, pushed, rights;
    bool last;    /* The release is that of the last reference. */
    bool current; /* The context is current, and need not be pushed. */
} has;

static void fake_each(void (*visit)(struct zc_block *, void *), void *arg)
{
    assert_int_equal(has.locked, has.locks);
    for (unsigned i = 0; i < has.count; i++)
        if (!has.gone[i])
            visit(&has.block[i], arg);
}

static bool fake_claim(struct zc_block *b)
{
    return !has.refuses[b - has.block];
}

static void fake_remove(struct zc_block *b)
{
    assert_false(has.gone[b - has.block]);
    has.gone[b - has.block] = true;
    has.removed++;
    b->base = b->size = 0; /* Its record may be another's. */
}

static void fake_return(void *p, size_t bytes)
{
    assert_true(p == (void *)0x5000 && bytes == 4096);
    has.returned++;
}

static void fake_budget(const struct zc_block *b, int sign)
{
    assert_true(sign == -1 && b->size);
    has.budget++;
}

static CUresult fake_release(struct zc_backing *backing, bool gone)
{
    assert_true(backing == (void *)0x99 && gone);
    assert_int_equal(has.locked, 0);
    has.released++;
    return CUDA_SUCCESS;
}

static bool fake_lock(void)
{
    has.locked += has.locks;
    return has.locks;
}

static void fake_leaving_begin(struct zc_leaving *l, CUcontext context)
{
    assert_true(context == OURS && has.calls == 0);
    l->context = context;
    has.leaving++;
}

static void fake_leaving_end(struct zc_leaving *l)
{
    assert_true(l->context == OURS || !l->context);
    assert_int_equal(has.calls, 1);
    has.left++;
}

static void fake_note(CUcontext context, bool there)
{
    has.note = context;
    has.there = there;
    has.noted++;
}

static CUcontext fake_primary(int device)
{
    assert_int_equal(device, 3);
    return has.calls && has.last ? NULL : has.primary_now;
}

static CUresult fake_push(CUcontext context, bool *pushed)
{
    assert_ptr_equal(context, OURS);
    *pushed = has.pushed == CUDA_SUCCESS && !has.current;
    return has.pushed;
}

static void fake_lost(CUcontext context)
{
    assert_true(context == OURS && has.removed == 0);
    has.lost++;
}

static void fake_gone(CUcontext context)
{
    assert_true(context == OURS && has.noted == 0);
    has.context_gone++;
}

#define zc_block_each fake_each
#define zc_block_claim fake_claim
#define zc_block_remove fake_remove
#define zc_hostmem_return fake_return
#define zc_budget_change fake_budget
#define zc_place_release fake_release
#define zc_driver_lock fake_lock
#define zc_driver_unlock() (has.locked--)
#define zc_leaving_begin fake_leaving_begin
#define zc_leaving_end fake_leaving_end
#define zc_launch_forget() (has.forgotten += has.calls == 0)
#define zc_place_pause() (has.paused += has.calls == 0)
#define zc_place_resume() (has.resumed++)
#define zc_context_note fake_note
#define zc_context_primary fake_primary
#define zc_context_push fake_push
#define zc_context_pop(pushed) (has.pops += (pushed))
#define zc_modules_context_lost fake_lost
#define zc_modules_context_gone fake_gone
#define zc_counters_begin_start() ((uint64_t)(has.calls ? 0 : 44))
#define zc_counters_end_start(begun) (has.started = has.calls ? (begun) : 0)
#define zc_access_enable(peer) (has.rights)
#define zc_life_closing() (has.closing)
#include "../../shim/hook/context.c"

static const struct zc_entry entry = {.fn = ZC_FN_cuCtxDestroy_v2};

static CUresult real_context(CUcontext context)
{
    (void)context;
    has.calls++;
    return has.real;
}

static CUresult real_device(CUdevice device)
{
    assert_int_equal(device, 3);
    has.calls++;
    return has.real;
}

static CUresult real_retain(CUcontext *context, CUdevice device)
{
    assert_int_equal(device, 3);
    *context = OTHER;
    has.calls++;
    return has.real;
}

static CUresult real_enable(CUcontext peer, unsigned flags)
{
    assert_true(peer == OTHER && flags == 4);
    has.calls++;
    return has.real;
}

static CUresult undo_enable(CUcontext peer)
{
    assert_ptr_equal(peer, OTHER);
    has.disabled++;
    return CUDA_SUCCESS;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuCtxDisablePeerAccess = undo_enable;
    zc_life_state = ZC_LIFE_ON;
    has.locks = true;
    return 0;
}

static struct zc_block *add(CUcontext context, unsigned flags)
{
    has.block[has.count] = (struct zc_block){
        .base = 0x5000, .size = 4096, .context = context, .flags = (uint16_t)flags};
    return &has.block[has.count++];
}

static CUresult destroyed(void)
{
    has.calls = 0;
    return zc_do_cuCtxDestroy(real_context, &entry, OURS);
}

static void blocks_go_with_their_context(void **state)
{
    (void)state;
    add(OURS, 0);
    add(OTHER, 0);
    add(OURS, ZC_BLOCK_STREAM);      /* Its pool outlives the context. */
    add(OURS, ZC_BLOCK_QUARANTINED); /* Freed already. */
    add(OURS, ZC_BLOCK_CONVERTED)->backing = (void *)0x99;
    add(OURS, ZC_BLOCK_FOREIGN)->api = ZC_API_cuMemHostRegister;
    add(OURS, ZC_BLOCK_FOREIGN)->base = 0x6000;
    add(OURS, 0)->api = ZC_API_cuMemHostRegister;
    add(OURS, 0);
    has.refuses[8] = true; /* Another thread frees it. */
    assert_int_equal(destroyed(), CUDA_SUCCESS);
    assert_true(has.removed == 5 && has.gone[0] && has.gone[4] && has.gone[5] && has.gone[6]);
    assert_true(has.gone[7] && !has.gone[1] && !has.gone[2] && !has.gone[3] && !has.gone[8]);
    assert_true(has.budget == 5 && has.released == 1 && has.returned == 1);
    assert_true(has.lost == 1 && has.context_gone == 1 && has.note == OURS && !has.there);
    assert_true(has.leaving == 1 && has.left == 1 && has.paused == 1 && has.resumed == 1);
    assert_true(has.forgotten == 1 && has.locked == 0);
}

static void a_context_takes_along_as_many_blocks_as_it_has(void **state)
{
    (void)state;
    for (unsigned n = 0; n <= 130; n++) {
        anew(NULL);
        has.locks = n % 2; /* Without it in a signal handler. */
        for (unsigned i = 0; i < n; i++)
            add(OURS, 0);
        assert_int_equal(destroyed(), CUDA_SUCCESS);
        assert_int_equal(has.removed, n);
        assert_int_equal(has.locked, 0);
    }
}

static void a_refusal_leaves_all_as_it_was(void **state)
{
    (void)state;
    add(OURS, 0);
    has.real = CUDA_ERROR_INVALID_CONTEXT;
    assert_int_equal(destroyed(), CUDA_ERROR_INVALID_CONTEXT);
    assert_true(has.removed == 0 && has.noted == 0 && has.left == 1 && has.resumed == 1);
    has.real = CUDA_SUCCESS;
    zc_life_state = ZC_LIFE_PASS; /* libzc is off. */
    assert_int_equal(destroyed(), CUDA_SUCCESS);
    assert_true(has.removed == 0 && has.leaving == 1 && has.noted == 0);
    zc_life_state = ZC_LIFE_ON;
}

static void a_context_that_is_detached_lives_as_long_as_it_can_be_pushed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        anew(NULL);
        add(OURS, 0);
        has.pushed = i & 1 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
        has.real = i & 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        zc_life_state = i & 4 ? ZC_LIFE_PASS : ZC_LIFE_ON;
        assert_int_equal(zc_do_cuCtxDetach(real_context, &entry, OURS), has.real);
        assert_int_equal(has.removed, i == 1);
        assert_int_equal(has.pops, i == 0);
        assert_int_equal(has.leaving, i < 4);
        assert_int_equal(has.left, 1);
        zc_life_state = ZC_LIFE_ON;
    }
}

static void a_context_that_is_current_is_not_popped(void **state)
{
    (void)state;
    has.current = true;
    assert_int_equal(zc_do_cuCtxDetach(real_context, &entry, OURS), CUDA_SUCCESS);
    assert_true(has.pops == 0 && has.noted == 0);
}

static void a_primary_context_goes_with_a_reset_or_its_last_release(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        anew(NULL);
        add(OURS, ZC_BLOCK_STREAM); /* Pools go with a reset, and stay at a release. */
        add(OURS, 0);
        bool reset = i & 1, off = i & 4, known = i & 8;
        has.last = i & 2;
        has.closing = i & 16;
        has.real = i & 32 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
        has.primary_now = known ? OURS : NULL;
        zc_life_state = off ? ZC_LIFE_PASS : ZC_LIFE_ON;
        assert_int_equal(reset ? zc_do_cuDevicePrimaryCtxReset(real_device, &entry, 3)
                               : zc_do_cuDevicePrimaryCtxRelease(real_device, &entry, 3),
                         has.real);
        zc_life_state = ZC_LIFE_ON;
        bool goes =
            known && !off && !has.closing && has.real == CUDA_SUCCESS && (reset || has.last);
        assert_int_equal(has.removed, goes ? 1 + reset : 0);
        assert_true(has.paused == 1 && has.resumed == 1 && has.left == 1);
        assert_int_equal(has.leaving, reset && known && !off && !has.closing);
    }
}

static void contexts_that_are_made_are_known_and_their_time_counts(void **state)
{
    CUcontext context;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        has.real = i & 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        zc_life_state = i & 2 ? ZC_LIFE_PASS : ZC_LIFE_ON;
        assert_int_equal(zc_do_cuDevicePrimaryCtxRetain(real_retain, &entry, &context, 3),
                         has.real);
        zc_life_state = ZC_LIFE_ON;
        assert_int_equal(has.noted, i == 0);
        assert_true(i || (has.note == OTHER && has.there));
        assert_int_equal(has.started, 44);
    }
}

static void rights_of_blocks_follow_peer_access(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        anew(NULL);
        bool off = i & 1, fails = i & 4;
        has.closing = i & 2;
        has.real = fails ? CUDA_ERROR_TOO_MANY_PEERS : CUDA_SUCCESS;
        has.rights = i & 8 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        zc_life_state = off ? ZC_LIFE_PASS : ZC_LIFE_ON;
        bool looks = !off && !has.closing && !fails;
        assert_int_equal(zc_do_cuCtxEnablePeerAccess(real_enable, &entry, OTHER, 4),
                         looks ? has.rights : has.real);
        assert_int_equal(has.disabled, looks && (i & 8)); /* The call has not happened. */
        assert_int_equal(has.calls, 1);
        zc_life_state = ZC_LIFE_ON;
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(blocks_go_with_their_context),
        TEST(a_context_takes_along_as_many_blocks_as_it_has),
        TEST(a_refusal_leaves_all_as_it_was),
        TEST(a_context_that_is_detached_lives_as_long_as_it_can_be_pushed),
        TEST(a_context_that_is_current_is_not_popped),
        TEST(a_primary_context_goes_with_a_reset_or_its_last_release),
        TEST(contexts_that_are_made_are_known_and_their_time_counts),
        TEST(rights_of_blocks_follow_peer_access),
    };
    return RUN_TESTS(tests);
}
