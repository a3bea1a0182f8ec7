/* SPDX-License-Identifier: MIT */
/* The driver's functions: found once, whichever of them it lacks, and told from their addresses. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include "base_test.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#define DRIVER ((void *)0x7000)

/* The loader, and the driver in it. */
static struct {
    unsigned open_version, sym_version; /* Of libc's functions: 1 is 2.34; 0: there is none. */
    unsigned asked, lookups, opens;
    bool begun;               /* The library of this program starts before main(). */
    const char *lacks, *ours; /* A function that it does not have, one that is libzc's. */
} has;

static void *fake_versions(void *handle, const char *name, const char *version);

#define dlvsym(handle, name, version)                                                              \
    (has.begun ? fake_versions(handle, name, version) : dlvsym(handle, name, version))
#include "../../shim/driver/real.c"

/* Of each row 16 bytes, and of what is passed on so many again. */
static char code[2 * ZC_FN_COUNT][16];

static void *fake_sym(void *handle, const char *name)
{
    assert_ptr_equal(handle, DRIVER);
    has.lookups++;
    if ((has.lacks && !strcmp(name, has.lacks)) || (has.ours && !strcmp(name, has.ours)))
        return has.lacks && !strcmp(name, has.lacks) ? NULL : (void *)cuMemAlloc_v2;
    for (uint32_t i = 0; i < ZC_FN_COUNT; i++)
        if (!strcmp(name, rows[i].name))
            return code[i];
    if (!strncmp(name, passed[0], strcspn(passed[0], ",")))
        return code[ZC_FN_COUNT + 2];
    return !strcmp(name, "cuDeviceGet") ? code[ZC_FN_COUNT] : NULL;
}

static void *fake_open(const char *file, int mode)
{
    assert_int_equal(mode, RTLD_LAZY | RTLD_NOLOAD);
    has.opens++;
    assert_string_equal(file, "libcuda.so.1");
    return DRIVER;
}

static void *fake_versions(void *handle, const char *name, const char *version)
{
    static const char *const versions[] = {"", "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    bool open = !strcmp(name, "dlopen");
    assert_true(handle == RTLD_NEXT && (open || !strcmp(name, "dlsym")));
    has.asked++;
    if (strcmp(version, versions[open ? has.open_version : has.sym_version]))
        return NULL;
    return open ? (void *)fake_open : (void *)fake_sym;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&driver, 0, sizeof(driver));
    memset(&zc_real, 0, sizeof(zc_real));
    zc_real_dlsym = NULL;
    zc_real_dlopen = NULL;
    has.begun = true;
    has.open_version = has.sym_version = 1;
    return 0;
}

static void *slot(uint32_t row)
{
    return ((void **)&zc_real)[row];
}

static void the_loaders_functions_are_of_any_version_of_libc(void **state)
{
    (void)state;
    for (unsigned open = 1; open <= 3; open++)
        for (unsigned sym = 1; sym <= 3; sym++) {
            anew(NULL);
            has.open_version = open;
            has.sym_version = sym;
            zc_libc_find();
            assert_true(zc_real_dlopen == fake_open && zc_real_dlsym == fake_sym);
            assert_int_equal(has.asked, open + sym);
            zc_libc_find();
            assert_int_equal(has.asked, open + sym);
        }
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        has.open_version = i;
        has.sym_version = 1 - i;
        assert_false(zc_real_find());
        assert_int_equal(has.lookups + has.opens, 0);
    }
}

static void each_function_is_found_with_its_wrapper(void **state)
{
    unsigned lookups;
    (void)state;
    assert_true(zc_real_find());
    for (uint32_t i = 0; i < ZC_FN_COUNT; i++) {
        assert_ptr_equal(slot(i), code[i]);
        assert_ptr_equal(zc_wrapper_of(code[i]), i < ZC_FN_CAUGHT ? rows[i].wrapper : code[i]);
        assert_string_equal(zc_real_name((enum zc_fn)i), rows[i].name);
    }
    assert_ptr_equal(zc_wrapper_of(code[ZC_FN_cuMemAlloc_v2]), (void *)cuMemAlloc_v2);
    assert_ptr_equal(zc_wrapper_of(code[ZC_FN_COUNT]), code[ZC_FN_COUNT]); /* It is passed on. */
    assert_ptr_equal(zc_wrapper_of(code[ZC_FN_COUNT + 2]), code[ZC_FN_COUNT + 2]);
    assert_null(zc_wrapper_of(code[ZC_FN_COUNT + 1]));
    assert_null(zc_wrapper_of(NULL));
    assert_int_equal(has.opens, 1);
    lookups = has.lookups;
    assert_true(zc_real_find());
    assert_int_equal(has.lookups, lookups);
}

