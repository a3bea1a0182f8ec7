/* SPDX-License-Identifier: MIT */
/* Requests: their device and rule, what the ledger and the log have of them, and how they end. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/life.h"
#include "base/module.h"
#include "hook/diagnose.h"
#include "hook/request.h"
#include "ledger/missed.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "log/ranges.h"
#include "memory/limits.h"
#include "memory/device.h"
#include "place/fallback.h"
#include "place/verbs.h"
#include "real_test.h"

#define AT ((CUdeviceptr)0x100000)
#define CONTEXT ((CUcontext)0x1000)

static struct {
    CUcontext current;
    CUdevice device;
    CUresult current_code, device_code, range_code;
    unsigned asked, matched, missed, added, watched, entered, sites, freed, logged_frees;
    unsigned removed, claims, lines;
    bool full, site_is_new, refuses_claim;
    int level, budget;
    const struct zc_rule *rule;
    struct zc_match match;
    struct zc_block block; /* Of the ledger. */
    struct zc_log_request line;
    char thread[16];
    size_t range;
} has;

static CUresult get_current(CUcontext *out)
{
    if (has.current_code == CUDA_SUCCESS)
        *out = has.current;
    return has.current_code;
}

static CUresult get_device(CUdevice *out)
{
    has.asked++;
    *out = has.device;
    return has.device_code;
}

static CUresult get_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    *base = address - 8;
    *size = has.range;
    return has.range_code;
}

static uint32_t fake_site(void *frame, void *pc)
{
    assert_true(frame == (void *)0x11 && pc == (void *)0x12);
    return 7;
}

static const struct zc_rule *fake_match(struct zc_match *match, uint32_t site)
{
    assert_int_equal(site, 7);
    has.match = *match;
    has.matched++;
    return has.rule;
}

static void fake_missed(const struct zc_policy *policy, const struct zc_match *match, uint32_t site,
                        bool taken)
{
    assert_true(policy == zc_rules() && match->size == 100 && site == 7 && !taken);
    has.missed++;
}

static struct zc_block *fake_add(const struct zc_block *like)
{
    if (has.full)
        return NULL;
    has.added++;
    has.block = *like;
    has.block.state = ZC_BLOCK_LIVE;
    return &has.block;
}

static struct zc_block *fake_at(CUdeviceptr address)
{
    return has.block.state == ZC_BLOCK_LIVE && has.block.base == address ? &has.block : NULL;
}

static bool fake_claim(struct zc_block *b)
{
    has.claims++;
    return b == &has.block && !has.refuses_claim;
}

static void fake_remove(struct zc_block *b)
{
    assert_ptr_equal(b, &has.block);
    has.removed++;
    memset(b, 0, sizeof(*b));
}

static void fake_alloc(const struct zc_block *block, const struct zc_log_request *line)
{
    assert_ptr_equal(block, &has.block);
    has.line = *line;
    memcpy(has.thread, line->thread, 16);
    has.lines++;
}

static void fake_log(const struct zc_block *block, bool live)
{
    assert_true(block == &has.block && !live);
    has.logged_frees++;
}

static void fake_budget(const struct zc_block *block, int sign)
{
    assert_int_equal(block->base, AT);
    has.budget += sign;
}

static const struct zc_place pinned_like = {.real = ZC_KIND_PINNED};

#define zc_site_here fake_site
#define zc_rules_match fake_match
#define zc_missed_note fake_missed
#define zc_block_add fake_add
#define zc_block_at fake_at
#define zc_block_claim fake_claim
#define zc_block_remove fake_remove
#define zc_log_alloc fake_alloc
#define zc_log_block fake_log
#define zc_log_site(site) (has.sites++)
#define zc_log_level() ((enum zc_log_level)has.level)
#define zc_site_is_new(site) (has.site_is_new)
#define zc_site_note_free(site) (has.freed += (site) == 7)
#define zc_ranges_here() "range"
#define zc_budget_change fake_budget
#define zc_diagnose_watch() (has.watched++)
#define zc_place_entered(b) (has.entered++)
#define zc_place_bare(kind) ((kind) == ZC_KIND_DEVICE ? ZC_PLACE_DEVICE : ZC_PLACE_PINNED)
#define zc_place_of(id) (&pinned_like)
#include "../../shim/hook/request.c"

