/* SPDX-License-Identifier: MIT */
/* How the place `shared` makes, frees and gives up blocks: what is left behind where a step
 * fails. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "trace_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/lock.h"
#include "memory/place.h"
#include "real_test.h"
#include "shared/backing.h"
#include "shared/early.h"
#include "shared/heat.h"
#include "shared/reach.h"
#include "shared/report.h"
#include "vmm/lazy.h"
#include "vmm/vmm.h"

#define GRANULE ZC_REACH_GRANULE
#define EARLY ((struct zc_early *)0x40)

/* Each call leaves its name; the neighbours' answers. */
static struct {
    uint32_t reach;
    bool possible, undecided, no_record, locked_out;
    struct zc_early *early;
    CUresult made, reserved, unregistered, detached, owned, retreated;
    CUdeviceptr base; /* Of the vmm block, where it is not what was asked for. */
    int locks;
    bool keeps;
    struct zc_pair_counts all;
} has;
static struct zc_shared pair;
static struct zc_vmm vmm;
static struct zc_backing record;

static bool fake_possible(const struct zc_want *want, const char **why)
{
    assert_non_null(want);
    *why = "it may not be";
    return has.possible;
}

static struct zc_early *fake_take(const struct zc_want *want, CUdeviceptr *at, size_t *bytes)
{
    assert_false(want->lazy);
    if (has.early) {
        *at = 0x1000;
        *bytes = want->size;
    }
    return has.early;
}

static void fake_spurn(struct zc_early *early)
{
    assert_ptr_equal(early, EARLY);
    say("spurn ");
}

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags)
{
    assert_true(alignment == GRANULE && hint == 0 && flags == 0 && bytes % GRANULE == 0);
    say("reserve %zu ", bytes / GRANULE);
    *at = 0x2000;
    return has.reserved;
}

static CUresult free_addresses(CUdeviceptr at, size_t bytes)
{
    say("unreserve %x %zu ", (unsigned)at, bytes / GRANULE);
    return CUDA_SUCCESS;
}

static CUresult fake_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    assert_true(want->lazy);
    say("make@%x/%zu ", (unsigned)want->at, want->at_bytes);
    *why = "vmm can't";
    if (has.made != CUDA_SUCCESS)
        return has.made;
    vmm.va.base = has.base ? has.base : want->at;
    out->vmm = &vmm;
    return CUDA_SUCCESS;
}

static CUresult fake_vmm_unmake(struct zc_backing *b, bool gone)
{
    assert_true(b == &record && has.locks == 0);
    say("unmake-vmm%s ", gone ? "-gone" : "");
    return CUDA_ERROR_DEINITIALIZED;
}

static CUresult fake_vmm_detach(struct zc_backing *b)
{
    assert_ptr_equal(b, &record);
    say("detach-vmm ");
    return has.detached;
}

static CUresult fake_vmm_retreat(const struct zc_block *block, enum zc_fn fn, bool keeps,
                                 const char *why)
{
    assert_true(block && fn == ZC_FN_cuGraphLaunch && keeps == has.keeps);
    say("retreat-vmm(%s) ", why);
    return has.retreated;
}

static const struct zc_place fake_vmm_place = {.make = fake_make,
                                               .unmake = fake_vmm_unmake,
                                               .detach = fake_vmm_detach,
                                               .retreat = fake_vmm_retreat};

static void fake_update(struct zc_vmm *v)
{
    assert_true(v == &vmm && !v->pair && (has.locks == 1 || has.locked_out));
    say("open ");
}

static struct zc_shared *fake_new(const struct zc_rule *rule)
{
    assert_null(rule);
    memset(&pair, 0, sizeof(pair));
    return has.no_record ? NULL : &pair;
}

static bool fake_begin(struct zc_shared *p, struct zc_early *early)
{
    assert_ptr_equal(p, &pair);
    say("begin%s ", early ? "-early" : "");
    return has.undecided;
}

