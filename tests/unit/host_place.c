/* SPDX-License-Identifier: MIT */
/* The place `pinned`: which requests it takes, and what is given back where one fails. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/device.h"
#include "memory/place.h"

static char memory[64];
static struct zc_extent extent;
static struct zc_host_want last;
static struct {
    bool two_addresses, closed, none;
    CUresult pin;
    unsigned puts, tidied, synced;
} has;

static void *fake_get(const struct zc_host_want *want, struct zc_slot **slot, const char **why)
{
    last = *want;
    *slot = &extent.slot[0];
    *why = has.none ? "over max_pinned" : *why;
    return has.none ? NULL : memory;
}

static CUresult fake_now(const struct zc_extent *e, const char **why)
{
    assert_ptr_equal(e, &extent);
    if (has.pin != CUDA_SUCCESS)
        *why = "cuMemHostRegister refuses";
    return has.pin;
}

static bool fake_open(const char **why)
{
    *why = has.closed ? "no addresses" : *why;
    return !has.closed;
}

#define zc_device_one_address(device) (assert_int_equal(device, 3), !has.two_addresses)
#define zc_hostheap_open fake_open
#define zc_hostheap_get fake_get
#define zc_hostheap_put(p) (assert_ptr_equal(p, memory), has.puts++)
#define zc_hostheap_tidy(all) (assert_true(all), has.tidied++)
#define zc_hostheap_extent(address) (assert_int_equal(address, (uintptr_t)memory), &extent)
#define zc_hostheap_room(p) (assert_ptr_equal(p, memory), (size_t)123456)
#define zc_pinned_now fake_now
#define zc_pinned_sync(p, on)                                                                      \
    (assert_int_equal(p, (uintptr_t)memory), assert_false(on), has.synced++)
#include "../../shim/host/place.c"

static CUresult make(size_t size, struct zc_backing *out, const char **why)
{
    const struct zc_want want = {.size = size, .device = 3, .context = (CUcontext)&has};
    memset(out, 0, sizeof(*out));
    *why = "";
    return zc_place_pinned.make(&want, out, why);
}

static void a_block_is_zero_of_its_context_and_as_wide_as_its_slot(void **state)
{
    struct zc_backing b;
    const char *why;
    (void)state;
    memset(&has, 0, sizeof(has));
    assert_int_equal(make(ZC_HOST_MIN, &b, &why), CUDA_SUCCESS);
    assert_true(b.base == (CUdeviceptr)memory && b.room == 123456);
    assert_true(last.size == ZC_HOST_MIN && last.alignment == 4096 && last.zero);
    assert_true(last.owner == &has && !last.shareable && !last.spread);
    assert_true(has.puts == 0 && has.tidied == 0);
}

static void a_request_that_fails_says_why_and_leaves_nothing(void **state)
{
    static const struct {
        CUresult result;
        const char *why;
    } rows[] = {{CUDA_ERROR_NOT_SUPPORTED, "the driver packs blocks below 64 KiB"},
                {CUDA_ERROR_NOT_SUPPORTED, "the device can't use host addresses"},
                {CUDA_ERROR_OUT_OF_MEMORY, "no addresses"},
                {CUDA_ERROR_OUT_OF_MEMORY, "over max_pinned"},
                {CUDA_ERROR_UNKNOWN, "cuMemHostRegister refuses"}};
    struct zc_backing b;
    const char *why;
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        memset(&has, 0, sizeof(has));
        has.two_addresses = i == 1;
        has.closed = i == 2;
        has.none = i == 3;
        has.pin = i == 4 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        assert_int_equal(make(ZC_HOST_MIN - (i == 0), &b, &why), rows[i].result);
        assert_string_equal(why, rows[i].why);
        assert_true(has.puts == (i == 4) && has.tidied == (i == 4) && !b.base);
    }
}

/* The next block of its memory is as the driver's would be; in a slab others still want it. */
static void an_attribute_of_a_block_goes_with_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct zc_backing b = {.base = (CUdeviceptr)memory, .synced = i & 1};
        memset(&has, 0, sizeof(has));
        extent.use = i & 2 ? ZC_EXTENT_BLOCK : ZC_EXTENT_SLAB;
        assert_int_equal(zc_place_pinned.unmake(&b, i & 4), CUDA_SUCCESS);
        assert_int_equal(has.synced, i == 3);
        assert_int_equal(has.puts, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_zero_of_its_context_and_as_wide_as_its_slot),
        cmocka_unit_test(a_request_that_fails_says_why_and_leaves_nothing),
        cmocka_unit_test(an_attribute_of_a_block_goes_with_it),
    };
    return RUN_TESTS(tests);
}
