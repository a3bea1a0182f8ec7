/* SPDX-License-Identifier: MIT */
/* Answers about blocks of libzc's: as if each were the memory that the program requested, and about
 * freed memory as about nobody's. */
#include "hook_test.h"

#include "driver/lock.h"
#include "place/freed.h"
#include "place/room.h"

static struct {
    int64_t on_device; /* Bytes. */
    CUresult bus, knows, sync, info;
    bool no_lock, no_push, silent;
} has;

static int64_t fake_on_device(const struct zc_block *block)
{
    assert_non_null(block);
    return has.on_device;
}

static bool fake_push(CUcontext context)
{
    assert_ptr_equal(context, HOOK_HOME);
    tell("push");
    return !has.no_push;
}

static void fake_pop(bool pushed)
{
    if (pushed)
        tell("pop");
}

static CUresult fake_sync(CUdeviceptr base, int value)
{
    tell("sync %llx: %d", (unsigned long long)base, value);
    return has.sync;
}

static void fake_reap(bool waited)
{
    tell(waited ? "reaped, waited" : "reaped");
}

static void fake_report(int device, size_t *free, size_t *total)
{
    (void)total;
    tell("report %d", device);
    if (free)
        *free += 7;
}

static bool fake_lock(void)
{
    tell("lock");
    return !has.no_lock;
}

static void fake_unlock(void)
{
    tell("unlock");
}

#define zc_place_on_device fake_on_device
#define zc_context_push_if_none fake_push
#define zc_context_pop fake_pop
#define zc_pinned_sync fake_sync
#define zc_freed_reap fake_reap
#define zc_room_report fake_report
#define zc_driver_lock fake_lock
#define zc_driver_unlock fake_unlock
#include "../../shim/hook/query.c"

#define BLOCK HOOK_BLOCK(0)
#define OUTSIDE ((CUdeviceptr)0x8000) /* In no block. */
#define MARGIN ((CUdeviceptr)0x9000)
#define HIDDEN ((CUdeviceptr)0xa000)
#define UNKNOWN ((CUpointer_attribute)999)

static const struct zc_entry entry = {.fn = ZC_FN_cuMemGetHandleForAddressRange};
static struct zc_backing backing;

/* The driver's answers. */
static CUresult get_one(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    tell("driver: %d of %llx", attribute, (unsigned long long)ptr);
    *(int *)data = attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE ? 1 : 1234;
    return attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE ? has.bus : hook.driver;
}

/* About memory that the driver does not know: the address itself as host address. */
static CUresult get_many(unsigned count, CUpointer_attribute *attributes, void **data,
                         CUdeviceptr ptr)
{
    for (unsigned i = 0; i < count && has.knows == CUDA_SUCCESS; i++)
        *(uint64_t *)data[i] =
            attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && !has.silent ? ptr : 0;
    tell("driver: %u of %s", count, ptr == OUTSIDE ? "it" : ptr == 0xd15 ? "disguise" : "another");
    return has.knows;
}

static CUresult set_one(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    (void)value;
    tell("driver: sets %d of %llx", attribute, (unsigned long long)ptr);
    return hook.driver;
}

static CUresult get_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
    (void)base, (void)bytes;
    tell("driver: range of %llx", (unsigned long long)ptr);
    return hook.driver;
}

static CUresult get_info(size_t *free, size_t *total)
{
    tell("driver: info");
    if (free)
        *free = 100;
    if (total)
        *total = 200;
    return has.info;
}

static CUresult get_device(CUdevice *device)
{
    *device = 3;
    return CUDA_SUCCESS;
}

static CUresult get_handle(void *handle, CUdeviceptr ptr, size_t bytes, CUmemRangeHandleType type,
                           unsigned long long flags)
{
    (void)handle, (void)bytes, (void)type, (void)flags;
    tell("driver: handle of %llx", (unsigned long long)ptr);
    return hook.driver;
}

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    has.on_device = HOOK_BYTES;
    hook.margin = MARGIN;
    hook.hidden = HIDDEN;
    backing = (struct zc_backing){.synced = false};
    zc_real.cuPointerGetAttribute = get_one;
    zc_real.cuPointerGetAttributes = get_many;
    zc_real.cuCtxGetDevice = get_device;
    return 0;
}

