/* SPDX-License-Identifier: MIT */
/* Shapes of copies and sets: which bytes a side has, and what no driver accepts. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include "base_test.h"

#include <string.h>

#include "driver/copy.h"
#include "driver/stream.h"
#include "ledger/site_path.h"
#include "log/ranges.h"
#include "real_test.h"

static bool closing;
static enum zc_log_level level;
static char frame, pc;

static uint32_t fake_site(void *at, void *from)
{
    assert_true(at == &frame && from == &pc);
    return 7;
}

#define zc_life_closing() closing
#define zc_log_level() level
#define zc_site_here fake_site
#define zc_ranges_here() "epoch"
#define zc_ticks() UINT64_C(1000)
#include "../../shim/driver/copy.c"

#define DEVICE UINT64_C(0x100000)
#define HOST ((void *)0x200000)

static CUgraphNodeType node_type;
static unsigned managed_type;

static CUresult CUDAAPI type_of(CUgraphNode node, CUgraphNodeType *out)
{
    *out = node_type;
    return node == (CUgraphNode)0x10 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI attribute(void *out, CUpointer_attribute which, CUdeviceptr address)
{
    assert_true(which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                which == CU_POINTER_ATTRIBUTE_IS_MANAGED);
    *(unsigned *)out =
        which == CU_POINTER_ATTRIBUTE_IS_MANAGED ? managed_type : CU_MEMORYTYPE_DEVICE;
    return address == DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI descriptor(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    (void)array;
    *out = (CUDA_ARRAY3D_DESCRIPTOR){.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    return CUDA_SUCCESS;
}

static int anew(void **state)
{
    (void)state;
    real_without_driver();
    zc_real.cuGraphNodeGetType = type_of;
    zc_real.cuPointerGetAttribute = attribute;
    zc_real.cuArray3DGetDescriptor_v2 = descriptor;
    closing = false;
    return 0;
}

static CUDA_MEMCPY3D box(size_t width, size_t height, size_t depth)
{
    return (CUDA_MEMCPY3D){.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = DEVICE,
                           .srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = HOST,
                           .WidthInBytes = width,
                           .Height = height,
                           .Depth = depth};
}

/* The bytes of a box are those of all its rows, wherever they lie. */
static void a_side_has_the_bytes_of_all_rows_of_all_slices(void **state)
{
    static const struct {
        ptrdiff_t pitch;
        size_t height, x, y, z;
    } rows[] = {{0, 0, 0, 0, 0},  {64, 0, 4, 0, 0},  {64, 9, 4, 1, 2},
                {16, 5, 4, 2, 1}, {-64, 9, 0, 0, 0}, {-64, 9, 4, 1, 2}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CUDA_MEMCPY3D p = box(12, 3, 4);
        uint64_t pitch = rows[i].pitch ? (uint64_t)rows[i].pitch : 12;
        size_t height = rows[i].height ? rows[i].height : 3;
        uint64_t low = UINT64_MAX, high = 0, step = pitch > INT64_MAX ? 0 - pitch : pitch;
        struct zc_copy c = {0};
        p.dstPitch = (size_t)rows[i].pitch;
        p.dstHeight = rows[i].height;
        p.dstXInBytes = rows[i].x;
        p.dstY = rows[i].y;
        p.dstZ = rows[i].z;
        for (uint64_t z = p.dstZ; z < p.dstZ + 4; z++)
            for (uint64_t y = p.dstY; y < p.dstY + 3; y++) {
                uint64_t first = DEVICE + (z * height + y) * pitch + p.dstXInBytes;
                low = first < low ? first : low;
                high = first + 12 > high ? first + 12 : high;
            }
        zc_describe_3d(&c, &p);
        assert_true(c.dst.address == low && c.dst.span == high - low);
        assert_true(c.dst.pitch == step && c.dst.slice == step * height);
        assert_true(c.dst.side == ZC_SIDE_DEVICE && c.src.side == ZC_SIDE_HOST);
        assert_true(c.src.address == (CUdeviceptr)HOST && c.src.span == 144);
        assert_true(c.bytes == 144 && c.shape == ZC_SHAPE_STRIDED && c.given == &p && !c.flat);
        assert_true(c.extent[0] == 12 && c.extent[1] == 3 && c.extent[2] == 4);
    }
}

