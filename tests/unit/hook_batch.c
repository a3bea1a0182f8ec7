/* SPDX-License-Identifier: MIT */
/* Batches: all memory is ready before the driver gets one, each element is counted as a copy, and a
 * batch that the driver can't be given is made element by element. */
#include "hook_test.h"

#include "copy/staged.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/unknown.h"
#include "hook/copy.h"
#include "hook/parts.h"

#define STREAM ((CUstream)0x5)
#define PLACE ((void *)0x111) /* The caller's frame, and where it is in it. */
#define BORDER (HOOK_BLOCK(2) + ZC_BLOCK_PART)
#define OUTSIDE ((CUdeviceptr)0x8000)

static struct {
    CUresult value, launch, begun, wait, managed;            /* Answers of the neighbours. */
    CUdeviceptr unreached, stale, closed, staged, completed; /* Destinations of such elements. */
    uint64_t now;
} has;

static unsigned long long whole(CUdeviceptr address)
{
    return address;
}

static void fake_resolve(struct zc_copy *c)
{
    c->dst.block = hook_placed(c->dst.address);
    if (c->src.side != ZC_SIDE_NONE)
        c->src.block = hook_placed(c->src.address);
}

static bool fake_reaches(struct zc_copy *c)
{
    fake_resolve(c);
    return !has.unreached || c->dst.address != has.unreached;
}

static bool fake_staged(const struct zc_copy *c)
{
    return has.staged && c->dst.address == has.staged;
}

static CUresult fake_end(struct zc_copy *c)
{
    assert_ptr_equal(c->frame, PLACE);
    assert_ptr_equal(c->pc, (char *)PLACE + 1);
    assert_ptr_equal(c->dst.block, hook_placed(c->dst.address));
    tell("%s %llx+%llu, %llu ticks: %d", c->shape == ZC_SHAPE_PREFETCH ? "prefetched" : "counted",
         whole(c->dst.address), whole(c->bytes), whole(has.now - c->start), c->result);
    return c->result;
}

static CUresult fake_wait(const struct zc_copy *c)
{
    assert_ptr_equal(c->stream, STREAM);
    tell("waits behind %llx", whole(c->dst.address));
    return has.wait;
}

static bool fake_holds(CUstream stream, enum zc_flavour flavour)
{
    return hook.capture && stream == STREAM && flavour == ZC_LEGACY;
}

static CUresult fake_value(enum zc_fn fn)
{
    (void)fn;
    tell("unknown value");
    return has.value;
}

static CUresult fake_border(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    (void)fn;
    tell("border behind %llx: %d", whole(address), code);
    return code;
}

