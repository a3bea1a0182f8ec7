/* SPDX-License-Identifier: MIT */
/* Messages that name rules: for calls that the driver refuses, and for kernels that fail. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/life.h"
#include "base/message.h"
#include "base/text.h"
#include "driver/launch.h"
#include "hook/diagnose.h"
#include "ledger/rules.h"
#include "log/refusals.h"
#include "place/placed.h"
#include "place/verbs.h"

#define AT ((CUdeviceptr)0x100000)
enum { MOST = 16 };

static struct {
    struct zc_block block[MOST];
    unsigned count, walks, told, refusals, watches, diagnosed;
    bool unrelated;
    const struct zc_rule *rule;
    char text[2048];
} has;

static struct zc_block *fake_placed(CUdeviceptr address)
{
    return address == AT && has.count ? &has.block[0] : NULL;
}

static struct zc_block *fake_find(uint64_t address)
{
    for (unsigned i = 0; i < has.count; i++)
        if (address - has.block[i].base < has.block[i].size)
            return &has.block[i];
    return NULL;
}

static void fake_each(void (*visit)(struct zc_block *, void *), void *arg)
{
    has.walks++;
    for (unsigned i = 0; i < has.count; i++)
        visit(&has.block[i], arg);
}

static void fake_message(enum zc_severity severity, const char *code, const char *fmt, ...)
{
    char last[1024];
    struct zc_text t = zc_text_on(last, sizeof(last));
    va_list args;
    va_start(args, fmt);
    zc_text_vfmt(&t, fmt, args);
    va_end(args);
    snprintf(has.text, sizeof(has.text), "%u %s %s", (unsigned)severity, code, zc_text_cstr(&t));
    has.told++;
}

static void fake_count(const struct zc_policy *policy, const struct zc_rule *rule)
{
    assert_ptr_equal(policy, zc_rules());
    has.rule = rule;
    has.refusals++;
}

static void fake_call(enum zc_launch_party party, zc_launch_fn fn)
{
    assert_int_equal(party, ZC_LAUNCH_DIAGNOSE);
    assert_int_equal(fn(NULL), CUDA_SUCCESS);
    zc_launch_watch |= 1u << party;
    has.watches++;
}

#define zc_placed_at fake_placed
#define zc_block_find fake_find
#define zc_block_each fake_each
#define zc_message fake_message
#define zc_refusal_count fake_count
#define zc_launch_call fake_call
#define zc_error_unrelated(code) ((code) != CUDA_SUCCESS && has.unrelated)
#define zc_place_diagnose() (has.diagnosed++)
#define zc_place_name(place) ((place) == ZC_PLACE_VMM ? "vmm" : "mapped")
#define zc_fn_name(fn) ((fn) == ZC_FN_cuMemcpy ? "cuMemcpy" : "another")
#include "../../shim/hook/diagnose.c"

static struct zc_rule rules[8];

static int anew(void **state)
{
    static const char *const names[] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"};
    (void)state;
    memset(&has, 0, sizeof(has));
    zc_life_state = ZC_LIFE_ON;
    zc_launch_watch = 0;
    for (unsigned i = 0; i < 8; i++)
        rules[i] = (struct zc_rule){
            .name = names[i], .line = 10 + i, .place = {{ZC_PLACE_VMM, ZC_PLACE_MAPPED}, 2}};
    zc_rules_read.rules = rules;
    zc_rules_read.rule_count = 8;
    zc_rules_read.file = "p.conf";
    return 0;
}

static struct zc_block *add(int rule, enum zc_place_id place, size_t size)
{
    has.block[has.count] = (struct zc_block){.base = AT,
                                             .size = size,
                                             .id = 5,
                                             .asked = ZC_KIND_DEVICE,
                                             .flags = ZC_BLOCK_CONVERTED,
                                             .rule = (int16_t)rule,
                                             .place = place & 7};
    return &has.block[has.count++];
}

static void a_refused_call_names_the_rule_of_its_block(void **state)
{
    (void)state;
    assert_int_equal(zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_VALUE),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.told, 0); /* Nothing of libzc's is there. */
    add(2, ZC_PLACE_VMM, 4096);
    assert_int_equal(zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_VALUE),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(has.told == 1 && has.refusals == 1 && has.rule == &rules[2]);
    assert_non_null(strstr(has.text, "refused cuMemcpy returned 1 for block 5 (4 KiB at"));
    assert_non_null(strstr(has.text, "it lies in 'vmm' by rule r2 (p.conf:12); give that rule a "
                                     "narrower match"));
    has.unrelated = true;
    zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_CONTEXT);
    has.unrelated = false;
    has.block[0].rule = -1;
    zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_VALUE);
    has.block[0].rule = 0;
    zc_life_state = ZC_LIFE_PASS;
    zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_VALUE);
    zc_life_state = ZC_LIFE_ON;
    assert_int_equal(has.told, 1);
    zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_VALUE);
    assert_true(has.told == 2 && has.rule == &rules[0]);
}

