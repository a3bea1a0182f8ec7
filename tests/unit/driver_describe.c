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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_of_a_newer_driver_is_unknown),
        cmocka_unit_test(a_side_begins_at_the_lowest_byte_of_its_rows),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
