/* SPDX-License-Identifier: MIT */
/* Pinned memory: what the program's requests, registrations and questions about it are answered. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/life.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "hook/request.h"
#include "place/freed.h"
#include "place/hostmem.h"
#include "place/verbs.h"
#include "real_test.h"

#define P ((void *)0x100000)
#define BYTES ((size_t)8192)
#define CONTEXT ((CUcontext)0x1000)

static struct {
    /* The neighbours' answers. */
    struct zc_block *hosted, *found, *placed;
    bool near, begins, adopted, adopts, tracks, hidden, untracks;
    CUresult state, refusal, yields, allocated, freed, unregistered;
    const struct zc_rule *rule;
    /* The driver's, and what it was given. */
    CUresult real;
    unsigned calls;
    void *given;
    size_t bytes;
    unsigned flags;
    /* Their calls. */
    struct zc_request request[2];
    const char *why;
    unsigned tracked, begun, brought, ended, yielded, returned, frees, reaped;
    unsigned retracked, adoptions, allocations;
    size_t returned_bytes;
} has;

static CUresult fake_allocate(struct zc_request *request, const struct zc_original *f)
{
    has.request[0] = *request;
    has.allocations++;
    return has.allocated != CUDA_SUCCESS ? has.allocated : f->call(f);
}

static bool fake_begin(struct zc_request *request)
{
    has.begun++;
    request->device = 2;
    return has.begins;
}

static bool fake_track(const struct zc_request *request, CUdeviceptr address,
                       struct zc_backing *backing, const struct zc_rule *rule, const char *why)
{
    assert_true(address == (CUdeviceptr)P && !backing && rule == has.rule && has.tracked < 2);
    has.request[has.tracked++] = *request;
    has.why = why;
    return has.tracks;
}

static struct zc_block *fake_hosted(CUdeviceptr p)
{
    assert_int_equal(p & ~(CUdeviceptr)0xff, (CUdeviceptr)P);
    return has.hosted;
}

static struct zc_block *fake_find(CUdeviceptr p)
{
    return has.found && p - has.found->base < has.found->size ? has.found : NULL;
}

static bool fake_adopted(const void *p, unsigned *flags)
{
    assert_ptr_equal(p, P);
    has.adoptions++;
    *flags &= ~1u;
    return has.adopted;
}

static void fake_bring_in(const struct zc_rule *rule, void *p, size_t bytes)
{
    assert_true(rule == has.rule && p == P && bytes == BYTES);
    has.brought++;
}

static CUresult fake_end(void *p)
{
    assert_ptr_equal(p, P);
    has.ended++;
    return has.unregistered;
}

static CUresult fake_yield(void *p, size_t bytes, unsigned flags, enum zc_fn fn)
{
    assert_true(p == P && bytes <= BYTES && fn == ZC_FN_cuMemHostRegister);
    (void)flags;
    has.yielded++;
    has.adopted = has.adopts;
    return has.yields;
}

static void fake_return(void *p, size_t bytes)
{
    assert_ptr_equal(p, P);
    has.returned++;
    has.returned_bytes = bytes;
}

static CUresult fake_free_block(enum zc_fn fn, struct zc_block *block, CUdeviceptr address)
{
    assert_true(fn == ZC_FN_cuMemHostRegister && block == has.hosted);
    assert_ptr_equal(address, P);
    has.frees++;
    return has.freed;
}

static void fake_untrack(CUdeviceptr p, struct zc_untracked *out)
{
    assert_int_equal(p, (CUdeviceptr)P);
    assert_int_equal(has.calls, 0); /* Before the driver gives the address to another thread. */
    *out = (struct zc_untracked){.taken = has.untracks, .copy = {.size = BYTES}};
}

static bool fake_retrack(const struct zc_untracked *u, CUresult result)
{
    (void)u;
    has.retracked++;
    return result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED;
}

static void fake_reap(bool waited)
{
    assert_true(waited);
    has.reaped++;
}

