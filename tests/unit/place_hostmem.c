/* SPDX-License-Identifier: MIT */
/* Requests of libc's malloc family: which go to the host heap, what is done for their blocks, in
 * which order, and the reason that is told where one stays with libc. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/life.h"
#include "base/lock.h"
#include "base/message.h"
#include "driver/stream.h"
#include "host/hostblock.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "host/visits.h"
#include "ledger/object.h"
#include "ledger/rules.h"
#include "ledger/site_path.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/workers.h"
#include "place/hostmem.h"
#include "place/lessons.h"
#include "shared/backing.h"
#include "shared/early.h"

#define BIT(api) (UINT64_C(1) << ZC_API_##api)
#define FRAME ((void *)0x51)
#define PC ((void *)0x52)
#define ALLOCATOR ((const void *)0x53)
#define CONVERTS                                                                                   \
    {                                                                                              \
        .apis = BIT(malloc), .place = {.item = {ZC_PLACE_PINNED}, .count = 1 }                     \
    }

static struct zc_range ranges[2];
static struct zc_rule rules[3];
static struct zc_policy rule_set = {.rules = rules};
static struct zc_extent of_block;
static struct zc_slot its_slot, other_slot;
static char block[64], other[64];
static struct {
    bool no_rules, in_use, locked_out, no_heap, told, inherited, lessons, concerns, taught, crowded;
    bool no_entry, resizes, no_object, no_libc, nameless, same, brief, from_driver, freed, owned;
    const struct zc_rule *match;
    struct zc_match asked;
    struct zc_host_want want;
    void *gets;
    size_t room;
    unsigned loads, held, starts;
    CUresult state, refusal, to_own, yield;
    struct zc_shared *pair;
} has;
static char trace[2048];
static jmp_buf aborted;

static bool said(const char *format, ...)
{
    size_t n = strlen(trace);
    va_list list;
    va_start(list, format);
    vsnprintf(trace + n, sizeof(trace) - n - 1, format, list);
    va_end(list);
    strcat(trace, " ");
    errno = 99;
    return true;
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
    assert_int_equal(has.held, 0);
}

static const char *name_of(const void *p)
{
    return p == block ? "block" : p == other ? "other" : p == &of_block ? "extent" : "?";
}

static void fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    size_t n = strlen(trace);
    va_list list;
    va_start(list, format);
    if (severity == ZC_URGENT) {
        assert_string_equal(format, "free(): %p is no block of libc's");
        said("%s/%s", code, name_of(va_arg(list, void *)));
        va_end(list);
        return;
    }
    assert_int_equal(severity, ZC_WARN);
    n += (size_t)snprintf(trace + n, sizeof(trace) - n, "%s: ", code);
    vsnprintf(trace + n, sizeof(trace) - n, format, list);
    va_end(list);
}

static bool fake_take(void)
{
    has.held += !has.locked_out;
    return !has.locked_out;
}

static bool fake_load(void)
{
    has.loads++;
    return !has.no_rules;
}

static bool fake_open(const char **why)
{
    said("open");
    *why = has.no_heap ? "no addresses" : "";
    return !has.no_heap;
}

static bool fake_object(uint64_t address, struct zc_object *out)
{
    bool libc = address == (uint64_t)(uintptr_t)gnu_get_libc_version;
    if (libc) {
        out->start = 0x1000;
        return !has.no_libc;
    }
    if (address == (uint64_t)(uintptr_t)ALLOCATOR) {
        out->start = has.same ? 0x1000 : 0x2000;
        out->name = has.nameless ? NULL : has.brief ? "x" : "libfast.so";
        return !has.no_object;
    }
    assert_int_equal(address, (uint64_t)(uintptr_t)PC);
    out->start = 0x3000;
    return !has.no_object;
}

static const struct zc_rule *fake_match(const struct zc_match *match, uint32_t site)
{
    has.asked = *match;
    said("match/%u", site);
    return has.match;
}

static uint32_t fake_site(void *frame, void *pc)
{
    assert_true(frame == FRAME && pc == PC);
    said("site");
    return 41;
}

static const struct zc_rule *fake_lesson(const struct zc_rule *rule, size_t size, uint32_t site)
{
    said("lesson/%d/%zu/%u", rule ? (int)(rule - rules) : -1, size, site);
    return has.taught ? &rules[1] : NULL;
}

static void *fake_get(const struct zc_host_want *want, struct zc_slot **slot_out, const char **why)
{
    has.want = *want;
    *slot_out = &other_slot;
    *why = has.gets ? "" : "over max_pinned";
    said("get");
    return has.gets;
}

static struct zc_extent *fake_extent(uintptr_t p)
{
    assert_true(p == (uintptr_t)block || p == (uintptr_t)other);
    return &of_block;
}

static void *fake_resize(void *p, size_t size, struct zc_slot **slot_out)
{
    said("move/%s/%zu", name_of(p), size);
    if (has.resizes)
        *slot_out = &other_slot;
    return has.resizes ? other : NULL;
}

static bool fake_enter(const void *p, struct zc_slot *s)
{
    said("enter/%s/%d", name_of(p), s == &its_slot ? 1 : 2);
    return !has.no_entry;
}

static CUresult fake_to_own(struct zc_shared *pair, enum zc_fn fn, const char *why)
{
    assert_true(pair == has.pair && fn == ZC_FN_cuMemHostRegister_v2);
    said("own/%s", why);
    return has.to_own;
}

static CUresult fake_yield(CUdeviceptr p, size_t bytes, unsigned flags, enum zc_fn fn)
{
    assert_true(p == (CUdeviceptr)block && bytes == 9 && flags == 3);
    assert_int_equal(fn, ZC_FN_cuMemHostRegister_v2);
    said("yield");
    return has.yield;
}

static bool fake_freed(CUdeviceptr p, size_t bytes)
{
    assert_true(p == (CUdeviceptr)block && bytes == 9);
    return has.freed;
}

static struct zc_hostheap_range heap;
#define zc_hostheap heap
#define zc_hostmem_owns(p) ((p) == block && has.owned)
#define zc_rules() (&rule_set)
#define zc_rules_load fake_load
#define zc_rules_in_use() has.in_use
#define zc_rules_match fake_match
#define zc_lock_take(lock) ((void)(lock), fake_take())
#define zc_lock_drop(lock) ((void)(lock), has.held--)
#define zc_message fake_message
#define zc_message_first(why) ((void)(why), !has.told)
#define zc_limits_start(policy) (assert_ptr_equal(policy, &rule_set), said("limits"))
#define zc_hostheap_open fake_open
#define zc_object_find fake_object
#define zc_object_is_driver(object) (assert_int_equal((object)->start, 0x3000), has.from_driver)
#define zc_site_here fake_site
#define zc_life_inherited() has.inherited
#define zc_lessons_concern(rule, api, size) ((void)(rule), (void)(api), (void)(size), has.concerns)
#define zc_lessons_rule fake_lesson
#define zc_lessons_start() has.lessons
#define zc_lessons_may_round(size) (assert_int_not_equal(size, 0), !has.crowded)
#define zc_lessons_end(p) said("end/%s", name_of(p))
#define zc_hostblock_list() said("list")
#define zc_hostblock_enter fake_enter
#define zc_hostblock_leave(p) said("leave/%s", name_of(p))
#define zc_hostblock_slot(p) ((p) == block ? &its_slot : NULL)
#define zc_hostheap_get fake_get
#define zc_hostheap_put(p) said("put/%s", name_of(p))
#define zc_hostheap_extent fake_extent
#define zc_hostheap_claim(e) said("claim/%s", name_of(e))
#define zc_hostheap_unclaim(e) said("unclaim/%s", name_of(e))
#define zc_hostheap_room(p) (assert_ptr_equal(p, block), has.room)
#define zc_hostheap_resize fake_resize
#define zc_hostheap_fit(all) said((all) ? "fit-all" : "fit")
#define zc_early_want(e) said("want/%s", name_of(e))
#define zc_early_freed(e) said("early/%s", name_of(e))
#define zc_shared_host_gone(e) said("gone/%s", name_of(e))
#define zc_workers_copy(to, from, n) said("copy/%s/%s/%zu", name_of(to), name_of(from), (size_t)(n))
#define zc_shared_at(p) (assert_int_equal(p, (uintptr_t)block), has.pair)
#define zc_shared_to_own fake_to_own
#define zc_stream_state() (said("state"), has.state)
#define zc_stream_refusal() has.refusal
#define zc_pinned_freed fake_freed
#define zc_pinned_yield fake_yield
#define zc_pinned_return(p, bytes) said("return/%s/%zu", name_of((void *)(p)), (size_t)(bytes))
#define abort() longjmp(aborted, 1)
#include "../../shim/place/hostmem.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&hostrules, 0, sizeof(hostrules));
    memset(&of_block, 0, sizeof(of_block));
    memset(&its_slot, 0, sizeof(its_slot));
    memset(&other_slot, 0, sizeof(other_slot));
    memset(rules, 0, sizeof(rules));
    rules[0] = (struct zc_rule)CONVERTS;
    rules[0].name = "big";
    rules[0].line = 7;
    rules[1] = rules[0];
    rules[1].name = "taught";
    rule_set = (struct zc_policy){.rules = rules, .rule_count = 1, .apis = BIT(malloc)};
    rule_set.file = "p.conf";
    heap = (struct zc_hostheap_range){.bytes = 1 << 20, .threshold = ZC_HOST_MIN};
    its_slot = (struct zc_slot){.size = 400000, .site = 1, .rule = 2, .api = 3};
    of_block.use = ZC_EXTENT_BLOCK;
    has.match = &rules[0];
    has.gets = block;
    trace[0] = 0;
    errno = 5;
    return 0;
}

static struct zc_hostmem_request request_of(size_t size)
{
    return (struct zc_hostmem_request){
        .api = ZC_API_malloc, .size = size, .alignment = 16, .frame = FRAME, .pc = PC};
}

static void *get(size_t size)
{
    const struct zc_hostmem_request request = request_of(size);
    errno = 5;
    void *p = zc_hostmem_get(&request);
    assert_int_equal(errno, 5);
    return p;
}

static void open_heap(void)
{
    assert_true(zc_hostmem_ready());
    trace[0] = 0;
}

static void the_heap_takes_requests_of_the_least_size_of_its_rules(void **state)
{
    static const struct {
        uint64_t apis;
        enum zc_place_id place;
        uint64_t low[2], high[2];
        size_t count, threshold;
    } rows[] = {{BIT(malloc), ZC_PLACE_PINNED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(calloc), ZC_PLACE_PINNED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(realloc), ZC_PLACE_PINNED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(reallocarray), ZC_PLACE_PINNED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(aligned_alloc), ZC_PLACE_PINNED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(posix_memalign), ZC_PLACE_PINNED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(memalign), ZC_PLACE_SHARED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(valloc), ZC_PLACE_SHARED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(pvalloc), ZC_PLACE_SHARED, {0}, {0}, 0, ZC_HOST_MIN},
                {BIT(malloc), ZC_PLACE_PAGEABLE, {0}, {0}, 0, SIZE_MAX},
                {BIT(cuMemAlloc), ZC_PLACE_SHARED, {0}, {0}, 0, SIZE_MAX},
                {BIT(cuMemHostAlloc), ZC_PLACE_PINNED, {0}, {0}, 0, SIZE_MAX},
                {BIT(malloc), ZC_PLACE_PINNED, {100000}, {UINT64_MAX}, 1, 100000},
                {BIT(malloc), ZC_PLACE_PINNED, {300000, 200000}, {9999999, 250000}, 2, 200000},
                {BIT(malloc), ZC_PLACE_PINNED, {200000, 300000}, {250000, 9999999}, 2, 200000},
                {BIT(malloc), ZC_PLACE_PINNED, {5, 300000}, {ZC_HOST_MIN - 1, 400000}, 2, 300000},
                {BIT(malloc), ZC_PLACE_PINNED, {5}, {ZC_HOST_MIN}, 1, ZC_HOST_MIN},
                {BIT(malloc), ZC_PLACE_PINNED, {5}, {ZC_HOST_MIN - 1}, 1, SIZE_MAX}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        rules[0].apis = rows[i].apis;
        rules[0].place.item[0] = rows[i].place;
        for (unsigned r = 0; r < 2; r++)
            ranges[r] = (struct zc_range){.low = rows[i].low[r], .high = rows[i].high[r]};
        rules[0].size.item = ranges;
        rules[0].size.count = rows[i].count;
        open_heap();
        if (heap.threshold != rows[i].threshold)
            fail_msg("row %u: %zu", i, heap.threshold);
    }
    anew(NULL);
    rule_set.rule_count = 2;
    ranges[0] = (struct zc_range){.low = 300000, .high = UINT64_MAX};
    ranges[1] = (struct zc_range){.low = 200000, .high = UINT64_MAX};
    rules[0].size = (struct zc_ranges){ranges, 1};
    rules[1].size = (struct zc_ranges){ranges + 1, 1};
    open_heap();
    assert_int_equal(heap.threshold, 200000);
    anew(NULL);
    rule_set.rule_count = 2;
    rules[0].size = (struct zc_ranges){ranges + 1, 1};
    rules[1].size = (struct zc_ranges){ranges, 1};
    open_heap();
    assert_int_equal(heap.threshold, 200000);
}

static void the_heap_is_opened_once_and_only_where_a_rule_needs_it(void **state)
{
    (void)state;
    has.no_rules = true;
    assert_false(zc_hostmem_ready());
    has.no_rules = false;
    has.in_use = has.locked_out = true;
    assert_false(zc_hostmem_ready());
    assert_int_equal(has.loads, 2);
    expect("");
    has.locked_out = false;
    assert_true(zc_hostmem_ready());
    expect("limits open ");
    assert_true(zc_hostmem_ready());
    assert_int_equal(has.loads, 3);
    expect("");
    anew(NULL);
    has.locked_out = true; /* Without rules in use nobody takes the lock. */
    rule_set.rule_count = 0;
    assert_true(zc_hostmem_ready());
    expect("");
    assert_int_equal(heap.threshold, SIZE_MAX);
    assert_int_equal(hostrules.least, SIZE_MAX);
}