static void what_the_driver_lacks_answers_that_it_is_not_supported(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        has.lacks = i ? NULL : "cuMemAlloc_v2";
        has.ours = i ? "cuMemAlloc_v2" : NULL; /* libzc's own, that dlsym has found first. */
        assert_true(zc_real_find());
        assert_int_equal(zc_real.cuMemAlloc_v2(NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
        assert_false(zc_driver_has((void *)cuMemAlloc_v2));
        assert_true(zc_driver_has((void *)cuMemFree_v2));
        assert_true(zc_driver_has(rows[0].wrapper));
        assert_true(zc_driver_has(rows[ZC_FN_CAUGHT - 1].wrapper));
        assert_false(zc_driver_has(code));
        assert_null(zc_wrapper_of(code[ZC_FN_cuMemAlloc_v2]));
    }
}

static void wrappers_are_told_from_other_addresses(void **state)
{
    (void)state;
    assert_true(zc_is_wrapper(rows[0].wrapper) && zc_is_wrapper(rows[ZC_FN_CAUGHT - 1].wrapper));
    assert_false(zc_is_wrapper(NULL));
    assert_false(zc_is_wrapper(code[0]));
}

/* Two functions of one address are one; and so are the numbers that threads store at once. */
static void addresses_of_one_bucket_keep_their_numbers(void **state)
{
    char *same[4];
    unsigned n = 1;
    (void)state;
    same[0] = (char *)(uintptr_t)0x123450;
    for (char *at = same[0] + 16; n < 4; at += 16)
        if (bucket_of(at) == bucket_of(same[0]))
            same[n++] = at;
    for (unsigned i = 0; i < 3; i++)
        remember_real(same[i], 10 + i);
    remember_real(same[1], 20);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(row_of(same[i]), 11 + i);
    assert_int_equal(row_of(same[3]), 0);
    driver.bucket[bucket_of(same[0])].row = 0; /* Claimed by a thread that has not come further. */
    assert_int_equal(row_of(same[0]), 0);
    assert_int_equal(row_of(same[2]), 13);
    remember_real(same[0], 10);
    assert_int_equal(row_of(same[0]), 11);
    assert_null(driver.bucket[(bucket_of(same[0]) + 3) % BUCKETS].real);
    for (n = 0; bucket_of(same[0] + n) != BUCKETS - 1; n += 16)
        ;
    memset(&driver, 0, sizeof(driver));
    same[0] += n; /* The last bucket is followed by the first one. */
    remember_real(same[0], 1);
    for (same[1] = same[0] + 16; bucket_of(same[1]) != BUCKETS - 1; same[1] += 16)
        ;
    remember_real(same[1], 2);
    assert_ptr_equal(driver.bucket[0].real, same[1]);
    assert_int_equal(row_of(same[1]), 3);
}

static void names_with_commas_between_are_remembered(void **state)
{
    char names[200];
    (void)state;
    zc_libc_find();
    memset(names, 'n', sizeof(names)); /* One that is longer than any of the driver's. */
    strcpy(names + 128, ", cuNone, cuDeviceGet,cuInit");
    remember_passed(DRIVER, names);
    assert_int_equal(has.lookups, 3);
    assert_ptr_equal(zc_wrapper_of(code[ZC_FN_COUNT]), code[ZC_FN_COUNT]);
    assert_ptr_equal(zc_wrapper_of(code[ZC_FN_cuInit]), code[ZC_FN_cuInit]);
    anew(NULL);
    zc_libc_find();
    remember_passed(DRIVER, names + 1); /* There is room for 127 bytes. */
    assert_int_equal(has.lookups, 4);
}

static void errors_of_the_context_have_nothing_to_do_with_blocks(void **state)
{
    (void)state;
    assert_true(zc_error_unrelated(CUDA_ERROR_NOT_PERMITTED));
    assert_true(zc_error_unrelated(CUDA_ERROR_LAUNCH_FAILED));
    assert_false(zc_error_unrelated(CUDA_ERROR_INVALID_VALUE));
    assert_false(zc_error_unrelated(CUDA_ERROR_OUT_OF_MEMORY));
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_loaders_functions_are_of_any_version_of_libc),
        T(each_function_is_found_with_its_wrapper),
        T(what_the_driver_lacks_answers_that_it_is_not_supported),
        T(wrappers_are_told_from_other_addresses),
        T(addresses_of_one_bucket_keep_their_numbers),
        T(names_with_commas_between_are_remembered),
        T(errors_of_the_context_have_nothing_to_do_with_blocks),
    };
    return RUN_TESTS(tests);
}
