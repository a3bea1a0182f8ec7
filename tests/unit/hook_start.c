/* SPDX-License-Identifier: MIT */
/* The begin of CUDA in a process, and the answers to requests for the driver's functions. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/life.h"
#include "driver/call.h"
#include "driver/unknown.h"
#include "ledger/counters.h"

static struct {
    CUresult real;
    unsigned calls, starts, substitutes;
    void *found, *answer;
    uint64_t begun;
} has;

static uint64_t fake_begin(void)
{
    assert_int_equal(has.calls, 0);
    return 44;
}

static void fake_end(uint64_t begun)
{
    assert_int_equal(has.calls, 1);
    has.begun = begun;
}

static void fake_init(void)
{
    assert_int_equal(has.begun, 44);
    has.starts++;
}

static void *fake_answer(const char *name, void *real)
{
    assert_string_equal(name, "cuMemAlloc");
    assert_ptr_equal(real, has.found);
    has.substitutes++;
    return has.answer;
}

#define zc_counters_begin_start fake_begin
#define zc_counters_end_start fake_end
#define zc_life_init fake_init
#define zc_real_answer fake_answer
#include "../../shim/hook/start.c"

static const struct zc_entry entry;

static CUresult real_init(unsigned flags)
{
    assert_int_equal(flags, 5);
    has.calls++;
    return has.real;
}

static CUresult real_address(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    (void)symbol;
    assert_true(version == 12000 && flags == 2);
    if (pfn)
        *pfn = has.found;
    return has.real;
}

static CUresult real_address_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult *status)
{
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return real_address(symbol, pfn, version, flags);
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    has.found = (void *)0x1000;
    has.answer = (void *)0x2000;
    return 0;
}

static void a_process_that_has_no_driver_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(zc_do_cuInit(real_init, &entry, 5), CUDA_SUCCESS);
    assert_true(has.starts == 1 && has.begun == 44);
    anew(NULL);
    has.real = CUDA_ERROR_NO_DEVICE;
    assert_int_equal(zc_do_cuInit(real_init, &entry, 5), CUDA_ERROR_NO_DEVICE);
    assert_true(has.starts == 0 && has.begun == 44);
}

static CUresult asked(unsigned version, const char *symbol, void **pfn)
{
    CUdriverProcAddressQueryResult status;
    return version == 2
               ? zc_do_cuGetProcAddress_v2(real_address_v2, &entry, symbol, pfn, 12000, 2, &status)
               : zc_do_cuGetProcAddress(real_address, &entry, symbol, pfn, 12000, 2);
}

static void a_program_gets_libzcs_function_for_the_drivers(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 2; version++) {
        void *p = NULL;
        anew(NULL);
        assert_int_equal(asked(version, "cuMemAlloc", &p), CUDA_SUCCESS);
        assert_true(p == (void *)0x2000 && has.substitutes == 1);
        has.answer = NULL; /* No trampoline is left. */
        assert_int_equal(asked(version, "cuMemAlloc", &p), CUDA_ERROR_NOT_FOUND);
        assert_null(p);
        has.real = CUDA_ERROR_INVALID_VALUE;
        assert_int_equal(asked(version, "cuMemAlloc", &p), CUDA_ERROR_INVALID_VALUE);
        assert_true(p == has.found && has.substitutes == 2);
    }
}

static void an_answer_without_a_function_stays_what_it_is(void **state)
{
    void *p;
    (void)state;
    for (unsigned version = 1; version <= 2; version++) {
        assert_int_equal(asked(version, "cuMemAlloc", NULL), CUDA_SUCCESS);
        assert_int_equal(asked(version, NULL, &p), CUDA_SUCCESS);
        assert_int_equal(asked(version, "", &p), CUDA_SUCCESS);
        assert_ptr_equal(p, has.found);
        has.found = NULL;
        assert_int_equal(asked(version, "cuMemAlloc", &p), CUDA_SUCCESS);
        assert_null(p);
        has.found = (void *)0x1000;
        assert_int_equal(has.substitutes, 0);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_that_has_no_driver_is_left_alone),
        TEST(a_program_gets_libzcs_function_for_the_drivers),
        TEST(an_answer_without_a_function_stays_what_it_is),
    };
    return RUN_TESTS(tests);
}