static struct zc_rule rules[3];
static struct zc_policy *const policy = &zc_rules_read;
static const struct zc_entry entry = {.frame = (void *)0x11, .pc = (void *)0x12};

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&last, 0, sizeof(last));
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuMemGetAddressRange_v2 = get_range;
    zc_life_state = ZC_LIFE_ON;
    has.current = CONTEXT;
    has.device = 3;
    policy->rules = rules;
    policy->rule_count = 3;
    policy->apis = UINT64_C(1) << ZC_API_cuMemAlloc;
    rules[2] = (struct zc_rule){.name = "third", .line = 12};
    return 0;
}

static struct zc_request request_of(size_t size)
{
    return (struct zc_request){
        .entry = &entry, .api = ZC_API_cuMemAlloc, .size = size, .asked = ZC_KIND_DEVICE};
}

static struct zc_request begun(size_t size)
{
    struct zc_request r = request_of(size);
    assert_true(zc_request_begin(&r));
    return r;
}

static void the_device_is_asked_once_for_a_context(void **state)
{
    (void)state;
    struct zc_request r = begun(100);
    assert_true(r.context == CONTEXT && r.device == 3 && r.site == 7 && has.asked == 1);
    has.device = 4;
    r = begun(100);
    assert_true(r.device == 3 && has.asked == 1);
    has.current = (CUcontext)0x2000;
    r = begun(100);
    assert_true(r.device == 4 && has.asked == 2);
    zc_module_request.context_gone(CONTEXT); /* The handle may come again. */
    has.device = 5;
    r = begun(100);
    assert_true(r.device == 5 && has.asked == 3);
    r = begun(100);
    assert_true(r.device == 5 && has.asked == 3);
}

static void without_a_context_there_is_no_device(void **state)
{
    (void)state;
    struct zc_request r = request_of(100);
    r.context = (CUcontext)0x99;
    r.device = 9;
    has.current = NULL;
    assert_true(zc_request_begin(&r));
    assert_true(r.device == -1 && r.context == NULL && has.asked == 0);
    has.current = CONTEXT;
    has.current_code = CUDA_ERROR_DEINITIALIZED;
    r.device = 9;
    r.context = (CUcontext)0x99;
    assert_true(zc_request_begin(&r));
    assert_true(r.device == -1 && r.context == NULL && has.asked == 0);
    has.current_code = CUDA_SUCCESS;
    has.device_code = CUDA_ERROR_INVALID_CONTEXT;
    assert_true(zc_request_begin(&r));
    assert_int_equal(r.device, -1);
    has.device_code = CUDA_SUCCESS;
    assert_true(zc_request_begin(&r));
    assert_int_equal(r.device, 3);
    zc_life_state = ZC_LIFE_PASS;
    assert_false(zc_request_begin(&r));
    zc_life_state = ZC_LIFE_ON;
}

static void rules_are_asked_where_one_may_match(void **state)
{
    (void)state;
    struct zc_request r = begun(100);
    has.rule = &rules[2];
    assert_ptr_equal(zc_request_rule(&r), &rules[2]);
    assert_true(has.match.api == ZC_API_cuMemAlloc && has.match.size == 100);
    assert_true(has.match.device == 3 && has.missed == 0);
    r.api = ZC_API_cuMemAllocManaged;
    assert_null(zc_request_rule(&r));
    assert_true(has.matched == 1 && has.missed == 1);
    policy->rule_count = 0;
    assert_null(zc_request_rule(&r));
    assert_true(has.matched == 1 && has.missed == 1);
}

/* Leaves no zeros on the stack. */
static __attribute__((noinline)) void use_the_stack(void)
{
    volatile char used[4096];
    for (size_t i = 0; i < sizeof(used); i++)
        used[i] = 0x55;
}

static void the_ledger_has_what_the_program_asked_for(void **state)
{
    (void)state;
    struct zc_request r = begun(100);
    r.flags = ZC_BLOCK_STREAM;
    use_the_stack();
    assert_true(zc_request_track(&r, AT, NULL, NULL, NULL));
    const struct zc_block *b = &has.block;
    assert_true(b->base == AT && b->size == 100 && b->site == 7 && b->device == 3);
    assert_true(b->context == CONTEXT && !b->backing && b->rule == -1 && b->before == 0);
    assert_true(b->behind == 0 && b->api == ZC_API_cuMemAlloc && b->flags == ZC_BLOCK_STREAM);
    assert_true(b->place == ZC_PLACE_DEVICE && b->asked == ZC_KIND_DEVICE);
    assert_int_equal(b->real, ZC_KIND_DEVICE);
    for (unsigned i = 0; i < ZC_BLOCK_CELLS; i++)
        assert_null(b->cell[i]);
    assert_true(has.watched == 0 && has.entered == 0 && has.lines == 0);
    has.full = true;
    assert_false(zc_request_track(&r, AT, NULL, NULL, NULL));
    assert_true(has.watched == 0 && has.entered == 0);
}