static CUresult fake_stale(const struct zc_copy *c)
{
    return has.stale && c->dst.address == has.stale ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_open(const struct zc_copy *c)
{
    tell("open %llx+%zx<%llx+%zx%s", whole(c->dst.address), c->dst.span, whole(c->src.address),
         c->src.side == ZC_SIDE_NONE ? 0 : c->src.span,
         c->facts & ZC_FACT_CAPTURE ? ", in captures" : "");
    return has.closed && c->dst.address == has.closed ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static CUresult fake_launch(enum zc_fn fn, enum zc_flavour flavour, CUstream stream)
{
    (void)fn;
    assert_true(flavour == ZC_LEGACY && (stream == STREAM || !stream));
    tell("launch");
    return has.launch;
}

static bool fake_begin(struct zc_copy *c)
{
    tell("begin %llx<%llx", whole(c->dst.address), whole(c->src.address));
    c->start = has.now;
    fake_resolve(c);
    return has.completed && c->dst.address == has.completed;
}

static CUresult fake_drain(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_LEGACY);
    tell("drained");
    return has.wait;
}

static CUresult fake_refuse(const CUdeviceptr *addresses, size_t count)
{
    assert_true(addresses && count == 2);
    return has.managed;
}

#define zc_refuse_managed_in fake_refuse
#define zc_copy_resolve fake_resolve
#define zc_copy_reaches fake_reaches
#define zc_copy_staged fake_staged
#define zc_copy_begin fake_begin
#define zc_copy_end fake_end
#define zc_staged_wait fake_wait
#define zc_capture_holds fake_holds
#define zc_capture_any() (hook.capture)
#define zc_unknown_value fake_value
#define zc_diagnose_border fake_border
#define zc_sides_end_stale fake_stale
#define zc_sides_open fake_open
#define zc_launch_before fake_launch
#define zc_stream_drain fake_drain
#define zc_ticks() (has.now)
#include "../../shim/hook/batch.c"

static const struct zc_entry entry = {.frame = PLACE, .pc = (char *)PLACE + 1};
static CUdeviceptr dsts[2], srcs[2];
static size_t sizes[2], failed;
static CUmemcpyAttributes attributes[2];
static size_t indices[2];
static CUDA_MEMCPY3D_BATCH_OP ops[2];
static CUmemDecompressParams packed[2];
static cuuint32_t unpacked[2]; /* Bytes that each gave. */

static CUresult driver_lines(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                             CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
                             size_t *fail_index, CUstream stream)
{
    (void)to, (void)from, (void)bytes, (void)attrs, (void)attr_indices, (void)attr_count;
    (void)fail_index, (void)stream;
    has.now += 400;
    tell("driver: %zu", count);
    return hook.driver;
}

static CUresult driver_boxes(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *fail_index,
                             unsigned long long flags, CUstream stream)
{
    (void)list, (void)fail_index, (void)flags, (void)stream;
    tell("driver: %zu boxes", count);
    return hook.driver;
}

static CUresult driver_unpack(CUmemDecompressParams *params, size_t count, unsigned flags,
                              size_t *error_index, CUstream stream)
{
    (void)params, (void)flags, (void)error_index, (void)stream;
    tell("driver: unpacks %zu", count);
    return hook.driver;
}

static CUresult driver_prefetch(CUdeviceptr *ptrs, size_t *bytes, size_t count,
                                CUmemLocation *locations, size_t *location_indices,
                                size_t location_count, unsigned long long flags, CUstream stream)
{
    (void)ptrs, (void)bytes, (void)locations, (void)location_indices, (void)location_count;
    (void)flags, (void)stream;
    has.now += 400;
    tell("driver: prefetches %zu", count);
    return hook.driver;
}

static CUresult driver_copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    tell("driver: %llx<%llx+%zu", whole(dst), whole(src), bytes);
    return dst == BORDER ? hook.driver : CUDA_SUCCESS;
}

static CUresult driver_box(const CUDA_MEMCPY3D *p, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    tell("driver: box %llx<%llx", whole(p->dstDevice), whole(p->srcDevice));
    return CUDA_SUCCESS;
}

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    has.now = 1000;
    hook_hosted(2)->size = 2 * ZC_BLOCK_PART; /* With a border in it. */
    zc_real.cuMemcpyAsync = driver_copy;
    zc_real.cuMemcpy3DAsync_v2 = driver_box;
    failed = 99;
    for (unsigned i = 0; i < 2; i++) {
        dsts[i] = HOOK_BLOCK(0) + 0x100 * i;
        srcs[i] = HOOK_BLOCK(1) + 0x100 * i;
        sizes[i] = 16 + i;
        attributes[i] = (CUmemcpyAttributes){.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
        indices[i] = i;
        ops[i] = (CUDA_MEMCPY3D_BATCH_OP){
            .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = srcs[i]},
            .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = dsts[i]},
            .extent = {.width = 8, .height = 1, .depth = 1},
            .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
        packed[i] = (CUmemDecompressParams){.srcNumBytes = 8,
                                            .dstNumBytes = 0x20,
                                            .dstActBytes = &unpacked[i],
                                            .src = (void *)srcs[i],
                                            .dst = (void *)dsts[i]};
    }
    return 0;
}

static CUresult copy_lines(CUstream stream)
{
    return zc_do_cuMemcpyBatchAsync(driver_lines, &entry, dsts, srcs, sizes, 2, attributes, indices,
                                    2, &failed, stream);
}

static CUresult copy_boxes(unsigned long long flags)
{
    return zc_do_cuMemcpy3DBatchAsync(driver_boxes, &entry, 2, ops, &failed, flags, STREAM);
}

