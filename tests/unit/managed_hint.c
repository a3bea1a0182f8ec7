/* SPDX-License-Identifier: MIT */
/* Which pages of managed blocks are sent to their device, and before what. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "driver/capture.h"
#include "driver/copy.h"
#include "driver/launch.h"
#include "managed/hint.h"
#include "real_test.h"

enum { BLOCKS = 20 };
#define AT(i) (0x10000 * ((CUdeviceptr)(i) + 1))
#define SIZE 1000

static struct {
    bool capture, no_device, old_driver;
    unsigned sent;
    CUdeviceptr at[BLOCKS];
    size_t bytes[BLOCKS];
    int device[BLOCKS];
    CUstream stream[BLOCKS];
    bool own_thread[BLOCKS]; /* By the function for per-thread default streams. */
    zc_launch_fn party;
} has;

static CUresult note(CUdeviceptr base, size_t size, int device, CUstream stream, bool own)
{
    assert_true(has.sent < BLOCKS);
    has.at[has.sent] = base;
    has.bytes[has.sent] = size;
    has.device[has.sent] = device;
    has.stream[has.sent] = stream;
    has.own_thread[has.sent++] = own;
    return CUDA_SUCCESS;
}

static CUresult send(CUdeviceptr base, size_t size, CUmemLocation location, unsigned flags,
                     CUstream stream)
{
    assert_true(location.type == CU_MEM_LOCATION_TYPE_DEVICE && flags == 0);
    return has.old_driver ? CUDA_ERROR_NOT_SUPPORTED : note(base, size, location.id, stream, false);
}

static CUresult send_ptsz(CUdeviceptr base, size_t size, CUmemLocation location, unsigned flags,
                          CUstream stream)
{
    assert_true(location.type == CU_MEM_LOCATION_TYPE_DEVICE && flags == 0);
    return has.old_driver ? CUDA_ERROR_NOT_SUPPORTED : note(base, size, location.id, stream, true);
}

static CUresult send_as_before(CUdeviceptr base, size_t size, CUdevice device, CUstream stream)
{
    assert_true(has.old_driver);
    return note(base, size, device, stream, false);
}

static CUresult get_device(CUdevice *device)
{
    *device = 2;
    return has.no_device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

static void fake_call(enum zc_launch_party party, zc_launch_fn fn)
{
    assert_int_equal(party, ZC_LAUNCH_PREFETCH);
    has.party = fn;
}

#define zc_launch_call fake_call
#define zc_capture_any() has.capture
#include "../../shim/managed/hint.c"

static struct zc_rule rule;
static struct zc_backing backings[BLOCKS];
static struct zc_block blocks[BLOCKS];

static int anew(void **state)
{
    (void)state;
    while (waiting)
        zc_hint_unmake(waiting);
    memset(&has, 0, sizeof(has));
    memset(backings, 0, sizeof(backings));
    memset(&rule, 0, sizeof(rule));
    rule.prefetch = ZC_PREFETCH_AUTO;
    real_without_driver();
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuMemPrefetchAsync_v2 = send;
    zc_real.cuMemPrefetchAsync_v2_ptsz = send_ptsz;
    zc_real.cuMemPrefetchAsync = send_as_before;
    zc_real.cuMemPrefetchAsync_ptsz = NULL;
    for (unsigned i = 0; i < BLOCKS; i++) {
        backings[i] = (struct zc_backing){.base = AT(i), .size = SIZE, .device = 2};
        blocks[i] = (struct zc_block){.base = AT(i),
                                      .size = SIZE,
                                      .place = ZC_PLACE_MANAGED,
                                      .flags = ZC_BLOCK_CONVERTED,
                                      .backing = &backings[i]};
    }
    return 0;
}

static void make(unsigned i)
{
    const struct zc_want want = {.rule = &rule};
    zc_hint_make(&want, &backings[i]);
}

static void launch(enum zc_flavour flavour, bool kernels)
{
    const struct zc_launch l = {.flavour = flavour, .stream = (CUstream)7, .kernels = kernels};
    if (has.party)
        assert_int_equal(has.party(&l), CUDA_SUCCESS);
}

static void copy_into(unsigned i, uint64_t bytes)
{
    struct zc_copy c = {.bytes = bytes, .stream = (CUstream)9, .flavour = ZC_LEGACY};
    c.dst.block = &blocks[i];
    c.dst.address = AT(i) + 8;
    c.dst.span = bytes + 4;
    zc_hint_copy(&c);
}

static void a_new_block_is_sent_before_the_first_launch_in_its_stream(void **state)
{
    (void)state;
    make(0);
    make(1);
    launch(ZC_LEGACY, false); /* No kernels. */
    assert_int_equal(has.sent, 0);
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 2);
    assert_int_equal(has.at[0] + has.at[1], AT(0) + AT(1));
    assert_int_equal(has.bytes[0], SIZE);
    assert_int_equal(has.device[0], 2);
    assert_ptr_equal(has.stream[0], (CUstream)7);
    assert_false(has.own_thread[0]);
    assert_null(has.party); /* None waits for a launch any more. */
    make(2);
    launch(ZC_PER_THREAD, true);
    assert_int_equal(has.sent, 3);
    assert_true(has.own_thread[2]);
}