static void the_ledger_has_where_a_place_put_a_block(void **state)
{
    static const struct {
        size_t base, size, room;
        unsigned behind;
    } rows[] = {{AT, 100, 100, 0},   {AT, 100, 4096, 1},       {AT, 4096, 8192, 2},
                {AT, 4097, 8192, 1}, {AT, 4095, 8192, 2},      {AT, 100, 4097, 2},
                {AT, 1, 4096, 1},    {AT + 512, 100, 3584, 1}, {AT + 512, 3584, 3585, 2}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_backing backing = {.base = rows[i].base,
                                     .room = rows[i].room,
                                     .before = 5,
                                     .context = (CUcontext)0x3000,
                                     .place = ZC_PLACE_VMM};
        struct zc_request r = begun(rows[i].size);
        assert_true(zc_request_track(&r, AT, &backing, &rules[2], NULL));
        const struct zc_block *b = &has.block;
        assert_int_equal(b->behind, rows[i].behind);
        assert_true(b->before == 5 && b->context == (CUcontext)0x3000 && b->backing == &backing);
        assert_true(b->flags == ZC_BLOCK_CONVERTED && b->rule == 2 && b->place == ZC_PLACE_VMM);
        assert_true(b->real == ZC_KIND_PINNED && b->asked == ZC_KIND_DEVICE);
        assert_true(has.watched == i + 1 && has.entered == i + 1);
    }
    struct zc_backing spilled = {.base = AT, .room = 100, .place = ZC_PLACE_VMM, .spilled = 100};
    struct zc_request r = begun(100);
    assert_true(zc_request_track(&r, AT, &spilled, &rules[0], NULL));
    assert_int_equal(has.block.flags, ZC_BLOCK_CONVERTED | ZC_BLOCK_SPILLED);
    assert_true(has.block.real == ZC_KIND_PINNED && has.block.rule == 0);
}

static void the_log_has_a_request_from_its_level_on(void **state)
{
    (void)state;
    struct zc_request r = begun(100);
    r.stream = (enum zc_stream_kind)2;
    prctl(PR_SET_NAME, "a thread");
    assert_true(zc_request_track(&r, AT, NULL, &rules[2], "why"));
    assert_int_equal(has.lines, 0);
    has.level = ZC_LOG_ALLOCS;
    has.site_is_new = true;
    assert_true(zc_request_track(&r, AT, NULL, &rules[2], "why"));
    assert_true(has.lines == 1 && has.sites == 1);
    assert_string_equal(has.thread, "a thread");
    assert_string_equal(has.line.rule, "third");
    assert_string_equal(has.line.why, "why");
    assert_string_equal(has.line.range, "range");
    assert_true(has.line.line == 12 && has.line.stream == r.stream);
    has.site_is_new = false;
    assert_true(zc_request_track(&r, AT, NULL, NULL, ""));
    assert_true(has.lines == 2 && has.sites == 1 && !has.line.rule && !has.line.why);
    assert_true(has.line.line == 0);
    assert_true(zc_request_track(&r, AT, NULL, NULL, NULL));
    assert_null(has.line.why);
}

static void foreign_memory_is_entered_once(void **state)
{
    (void)state;
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 100, ZC_KIND_DEVICE);
    assert_true(has.added == 1 && has.block.flags == ZC_BLOCK_FOREIGN && has.block.size == 100);
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 100, ZC_KIND_DEVICE);
    assert_int_equal(has.added, 1);
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 101, ZC_KIND_DEVICE); /* Another one. */
    assert_int_equal(has.added, 2);
    has.range = 64; /* The driver says how much it is. */
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 0, ZC_KIND_DEVICE);
    assert_true(has.added == 3 && has.block.size == 64 && has.block.base == AT);
    has.range = 0;
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 0, ZC_KIND_DEVICE);
    has.range_code = CUDA_ERROR_INVALID_VALUE;
    has.range = 32;
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 0, ZC_KIND_DEVICE);
    zc_life_state = ZC_LIFE_PASS;
    zc_track_foreign(&entry, ZC_API_cuMemAlloc, AT, 77, ZC_KIND_DEVICE);
    zc_life_state = ZC_LIFE_ON;
    assert_int_equal(has.added, 3);
}

