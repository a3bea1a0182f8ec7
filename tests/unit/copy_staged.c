/* SPDX-License-Identifier: MIT */
/* Asynchronous copies of the host heap through the ring: in parts, each from a slot of its own. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "copy/ring.h"
#include "copy/staged.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/workers.h"
#include "real_test.h"

#define STREAM ((CUstream)0x77)
#define HOME ((CUcontext)0x88)
#define DEVICE ((CUdeviceptr)1 << 40)
#define SOURCE ((CUdeviceptr)2 << 40)

static struct {
    bool memory, stuck, closing, owned, marks;
    CUresult sent, waited, drained;
    unsigned fails; /* The number of the copy that the driver refuses; 0: none. */
    unsigned copies, taken, given, mark, drains, waits, relaxed, staged;
    CUdeviceptr dst[16], src[16];
    size_t bytes[16];
    CUevent event[16];
    CUcontext home[16];
    char ring[4];
} has;

/* Asks the driver for what a capture forbids that begins in another thread. */
static unsigned fake_take(void)
{
    assert_int_equal(has.relaxed, 1);
    return has.taken++;
}

static char *fake_memory(unsigned slot)
{
    return has.memory ? &has.ring[slot % 4] : NULL;
}

static void fake_give(unsigned slot, CUevent event, CUcontext home)
{
    assert_int_equal(slot, has.given);
    has.event[slot] = event;
    has.home[has.given++] = home;
}

static void fake_workers(void *dst, const void *src, size_t n)
{
    assert_ptr_equal(dst, &has.ring[has.copies % 4]);
    assert_int_equal((CUdeviceptr)src, SOURCE + has.copies * ZC_RING_SLOT);
    has.bytes[has.copies] = n;
    has.staged++;
}

static CUresult htod(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    if (has.fails && has.copies + 1 == has.fails)
        return CUDA_ERROR_LAUNCH_FAILED;
    assert_true(!has.memory || has.bytes[has.copies] == n);
    has.bytes[has.copies] = n;
    has.dst[has.copies] = dst;
    has.src[has.copies++] = (CUdeviceptr)src;
    return CUDA_SUCCESS;
}

static CUevent fake_mark(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    has.mark++;
    return has.marks ? (CUevent)(uintptr_t)(0x100 + has.mark) : NULL;
}

static CUresult fake_wait_mark(CUevent event)
{
    assert_ptr_equal(event, (CUevent)(uintptr_t)(0x100 + has.mark));
    has.waits++;
    return has.waited;
}

static CUresult fake_drain(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD && has.relaxed);
    has.drains++;
    return has.drained;
}

static CUcontext fake_context(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    return HOME;
}

static CUstreamCaptureMode fake_relax(void)
{
    has.relaxed++;
    return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
}

static void fake_restore(CUstreamCaptureMode before)
{
    assert_int_equal(before, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    has.relaxed--;
}

static bool fake_stuck(const struct zc_extent *extent)
{
    (void)extent;
    return has.stuck;
}

static uintptr_t fake_block(uint64_t address)
{
    assert_int_equal(address, SOURCE);
    return has.owned;
}

#define zc_ring_take fake_take
#define zc_ring_memory fake_memory
#define zc_ring_give fake_give
#define zc_workers_copy fake_workers
#define zc_stream_mark fake_mark
#define zc_stream_wait_mark fake_wait_mark
#define zc_stream_drain fake_drain
#define zc_stream_context fake_context
#define zc_capture_relax fake_relax
#define zc_capture_restore fake_restore
#define zc_pinned_stuck fake_stuck
#define zc_hostheap_block fake_block
#define zc_life_closing() (has.closing)
#include "../../shim/copy/staged.c"

static struct zc_block block;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuMemcpyHtoDAsync_v2 = NULL;
    zc_real.cuMemcpyHtoDAsync_v2_ptsz = htod;
    has.memory = has.marks = has.owned = true;
    block = (struct zc_block){.base = DEVICE, .size = ZC_RING_BYTES};
    return 0;
}

static struct zc_copy copy_of(size_t n)
{
    return (struct zc_copy){.bytes = n,
                            .shape = ZC_SHAPE_LINE,
                            .stream = STREAM,
                            .flavour = ZC_PER_THREAD,
                            .dst = {.asked = ZC_KIND_DEVICE,
                                    .real = ZC_KIND_DEVICE,
                                    .address = DEVICE,
                                    .block = &block},
                            .src = {.address = SOURCE, .staged = true}};
}

