/* SPDX-License-Identifier: MIT */
/* Ranges of addresses: what is mapped in them is what a driver was told, chunk by chunk. */
#define __CUDA_API_VERSION_INTERNAL

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/va.h"

#define CHUNKS 12u
#define STEPS 20000u
#define BASE ((CUdeviceptr)0x7000000000)

/* A driver that keeps what is mapped, in ZC_VA_UNITs, and refuses what one would. */
static struct {
    unsigned char mapped[4 * CHUNKS], open[4 * CHUNKS];
    unsigned fails;      /* The call that fails, from 1. */
    const char *refuses; /* Which one it was. */
} driver;

static bool fails(const char *call)
{
    if (driver.fails == 1)
        driver.refuses = call;
    return driver.fails && --driver.fails == 0;
}

static size_t unit_of(CUdeviceptr at)
{
    assert_true(at >= BASE && (at - BASE) % ZC_VA_UNIT == 0);
    return (at - BASE) / ZC_VA_UNIT;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    size_t first = unit_of(at);

    assert_true(offset == 0 && flags == 0 && handle == first + 1);
    if (fails("cuMemMap refuses"))
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = first; i < first + size / ZC_VA_UNIT; i++) {
        assert_false(driver.mapped[i]);
        driver.mapped[i] = 1;
    }
    return CUDA_SUCCESS;
}

static CUresult open_to(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    size_t first = unit_of(at);

    assert_true(size > 0 && count == 1 && desc[0].location.id == 3);
    if (fails("cuMemSetAccess refuses"))
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = first; i < first + size / ZC_VA_UNIT; i++) {
        assert_true(driver.mapped[i]);
        driver.open[i] = desc[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
    size_t first = unit_of(at);

    if (fails("cuMemUnmap refuses"))
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = first; i < first + size / ZC_VA_UNIT; i++) {
        assert_true(driver.mapped[i]);
        driver.mapped[i] = driver.open[i] = 0;
    }
    return CUDA_SUCCESS;
}

/* Chunks of one to three units, whose handles say where they begin. */
static size_t lay_out(struct zc_chunk *list, struct zc_va *va)
{
    size_t at = 0;

    for (unsigned i = 0; i < CHUNKS; i++) {
        list[i].handle = at / ZC_VA_UNIT + 1;
        list[i].size = (1 + i % 3) * ZC_VA_UNIT;
        at += list[i].size;
    }
    *va = (struct zc_va){.base = BASE, .size = at, .devices = zc_va_bit(3)};
    zc_va_list = va;
    va->before = va;
    memset(&driver, 0, sizeof(driver));
    zc_real.cuMemMap = map;
    zc_real.cuMemSetAccess = open_to;
    zc_real.cuMemUnmap = unmap;
    return at / ZC_VA_UNIT;
}

static void expect_same(const struct zc_va *va, size_t units)
{
    for (size_t i = 0; i < units; i++) {
        assert_int_equal(zc_va_holds(va, i * ZC_VA_UNIT, (i + 1) * ZC_VA_UNIT), driver.mapped[i]);
        assert_int_equal(driver.open[i], driver.mapped[i]);
    }
    for (unsigned i = 0; i < va->count; i++) {
        assert_true(va->run[i].from < va->run[i].to);
        assert_true(i == 0 || va->run[i].from > va->run[i - 1].to);
    }
}

/* Random ranges are mapped, in any order, by calls of which some fail. */
static void what_is_held_is_what_the_driver_has_mapped(void **state)
{
    struct zc_chunk list[CHUNKS];
    const struct zc_chunks chunks = {.list = list, .count = CHUNKS, .room = CHUNKS};
    struct zc_va va;
    unsigned seed = 1, whole = 0;
    const char *why;
    size_t units = lay_out(list, &va);

    (void)state;
    for (unsigned step = 0; step < STEPS; step++) {
        size_t from = (size_t)rand_r(&seed) % units, to = from + 1 + (size_t)rand_r(&seed) % 5;

        to = to < units ? to : units;
        driver.fails = rand_r(&seed) % 8 ? 0 : 1 + (unsigned)rand_r(&seed) % 4;
        CUresult result = zc_va_map(&va, &chunks, from * ZC_VA_UNIT, to * ZC_VA_UNIT, &why);
        bool held = zc_va_holds(&va, from * ZC_VA_UNIT, to * ZC_VA_UNIT);
        if (result != CUDA_SUCCESS)
            assert_string_equal(why, driver.refuses);
        assert_true(held || result != CUDA_SUCCESS);
        expect_same(&va, units);
        whole += zc_va_holds(&va, 0, va.size);
        driver.fails = rand_r(&seed) % 4 ? 0 : 1;
        if (step % 8 == 7)
            zc_va_unmap(&va);
        expect_same(&va, units);
    }
    assert_true(whole > 0);
    driver.fails = 0;
    zc_va_unmap(&va);
    assert_int_equal(va.count, 0);
}

static void no_more_is_mapped_than_asked_for(void **state)
{
    struct zc_chunk list[CHUNKS];
    const struct zc_chunks chunks = {.list = list, .count = CHUNKS, .room = CHUNKS};
    struct zc_va va;
    const char *why;
    size_t units = lay_out(list, &va), end = 0;

    (void)state;
    for (unsigned i = 0; i < CHUNKS; i++) { /* Each chunk alone, and nothing behind it. */
        size_t from = end;

        end += list[i].size;
        size_t first = i % 2 ? from : end - 1;

        zc_va_unmap(&va);
        assert_int_equal(zc_va_map(&va, &chunks, first, end, &why), CUDA_SUCCESS);
        assert_true(va.count == 1 && va.run[0].from == from && va.run[0].to == end);
        assert_int_equal(zc_va_map(&va, &chunks, 0, from, &why), CUDA_SUCCESS);
        assert_true(va.count == 1 && va.run[0].from == 0 && va.run[0].to == end);
        expect_same(&va, units);
    }
    assert_true(zc_va_holds(&va, 5, 5));
    assert_false(zc_va_holds(&va, 0, va.size + 1));
}

/* All that was opened to a device is closed to it again. */
static void rights_change_for_all_runs(void **state)
{
    struct zc_chunk list[CHUNKS];
    const struct zc_chunks chunks = {.list = list, .count = CHUNKS, .room = CHUNKS};
    struct zc_va va;
    const char *why;
    size_t units = lay_out(list, &va);

    (void)state;
    zc_va_map(&va, &chunks, 0, 1, &why);
    zc_va_map(&va, &chunks, va.size - 1, va.size, &why);
    assert_int_equal(va.count, 2);
    assert_int_equal(zc_va_set_devices(&va, 0, zc_va_bit(3)), CUDA_SUCCESS);
    for (size_t i = 0; i < units; i++)
        assert_false(driver.open[i]);
    assert_int_equal(zc_va_set_devices(&va, zc_va_bit(3), 0), CUDA_SUCCESS);
    expect_same(&va, units);
    driver.fails = 1;
    assert_int_equal(zc_va_set_devices(&va, 0, zc_va_bit(3)), CUDA_ERROR_UNKNOWN);
    assert_int_equal(zc_va_set_devices(&va, 0, 0), CUDA_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_is_what_the_driver_has_mapped),
        cmocka_unit_test(no_more_is_mapped_than_asked_for),
        cmocka_unit_test(rights_change_for_all_runs),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