static void what_a_call_has_looked_up_is_entered(void **state)
{
    CUdeviceptr at = AT, none = 0;
    size_t bytes = 100;
    (void)state;
    zc_track_found(&entry, NULL, &bytes, ZC_KIND_DEVICE);
    zc_track_found(&entry, &none, &bytes, ZC_KIND_DEVICE);
    assert_int_equal(has.added, 0);
    zc_track_found(&entry, &at, &bytes, ZC_KIND_DEVICE);
    assert_true(has.block.size == 100 && has.block.api == ZC_API_cuMemAlloc);
    has.range = 50;
    zc_track_found(&entry, &at, NULL, ZC_KIND_MANAGED);
    assert_true(has.block.size == 50 && has.block.api == ZC_API_cuMemAllocManaged);
    assert_int_equal(has.added, 2);
}

static void a_free_is_logged_and_counted_and_undone_where_the_driver_refuses(void **state)
{
    static const CUresult codes[] = {CUDA_SUCCESS, CUDA_ERROR_DEINITIALIZED,
                                     CUDA_ERROR_INVALID_VALUE};
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct zc_untracked u;
        anew(NULL);
        has.level = i < 3 ? ZC_LOG_ALLOCS : ZC_LOG_SUMMARY;
        struct zc_request r = begun(100);
        assert_true(zc_request_track(&r, AT, NULL, NULL, NULL));
        has.block.cell[0] = (struct zc_cell *)0x1;
        zc_untrack(AT, &u);
        assert_true(u.taken && u.copy.base == AT && u.copy.size == 100);
        assert_true(has.removed == 1 && has.freed == 1 && has.budget == -1);
        assert_int_equal(has.logged_frees, i < 3);
        bool refused = i % 3 == 2;
        assert_int_equal(zc_retrack(&u, codes[i % 3]), refused);
        assert_int_equal(has.added, refused ? 2 : 1);
        assert_int_equal(has.budget, refused ? 0 : -1);
        assert_true(!refused || (has.block.base == AT && !has.block.cell[0]));
        zc_untrack(AT + 8, &u); /* Nothing begins there. */
        assert_false(u.taken);
        assert_int_equal(zc_retrack(&u, codes[i % 3]), refused);
        assert_int_equal(has.added, refused ? 2 : 1);
    }
}

static void a_block_that_another_thread_frees_is_not_taken(void **state)
{
    struct zc_untracked u;
    (void)state;
    struct zc_request r = begun(100);
    assert_true(zc_request_track(&r, AT, NULL, NULL, NULL));
    has.refuses_claim = true;
    zc_untrack(AT, &u);
    assert_true(!u.taken && has.removed == 0 && has.budget == 0);
    has.refuses_claim = false;
    has.block.flags = ZC_BLOCK_CONVERTED; /* Its place gives it back. */
    zc_untrack(AT, &u);
    assert_true(!u.taken && has.removed == 0);
    zc_untrack_block(NULL, &u);
    assert_false(u.taken);
    has.block.flags = 0;
    zc_life_state = ZC_LIFE_PASS;
    zc_untrack(AT, &u);
    assert_false(u.taken);
    zc_life_state = ZC_LIFE_ON;
    has.full = true; /* No room for it again: it is not counted. */
    zc_untrack(AT, &u);
    assert_true(u.taken && zc_retrack(&u, CUDA_ERROR_INVALID_VALUE));
    assert_int_equal(has.budget, -1);
}

static void only_foreign_memory_is_taken_out_as_such(void **state)
{
    (void)state;
    struct zc_request r = begun(100);
    assert_true(zc_request_track(&r, AT, NULL, NULL, NULL));
    zc_untrack_foreign(AT);
    assert_int_equal(has.removed, 0);
    has.block.flags = ZC_BLOCK_FOREIGN;
    zc_untrack_foreign(AT + 1);
    assert_int_equal(has.removed, 0);
    zc_life_state = ZC_LIFE_PASS;
    zc_untrack_foreign(AT);
    zc_life_state = ZC_LIFE_ON;
    assert_int_equal(has.removed, 0);
    zc_untrack_foreign(AT);
    assert_int_equal(has.removed, 1);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_device_is_asked_once_for_a_context),
        TEST(without_a_context_there_is_no_device),
        TEST(rules_are_asked_where_one_may_match),
        TEST(the_ledger_has_what_the_program_asked_for),
        TEST(the_ledger_has_where_a_place_put_a_block),
        TEST(the_log_has_a_request_from_its_level_on),
        TEST(foreign_memory_is_entered_once),
        TEST(what_a_call_has_looked_up_is_entered),
        TEST(a_free_is_logged_and_counted_and_undone_where_the_driver_refuses),
        TEST(a_block_that_another_thread_frees_is_not_taken),
        TEST(only_foreign_memory_is_taken_out_as_such),
    };
    return RUN_TESTS(tests);
}