static void a_box_without_bytes_begins_where_the_call_says(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        CUDA_MEMCPY3D p = box(i == 0 ? 0 : 8, i == 1 ? 0 : 8, i == 2 ? 0 : 8);
        struct zc_copy c = {0};
        p.dstXInBytes = p.dstY = p.dstZ = 3;
        zc_describe_3d(&c, &p);
        assert_true(c.dst.address == DEVICE && c.dst.span == 0 && c.bytes == 0);
        p.dstPitch = (size_t)-64;
        zc_describe_3d(&c, &p);
        assert_true(c.dst.address == DEVICE && c.dst.span == 0);
    }
}

/* Whether a 3D copy is well formed, with what the call says of the destination. */
static bool fits(CUDA_MEMCPY3D p, size_t pitch, size_t height, size_t x, size_t y, size_t z)
{
    struct zc_copy c = {0};
    p.srcMemoryType = p.srcPitch ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    p.dstPitch = pitch;
    p.dstHeight = height;
    p.dstXInBytes = x;
    p.dstY = y;
    p.dstZ = z;
    zc_describe_3d(&c, &p);
    return zc_copy_well_formed(&c);
}

static void rows_and_slices_must_not_overlap(void **state)
{
    const size_t most = INT32_MAX;
    (void)state;
    assert_true(fits(box(8, 1, 1), 0, 0, 0, 0, 0)); /* Both may be left out of one row. */
    assert_true(fits(box(8, 1, 1), 0, 0, 4, 0, 0));
    assert_false(fits(box(8, 2, 1), 0, 2, 0, 0, 0));
    assert_false(fits(box(8, 1, 1), 0, 2, 0, 1, 0));
    assert_false(fits(box(8, 1, 2), 0, 2, 0, 0, 0));
    assert_false(fits(box(8, 1, 1), 0, 2, 0, 0, 1));
    assert_true(fits(box(8, 2, 1), 8, 0, 0, 0, 0)); /* The height of one slice. */
    assert_false(fits(box(8, 2, 2), 8, 0, 0, 0, 0));
    assert_false(fits(box(8, 2, 1), 8, 0, 0, 0, 1));
    assert_true(fits(box(8, 2, 2), 12, 3, 4, 1, 1));
    assert_false(fits(box(8, 2, 2), 11, 3, 4, 1, 1));
    assert_false(fits(box(8, 2, 2), 12, 2, 4, 1, 1));
    assert_true(fits(box(8, 2, 2), most, 2, 0, 0, 0));
    assert_false(fits(box(8, 2, 2), most + 1, 2, 0, 0, 0));
    assert_true(fits(box(8, 2, 2), 8, most, 0, 0, 0));
    assert_false(fits(box(8, 2, 2), 8, most + 1, 0, 0, 0));
    assert_false(fits(box(8, 2, 2), (size_t)-12, 3, 0, 0, 0));
}

static void a_flat_copy_has_one_slice_on_both_sides(void **state)
{
    const CUDA_MEMCPY2D p = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                             .dstDevice = DEVICE,
                             .dstPitch = 16,
                             .srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = HOST,
                             .srcPitch = 12,
                             .WidthInBytes = 12,
                             .Height = 3};
    struct zc_copy c = {0};
    (void)state;
    zc_describe_2d(&c, &p);
    assert_true(zc_copy_well_formed(&c) && c.given == &p && c.flat);
    assert_true(c.dst.span == 44 && c.src.span == 36 && c.bytes == 36 && c.extent[2] == 1);
}

static void addresses_do_not_wrap_around(void **state)
{
    CUDA_MEMCPY3D p = box(8, 2, 1);
    struct zc_copy c = {0};
    (void)state;
    p.dstDevice = UINT64_MAX - 7;
    assert_true(fits(p, 8, 2, 0, 0, 0));
    assert_false(fits(p, 16, 2, 8, 0, 0));
    assert_false(fits(p, 8, 2, 0, 1, 0));
    p.dstDevice = 16; /* Rows before the first byte of all. */
    p.dstPitch = (size_t)-16;
    zc_describe_3d(&c, &p);
    assert_int_equal(c.dst.address, SIZE_MAX);
    p.dstDevice = 17;
    zc_describe_3d(&c, &p);
    assert_int_equal(c.dst.address, 1);
}

