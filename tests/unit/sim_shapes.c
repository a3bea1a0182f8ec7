/* SPDX-License-Identifier: MIT */
/* Copies and sets of several rows whose arguments are wrong are refused before a byte is written,
 * where hardware refuses them (tests/gpu/shape_facts.h200.txt). */
#include "sim_test.h"

static const size_t pitch = 512, rows = 8, size = MIB, widest = 0x7fffffff;
static CUdeviceptr from, to; /* Blocks of `size` bytes, of ones and zeroes. */
static CUarray array;        /* Of eight rows of 32 elements of two bytes. */

static void prepare(void)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 32, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT16, .NumChannels = 1};
    ok(cuMemAlloc_v2(&from, size));
    ok(cuMemAlloc_v2(&to, size));
    ok(cuArrayCreate_v2(&array, &desc));
    ok(cuMemsetD8_v2(from, 1, size));
    ok(cuMemsetD8_v2(to, 0, size));
}

static void clean(void)
{
    ok(cuMemFree_v2(from));
    ok(cuMemFree_v2(to));
    ok(cuArrayDestroy(array));
}

static void nothing_is_written(void)
{
    char *bytes = malloc(size);
    ok(cuMemcpyDtoH_v2(bytes, to, size));
    for (size_t i = 0; i < size; i++)
        assert_int_equal(0, bytes[i]);
    free(bytes);
}

/* Four rows of 100 bytes in each of two slices, which lie in the middle of their blocks. */
static CUDA_MEMCPY3D good(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from + size / 4,
                           .srcPitch = pitch,
                           .srcHeight = rows,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to + size / 4,
                           .dstPitch = pitch,
                           .dstHeight = rows,
                           .WidthInBytes = 100,
                           .Height = 4,
                           .Depth = 2};
}

static CUDA_MEMCPY2D in_2d(const CUDA_MEMCPY3D *c)
{
    return (CUDA_MEMCPY2D){.srcXInBytes = c->srcXInBytes,
                           .srcY = c->srcY,
                           .srcMemoryType = c->srcMemoryType,
                           .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray,
                           .srcPitch = c->srcPitch,
                           .dstXInBytes = c->dstXInBytes,
                           .dstY = c->dstY,
                           .dstMemoryType = c->dstMemoryType,
                           .dstDevice = c->dstDevice,
                           .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height};
}

static CUDA_MEMCPY3D_PEER by_peers(const CUDA_MEMCPY3D *c)
{
    CUDA_MEMCPY3D_PEER peer = {0};
    memcpy(&peer, c, sizeof *c); /* the same fields but for the contexts */
    ok(cuCtxGetCurrent(&peer.srcContext));
    peer.dstContext = peer.srcContext;
    return peer;
}

static CUresult add_node(const CUDA_MEMCPY3D *c)
{
    CUgraph graph;
    CUgraphNode node;
    CUcontext ctx;
    ok(cuCtxGetCurrent(&ctx));
    ok(cuGraphCreate(&graph, 0));
    CUresult r = cuGraphAddMemcpyNode(&node, graph, NULL, 0, c, ctx);
    ok(cuGraphDestroy(graph));
    return r;
}

/* Errors of the fields that two dimensions have as well. */
static void refused_in_2d(const CUDA_MEMCPY3D *c)
{
    CUDA_MEMCPY2D flat = in_2d(c);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&flat));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy2DUnaligned_v2(&flat));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy2DAsync_v2(&flat, NULL));
}

static void refused_in_3d(const CUDA_MEMCPY3D *c)
{
    CUDA_MEMCPY3D_PEER peer = by_peers(c);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(c));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync_v2(c, NULL));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeer(&peer));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeerAsync(&peer, NULL));
    refused(CUDA_ERROR_INVALID_VALUE, add_node(c));
}

#define REFUSED(where, change)                                                                     \
    do {                                                                                           \
        CUDA_MEMCPY3D copy = good();                                                               \
        copy.change;                                                                               \
        refused_##where(&copy);                                                                    \
    } while (0)
#define REFUSED_IN_BOTH(change)                                                                    \
    do {                                                                                           \
        REFUSED(in_2d, change);                                                                    \
        REFUSED(in_3d, change);                                                                    \
    } while (0)

static void what_is_right_is_copied(void **state)
{
    CUDA_MEMCPY3D copy;
    unsigned char byte = 0;
    (void)state;
    prepare();
    copy = good();
    ok(cuMemcpy3D_v2(&copy));
    ok(cuMemcpyDtoH_v2(&byte, to + size / 4 + (rows + 3) * pitch + 99, 1));
    assert_int_equal(1, byte);
    ok(cuMemcpyDtoH_v2(&byte, to + size / 4 + (rows + 3) * pitch + 100, 1));
    assert_int_equal(0, byte);
    clean();
}

static void rows_may_go_backwards(void **state)
{
    CUDA_MEMCPY3D copy;
    unsigned char byte = 0;
    (void)state;
    prepare();
    ok(cuMemsetD8_v2(from + size / 4, 2, 100));
    copy = good();
    copy.dstPitch = (size_t)0 - pitch;
    copy.Depth = 1;
    ok(cuMemcpy3D_v2(&copy));
    ok(cuMemcpyDtoH_v2(&byte, to + size / 4, 1));
    assert_int_equal(2, byte);
    ok(cuMemcpyDtoH_v2(&byte, to + size / 4 - 3 * pitch + 99, 1));
    assert_int_equal(1, byte);
    ok(cuMemcpyDtoH_v2(&byte, to + size / 4 + pitch, 1));
    assert_int_equal(0, byte);
    clean();
}

