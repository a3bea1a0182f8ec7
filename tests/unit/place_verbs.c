/* SPDX-License-Identifier: MIT */
/* Questions and orders of hooks for blocks, carried out by the rows of their places. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#define zc_vmm_of fake_vmm_of /* Also where a header calls it. */
#include "driver/launch.h"
#include "memory/place.h"
#include "place/fallback.h"
#include "place/migrate.h"
#include "place/verbs.h"
#include "vmm/access.h"

/* Each call leaves its name; the call that fails. */
static char trace[300];
static const char *refuses = "";
static bool closing;
static struct zc_movable mov;
static const struct zc_block *its; /* The block of `mov`. */

static CUresult say(const char *what)
{
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof(trace) - n, "%s ", what);
    return strcmp(what, refuses) == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

struct zc_vmm *fake_vmm_of(const struct zc_block *block)
{
    return block == its ? &mov.vmm : NULL;
}

static void entered(struct zc_block *block)
{
    assert_non_null(block);
    say("entered");
}

static CUresult retreat(const struct zc_block *block, enum zc_fn fn, bool keeps, const char *why)
{
    assert_true(block && fn == ZC_FN_cuGraphLaunch && keeps);
    assert_string_equal(why, "a reason");
    return say("retreat");
}

static CUresult drain_shared(enum zc_fn fn)
{
    assert_int_equal(fn, ZC_FN_cuGraphLaunch);
    return say("drain-shared");
}

static CUresult drain_mapped(enum zc_fn fn)
{
    assert_int_equal(fn, ZC_FN_cuGraphLaunch);
    return say("drain-mapped");
}

static void diagnose(void)
{
    say("diagnose");
}

static const struct zc_place shared = {.id = ZC_PLACE_SHARED,
                                       .entered = entered,
                                       .retreat = retreat,
                                       .drain = drain_shared,
                                       .diagnose = diagnose};
static const struct zc_place mapped = {.id = ZC_PLACE_MAPPED, .drain = drain_mapped};
static const struct zc_place pinned = {.id = ZC_PLACE_PINNED, .diagnose = diagnose};

static const struct zc_place *fake_place_of(enum zc_place_id id)
{
    assert_in_range(id, 0, ZC_PLACE_COUNT - 1);
    return id == ZC_PLACE_SHARED   ? &shared
           : id == ZC_PLACE_MAPPED ? &mapped
           : id == ZC_PLACE_PINNED ? &pinned
                                   : NULL;
}

static CUresult fake_before(enum zc_fn fn, enum zc_flavour flavour, CUstream stream)
{
    assert_true(fn == ZC_FN_cuGraphLaunch && flavour == ZC_LEGACY && !stream);
    return say("launch");
}

#define zc_place_of fake_place_of
#define zc_life_closing() closing
#define zc_pinned_forgo(fn) say("forgo")
#define zc_launch_before fake_before
#define zc_migrate_watch() say("watch")
#define zc_migrate_keep_all(fn) say("keep")
#define zc_access_open_all() say("open")
#include "../../shim/place/verbs.c"

static int anew(void **state)
{
    (void)state;
    trace[0] = '\0';
    refuses = "";
    closing = false;
    its = NULL;
    memset(&mov, 0, sizeof(mov));
    zc_vmm_counts.movable = 1;
    return 0;
}

static void assert_trace(const char *expected)
{
    assert_string_equal(trace, expected);
    trace[0] = '\0';
}

static void memory_that_nobody_converted_has_the_place_of_its_kind(void **state)
{
    (void)state;
    assert_int_equal(zc_place_bare(ZC_KIND_MANAGED), ZC_PLACE_MANAGED);
    assert_int_equal(zc_place_bare(ZC_KIND_PINNED), ZC_PLACE_PINNED);
    assert_int_equal(zc_place_bare(ZC_KIND_DEVICE), ZC_PLACE_DEVICE);
}