static void kinds_of_memory_are_those_of_the_call(void **state)
{
    static const struct {
        unsigned type;
        enum zc_side side;
        bool fits;
    } rows[] = {{0, ZC_SIDE_ANY, false},
                {CU_MEMORYTYPE_HOST, ZC_SIDE_HOST, true},
                {CU_MEMORYTYPE_DEVICE, ZC_SIDE_DEVICE, true},
                {CU_MEMORYTYPE_ARRAY, ZC_SIDE_ARRAY, true},
                {CU_MEMORYTYPE_UNIFIED, ZC_SIDE_ANY, true},
                {CU_MEMORYTYPE_UNIFIED + 1, ZC_SIDE_ANY, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CUDA_MEMCPY3D p = box(8, 2, 1);
        struct zc_copy c = {0};
        p.dstMemoryType = (CUmemorytype)rows[i].type;
        p.dstHost = HOST;
        p.dstPitch = p.srcPitch = 8;
        zc_describe_3d(&c, &p);
        assert_int_equal(c.dst.side, rows[i].side);
        assert_int_equal(zc_copy_well_formed(&c), rows[i].fits);
        assert_int_equal(c.dst.address, rows[i].side == ZC_SIDE_ARRAY  ? 0
                                        : rows[i].side == ZC_SIDE_HOST ? (CUdeviceptr)HOST
                                                                       : DEVICE);
    }
    CUDA_MEMCPY3D p = box(8, 2, 1);
    p.srcPitch = 8;
    p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    assert_true(fits(p, 3, 1, 4, 5, 6)); /* An array has its own layout. */
    p.srcPitch = 7;
    assert_false(fits(p, 3, 1, 4, 5, 6));
}

static void a_level_or_a_reserved_field_is_nothing_that_libzc_knows(void **state)
{
    char something;
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        CUDA_MEMCPY3D p = box(8, 1, 1);
        CUDA_MEMCPY3D_PEER peer;
        struct zc_copy c = {0};
        p.srcLOD = i == 1;
        p.dstLOD = i == 2;
        p.reserved0 = i == 3 ? &something : NULL;
        p.reserved1 = i == 4 ? &something : NULL;
        zc_describe_3d(&c, &p);
        assert_int_equal(zc_copy_well_formed(&c), i == 0);
        memcpy(&peer, &p, sizeof(p));
        zc_describe_3d_peer(&c, &peer); /* There the fields are contexts. */
        assert_int_equal(zc_copy_well_formed(&c), i == 0 || i > 2);
        assert_null(c.given);
    }
}

static void elements_of_a_set_are_aligned_and_of_a_size_that_there_is(void **state)
{
    (void)state;
    for (unsigned unit = 0; unit <= 8; unit++)
        for (unsigned at = 0; at < 16; at++) {
            struct zc_copy c = {0};
            zc_describe_set_2d(&c, DEVICE + at, 24, 1, (uint8_t)unit, 2, 2);
            assert_int_equal(zc_copy_well_formed(&c),
                             (unit == 1 || unit == 2 || unit == 4 || unit == 8) && at % unit == 0);
        }
    for (size_t pitch = 0; pitch < 24; pitch++) {
        struct zc_copy c = {0};
        zc_describe_set_2d(&c, DEVICE, pitch, 1, 4, 3, 2);
        assert_int_equal(zc_copy_well_formed(&c), pitch >= 12 && pitch % 4 == 0);
        zc_describe_set_2d(&c, DEVICE, pitch, 1, 4, 3, 1);
        assert_true(zc_copy_well_formed(&c)); /* One row follows no other. */
        c.order = -1;
        assert_false(zc_copy_well_formed(&c));
    }
    struct zc_copy c = {0};
    assert_true(zc_copy_well_formed(&c));
}