static CUresult unpack(unsigned count)
{
    return zc_do_cuMemBatchDecompressAsync(driver_unpack, &entry, packed, count, 0, &failed,
                                           STREAM);
}

#define FIRST "retreat of 1: a call writes it that is no copy; open 10000000+10<20000000+10"
#define SECOND "retreat of 1: a call writes it that is no copy; open 10000100+11<20000100+11"

static void all_memory_is_ready_before_a_batch_and_each_element_counts_with_its_share(void **state)
{
    (void)state;
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_told("hold; " FIRST "; " SECOND "; launch; driver: 2; "
                "counted 10000000+16, 200 ticks: 0; counted 10000100+17, 200 ticks: 0; unhold");
    assert_int_equal(failed, 99);
}

static void a_batch_without_a_list_is_the_driver_s_to_refuse(void **state)
{
    (void)state;
    hook.driver = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_do_cuMemcpyBatchAsync(driver_lines, &entry, dsts, NULL, sizes, 2,
                                              attributes, indices, 2, &failed, STREAM),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(zc_do_cuMemcpy3DBatchAsync(driver_boxes, &entry, 2, NULL, &failed, 0, STREAM),
                     CUDA_ERROR_INVALID_VALUE);
    assert_told("hold; launch; driver: 2; unhold; hold; launch; driver: 2 boxes; unhold");
    hook.driver = CUDA_SUCCESS;
    assert_int_equal(zc_do_cuMemcpyBatchAsync(driver_lines, &entry, dsts, srcs, sizes, 0,
                                              attributes, indices, 0, &failed, STREAM),
                     CUDA_SUCCESS);
    assert_told("hold; launch; driver: 0; unhold");
}

static void an_element_that_can_t_be_made_ready_refuses_the_batch_and_is_named(void **state)
{
    (void)state;
    has.unreached = dsts[1];
    hook.refusal = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(failed, 1);
    assert_told("hold; " FIRST "; unhold");
    has.unreached = 0;
    has.stale = dsts[0];
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_UNKNOWN);
    assert_int_equal(failed, 0);
    assert_told("hold; retreat of 1: a call writes it that is no copy; unhold");
    has.stale = 0;
    has.closed = dsts[1];
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(failed, 1);
    assert_told("hold; " FIRST "; " SECOND "; diagnosed 10000100: 800; unhold");
    hook.retreat = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_do_cuMemcpyBatchAsync_v2((void *)driver_lines, &entry, dsts, srcs, sizes, 2,
                                                 attributes, indices, 2, STREAM),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("hold; retreat of 1: a call writes it that is no copy; unhold");
}

static void a_batch_is_not_made_where_a_launch_would_not_be(void **state)
{
    (void)state;
    has.launch = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(failed, 99);
    assert_told("hold; " FIRST "; " SECOND "; launch; unhold");
}

static void a_batch_in_a_capture_becomes_a_node_that_libzc_may_not_know(void **state)
{
    (void)state;
    hook.capture = true;
    assert_int_equal(zc_do_cuMemcpyBatchAsync(driver_lines, &entry, dsts, srcs, sizes, 1,
                                              attributes, indices, 1, &failed, STREAM),
                     CUDA_SUCCESS);
    assert_told("hold; unknown value; retreat of 1, kept: a call writes it that is no copy; "
                "retreat of 2, kept: a graph copies it; "
                "open 10000000+10<20000000+10, in captures; launch; driver: 1; "
                "counted 10000000+16, 400 ticks: 0; unhold");
    has.value = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_told("hold; unknown value; unhold");
    hook_off(); /* Then nothing is asked. */
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_told("hold; launch; driver: 2; unhold");
}