static void a_pitch_below_the_row_or_above_the_largest_is_refused(void **state)
{
    (void)state;
    prepare();
    REFUSED_IN_BOTH(srcPitch = 99);
    REFUSED_IN_BOTH(dstPitch = 99);
    REFUSED_IN_BOTH(srcXInBytes = pitch - 99);
    REFUSED_IN_BOTH(dstXInBytes = pitch - 99);
    REFUSED_IN_BOTH(srcPitch = widest + 1);
    REFUSED_IN_BOTH(dstPitch = widest + 1);
    REFUSED_IN_BOTH(srcPitch = (size_t)0 - size);
    nothing_is_written();
    clean();
}

static void a_place_beyond_all_addresses_is_refused(void **state)
{
    (void)state;
    prepare();
    REFUSED_IN_BOTH(srcXInBytes = SIZE_MAX);
    REFUSED_IN_BOTH(dstXInBytes = SIZE_MAX);
    REFUSED_IN_BOTH(srcY = SIZE_MAX);
    REFUSED_IN_BOTH(dstY = SIZE_MAX);
    REFUSED_IN_BOTH(WidthInBytes = SIZE_MAX);
    REFUSED(in_3d, srcZ = size);
    REFUSED(in_3d, Depth = size);
    REFUSED_IN_BOTH(Height = size);
    nothing_is_written();
    clean();
}

static void slices_must_hold_their_rows(void **state)
{
    (void)state;
    prepare();
    REFUSED(in_3d, srcHeight = 3);
    REFUSED(in_3d, dstHeight = 3);
    REFUSED(in_3d, srcY = rows - 3);
    REFUSED(in_3d, dstY = rows - 3);
    nothing_is_written();
    clean();
}

static void kinds_of_memory_and_reserved_fields_are_checked(void **state)
{
    CUDA_MEMCPY3D reserved;
    (void)state;
    prepare();
    REFUSED_IN_BOTH(srcMemoryType = (CUmemorytype)0);
    REFUSED_IN_BOTH(dstMemoryType = (CUmemorytype)5);
    reserved = good();
    reserved.reserved0 = &reserved;
    refused(CUDA_ERROR_INVALID_VALUE, add_node(&reserved));
    reserved = good();
    reserved.reserved1 = &reserved;
    refused(CUDA_ERROR_INVALID_VALUE, add_node(&reserved));
    nothing_is_written();
    assert_int_equal(cuMemcpy3D_v2(&reserved), CUDA_SUCCESS); /* A copy's are not looked at. */
    clean();
}

static void refused_of_array(size_t x, size_t y, size_t width)
{
    CUDA_MEMCPY3D copy = good();
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = x;
    copy.srcY = y;
    copy.WidthInBytes = width;
    copy.Depth = 1;
    refused_in_2d(&copy);
    refused_in_3d(&copy);
    copy.srcArray = NULL;
    refused_in_2d(&copy);
}

static void an_array_is_read_within_its_rows_and_from_the_start_of_an_element(void **state)
{
    (void)state;
    prepare();
    refused_of_array(0, 0, 65);
    refused_of_array(1, 0, 20);
    refused_of_array(SIZE_MAX - 9, 0, 20);
    refused_of_array(0, 5, 20);
    refused_of_array(0, SIZE_MAX, 20);
    nothing_is_written();
    clean();
}

static void sets_of_rows_are_checked_as_well(void **state)
{
    CUdeviceptr at;
    (void)state;
    prepare();
    at = to + size / 4;
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(at, 99, 1, 100, 4));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(at, pitch, 1, SIZE_MAX, 4));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(at, pitch, 1, 100, SIZE_MAX));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(at, 4, 1, SIZE_MAX / 4 + 2, 2));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D16_v2(at + 1, pitch, 1, 100, 4));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(at, pitch + 2, 1, 100, 4));
    nothing_is_written();
    clean();
}

/* The first block of all is one of them: what lies before it is no memory of the program's. */
static void a_copy_from_before_or_behind_a_pools_block_is_refused(void **state)
{
    CUdeviceptr pooled, at[4];
    (void)state;
    ok(cuMemAllocAsync(&pooled, 152298, NULL));
    ok(cuMemAlloc_v2(&to, 4096));
    at[0] = pooled - 1;
    at[1] = pooled - 4096;
    at[2] = pooled + 152298;
    at[3] = pooled + 152297;
    for (int i = 0; i < 4; i++) {
        refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy(to, at[i], 64));
        refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy(at[i], to, 64));
        refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(to, at[i], 64, NULL));
        refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(to, at[i], 64));
        refused(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(at[i], 1, 64));
    }
    ok(cuMemFreeAsync(pooled, NULL));
    ok(cuMemFree_v2(to));
    ok(cuCtxSynchronize());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(a_copy_from_before_or_behind_a_pools_block_is_refused),
        sim_test(what_is_right_is_copied),
        sim_test(rows_may_go_backwards),
        sim_test(a_pitch_below_the_row_or_above_the_largest_is_refused),
        sim_test(a_place_beyond_all_addresses_is_refused),
        sim_test(slices_must_hold_their_rows),
        sim_test(kinds_of_memory_and_reserved_fields_are_checked),
        sim_test(an_array_is_read_within_its_rows_and_from_the_start_of_an_element),
        sim_test(sets_of_rows_are_checked_as_well),
    };
    return sim_main(tests);
}
