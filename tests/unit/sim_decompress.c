/* SPDX-License-Identifier: MIT */
/* Decompression: refused as on a device without the engine, else blocks are copied. */
#include "sim_test.h"
#include <stdio.h>

/* Decompresses 8 bytes of device memory that lie before room for 8 and a size. */
static CUresult decompress(CUdeviceptr d, size_t *failed)
{
    CUmemDecompressParams op = {.srcNumBytes = 8,
                                .dstNumBytes = 8,
                                .dstActBytes = (cuuint32_t *)(d + 16),
                                .src = (void *)d,
                                .dst = (void *)(d + 8),
                                .algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4};
    return cuMemBatchDecompressAsync(&op, 1, 0, failed, NULL);
}

static void decompressed(void)
{
    CUdeviceptr d;
    char bytes[20];
    uint32_t written;
    int capable = 0;
    size_t failed = 9;
    ok(cuMemAlloc_v2(&d, sizeof bytes));
    ok(cuMemcpyHtoD_v2(d, "8 bytes", 8));
    ok(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, d));
    assert_int_equal(1, capable);
    ok(decompress(d, &failed));
    ok(cuMemcpyDtoH_v2(bytes, d, sizeof bytes));
    assert_string_equal("8 bytes", bytes + 8);
    memcpy(&written, bytes + 16, sizeof written);
    assert_int_equal(8, written);
    refused(CUDA_ERROR_INVALID_VALUE, decompress(d + 4, &failed));
    assert_int_equal(0, failed);
}

static void another_algorithm(void)
{
    CUdeviceptr d;
    size_t failed = 9;
    ok(cuMemAlloc_v2(&d, 20));
    refused(CUDA_ERROR_NOT_SUPPORTED, decompress(d, &failed));
    assert_int_equal(0, failed);
}

static void blocks_are_decompressed_where_there_is_an_engine(void **state)
{
    (void)state;
    sim_on_machine("SIM_ATTR=136=4", sim_test_start, decompressed);
    sim_on_machine("SIM_ATTR=136=1", sim_test_start, another_algorithm);
    sim_on_machine("SIM_DEVICES=1", sim_test_start, another_algorithm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_decompressed_where_there_is_an_engine),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