static CUresult fake_refusal(void)
{
    return has.refusal;
}

static CUresult fake_state(void)
{
    return has.state;
}

#define zc_allocate fake_allocate
#define zc_request_begin fake_begin
#define zc_request_rule(request) (has.rule)
#define zc_request_track fake_track
#define zc_hosted_at fake_hosted
#define zc_placed_near(p) (has.near)
#define zc_placed_at(p) (has.placed)
#define zc_block_find fake_find
#define zc_place_adopted fake_adopted
#define zc_place_bring_in fake_bring_in
#define zc_place_unregister fake_end
#define zc_place_bare(kind) ZC_PLACE_PINNED
#define zc_hostmem_yield fake_yield
#define zc_hostmem_return fake_return
#define zc_free_block fake_free_block
#define zc_untrack fake_untrack
#define zc_retrack fake_retrack
#define zc_freed_reap fake_reap
#define zc_stream_refusal fake_refusal
#define zc_stream_state fake_state
#define zc_hidden(p) (has.hidden)
#define zc_disguise(p) (has.hidden ? (CUdeviceptr)0x42 : (p))
#include "../../shim/hook/host.c"

static struct zc_block block;
static struct zc_backing backing;
static struct zc_rule rule;
static const struct zc_entry entry = {.fn = ZC_FN_cuMemHostRegister};

static CUresult answered(void *p, size_t bytes, unsigned flags)
{
    has.calls++;
    has.given = p;
    has.bytes = bytes;
    has.flags = flags;
    return has.real;
}

static CUresult real_alloc(void **pp, size_t bytes)
{
    if (pp)
        *pp = P;
    return answered(pp, bytes, 0);
}

static CUresult real_host_alloc(void **pp, size_t bytes, unsigned flags)
{
    if (pp)
        *pp = P;
    return answered(pp, bytes, flags);
}

static CUresult real_register(void *p, size_t bytes, unsigned flags)
{
    return answered(p, bytes, flags);
}

static CUresult real_free(void *p)
{
    return answered(p, 0, 0);
}

static CUresult real_pointer(CUdeviceptr *out, void *p, unsigned flags)
{
    *out = 0x77;
    return answered(p, 0, flags);
}

static CUresult real_flags(unsigned *flags, void *p)
{
    *flags = 7;
    return answered(p, 0, 0);
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_life_state = ZC_LIFE_ON;
    zc_captures = 0;
    has.begins = has.tracks = true;
    has.refusal = CUDA_ERROR_INVALID_CONTEXT;
    block = (struct zc_block){
        .base = (CUdeviceptr)P, .size = BYTES, .backing = &backing, .context = CONTEXT};
    block.flags = ZC_BLOCK_CONVERTED;
    backing = (struct zc_backing){.flags = CU_MEMHOSTALLOC_PORTABLE};
    rule = (struct zc_rule){.name = "rule"};
    rule.place.item[0] = ZC_PLACE_PINNED;
    return 0;
}

