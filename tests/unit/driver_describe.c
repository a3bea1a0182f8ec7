/* SPDX-License-Identifier: MIT */
/* Objects that calls name: sides of copies, and nodes of graphs. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/copy.h"
#include "real_test.h"

/* The content of copies is not looked at. */
static void a_node_of_a_newer_driver_is_unknown(void **state)
{
    struct zc_copy c = {0};
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

    (void)state;
    zc_describe_node(&c, &params);
    assert_false(c.unknown);
    params.type = (CUgraphNodeType)(CU_GRAPH_NODE_TYPE_CONDITIONAL + 1);
    zc_describe_node(&c, &params);
    assert_true(c.unknown);
    assert_int_equal(c.shape, ZC_SHAPE_NONE);
}

/* The bytes of a side of a 2D copy are those of its rows, whichever way they follow each other. */
static void a_side_begins_at_the_lowest_byte_of_its_rows(void **state)
{
    static const ptrdiff_t pitches[] = {64, 16, 0, -64, -16};
    const uint64_t device = 0x100000;

    (void)state;
    for (size_t i = 0; i < sizeof(pitches) / sizeof(pitches[0]); i++) {
        for (uint64_t y = 0; y < 3; y++) {
            const CUDA_MEMCPY2D p = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = device,
                                     .dstPitch = (size_t)pitches[i],
                                     .dstXInBytes = pitches[i] ? 4 : 0,
                                     .dstY = y,
                                     .srcMemoryType = CU_MEMORYTYPE_HOST,
                                     .srcHost = &p,
                                     .WidthInBytes = 12,
                                     .Height = 5};
            uint64_t pitch = (uint64_t)(pitches[i] ? pitches[i] : 12), low = UINT64_MAX, high = 0;
            struct zc_copy c = {0};

            for (uint64_t row = y; row < y + 5; row++) {
                uint64_t first = device + row * pitch + p.dstXInBytes;
                low = first < low ? first : low;
                high = first + 12 > high ? first + 12 : high;
            }
            zc_describe_2d(&c, &p);
            assert_int_equal(c.dst.address, low);
            assert_int_equal(c.dst.span, high - low);
            assert_int_equal(c.bytes, 60);
        }
    }
}

static void a_description_of_rows_is_kept_with_its_form(void **state)
{
    const CUDA_MEMCPY2D flat = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = 0x1000,
                                .srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = &flat,
                                .WidthInBytes = 8,
                                .Height = 2};
    CUDA_MEMCPY3D_PEER peer = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = 0x1000,
                               .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = 0x2000,
                               .dstContext = (CUcontext)0x10,
                               .srcContext = (CUcontext)0x20,
                               .WidthInBytes = 8,
                               .Height = 2,
                               .Depth = 1};
    struct zc_copy c = {0};

    (void)state;
    zc_describe_2d(&c, &flat);
    assert_true(c.given == &flat && c.flat);
    zc_describe_3d_peer(&c, &peer);
    assert_true(c.given == &peer && !c.flat);
    assert_ptr_equal(c.dst.context, (CUcontext)0x10);
    assert_ptr_equal(c.src.context, (CUcontext)0x20);
    peer.srcContext = NULL; /* The driver refuses it. */
    zc_describe_3d_peer(&c, &peer);
    assert_null(c.given);
    assert_ptr_equal(c.dst.context, (CUcontext)0x10);
    assert_null(c.src.context);
}

static CUarray_format format;

static CUresult CUDAAPI descriptor(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    if (array != (CUarray)0x77)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUDA_ARRAY3D_DESCRIPTOR){.Format = format, .NumChannels = 2};
    return CUDA_SUCCESS;
}

/* And in bytes where there is none. */
static void lengths_of_a_batch_are_in_elements_of_its_array(void **state)
{
    static const struct {
        CUarray_format format;
        size_t bytes; /* Of an element of two channels; 0: unknown, and 16 at most. */
    } rows[] = {{CU_AD_FORMAT_UNSIGNED_INT8, 2},
                {CU_AD_FORMAT_SIGNED_INT8, 2},
                {CU_AD_FORMAT_UNSIGNED_INT16, 4},
                {CU_AD_FORMAT_SIGNED_INT16, 4},
                {CU_AD_FORMAT_HALF, 4},
                {CU_AD_FORMAT_UNSIGNED_INT32, 8},
                {CU_AD_FORMAT_SIGNED_INT32, 8},
                {CU_AD_FORMAT_FLOAT, 8},
                {CU_AD_FORMAT_NV12, 0}};
    CUDA_MEMCPY3D_BATCH_OP op = {.extent = {10, 3, 1},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUmemcpy3DOperand array = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY},
                      memory = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};

    (void)state;
    zc_real.cuArray3DGetDescriptor_v2 = descriptor;
    array.op.array.array = (CUarray)0x77;
    memory.op.ptr.ptr = 0x10000;
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_copy c = {0};
        CUDA_MEMCPY3D as;
        size_t bytes = rows[i / 2].bytes;
        format = rows[i / 2].format;
        op.src = i % 2 ? array : memory;
        op.dst = i % 2 ? memory : array;
        zc_describe_op(&c, &as, &op, 0);
        assert_int_equal(c.bytes, 30 * (bytes ? bytes : 16));
        assert_true(c.given == (bytes ? &as : NULL));
    }
    /* The address is no array's. */
    struct zc_copy c = {0};
    CUDA_MEMCPY3D as;
    op.src = op.dst = memory;
    op.src.op.ptr.ptr = 0x77;
    zc_describe_op(&c, &as, &op, 0);
    assert_int_equal(c.bytes, 30);
    assert_true(c.given == &as);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_of_a_newer_driver_is_unknown),
        cmocka_unit_test(a_side_begins_at_the_lowest_byte_of_its_rows),
        cmocka_unit_test(a_description_of_rows_is_kept_with_its_form),
        cmocka_unit_test(lengths_of_a_batch_are_in_elements_of_its_array),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
