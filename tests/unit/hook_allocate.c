/* SPDX-License-Identifier: MIT */
/* Requests of the driver: where a rule puts them, and what the program gets if it can't. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "hook/request.h"
#include "ledger/site.h"
#include "log/lines.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "place/fallback.h"
#include "place/hostmem.h"
#include "place/room.h"

#define AT ((CUdeviceptr)0x100000)
#define BYTES ((size_t)8192)

static struct {
    /* The neighbours' answers. */
    bool off, nothing, room, hosts, heap;
    unsigned refused_tracks; /* Entries into the ledger that find no memory, from the first on. */
    int device;
    const struct zc_rule *rule;
    const char *module;
    CUresult state;
    struct {
        bool made; /* A place takes the request. */
        unsigned index;
        const char *why;
    } tried[2];
    /* The driver. */
    CUresult code;
    unsigned calls, reclaims, gives_way;
    /* Their calls. */
    unsigned tries, firsts[2], tracked, released, given, unmet, ends, asked_room, matched;
    bool anywhere;
    size_t given_bytes, unmet_free;
    struct zc_want want;
    uint32_t flags;
    struct zc_backing *backing;
    char why[256];
    bool has_why;
    const struct zc_rule *by;
} has;

static struct zc_backing made = {.base = AT + 64, .place = ZC_PLACE_VMM};

static bool fake_begin(struct zc_request *request)
{
    request->device = has.device;
    request->context = (CUcontext)0x1000;
    request->site = 7;
    return !has.off;
}

static const struct zc_rule *fake_rule(const struct zc_request *request)
{
    assert_int_equal(request->site, 7);
    has.matched++;
    return has.rule;
}

static bool fake_track(const struct zc_request *request, CUdeviceptr address,
                       struct zc_backing *backing, const struct zc_rule *rule, const char *why)
{
    assert_int_equal(address, backing ? AT + 64 : AT);
    if (has.refused_tracks && has.refused_tracks--)
        return false;
    has.tracked++;
    has.flags = request->flags;
    has.backing = backing;
    has.by = rule;
    has.has_why = why != NULL;
    snprintf(has.why, sizeof(has.why), "%s", why ? why : "");
    return true;
}

static struct zc_backing *fake_try(const struct zc_want *want, unsigned first, unsigned *index,
                                   char *why, size_t cap)
{
    assert_true(has.tries < 2);
    has.want = *want;
    has.firsts[has.tries] = first;
    *index = has.tried[has.tries].index;
    snprintf(why, cap, "%s", has.tried[has.tries].why ? has.tried[has.tries].why : "");
    return has.tried[has.tries++].made ? &made : NULL;
}

static CUresult fake_release(struct zc_backing *backing, bool gone)
{
    assert_true(backing == &made && !gone);
    has.released++;
    return CUDA_SUCCESS;
}

static void fake_give(const struct zc_rule *rule, int device, uint64_t bytes)
{
    assert_ptr_equal(rule, has.rule);
    (void)device;
    has.given++;
    has.given_bytes = bytes;
}

static bool fake_room(int device, size_t bytes, bool anywhere)
{
    assert_true(device == has.device && bytes == BYTES);
    has.asked_room++;
    has.anywhere = anywhere;
    return has.room;
}

static bool fake_reclaim(struct zc_reclaim *request)
{
    (void)request;
    has.reclaims++;
    return has.gives_way && has.gives_way--;
}

static void fake_unmet(uint64_t bytes, uint64_t left)
{
    assert_int_equal(bytes, BYTES);
    has.unmet++;
    has.unmet_free = left;
}

static const char *fake_module(uint32_t site)
{
    assert_int_equal(site, 7);
    return has.module;
}

static bool fake_open(const struct zc_rule *rule)
{
    assert_ptr_equal(rule, has.rule);
    return has.heap;
}

static CUresult fake_state(void)
{
    return has.state;
}

#define zc_request_begin fake_begin
#define zc_request_rule fake_rule
#define zc_request_track fake_track
#define zc_place_try fake_try
#define zc_place_release fake_release
#define zc_place_hosts(rule) (has.hosts)
#define zc_budget_give fake_give
#define zc_room_for_bare fake_room
#define zc_reclaim(request) fake_reclaim(request)
#define zc_log_count_unmet fake_unmet
#define zc_device_free(device) (1000 + (device))
#define zc_site_module fake_module
#define zc_hostmem_open fake_open
#define zc_stream_state fake_state
#define zc_limits_end_room() (has.ends++)
#include "../../shim/hook/allocate.c"

static CUdeviceptr address;
static struct zc_rule rule;

static CUresult call(const struct zc_original *f)
{
    has.calls++;
    if (has.code == CUDA_SUCCESS && f->dptr && !has.nothing)
        *f->dptr = AT;
    return has.code;
}