static void an_order_that_libzc_does_not_know_is_prepared_for_as_an_unknown_call(void **state)
{
    (void)state;
    ops[1].srcAccessOrder = (CUmemcpySrcAccessOrder)77;
    assert_int_equal(copy_boxes(0), CUDA_SUCCESS);
    assert_told("hold; retreat of 1: a call writes it that is no copy; open 10000000+8<20000000+8; "
                "unknown value; retreat of 1: a call writes it that is no copy; "
                "open 10000100+8<20000100+8; launch; driver: 2 boxes; "
                "counted 10000000+8, 0 ticks: 0; counted 10000100+8, 0 ticks: 0; unhold");
    has.value = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(copy_boxes(0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(failed, 1);
}

static void a_refused_batch_names_its_first_block(void **state)
{
    (void)state;
    hook.driver = CUDA_ERROR_NOT_PERMITTED;
    dsts[0] = srcs[0] = OUTSIDE;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_NOT_PERMITTED);
    dsts[1] = OUTSIDE;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_NOT_PERMITTED);
    srcs[1] = OUTSIDE;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_NOT_PERMITTED);
    assert_told("hold; open 8000+10<8000+10; " SECOND "; launch; driver: 2; "
                "diagnosed 10000100: 800; unhold; "
                "hold; open 8000+10<8000+10; open 8000+11<20000100+11; launch; driver: 2; "
                "diagnosed 20000100: 800; unhold; "
                "hold; open 8000+10<8000+10; open 8000+11<8000+11; launch; driver: 2; unhold");
    srcs[1] = HOOK_BLOCK(1); /* Behind the last element is nobody's. */
    assert_int_equal(zc_do_cuMemcpyBatchAsync(driver_lines, &entry, dsts, srcs, sizes, 1,
                                              attributes, indices, 1, &failed, STREAM),
                     CUDA_ERROR_NOT_PERMITTED);
    assert_told("hold; open 8000+10<8000+10; launch; driver: 1; unhold");
}

static void an_invalid_value_is_no_block_s_fault_but_where_it_is_unpacked(void **state)
{
    (void)state;
    hook.driver = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_INVALID_VALUE);
    assert_told("hold; " FIRST "; " SECOND "; launch; driver: 2; unhold");
    packed[0].dstActBytes = NULL;
    assert_int_equal(unpack(1), CUDA_ERROR_INVALID_VALUE);
    assert_told(
        "hold; retreat of 1: a call writes it that is no copy; open 10000000+20<20000000+8; "
        "open 0+4<0+0; launch; driver: unpacks 1; diagnosed 10000000: 1; unhold");
    hook_off();
    assert_int_equal(unpack(1), CUDA_ERROR_INVALID_VALUE);
    hook.driver = CUDA_ERROR_NOT_PERMITTED;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_NOT_PERMITTED);
    assert_told("hold; launch; driver: unpacks 1; unhold; hold; launch; driver: 2; unhold");
}

static void what_is_unpacked_writes_its_block_and_a_word_and_counts_as_no_copy(void **state)
{
    (void)state;
    unpacked[0] = 0;
    packed[0].dstNumBytes = 0; /* Up to the end of its block. */
    packed[0].dst = (void *)(HOOK_BLOCK(0) + 0x1000);
    packed[0].dstActBytes = (void *)HOOK_BLOCK(1);
    packed[1].dstNumBytes = 0;
    packed[1].dst = (void *)OUTSIDE;
    packed[1].dstActBytes = NULL;
    assert_int_equal(unpack(2), CUDA_SUCCESS);
    assert_told("hold; retreat of 1: a call writes it that is no copy; "
                "open 10001000+4000<20000000+8; "
                "retreat of 2: a call writes it that is no copy; open 20000000+4<0+0; "
                "open 8000+0<20000100+8; open 0+4<0+0; launch; driver: unpacks 2; unhold");
    has.closed = HOOK_BLOCK(1); /* The word's. */
    assert_int_equal(unpack(2), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(failed, 0);
}

static void memory_that_a_graph_unpacks_and_its_word_stay_what_they_are(void **state)
{
    (void)state;
    packed[0].dstActBytes = (void *)HOOK_BLOCK(2);
    hook.capture = true;
    assert_int_equal(unpack(1), CUDA_SUCCESS);
    assert_told("hold; unknown value; retreat of 1, kept: a call writes it that is no copy; "
                "retreat of 2, kept: a graph copies it; "
                "open 10000000+20<20000000+8, in captures; "
                "retreat of 3, kept: a call writes it that is no copy; "
                "open 30000000+4<0+0, in captures; launch; driver: unpacks 1; unhold");
}

static void a_batch_with_a_block_of_the_host_heap_is_complete_when_the_call_returns(void **state)
{
    (void)state;
    has.staged = dsts[0];
    has.wait = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_LAUNCH_FAILED);
    assert_non_null(strstr(hook_told, "17, 200 ticks: 0; waits behind 10000000"));
    hook_told[0] = '\0';
    hook.capture = true; /* A graph's copies have no end in the call. */
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_null(strstr(hook_told, "waits"));
}

