/* SPDX-License-Identifier: MIT */
/* Requests for device memory: what libzc looks for a place for, and what the driver alone answers.
 */
#include "hook_test.h"

#include "hook/request.h"
#include "memory/reclaim.h"

#define STREAM ((CUstream)0x5)
#define POOL ((CUmemoryPool)0x6)
#define OUTSIDE ((CUdeviceptr)0x8000)

static struct {
    bool places;            /* A place takes the request. */
    int alignment, refused; /* Times that the driver has no memory. */
    CUresult device, attribute;
    unsigned type;
    bool managed;
    struct zc_request request;
} has;

static CUresult fake_allocate(struct zc_request *request, const struct zc_original *f)
{
    has.request = *request;
    if (!has.places)
        return f->call(f);
    tell("placed %zu", request->size);
    *f->dptr = HOOK_BLOCK(0);
    return CUDA_SUCCESS;
}

static bool fake_begin(struct zc_request *request)
{
    has.request = *request;
    return zc_life_state == ZC_LIFE_ON;
}

static bool fake_track(const struct zc_request *request, CUdeviceptr address,
                       struct zc_backing *backing, const struct zc_rule *rule, const char *why)
{
    has.request = *request;
    assert_true(!backing && !rule && !why);
    tell("tracks %llx", (unsigned long long)address);
    return true;
}

static bool fake_reclaim(struct zc_reclaim *request)
{
    (void)request;
    tell("reclaimed");
    return true;
}

static unsigned fake_type(CUdeviceptr address)
{
    assert_int_equal(address, OUTSIDE);
    return has.type;
}

static bool fake_managed(CUdeviceptr address)
{
    assert_int_equal(address, OUTSIDE);
    return has.managed;
}

#define zc_allocate fake_allocate
#define zc_request_begin fake_begin
#define zc_request_track fake_track
#define zc_reclaim(request) fake_reclaim(request)
#define zc_memory_type fake_type
#define zc_memory_managed fake_managed
#include "../../shim/hook/device.c"

static const struct zc_entry entry = {.fn = ZC_FN_cuMemAllocPitch_v2};

static CUresult get_device(CUdevice *device)
{
    *device = 3;
    return has.device;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    assert_true(attribute == CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT && device == 3);
    *value = has.alignment;
    return has.attribute;
}

static CUresult answer(CUdeviceptr *dptr)
{
    if (has.refused && has.refused--)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (dptr)
        *dptr = OUTSIDE;
    return hook.driver;
}

static CUresult alloc(CUdeviceptr *dptr, size_t bytes)
{
    tell("driver %zu", bytes);
    return answer(dptr);
}

static CUresult alloc_pitch(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                            unsigned element)
{
    tell("driver %zux%zu by %u", width, height, element);
    if (pitch)
        *pitch = 2048;
    return answer(dptr);
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    return alloc(dptr, bytes);
}

static CUresult alloc_pool(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    assert_ptr_equal(pool, POOL);
    return alloc_async(dptr, bytes, stream);
}

static CUresult alloc_managed(CUdeviceptr *dptr, size_t bytes, unsigned flags)
{
    assert_int_equal(flags, CU_MEM_ATTACH_GLOBAL);
    return alloc(dptr, bytes);
}

static CUdeviceptr at;
static size_t pitch;

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    has.alignment = 512;
    has.places = true;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuDeviceGetAttribute = get_attribute;
    at = pitch = 1;
    return 0;
}

static CUresult pitched(size_t width, size_t height, unsigned element)
{
    return zc_do_cuMemAllocPitch_v2(alloc_pitch, &entry, &at, &pitch, width, height, element);
}

static void rows_of_a_placed_block_are_as_far_apart_as_the_driver_s(void **state)
{
    (void)state;
    static const struct {
        size_t width, pitch;
    } rows[] = {{1, 512}, {511, 512}, {512, 512}, {513, 1024}};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pitched(rows[i].width, 3, i == 3 ? 16 : 4u << (i & 1)), CUDA_SUCCESS);
        assert_int_equal(pitch, rows[i].pitch);
        assert_int_equal(has.request.size, 3 * rows[i].pitch);
        assert_int_equal(has.request.flags, ZC_BLOCK_SYNC_MEMOPS);
    }
    assert_told("placed 1536; placed 1536; placed 1536; placed 3072");
}

static void rows_that_no_place_takes_are_the_driver_s(void **state)
{
    (void)state;
    has.places = false;
    assert_int_equal(pitched(100, 3, 8), CUDA_SUCCESS);
    assert_int_equal(pitch, 2048);
    has.places = true;
    hook_block[0].flags = 0; /* Not converted: the driver has stored the pitch. */
    pitch = 77;
    assert_int_equal(pitched(100, 3, 8), CUDA_SUCCESS);
    assert_int_equal(pitch, 77);
    has.places = false;
    hook_block[0].flags = ZC_BLOCK_CONVERTED;
    hook.driver = CUDA_ERROR_UNKNOWN;
    hook_block[0].base = OUTSIDE; /* A failed request has no block, whatever stands there. */
    assert_int_equal(pitched(100, 3, 8), CUDA_ERROR_UNKNOWN);
    assert_int_equal(pitch, 2048);
}