static void a_heap_that_does_not_open_is_told_with_its_rule(void **state)
{
    (void)state;
    rules[1] = rules[0];
    rules[0].place.item[0] = ZC_PLACE_PAGEABLE;
    rules[1].name = "second";
    rule_set.rule_count = 2;
    has.no_heap = true;
    assert_true(zc_hostmem_ready());
    expect("limits open fallback: requests of rule second (p.conf:7) stay pageable: no addresses");
    assert_int_equal(heap.threshold, SIZE_MAX);
    assert_null(get(1 << 20));
    expect("");
    anew(NULL);
    has.no_heap = has.told = true;
    assert_true(zc_hostmem_ready());
    expect("limits open ");
    anew(NULL);
    zc_hostmem_leave("a sanitizer is there");
    assert_true(zc_hostmem_ready());
    expect("limits fallback: requests of rule big (p.conf:7) stay pageable: a sanitizer is there");
    assert_int_equal(heap.threshold, SIZE_MAX);
}

static void an_allocator_behind_malloc_keeps_its_blocks(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        if (i != 0)
            zc_hostmem_behind(ALLOCATOR);
        has.no_object = i == 1;
        has.nameless = i == 2;
        has.no_libc = i == 3;
        has.same = i == 4;
        assert_true(zc_hostmem_ready());
        expect(i < 5 ? "limits open "
                     : "limits fallback: requests of rule big (p.conf:7) stay pageable: libfast.so "
                       "serves malloc behind libzc, and its own functions must know every block; "
                       "preload libzc without it, or copy by threads (pageable_copy = parallel)");
        assert_int_equal(heap.threshold, i < 5 ? ZC_HOST_MIN : SIZE_MAX);
    }
    hostrules.ready = 0;
    has.brief = true;
    assert_true(zc_hostmem_ready());
    assert_non_null(strstr(trace, "pageable: x serves malloc"));
    assert_non_null(strstr(trace, "(pageable_copy = parallel)"));
    assert_null(strstr(trace, "parallel)l)"));
}

