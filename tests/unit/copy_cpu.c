/* SPDX-License-Identifier: MIT */
/* Copies by the CPU: every byte at its turn, and which copies it may make. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/memory.h"
#include "copy/cpu.h"
#include "driver/stream.h"
#include "ledger/unwind.h"
#include "memory/workers.h"
#include "real_test.h"

#define STREAM ((CUstream)0x77)
#define ALL ((size_t)1 << 18)

static struct {
    CUresult drained, context_drained, launched;
    unsigned drains, contexts;
    CUcontext context[2];
    unsigned type;
    bool readable, short_of_memory, managed;
    CUhostFn function; /* In the stream. */
    void *data;
    size_t live, own_pages, arena_most, mapped; /* Bytes of records. */
} has;

static char from[ALL], to[ALL], wanted[ALL];

static CUresult fake_drain(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    has.drains++;
    return has.drained;
}

static CUresult fake_drain_context(CUcontext context)
{
    has.context[has.contexts++ % 2] = context;
    return has.context_drained;
}

static void *fake_get(size_t n)
{
    has.live += n;
    has.arena_most = n > has.arena_most ? n : has.arena_most;
    return has.short_of_memory ? NULL : malloc(n);
}

static void fake_put(void *p, size_t n)
{
    assert_non_null(p);
    has.live -= n;
    free(p);
}

static void *fake_map(void *at, size_t n, int rights, int flags, int fd, off_t offset)
{
    assert_true(!at && fd == -1 && !offset && (flags & MAP_ANONYMOUS));
    assert_int_equal(rights, PROT_READ | PROT_WRITE);
    has.own_pages += n;
    has.mapped = n;
    return has.short_of_memory ? MAP_FAILED : malloc(n);
}

static int fake_unmap(void *p, size_t n)
{
    has.own_pages -= n;
    free(p);
    return 0;
}

static unsigned fake_type(CUdeviceptr address)
{
    (void)address;
    return has.type;
}

static bool fake_readable(uint64_t address)
{
    (void)address;
    return has.readable;
}

static void fake_copy(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}

static CUresult launch(CUstream stream, CUhostFn function, void *data)
{
    assert_ptr_equal(stream, STREAM);
    has.function = function;
    has.data = data;
    return has.launched;
}

static bool fake_managed(CUdeviceptr address)
{
    (void)address;
    return has.managed;
}

#define zc_stream_drain fake_drain
#define zc_stream_drain_context fake_drain_context
#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_memory_map fake_map
#define zc_memory_unmap fake_unmap
#define zc_memory_type fake_type
#define zc_memory_managed fake_managed
#define zc_readable fake_readable
#define zc_workers_copy fake_copy
#include "../../shim/copy/cpu.c"

static struct zc_block block, other;
static struct zc_extent *const extent = (struct zc_extent *)0x1000;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuLaunchHostFunc_ptsz = launch;
    for (size_t i = 0; i < ALL; i++)
        from[i] = (char)(i * 31 + i / 251);
    memset(to, 0x5a, ALL);
    memset(wanted, 0x5a, ALL);
    memset(&block, 0, sizeof(block));
    memset(&other, 0, sizeof(other));
    return 0;
}

static struct zc_copy line(size_t n, enum zc_way way)
{
    return (struct zc_copy){.way = way,
                            .shape = ZC_SHAPE_LINE,
                            .bytes = n,
                            .stream = STREAM,
                            .flavour = ZC_PER_THREAD,
                            .async = true,
                            .extent = {1, 1, 1},
                            .dst = {.address = (CUdeviceptr)to, .pitch = 64, .slice = 128},
                            .src = {.address = (CUdeviceptr)from, .pitch = 64, .slice = 128}};
}

/* Three slices of four rows of five bytes, and what they are in `to`. */
static struct zc_copy box(enum zc_way way)
{
    struct zc_copy c = line(60, way);
    c.shape = ZC_SHAPE_STRIDED;
    c.extent[0] = 5;
    c.extent[1] = 4;
    c.extent[2] = 3;
    c.dst.pitch = 7;
    c.dst.slice = 100;
    c.src.pitch = 6;
    c.src.slice = 30;
    for (unsigned z = 0; z < 3; z++)
        for (unsigned y = 0; y < 4; y++)
            memcpy(wanted + z * 100 + y * 7, from + z * 30 + y * 6, 5);
    return c;
}