/* The second element crosses a border of its block. */
static void crossing(void)
{
    dsts[1] = BORDER - 8;
    has.staged = 0;
}
#define CROSSED                                                                                    \
    "begin 10000000<20000000; driver: 10000000<20000000+16; counted 10000000+16, 0 ticks: 0; "     \
    "begin 3ffffff8<20000100; driver: 3ffffff8<20000100+17; counted 3ffffff8+17, 0 ticks: 0"

static void a_batch_that_crosses_a_border_is_made_element_by_element(void **state)
{
    (void)state;
    crossing();
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_told("hold; " CROSSED "; unhold");
    has.completed = dsts[1];
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_told("hold; begin 10000000<20000000; driver: 10000000<20000000+16; "
                "counted 10000000+16, 0 ticks: 0; begin 3ffffff8<20000100; "
                "counted 3ffffff8+17, 0 ticks: 0; unhold");
    /* The source's border counts, too, and so does that of a first element. */
    CUdeviceptr first = dsts[0];
    dsts[0] = srcs[1];
    srcs[0] = dsts[1];
    dsts[1] = first;
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_int_equal(failed, 99);
    assert_non_null(strstr(hook_told, "begin 20000100<3ffffff8; driver: 20000100<3ffffff8+16"));
}

static void an_element_that_fails_ends_the_batch_and_is_named(void **state)
{
    (void)state;
    crossing();
    dsts[0] = dsts[1];
    dsts[1] = BORDER;
    hook.driver = CUDA_ERROR_UNKNOWN;
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_UNKNOWN);
    assert_int_equal(failed, 1);
    assert_null(strstr(hook_told, "drained"));
    dsts[0] = BORDER;
    dsts[1] = BORDER - 8;
    hook_told[0] = '\0';
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_UNKNOWN);
    assert_int_equal(failed, 0);
    assert_told("hold; begin 40000000<20000000; driver: 40000000<20000000+16; "
                "counted 40000000+16, 0 ticks: 999; unhold");
}

static void a_source_that_is_read_during_the_call_is_waited_for(void **state)
{
    (void)state;
    crossing();
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_told("hold; " CROSSED "; drained; unhold");
    has.wait = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(copy_lines(STREAM), CUDA_ERROR_LAUNCH_FAILED);
    hook.capture = true;
    hook_told[0] = '\0';
    assert_int_equal(copy_lines(STREAM), CUDA_SUCCESS);
    assert_told("hold; " CROSSED "; unhold");
}

