/* SPDX-License-Identifier: MIT */
/* Requests of the place `vmm`: which ones it refuses, how a block lies in its range, and what goes
 * with it. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/message.h"
#include "base/text.h"
#include "driver/lock.h"
#include "driver/marks.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/refusals.h"
#include "memory/limits.h"

#define zc_vmm_of fake_of /* Also where a header calls it. */
#define zc_move_announce fake_announce
#include "vmm/access.h"
#include "vmm/grow.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

#define MIB ((size_t)1 << 20)
#define GRANULE (2 * MIB)

/* The neighbours. */
static struct {
    struct zc_vmm_facts facts;
    bool no_facts, no_record, no_room, no_guard;
    CUresult admitted, reserved, attached, unmapped, never, grown;
    int moving; /* Blocks that are counted as movable. */
    unsigned records, freed, maps, locked, entered, left, forgotten, given, refusals, messages;
    size_t due, attached_to, mapped_to, held_back;
    uint64_t ended;
    char text[400];
} has;

static struct zc_rule rules[3];
static struct zc_policy rule_set = {.rules = rules, .rule_count = 3, .file = "policy.conf"};
static struct zc_block blocks[4];
static struct zc_movable mov[4];

static const struct zc_vmm_facts *fake_facts(int device)
{
    assert_int_equal(device, 2);
    return has.no_facts ? NULL : &has.facts;
}

static bool fake_device_holds(int device, size_t bytes, bool anywhere)
{
    assert_true(device == 2 && !anywhere);
    has.held_back = bytes;
    return !has.no_room;
}

static bool fake_guard(struct zc_vmm *v)
{
    v->guard = !has.no_guard;
    return v->guard;
}

static void *fake_get(size_t bytes)
{
    void *memory = has.no_record ? NULL : zc_arena_get(bytes);
    has.records += memory != NULL;
    return memory;
}

static void fake_vmm_drop(struct zc_vmm *v)
{
    assert_false(v->moves); /* Nothing is counted yet. */
    has.records--;
    zc_arena_put(v, zc_vmm_record(v->rule));
}

static CUresult fake_admit(struct zc_vmm *v, const char **why)
{
    *why = "it is not admitted";
    if (!v->va.base)
        v->va.base = 0x7000000000;
    v->va.size = v->va.size ? v->va.size : 64 * GRANULE;
    return has.admitted;
}

static void fake_before(int device, size_t bytes)
{
    assert_int_equal(device, 2);
    has.due = bytes;
}

static CUresult fake_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                             const char **why)
{
    assert_true(granularity == GRANULE && !wide && va->context == (CUcontext)0x50);
    *why = "no addresses";
    va->base = 0x5000000000;
    va->size = span;
    return has.reserved;
}

static CUresult fake_attach(struct zc_vmm *v, size_t from, size_t to, size_t ahead,
                            const char **why)
{
    assert_true(from == 0 && ahead == 0 && to == v->span);
    *why = "no memory";
    has.attached_to = to;
    v->held = to;
    return has.attached;
}

static CUresult fake_va_free(struct zc_va *va)
{
    assert_non_null(va);
    has.freed++;
    return CUDA_SUCCESS;
}

static CUresult fake_unmap(struct zc_va *va)
{
    assert_non_null(va);
    return has.unmapped;
}

static CUresult fake_map(struct zc_va *va, const struct zc_chunks *chunks, size_t from, size_t to,
                         const char **why)
{
    assert_true(va && chunks && from == 0 && why);
    has.mapped_to = to;
    has.maps++;
    return CUDA_SUCCESS;
}

static void fake_count_movable(const struct zc_vmm *v, int change)
{
    assert_true(v->moves && v->va.base);
    has.moving += change;
}

static CUresult fake_give_back(struct zc_vmm *v)
{
    assert_non_null(v);
    has.given++;
    return CUDA_ERROR_DEINITIALIZED;
}

static void fake_forget(struct zc_vmm *v)
{
    assert_true(v->lazy && !has.given);
    has.forgotten++;
}

static bool fake_lock(void)
{
    has.locked++;
    return true;
}

static void fake_unlock(void)
{
    has.locked--;
}

struct zc_vmm *fake_of(const struct zc_block *block)
{
    return &mov[block - blocks].vmm;
}

bool fake_announce(void)
{
    has.entered++;
    return true;
}

