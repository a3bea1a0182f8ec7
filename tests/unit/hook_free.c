/* SPDX-License-Identifier: MIT */
/* Frees of device memory: who frees it, when, and what the program is answered. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/life.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "hook/diagnose.h"
#include "hook/request.h"
#include "place/freed.h"

#define AT ((CUdeviceptr)0x100000)
#define STREAM ((CUstream)0x77)
#define EVENT ((CUevent)0x88)
#define CONTEXT ((CUcontext)0x1000)

static struct {
    struct zc_block *found;
    bool claims, closing, pushed, untracks, captured, diagnosed;
    CUresult placed, ordered, drained, refusal, real, null_free;
    CUevent event;
    unsigned noted, removed, named, frees, in_order, bare, retracked, drains, pushes, pops, calls,
        nulls;
    CUdeviceptr given;
    struct zc_block *untracked;
} has;

static struct zc_block own;

static struct zc_block *fake_find(CUdeviceptr address)
{
    return has.found && address - has.found->base < has.found->size ? has.found : NULL;
}

/* As zc_converted_at() and zc_hosted_at(). */
static struct zc_block *fake_kind(CUdeviceptr address, bool hosted)
{
    struct zc_block *b = fake_find(address);
    return b && (b->flags & ZC_BLOCK_CONVERTED) && zc_block_hosted(b) == hosted ? b : NULL;
}

static bool fake_claim(struct zc_block *b)
{
    assert_ptr_equal(b, &own);
    return has.claims;
}

static void fake_note(struct zc_block *b)
{
    assert_true(b == &own && has.removed == 0);
    has.noted++;
}

static void fake_remove(struct zc_block *b)
{
    assert_ptr_equal(b, &own);
    has.removed++;
}

static CUresult fake_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    assert_true(fn == ZC_FN_cuMemFree_v2 && address == AT);
    has.named++;
    return code;
}

static CUresult fake_free(struct zc_block *b, void (*note)(struct zc_block *), bool *diagnosed)
{
    assert_ptr_equal(b, &own);
    *diagnosed = has.diagnosed;
    note(b);
    b->base = 0; /* It may be gone. */
    has.frees++;
    return has.placed;
}

static CUresult fake_in_order(struct zc_block *b, CUevent event, CUstream stream,
                              enum zc_flavour flavour, void (*note)(struct zc_block *))
{
    assert_true(b == &own && event == has.event && stream == STREAM);
    assert_int_equal(flavour, ZC_PER_THREAD);
    note(b);
    has.in_order++;
    return has.ordered;
}

static CUevent fake_mark(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    return has.event;
}

static CUresult fake_drain(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    has.drains++;
    return has.drained;
}

static void fake_untrack(struct zc_block *b, struct zc_untracked *out)
{
    assert_int_equal(has.calls, 0); /* The address may be another's once it is free. */
    has.untracked = b;
    *out = (struct zc_untracked){.taken = b && has.untracks, .copy = own};
}

static void fake_untrack_at(CUdeviceptr address, struct zc_untracked *out)
{
    struct zc_block *b = fake_find(address);
    fake_untrack(b && b->base == address ? b : NULL, out);
}

static bool fake_retrack(const struct zc_untracked *u, CUresult result)
{
    (void)u;
    assert_int_equal(result, has.real);
    has.retracked++;
    return result != CUDA_SUCCESS;
}

static void fake_bare(const struct zc_block *b)
{
    assert_int_equal(b->base, AT);
    has.bare++;
}

static bool fake_push(CUcontext context)
{
    assert_ptr_equal(context, CONTEXT);
    has.pushes++;
    return has.pushed;
}

static void fake_pop(bool pushed)
{
    assert_int_equal(pushed, has.pushed && has.pushes);
    has.pops++;
}

static CUresult fake_refusal(void)
{
    return has.refusal;
}