/* The answer to a question about an address, as a word; the rest of it stays as it was. */
#define NOTHING UINT64_C(0xeeeeeeeeeeeeeeee)
static CUresult asked_code;
static uint64_t ask(CUpointer_attribute attribute, CUdeviceptr ptr)
{
    uint64_t word = NOTHING;
    asked_code = zc_do_cuPointerGetAttribute(get_one, &entry, &word, attribute, ptr);
    return word;
}
#define assert_word(name, ptr, expected)                                                           \
    do {                                                                                           \
        assert_int_equal(ask(CU_POINTER_ATTRIBUTE_##name, ptr), expected);                         \
        assert_int_equal(asked_code, CUDA_SUCCESS);                                                \
    } while (0)
#define assert_number(name, ptr, expected)                                                         \
    assert_word(name, ptr, (NOTHING & ~UINT64_C(0xffffffff)) | (uint32_t)(expected))

static void a_device_block_is_the_memory_that_was_requested(void **state)
{
    (void)state;
    assert_word(CONTEXT, BLOCK, (uint64_t)HOOK_HOME);
    assert_number(MEMORY_TYPE, BLOCK + 5, CU_MEMORYTYPE_DEVICE);
    assert_word(DEVICE_POINTER, BLOCK + 5, BLOCK + 5);
    assert_number(IS_MANAGED, BLOCK, 0);
    assert_number(IS_LEGACY_CUDA_IPC_CAPABLE, BLOCK, 0);
    assert_number(DEVICE_ORDINAL, BLOCK, 4);
    assert_word(RANGE_START_ADDR, BLOCK + 9, BLOCK);
    assert_word(RANGE_SIZE, BLOCK + 9, HOOK_BYTES);
    assert_number(MAPPED, BLOCK, 1);
    assert_word(ALLOWED_HANDLE_TYPES, BLOCK, 0);
    assert_word(MEMPOOL_HANDLE, BLOCK, 0);
    assert_number(ACCESS_FLAGS, BLOCK, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    assert_int_equal(ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, BLOCK), NOTHING);
    assert_int_equal(asked_code, CUDA_ERROR_INVALID_VALUE);
    assert_told("");
}

static void a_hosted_block_has_a_host_address_and_no_tokens(void **state)
{
    (void)state;
    unsigned char tokens[16];
    memset(tokens, 0xee, sizeof(tokens));
    assert_int_equal(zc_do_cuPointerGetAttribute(get_one, &entry, tokens,
                                                 CU_POINTER_ATTRIBUTE_P2P_TOKENS, BLOCK),
                     CUDA_SUCCESS);
    for (unsigned i = 0; i < sizeof(tokens); i++)
        assert_int_equal(tokens[i], i < 12 ? 0 : 0xee);
    hook_hosted(0);
    assert_number(MEMORY_TYPE, BLOCK, CU_MEMORYTYPE_HOST);
    assert_word(HOST_POINTER, BLOCK + 3, BLOCK + 3);
    assert_int_equal(ask(CU_POINTER_ATTRIBUTE_P2P_TOKENS, BLOCK), NOTHING);
    assert_int_equal(asked_code, CUDA_ERROR_INVALID_VALUE);
}

static void each_block_has_an_id_that_no_driver_gives(void **state)
{
    (void)state;
    assert_word(BUFFER_ID, BLOCK, (UINT64_C(1) << 62) + 1);
    assert_word(MEMORY_BLOCK_ID, HOOK_BLOCK(1), (UINT64_C(1) << 62) + 2);
}

static void a_mapping_is_told_in_whole_pages(void **state)
{
    (void)state;
    uint64_t huge = 2 << 20;
    hook_block[0].base = BLOCK + 0x1001000;
    hook_block[0].size = huge;
    assert_word(MAPPING_BASE_ADDR, BLOCK + 0x1001000, BLOCK + 0x1000000);
    assert_word(MAPPING_SIZE, BLOCK + 0x1001000, 2 * huge);
    hook_block[0].base = BLOCK;
    assert_word(MAPPING_BASE_ADDR, BLOCK, BLOCK);
    assert_word(MAPPING_SIZE, BLOCK, huge);
    hook_block[0].size = huge + 1;
    assert_word(MAPPING_SIZE, BLOCK, 2 * huge);
    /* Memory that the program has registered itself is mapped by the CPU's pages. */
    hook_block[0].flags = ZC_BLOCK_ADOPTED;
    hook_block[0].base = BLOCK + 0x10;
    hook_block[0].size = 0x2000;
    assert_word(MAPPING_BASE_ADDR, BLOCK + 0x10, BLOCK);
    assert_word(MAPPING_SIZE, BLOCK + 0x10, 0x3000);
}

static void
other_devices_reach_a_block_that_is_whole_on_its_own_and_that_the_driver_says_so_of(void **state)
{
    (void)state;
    assert_number(IS_GPU_DIRECT_RDMA_CAPABLE, BLOCK + 1, 1);
    assert_told("driver: 15 of 10000001");
    has.bus = CUDA_ERROR_UNKNOWN;
    assert_number(IS_GPU_DIRECT_RDMA_CAPABLE, BLOCK, 0);
    has.bus = CUDA_SUCCESS;
    has.on_device = HOOK_BYTES - 1;
    hook_told[0] = '\0';
    assert_number(IS_GPU_DIRECT_RDMA_CAPABLE, BLOCK, 0);
    assert_told("");
}

static void an_attribute_of_a_newer_driver_is_refused_as_an_older_one_does(void **state)
{
    (void)state;
    assert_number(IS_HW_DECOMPRESS_CAPABLE, BLOCK, 0);
    assert_number(LOCALITY_DOMAIN_ORDINAL, BLOCK, -1);
    has.knows = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(ask(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, BLOCK), NOTHING);
    assert_int_equal(ask(CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL, BLOCK), NOTHING);
    assert_int_equal(asked_code, CUDA_ERROR_INVALID_VALUE);
}

static void an_attribute_that_only_the_driver_knows_shows_it_the_block_first(void **state)
{
    (void)state;
    ask(UNKNOWN, BLOCK);
    assert_int_equal(asked_code, CUDA_SUCCESS);
    assert_told("push; driver: 1 of another; pop; retreat of 1: the driver is asked about it; "
                "hold; driver: 999 of 10000000; unhold");
    hook.driver = CUDA_ERROR_NOT_SUPPORTED;
    has.no_push = true;
    ask(UNKNOWN, BLOCK);
    assert_int_equal(asked_code, CUDA_ERROR_NOT_SUPPORTED);
    assert_told("push; driver: 1 of another; retreat of 1: the driver is asked about it; "
                "hold; driver: 999 of 10000000; unhold");
    has.knows = CUDA_ERROR_INVALID_VALUE; /* Nobody knows it: the block stays what it is. */
    ask(UNKNOWN, BLOCK);
    assert_int_equal(asked_code, CUDA_ERROR_INVALID_VALUE);
    assert_told("push; driver: 1 of another");
    has.knows = CUDA_ERROR_NOT_SUPPORTED;
    hook.retreat = CUDA_ERROR_OUT_OF_MEMORY;
    ask(UNKNOWN, BLOCK);
    assert_int_equal(asked_code, CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("push; driver: 1 of another; retreat of 1: the driver is asked about it");
}

static void nothing_is_told_of_freed_blocks_nor_of_margins(void **state)
{
    (void)state;
    assert_int_equal(
        zc_do_cuPointerGetAttribute(get_one, &entry, NULL, CU_POINTER_ATTRIBUTE_CONTEXT, BLOCK),
        CUDA_ERROR_INVALID_VALUE);
    hook_block[0].flags |= ZC_BLOCK_QUARANTINED;
    assert_int_equal(ask(CU_POINTER_ATTRIBUTE_CONTEXT, BLOCK), NOTHING);
    assert_int_equal(asked_code, CUDA_ERROR_INVALID_VALUE);
    ask(CU_POINTER_ATTRIBUTE_CONTEXT, MARGIN);
    assert_int_equal(asked_code, CUDA_ERROR_INVALID_VALUE);
    assert_told("");
    ask(CU_POINTER_ATTRIBUTE_CONTEXT, OUTSIDE);
    ask(CU_POINTER_ATTRIBUTE_CONTEXT, HIDDEN);
    hook_off();
    ask(CU_POINTER_ATTRIBUTE_CONTEXT, BLOCK);
    assert_told("driver: 1 of 8000; driver: 1 of d15; driver: 1 of 10000000");
}

/* Several questions at once: the host address, the device's, the kind. */
static uint64_t words[3];
static CUresult ask_many(CUdeviceptr ptr)
{
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                        CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                        CU_POINTER_ATTRIBUTE_CONTEXT};
    void *data[] = {&words[0], &words[1], &words[2]};
    words[0] = words[1] = words[2] = NOTHING;
    return zc_do_cuPointerGetAttributes(get_many, &entry, 3, attributes, data, ptr);
}

static void several_questions_at_once_are_answered_like_each_alone(void **state)
{
    (void)state;
    assert_int_equal(ask_many(BLOCK + 8), CUDA_SUCCESS);
    assert_int_equal(words[0], 0); /* Device memory has none: the call succeeds with 0. */
    assert_int_equal(words[1], BLOCK + 8);
    assert_int_equal(words[2], (uint64_t)HOOK_HOME);
    hook_hosted(0);
    assert_int_equal(ask_many(BLOCK + 8), CUDA_SUCCESS);
    assert_int_equal(words[0], BLOCK + 8);
    assert_told("driver: 3 of another; driver: 3 of another");
    has.knows = CUDA_ERROR_INVALID_VALUE; /* A bad list is bad in any memory. */
    assert_int_equal(ask_many(BLOCK), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(words[1], NOTHING);
}

static void memory_that_is_nobody_s_has_its_own_address_and_no_more(void **state)
{
    (void)state;
    assert_int_equal(ask_many(MARGIN + 8), CUDA_SUCCESS);
    assert_int_equal(words[0], MARGIN + 8);
    assert_int_equal(words[1], 0);
    hook_block[0].flags |= ZC_BLOCK_QUARANTINED;
    assert_int_equal(ask_many(BLOCK + 8), CUDA_SUCCESS);
    assert_int_equal(words[0], BLOCK + 8);
    assert_int_equal(words[1], 0);
    assert_int_equal(words[2], 0);
    assert_int_equal(ask_many(HIDDEN + 8), CUDA_SUCCESS);
    assert_int_equal(words[0], HIDDEN + 8);
    assert_told("driver: 3 of another; driver: 3 of another; driver: 3 of disguise");
    assert_int_equal(ask_many(OUTSIDE), CUDA_SUCCESS);
    assert_int_equal(words[0], OUTSIDE);
    assert_told("driver: 3 of it");
    has.silent = true; /* A driver that tells no host address. */
    assert_int_equal(ask_many(MARGIN + 8), CUDA_SUCCESS);
    assert_int_equal(words[0], 0);
}

static CUresult set(const int *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    return zc_do_cuPointerSetAttribute(set_one, &entry, value, attribute, ptr);
}

static void copies_of_a_block_are_made_synchronous_for_as_long_as_the_program_says(void **state)
{
    (void)state;
    static const int on = 1, none = 0;
    assert_number(SYNC_MEMOPS, BLOCK, 0);
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_SUCCESS);
    assert_number(SYNC_MEMOPS, BLOCK, 1);
    assert_int_equal(hook_block[0].flags, ZC_BLOCK_CONVERTED | ZC_BLOCK_SYNC_MEMOPS);
    assert_int_equal(set(&none, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_SUCCESS);
    assert_number(SYNC_MEMOPS, BLOCK, 0);
    assert_int_equal(hook_block[0].flags, ZC_BLOCK_CONVERTED);
    assert_told("");
}

static void the_driver_is_told_of_pinned_blocks_whose_copies_are_to_be_synchronous(void **state)
{
    (void)state;
    static const int on = 1;
    hook_hosted(0)->backing = &backing;
    has.sync = CUDA_ERROR_UNKNOWN;
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_ERROR_UNKNOWN);
    assert_false(backing.synced);
    assert_number(SYNC_MEMOPS, BLOCK, 0);
    has.sync = CUDA_SUCCESS;
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_SUCCESS);
    assert_true(backing.synced);
    assert_number(SYNC_MEMOPS, BLOCK, 1);
    hook_block[0].backing = NULL; /* The program's own memory. */
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_SUCCESS);
    assert_told("sync 10000000: 1; sync 10000000: 1; sync 10000000: 1");
}