static void a_request_that_a_rule_matches_gets_a_block(void **state)
{
    struct zc_hostmem_request request = request_of(200000);
    (void)state;
    assert_ptr_equal(get(200000), block);
    expect("limits open match/0 site get enter/block/2 ");
    assert_true(has.asked.api == ZC_API_malloc && has.asked.size == 200000);
    assert_int_equal(has.asked.device, -1);
    assert_true(has.want.size == 200000 && has.want.alignment == 16 && !has.want.zero);
    assert_true(!has.want.shareable && has.want.spread && !has.want.owner);
    assert_true(other_slot.size == 200000 && other_slot.site == 41 && other_slot.rule == 0);
    assert_int_equal(other_slot.api, ZC_API_malloc);
    rule_set.needs = ZC_NEED_SITE;
    request.zero = true;
    request.alignment = ZC_HOST_UNIT;
    request.size = ZC_HOST_MIN;
    assert_ptr_equal(zc_hostmem_get(&request), block);
    expect("site match/41 get enter/block/2 ");
    assert_true(has.want.zero && has.want.alignment == ZC_HOST_UNIT);
    rule_set.needs = ZC_NEED_MODULE;
    assert_ptr_equal(zc_hostmem_get(&request), block);
    expect("site match/41 get enter/block/2 ");
    rule_set.needs = ZC_NEED_THREAD;
    has.match = &rules[1];
    assert_ptr_equal(zc_hostmem_get(&request), block);
    expect("match/0 site get enter/block/2 ");
    assert_int_equal(other_slot.rule, 1);
    has.no_object = has.from_driver = true; /* Nobody knows whose code it is. */
    assert_ptr_equal(zc_hostmem_get(&request), block);
}