static void fake_leave(bool entered)
{
    assert_int_equal(has.entered, entered);
    has.left++;
}

static CUresult fake_never(const struct zc_block *block, enum zc_fn fn)
{
    assert_true(block && fn == ZC_FN_cuGraphLaunch && !has.left);
    has.locked += 100;
    return has.never;
}

static CUresult fake_materialize(const struct zc_block *block, enum zc_fn fn)
{
    assert_true(block && fn == ZC_FN_cuGraphLaunch && has.left);
    has.locked += 1000;
    return has.grown;
}

static void fake_each(void (*visit)(struct zc_block *block, void *arg), void *arg)
{
    for (unsigned i = 0; i < 4; i++)
        visit(&blocks[i], arg);
}

static void fake_refusal(const struct zc_policy *policy, const struct zc_rule *rule)
{
    assert_true(policy == &rule_set && rule->spill == ZC_SPILL_FETCH);
    has.refusals++;
}

static void fake_message(enum zc_severity severity, const char *code, const char *text,
                         const char *name, const char *file, unsigned line, const char *which,
                         const char *list)
{
    assert_true(severity == ZC_ERROR && text);
    assert_string_equal(code, "refused");
    has.messages++;
    snprintf(has.text, sizeof(has.text), "%s (%s:%u) %s%s", name, file, line, which, list);
}

#define zc_vmm_facts(device) fake_facts(device)
#define zc_limits_device_holds fake_device_holds
#define zc_vmm_take_guard fake_guard
#define zc_arena_get fake_get
#define zc_vmm_drop fake_vmm_drop
#define zc_lazy_admit fake_admit
#define zc_lazy_before_request fake_before
#define zc_access_reserve fake_reserve
#define zc_vmm_attach fake_attach
#define zc_va_free fake_va_free
#define zc_va_unmap fake_unmap
#define zc_va_map fake_map
#define zc_vmm_count_movable fake_count_movable
#define zc_vmm_give_back fake_give_back
#define zc_grow_forget fake_forget
#define zc_driver_lock fake_lock
#define zc_driver_unlock fake_unlock
#include "held_test.h"
#define zc_move_leave fake_leave
#define zc_move_never fake_never
#define zc_grow_materialize fake_materialize
#define zc_block_each fake_each
#define zc_refusal_count fake_refusal
#define zc_message fake_message
#define zc_mark_ended(device) ((void)(device), has.ended)
#define zc_site_id(site) ((uint64_t)(site) + 0xab00)
#define zc_rules() (&rule_set)
#include "../../shim/vmm/place.c"

static struct zc_backing made;
static struct zc_want want;
static const char *why;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&made, 0, sizeof(made));
    memset(rules, 0, sizeof(rules));
    memset(blocks, 0, sizeof(blocks));
    memset(mov, 0, sizeof(mov));
    memset(&zc_vmm_counts, 0, sizeof(zc_vmm_counts));
    has.facts = (struct zc_vmm_facts){.known = true, .granularity = GRANULE};
    want = (struct zc_want){
        .size = 8 * MIB, .device = 2, .context = (CUcontext)0x50, .rule = &rules[0]};
    why = "";
    return 0;
}

static CUresult make(void)
{
    memset(&made.vmm, 0, sizeof(made.vmm));
    return zc_place_vmm.make(&want, &made, &why);
}

static void drop(void)
{
    made.vmm->moves = false;
    fake_vmm_drop(made.vmm);
    assert_int_equal(has.records, 0);
}