#define zc_block_find fake_find
#define zc_converted_at(p) fake_kind((p), false)
#define zc_hosted_at(p) fake_kind((p), true)
#define zc_block_claim fake_claim
#define zc_block_remove fake_remove
#define zc_note_free fake_note
#define zc_diagnose fake_diagnose
#define zc_place_free fake_free
#define zc_place_free_in_order fake_in_order
#define zc_stream_mark fake_mark
#define zc_stream_drain fake_drain
#define zc_stream_refusal fake_refusal
#define zc_untrack fake_untrack_at
#define zc_untrack_block fake_untrack
#define zc_retrack fake_retrack
#define zc_freed_bare fake_bare
#define zc_context_push_if_none fake_push
#define zc_context_pop fake_pop
#define zc_capture_holds(stream, flavour) (has.captured)
#define zc_life_closing() (has.closing)
#include "../../shim/hook/free.c"

static const struct zc_entry entry = {.fn = ZC_FN_cuMemFree_v2, .flavour = ZC_PER_THREAD};

static CUresult real_free(CUdeviceptr p)
{
    has.given = p;
    has.nulls += !p;
    has.calls += p != 0;
    return p ? has.real : has.null_free;
}

static CUresult real_free_async(CUdeviceptr p, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    return real_free(p);
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    has.claims = has.untracks = true;
    has.refusal = CUDA_ERROR_INVALID_CONTEXT;
    has.found = &own;
    has.event = EVENT;
    zc_real.cuMemFree_v2 = real_free;
    zc_life_state = ZC_LIFE_ON;
    zc_captures = 0;
    own = (struct zc_block){.base = AT,
                            .size = 8192,
                            .asked = ZC_KIND_DEVICE,
                            .context = CONTEXT,
                            .flags = ZC_BLOCK_CONVERTED};
    return 0;
}

static CUresult freed(CUdeviceptr p)
{
    return zc_do_cuMemFree_v2(real_free, &entry, p);
}

static CUresult freed_async(CUdeviceptr p)
{
    return zc_do_cuMemFreeAsync(real_free_async, &entry, p, STREAM);
}

static void a_block_of_libzcs_goes_by_its_place(void **state)
{
    (void)state;
    has.pushed = true;
    assert_int_equal(freed(AT), CUDA_SUCCESS);
    assert_true(has.frees == 1 && has.noted == 1 && has.calls == 0 && has.pops == 1);
    assert_int_equal(has.named, 0);
}

static void a_failure_names_the_rule_unless_it_was_explained(void **state)
{
    static const struct {
        CUresult code;
        bool diagnosed, named;
    } rows[] = {{CUDA_ERROR_UNKNOWN, false, true},
                {CUDA_ERROR_UNKNOWN, true, false},
                {CUDA_ERROR_INVALID_VALUE, false, false},
                {CUDA_SUCCESS, false, false}};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        has.placed = rows[i].code;
        has.diagnosed = rows[i].diagnosed;
        assert_int_equal(freed(AT), rows[i].code);
        assert_int_equal(has.named, rows[i].named);
    }
}