static void what_no_rule_places_stays_with_libc(void **state)
{
    struct zc_hostmem_request request = request_of(200000);
    (void)state;
    open_heap();
    request.alignment = 2 * ZC_HOST_UNIT;
    assert_null(zc_hostmem_get(&request));
    assert_null(get(ZC_HOST_MIN - 1));
    hostrules.least = 100000;
    assert_null(get(99999));
    rule_set.apis = BIT(calloc);
    assert_null(get(200000));
    expect("");
    rule_set.apis = BIT(malloc);
    has.match = NULL;
    assert_null(get(200000));
    expect("match/0 ");
    assert_null(get(100000)); /* The least is asked about. */
    expect("match/0 ");
    has.match = &rules[0];
    has.from_driver = true;
    assert_null(get(200000));
    expect("match/0 site ");
    has.from_driver = false;
    has.inherited = true;
    assert_null(get(200000));
    expect("match/0 site ");
    has.inherited = false;
    has.crowded = true;
    assert_null(get(200000));
    expect("match/0 site ");
    has.crowded = false;
    has.no_entry = true;
    assert_null(get(200000));
    expect("match/0 site get enter/block/2 put/block ");
    has.no_entry = false;
    has.gets = NULL;
    assert_null(get(200000));
    expect("match/0 site get fallback: requests of rule big (p.conf:7) stay pageable: over "
           "max_pinned");
    zc_hostmem_leave("later");
    assert_null(get(200000));
    expect("match/0 site fallback: requests of rule big (p.conf:7) stay pageable: later");
    has.told = true;
    assert_null(get(200000));
    expect("match/0 site ");
}

