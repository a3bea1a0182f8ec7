/* SPDX-License-Identifier: MIT */
/* Functions of a newer driver: one trampoline for each, named as the driver names it, and none for
 * what is no function of the driver's. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include "base_test.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "driver/unknown.h"

#define DRIVER ((void *)0x7000)
#define OTHER ((void *)0x8000)

/* The loader, and what libzc knows of the driver. */
static struct {
    bool found, no_object, no_driver;
    void *object;         /* That has the address. */
    const char *exported; /* Name of what begins there. */
    void *begins;         /* The address of that. */
    int type;
    void *wrapper;
} has;

static int fake_of(void *address, Dl_info *info)
{
    assert_ptr_equal(address, zc_real.cuInit);
    info->dli_fbase = DRIVER;
    return !has.no_driver;
}

static int fake_symbol(void *address, Dl_info *info, void **extra, int flags)
{
    static ElfW(Sym) symbol;
    assert_true(flags == RTLD_DL_SYMENT && address != has.wrapper);
    symbol.st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, has.type);
    info->dli_fbase = has.object;
    info->dli_saddr = has.begins;
    info->dli_sname = has.exported;
    *extra = &symbol;
    return !has.no_object;
}

const char fake_entries[ZC_UNKNOWN_SLOTS][16] = {{0}};

#define zc_unknown_entries fake_entries
#define zc_real_find() (has.found)
#define zc_wrapper_of(real) ((void)(real), has.wrapper)
#define zc_real_name(fn) ((fn) == 5 ? "cuFive" : "another")
#define dladdr fake_of
#define dladdr1 fake_symbol
#include "../../shim/driver/unknown.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&unknown, 0, sizeof(unknown));
    has.found = true;
    has.object = DRIVER;
    has.type = STT_FUNC;
    return 0;
}

static void *function(unsigned i)
{
    return (void *)(uintptr_t)(0x100000 + 16 * i);
}

static void each_function_has_one_trampoline(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 3; i++) {
            assert_ptr_equal(zc_real_answer("cuNew", function(i)), fake_entries[i]);
            assert_ptr_equal(zc_unknown_real(i), function(i));
            assert_false(zc_lock_held());
        }
}

static void so_many_functions_have_one_and_the_driver_seems_to_lack_more(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ZC_UNKNOWN_SLOTS; i++)
        assert_ptr_equal(zc_real_answer("cuNew", function(i)), fake_entries[i]);
    assert_null(zc_real_answer("cuNew", function(ZC_UNKNOWN_SLOTS)));
    assert_null(zc_real_answer("cuNew", function(ZC_UNKNOWN_SLOTS)));
    assert_ptr_equal(zc_real_answer("cuNew", function(ZC_UNKNOWN_SLOTS - 1)),
                     fake_entries[ZC_UNKNOWN_SLOTS - 1]);
    assert_ptr_equal(zc_unknown_real(ZC_UNKNOWN_SLOTS - 1), function(ZC_UNKNOWN_SLOTS - 1));
}

static void a_function_has_the_name_that_the_driver_exports(void **state)
{
    char name[80];
    (void)state;
    has.exported = "cuNew_v2";
    has.begins = function(0);
    zc_real_answer("cuNew", function(0));
    zc_real_answer("cuHidden", function(1)); /* Behind the begin of another one. */
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    zc_real_answer(name, function(2));
    memset(name, 'x', 4); /* The program's, which may change it. */
    assert_string_equal(zc_fn_name(5), "cuFive");
    assert_string_equal(zc_fn_name(ZC_FN_COUNT - 1), "another");
    assert_string_equal(zc_fn_name(ZC_FN_COUNT), "cuNew_v2");
    assert_string_equal(zc_fn_name(ZC_FN_COUNT + 1), "cuHidden");
    assert_int_equal(strspn(zc_fn_name(ZC_FN_COUNT + 2), "n"), 55);
    assert_int_equal(strlen(zc_fn_name(ZC_FN_COUNT + 2)), 55);
    assert_string_equal(zc_fn_name(ZC_FN_COUNT + 3), "?");
}

static void what_is_no_function_of_the_drivers_stays_as_it_is(void **state)
{
    static const struct {
        bool no_object, no_driver;
        void *object;
        int type;
        bool stays;
    } rows[] = {
        {.object = DRIVER, .type = STT_FUNC},
        {.object = DRIVER, .type = STT_GNU_IFUNC},
        {.object = DRIVER, .type = STT_OBJECT, .stays = true},
        {.object = OTHER, .type = STT_FUNC, .stays = true},
        {.object = DRIVER, .type = STT_FUNC, .no_object = true, .stays = true},
        {.object = DRIVER, .type = STT_FUNC, .no_driver = true, .stays = true},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.exported = "cuNew";
        has.begins = function(0);
        has.object = rows[i].object;
        has.type = rows[i].type;
        has.no_object = rows[i].no_object;
        has.no_driver = rows[i].no_driver;
        void *answer = zc_real_answer("cuNew", function(0));
        assert_ptr_equal(answer, rows[i].stays ? function(0) : (const void *)fake_entries[0]);
        assert_int_equal(unknown.count, !rows[i].stays);
    }
}

static void what_libzc_knows_keeps_its_wrapper(void **state)
{
    (void)state;
    has.wrapper = function(7);
    assert_ptr_equal(zc_real_answer("cuOld", function(0)), function(7));
    has.found = false; /* Another thread is finding the driver. */
    assert_ptr_equal(zc_real_answer("cuOld", function(0)), function(7));
    has.wrapper = NULL;
    assert_ptr_equal(zc_real_answer("cuNew", function(0)), function(0));
    assert_int_equal(unknown.count, 0);
}

static void a_handler_in_the_midst_of_it_has_the_drivers_own(void **state)
{
    (void)state;
    assert_true(zc_lock_take(&unknown_lock));
    assert_ptr_equal(zc_real_answer("cuNew", function(0)), function(0));
    zc_lock_drop(&unknown_lock);
    assert_ptr_equal(zc_real_answer("cuNew", function(0)), fake_entries[0]);
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_function_has_one_trampoline),
        T(so_many_functions_have_one_and_the_driver_seems_to_lack_more),
        T(a_function_has_the_name_that_the_driver_exports),
        T(what_is_no_function_of_the_drivers_stays_as_it_is),
        T(what_libzc_knows_keeps_its_wrapper),
        T(a_handler_in_the_midst_of_it_has_the_drivers_own),
    };
    return RUN_TESTS(tests);
}