static void a_copy_at_once_has_every_byte_of_its_shape(void **state)
{
    (void)state;
    struct zc_copy c = line(1000, ZC_WAY_CPU);
    memcpy(wanted, from, 1000);
    zc_cpu_copy(&c);
    assert_memory_equal(to, wanted, ALL);
    anew(NULL);
    c = box(ZC_WAY_CPU);
    zc_cpu_copy(&c);
    assert_memory_equal(to, wanted, ALL);
    assert_true(has.drains == 0 && !has.function && c.result == CUDA_SUCCESS);
}

static void a_copy_that_waits_comes_behind_the_stream_or_not_at_all(void **state)
{
    (void)state;
    struct zc_copy c = box(ZC_WAY_CPU_WAIT);
    has.drained = CUDA_ERROR_LAUNCH_FAILED;
    zc_cpu_copy(&c);
    assert_int_equal(c.result, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(to[0], 0x5a);
    has.drained = CUDA_SUCCESS;
    zc_cpu_copy(&c);
    assert_int_equal(c.result, CUDA_SUCCESS);
    assert_memory_equal(to, wanted, ALL);
    assert_true(has.drains == 2 && !has.function);
}

static void a_call_that_names_contexts_waits_for_them(void **state)
{
    static const CUcontext a = (CUcontext)0x1, b = (CUcontext)0x2;
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        has.contexts = 0;
        struct zc_copy c = line(1, ZC_WAY_CPU_WAIT);
        c.async = i & 1;
        c.dst.context = i & 2 ? a : NULL;
        c.src.context = i & 4 ? b : NULL;
        has.context_drained = i & 8 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        unsigned named = i & 1 ? 0 : (i >> 1 & 1) + (i >> 2 & 1);
        assert_int_equal(zc_copy_drain(&c), named ? has.context_drained : CUDA_SUCCESS);
        assert_int_equal(has.contexts, named == 2 && i & 8 ? 1 : named);
        assert_true(!named || has.context[0] == (i & 2 ? a : b));
        has.contexts = 0;
        has.drained = CUDA_ERROR_NOT_READY;
        assert_int_equal(zc_copy_drain(&c), CUDA_ERROR_NOT_READY);
        assert_int_equal(has.contexts, 0);
        has.drained = CUDA_SUCCESS;
    }
}

static void a_copy_in_order_is_made_when_its_stream_comes_to_it(void **state)
{
    static const size_t sizes[] = {
        1,     256 - sizeof(struct pending), 100, 200, 300, 900, 1100, 4000, 5000, 16000, 17000,
        200000};
    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (unsigned staged = 0; staged < 2; staged++) {
            anew(NULL);
            struct zc_copy c = line(sizes[i], staged ? ZC_WAY_CPU_STAGED : ZC_WAY_CPU_ORDERED);
            zc_cpu_copy(&c);
            assert_int_equal(c.result, CUDA_SUCCESS);
            assert_true(has.function && to[0] == 0x5a && has.drains == 0);
            if (staged) { /* The program writes the source again. */
                memcpy(wanted, from, sizes[i]);
                memset(from, 1, sizes[i]);
            } else {
                memset(from, 1, sizes[i]);
                memcpy(wanted, from, sizes[i]);
            }
            assert_true(has.live + has.own_pages >= (staged ? sizes[i] : 1));
            has.function(has.data);
            assert_memory_equal(to, wanted, ALL);
            assert_true(has.live == 0 && has.own_pages == 0);
            /* The arena keeps sizes, so it gets few; larger ones get what they need. */
            assert_true(has.mapped ? staged && sizes[i] > 15000
                                   : has.arena_most == 256 || has.arena_most == 1024 ||
                                         has.arena_most == 4096 || has.arena_most == 16384);
            assert_true(has.mapped < sizes[i] + 256);
            assert_true(staged || has.arena_most == 256);
            assert_true(!staged || sizes[i] > 256 - sizeof(struct pending) ||
                        has.arena_most == 256);
        }
    anew(NULL);
    struct zc_copy c = box(ZC_WAY_CPU_ORDERED);
    zc_cpu_copy(&c);
    has.function(has.data);
    assert_memory_equal(to, wanted, ALL);
}

static void a_stream_that_takes_no_function_says_so(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct zc_copy c = line(i ? 100 : 20000, ZC_WAY_CPU_STAGED);
        has.launched = CUDA_ERROR_INVALID_HANDLE;
        zc_cpu_copy(&c);
        assert_int_equal(c.result, CUDA_ERROR_INVALID_HANDLE);
        assert_true(has.live == 0 && has.own_pages == 0);
        assert_memory_equal(to, wanted, ALL);
    }
}