static void a_capture_refuses_a_free_as_the_driver_does(void **state)
{
    (void)state;
    has.null_free = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(freed(AT), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_true(has.frees == 0 && has.nulls == 1);
    has.null_free = CUDA_SUCCESS; /* In relaxed mode it takes it. */
    assert_int_equal(freed(AT), CUDA_SUCCESS);
    assert_int_equal(has.frees, 1);
}

static void what_is_no_beginning_of_a_live_block_is_refused(void **state)
{
    (void)state;
    has.pushed = true;
    assert_int_equal(freed(AT + 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.pushes, 0); /* Nor do errors of its context count. */
    assert_int_equal(freed_async(AT + 8), CUDA_ERROR_INVALID_CONTEXT);
    own.flags |= ZC_BLOCK_QUARANTINED;
    assert_int_equal(freed(AT), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(freed_async(AT), CUDA_ERROR_INVALID_CONTEXT);
    assert_true(has.frees == 0 && has.in_order == 0 && has.calls == 0 && has.pops == 2);
}

static void at_the_end_of_the_process_a_block_leaves_the_ledger_alone(void **state)
{
    (void)state;
    has.closing = true;
    has.null_free = CUDA_ERROR_DEINITIALIZED;
    for (unsigned i = 0; i < 2; i++) {
        has.claims = true;
        has.noted = has.removed = 0;
        assert_int_equal(i ? freed_async(AT) : freed(AT), CUDA_ERROR_DEINITIALIZED);
        assert_true(has.noted == 1 && has.removed == 1 && has.frees == 0 && has.in_order == 0);
        has.claims = false; /* Another thread has freed it. */
        assert_int_equal(i ? freed_async(AT) : freed(AT), CUDA_ERROR_INVALID_VALUE);
        assert_true(has.noted == 1 && has.removed == 1);
    }
}

/* It is no device memory to the program; but the driver may have another error first. */
static void pinned_memory_is_not_freed_as_device_memory(void **state)
{
    (void)state;
    own.asked = ZC_KIND_PINNED;
    for (unsigned i = 0; i < 4; i++) {
        has.null_free = i & 1 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
        assert_int_equal(i & 2 ? freed_async(AT) : freed(AT),
                         i & 1 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_INVALID_VALUE);
        assert_true(has.nulls == i + 1 && has.calls == 0 && has.frees == 0);
    }
}

static void a_block_of_the_drivers_is_out_of_the_ledger_while_it_frees_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        anew(NULL);
        own.flags = i & 1 ? ZC_BLOCK_STREAM : 0;
        has.real = i & 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        has.untracks = i & 4;
        bool async = i & 8;
        assert_int_equal(async ? freed_async(AT) : freed(AT), has.real);
        assert_true(has.calls == 1 && has.given == AT && has.untracked == &own);
        assert_true(has.retracked == 1 && has.frees == 0 && has.in_order == 0);
        assert_int_equal(has.bare, !async && (i & 7) == 4);
    }
    anew(NULL);
    own.flags = 0;
    assert_int_equal(freed(AT + 8), CUDA_SUCCESS);
    assert_true(has.calls == 1 && !has.untracked && has.bare == 0);
}

static void null_and_what_libzc_does_not_know_are_the_drivers(void **state)
{
    (void)state;
    has.null_free = CUDA_ERROR_NOT_READY;
    has.real = CUDA_ERROR_NOT_READY;
    own.base = 0; /* Would hold it. */
    for (unsigned i = 0; i < 6; i++) {
        if (i >= 2)
            has.null_free = CUDA_SUCCESS, has.real = CUDA_SUCCESS;
        zc_life_state = i >= 4 ? ZC_LIFE_PASS : ZC_LIFE_ON;
        own.base = i >= 4 ? AT : 0;
        has.calls = has.nulls = 0;
        CUdeviceptr p = i >= 4 ? AT : 0;
        assert_int_equal(i & 1 ? freed_async(p) : freed(p), has.real);
        assert_true(has.calls + has.nulls == 1 && has.frees == 0 && has.in_order == 0);
    }
    zc_life_state = ZC_LIFE_ON;
}

static void a_free_in_order_has_a_mark_behind_its_stream_or_waits(void **state)
{
    (void)state;
    has.ordered = CUDA_ERROR_NOT_READY;
    assert_int_equal(freed_async(AT), CUDA_ERROR_NOT_READY);
    assert_true(has.in_order == 1 && has.noted == 1 && has.drains == 0 && has.calls == 0);
    has.event = NULL;
    assert_int_equal(freed_async(AT), CUDA_ERROR_NOT_READY);
    assert_true(has.in_order == 2 && has.drains == 1);
    has.drained = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(freed_async(AT), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(has.in_order == 2 && has.named == 1);
    zc_captures = 1; /* It must not wait: the block stays. */
    assert_int_equal(freed_async(AT), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(has.in_order == 2 && has.drains == 2 && has.named == 2);
    has.captured = true; /* The free is a node: the driver objects to the address. */
    has.real = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(freed_async(AT), CUDA_ERROR_INVALID_VALUE);
    assert_true(has.calls == 1 && has.given == AT && has.in_order == 2);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_block_of_libzcs_goes_by_its_place),
        TEST(a_failure_names_the_rule_unless_it_was_explained),
        TEST(a_capture_refuses_a_free_as_the_driver_does),
        TEST(what_is_no_beginning_of_a_live_block_is_refused),
        TEST(at_the_end_of_the_process_a_block_leaves_the_ledger_alone),
        TEST(pinned_memory_is_not_freed_as_device_memory),
        TEST(a_block_of_the_drivers_is_out_of_the_ledger_while_it_frees_it),
        TEST(null_and_what_libzc_does_not_know_are_the_drivers),
        TEST(a_free_in_order_has_a_mark_behind_its_stream_or_waits),
    };
    return RUN_TESTS(tests);
}