static void a_set_of_rows_has_the_bytes_from_the_first_to_the_last(void **state)
{
    struct zc_copy c = {0};
    (void)state;
    zc_describe_set_2d(&c, DEVICE, 32, 9, 2, 5, 3);
    assert_true(c.dst.address == DEVICE && c.dst.span == 74 && c.dst.pitch == 32);
    assert_true(c.bytes == 30 && c.value == 9 && c.unit == 2);
    assert_true(c.extent[0] == 10 && c.extent[1] == 3);
    zc_describe_set_2d(&c, DEVICE, (size_t)-32, 9, 2, 5, 3);
    assert_true(c.dst.address == DEVICE - 64 && c.dst.span == 74 && c.dst.pitch == 32);
    zc_describe_set_2d(&c, DEVICE, 32, 9, 2, 0, 3);
    assert_int_equal(c.dst.span, 0);
    zc_describe_set_2d(&c, DEVICE, (size_t)-32, 9, 2, 5, 0);
    assert_true(c.dst.span == 0 && c.dst.address == DEVICE);
    zc_describe_set_2d(&c, DEVICE, 32, 9, 2, 5, 1);
    assert_int_equal(c.dst.span, 10);
}

static void a_value_is_a_set_of_one_element(void **state)
{
    struct zc_copy c = {0};
    (void)state;
    zc_describe_value(&c, DEVICE, 8, 1, 3, (CUstream)0x40);
    assert_true(c.bytes == 8 && c.word && !c.unknown && c.async && c.stream == (CUstream)0x40);
    zc_describe_value(&c, DEVICE, 8, 5, 3, (CUstream)0x40);
    assert_true(c.unknown && c.bytes == 0); /* The driver refuses the flag. */
}

static void a_node_is_described_by_the_type_that_it_has(void **state)
{
    CUgraphNode node = (CUgraphNode)0x10;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    struct zc_copy c = {0};
    (void)state;
    node_type = CU_GRAPH_NODE_TYPE_MEMSET;
    assert_ptr_equal(zc_describe_if(node, &params), &params);
    assert_null(zc_describe_if(node, NULL));
    assert_null(zc_describe_if(NULL, &params));
    assert_null(zc_describe_if((CUgraphNode)0x20, &params));
    params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    assert_null(zc_describe_if(node, &params));
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    closing = true;
    assert_null(zc_describe_if(node, &params));
    params.memset.dst = DEVICE;
    params.memset.elementSize = 4;
    params.memset.width = 6;
    params.memset.height = 1;
    zc_describe_node(&c, &params);
    assert_true(c.shape == ZC_SHAPE_SET && c.bytes == 24 && c.unit == 4 && !c.unknown);
    params.memset.elementSize = 8; /* Of no size that a set in a graph may have. */
    zc_describe_node(&c, &params);
    assert_false(zc_copy_well_formed(&c));
    params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    params.memcpy.copyParams = box(8, 2, 1);
    zc_describe_node(&c, &params);
    assert_true(c.shape == ZC_SHAPE_STRIDED && c.bytes == 16);
    memset(&c, 0, sizeof(c));
    zc_describe_node(&c, NULL);
    zc_describe_set_node(&c, NULL);
    zc_describe_2d(&c, NULL);
    zc_describe_3d(&c, NULL);
    zc_describe_3d_peer(&c, NULL);
    assert_true(c.shape == ZC_SHAPE_NONE && !c.unknown && !c.bytes);
}