static void without_memory_for_a_record_the_call_waits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct zc_copy c = line(i ? 100 : 20000, ZC_WAY_CPU_STAGED);
        memcpy(wanted, from, c.bytes);
        has.short_of_memory = true;
        zc_cpu_copy(&c);
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_null(has.function);
        assert_int_equal(has.drains, i + 1);
        assert_memory_equal(to, wanted, ALL);
    }
}

/* A side in a block of libzc's. */
static struct zc_operand in_place(enum zc_place_id place, enum zc_kind asked, enum zc_kind real)
{
    block.flags = ZC_BLOCK_CONVERTED;
    block.place = place & 7;
    return (struct zc_operand){
        .side = ZC_SIDE_DEVICE, .asked = asked, .real = real, .block = &block, .address = 16};
}

static struct zc_operand pageable(enum zc_side side)
{
    return (struct zc_operand){
        .side = side, .asked = ZC_KIND_PAGEABLE, .real = ZC_KIND_PAGEABLE, .address = 16};
}

static bool able(struct zc_operand dst, struct zc_operand src)
{
    struct zc_copy c = {.dst = dst, .src = src};
    return zc_cpu_able(&c);
}

static void the_cpu_copies_what_it_reaches(void **state)
{
    (void)state;
    has.readable = true;
    const struct zc_operand host = pageable(ZC_SIDE_HOST);
    struct zc_operand b = in_place(ZC_PLACE_MAPPED, ZC_KIND_DEVICE, ZC_KIND_PINNED);
    assert_true(able(b, host) && able(host, b));
    b = in_place(ZC_PLACE_VMM, ZC_KIND_DEVICE, ZC_KIND_PINNED); /* Spilled. */
    assert_true(able(b, host));
    b = in_place(ZC_PLACE_SHARED, ZC_KIND_DEVICE, ZC_KIND_PINNED);
    assert_true(able(b, host) && able(host, b));
    b = in_place(ZC_PLACE_SHARED, ZC_KIND_DEVICE, ZC_KIND_DEVICE);
    assert_false(able(b, host) || able(host, b));
    b = in_place(ZC_PLACE_VMM, ZC_KIND_DEVICE, ZC_KIND_DEVICE);
    assert_false(able(b, host) || able(host, b));
    b = in_place(ZC_PLACE_MANAGED, ZC_KIND_DEVICE, ZC_KIND_MANAGED);
    assert_false(able(b, host));
    b = in_place(ZC_PLACE_DEVICE, ZC_KIND_PINNED, ZC_KIND_PINNED);
    block.flags = 0; /* The driver's. */
    assert_true(able(b, host) && able(host, b));
    block.flags = ZC_BLOCK_FOREIGN;
    assert_true(able(b, host));
    block.flags = ZC_BLOCK_FOREIGN | ZC_BLOCK_READ_ONLY;
    assert_true(!able(b, host) && able(host, b));
    block.flags = ZC_BLOCK_FOREIGN;
    block.api = ZC_API_cuMemCreate; /* A mapping says who may touch it. */
    assert_false(able(b, host));
    block.api = ZC_API_malloc;
    b.real = ZC_KIND_PAGEABLE;
    assert_false(able(b, host));
    b.extent = (struct zc_extent *)extent; /* Of the host heap. */
    assert_true(able(b, host));
}

static void an_address_that_nobody_knows_may_be_a_devices(void **state)
{
    (void)state;
    struct zc_operand host = pageable(ZC_SIDE_HOST), any = pageable(ZC_SIDE_ANY);
    assert_true(able(host, host));
    assert_false(able(any, host)); /* It is not readable. */
    has.readable = true;
    assert_true(able(any, host));
    has.type = CU_MEMORYTYPE_DEVICE;
    assert_false(able(any, host) || able(host, host));
    has.type = 0;
    host.real = ZC_KIND_DEVICE;
    assert_false(able(host, any));
    host = pageable(ZC_SIDE_HOST);
    assert_true(able(host, any));
    has.type = 0;
    host.address = 0; /* Nobody's. */
    assert_false(able(host, any));
    assert_true(able(any, any));
}

static bool unwaited(struct zc_operand dst, struct zc_operand src)
{
    struct zc_copy c = {.dst = dst, .src = src};
    return zc_cpu_unwaited(&c) && (c.dst = src, c.src = dst, zc_cpu_unwaited(&c));
}