static void every_byte_goes_in_parts_of_a_slot(void **state)
{
    static const size_t sizes[] = {1,
                                   ZC_RING_SLOT - 1,
                                   ZC_RING_SLOT,
                                   ZC_RING_SLOT + 1,
                                   3 * ZC_RING_SLOT,
                                   3 * ZC_RING_SLOT + 5};
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        anew(NULL);
        has.memory = i % 2;
        struct zc_copy c = copy_of(sizes[i / 2]);
        unsigned parts = (unsigned)((c.bytes + ZC_RING_SLOT - 1) / ZC_RING_SLOT);
        zc_staged_send(&c);
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_true(c.copies == parts && has.copies == parts && has.given == parts);
        size_t at = 0;
        for (unsigned p = 0; p < parts; p++) {
            assert_int_equal(has.dst[p], DEVICE + at);
            assert_int_equal(has.src[p], has.memory ? (CUdeviceptr)&has.ring[p % 4] : SOURCE + at);
            at += has.bytes[p];
            assert_true(p + 1 == parts || at % ZC_RING_SLOT == 0);
            /* The ring has the slot back behind its copy; the driver's own is waited for. */
            assert_ptr_equal(has.event[p], has.memory ? (CUevent)(uintptr_t)(0x101 + p) : NULL);
            assert_ptr_equal(has.home[p], has.memory ? HOME : NULL);
        }
        assert_int_equal(at, c.bytes);
        assert_int_equal(has.waits, has.memory ? 0 : parts);
        assert_int_equal(has.staged, has.memory ? parts : 0);
    }
}

static void a_part_that_is_refused_is_the_last(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(4 * ZC_RING_SLOT);
    has.fails = 3;
    zc_staged_send(&c);
    assert_int_equal(c.result, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(has.relaxed, 0);
    assert_true(has.copies == 2 && has.given == 3 && has.taken == 3 && has.mark == 2);
    assert_true(has.event[2] == NULL && has.home[2] == NULL && has.waits == 0);
}

static void without_an_event_a_part_is_waited_for(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(2 * ZC_RING_SLOT);
    has.marks = false;
    zc_staged_send(&c);
    assert_true(c.result == CUDA_SUCCESS && has.drains == 2 && has.copies == 2);
    assert_true(has.event[0] == NULL && has.home[0] == NULL);
    anew(NULL);
    c = copy_of(2 * ZC_RING_SLOT);
    has.marks = false;
    has.drained = CUDA_ERROR_LAUNCH_FAILED;
    zc_staged_send(&c);
    assert_true(c.result == CUDA_ERROR_LAUNCH_FAILED && has.copies == 1 && has.given == 1);
}

/* The driver would read what the device still has. */
static void a_stuck_block_without_a_slot_is_refused(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(100);
    has.stuck = true;
    zc_staged_send(&c);
    assert_int_equal(c.result, CUDA_SUCCESS); /* The ring has its bytes. */
    anew(NULL);
    c = copy_of(100);
    has.stuck = true;
    has.memory = false;
    zc_staged_send(&c);
    assert_true(c.result == CUDA_ERROR_OUT_OF_MEMORY && has.copies == 0 && has.given == 1);
}

static void what_was_put_into_a_stream_is_waited_for_also_during_captures(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(100);
    has.waited = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(zc_staged_wait(&c), CUDA_ERROR_LAUNCH_FAILED);
    assert_true(has.waits == 1 && has.drains == 0 && has.relaxed == 0);
    has.marks = false;
    has.drained = CUDA_ERROR_NOT_READY;
    assert_int_equal(zc_staged_wait(&c), CUDA_ERROR_NOT_READY);
    assert_true(has.waits == 1 && has.drains == 1 && has.relaxed == 0);
}

#define FACTS(expected, change)                                                                    \
    do {                                                                                           \
        anew(NULL);                                                                                \
        zc_real.cuMemcpyHtoDAsync_v2 = htod;                                                       \
        struct zc_copy c = copy_of(ZC_RING_BYTES);                                                 \
        change;                                                                                    \
        assert_int_equal(zc_staged_facts(&c), expected);                                           \
    } while (0)

static void a_plan_is_told_what_the_ring_may_send(void **state)
{
    (void)state;
    const uint32_t from = ZC_FACT_FROM_STAGED;
    FACTS(from | ZC_FACT_RING, ;);
    FACTS(from | ZC_FACT_RING | ZC_FACT_TO_STAGED, c.dst.staged = true);
    FACTS(0, c.src.staged = false);
    FACTS(ZC_FACT_TO_STAGED, (c.src.staged = false, c.dst.staged = true));
    FACTS(from, c.order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
    FACTS(from | ZC_FACT_RING, c.order = CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    FACTS(from, c.shape = ZC_SHAPE_STRIDED);
    FACTS(from, (block.size++, c.bytes++));
    FACTS(from, block.size--);
    FACTS(from, c.dst.block = NULL);
    FACTS(from, has.owned = false);
    FACTS(from, has.closing = true);
    FACTS(from, zc_real.cuMemcpyHtoDAsync_v2 = NULL);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_goes_in_parts_of_a_slot),
        TEST(a_part_that_is_refused_is_the_last),
        TEST(without_an_event_a_part_is_waited_for),
        TEST(a_stuck_block_without_a_slot_is_refused),
        TEST(what_was_put_into_a_stream_is_waited_for_also_during_captures),
        TEST(a_plan_is_told_what_the_ring_may_send),
    };
    return RUN_TESTS(tests);
}