static void a_request_that_can_not_be_mapped_is_refused_with_its_reason(void **state)
{
    (void)state;
    has.no_facts = true;
    assert_int_equal(make(), CUDA_ERROR_NOT_SUPPORTED);
    assert_string_equal(why, "the device has no virtual memory management");
    has.no_facts = false;
    want.size = MIB;
    assert_int_equal(make(), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(why, "at most 1 MiB"));
    want.size = SIZE_MAX - 3 * GRANULE + 1;
    assert_int_equal(make(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "more than the device has free");
    want.size = 8 * MIB;
    has.no_room = true;
    assert_int_equal(make(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "more than the device has beside managed memory");
    assert_int_equal(has.held_back, 8 * MIB);
    want.size = SIZE_MAX - 3 * GRANULE; /* The largest that can be rounded up. */
    assert_int_equal(make(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "more than the device has beside managed memory");
    want.size = 8 * MIB;
    has.no_room = false;
    has.no_record = true;
    assert_int_equal(make(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "libzc has no memory for its record");
    assert_null(made.vmm);
    has.no_record = false;
    want.size = MIB + 1;
    assert_int_equal(make(), CUDA_SUCCESS);
    drop();
}

static void what_takes_no_device_memory_now_is_not_held_against_it(void **state)
{
    (void)state;
    has.no_room = true;
    want.lazy = true;
    assert_int_equal(make(), CUDA_SUCCESS);
    drop();
    want.lazy = false;
    rules[0].commit = ZC_COMMIT_LAZY;
    assert_int_equal(make(), CUDA_SUCCESS);
    drop();
    rules[0].commit = 0;
    rules[0].grow = true;
    assert_int_equal(make(), CUDA_SUCCESS);
    drop();
    rules[0].grow = false;
    assert_int_not_equal(make(), CUDA_SUCCESS);
    made.spilled = want.size;
    assert_int_equal(make(), CUDA_SUCCESS);
    drop();
}

static void a_failure_leaves_nothing_behind(void **state)
{
    (void)state;
    has.reserved = CUDA_ERROR_UNKNOWN;
    assert_int_equal(make(), CUDA_ERROR_UNKNOWN);
    assert_string_equal(why, "no addresses");
    assert_int_equal(has.freed, 0);
    assert_int_equal(has.attached_to, 0);
    has.reserved = CUDA_SUCCESS;
    has.attached = CUDA_ERROR_OUT_OF_MEMORY;
    rules[0].spill = ZC_SPILL_MOVE;
    assert_int_equal(make(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "no memory");
    assert_int_equal(has.freed, 1);
    want.lazy = true;
    has.admitted = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(make(), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(why, "it is not admitted");
    assert_int_equal(has.records, 0);
    assert_int_equal(has.moving, 0);
    assert_null(made.vmm);
}

/* The rest of the last granule lies on both sides of it, or guards do where that is too little. */
static void a_block_has_room_around_it(void **state)
{
    static const struct {
        size_t size, before, span;
        bool no_guard;
    } rows[] = {
        {8 * MIB, GRANULE, 8 * MIB + 2 * GRANULE, false},
        {8 * MIB, 0, 8 * MIB, true},
        {8 * MIB - 5, GRANULE, 8 * MIB + 2 * GRANULE, false},
        {7 * MIB, MIB / 2, 8 * MIB, false},
        {8 * MIB - (128 << 10), 64 << 10, 8 * MIB, false},
        {8 * MIB - (128 << 10) + 1, GRANULE, 8 * MIB + 2 * GRANULE, false},
        {8 * MIB - (20 << 10), 8 << 10, 8 * MIB, true},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        has.no_guard = rows[i].no_guard;
        want.size = rows[i].size;
        assert_int_equal(make(), CUDA_SUCCESS);
        assert_int_equal(made.base, 0x5000000000 + rows[i].before);
        assert_int_equal(made.before * ZC_BLOCK_PAGE, rows[i].before);
        assert_int_equal(made.vmm->span, rows[i].span);
        assert_int_equal(has.attached_to, rows[i].span);
        assert_int_equal(made.room, rows[i].span - rows[i].before);
        assert_int_equal(has.due,
                         rows[i].span - (rows[i].no_guard || !made.vmm->guard ? 0 : 2 * GRANULE));
        assert_int_equal(made.vmm->granularity, GRANULE);
        assert_ptr_equal(made.vmm->rule, &rules[0]);
        assert_int_equal(made.vmm->va.host.to, 0);
        drop();
    }
}

/* The ledger records less than 16 MiB in front of a block. */
static void of_large_granules_no_more_is_in_front_than_can_be_recorded(void **state)
{
    (void)state;
    has.facts.granularity = 64 * MIB;
    want.size = 65 * MIB;
    made.base = 0;
    /* The granularity of fake_reserve() is another one, so the layout alone is asked for. */
    struct zc_vmm v = {.span = 128 * MIB, .granularity = 64 * (uint32_t)MIB};
    assert_int_equal(lay_out(&v, v.span - want.size, &has.facts), ZC_BEFORE_MAX);
    assert_int_equal(v.span, 128 * MIB);
    v.span = want.size = 64 * MIB;
    assert_int_equal(lay_out(&v, 0, &has.facts), 0); /* Guards would be too large. */
    assert_false(v.guard);
}

static void a_block_in_host_memory_has_all_but_its_guards_there(void **state)
{
    (void)state;
    made.spilled = want.size;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_int_equal(made.vmm->va.host.from, GRANULE / ZC_VA_UNIT);
    assert_int_equal(made.vmm->va.host.to, (GRANULE + 8 * MIB) / ZC_VA_UNIT);
    assert_int_equal(zc_vmm_spilled(made.vmm), 8 * MIB);
    drop();
    has.no_guard = true;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_int_equal(made.vmm->va.host.from, 0);
    assert_int_equal(made.vmm->va.host.to, 8 * MIB / ZC_VA_UNIT);
    drop();
}

/* It begins where its device memory does. */
static void a_block_in_both_memories_has_its_end_in_host_memory(void **state)
{
    (void)state;
    want.size = 7 * MIB;
    made.spilled = 3 * MIB;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_int_equal(made.vmm->va.host.from, (zc_vmm_guard(made.vmm) + 4 * MIB) / ZC_VA_UNIT);
    assert_int_equal(zc_vmm_spilled(made.vmm), 4 * MIB);
    assert_int_equal(made.base, made.vmm->va.base + zc_vmm_guard(made.vmm));
    drop();
}

static void blocks_that_may_move_are_counted_and_hidden_from_network_cards(void **state)
{
    (void)state;
    rules[0].rdma = ZC_RDMA_YES;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_false(made.vmm->moves);
    assert_int_equal(made.vmm->rdma, ZC_RDMA_YES);
    assert_int_equal(has.moving, 0);
    drop();
    rules[0].spill = ZC_SPILL_MOVE;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_true(made.vmm->moves);
    assert_int_equal(made.vmm->rdma, ZC_RDMA_NO);
    assert_int_equal(has.moving, 1);
    drop();
    want.lazy = true;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_false(made.vmm->moves);
    assert_int_equal(has.moving, 1);
    drop();
}

static void a_lazy_block_begins_where_it_was_told_if_it_fits(void **state)
{
    (void)state;
    want.lazy = true;
    want.at = 0x6000000000;
    want.at_bytes = 8 * MIB;
    rules[0].grow = true;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_true(made.vmm->lazy && !made.vmm->grows && !made.vmm->guard);
    assert_int_equal(made.base, 0x6000000000);
    assert_int_equal(made.room, 8 * MIB);
    drop();
    want.size = 8 * MIB + 1;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_int_equal(made.base, 0x7000000000);
    drop();
    want.lazy = false;
    assert_int_equal(make(), CUDA_SUCCESS);
    assert_true(made.vmm->lazy && made.vmm->grows);
    drop();
}

static void a_block_goes_with_what_is_pending(void **state)
{
    struct zc_vmm *v = &mov[0].vmm;
    struct zc_backing backing = {.vmm = v};
    (void)state;
    mov[0].came = (CUevent)9;
    v->moves = true;
    assert_int_equal(zc_place_vmm.unmake(&backing, false), CUDA_ERROR_DEINITIALIZED);
    assert_non_null(mov[0].came);
    assert_int_equal(has.forgotten, 0);
    has.given = 0;
    zc_place_vmm.unmake(&backing, true);
    assert_null(mov[0].came);
    has.given = 0;
    v->lazy = true;
    v->moves = false;
    mov[0].came = (CUevent)9;
    zc_place_vmm.unmake(&backing, true);
    assert_int_equal(has.forgotten, 1);
    assert_int_equal(has.given, 1);
    assert_non_null(mov[0].came);
}

static void a_block_that_the_driver_does_not_unmap_is_mapped_as_before(void **state)
{
    struct zc_backing backing = {.vmm = &mov[0].vmm};
    (void)state;
    mov[0].vmm.held = 6 * MIB;
    assert_int_equal(zc_place_vmm.detach(&backing), CUDA_SUCCESS);
    assert_int_equal(has.maps, 0);
    assert_int_equal(has.locked, 0);
    has.unmapped = CUDA_ERROR_UNKNOWN;
    mov[0].vmm.lazy = true;
    assert_int_equal(zc_place_vmm.detach(&backing), CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.maps, 1);
    assert_int_equal(has.mapped_to, 6 * MIB);
    assert_int_equal(has.locked, 0);
}

static CUresult retreat(bool keeps)
{
    has.entered = has.left = has.locked = 0;
    return zc_place_vmm.retreat(&blocks[0], ZC_FN_cuGraphLaunch, keeps, "");
}

static void a_call_that_keeps_a_block_brings_it_to_rest(void **state)
{
    (void)state;
    assert_int_equal(retreat(false), CUDA_SUCCESS);
    assert_int_equal(has.locked, 1000);
    assert_int_equal(has.entered, 0);
    zc_vmm_counts.movable = 1;
    mov[0].vmm.rule = &rules[0];
    mov[0].vmm.moves = true;
    rules[0].spill = ZC_SPILL_MOVE;
    assert_int_equal(retreat(false), CUDA_SUCCESS);
    assert_int_equal(has.locked, 1000);
    assert_true(has.entered == 1 && has.left == 1);
    assert_int_equal(retreat(true), CUDA_SUCCESS);
    assert_int_equal(has.locked, 1100);
    rules[0].spill = ZC_SPILL_FETCH; /* It may be written there. */
    assert_int_equal(retreat(false), CUDA_SUCCESS);
    assert_int_equal(has.locked, 1100);
    has.never = CUDA_ERROR_UNKNOWN;
    assert_int_equal(retreat(false), CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.locked, 100);
    has.never = CUDA_SUCCESS;
    has.grown = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(retreat(true), CUDA_ERROR_OUT_OF_MEMORY);
}

/* In one test: it is said once in a process. */
static void a_kernel_that_fails_names_the_blocks_that_it_may_have_been_given(void **state)
{
    (void)state;
    rules[0] = (struct zc_rule){.spill = ZC_SPILL_FETCH, .name = "weights", .line = 7};
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = (struct zc_block){.base = 0x1000 * (i + 1),
                                      .size = 512,
                                      .id = i + 1,
                                      .place = ZC_PLACE_VMM,
                                      .site = (uint16_t)i};
        mov[i].vmm.moves = true;
        mov[i].mark = 5;
    }
    mov[1].mark = 4;    /* Its launch has ended. */
    blocks[2].rule = 1; /* Another rule's. */
    has.ended = 4;
    zc_vmm_counts.movable = 4;
    zc_place_vmm.diagnose();
    assert_int_equal(has.messages, 0); /* None is fetched. */
    zc_vmm_counts.fetched = 4;
    zc_place_vmm.diagnose();
    assert_int_equal(has.messages, 1);
    assert_int_equal(has.refusals, 1);
    assert_string_equal(has.text,
                        "weights (policy.conf:7) launches that may not have ended were given "
                        "block 1 (512 B at 1000), site 0000ab00, "
                        "block 4 (512 B at 4000), site 0000ab03");
    zc_place_vmm.diagnose();
    assert_int_equal(has.messages, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_request_that_can_not_be_mapped_is_refused_with_its_reason, anew),
        cmocka_unit_test_setup(what_takes_no_device_memory_now_is_not_held_against_it, anew),
        cmocka_unit_test_setup(a_failure_leaves_nothing_behind, anew),
        cmocka_unit_test_setup(a_block_has_room_around_it, anew),
        cmocka_unit_test_setup(of_large_granules_no_more_is_in_front_than_can_be_recorded, anew),
        cmocka_unit_test_setup(a_block_in_host_memory_has_all_but_its_guards_there, anew),
        cmocka_unit_test_setup(a_block_in_both_memories_has_its_end_in_host_memory, anew),
        cmocka_unit_test_setup(blocks_that_may_move_are_counted_and_hidden_from_network_cards,
                               anew),
        cmocka_unit_test_setup(a_lazy_block_begins_where_it_was_told_if_it_fits, anew),
        cmocka_unit_test_setup(a_block_goes_with_what_is_pending, anew),
        cmocka_unit_test_setup(a_block_that_the_driver_does_not_unmap_is_mapped_as_before, anew),
        cmocka_unit_test_setup(a_call_that_keeps_a_block_brings_it_to_rest, anew),
        cmocka_unit_test_setup(a_kernel_that_fails_names_the_blocks_that_it_may_have_been_given,
                               anew)};
    return RUN_TESTS(tests);
}