static void the_first_possible_place_of_the_list_decides(void **state)
{
    static const struct {
        enum zc_place_id item[2];
        unsigned count;
        bool heap;
    } rows[] = {{{ZC_PLACE_PINNED}, 1, true},
                {{ZC_PLACE_SHARED}, 1, true},
                {{ZC_PLACE_PAGEABLE}, 1, false},
                {{ZC_PLACE_PAGEABLE, ZC_PLACE_PINNED}, 2, false},
                {{ZC_PLACE_PINNED, ZC_PLACE_PAGEABLE}, 2, true},
                {{ZC_PLACE_VMM, ZC_PLACE_SHARED}, 2, true},
                {{ZC_PLACE_VMM, ZC_PLACE_SHARED}, 1, false}};
    (void)state;
    for (unsigned closed = 0; closed < 2; closed++)
        for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            anew(NULL);
            open_heap();
            heap.bytes = closed ? 0 : 1 << 20;
            memcpy(rules[0].place.item, rows[i].item, sizeof(rows[i].item));
            rules[0].place.count = rows[i].count;
            if ((get(200000) == block) != (rows[i].heap && !closed))
                fail_msg("row %u", i);
        }
}

/* Device blocks may be one with it, where another rule says that kernels only read them. */
static void a_block_is_shareable_where_device_blocks_may_be_one_with_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        rules[0].place.item[0] = i == 1 ? ZC_PLACE_PINNED : ZC_PLACE_SHARED;
        rules[1].apis = i == 2 ? BIT(malloc) : BIT(cuMemAlloc) | (i == 5 ? BIT(malloc) : 0);
        rules[1].place.item[0] = i == 3 ? ZC_PLACE_VMM : ZC_PLACE_SHARED;
        rules[1].access = i == 4 ? ZC_ACCESS_READWRITE : ZC_ACCESS_READ;
        rule_set.rule_count = 2;
        bool shares = i == 0 || i == 5;
        assert_ptr_equal(get(200000), block);
        expect(shares ? "limits open match/0 site get enter/block/2 want/extent "
                      : "limits open match/0 site get enter/block/2 ");
        assert_true(has.want.shareable == shares && has.want.spread == !shares);
        assert_int_equal(zc_hostmem_open(&rules[0]), i != 1);
        heap.bytes = 0;
        assert_false(zc_hostmem_open(&rules[0]));
    }
    anew(NULL);
    rules[0].place.item[0] = ZC_PLACE_SHARED;
    has.no_rules = true;
    assert_false(zc_hostmem_open(&rules[0]));
}