static void what_the_driver_refuses_of_rows_is_asked_of_no_place(void **state)
{
    (void)state;
    assert_int_equal(zc_do_cuMemAllocPitch_v2(alloc_pitch, &entry, NULL, &pitch, 100, 3, 4),
                     CUDA_SUCCESS);
    assert_int_equal(zc_do_cuMemAllocPitch_v2(alloc_pitch, &entry, &at, NULL, 100, 3, 4),
                     CUDA_SUCCESS);
    pitched(0, 3, 4);
    pitched(100, 0, 4);
    pitched(100, 3, 5);
    pitched(SIZE_MAX - 5, 1, 4);
    pitched(SIZE_MAX / 2, 3, 4);
    assert_told("driver 100x3 by 4; driver 100x3 by 4; driver 0x3 by 4; driver 100x0 by 4; "
                "driver 100x3 by 5; driver 18446744073709551610x1 by 4; "
                "driver 9223372036854775807x3 by 4");
    has.device = CUDA_ERROR_INVALID_CONTEXT;
    pitched(100, 3, 4);
    has.device = CUDA_SUCCESS;
    has.attribute = CUDA_ERROR_UNKNOWN;
    pitched(100, 3, 4);
    has.attribute = CUDA_SUCCESS;
    has.alignment = 0;
    pitched(100, 3, 4);
    has.alignment = -512;
    pitched(100, 3, 4);
    assert_told("driver 100x3 by 4; driver 100x3 by 4; driver 100x3 by 4; driver 100x3 by 4");
}

static void each_request_is_known_by_its_function_and_order(void **state)
{
    (void)state;
    has.places = false;
    assert_int_equal(zc_do_cuMemAlloc_v2(alloc, &entry, &at, 40), CUDA_SUCCESS);
    assert_int_equal(has.request.api, ZC_API_cuMemAlloc);
    assert_int_equal(zc_do_cuMemAllocAsync(alloc_async, &entry, &at, 41, STREAM), CUDA_SUCCESS);
    assert_int_equal(has.request.api, ZC_API_cuMemAllocAsync);
    assert_int_equal(has.request.flags, ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS);
    assert_int_equal(has.request.stream, ZC_STREAM_CREATED);
    assert_int_equal(has.request.asked, ZC_KIND_DEVICE);
    assert_int_equal(zc_do_cuMemAllocFromPoolAsync(alloc_pool, &entry, &at, 42, POOL, STREAM),
                     CUDA_SUCCESS);
    assert_int_equal(has.request.flags, ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS);
    assert_int_equal(has.request.asked, ZC_KIND_DEVICE);
    assert_told("driver 40; driver 41; driver 42");
}

static CUresult from_pool(void)
{
    return zc_do_cuMemAllocFromPoolAsync(alloc_pool, &entry, &at, 44, POOL, STREAM);
}

/* A pool of device memory changes nothing. */
static void what_a_pool_gives_is_asked_once_there_are_pools_of_other_memory(void **state)
{
    static const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                               host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    const CUmemAllocationType pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
    (void)state;
    has.places = false;
    zc_pool_note(&device, pinned);
    assert_int_equal(from_pool(), CUDA_SUCCESS);
    assert_told("driver 44");
    zc_pool_note(&host, pinned);
    has.type = CU_MEMORYTYPE_HOST;
    has.refused = 1;
    assert_int_equal(from_pool(), CUDA_SUCCESS);
    assert_told("driver 44; reclaimed; driver 44; tracks 8000");
    assert_int_equal(has.request.asked, ZC_KIND_PINNED);
    assert_int_equal(has.request.flags, ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS);
    pool_other = false;
    zc_pool_note(&device, (CUmemAllocationType)(pinned + 1));
    has.type = CU_MEMORYTYPE_DEVICE;
    has.managed = true;
    from_pool();
    assert_int_equal(has.request.asked, ZC_KIND_MANAGED);
    has.managed = false;
    from_pool();
    assert_int_equal(has.request.asked, ZC_KIND_DEVICE);
    hook_told[0] = '\0';
    hook.driver = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(from_pool(), CUDA_ERROR_INVALID_VALUE);
    hook.driver = CUDA_SUCCESS;
    hook_off();
    assert_int_equal(from_pool(), CUDA_SUCCESS);
    assert_told("driver 44; driver 44");
}

static CUresult managed(void)
{
    return zc_do_cuMemAllocManaged(alloc_managed, &entry, &at, 43, CU_MEM_ATTACH_GLOBAL);
}

static void managed_memory_gets_what_libzc_keeps_and_is_counted(void **state)
{
    (void)state;
    has.refused = 1;
    assert_int_equal(managed(), CUDA_SUCCESS);
    assert_told("driver 43; reclaimed; driver 43; tracks 8000");
    assert_int_equal(has.request.asked, ZC_KIND_MANAGED);
    hook.driver = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(managed(), CUDA_ERROR_INVALID_VALUE);
    hook.driver = CUDA_SUCCESS;
    hook_off();
    assert_int_equal(managed(), CUDA_SUCCESS);
    assert_told("driver 43; driver 43");
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_of_a_placed_block_are_as_far_apart_as_the_driver_s),
        TEST(rows_that_no_place_takes_are_the_driver_s),
        TEST(what_the_driver_refuses_of_rows_is_asked_of_no_place),
        TEST(each_request_is_known_by_its_function_and_order),
        TEST(what_a_pool_gives_is_asked_once_there_are_pools_of_other_memory),
        TEST(managed_memory_gets_what_libzc_keeps_and_is_counted),
    };
    return RUN_TESTS(tests);
}
