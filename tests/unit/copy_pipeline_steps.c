/* SPDX-License-Identifier: MIT */
/* Copies through the ring, step by step: one thread plays the others and the copy engine, in any
 * order that they may have. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "copy/bypass.h"
#include "copy/pipeline.h"
#include "copy/ring.h"
#include "driver/stream.h"
#include "memory/crew.h"
#include "memory/workers.h"
#include "real_test.h"

#define MIB ((size_t)1 << 20)
#define STREAM ((CUstream)0x77)
#define GRAIN ((size_t)64 << 10) /* Each has one number. */
#define MOST (100 * MIB)
#define HOST ((uintptr_t)1 << 40)
#define DEVICE ((uintptr_t)2 << 40)
#define RING(slot) ((uintptr_t)(3 + (slot)) << 40)
enum { SLOTS = 8, QUEUE = 128, EVENTS = 64 };

static uint32_t host_bytes[MOST / GRAIN], device_bytes[MOST / GRAIN];
static uint32_t ring_bytes[SLOTS][ZC_RING_SLOT / GRAIN];

static struct {
    unsigned seed;
    /* The engine. */
    struct {
        uintptr_t dst, src;
        size_t bytes;
    } queue[QUEUE];
    unsigned asked, made, recorded[EVENTS], most_flying;
    unsigned refuses, breaks; /* The number of the copy that is refused, or fails; 0: none. */
    unsigned no_event;        /* The number of the event that is refused. */
    unsigned events, ended;
    bool is_event[EVENTS];
    /* The ring. */
    unsigned free_slots, poor, taken, given; /* `poor`: the first slot without memory. */
    /* The crew. */
    bool no_crew, over, waited, in;
    unsigned grown, first_asked, puts;
    size_t wanted, bypassed, cached, reached;
    uintptr_t unreachable;
    unsigned drained;
    /* A round of the caller's: whether it has done something, or yielded the processor. */
    bool acted, yielded, others;
    unsigned asked_before;
    zc_crew_piece *piece;
    struct zc_crew *crew;
} has;

static unsigned dice(unsigned n)
{
    has.seed = has.seed * 1103515245 + 12345;
    return (has.seed >> 16) % n;
}

static uint32_t *at(uintptr_t address, size_t n)
{
    unsigned region = (unsigned)(address >> 40);
    size_t offset = address & (((uintptr_t)1 << 40) - 1);
    assert_true(region >= 1 && region < 3 + SLOTS && offset % GRAIN == 0);
    assert_true(n > 0 && offset + n <= (region > 2 ? ZC_RING_SLOT : MOST));
    return (region == 1   ? host_bytes
            : region == 2 ? device_bytes
                          : ring_bytes[region - 3]) +
           offset / GRAIN;
}

static void move(uintptr_t dst, uintptr_t src, size_t n)
{
    memmove(at(dst, n), at(src, n), (n + GRAIN - 1) / GRAIN * sizeof(uint32_t));
}

/* Some of the copies that the engine has. */
static void engine(unsigned most)
{
    while (most-- && has.made < has.asked) {
        move(has.queue[has.made].dst, has.queue[has.made].src, has.queue[has.made].bytes);
        has.made++;
    }
}

static CUresult enqueue(uintptr_t dst, uintptr_t src, size_t n, CUstream stream)
{
    assert_true(stream == STREAM && has.asked < QUEUE);
    if (has.refuses && has.asked + 1 == has.refuses)
        return CUDA_ERROR_LAUNCH_FAILED;
    has.queue[has.asked].dst = dst;
    has.queue[has.asked].src = src;
    has.queue[has.asked++].bytes = n;
    return CUDA_SUCCESS;
}

static CUresult htod(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    return enqueue(dst, (uintptr_t)src, n, stream);
}

static CUresult dtoh(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
    return enqueue((uintptr_t)dst, src, n, stream);
}