static bool fake_lock(void)
{
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static void fake_unlock(void)
{
    has.locks--;
}

static CUresult fake_unregister(struct zc_shared *p)
{
    assert_ptr_equal(p, &pair);
    say("unregister ");
    return has.unregistered;
}

static CUresult fake_own(struct zc_shared *p, enum zc_fn fn, const char *why)
{
    assert_true(p == &pair && fn == ZC_FN_cuGraphLaunch);
    say("own(%s) ", why);
    return has.owned;
}

static struct zc_shared *fake_of(const struct zc_block *block)
{
    assert_non_null(block);
    return &pair;
}

#define zc_reach() has.reach
#define zc_log_pairs has.all
#define zc_shared_possible fake_possible
#define zc_early_take fake_take
#define zc_early_spurn fake_spurn
#define zc_place_vmm fake_vmm_place
#define zc_lazy_update fake_update
#define zc_shared_new fake_new
#define zc_shared_begin fake_begin
#define zc_heat_watch() say("watch ")
#define zc_driver_lock fake_lock
#define zc_driver_unlock fake_unlock
#include "held_test.h"
#define zc_shared_drop(p) say("drop ")
#define zc_shared_unregister fake_unregister
#define zc_shared_detach(p) say("detach ")
#define zc_shared_end(p) say("end ")
#define zc_shared_report(p) say("report ")
#define zc_shared_to_own fake_own
#define zc_shared_of fake_of
#include "../../shim/shared/place.c"

static const char *why;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&pair, 0, sizeof(pair));
    memset(&vmm, 0, sizeof(vmm));
    memset(&record, 0, sizeof(record));
    trace[0] = '\0';
    has.possible = true;
    real_without_driver();
    zc_real.cuMemAddressReserve = reserve;
    zc_real.cuMemAddressFree = free_addresses;
    return 0;
}

/* Makes a block, which leaves these names. */
static void assert_made(CUresult result, const char *expected)
{
    const struct zc_want want = {.size = GRANULE + 1, .device = 1};
    uint64_t made = has.all.pairs;
    trace[0] = '\0';
    vmm.pair = NULL;
    assert_int_equal(zc_place_shared.make(&want, &record, &why), result);
    assert_string_equal(trace, expected);
    assert_int_equal(has.locks, 0);
    if (result == CUDA_SUCCESS)
        assert_true(vmm.pair == &pair && pair.vmm == &vmm);
    assert_int_equal(has.all.pairs, made + (result == CUDA_SUCCESS));
}

static void a_block_is_a_lazy_one_of_vmm_and_watched_while_undecided(void **state)
{
    (void)state;
    assert_made(CUDA_SUCCESS, "make@0/0 begin ");
    has.undecided = true;
    assert_made(CUDA_SUCCESS, "make@0/0 begin watch ");
    has.made = CUDA_ERROR_OUT_OF_MEMORY;
    assert_made(CUDA_ERROR_OUT_OF_MEMORY, "make@0/0 end ");
    assert_string_equal(why, "vmm can't");
    has.possible = false;
    assert_made(CUDA_ERROR_NOT_SUPPORTED, "");
    assert_string_equal(why, "it may not be");
}

static void it_takes_the_addresses_where_a_host_block_lies_already(void **state)
{
    char made[40];
    (void)state;
    has.early = EARLY;
    has.reach = ZC_REACH_ATS; /* Addresses of its own are not wanted then. */
    snprintf(made, sizeof(made), "make@1000/%zu begin-early ", GRANULE + 1);
    assert_made(CUDA_SUCCESS, made);
    has.base = 0x9000;
    snprintf(made, sizeof(made), "make@1000/%zu spurn begin ", GRANULE + 1);
    assert_made(CUDA_SUCCESS, made);
    has.base = 0;
    has.made = CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(made, sizeof(made), "make@1000/%zu spurn end ", GRANULE + 1);
    assert_made(CUDA_ERROR_OUT_OF_MEMORY, made);
}

static void where_the_page_table_is_the_cpus_it_lies_apart(void **state)
{
    char made[80];
    (void)state;
    has.reach = ZC_REACH_ANY;
    assert_made(CUDA_SUCCESS, "make@0/0 begin ");
    has.reach = ZC_REACH_ANY | ZC_REACH_ATS;
    snprintf(made, sizeof(made), "reserve 2 make@2000/%zu open begin ", 2 * GRANULE);
    assert_made(CUDA_SUCCESS, made);
    has.locked_out = true;
    assert_made(CUDA_SUCCESS, made);
    has.locked_out = false;
    has.made = CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(made, sizeof(made), "reserve 2 make@2000/%zu unreserve 2000 2 end ", 2 * GRANULE);
    assert_made(CUDA_ERROR_OUT_OF_MEMORY, made);
    has.made = CUDA_SUCCESS;
    has.reserved = CUDA_ERROR_OUT_OF_MEMORY;
    assert_made(CUDA_SUCCESS, "reserve 2 make@0/0 begin ");
}

