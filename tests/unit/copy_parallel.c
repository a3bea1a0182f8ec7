/* SPDX-License-Identifier: MIT */
/* Which copies of pageable memory threads make, and what they are told of it. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <signal.h>
#include <string.h>

#include "copy/links.h"
#include "copy/parallel.h"
#include "copy/pipeline.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/maps.h"
#include "host/pinned.h"
#include "memory/crew.h"

#define STREAM ((CUstream)0x77)
#define LEAST_FIRST ((uint64_t)512 << 20) /* Of the first copy of a block that threads make. */

static struct {
    unsigned type;
    bool here, idle, stuck, closing, first, piped, write;
    size_t cpus, asked_bytes;
    unsigned pipelines;
    const void *asked;
    enum zc_maps_answer answer;
    struct zc_pipeline pipeline;
} has;

static unsigned fake_type(CUdeviceptr address)
{
    (void)address;
    return has.type;
}

static bool fake_here(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    return has.here;
}

static bool fake_idle(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    return has.idle;
}

static bool fake_stuck(const struct zc_extent *extent)
{
    return extent && has.stuck;
}

static enum zc_maps_answer fake_ask(const void *memory, size_t n, bool write)
{
    has.asked = memory;
    has.asked_bytes = n;
    has.write = write;
    return has.answer;
}

static bool fake_run(const struct zc_pipeline *p)
{
    has.pipelines++;
    has.pipeline = *p;
    return has.piped;
}

#define zc_memory_type fake_type
#define zc_stream_here fake_here
#define zc_stream_idle fake_idle
#define zc_pinned_stuck fake_stuck
#define zc_life_closing() (has.closing)
#define zc_pinned_first(extent, bytes) ((extent) && (bytes) && has.first)
#define zc_crew_cpus() (has.cpus)
#define zc_maps_ask fake_ask
#define zc_pipeline_run fake_run
#include "../../shim/copy/parallel.c"

static struct zc_policy *const policy = &zc_rules_read;
static struct zc_block block, own;
static struct zc_extent extent;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&extent, 0, sizeof(extent));
    has.here = has.idle = has.first = has.piped = true;
    has.cpus = 8;
    policy->pageable_copy = ZC_PAGEABLE_COPY_PARALLEL;
    policy->links = ZC_LINKS_OWN;
    zc_captures = 0;
    block = (struct zc_block){.base = 0x1000, .size = LEAST_FIRST};
    own = (struct zc_block){.base = 0x1000, .size = LEAST_FIRST};
    return 0;
}

static struct zc_copy copy_of(bool in)
{
    const struct zc_operand host = {.side = ZC_SIDE_HOST, .address = 0x5000};
    const struct zc_operand device = {.side = ZC_SIDE_DEVICE,
                                      .asked = ZC_KIND_DEVICE,
                                      .real = ZC_KIND_DEVICE,
                                      .address = 0x1000,
                                      .block = &block};
    return (struct zc_copy){.shape = ZC_SHAPE_LINE,
                            .bytes = LEAST_FIRST,
                            .async = true,
                            .stream = STREAM,
                            .flavour = ZC_PER_THREAD,
                            .facts = in ? ZC_FACT_INWARD : 0,
                            .dst = in ? device : host,
                            .src = in ? host : device};
}

static void lines_of_one_context_are_for_threads_or_links(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(true);
    assert_true(zc_parallel_line(&c));
    c.bytes = ZC_PARALLEL_LEAST;
    assert_true(zc_parallel_large(&c));
    c.bytes--;
    assert_false(zc_parallel_large(&c));
    policy->pageable_copy = ZC_PAGEABLE_COPY_DRIVER;
    assert_false(zc_parallel_line(&c));
    policy->links = 2;
    assert_false(zc_parallel_line(&c));
    c.bytes = ZC_LINKS_LEAST;
    assert_true(zc_parallel_line(&c));
    c.shape = ZC_SHAPE_STRIDED;
    assert_false(zc_parallel_line(&c));
    c.shape = ZC_SHAPE_LINE;
    c.src.context = (CUcontext)0x1;
    assert_false(zc_parallel_line(&c));
    c.dst.context = c.src.context;
    assert_true(zc_parallel_line(&c));
    has.closing = true;
    assert_false(zc_parallel_line(&c));
}

#define FACTS(expected, change)                                                                    \
    do {                                                                                           \
        anew(NULL);                                                                                \
        struct zc_copy c = copy_of(in);                                                            \
        struct zc_operand *host = in ? &c.src : &c.dst, *device = in ? &c.dst : &c.src;            \
        (void)host, (void)device;                                                                  \
        change;                                                                                    \
        assert_int_equal(zc_parallel_facts(&c),                                                    \
                         (expected) ? ZC_FACT_THREADS | (in ? ZC_FACT_INWARD : 0) : 0);            \
    } while (0)

static void threads_copy_between_pageable_memory_and_a_device(void **state)
{
    (void)state;
    for (unsigned in = 0; in < 2; in++) {
        FACTS(true, ;);
        FACTS(false, policy->pageable_copy = ZC_PAGEABLE_COPY_DRIVER);
        FACTS(true, host->side = ZC_SIDE_ANY);
        FACTS(false, host->side = ZC_SIDE_DEVICE);
        FACTS(false, host->side = ZC_SIDE_ARRAY);
        FACTS(false, host->real = ZC_KIND_PINNED);
        FACTS(false, host->address = 0);
        FACTS(false, host->block = &own);
        FACTS(true, (host->block = &own, host->extent = &extent));
        FACTS(false, has.type = CU_MEMORYTYPE_HOST);
        FACTS(false, device->block = NULL);
        FACTS(false, device->real = ZC_KIND_PINNED);
        FACTS(false, block.size--);
        FACTS(in, has.here = false); /* Copies from the device wait for events. */
        FACTS(true, (has.here = false, c.async = false));
    }
}

