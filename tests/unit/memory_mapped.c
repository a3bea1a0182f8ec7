/* SPDX-License-Identifier: MIT */
/* Mapped memory: who makes the pages of which sizes, what lies around them, and what is given back
 * when a call is refused. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "memory/cgroup.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "memory/place.h"
#include "real_test.h"

#define MIB ((size_t)1 << 20)
#define DRIVERS ((uintptr_t)0x10000000)
#define PAGES ((uintptr_t)0x40000000)

static struct {
    bool two_addresses, no_pages;
    CUresult alloc, registers;
    uintptr_t odd; /* Added to the address that the driver gives. */
    uint64_t available;
    size_t bytes, margin; /* Of the last request. */
    unsigned flags, made, unmade, freed, unregistered;
} has;

static bool fake_one_address(int device)
{
    assert_int_equal(device, 3);
    return !has.two_addresses;
}

static int fake_node(int device)
{
    return device + 10;
}

static uint64_t fake_available(void)
{
    return has.available;
}

static void *fake_make(size_t bytes, size_t margin, int node)
{
    assert_int_equal(node, 13);
    has.bytes = bytes;
    has.margin = margin;
    has.made += !has.no_pages;
    return has.no_pages ? NULL : (void *)PAGES;
}

static void fake_unmake(void *pages, size_t bytes, size_t margin)
{
    assert_true(pages == (void *)PAGES && bytes == has.bytes && margin == has.margin);
    has.unmade++;
}

static CUresult host_alloc(void **out, size_t bytes, unsigned flags)
{
    *out = (void *)(DRIVERS + has.odd);
    has.bytes = bytes;
    has.flags = flags;
    return has.alloc;
}

static CUresult host_free(void *p)
{
    assert_true(p == (void *)(DRIVERS + has.odd));
    has.freed++;
    return CUDA_SUCCESS;
}

static CUresult host_register(void *p, size_t bytes, unsigned flags)
{
    assert_true(p == (void *)(PAGES - has.margin));
    assert_int_equal(bytes, zc_pages_span(has.bytes) + 2 * has.margin);
    has.flags = flags;
    return has.registers;
}

static CUresult host_unregister(void *p)
{
    assert_true(p == (void *)(PAGES - has.margin));
    has.unregistered++;
    return CUDA_SUCCESS;
}

#define zc_device_one_address fake_one_address
#define zc_node_of_device fake_node
#define zc_available fake_available
#define zc_pages_make fake_make
#define zc_pages_unmake fake_unmake
#include "../../shim/memory/mapped.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    has.available = UINT64_MAX;
    real_without_driver();
    zc_real.cuMemHostAlloc = host_alloc;
    zc_real.cuMemFreeHost = host_free;
    zc_real.cuMemHostRegister_v2 = host_register;
    zc_real.cuMemHostUnregister = host_unregister;
    return 0;
}

static CUresult make(size_t size, struct zc_backing *out, const char **why)
{
    const struct zc_want want = {.size = size, .device = 3};
    *out = (struct zc_backing){.size = size, .device = 3};
    *why = "";
    return zc_place_mapped.make(&want, out, why);
}

static void give_back(struct zc_backing *b)
{
    assert_int_equal(zc_place_mapped.detach(b), CUDA_SUCCESS);
    assert_int_equal(zc_place_mapped.unmake(b, false), CUDA_SUCCESS);
}

static void the_driver_makes_small_blocks_with_room_on_both_sides(void **state)
{
    const size_t sizes[] = {1, 8192, 65536, MIB - 1};
    struct zc_backing b;
    const char *why;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        size_t margin = zc_margin(sizes[i]);
        assert_int_equal(make(sizes[i], &b, &why), CUDA_SUCCESS);
        assert_int_equal(has.bytes, sizes[i] + 2 * margin);
        assert_int_equal(has.flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        assert_int_equal(b.base, DRIVERS + margin);
        assert_int_equal(b.room, sizes[i] + margin);
        assert_int_equal(zc_before(&b), margin);
        assert_false(b.own_pages);
        give_back(&b);
        assert_int_equal(has.freed, i + 1);
    }
    assert_true(has.made == 0 && has.unmade == 0 && has.unregistered == 0);
    has.alloc = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(make(8192, &b, &why), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "cuMemHostAlloc refuses");
    assert_int_equal(has.freed, 4);
    has.alloc = CUDA_SUCCESS;
    for (has.odd = 128; has.odd <= 256; has.odd += 128) {
        CUresult result = make(8192, &b, &why);
        assert_int_equal(result, has.odd == 256 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
        assert_int_equal(has.freed, 5);
    }
    assert_string_equal(why, "");
    has.odd = 1;
    make(8192, &b, &why);
    assert_string_equal(why, "cuMemHostAlloc aligns to less than 256 bytes");
}

static void pages_of_large_blocks_are_made_and_registered(void **state)
{
    struct zc_backing b;
    const char *why;
    (void)state;
    for (size_t size = MIB; size <= 64 * MIB; size *= 4) {
        anew(NULL);
        assert_int_equal(make(size, &b, &why), CUDA_SUCCESS);
        assert_true(has.bytes == size && has.margin == zc_margin(size));
        assert_int_equal(has.flags, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        assert_true(b.base == PAGES && b.own_pages && zc_before(&b) == has.margin);
        assert_int_equal(b.room, zc_pages_span(size) + has.margin);
        assert_true(has.unmade == 0 && has.unregistered == 0);
        give_back(&b);
        assert_true(has.made == 1 && has.unmade == 1 && has.unregistered == 1 && has.freed == 0);
    }
}

static void what_is_refused_is_told_and_leaves_no_page(void **state)
{
    static const struct {
        size_t size;
        uint64_t available;
        bool two, none;
        CUresult registers, result;
        const char *why;
    } rows[] = {
        {MIB, 0, 1, 0, 0, CUDA_ERROR_NOT_SUPPORTED, "the device can't use host addresses"},
        {ZC_REGISTRATION_MAX, UINT64_MAX, 0, 0, 0, CUDA_ERROR_NOT_SUPPORTED,
         "the driver pins less than 512 GiB in one piece"},
        {ZC_REGISTRATION_MAX - 1, UINT64_MAX, 0, 0, 0, CUDA_SUCCESS, NULL},
        {16 * MIB, 16 * MIB - 1, 0, 0, 0, CUDA_ERROR_OUT_OF_MEMORY,
         "the host has not so much memory left"},
        {16 * MIB, 16 * MIB, 0, 0, 0, CUDA_SUCCESS, NULL},
        {16 * MIB - 1, 0, 0, 0, 0, CUDA_SUCCESS, NULL},
        {MIB, 0, 0, 1, 0, CUDA_ERROR_OUT_OF_MEMORY, "the kernel gives no pages"},
        {MIB, 0, 0, 0, CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN, "cuMemHostRegister refuses"},
    };
    struct zc_backing b;
    const char *why;
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.available = rows[i].available;
        has.two_addresses = rows[i].two;
        has.no_pages = rows[i].none;
        has.registers = rows[i].registers;
        assert_int_equal(make(rows[i].size, &b, &why), rows[i].result);
        if (rows[i].why)
            assert_string_equal(why, rows[i].why);
        assert_int_equal(has.made - has.unmade, rows[i].result == CUDA_SUCCESS);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_driver_makes_small_blocks_with_room_on_both_sides),
        TEST(pages_of_large_blocks_are_made_and_registered),
        TEST(what_is_refused_is_told_and_leaves_no_page),
    };
    return RUN_TESTS(tests);
}
