/* SPDX-License-Identifier: MIT */
/* Devices that reach memory mapped by hand: what peer access and copies open,
 * whichever call the driver refuses. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "real_test.h"

#define zc_va_lock fake_lock /* Also where a header calls them. */
#define zc_va_unlock fake_unlock
#include "vmm/vmm.h"

#define CONTEXT(i) ((CUcontext)(uintptr_t)(0x1000 * ((i) + 1)))

/* The driver and the neighbours. */
static struct {
    char trace[600];
    unsigned locked, locks;
    bool locked_out;
    int refuses; /* So many calls of zc_va_open() from now, 1: the next.  0: none. */
    CUresult reserve, device, owner, count, stream, can, open_host;
    int devices, on, can_reach;
    unsigned sets;
    int stream_device;
    uint64_t active; /* Devices whose primary context is, one bit each. */
    CUresult whose;
    bool capture_open;
} has;

static void say(const char *text)
{
    strncat(has.trace, text, sizeof(has.trace) - strlen(has.trace) - 1);
}

bool fake_lock(void)
{
    if (has.locked_out || has.locked)
        return false;
    has.locked++;
    has.locks++;
    return true;
}

void fake_unlock(void)
{
    assert_int_equal(has.locked, 1);
    has.locked--;
}

static CUresult fake_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide)
{
    assert_true(span == 8 && granularity == 4 && wide && va);
    say("reserve ");
    return has.reserve;
}

static CUresult fake_open(const struct zc_va *va, uint64_t devices)
{
    char text[80];
    snprintf(text, sizeof(text), "%d+%llx ", (int)(va->size), (unsigned long long)devices);
    assert_int_equal(has.locked, 1);
    has.sets++;
    say(text);
    return has.refuses && --has.refuses == 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_open_host(struct zc_va *va)
{
    char text[80];
    snprintf(text, sizeof(text), "cpu%d ", (int)va->size);
    say(text);
    return has.open_host;
}

static CUresult get_count(int *count)
{
    *count = has.devices;
    return has.count;
}

static CUresult get_device(CUdevice *device)
{
    *device = has.on;
    return has.device;
}

static CUresult fake_device_of(CUcontext context, CUdevice *device)
{
    *device = (int)((uintptr_t)context / 0x1000) - 1;
    return has.owner;
}

static CUcontext fake_primary(int device)
{
    return has.active >> device & 1 ? CONTEXT(device) : NULL;
}

static CUresult get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr p)
{
    assert_int_equal(attribute, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    say("whose? ");
    *(int *)data = (int)p;
    return has.whose;
}

static CUresult can_access(int *can, CUdevice device, CUdevice memory)
{
    assert_true(device != memory);
    say("can? ");
    *can = has.can_reach;
    return has.can;
}

static CUresult fake_stream_device(CUstream stream, enum zc_flavour flavour, CUdevice *device)
{
    assert_true(stream == (CUstream)7 && flavour == ZC_PER_THREAD);
    say("stream ");
    *device = has.stream_device;
    return has.stream;
}

static CUstreamCaptureMode fake_relax(void)
{
    has.capture_open = true;
    return (CUstreamCaptureMode)5;
}

static void fake_restore(CUstreamCaptureMode mode)
{
    assert_true(mode == (CUstreamCaptureMode)5 && has.capture_open);
    has.capture_open = false;
}

static struct zc_vmm *fake_of(const struct zc_block *block)
{
    const struct zc_backing *b = block ? block->backing : NULL;
    return b ? b->vmm : NULL;
}

#define zc_va_reserve fake_reserve
#define zc_va_open fake_open
#define zc_va_open_host fake_open_host
#define zc_stream_device fake_stream_device
#define zc_context_device fake_device_of
#define zc_context_primary fake_primary
#define zc_capture_relax fake_relax
#define zc_capture_restore fake_restore
#define zc_vmm_of fake_of
#include "../../shim/vmm/access.c"

/* Ranges of the devices 0, 1 and 2, in contexts of the same numbers; the last also of device 0 and
 * context 0. */
enum { RANGES = 4 };
static struct zc_vmm vmm[RANGES];
static struct zc_backing backing[RANGES];
static struct zc_block block[RANGES];
static struct zc_copy copy;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(vmm, 0, sizeof(vmm));
    memset(&copy, 0, sizeof(copy));
    memset(block, 0, sizeof(block));
    memset(&rights, 0, sizeof(rights));
    rights.many = true;
    zc_va_list = NULL;
    real_without_driver();
    zc_real.cuDeviceGetCount = get_count;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuDeviceCanAccessPeer = can_access;
    zc_real.cuPointerGetAttribute = get_attribute;
    has.devices = 3;
    has.on = 1;
    for (int i = RANGES - 1; i >= 0; i--) {
        struct zc_va *va = &vmm[i].va;
        va->device = i % 3;
        va->context = CONTEXT(i % 3);
        va->size = (size_t)i;
        va->devices = zc_va_bit(i % 3);
        DL_PREPEND2(zc_va_list, va, before, next);
        backing[i].vmm = &vmm[i];
        block[i].backing = &backing[i];
    }
    copy.stream = (CUstream)7;
    copy.flavour = ZC_PER_THREAD;
    copy.shape = ZC_SHAPE_LINE;
    return 0;
}