static void other_attributes_and_other_memory_are_set_by_the_driver(void **state)
{
    (void)state;
    static const int on = 1;
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, BLOCK), CUDA_ERROR_UNKNOWN);
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, HIDDEN), CUDA_ERROR_UNKNOWN);
    assert_told("driver: sets 2 of 10000000; driver: sets 6 of d15");
    assert_int_equal(set(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, MARGIN), CUDA_ERROR_INVALID_VALUE);
    hook_block[0].flags |= ZC_BLOCK_QUARANTINED;
    assert_int_equal(set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, BLOCK), CUDA_ERROR_INVALID_VALUE);
    assert_told("");
}

static void a_block_s_range_is_its_own(void **state)
{
    (void)state;
    CUdeviceptr base = 1;
    size_t bytes = 1;
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, &base, &bytes, BLOCK + 5),
                     CUDA_SUCCESS);
    assert_int_equal(base, BLOCK);
    assert_int_equal(bytes, HOOK_BYTES);
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, NULL, NULL, BLOCK + 5),
                     CUDA_SUCCESS);
    assert_told("");
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, &base, &bytes, HIDDEN),
                     CUDA_ERROR_UNKNOWN);
    assert_told("driver: range of d15");
}

static void there_is_no_range_of_freed_memory_and_margins_nor_behind_a_failed_kernel(void **state)
{
    (void)state;
    CUdeviceptr base = 1;
    size_t bytes = 1;
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, &base, &bytes, MARGIN),
                     CUDA_ERROR_NOT_FOUND);
    hook.state = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, &base, &bytes, MARGIN),
                     CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, &base, &bytes, BLOCK),
                     CUDA_ERROR_LAUNCH_FAILED);
    hook.state = CUDA_SUCCESS;
    hook_block[0].flags |= ZC_BLOCK_QUARANTINED;
    assert_int_equal(zc_do_cuMemGetAddressRange_v2(get_range, &entry, &base, &bytes, BLOCK),
                     CUDA_ERROR_NOT_FOUND);
    assert_true(base == 1 && bytes == 1);
    assert_told("");
}