static void requests_that_may_succeed_are_libzcs_and_others_the_drivers(void **state)
{
    void *p = NULL;
    (void)state;
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    assert_int_equal(zc_do_cuMemAllocHost_v2(real_alloc, &entry, &p, BYTES), CUDA_SUCCESS);
    assert_true(p == P && has.request[0].size == BYTES && has.bytes == BYTES);
    assert_true(has.request[0].api == ZC_API_cuMemHostAlloc && has.request[0].entry == &entry);
    assert_int_equal(has.request[0].asked, ZC_KIND_PINNED);
    anew(NULL);
    p = NULL;
    assert_int_equal(zc_do_cuMemHostAlloc(real_host_alloc, &entry, &p, BYTES, known), CUDA_SUCCESS);
    assert_true(p == P && has.request[0].size == BYTES && has.flags == known);
    anew(NULL);
    has.real = CUDA_ERROR_INVALID_VALUE;
    zc_do_cuMemAllocHost_v2(real_alloc, &entry, NULL, BYTES);
    zc_do_cuMemAllocHost_v2(real_alloc, &entry, &p, 0);
    zc_do_cuMemHostAlloc(real_host_alloc, &entry, NULL, BYTES, 0);
    zc_do_cuMemHostAlloc(real_host_alloc, &entry, &p, 0, 0);
    assert_int_equal(zc_do_cuMemHostAlloc(real_host_alloc, &entry, &p, BYTES, 8),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(has.calls == 5 && has.allocations == 0 && has.flags == 8);
    has.allocated = CUDA_ERROR_OUT_OF_MEMORY;
    p = (void *)0x5;
    assert_int_equal(zc_do_cuMemAllocHost_v2(real_alloc, &entry, &p, BYTES),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_ptr_equal(p, (void *)0x5);
}

static CUresult registered(unsigned flags)
{
    has.calls = has.tracked = has.brought = has.returned = has.ended = 0;
    return zc_do_cuMemHostRegister(real_register, &entry, P, BYTES, flags);
}

static void a_registration_is_the_drivers_and_a_rule_brings_its_pages_in(void **state)
{
    (void)state;
    assert_int_equal(registered(CU_MEMHOSTREGISTER_READ_ONLY), CUDA_SUCCESS);
    assert_true(has.calls == 1 && has.given == P && has.bytes == BYTES && has.yielded == 1);
    assert_int_equal(has.flags, CU_MEMHOSTREGISTER_READ_ONLY);
    assert_true(has.tracked == 1 && !has.why && has.returned == 0);
    assert_int_equal(has.request[0].flags, ZC_BLOCK_FOREIGN | ZC_BLOCK_READ_ONLY);
    assert_int_equal(registered(0), CUDA_SUCCESS);
    assert_int_equal(has.request[0].flags, ZC_BLOCK_FOREIGN);
    assert_int_equal(has.brought, 0);
    has.rule = &rule;
    assert_int_equal(registered(0), CUDA_SUCCESS);
    assert_true(has.calls == 1 && has.brought == 1 && has.tracked == 1 && !has.why);
    assert_int_equal(has.request[0].flags, ZC_BLOCK_FOREIGN);
    rule.place.item[0] = ZC_PLACE_MAPPED;
    assert_int_equal(registered(0), CUDA_SUCCESS);
    assert_string_equal(has.why, "the pages are the program's own");
}

/* Each alone: flags that few drivers take, a capture, an error, memory that is registered. */
static void no_pages_come_in_where_the_driver_may_refuse_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 9; i++) {
        anew(NULL);
        has.rule = &rule;
        struct zc_block other = {.base = (CUdeviceptr)P - 100, .size = 101};
        if (i == 1)
            zc_captures = 1;
        if (i == 2)
            has.state = CUDA_ERROR_ILLEGAL_ADDRESS;
        if (i == 3 || i == 4)
            has.found = &other;
        if (i == 4)
            other.base = (CUdeviceptr)P + BYTES - 1;
        if (i == 5)
            other = (struct zc_block){.base = (CUdeviceptr)P + BYTES, .size = 9};
        if (i == 5)
            has.found = &other;
        unsigned flags = i == 0   ? CU_MEMHOSTREGISTER_IOMEMORY
                         : i == 6 ? CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP
                         : i == 7 ? CU_MEMHOSTREGISTER_READ_ONLY
                                  : 0;
        assert_int_equal(registered(flags), CUDA_SUCCESS);
        assert_int_equal(has.brought, i == 5 || i == 6 || i == 8);
        assert_int_equal(has.calls, 1);
        assert_int_equal(has.tracked, 1);
    }
    zc_captures = 0;
}