/* Opens an element of a batch in a stream of the current device. */
static CUresult opened(void)
{
    has.on = has.stream_device;
    return zc_vmm_open(&copy, true);
}

static void expect(const char *text)
{
    assert_string_equal(has.trace, text);
    assert_int_equal(has.locked, 0);
    assert_false(has.capture_open);
    has.trace[0] = 0;
}

static void reaches(unsigned zero, unsigned one, unsigned two, unsigned three)
{
    assert_int_equal(vmm[0].va.devices, zero);
    assert_int_equal(vmm[1].va.devices, one);
    assert_int_equal(vmm[2].va.devices, two);
    assert_int_equal(vmm[3].va.devices, three);
}

static void a_range_is_entered_with_the_devices_that_reach_its_memory(void **state)
{
    struct zc_va va = {.device = 0};
    const char *why = NULL;
    (void)state;
    assert_int_equal(zc_access_enable(CONTEXT(0)), CUDA_SUCCESS);
    expect("0+2 3+2 ");
    has.reserve = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_access_reserve(&va, 8, 4, true, &why), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "cuMemAddressReserve refuses");
    expect("reserve ");
    assert_true(zc_va_list == &vmm[0].va && va.devices == 0);
    has.reserve = CUDA_SUCCESS;
    assert_int_equal(zc_access_reserve(&va, 8, 4, true, &why), CUDA_SUCCESS);
    expect("reserve ");
    assert_true(zc_va_list == &va && va.next == &vmm[0].va && va.devices == 3);
    DL_DELETE2(zc_va_list, &va, before, next);
    va = (struct zc_va){.device = 1, .base = 0x1000};
    has.reserve = CUDA_ERROR_OUT_OF_MEMORY; /* It has addresses. */
    assert_int_equal(zc_access_reserve(&va, 8, 4, true, &why), CUDA_SUCCESS);
    assert_true(zc_va_list == &va && va.devices == 2);
    expect("");
    DL_DELETE2(zc_va_list, &va, before, next);
}

static void a_process_with_one_device_asks_no_more(void **state)
{
    static const struct {
        int devices;
        CUresult result;
        const char *calls;
    } rows[] = {{1, CUDA_SUCCESS, ""},
                {2, CUDA_SUCCESS, "stream 0+2 "},
                {0, CUDA_SUCCESS, ""},
                {1, CUDA_ERROR_UNKNOWN, "stream "}};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct zc_va va = {.base = 1};
        const char *why;
        rights.many = false;
        has.devices = rows[i].devices;
        has.count = rows[i].result;
        assert_int_equal(zc_access_reserve(&va, 8, 4, true, &why), CUDA_SUCCESS);
        DL_DELETE2(zc_va_list, &va, before, next);
        assert_int_equal(rights.many, i % 2);
        copy.dst.block = &block[0];
        copy.src.block = &block[1];
        has.stream_device = 1;
        assert_int_equal(opened(), CUDA_SUCCESS);
        expect(rows[i].calls);
    }
    rights.many = true;
    struct zc_va va = {.base = 1};
    const char *why;
    has.devices = 1;
    has.count = CUDA_SUCCESS;
    zc_access_reserve(&va, 8, 4, true, &why);
    assert_true(rights.many);
    DL_DELETE2(zc_va_list, &va, before, next);
}

static void peer_access_opens_the_blocks_of_a_device(void **state)
{
    (void)state;
    assert_int_equal(zc_access_enable(CONTEXT(0)), CUDA_SUCCESS);
    expect("0+2 3+2 ");
    reaches(3, 2, 4, 3);
    has.on = 2;
    assert_int_equal(zc_access_enable(CONTEXT(0)), CUDA_SUCCESS);
    expect("0+4 3+4 ");
    assert_int_equal(zc_access_others(&vmm[0].va), 6);
    assert_int_equal(zc_access_others(&vmm[1].va), 0);
    assert_int_equal(zc_access_enable(CONTEXT(1)), CUDA_SUCCESS);
    expect("1+4 ");
    reaches(7, 6, 4, 7);
    assert_int_equal(zc_access_enable(CONTEXT(1)), CUDA_SUCCESS);
    expect(""); /* They are open. */
    assert_int_equal(zc_access_enable(CONTEXT(ZC_DEVICES)), CUDA_SUCCESS);
    expect(""); /* No block is there. */
}