static struct zc_original original;
static struct zc_request request;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    has.device = 2;
    has.room = true;
    has.rule = &rule;
    zc_captures = 0;
    address = 0;
    rule = (struct zc_rule){.name = "rule"};
    rule.place.count = 2;
    made.spilled = 0;
    original = (struct zc_original){.call = call, .dptr = &address, .bytes = BYTES, .flags = 5};
    request = (struct zc_request){.api = ZC_API_cuMemAlloc, .size = BYTES, .asked = ZC_KIND_DEVICE};
    return 0;
}

static CUresult allocate(void)
{
    return zc_allocate(&request, &original);
}

static void where_libzc_is_off_the_call_is_the_drivers(void **state)
{
    (void)state;
    has.off = true;
    has.code = CUDA_ERROR_NOT_READY;
    assert_int_equal(allocate(), CUDA_ERROR_NOT_READY);
    assert_true(has.calls == 1 && has.tracked == 0 && has.asked_room == 0 && has.matched == 0);
}

static void a_request_without_a_rule_is_the_drivers_and_recorded(void **state)
{
    (void)state;
    has.rule = NULL;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_true(address == AT && has.calls == 1 && has.tracked == 1 && !has.by && !has.has_why);
    assert_true(has.tries == 0 && has.unmet == 0 && has.ends == 0 && !has.anywhere);
    anew(NULL);
    has.rule = NULL;
    has.code = CUDA_ERROR_NOT_READY;
    assert_int_equal(allocate(), CUDA_ERROR_NOT_READY);
    assert_true(has.tracked == 0 && has.reclaims == 0);
}

/* The driver has codes of its own for these; and what is in stream order stays in its pool. */
static void requests_that_no_place_can_take_ask_no_rule(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        if (i == 0)
            original.dptr = NULL;
        if (i == 1)
            request.size = 0;
        if (i == 2)
            has.device = -1;
        if (i == 3)
            request.flags = ZC_BLOCK_STREAM;
        if (i == 1)
            request.asked = ZC_KIND_PINNED;
        assert_int_equal(allocate(), CUDA_SUCCESS);
        assert_true(has.matched == 0 && has.tries == 0 && has.calls == 1);
        assert_int_equal(has.tracked, i >= 2);
        assert_int_equal(has.asked_room, i == 3);
        assert_int_equal(has.anywhere, i == 3);
    }
    anew(NULL);
    has.rule = NULL;
    has.nothing = true; /* No address came. */
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_int_equal(has.tracked, 0);
}

static void the_reason_why_a_rule_does_not_count_is_logged(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        zc_captures = i == 0;
        has.state = i == 1 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
        has.module = i == 2 ? "libnccl.so.2" : "libother.so";
        assert_int_equal(allocate(), CUDA_SUCCESS);
        assert_true(has.tries == 0 && has.calls == 1 && has.tracked == 1 && has.by == &rule);
        assert_non_null(strstr(has.why, i == 0   ? "captured"
                                        : i == 1 ? "kernel has failed"
                                                 : "exports memory"));
        assert_int_equal(has.asked_room, i != 0);
    }
    zc_captures = 0;
}

static void libraries_that_export_memory_keep_the_drivers_unless_a_rule_names_them(void **state)
{
    static const char *const names[] = {
        "libnccl.so.2", "libnvshmem_host.so", "libucp.so.0", "libuct.so.0", "libucs.so.0",
        "libmpi.so.40", "libfabric.so",       NULL,          "liba.so",     "xlibnccl.so"};
    (void)state;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (unsigned named = 0; named < 2; named++) {
            anew(NULL);
            has.module = names[i];
            has.tried[0].made = true;
            rule.given = named ? ZC_KEY_BIT(ZC_KEY_MODULE) : 0;
            assert_int_equal(allocate(), CUDA_SUCCESS);
            assert_int_equal(address == AT, i < 7 && !named);
        }
}

static void the_first_place_that_takes_a_request_has_it(void **state)
{
    (void)state;
    has.tried[0].made = true;
    has.heap = true;
    has.tried[0].why = "mapped: over max_pinned";
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_true(address == AT + 64 && has.calls == 0 && has.backing == &made);
    assert_true(has.want.size == BYTES && has.want.device == 2 && has.want.rule == &rule);
    assert_true(has.want.context == (CUcontext)0x1000 && has.want.api == ZC_API_cuMemAlloc);
    assert_true(has.want.flags == 5 && has.want.host_heap && has.by == &rule);
    assert_string_equal(has.why, "mapped: over max_pinned");
    assert_int_equal(has.flags, ZC_BLOCK_BUDGET); /* The first counts against the budget. */
    assert_true(has.ends == 1 && has.firsts[0] == 0 && has.unmet == 0 && has.given == 0);
    anew(NULL);
    has.tried[0].made = true;
    has.tried[0].index = 1;
    has.device = 0;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_true(has.flags == 0 && address == AT + 64 && has.want.device == 0);
}