#define FIRST(expected, change)                                                                    \
    do {                                                                                           \
        anew(NULL);                                                                                \
        struct zc_copy c = copy_of(in);                                                            \
        struct zc_operand *host = in ? &c.src : &c.dst, *device = in ? &c.dst : &c.src;            \
        (void)device;                                                                              \
        host->extent = &extent;                                                                    \
        change;                                                                                    \
        assert_int_equal(zc_parallel_first(&c), expected);                                         \
    } while (0)

static void threads_make_the_first_copy_of_a_large_block(void **state)
{
    (void)state;
    for (unsigned in = 0; in < 2; in++) {
        FIRST(true, ;);
        FIRST(false, c.bytes--);
        FIRST(false, c.shape = ZC_SHAPE_STRIDED);
        FIRST(false, c.dst.context = (CUcontext)0x1);
        FIRST(false, has.closing = true);
        FIRST(false, host->extent = NULL);
        FIRST(false, device->block = NULL);
        FIRST(false, block.size--);
        FIRST(false, has.first = false);
        FIRST(false, has.cpus = 7);
        FIRST(false, has.idle = false);
        FIRST(false, has.here = false);
        FIRST(true, (c.async = has.idle = has.here = false)); /* It waits anyway. */
    }
}

/* Nothing may be registered anew until it ends. */
static void threads_copy_a_block_whose_registration_is_stuck(void **state)
{
    (void)state;
    for (unsigned in = 0; in < 2; in++) {
        FIRST(true, (has.stuck = true, c.bytes = 1, has.first = false, has.cpus = 1));
        FIRST(false, (has.stuck = true, c.bytes = 1, zc_captures = 1));
        FIRST(!in, (has.stuck = true, has.idle = false));
        FIRST(false, (has.stuck = true, has.here = false));
        FIRST(true, (has.stuck = true, c.async = has.here = false));
        FIRST(false, (has.stuck = true, c.shape = ZC_SHAPE_STRIDED));
        FIRST(false, (has.stuck = true, device->block = NULL));
    }
    zc_captures = 0;
}

static void the_pipeline_gets_the_memory_and_what_threads_may_touch(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        bool in = i & 1, first = i & 2, heap = i & 4;
        anew(NULL);
        struct zc_copy c = copy_of(in);
        struct zc_operand *host = in ? &c.src : &c.dst;
        host->extent = heap ? &extent : NULL;
        c.first = heap && first;
        has.answer = ZC_MAPS_YES;
        assert_true(zc_parallel_copy(&c));
        assert_true(has.asked == (void *)0x5000 && has.asked_bytes == LEAST_FIRST);
        assert_int_equal(has.write, !in);
        assert_ptr_equal(has.pipeline.c, &c);
        assert_ptr_equal(has.pipeline.host, (void *)0x5000);
        assert_int_equal(has.pipeline.device, 0x1000);
        assert_true(has.pipeline.in == in && has.pipeline.reachable);
        assert_int_equal(host->real, ZC_KIND_PINNED);
        assert_int_equal(extent.copied, c.first ? LEAST_FIRST : 0);
    }
}

static void what_threads_can_not_copy_is_left_as_it_was(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(true);
    has.answer = ZC_MAPS_NO;
    assert_false(zc_parallel_copy(&c));
    assert_int_equal(has.pipelines, 0);
    has.answer = ZC_MAPS_YES;
    has.piped = false;
    c.src.extent = &extent;
    c.first = true;
    assert_false(zc_parallel_copy(&c));
    assert_int_equal(c.src.real, ZC_KIND_PAGEABLE);
    assert_int_equal(extent.copied, 0);
}

/* A fault in a thread is one in the call, if it ends the process there, too. */
static void pages_of_files_are_touched_where_a_fault_ends_the_process(void **state)
{
    static const int signals[] = {SIGBUS, SIGSEGV};
    (void)state;
    signal(SIGBUS, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    struct zc_copy c = copy_of(true);
    has.answer = ZC_MAPS_UNKNOWN;
    assert_true(zc_parallel_copy(&c) && has.pipeline.reachable);
    for (unsigned i = 0; i < 2; i++) {
        signal(signals[i], SIG_IGN);
        assert_true(zc_parallel_copy(&c) && !has.pipeline.reachable);
        signal(signals[i], SIG_DFL);
    }
    c = copy_of(true);
    c.src.extent = &extent;
    assert_true(zc_parallel_copy(&c) && !has.pipeline.reachable);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_of_one_context_are_for_threads_or_links),
        TEST(threads_copy_between_pageable_memory_and_a_device),
        TEST(threads_make_the_first_copy_of_a_large_block),
        TEST(threads_copy_a_block_whose_registration_is_stuck),
        TEST(the_pipeline_gets_the_memory_and_what_threads_may_touch),
        TEST(what_threads_can_not_copy_is_left_as_it_was),
        TEST(pages_of_files_are_touched_where_a_fault_ends_the_process),
    };
    return RUN_TESTS(tests);
}