static void what_a_call_path_has_taught_decides_before_the_file(void **state)
{
    (void)state;
    open_heap();
    has.concerns = has.taught = true;
    has.match = NULL;
    assert_ptr_equal(get(200000), block);
    expect("match/0 site lesson/-1/200000/41 get enter/block/2 ");
    assert_int_equal(other_slot.rule, 1);
    has.match = &rules[0];
    has.taught = false;
    assert_null(get(200000));
    expect("match/0 site lesson/0/200000/41 ");
    const struct zc_hostmem_request request = request_of(300000);
    has.room = 300000;
    assert_ptr_equal(zc_hostmem_resize(block, &request), block); /* Resizes learn nothing. */
    expect("match/0 site claim/extent leave/block enter/block/1 unclaim/extent ");
}

static void the_start_tells_why_and_lists_the_blocks(void **state)
{
    (void)state;
    zc_hostmem_start();
    expect("list ");
    zc_hostmem_leave("left");
    zc_hostmem_start();
    expect("fallback: requests of rule big (p.conf:7) stay pageable: leftlist ");
    rule_set.rule_count = 0;
    zc_hostmem_start();
    expect("list ");
    for (unsigned i = 0; i < 5; i++) {
        anew(NULL);
        has.lessons = i != 0;
        has.no_rules = i == 1;
        ranges[0] = (struct zc_range){.low = ZC_LESSONS_LEAST + (i != 2), .high = UINT64_MAX};
        rules[0].size = (struct zc_ranges){ranges, 1};
        rule_set.rule_count = i != 3;
        heap.threshold = 12345;
        zc_hostmem_start();
        assert_int_equal(heap.threshold, i < 2 ? 12345 : i == 3 ? SIZE_MAX : ZC_LESSONS_LEAST);
    }
}

static void a_free_gives_back_all_that_was_made_for_the_block(void **state)
{
    (void)state;
    zc_hostmem_put(block);
    assert_int_equal(errno, 5);
    expect("claim/extent end/block leave/block early/extent gone/extent put/block ");
    of_block.use = ZC_EXTENT_SLAB;
    zc_hostmem_put(block);
    expect("end/block leave/block put/block ");
    if (!setjmp(aborted)) {
        zc_hostmem_put(other);
        fail();
    }
    expect("free/other ");
    assert_int_equal(zc_hostmem_size(block), 400000);
    assert_int_equal(zc_hostmem_size(other), 0);
}