static void a_copy_that_can_t_become_pageable_names_the_rule_of_one_of_its_blocks(void **state)
{
    (void)state;
    assert_int_equal(zc_diagnose_frail(ZC_FN_cuMemcpy, AT, AT, CUDA_ERROR_INVALID_VALUE),
                     CUDA_ERROR_INVALID_VALUE);
    add(-1, ZC_PLACE_VMM, 4096);
    zc_diagnose_frail(ZC_FN_cuMemcpy, AT, AT, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.told, 0);
    add(2, ZC_PLACE_VMM, 4096)->base = AT + 4096;
    zc_diagnose_frail(ZC_FN_cuMemcpy, AT + 4096, 1, CUDA_ERROR_INVALID_VALUE);
    zc_diagnose_frail(ZC_FN_cuMemcpy, 1, AT + 4096, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        zc_diagnose_frail(ZC_FN_cuMemcpy, AT, AT + 4096, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
        CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_true(has.told == 3 && has.refusals == 3);
    assert_non_null(strstr(has.text, "refused cuMemcpy returned 910 for block 5 (4 KiB at"));
    assert_non_null(strstr(has.text, "by rule r2 (p.conf:12), where a copy in an executable graph "
                                     "can't change from pinned to pageable memory; instantiate "));
    add(3, ZC_PLACE_VMM, 4096)->base = AT + 8192;
    zc_diagnose_frail(ZC_FN_cuMemcpy, AT + 8192, AT + 4096, CUDA_ERROR_INVALID_VALUE);
    assert_ptr_equal(has.rule, &rules[3]);
}

static void pinned_memory_is_named_only_across_a_border(void **state)
{
    (void)state;
    add(1, ZC_PLACE_MAPPED, 4096)->asked = ZC_KIND_PINNED;
    zc_diagnose(ZC_FN_cuMemcpy, AT, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.told, 0);
    assert_int_equal(zc_diagnose_border(ZC_FN_cuMemcpy, AT, CUDA_ERROR_UNKNOWN),
                     CUDA_ERROR_UNKNOWN);
    assert_true(has.told == 1 && strstr(has.text, "crosses a border of two"));
    has.block[0].asked = ZC_KIND_DEVICE;
    zc_diagnose_border(ZC_FN_cuMemcpy, AT, CUDA_ERROR_UNKNOWN);
    assert_true(has.told == 2 && !strstr(has.text, "border") && strstr(has.text, "narrower"));
    zc_diagnose_border(ZC_FN_cuMemcpy, AT + 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.told, 2);
}

static void launches_are_watched_from_the_first_block_on(void **state)
{
    (void)state;
    zc_diagnose_watch();
    zc_diagnose_watch();
    assert_int_equal(has.watches, 1);
}

/* Last of all: it is told once a process. */
static void a_kernel_that_fails_names_the_rules_of_device_blocks_once(void **state)
{
    (void)state;
    add(0, ZC_PLACE_VMM, 4096);
    zc_diagnose_kernel(ZC_FN_cuMemcpy);
    assert_true(has.told == 0 && has.walks == 0 && has.diagnosed == 1); /* No rule has placed. */
    zc_diagnose_watch();
    zc_life_state = ZC_LIFE_PASS;
    zc_diagnose_kernel(ZC_FN_cuMemcpy);
    zc_life_state = ZC_LIFE_ON;
    assert_true(has.told == 0 && has.walks == 0);
    has.block[0].flags = 0; /* The driver's; */
    add(0, ZC_PLACE_VMM, 4096)->flags |= ZC_BLOCK_QUARANTINED;
    add(0, ZC_PLACE_VMM, 4096)->asked = ZC_KIND_PINNED;
    add(-1, ZC_PLACE_VMM, 4096);
    zc_diagnose_kernel(ZC_FN_cuMemcpy);
    assert_true(has.told == 0 && has.walks == 16);
    has.count = 0;
    add(0, ZC_PLACE_VMM, 4096);
    add(0, ZC_PLACE_MAPPED, 4096);
    add(0, ZC_PLACE_VMM, 8192);
    add(1, ZC_PLACE_VMM, 4096);
    add(3, ZC_PLACE_VMM, 4096);
    add(0, ZC_PLACE_MAPPED, 4096);
    zc_diagnose_kernel(ZC_FN_cuMemcpy);
    assert_true(has.told == 1 && has.diagnosed == 4);
    assert_non_null(strstr(has.text, "kernel a kernel failed"));
    assert_non_null(strstr(has.text, "(700, reported by cuMemcpy)"));
    assert_non_null(strstr(has.text, ": 2 (12 KiB) in 'vmm' by rule r0 (p.conf:10), 2 (8 KiB) "
                                     "in 'mapped' by rule r0 (p.conf:10), 1 (4 KiB) in 'vmm' by "
                                     "rule r1 (p.conf:11), 1 (4 KiB) in 'vmm' by rule r3 "
                                     "(p.conf:13);"));
    has.walks = 0;
    zc_diagnose_kernel(ZC_FN_cuMemcpy);
    assert_true(has.told == 1 && has.walks == 0 && has.diagnosed == 5);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refused_call_names_the_rule_of_its_block),
        TEST(a_copy_that_can_t_become_pageable_names_the_rule_of_one_of_its_blocks),
        TEST(pinned_memory_is_named_only_across_a_border),
        TEST(launches_are_watched_from_the_first_block_on),
        TEST(a_kernel_that_fails_names_the_rules_of_device_blocks_once),
    };
    return RUN_TESTS(tests);
}