static void a_block_has_device_memory_by_its_place_or_what_is_attached(void **state)
{
    struct zc_block block = {.size = 700, .place = ZC_PLACE_DEVICE, .real = ZC_KIND_DEVICE};
    (void)state;
    assert_int_equal(zc_place_on_device(&block), 700);
    block.place = ZC_PLACE_MAPPED;
    assert_int_equal(zc_place_on_device(&block), 0);
    block.real = ZC_KIND_MANAGED;
    assert_int_equal(zc_place_on_device(&block), -1); /* Only the driver knows. */
    its = &block;
    assert_int_equal(zc_place_on_device(&block), 0);
    mov.vmm.held = 300;
    assert_int_equal(zc_place_on_device(&block), 300);
    mov.vmm.held = 4096; /* Rounded up. */
    assert_int_equal(zc_place_on_device(&block), 700);
    block.flags = ZC_BLOCK_SPILLED;
    assert_int_equal(zc_place_on_device(&block), 0);
}

static void a_block_that_enters_is_told_of_to_its_place_and_watched_if_it_moves(void **state)
{
    struct zc_block block = {.place = ZC_PLACE_SHARED};
    (void)state;
    zc_place_entered(&block);
    assert_trace("entered ");
    block.place = ZC_PLACE_MAPPED;
    zc_place_entered(&block);
    assert_trace("");
    its = &block;
    zc_place_entered(&block);
    assert_trace("");
    mov.vmm.moves = true;
    zc_place_entered(&block);
    assert_trace("watch ");
}

static CUresult retreat_of(const struct zc_block *block)
{
    return zc_place_retreat(block, ZC_FN_cuGraphLaunch, true, "a reason");
}

static void only_blocks_that_libzc_made_retreat(void **state)
{
    struct zc_block block = {.place = ZC_PLACE_SHARED};
    (void)state;
    assert_int_equal(retreat_of(NULL), CUDA_SUCCESS);
    assert_int_equal(retreat_of(&block), CUDA_SUCCESS);
    assert_trace("");
    block.flags = ZC_BLOCK_CONVERTED;
    refuses = "retreat";
    assert_int_equal(retreat_of(&block), CUDA_ERROR_OUT_OF_MEMORY);
    assert_trace("retreat ");
    block.place = ZC_PLACE_MAPPED;
    assert_int_equal(retreat_of(&block), CUDA_SUCCESS);
    assert_trace("");
}

static void all_places_are_drained_the_last_first_until_one_refuses(void **state)
{
    (void)state;
    assert_int_equal(zc_place_drain(ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_trace("drain-shared drain-mapped ");
    refuses = "drain-shared";
    assert_int_equal(zc_place_drain(ZC_FN_cuGraphLaunch), CUDA_ERROR_OUT_OF_MEMORY);
    assert_trace("drain-shared ");
    refuses = "drain-mapped";
    assert_int_equal(zc_place_drain(ZC_FN_cuGraphLaunch), CUDA_ERROR_OUT_OF_MEMORY);
}

static void a_call_that_may_use_any_block_finds_all_as_it_takes_them_for(void **state)
{
    static const char *const steps[] = {"forgo",  "drain-shared", "drain-mapped",
                                        "launch", "keep",         "open"};
    char expected[200] = "";
    (void)state;
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        size_t n = strlen(expected);
        snprintf(expected + n, sizeof(expected) - n, "%s ", steps[i]);
        refuses = steps[i];
        assert_int_equal(zc_place_expose(ZC_FN_cuGraphLaunch), CUDA_ERROR_OUT_OF_MEMORY);
        assert_trace(expected);
    }
    refuses = "";
    closing = true;
    assert_int_equal(zc_place_expose(ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_trace("drain-shared drain-mapped launch keep open ");
}

static void places_that_know_why_a_kernel_failed_say_so(void **state)
{
    (void)state;
    zc_place_diagnose();
    assert_trace("diagnose diagnose ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_that_nobody_converted_has_the_place_of_its_kind, anew),
        cmocka_unit_test_setup(a_block_has_device_memory_by_its_place_or_what_is_attached, anew),
        cmocka_unit_test_setup(a_block_that_enters_is_told_of_to_its_place_and_watched_if_it_moves,
                               anew),
        cmocka_unit_test_setup(only_blocks_that_libzc_made_retreat, anew),
        cmocka_unit_test_setup(all_places_are_drained_the_last_first_until_one_refuses, anew),
        cmocka_unit_test_setup(a_call_that_may_use_any_block_finds_all_as_it_takes_them_for, anew),
        cmocka_unit_test_setup(places_that_know_why_a_kernel_failed_say_so, anew)};
    return RUN_TESTS(tests);
}