static void a_block_is_resized_in_place_by_moving_its_pages_or_by_a_copy(void **state)
{
    struct zc_hostmem_request request = request_of(300000);
    (void)state;
    open_heap();
    errno = 5;
    has.room = 600000;
    assert_ptr_equal(zc_hostmem_resize(block, &request), block);
    assert_int_equal(errno, 5);
    expect("match/0 site claim/extent leave/block enter/block/1 unclaim/extent ");
    assert_true(its_slot.size == 300000 && its_slot.site == 41 && its_slot.rule == 0);
    has.room = 300000;
    assert_ptr_equal(zc_hostmem_resize(block, &request), block);
    trace[0] = 0;
    has.room = 299999;
    has.resizes = true;
    assert_ptr_equal(zc_hostmem_resize(block, &request), other);
    expect("match/0 site claim/extent leave/block move/block/300000 enter/other/2 ");
    has.room = 600002;
    assert_ptr_equal(zc_hostmem_resize(block, &request), other);
    expect("match/0 site claim/extent leave/block move/block/300000 enter/other/2 ");
    has.resizes = false;
    has.gets = other;
    its_slot.size = 299999;
    assert_ptr_equal(zc_hostmem_resize(block, &request), other);
    expect("match/0 site claim/extent leave/block move/block/300000 unclaim/extent get "
           "enter/other/2 copy/other/block/299999 claim/extent end/block leave/block early/extent "
           "gone/extent put/block ");
    of_block.use = ZC_EXTENT_SLAB;
    its_slot.size = 300001;
    assert_ptr_equal(zc_hostmem_resize(block, &request), other);
    expect("match/0 site leave/block move/block/300000 get enter/other/2 copy/other/block/300000 "
           "end/block leave/block put/block ");
    has.gets = NULL;
    has.told = true;
    assert_null(zc_hostmem_resize(block, &request));
    expect("match/0 site leave/block move/block/300000 get enter/block/1 ");
    assert_int_equal(its_slot.size, 300001);
    has.room = 300000;
    assert_ptr_equal(zc_hostmem_resize(block, &request), block);
    expect("match/0 site leave/block enter/block/1 ");
    has.match = NULL;
    assert_null(zc_hostmem_resize(block, &request));
    expect("match/0 ");
    has.match = &rules[0];
    assert_null(zc_hostmem_resize(other, &request)); /* No block. */
    request.size = ZC_HOST_MIN - 1;
    assert_null(zc_hostmem_resize(block, &request));
    expect("");
    request.size = ZC_HOST_MIN;
    has.room = ZC_HOST_MIN;
    assert_ptr_equal(zc_hostmem_resize(block, &request), block);
}

static void memory_that_the_program_registers_is_left_to_it(void **state)
{
    static const struct {
        bool pair, owned, freed;
        size_t bytes;
        CUresult state, to_own, result;
        const char *trace;
    } rows[] = {
        {0, 0, 0, 9, 1, 0, 0, "own/the program registers its host block "},
        {0, 1, 0, 9, 1, 0, 4, "own/the program registers its host block yield "},
        {0, 1, 0, 0, 1, 0, 0, "own/the program registers its host block "},
        {0, 1, 1, 9, 1, 0, 6, "own/the program registers its host block "},
        {1, 1, 0, 9, 0, 0, 4, "state own/the program registers its host block yield "},
        {1, 1, 0, 9, 1, 0, 1, "state "},
        {1, 1, 0, 9, 0, 2, 2, "state own/the program registers its host block "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.pair = rows[i].pair ? (struct zc_shared *)0x40 : NULL;
        has.owned = rows[i].owned;
        has.freed = rows[i].freed;
        has.state = rows[i].state;
        has.to_own = rows[i].to_own;
        has.yield = (CUresult)4;
        has.refusal = (CUresult)6;
        assert_int_equal(zc_hostmem_yield(block, rows[i].bytes, 3, ZC_FN_cuMemHostRegister_v2),
                         rows[i].result);
        expect(rows[i].trace);
    }
    has.owned = false;
    zc_hostmem_return(block, 9);
    has.owned = true;
    zc_hostmem_return(block, 0);
    expect("");
    zc_hostmem_return(block, 9);
    expect("return/block/9 ");
    errno = 5;
    zc_hostmem_fit(true);
    zc_hostmem_fit(false);
    assert_int_equal(errno, 5);
    expect("fit-all fit ");
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_heap_takes_requests_of_the_least_size_of_its_rules),
        TEST(the_heap_is_opened_once_and_only_where_a_rule_needs_it),
        TEST(a_heap_that_does_not_open_is_told_with_its_rule),
        TEST(an_allocator_behind_malloc_keeps_its_blocks),
        TEST(a_request_that_a_rule_matches_gets_a_block),
        TEST(what_no_rule_places_stays_with_libc),
        TEST(the_first_possible_place_of_the_list_decides),
        TEST(a_block_is_shareable_where_device_blocks_may_be_one_with_it),
        TEST(what_a_call_path_has_taught_decides_before_the_file),
        TEST(the_start_tells_why_and_lists_the_blocks),
        TEST(a_free_gives_back_all_that_was_made_for_the_block),
        TEST(a_block_is_resized_in_place_by_moving_its_pages_or_by_a_copy),
        TEST(memory_that_the_program_registers_is_left_to_it),
    };
    return RUN_TESTS(tests);
}