static void at_device_the_driver_has_it(void **state)
{
    (void)state;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_true(address == AT && has.calls == 1 && has.tracked == 1 && !has.backing);
    assert_true(has.flags == ZC_BLOCK_BUDGET && has.tries == 1 && has.given == 0);
    assert_int_equal(request.flags, 0);
    anew(NULL);
    has.tried[0].index = 1;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_true(has.flags == 0 && has.given == 0);
    for (unsigned i = 0; i < 4; i++) { /* A block that does not come, or is not known. */
        anew(NULL);
        has.tried[0].index = i & 1;
        has.code = i & 2 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
        has.refused_tracks = 1;
        assert_int_equal(allocate(), has.code);
        assert_true(has.given == !(i & 1) && has.tries == 1);
        assert_int_equal(has.given_bytes, i & 1 ? 0 : BYTES);
    }
}

static void behind_device_other_places_are_tried_if_it_is_full(void **state)
{
    (void)state;
    has.code = CUDA_ERROR_OUT_OF_MEMORY;
    has.tried[1].made = true;
    has.tried[1].index = 1;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_true(address == AT + 64 && has.tries == 2 && has.firsts[1] == 1 && has.calls == 1);
    assert_true(has.given == 1 && has.flags == 0 && has.unmet == 0);
    assert_string_equal(has.why, "device: out of memory");
    anew(NULL);
    has.code = CUDA_ERROR_OUT_OF_MEMORY;
    has.tried[1].made = true;
    has.tried[0].why = "mapped: max_pinned leaves no more than a little of what it needs";
    has.tried[1].why = "vmm: no";
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_string_equal(has.why, "device: out of memory; vmm: no");
    anew(NULL);
    has.code = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(has.tries == 2 && has.unmet == 1 && has.unmet_free == 1002 && has.calls == 1);
    for (unsigned index = 1; index < 4; index++) { /* At the end of the list nothing is left. */
        anew(NULL);
        has.code = CUDA_ERROR_OUT_OF_MEMORY;
        has.tried[0].index = index;
        assert_int_equal(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(has.tries, index < 2 ? 2 : 1);
        assert_true(index >= 2 || has.firsts[1] == index + 1);
    }
}

static void a_block_that_the_ledger_can_not_have_is_the_drivers(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        has.tried[0].made = true;
        has.tried[0].index = i == 1;
        has.refused_tracks = 1;
        made.spilled = i == 2 ? 8000 : 0;
        assert_int_equal(allocate(), CUDA_SUCCESS);
        assert_true(address == AT && has.released == 1 && has.calls == 1);
        assert_int_equal(has.given, i != 1);
        assert_int_equal(has.given_bytes, i == 0 ? BYTES : i == 2 ? BYTES - 8000 : 0);
    }
}

static void requests_that_no_device_memory_was_for_are_counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        anew(NULL);
        has.rule = i & 8 ? &rule : NULL;
        has.hosts = i & 1;
        request.flags = i & 2 ? ZC_BLOCK_STREAM : 0;
        request.asked = i & 4 ? ZC_KIND_PINNED : ZC_KIND_DEVICE;
        has.code = CUDA_ERROR_OUT_OF_MEMORY;
        assert_int_equal(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
        bool by_rule = (i & 8) && !(i & 2);
        assert_int_equal(has.unmet, !(i & 2) && !(i & 4) && !(by_rule && (i & 1)));
    }
}

static void room_is_made_for_device_memory_and_what_is_promised_is_not_there(void **state)
{
    (void)state;
    has.rule = NULL;
    has.room = false;
    assert_int_equal(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(has.calls == 0 && has.unmet == 1);
    request.asked = ZC_KIND_PINNED;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_int_equal(has.asked_room, 1);
    request.asked = ZC_KIND_DEVICE;
    has.device = -1;
    assert_int_equal(allocate(), CUDA_SUCCESS);
    assert_int_equal(has.asked_room, 1);
    has.device = 0;
    assert_int_equal(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(has.asked_room, 2);
    anew(NULL);
    has.rule = NULL;
    has.code = CUDA_ERROR_OUT_OF_MEMORY;
    has.gives_way = 2; /* Memory that libzc kept is given back. */
    assert_int_equal(allocate(), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(has.calls == 3 && has.reclaims == 3);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(where_libzc_is_off_the_call_is_the_drivers),
        TEST(a_request_without_a_rule_is_the_drivers_and_recorded),
        TEST(requests_that_no_place_can_take_ask_no_rule),
        TEST(the_reason_why_a_rule_does_not_count_is_logged),
        TEST(libraries_that_export_memory_keep_the_drivers_unless_a_rule_names_them),
        TEST(the_first_place_that_takes_a_request_has_it),
        TEST(at_device_the_driver_has_it),
        TEST(behind_device_other_places_are_tried_if_it_is_full),
        TEST(a_block_that_the_ledger_can_not_have_is_the_drivers),
        TEST(requests_that_no_device_memory_was_for_are_counted),
        TEST(room_is_made_for_device_memory_and_what_is_promised_is_not_there),
    };
    return RUN_TESTS(tests);
}