static void what_the_driver_refuses_of_a_batch_is_refused_of_its_elements(void **state)
{
    (void)state;
    crossing();
    assert_int_equal(copy_lines(NULL), CUDA_ERROR_INVALID_VALUE);
#define WITH(attrs, at, n)                                                                         \
    zc_do_cuMemcpyBatchAsync(driver_lines, &entry, dsts, srcs, sizes, 2, attrs, at, n, &failed,    \
                             STREAM)
    assert_int_equal(WITH(NULL, indices, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(WITH(attributes, NULL, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(WITH(attributes, indices, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(WITH(attributes, indices, 3), CUDA_ERROR_INVALID_VALUE);
    indices[0] = 1;
    assert_int_equal(WITH(attributes, indices, 1), CUDA_ERROR_INVALID_VALUE);
    assert_null(strpbrk(hook_told, ":<")); /* Nothing is begun. */
    hook_told[0] = '\0';
    indices[0] = 0;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    assert_int_equal(WITH(attributes, indices, 1), CUDA_SUCCESS);
    assert_told("hold; " CROSSED "; unhold");
    attributes[0] = attributes[1];
    assert_int_equal(WITH(attributes, indices, 1), CUDA_SUCCESS);
    assert_told("hold; " CROSSED "; drained; unhold");
}

static void boxes_over_a_border_are_made_one_by_one_unless_the_driver_refuses_them(void **state)
{
    (void)state;
    ops[1].dst.op.ptr.ptr = BORDER - 4;
    ops[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    assert_int_equal(copy_boxes(0), CUDA_SUCCESS);
    assert_told("hold; begin 10000000<20000000; driver: box 10000000<20000000; "
                "counted 10000000+8, 0 ticks: 0; begin 3ffffffc<20000100; "
                "driver: box 3ffffffc<20000100; counted 3ffffffc+8, 0 ticks: 0; drained; unhold");
    hook.driver = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(copy_boxes(1), CUDA_ERROR_INVALID_VALUE); /* Nobody knows these flags. */
    assert_int_equal(failed, 1);
    assert_told("hold; retreat of 1: a call writes it that is no copy; open 10000000+8<20000000+8; "
                "border behind 3ffffffc: 1; unhold");
}

static void a_box_of_an_array_whose_elements_only_the_driver_knows_is_not_cut(void **state)
{
    (void)state;
    ops[0].dst.op.ptr.ptr = BORDER - 4;
    ops[1].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    ops[1].dst.op.array.array = (CUarray)0x99;
    hook.refusal = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(copy_boxes(0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(failed, 0);
    assert_told("hold; border behind 3ffffffc: 1; unhold");
}

static CUresult prefetch(void)
{
    return zc_do_cuMemPrefetchBatchAsync(driver_prefetch, &entry, dsts, sizes, 2, NULL, NULL, 0, 0,
                                         STREAM);
}

static void managed_memory_is_prefetched_and_counted_but_no_block_of_libzc_s(void **state)
{
    (void)state;
    has.managed = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(prefetch(), CUDA_ERROR_INVALID_VALUE);
    assert_told("");
    has.managed = CUDA_SUCCESS;
    dsts[0] = OUTSIDE;
    dsts[1] = OUTSIDE + 2 * ZC_BLOCK_PAGE;
    has.staged = dsts[0]; /* Nothing is copied, so nothing is waited for. */
    assert_int_equal(prefetch(), CUDA_SUCCESS);
    assert_told("driver: prefetches 2; prefetched 8000+16, 200 ticks: 0; "
                "prefetched a000+17, 200 ticks: 0");
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(prefetch(), CUDA_ERROR_UNKNOWN);
    hook.driver = CUDA_SUCCESS;
    hook_off();
    assert_int_equal(prefetch(), CUDA_SUCCESS);
    assert_told("driver: prefetches 2; driver: prefetches 2");
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_memory_is_ready_before_a_batch_and_each_element_counts_with_its_share),
        TEST(a_batch_without_a_list_is_the_driver_s_to_refuse),
        TEST(an_element_that_can_t_be_made_ready_refuses_the_batch_and_is_named),
        TEST(a_batch_is_not_made_where_a_launch_would_not_be),
        TEST(a_batch_in_a_capture_becomes_a_node_that_libzc_may_not_know),
        TEST(an_order_that_libzc_does_not_know_is_prepared_for_as_an_unknown_call),
        TEST(a_refused_batch_names_its_first_block),
        TEST(an_invalid_value_is_no_block_s_fault_but_where_it_is_unpacked),
        TEST(what_is_unpacked_writes_its_block_and_a_word_and_counts_as_no_copy),
        TEST(memory_that_a_graph_unpacks_and_its_word_stay_what_they_are),
        TEST(a_batch_with_a_block_of_the_host_heap_is_complete_when_the_call_returns),
        TEST(a_batch_that_crosses_a_border_is_made_element_by_element),
        TEST(an_element_that_fails_ends_the_batch_and_is_named),
        TEST(a_source_that_is_read_during_the_call_is_waited_for),
        TEST(what_the_driver_refuses_of_a_batch_is_refused_of_its_elements),
        TEST(boxes_over_a_border_are_made_one_by_one_unless_the_driver_refuses_them),
        TEST(a_box_of_an_array_whose_elements_only_the_driver_knows_is_not_cut),
        TEST(managed_memory_is_prefetched_and_counted_but_no_block_of_libzc_s),
    };
    return RUN_TESTS(tests);
}