static void a_batch_names_addresses_and_arrays(void **state)
{
    CUDA_MEMCPY3D_BATCH_OP op = {.extent = {10, 3, 2},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
    struct zc_copy c = {0};
    CUDA_MEMCPY3D as;
    (void)state;
    op.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    op.src.op.array.array = (CUarray)0x77;
    op.src.op.array.offset.x = 2;
    op.src.op.array.offset.y = 3;
    op.src.op.array.offset.z = 4;
    op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.dst.op.ptr.ptr = DEVICE;
    zc_describe_op(&c, &as, &op, 0); /* Elements of eight bytes. */
    assert_true(as.srcXInBytes == 16 && as.srcY == 3 && as.srcZ == 4);
    assert_true(as.dstPitch == 80 && as.dstHeight == 3 && c.bytes == 480);
    assert_int_equal(c.order, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    op.dst.op.ptr.rowLength = 12;
    op.dst.op.ptr.layerHeight = 5;
    zc_describe_op(&c, &as, &op, 0);
    assert_true(as.dstPitch == 96 && as.dstHeight == 5 && c.dst.slice == 480);
    closing = true; /* Nobody says how large an element is: it is 16 bytes at most. */
    zc_describe_op(&c, &as, &op, 0);
    assert_true(c.bytes == 960 && !c.given);
    for (unsigned i = 0; i < 4; i++) {
        CUDA_MEMCPY3D_BATCH_OP bad = op;
        memset(&c, 0, sizeof(c));
        bad.src.type = i == 0 ? 0 : bad.src.type;
        bad.dst.type = i == 1 ? 0 : bad.dst.type;
        zc_describe_op(&c, &as, i == 2 ? NULL : &bad, i == 3);
        assert_true(c.order == -1 && c.unknown && c.shape == ZC_SHAPE_NONE);
        assert_false(zc_copy_well_formed(&c));
    }
}

static void a_prefetch_and_a_peer_copy_name_lines(void **state)
{
    struct zc_copy c = {0};
    (void)state;
    zc_describe_prefetch(&c, DEVICE, 100);
    assert_true(c.shape == ZC_SHAPE_PREFETCH && c.bytes == 100 && c.dst.span == 100);
    assert_true(c.dst.address == DEVICE && c.dst.side == ZC_SIDE_DEVICE);
    zc_describe_peer(&c, DEVICE, (CUcontext)1, DEVICE + 64, (CUcontext)2, 32);
    assert_true(c.shape == ZC_SHAPE_LINE && c.bytes == 32 && c.src.address == DEVICE + 64);
    assert_true(c.dst.context == (CUcontext)1 && c.src.context == (CUcontext)2);
    assert_int_equal(zc_memory_type(DEVICE), CU_MEMORYTYPE_DEVICE);
    assert_int_equal(zc_memory_type(DEVICE + 1), 0);
    assert_false(zc_memory_managed(DEVICE));
    managed_type = 1;
    assert_true(zc_memory_managed(DEVICE));
    assert_false(zc_memory_managed(DEVICE + 1));
}

static void a_copy_is_counted_with_what_it_took(void **state)
{
    struct zc_copy c = {.fn = ZC_FN_cuMemcpyAsync, .start = 400, .frame = &frame, .pc = &pc};
    (void)state;
    zc_describe_line(&c, ZC_SIDE_DEVICE, DEVICE, ZC_SIDE_HOST, 0x3000, 10);
    level = ZC_LOG_ALLOCS;
    assert_true(zc_copy_transfer(&c).ticks == 600 && zc_copy_transfer(&c).bytes == 10);
    assert_int_equal(zc_copy_transfer(&c).call, 7);
    level = ZC_LOG_ALLOCS - 1;
    assert_int_equal(zc_copy_transfer(&c).call, 0);
    level = ZC_LOG_EVENTS;
    c.frame = NULL;
    assert_int_equal(zc_copy_transfer(&c).call, 0);
    assert_int_equal(zc_copy_call(&c).stream, ZC_STREAM_NONE);
    assert_string_equal(zc_copy_call(&c).range, "epoch");
    zc_copy_on_stream(&c, (CUstream)0x40);
    assert_true(zc_copy_call(&c).stream == ZC_STREAM_CREATED && zc_copy_call(&c).handle == 0x40);
    assert_true(zc_copy_call(&c).dst == DEVICE && zc_copy_call(&c).src == 0x3000);
    assert_string_equal(zc_copy_call(&c).function, "cuMemcpyAsync");
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_side_has_the_bytes_of_all_rows_of_all_slices),
        T(a_box_without_bytes_begins_where_the_call_says),
        T(rows_and_slices_must_not_overlap),
        T(a_flat_copy_has_one_slice_on_both_sides),
        T(addresses_do_not_wrap_around),
        T(kinds_of_memory_are_those_of_the_call),
        T(a_level_or_a_reserved_field_is_nothing_that_libzc_knows),
        T(elements_of_a_set_are_aligned_and_of_a_size_that_there_is),
        T(a_set_of_rows_has_the_bytes_from_the_first_to_the_last),
        T(a_value_is_a_set_of_one_element),
        T(a_node_is_described_by_the_type_that_it_has),
        T(a_batch_names_addresses_and_arrays),
        T(a_prefetch_and_a_peer_copy_name_lines),
        T(a_copy_is_counted_with_what_it_took),
    };
    return RUN_TESTS(tests);
}