static void access_that_is_not_given_lets_nobody_in(void **state)
{
    static const struct {
        CUresult device, push;
        bool locked_out;
        int refuses;
        CUresult result;
        const char *calls;
        unsigned first;
    } rows[] = {
        {CUDA_ERROR_INVALID_CONTEXT, 0, false, 0, CUDA_ERROR_INVALID_CONTEXT, "", 1},
        {0, CUDA_ERROR_DEINITIALIZED, false, 0, CUDA_ERROR_DEINITIALIZED, "", 1},
        {0, 0, true, 0, CUDA_ERROR_OUT_OF_MEMORY, "", 1},
        {0, 0, false, 1, CUDA_ERROR_UNKNOWN, "0+2 ", 1},
        {0, 0, false, 2, CUDA_ERROR_UNKNOWN, "0+2 3+2 ", 3}, /* The first stays open. */
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.device = rows[i].device;
        has.owner = rows[i].push;
        has.locked_out = rows[i].locked_out;
        has.refuses = rows[i].refuses;
        assert_int_equal(zc_access_enable(CONTEXT(0)), rows[i].result);
        expect(rows[i].calls);
        assert_int_equal(rights.let_in[0], 0);
        reaches(rows[i].first, 2, 4, 1);
    }
}

static void
the_current_device_makes_a_copy_and_the_streams_one_too_where_it_is_in_a_batch(void **state)
{
    static const struct {
        bool batch, set, none;
        CUresult result;
        const char *calls;
    } rows[] = {
        {.calls = "0+2 1+2 "},
        {.none = true, .calls = ""},
        {.batch = true, .calls = "stream 0+4 1+4 0+2 1+2 "},
        {.batch = true, .none = true, .calls = "stream 0+4 1+4 "},
        {.set = true, .result = CUDA_ERROR_INVALID_VALUE, .calls = "stream "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        vmm[1].va.device = 0;
        vmm[1].va.devices = 1;
        copy.dst.block = &block[0];
        copy.src.block = &block[1];
        copy.shape = rows[i].set ? ZC_SHAPE_SET : ZC_SHAPE_LINE;
        has.stream_device = 2;
        has.on = 1;
        has.device = rows[i].none ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
        assert_int_equal(zc_vmm_open(&copy, rows[i].batch), rows[i].result);
        expect(rows[i].calls);
    }
}

static void a_copy_opens_both_sides_to_the_device_that_makes_it(void **state)
{
    (void)state;
    copy.dst.block = &block[0];
    copy.src.block = &block[2];
    has.stream_device = 1;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream 0+2 2+2 ");
    reaches(3, 2, 6, 1);
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream "); /* They are open. */
    has.stream_device = 2;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream 0+4 ");
    copy.dst.block = NULL; /* One side alone. */
    assert_int_equal(opened(), CUDA_SUCCESS);
    copy.src.block = NULL;
    copy.dst.block = &block[3];
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream stream 3+4 ");
    copy.dst.block = NULL;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("");
}

static void copies_of_peers_and_calls_the_driver_refuses_open_nothing(void **state)
{
    (void)state;
    copy.dst.block = &block[0];
    copy.src.block = &block[2];
    has.stream_device = 1;
    copy.dst.context = CONTEXT(0);
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("");
    copy.dst.context = NULL;
    has.stream = CUDA_ERROR_INVALID_HANDLE;
    assert_int_equal(opened(), CUDA_ERROR_INVALID_HANDLE);
    copy.shape = ZC_SHAPE_SET;
    assert_int_equal(opened(), CUDA_ERROR_INVALID_HANDLE);
    expect("stream stream ");
    has.stream = CUDA_SUCCESS;
    copy.shape = ZC_SHAPE_LINE;
    has.locked_out = true;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream ");
    reaches(1, 2, 4, 1);
}

/* The block of device 0 is the source; its end is in host memory. */
static void host_memory_opens_to_the_devices_that_may_have_the_other_side(void **state)
{
    static const struct {
        struct zc_operand to;
        CUcontext from; /* Context that the call names for the source. */
        CUresult whose;
        const char *calls; /* Before the stream's device is asked for. */
    } rows[] = {
        {{.block = &block[1]}, NULL, CUDA_SUCCESS, "0+2 "},
        {{.block = &block[3]}, NULL, CUDA_SUCCESS, ""}, /* The same device. */
        {{.context = CONTEXT(2)}, CONTEXT(0), CUDA_SUCCESS, "0+4 "},
        {{.block = &block[1], .context = CONTEXT(2)}, CONTEXT(0), CUDA_SUCCESS, "0+2 "},
        {{.real = ZC_KIND_DEVICE, .address = 1}, NULL, CUDA_SUCCESS, "whose? 0+2 "},
        {{.real = ZC_KIND_MANAGED, .address = 2}, NULL, CUDA_SUCCESS, "whose? 0+4 "},
        {{.real = ZC_KIND_DEVICE, .address = 63}, NULL, CUDA_SUCCESS, "whose? 0+8000000000000000 "},
        {{.real = ZC_KIND_DEVICE, .address = 0}, NULL, CUDA_SUCCESS, "whose? "},
        {{.real = ZC_KIND_DEVICE, .address = -1}, NULL, CUDA_ERROR_INVALID_VALUE, "whose? "},
        {{.real = ZC_KIND_PINNED, .address = 1}, NULL, CUDA_SUCCESS, ""},
        {{.side = ZC_SIDE_ARRAY}, NULL, CUDA_SUCCESS, "0+2 0+4 "},
        {{.side = ZC_SIDE_ARRAY, .context = CONTEXT(1)}, CONTEXT(0), CUDA_SUCCESS, "0+2 "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int node = 0; node < 2; node++) {
            char calls[80];
            anew(NULL);
            has.active = 7;
            has.whose = rows[i].whose;
            vmm[0].va.host = (struct zc_va_host){.from = 1, .to = 2};
            copy.dst = rows[i].to;
            copy.src = (struct zc_operand){.block = &block[0], .context = rows[i].from};
            assert_int_equal(node ? zc_vmm_open_far(&copy) : opened(), CUDA_SUCCESS);
            bool asks = !node && !rows[i].from;
            snprintf(calls, sizeof(calls), "%s%s", rows[i].calls, asks ? "stream " : "");
            if (asks && copy.dst.block == &block[1])
                strcat(calls, "1+1 ");
            expect(calls);
        }
    copy.shape = ZC_SHAPE_SET;
    copy.dst.block = &block[1];
    assert_int_equal(zc_vmm_open_far(&copy), CUDA_SUCCESS);
    copy.shape = ZC_SHAPE_LINE;
    rights.many = false;
    assert_int_equal(zc_vmm_open_far(&copy), CUDA_SUCCESS);
    expect("");
}

static void host_memory_that_can_not_be_opened_ends_the_copy(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        anew(NULL);
        vmm[0].va.host = (struct zc_va_host){.from = 1, .to = 2};
        (source ? &copy.src : &copy.dst)->block = &block[0];
        (source ? &copy.dst : &copy.src)->block = &block[1];
        has.refuses = 1;
        has.can_reach = 1;
        assert_int_equal(opened(), CUDA_ERROR_UNKNOWN);
        expect("0+2 can? ");
    }
}

/* If the devices can't reach each other, it is the driver that says so. */
static void a_block_that_can_not_be_opened_is_as_before(void **state)
{
    static const struct {
        int can;
        CUresult asked, result;
        const char *calls;
    } rows[] = {
        {1, CUDA_SUCCESS, CUDA_ERROR_UNKNOWN, "stream 0+2 can? "},
        {0, CUDA_SUCCESS, CUDA_SUCCESS, "stream 0+2 can? 2+2 "},
        {0, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_UNKNOWN, "stream 0+2 can? "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        copy.dst.block = &block[0];
        copy.src.block = &block[2];
        has.stream_device = 1;
        has.can_reach = rows[i].can;
        has.can = rows[i].asked;
        has.refuses = 1;
        has.device = CUDA_ERROR_INVALID_CONTEXT;
        assert_int_equal(opened(), rows[i].result);
        expect(rows[i].calls);
        assert_true(vmm[0].va.devices == 1);
    }
    anew(NULL);
    copy.dst.block = &block[2];
    copy.src.block = &block[0];
    has.can_reach = 1;
    has.stream_device = 1;
    has.refuses = 2;
    assert_int_equal(opened(), CUDA_ERROR_UNKNOWN);
    expect("stream 2+2 0+2 can? ");
}

static void a_set_needs_peer_access(void **state)
{
    (void)state;
    copy.shape = ZC_SHAPE_SET;
    copy.dst.block = &block[0];
    has.stream_device = 1;
    assert_int_equal(opened(), CUDA_ERROR_INVALID_VALUE);
    expect("stream ");
    vmm[0].va.devices = 3; /* A copy has opened it. */
    assert_int_equal(opened(), CUDA_ERROR_INVALID_VALUE);
    has.stream_device = 0;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream stream ");
    anew(NULL);
    zc_access_enable(CONTEXT(0));
    copy.shape = ZC_SHAPE_SET;
    copy.dst.block = &block[0];
    has.stream_device = 1;
    has.trace[0] = 0;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream ");
    has.stream_device = 2;
    assert_int_equal(opened(), CUDA_ERROR_INVALID_VALUE);
    expect("stream ");
    copy.dst.block = NULL; /* Of a word, say. */
    copy.src.block = &block[2];
    has.stream_device = 1;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("stream ");
    reaches(3, 2, 4, 3);
}

static void host_memory_is_opened_to_the_cpu_for_any_copy(void **state)
{
    (void)state;
    rights.many = false;
    copy.dst.block = &block[0];
    copy.src.block = &block[2];
    vmm[2].va.host.closed = true;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("cpu2 ");
    vmm[0].va.host.closed = true;
    assert_int_equal(opened(), CUDA_SUCCESS);
    expect("cpu0 cpu2 ");
    has.open_host = CUDA_ERROR_NOT_SUPPORTED;
    rights.many = true;
    assert_int_equal(opened(), CUDA_ERROR_NOT_SUPPORTED);
    expect("cpu0 ");
    vmm[0].va.host.closed = false;
    assert_int_equal(opened(), CUDA_ERROR_NOT_SUPPORTED);
    expect("cpu2 ");
}

static void all_blocks_are_opened_to_all_devices(void **state)
{
    (void)state;
    assert_int_equal(zc_access_open_all(), CUDA_SUCCESS);
    expect("cpu0 0+2 0+4 cpu1 1+1 1+4 cpu2 2+1 2+2 cpu3 3+2 3+4 ");
    reaches(7, 7, 7, 7);
    assert_int_equal(zc_access_others(&vmm[1].va), 5); /* From then on. */
    anew(NULL);
    has.devices = ZC_DEVICES + 2;
    has.open_host = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_access_open_all(), CUDA_ERROR_UNKNOWN);
    expect("cpu0 ");
    has.open_host = CUDA_SUCCESS;
    zc_va_list->next = NULL;
    assert_int_equal(zc_access_open_all(), CUDA_SUCCESS);
    assert_int_equal(vmm[0].va.devices, UINT64_MAX);
    assert_int_equal(has.sets, ZC_DEVICES - 1);
    anew(NULL);
    has.refuses = 2;
    has.can_reach = 1;
    assert_int_equal(zc_access_open_all(), CUDA_ERROR_UNKNOWN);
    expect("cpu0 0+2 0+4 can? ");
    reaches(3, 2, 4, 1);
    anew(NULL);
    has.count = CUDA_ERROR_NOT_INITIALIZED;
    assert_int_equal(zc_access_open_all(), CUDA_ERROR_NOT_INITIALIZED);
    has.count = CUDA_SUCCESS;
    has.locked_out = true;
    assert_int_equal(zc_access_open_all(), CUDA_SUCCESS);
    has.locked_out = false;
    zc_va_list = NULL;
    has.count = CUDA_ERROR_NOT_INITIALIZED; /* Nobody is asked. */
    assert_int_equal(zc_access_open_all(), CUDA_SUCCESS);
    expect("");
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_range_is_entered_with_the_devices_that_reach_its_memory),
        TEST(a_process_with_one_device_asks_no_more),
        TEST(peer_access_opens_the_blocks_of_a_device),
        TEST(access_that_is_not_given_lets_nobody_in),
        TEST(a_copy_opens_both_sides_to_the_device_that_makes_it),
        TEST(the_current_device_makes_a_copy_and_the_streams_one_too_where_it_is_in_a_batch),
        TEST(copies_of_peers_and_calls_the_driver_refuses_open_nothing),
        TEST(host_memory_opens_to_the_devices_that_may_have_the_other_side),
        TEST(host_memory_that_can_not_be_opened_ends_the_copy),
        TEST(a_block_that_can_not_be_opened_is_as_before),
        TEST(a_set_needs_peer_access),
        TEST(host_memory_is_opened_to_the_cpu_for_any_copy),
        TEST(all_blocks_are_opened_to_all_devices),
    };
    return RUN_TESTS(tests);
}