static void a_registration_of_libzcs_becomes_the_programs(void **state)
{
    (void)state;
    has.adopts = true;
    assert_int_equal(registered(0), CUDA_SUCCESS);
    assert_true(has.calls == 0 && has.brought == 0 && has.tracked == 1);
    assert_int_equal(has.request[0].flags,
                     ZC_BLOCK_FOREIGN | ZC_BLOCK_ADOPTED | ZC_BLOCK_CAME_PINNED);
    has.adopted = false;
    has.state = CUDA_ERROR_ILLEGAL_ADDRESS;
    has.real = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(registered(0), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(has.calls == 1 && has.tracked == 0 && has.returned == 1);
    has.real = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    has.state = CUDA_SUCCESS;
    has.yielded = 0;
    assert_int_equal(registered(3), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_true(has.calls == 1 && has.given == P && has.bytes == BYTES && has.flags == 3);
    assert_true(has.yielded == 0 && has.tracked == 0 && has.returned == 0);
    has.real = CUDA_SUCCESS;
    has.calls = 0; /* One beside it, in its page, shares the registration. */
    zc_do_cuMemHostRegister(real_register, &entry, P, 4095, 0);
    assert_true(has.calls == 0 && has.tracked == 1);
    zc_do_cuMemHostRegister(real_register, &entry, P, 4096, 0);
    assert_true(has.calls == 1 && has.tracked == 1);
    has.adopted = false;
    has.found = &block; /* A part of it is the program's. */
    assert_int_equal(registered(0), CUDA_SUCCESS);
    assert_int_equal(has.calls, 1);
    has.found = NULL;
    has.adopted = has.tracks = false; /* Nobody would divide copies. */
    assert_int_equal(registered(0), CUDA_SUCCESS);
    assert_true(has.ended == 1 && has.calls == 1 && has.tracked == 2);
    assert_int_equal(has.request[1].flags, ZC_BLOCK_FOREIGN);
}

static void a_registration_that_fails_gives_the_pages_back(void **state)
{
    (void)state;
    has.yields = CUDA_ERROR_NOT_PERMITTED;
    assert_int_equal(registered(0), CUDA_ERROR_NOT_PERMITTED);
    assert_true(has.calls == 0 && has.returned == 0);
    has.yields = CUDA_SUCCESS;
    has.real = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(registered(0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(has.returned == 1 && has.returned_bytes == BYTES && has.tracked == 0);
    has.begins = false; /* libzc is off. */
    assert_int_equal(registered(3), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(has.calls == 1 && has.flags == 3 && has.tracked == 0);
}

static void null_and_nothing_are_registered_by_the_driver(void **state)
{
    (void)state;
    has.begins = true;
    register_own(&entry, real_register, NULL, BYTES, 0);
    register_own(&entry, real_register, P, 0, 0);
    assert_true(has.calls == 2 && has.begun == 0);
}

/* Memory of libzc's own is the driver's to the program. */
static CUresult unregistered(void)
{
    has.calls = has.returned = has.reaped = has.ended = has.retracked = 0;
    return zc_do_cuMemHostUnregister(real_free, &entry, P);
}

/* The answer about nothing, or the error that comes before it, without asking about the address. */
static void assert_not_ended(bool known)
{
    static const CUresult answers[] = {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                                       CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS,
                                       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
    for (unsigned i = 0; i < 4; i++) {
        has.real = answers[i];
        assert_int_equal(unregistered(), known && i < 1 ? CUDA_ERROR_INVALID_VALUE : answers[i]);
        assert_true(has.calls == 1 && has.given == (void *)zc_pinned_pageable);
        assert_true(has.returned == 0 && has.retracked == 0 && has.ended == 0);
    }
}

/* Memory of libzc's own is the driver's to the program. */
static void pinned_and_device_memory_is_not_registered(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        has.near = true;
        has.hosted = i ? &block : NULL;
        has.placed = &block;
        for (unsigned k = 0; k < 2; k++) { /* Asked about nothing, which is never taken. */
            has.real = k ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
            assert_int_equal(registered(0), has.real ?: CUDA_ERROR_INVALID_VALUE);
            assert_true(has.calls == 1 && !has.given && has.yielded == 0 && has.returned == 0);
        }
        assert_not_ended(true);
        has.hosted = has.placed = NULL; /* Beside it. */
        assert_not_ended(false);
    }
    anew(NULL);
    block.flags |= ZC_BLOCK_QUARANTINED; /* Freed: nothing is there. */
    has.hosted = has.placed = &block;
    has.near = true;
    assert_int_equal(registered(0), CUDA_ERROR_INVALID_VALUE);
    assert_not_ended(false);
    block.flags = ZC_BLOCK_ADOPTED;
    has.real = CUDA_SUCCESS;
    assert_int_equal(registered(0), CUDA_SUCCESS); /* The driver's answer. */
    assert_int_equal(has.calls, 1);
}

static void an_end_of_a_registration_gives_pages_back(void **state)
{
    (void)state;
    assert_int_equal(unregistered(), CUDA_SUCCESS); /* Unknown to libzc. */
    assert_true(has.calls == 1 && has.given == P && has.retracked == 1);
    assert_true(has.returned == 1 && has.returned_bytes == 1 && has.reaped == 0);
    has.untracks = true;
    assert_int_equal(unregistered(), CUDA_SUCCESS);
    assert_true(has.calls == 1 && has.returned_bytes == BYTES && has.reaped == 1);
    has.real = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    assert_int_equal(unregistered(), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_true(has.returned == 0 && has.reaped == 0);
    has.real = CUDA_ERROR_DEINITIALIZED; /* It went with the driver. */
    assert_int_equal(unregistered(), CUDA_ERROR_DEINITIALIZED);
    assert_int_equal(has.returned, 1);
    has.hidden = true; /* A registration of libzc's: the program has none there. */
    assert_not_ended(false);
}

static void the_end_of_an_adopted_registration_is_libzcs(void **state)
{
    (void)state;
    block.flags = ZC_BLOCK_ADOPTED;
    has.hosted = has.placed = &block;
    has.near = has.hidden = has.untracks = true;
    assert_int_equal(unregistered(), CUDA_SUCCESS);
    assert_true(has.calls == 0 && has.ended == 1 && has.returned == 1 && has.reaped == 1);
    has.unregistered = CUDA_ERROR_UNKNOWN;
    assert_int_equal(unregistered(), CUDA_ERROR_UNKNOWN);
    assert_true(has.returned == 0 && has.reaped == 0);
    has.untracks = false; /* Another thread does. */
    assert_int_equal(unregistered(), CUDA_SUCCESS);
    assert_true(has.calls == 1 && has.given == P && has.ended == 0);
    block.base -= 8; /* Inside of it. */
    assert_not_ended(true);
    has.hosted = NULL; /* Beside it, in its pages. */
    has.near = false;
    assert_not_ended(false);
}

static CUresult freed(void *p)
{
    has.calls = has.reaped = has.frees = 0;
    return zc_do_cuMemFreeHost(real_free, &entry, p);
}

static void a_block_of_libzcs_is_freed_by_libzc(void **state)
{
    (void)state;
    has.hosted = &block;
    has.freed = CUDA_ERROR_UNKNOWN;
    assert_int_equal(freed(P), CUDA_ERROR_UNKNOWN);
    assert_true(has.frees == 1 && has.calls == 0);
}

static void a_block_of_the_drivers_is_freed_by_it(void **state)
{
    (void)state;
    assert_int_equal(freed(P), CUDA_SUCCESS);
    assert_true(has.calls == 1 && has.given == P && has.reaped == 0);
    has.untracks = true;
    assert_int_equal(freed(P), CUDA_SUCCESS);
    assert_int_equal(has.reaped, 1);
    has.real = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(freed(P), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.reaped, 0);
    has.near = true; /* Device memory, or freed. */
    assert_int_equal(freed(P), CUDA_ERROR_INVALID_VALUE);
    assert_true(has.calls == 1 && !has.given);
    has.real = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(freed(P), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    has.real = CUDA_SUCCESS;
    assert_int_equal(freed(P), CUDA_ERROR_INVALID_VALUE);
    has.hosted = &block;
    zc_life_state = ZC_LIFE_PASS;
    has.near = false;
    assert_int_equal(freed(P), CUDA_SUCCESS);
    assert_true(has.calls == 1 && has.given == P);
    zc_life_state = ZC_LIFE_ON;
}

static void a_block_of_libzcs_has_its_own_address_on_the_device(void **state)
{
    CUdeviceptr at = 0;
    (void)state;
    has.hosted = &block;
    has.refusal = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, &at, P, 0),
                     CUDA_SUCCESS);
    assert_true(at == (CUdeviceptr)P && has.calls == 0);
    assert_int_equal(zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, &at, P, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, NULL, P, 0),
                     CUDA_ERROR_INVALID_VALUE);
    at = 0;
    has.state = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, &at, P, 0),
                     CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(at, 0);
    has.refusal = CUDA_ERROR_INVALID_CONTEXT;
    has.hosted = NULL;
    has.near = true;
    assert_int_equal(zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, &at, P, 0),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(has.calls, 0);
    has.near = false;
    assert_int_equal(zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, &at, P, 3),
                     CUDA_SUCCESS);
    assert_true(at == 0x77 && has.given == P && has.flags == 3);
    has.hidden = true; /* Pageable to the program. */
    zc_do_cuMemHostGetDevicePointer_v2(real_pointer, &entry, &at, P, 3);
    assert_ptr_equal(has.given, (void *)0x42);
}

static void a_block_of_libzcs_has_the_flags_that_the_program_gave(void **state)
{
    unsigned flags = 0;
    (void)state;
    has.hosted = &block;
    has.refusal = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_do_cuMemHostGetFlags(real_flags, &entry, &flags, P), CUDA_SUCCESS);
    assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    assert_int_equal(zc_do_cuMemHostGetFlags(real_flags, &entry, NULL, P),
                     CUDA_ERROR_INVALID_VALUE);
    flags = 0;
    has.state = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(zc_do_cuMemHostGetFlags(real_flags, &entry, &flags, P),
                     CUDA_ERROR_ILLEGAL_ADDRESS);
    has.refusal = CUDA_ERROR_INVALID_CONTEXT;
    assert_true(flags == 0 && has.calls == 0 && has.adoptions == 0);
    has.hosted = NULL;
    has.near = true;
    assert_int_equal(zc_do_cuMemHostGetFlags(real_flags, &entry, &flags, P),
                     CUDA_ERROR_INVALID_CONTEXT);
    has.near = false;
    assert_int_equal(zc_do_cuMemHostGetFlags(real_flags, &entry, &flags, P), CUDA_SUCCESS);
    assert_true(flags == 6 && has.given == P && has.adoptions == 1);
    has.real = CUDA_ERROR_INVALID_VALUE;
    has.hidden = true;
    assert_int_equal(zc_do_cuMemHostGetFlags(real_flags, &entry, &flags, P),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(has.given == (void *)0x42 && has.adoptions == 1);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_that_may_succeed_are_libzcs_and_others_the_drivers),
        TEST(a_registration_is_the_drivers_and_a_rule_brings_its_pages_in),
        TEST(no_pages_come_in_where_the_driver_may_refuse_them),
        TEST(a_registration_of_libzcs_becomes_the_programs),
        TEST(a_registration_that_fails_gives_the_pages_back),
        TEST(null_and_nothing_are_registered_by_the_driver),
        TEST(pinned_and_device_memory_is_not_registered),
        TEST(an_end_of_a_registration_gives_pages_back),
        TEST(the_end_of_an_adopted_registration_is_libzcs),
        TEST(a_block_of_libzcs_is_freed_by_libzc),
        TEST(a_block_of_the_drivers_is_freed_by_it),
        TEST(a_block_of_libzcs_has_its_own_address_on_the_device),
        TEST(a_block_of_libzcs_has_the_flags_that_the_program_gave),
    };
    return RUN_TESTS(tests);
}