static void a_call_does_not_wait_for_what_the_program_takes_for_device_memory(void **state)
{
    (void)state;
    const struct zc_operand mapped = in_place(ZC_PLACE_MAPPED, ZC_KIND_DEVICE, ZC_KIND_PINNED);
    struct zc_operand b = {.side = ZC_SIDE_DEVICE, .address = 16, .block = &other};
    has.type = CU_MEMORYTYPE_DEVICE;
    assert_true(unwaited(mapped, b)); /* The driver's own, as it says. */
    has.managed = true;
    assert_false(unwaited(mapped, b));
    has.managed = false;
    has.type = CU_MEMORYTYPE_HOST;
    assert_false(unwaited(mapped, b));
    b.side = ZC_SIDE_ARRAY;
    assert_true(unwaited(mapped, b));
    b.side = ZC_SIDE_NONE;
    assert_true(unwaited(mapped, b));
    assert_false(unwaited(b, b));
    assert_true(unwaited(mapped, mapped));
    b = in_place(ZC_PLACE_PINNED, ZC_KIND_PINNED, ZC_KIND_PINNED);
    assert_false(unwaited(mapped, b));
    has.type = CU_MEMORYTYPE_DEVICE;
    b = in_place(ZC_PLACE_VMM, ZC_KIND_DEVICE, ZC_KIND_DEVICE);
    assert_false(unwaited(b, b));
    assert_true(unwaited(mapped, b));
}

static uint32_t facts(struct zc_copy *c)
{
    return zc_cpu_facts(c);
}

static void a_plan_is_told_what_the_cpu_would_copy(void **state)
{
    (void)state;
    const struct zc_operand mapped = in_place(ZC_PLACE_MAPPED, ZC_KIND_DEVICE, ZC_KIND_PINNED);
    struct zc_operand device = {.real = ZC_KIND_DEVICE};
    for (unsigned i = 0; i < 3; i++) {
        struct zc_copy c = {.shape = ZC_SHAPE_LINE, .bytes = (uint64_t)1 << 20};
        c.dst = i == 0 ? mapped : device;
        c.src = i == 1 ? mapped : device;
        uint32_t there = i < 2 ? ZC_FACT_MAPPED : 0;
        assert_int_equal(facts(&c), there | ZC_FACT_SHORT);
        c.bytes++;
        assert_int_equal(facts(&c), there);
        c.bytes = 1;
        c.order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        assert_int_equal(facts(&c), there);
        c.order = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        assert_int_equal(facts(&c), there | ZC_FACT_SHORT | ZC_FACT_FROM_PAGEABLE);
        c.order = 0;
        c.shape = ZC_SHAPE_STRIDED;
        assert_int_equal(facts(&c), there);
        c.shape = ZC_SHAPE_SET;
        assert_int_equal(facts(&c), 0);
        c.src.real = ZC_KIND_PAGEABLE;
        assert_true(facts(&c) & ZC_FACT_FROM_PAGEABLE);
        c.src.real = ZC_KIND_PINNED;
        c.dst.real = ZC_KIND_PAGEABLE;
        assert_int_equal(facts(&c), ZC_FACT_TO_PAGEABLE);
        c.dst.real = ZC_KIND_PINNED;
        c.dst.staged = true;
        assert_int_equal(facts(&c), ZC_FACT_TO_PAGEABLE);
        c.src.staged = true;
        assert_int_equal(facts(&c), ZC_FACT_TO_PAGEABLE | ZC_FACT_FROM_PAGEABLE);
    }
    for (enum zc_place_id place = 0; place < ZC_PLACE_COUNT; place++)
        for (unsigned host = 0; host < 2; host++) {
            struct zc_copy c = {.shape = ZC_SHAPE_STRIDED, .src = device};
            c.dst = in_place(place, ZC_KIND_DEVICE, host ? ZC_KIND_PINNED : ZC_KIND_DEVICE);
            bool there = place == ZC_PLACE_MAPPED ||
                         (host && (place == ZC_PLACE_VMM || place == ZC_PLACE_SHARED));
            assert_int_equal(facts(&c), there ? ZC_FACT_MAPPED : 0);
        }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_at_once_has_every_byte_of_its_shape),
        TEST(a_copy_that_waits_comes_behind_the_stream_or_not_at_all),
        TEST(a_call_that_names_contexts_waits_for_them),
        TEST(a_copy_in_order_is_made_when_its_stream_comes_to_it),
        TEST(a_stream_that_takes_no_function_says_so),
        TEST(without_memory_for_a_record_the_call_waits),
        TEST(the_cpu_copies_what_it_reaches),
        TEST(an_address_that_nobody_knows_may_be_a_devices),
        TEST(a_call_does_not_wait_for_what_the_program_takes_for_device_memory),
        TEST(a_plan_is_told_what_the_cpu_would_copy),
    };
    return RUN_TESTS(tests);
}
