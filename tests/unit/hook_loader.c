/* SPDX-License-Identifier: MIT */
/* Names that a program looks up: the driver's are answered by libzc, all others by the loader for
 * the caller itself. */
#include "hook_test.h"

#include <dlfcn.h>

#include "base/message.h"
#include "driver/unknown.h"
#include "place/hostmem.h"

#define HANDLE ((void *)0x9)
#define OURS ((void *)0x100)   /* A wrapper of libzc's. */
#define THEIRS ((void *)0x200) /* The driver's function, or anybody's. */
#define BEHIND ((void *)0x300) /* Found behind libzc. */
#define INSTEAD ((void *)0x400)

static struct {
    void *found; /* By a look-up. */
    bool no_driver, lacks, replaces, said, libc;
    unsigned dlmopen; /* Times that it was looked up. */
} has;

static void *fake_sym(void *handle, const char *name)
{
    has.dlmopen += strcmp(name, "dlmopen") == 0;
    return handle == RTLD_NEXT ? BEHIND : has.found;
}

static void *fake_open(const char *file, int mode)
{
    (void)file, (void)mode;
    return NULL;
}

static void *(*fake_dlsym)(void *handle, const char *name);
static void *(*fake_dlopen)(const char *file, int mode);

static void fake_libc(void)
{
    fake_dlsym = fake_sym;
    fake_dlopen = fake_open;
    has.libc = true;
}

static bool fake_wrapper(const void *address)
{
    return address == OURS;
}

static bool fake_has(const void *wrapper)
{
    assert_ptr_equal(wrapper, OURS);
    return !has.lacks;
}

static bool fake_find(void)
{
    return !has.no_driver;
}

static void *fake_answer(const char *name, void *real)
{
    (void)name;
    assert_ptr_equal(real, THEIRS);
    return has.replaces ? INSTEAD : real;
}

static bool fake_first(const char *code)
{
    (void)code;
    return !has.said;
}

__attribute__((format(printf, 3, 4))) static void
fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    assert_int_equal(severity, ZC_WARN);
    tell("%s: %.*s", code, (int)(strchr(text, ' ') - text), text);
}

static void fake_leave(const char *why)
{
    (void)why;
    tell("leaves");
}

#define zc_real_dlsym fake_dlsym
#define zc_real_dlopen fake_dlopen
#define zc_libc_find fake_libc
#define zc_is_wrapper fake_wrapper
#define zc_driver_has fake_has
#define zc_real_find fake_find
#define zc_real_answer fake_answer
#define zc_message_first fake_first
#define zc_message fake_message
#define zc_hostmem_leave fake_leave
#include "../../shim/hook/loader.c"

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    fake_dlsym = NULL;
    fake_dlopen = NULL;
    has.found = THEIRS;
    return 0;
}

/* The caller goes on to the loader's own function; or gets an answer. */
static void goes_on(void *handle, const char *name)
{
    struct zc_choice choice = zc_dlsym_choose(handle, name);
    assert_true(choice.address == (void *)fake_sym && !choice.answered);
}
static void is_answered(const char *name, void *address)
{
    struct zc_choice choice = zc_dlsym_choose(HANDLE, name);
    assert_true(choice.address == address && choice.answered);
}

static void names_that_are_not_the_driver_s_are_the_loader_s(void **state)
{
    (void)state;
    static const char *const names[] = {
        "curl_easy_init", "cublasCreate", "xuInit", "cXInit", "cu@", "cu[", "cu", "c", ""};
    has.replaces = true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        goes_on(HANDLE, names[i]);
    goes_on(HANDLE, NULL);
    is_answered("cuAnything", INSTEAD);
    is_answered("cuZ", INSTEAD);
    goes_on(RTLD_NEXT, "cuInit"); /* For an interposer: whatever stands behind it. */
}

static void the_driver_s_names_are_answered_with_libzc_s_functions(void **state)
{
    (void)state;
    has.replaces = true;
    is_answered("cuInit", INSTEAD);
    has.replaces = false;
    goes_on(HANDLE, "cuInit"); /* Left alone: dlerror(3) and scopes are the caller's. */
    has.found = NULL;
    goes_on(HANDLE, "cuInit");
    assert_true(has.libc);
}

static void a_wrapper_is_found_where_the_driver_has_its_function(void **state)
{
    (void)state;
    has.found = OURS;
    is_answered("cuInit", OURS);
    has.lacks = true;
    is_answered("cuInit", BEHIND);
    has.lacks = false;
    has.no_driver = true;
    is_answered("cuInit", BEHIND);
}

static void a_library_that_binds_to_itself_ends_the_host_heap(void **state)
{
    (void)state;
    struct zc_choice choice = zc_dlopen_choose("libx.so", RTLD_NOW | RTLD_DEEPBIND);
    assert_true(choice.address == (void *)fake_open && !choice.answered);
    assert_told("deepbind: libx.so; leaves");
    has.said = true;
    zc_dlopen_choose("liby.so", RTLD_NOW | RTLD_DEEPBIND);
    assert_told("leaves");
    zc_dlopen_choose("libx.so", RTLD_NOW);
    zc_dlopen_choose(NULL, RTLD_NOW | RTLD_DEEPBIND); /* The program itself. */
    assert_told("");
}

static void a_namespace_of_its_own_is_told_once(void **state)
{
    (void)state;
    struct zc_choice choice = zc_dlmopen_choose(LM_ID_NEWLM, "libx.so", RTLD_NOW);
    assert_true(choice.address == BEHIND && !choice.answered);
    assert_told("dlmopen: libx.so");
    choice = zc_dlmopen_choose(LM_ID_BASE, "libx.so", RTLD_NOW);
    assert_true(choice.address == BEHIND && !choice.answered);
    zc_dlmopen_choose(LM_ID_NEWLM, NULL, RTLD_NOW);
    assert_told("");
    assert_int_equal(has.dlmopen, 1);
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_that_are_not_the_driver_s_are_the_loader_s),
        TEST(the_driver_s_names_are_answered_with_libzc_s_functions),
        TEST(a_wrapper_is_found_where_the_driver_has_its_function),
        TEST(a_library_that_binds_to_itself_ends_the_host_heap),
        TEST(a_namespace_of_its_own_is_told_once),
    };
    return RUN_TESTS(tests);
}