static void without_memory_for_its_record_nothing_is_made(void **state)
{
    (void)state;
    has.no_record = true;
    has.early = EARLY;
    assert_made(CUDA_ERROR_OUT_OF_MEMORY, "");
    assert_string_equal(why, "libzc has no memory for its record");
}

/* Frees it as far as the driver may refuse. */
static void assert_detached(CUresult result, const char *expected)
{
    trace[0] = '\0';
    record.vmm = &vmm;
    vmm.pair = &pair;
    assert_int_equal(zc_place_shared.detach(&record), result);
    assert_string_equal(trace, expected);
    assert_int_equal(pair.freed, result == CUDA_SUCCESS);
    assert_int_equal(has.locks, 0);
}

static void what_the_driver_refuses_to_take_back_stays(void **state)
{
    (void)state;
    assert_detached(CUDA_SUCCESS, "drop detach-vmm ");
    has.detached = CUDA_ERROR_UNKNOWN;
    assert_detached(CUDA_ERROR_UNKNOWN, "drop detach-vmm ");
    pair.one = true;
    assert_detached(CUDA_SUCCESS, "drop unregister ");
    has.unregistered = CUDA_ERROR_UNKNOWN;
    assert_detached(CUDA_ERROR_UNKNOWN, "drop unregister ");
    has.locked_out = true; /* A thread that holds the lock already has dropped it. */
    has.unregistered = CUDA_SUCCESS;
    assert_detached(CUDA_SUCCESS, "unregister ");
}

static void assert_unmade(bool gone, const char *expected)
{
    trace[0] = '\0';
    record.vmm = &vmm;
    vmm.pair = &pair;
    assert_int_equal(zc_place_shared.unmake(&record, gone), CUDA_ERROR_DEINITIALIZED);
    assert_string_equal(trace, expected);
    assert_int_equal(has.locks, 0);
}

static void a_block_that_goes_is_reported_and_ends_its_pair(void **state)
{
    (void)state;
    assert_unmade(false, "report drop end unmake-vmm ");
    pair.one = true;
    assert_unmade(true, "report drop detach end unmake-vmm-gone ");
    has.locked_out = true;
    assert_unmade(false, "report detach end unmake-vmm ");
}

static void a_call_that_looks_at_it_gets_memory_that_is_its_own(void **state)
{
    const struct zc_block block = {.size = 1};
    (void)state;
    has.keeps = true;
    assert_int_equal(zc_place_shared.retreat(&block, ZC_FN_cuGraphLaunch, true, "a graph"),
                     CUDA_SUCCESS);
    assert_string_equal(trace, "own(a graph) retreat-vmm(a graph) ");
    has.retreated = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_place_shared.retreat(&block, ZC_FN_cuGraphLaunch, true, "a graph"),
                     CUDA_ERROR_OUT_OF_MEMORY);
    trace[0] = '\0';
    has.owned = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_place_shared.retreat(&block, ZC_FN_cuGraphLaunch, true, "a graph"),
                     CUDA_ERROR_UNKNOWN);
    assert_string_equal(trace, "own(a graph) ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_block_is_a_lazy_one_of_vmm_and_watched_while_undecided, anew),
        cmocka_unit_test_setup(it_takes_the_addresses_where_a_host_block_lies_already, anew),
        cmocka_unit_test_setup(where_the_page_table_is_the_cpus_it_lies_apart, anew),
        cmocka_unit_test_setup(without_memory_for_its_record_nothing_is_made, anew),
        cmocka_unit_test_setup(what_the_driver_refuses_to_take_back_stays, anew),
        cmocka_unit_test_setup(a_block_that_goes_is_reported_and_ends_its_pair, anew),
        cmocka_unit_test_setup(a_call_that_looks_at_it_gets_memory_that_is_its_own, anew)};
    return RUN_TESTS(tests);
}