static void memory_that_streams_have_passed_counts_as_free(void **state)
{
    (void)state;
    size_t free, total;
    assert_int_equal(zc_do_cuMemGetInfo_v2(get_info, &entry, &free, &total), CUDA_SUCCESS);
    assert_int_equal(free, 107);
    assert_told("reaped; driver: info; report 3");
    assert_int_equal(zc_do_cuMemGetInfo_v2(get_info, &entry, NULL, &total), CUDA_SUCCESS);
    assert_told("driver: info; report 3");
    has.info = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_do_cuMemGetInfo_v2(get_info, &entry, &free, &total), CUDA_ERROR_UNKNOWN);
    assert_told("reaped; driver: info");
    has.info = CUDA_SUCCESS;
    hook_off();
    assert_int_equal(zc_do_cuMemGetInfo_v2(get_info, &entry, &free, &total), CUDA_SUCCESS);
    assert_int_equal(free, 100);
    assert_told("driver: info");
}

static CUresult export(CUdeviceptr ptr)
{
    int handle;
    return zc_do_cuMemGetHandleForAddressRange(get_handle, &entry, &handle, ptr, 64,
                                               CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static void a_block_on_its_device_is_exported_and_stays_there(void **state)
{
    (void)state;
    assert_int_equal(export(BLOCK), CUDA_SUCCESS);
    assert_true(hook_block[0].flags & ZC_BLOCK_EXPORTED);
    assert_told("retreat of 1: the driver is asked about it; lock; driver: handle of 10000000; "
                "unlock");
    has.no_lock = true;
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(export(HOOK_BLOCK(1)), CUDA_ERROR_UNKNOWN);
    assert_false(hook_block[1].flags & ZC_BLOCK_EXPORTED);
    assert_told("retreat of 2: the driver is asked about it; lock; driver: handle of 20000000");
}

static void host_memory_behind_a_device_block_is_not_exported(void **state)
{
    (void)state;
    has.on_device = 0;
    assert_int_equal(export(BLOCK), CUDA_ERROR_NOT_SUPPORTED);
    assert_false(hook_block[0].flags & ZC_BLOCK_EXPORTED);
    assert_told("retreat of 1: the driver is asked about it; lock; unlock; "
                "diagnosed 10000000: 801");
    hook.retreat = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(export(BLOCK), CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("retreat of 1: the driver is asked about it");
    assert_int_equal(export(MARGIN), CUDA_ERROR_INVALID_VALUE);
    assert_told("");
}

static void memory_of_the_program_s_own_is_exported_by_the_driver(void **state)
{
    (void)state;
    assert_int_equal(export(OUTSIDE), CUDA_SUCCESS);
    hook_off();
    assert_int_equal(export(BLOCK), CUDA_SUCCESS);
    assert_false(hook_block[0].flags & ZC_BLOCK_EXPORTED);
    assert_told("driver: handle of 8000; driver: handle of 10000000");
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_device_block_is_the_memory_that_was_requested),
        TEST(a_hosted_block_has_a_host_address_and_no_tokens),
        TEST(each_block_has_an_id_that_no_driver_gives),
        TEST(a_mapping_is_told_in_whole_pages),
        TEST(other_devices_reach_a_block_that_is_whole_on_its_own_and_that_the_driver_says_so_of),
        TEST(an_attribute_of_a_newer_driver_is_refused_as_an_older_one_does),
        TEST(an_attribute_that_only_the_driver_knows_shows_it_the_block_first),
        TEST(nothing_is_told_of_freed_blocks_nor_of_margins),
        TEST(several_questions_at_once_are_answered_like_each_alone),
        TEST(memory_that_is_nobody_s_has_its_own_address_and_no_more),
        TEST(copies_of_a_block_are_made_synchronous_for_as_long_as_the_program_says),
        TEST(the_driver_is_told_of_pinned_blocks_whose_copies_are_to_be_synchronous),
        TEST(other_attributes_and_other_memory_are_set_by_the_driver),
        TEST(a_block_s_range_is_its_own),
        TEST(there_is_no_range_of_freed_memory_and_margins_nor_behind_a_failed_kernel),
        TEST(memory_that_streams_have_passed_counts_as_free),
        TEST(a_block_on_its_device_is_exported_and_stays_there),
        TEST(host_memory_behind_a_device_block_is_not_exported),
        TEST(memory_of_the_program_s_own_is_exported_by_the_driver),
    };
    return RUN_TESTS(tests);
}