static void an_older_driver_gets_the_older_call(void **state)
{
    (void)state;
    has.old_driver = true;
    make(0);
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 1);
    assert_int_equal(has.device[0], 2);
}

static void nothing_is_sent_in_captures_or_without_a_context(void **state)
{
    (void)state;
    make(0);
    has.capture = true;
    launch(ZC_LEGACY, true);
    copy_into(0, SIZE);
    has.capture = false;
    has.no_device = true;
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 0);
    has.no_device = false;
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 1);
    assert_int_equal(has.bytes[0], SIZE);
}

static void a_rule_without_prefetch_sends_nothing(void **state)
{
    (void)state;
    rule.prefetch = ZC_PREFETCH_NONE;
    make(0);
    assert_null(has.party);
    copy_into(0, SIZE);
    assert_int_equal(has.sent, 0);
}

static void blocks_of_other_devices_wait_for_theirs(void **state)
{
    (void)state;
    backings[0].device = 3;
    make(0);
    make(1);
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 1);
    assert_int_equal(has.at[0], AT(1));
    assert_non_null(has.party);
    zc_hint_unmake(&backings[0]);
    assert_null(has.party);
    zc_hint_unmake(&backings[0]);
}

static void of_many_blocks_a_launch_sends_sixteen_and_the_next_the_rest(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++)
        make(i);
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 16);
    assert_non_null(has.party);
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, BLOCKS);
    assert_null(has.party);
}

static void copies_that_fill_half_of_a_block_send_their_own_pages(void **state)
{
    (void)state;
    make(0);
    copy_into(0, SIZE / 2 - 1);
    assert_int_equal(has.sent, 0);
    copy_into(0, 1);
    assert_int_equal(has.sent, 1);
    assert_int_equal(has.at[0], AT(0) + 8);
    assert_int_equal(has.bytes[0], 5);
    assert_int_equal(has.device[0], 2);
    assert_ptr_equal(has.stream[0], (CUstream)9);
    assert_null(has.party); /* Kernels may need only a part. */
    copy_into(0, SIZE / 2 - 1);
    assert_int_equal(has.sent, 2);
    copy_into(0, 1);
    assert_int_equal(has.sent, 3);
    copy_into(0, SIZE); /* All of it was sent. */
    assert_int_equal(has.sent, 3);
}

static void a_block_that_was_copied_into_a_little_is_left_to_its_kernels(void **state)
{
    (void)state;
    make(0);
    copy_into(0, 1);
    launch(ZC_LEGACY, true);
    assert_int_equal(has.sent, 0);
    assert_null(has.party);
    copy_into(0, SIZE);
    assert_int_equal(has.sent, 0);
}

static void only_copies_into_managed_blocks_of_libzc_count(void **state)
{
    struct zc_copy none = {.bytes = SIZE};
    (void)state;
    make(0);
    zc_hint_copy(&none);
    blocks[0].flags = 0;
    copy_into(0, SIZE);
    blocks[0].flags = ZC_BLOCK_CONVERTED;
    blocks[0].place = ZC_PLACE_VMM;
    copy_into(0, SIZE);
    blocks[0].place = ZC_PLACE_MANAGED;
    struct zc_copy prefetch = {.bytes = SIZE, .shape = ZC_SHAPE_PREFETCH};
    prefetch.dst.block = &blocks[0];
    zc_hint_copy(&prefetch);
    assert_int_equal(has.sent, 0);
    copy_into(0, SIZE / 2);
    assert_int_equal(has.sent, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_block_is_sent_before_the_first_launch_in_its_stream, anew),
        cmocka_unit_test_setup(an_older_driver_gets_the_older_call, anew),
        cmocka_unit_test_setup(nothing_is_sent_in_captures_or_without_a_context, anew),
        cmocka_unit_test_setup(a_rule_without_prefetch_sends_nothing, anew),
        cmocka_unit_test_setup(blocks_of_other_devices_wait_for_theirs, anew),
        cmocka_unit_test_setup(of_many_blocks_a_launch_sends_sixteen_and_the_next_the_rest, anew),
        cmocka_unit_test_setup(copies_that_fill_half_of_a_block_send_their_own_pages, anew),
        cmocka_unit_test_setup(a_block_that_was_copied_into_a_little_is_left_to_its_kernels, anew),
        cmocka_unit_test_setup(only_copies_into_managed_blocks_of_libzc_count, anew)};
    return RUN_TESTS(tests);
}