static CUresult make_event(CUevent *event, unsigned flags)
{
    assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
    if (has.no_event && has.events + 1 == has.no_event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    assert_true(++has.events < EVENTS);
    has.is_event[has.events] = true;
    *event = (CUevent)(uintptr_t)has.events;
    return CUDA_SUCCESS;
}

static unsigned number(CUevent event)
{
    unsigned n = (unsigned)(uintptr_t)event;
    assert_true(n > 0 && n < EVENTS && has.is_event[n]);
    return n;
}

static CUresult end_event(CUevent event)
{
    has.is_event[number(event)] = false;
    has.ended++;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    has.recorded[number(event)] = has.asked;
    return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
    unsigned behind = has.recorded[number(event)];
    assert_true(behind > 0);
    if (has.asked - has.made > has.most_flying)
        has.most_flying = has.asked - has.made;
    engine(dice(3));
    if (has.breaks && has.made >= has.breaks)
        return CUDA_ERROR_ECC_UNCORRECTABLE;
    has.acted |= has.made >= behind;
    return has.made >= behind ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static int fake_try(void)
{
    return has.taken < has.free_slots ? (int)has.taken++ : -1;
}

static char *fake_memory(unsigned slot)
{
    return has.poor && slot + 1 >= has.poor ? NULL : (char *)RING(slot);
}

static void fake_give(unsigned slot, CUevent event, CUcontext home)
{
    assert_true(slot < has.taken && !event && !home);
    assert_int_equal(has.made, has.asked); /* Nothing uses its memory any more. */
    has.given++;
}

static void *fake_make(size_t bytes, zc_crew_piece *piece, size_t wanted)
{
    has.wanted = wanted;
    has.piece = piece;
    has.crew = has.no_crew ? NULL : calloc(1, bytes);
    return has.crew;
}

/* Other threads get some time. */
static void others(void)
{
    has.others = true;
    for (unsigned n = dice(4); n && !has.over; n--)
        has.piece(has.crew, 1);
    has.others = false;
}

static bool fake_grow(struct zc_crew *crew)
{
    assert_ptr_equal(crew, has.crew);
    has.first_asked = has.grown ? has.first_asked : has.asked;
    assert_true(!has.grown || has.acted || has.yielded);
    has.acted = has.asked != has.asked_before;
    has.asked_before = has.asked;
    has.yielded = false;
    others();
    bool grown = ++has.grown % 4 == 1;
    has.acted |= grown;
    return grown;
}

static void fake_over(struct zc_crew *crew)
{
    assert_ptr_equal(crew, has.crew);
    has.over = true;
}

static void fake_wait(struct zc_crew *crew)
{
    assert_ptr_equal(crew, has.crew);
    has.over = has.waited = true;
}

static void fake_put(struct zc_crew *crew)
{
    assert_ptr_equal(crew, has.crew);
    has.puts++;
    free(crew);
}

static void fake_bypass(void *dst, const void *src, size_t n)
{
    has.bypassed += n;
    has.acted |= !has.others;
    move((uintptr_t)dst, (uintptr_t)src, n);
}

static void fake_memcpy(void *dst, const void *src, size_t n)
{
    has.cached += n;
    has.acted |= !has.others;
    move((uintptr_t)dst, (uintptr_t)src, n);
}

static bool fake_reach(void *memory, size_t n, bool write)
{
    has.reached += n;
    assert_true(n <= 256 << 10);
    assert_int_equal(write, !has.in);
    return !(has.unreachable - (uintptr_t)memory < n);
}

static CUresult fake_drain(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD && has.waited);
    engine(QUEUE);
    has.drained++;
    return CUDA_SUCCESS;
}

static int fake_yield(void)
{
    assert_false(has.acted);
    has.yielded = true;
    engine(dice(2));
    others();
    return 0;
}

#define zc_ring_try fake_try
#define zc_ring_memory fake_memory
#define zc_ring_give fake_give
#define zc_crew_make fake_make
#define zc_crew_grow fake_grow
#define zc_crew_over fake_over
#define zc_crew_wait fake_wait
#define zc_crew_put fake_put
#define zc_bypass_copy fake_bypass
#define __builtin_memcpy fake_memcpy
#define zc_workers_reach fake_reach
#define zc_stream_drain fake_drain
#define sched_yield fake_yield
#include "../../shim/copy/pipeline.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuMemcpyHtoDAsync_v2_ptsz = htod;
    zc_real.cuMemcpyDtoHAsync_v2_ptsz = dtoh;
    zc_real.cuEventCreate = make_event;
    zc_real.cuEventDestroy_v2 = end_event;
    zc_real.cuEventRecord_ptsz = record;
    zc_real.cuEventQuery = query;
    has.free_slots = SLOTS;
    for (unsigned i = 0; i < MOST / GRAIN; i++) {
        host_bytes[i] = i + 1;
        device_bytes[i] = ~i;
    }
    memset(ring_bytes, 0x55, sizeof(ring_bytes));
    return 0;
}

static struct zc_copy made;

/* A copy of so many bytes; all that it took is given back. */
static bool run(size_t n, bool in, bool reachable)
{
    has.in = in;
    made = (struct zc_copy){.bytes = n, .stream = STREAM, .flavour = ZC_PER_THREAD, .copies = 99};
    const struct zc_pipeline p = {
        .c = &made, .host = (char *)HOST, .device = DEVICE, .in = in, .reachable = reachable};
    bool done = zc_pipeline_run(&p);
    assert_int_equal(has.events, has.ended);
    assert_int_equal(has.puts, !has.no_crew);
    assert_int_equal(has.made, has.asked);
    return done;
}

static const size_t sizes[] = {MIB,           MIB + 1,       8 * MIB - 1,        8 * MIB,
                               8 * MIB + 1,   16 * MIB - 1,  16 * MIB,           17 * MIB + 5,
                               32 * MIB,      33 * MIB + 77, 64 * MIB,           64 * MIB + 1,
                               75 * MIB + 13, 100 * MIB,     32 * MIB + 8 * MIB, 256 << 10};
#define COUNT (sizeof(sizes) / sizeof(sizes[0]))

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void every_byte_arrives_in_any_order_of_threads_and_engine(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6 * COUNT; i++)
        for (unsigned in = 0; in < 2; in++) {
            size_t n = sizes[i % COUNT], bytes = 0;
            anew(NULL);
            has.seed = i;
            assert_true(run(n, in, true));
            assert_int_equal(made.result, CUDA_SUCCESS);
            assert_memory_equal(host_bytes, device_bytes,
                                (n + GRAIN - 1) / GRAIN * sizeof(uint32_t));
            assert_int_equal(made.copies, has.asked);
            for (unsigned p = 0; p < has.asked; p++)
                bytes += has.queue[p].bytes;
            assert_int_equal(bytes, n);
            assert_int_equal(has.bypassed + has.cached, n);
            /* Large copies to the device leave the ring's bytes in the caches. */
            assert_int_equal(has.cached, in && n > 64 * MIB ? n : 0);
            assert_int_equal(has.taken, least((n + ZC_RING_SLOT - 1) / ZC_RING_SLOT, 4));
            assert_int_equal(has.given, has.taken);
            assert_int_equal(has.wanted, least(n / MIB + 1, 14));
            assert_int_equal(has.events, least(n / MIB + 1, 20));
            assert_true(has.most_flying <= has.events);
            assert_true(has.waited && has.over && has.drained == 0 && has.reached == 0);
            /* The link works before threads start. */
            assert_true(in || has.first_asked >= least(has.asked, 3));
        }
}

/* Small where the other side waits, else as large as a slot. */
static void parts_are_small_where_the_other_side_waits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        size_t n = sizes[i / 2], sent = 0;
        bool in = i % 2;
        anew(NULL);
        assert_true(run(n, in, true));
        for (unsigned p = 0; p < has.asked; p++) {
            bool small = in ? sent < 8 * MIB : n - sent < 16 * MIB;
            assert_int_equal(has.queue[p].bytes, least(n - sent, small ? MIB : 8 * MIB));
            assert_int_equal(in ? has.queue[p].dst : has.queue[p].src, DEVICE + sent);
            sent += has.queue[p].bytes;
        }
    }
}

static void few_slots_are_enough(void **state)
{
    (void)state;
    for (unsigned i = 1; i < 16; i++)
        for (unsigned in = 0; in < 2; in++) {
            anew(NULL);
            has.seed = i;
            has.free_slots = i % 4 + 1;
            has.poor = i & 8 ? has.free_slots : 0;
            bool any = has.poor != 1;
            assert_int_equal(run(75 * MIB + 5, in, true), any);
            assert_int_equal(has.given, least(has.free_slots, 4));
            if (any)
                assert_memory_equal(host_bytes, device_bytes, 75 * MIB / GRAIN * sizeof(uint32_t));
            assert_true(any || (has.asked == 0 && made.copies == 99));
        }
}

static void without_slots_events_or_a_record_nothing_is_done(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        has.free_slots = i == 0 ? 0 : SLOTS;
        has.no_crew = i == 1;
        has.no_event = i >= 2 ? i * 4 - 7 : 0;
        assert_false(run(32 * MIB, true, true));
        assert_int_equal(has.asked + has.bypassed + has.grown, 0);
        assert_true(made.copies == 99 && made.result == CUDA_SUCCESS);
        assert_int_equal(has.given, has.taken);
    }
}

static void a_failure_ends_the_copy_with_its_code_once_nothing_is_under_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 80; i++) {
        bool in = i & 1, refused = i & 2;
        anew(NULL);
        has.seed = i;
        *(refused ? &has.refuses : &has.breaks) = i / 4 % 12 + 1;
        assert_true(run(75 * MIB, in, true));
        assert_int_equal(made.result,
                         refused ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ECC_UNCORRECTABLE);
        assert_true(has.drained == 1 && has.waited && has.given == has.taken);
        assert_true(!refused || has.asked == i / 4 % 12);
        assert_int_equal(made.copies, has.asked);
    }
}

static void memory_out_of_reach_is_left_to_the_driver(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        bool in = i & 1;
        anew(NULL);
        has.seed = i;
        has.unreachable = HOST + (i * 977 % 300) * (256 << 10) + 5;
        assert_false(run(75 * MIB, in, false));
        assert_true(made.result == CUDA_SUCCESS && made.copies == 99 && has.drained == 1);
        assert_true(has.over && has.given == has.taken);
        anew(NULL);
        has.seed = i;
        assert_true(run(33 * MIB + 7, in, false));
        assert_int_equal(has.reached, 33 * MIB + 7);
        assert_memory_equal(host_bytes, device_bytes, 33 * MIB / GRAIN * sizeof(uint32_t));
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_arrives_in_any_order_of_threads_and_engine),
        TEST(parts_are_small_where_the_other_side_waits),
        TEST(few_slots_are_enough),
        TEST(without_slots_events_or_a_record_nothing_is_done),
        TEST(a_failure_ends_the_copy_with_its_code_once_nothing_is_under_way),
        TEST(memory_out_of_reach_is_left_to_the_driver),
    };
    return RUN_TESTS(tests);
}
