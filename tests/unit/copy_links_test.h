/* SPDX-License-Identifier: MIT */
/* copy/links.c for its tests: four GPUs whose streams run in any order that their events allow, and
 * in which any call may fail. */
#ifndef TESTS_UNIT_COPY_LINKS_TEST_H
#define TESTS_UNIT_COPY_LINKS_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/job.h"
#include "base/message.h"
#include "base/module.h"
#include "copy/links.h"
#include "driver/context.h"
#include "host/pinned.h"
#include "log/lines.h"
#include "memory/device.h"
#include "real_test.h"

#define MIB ((size_t)1 << 20)
#define GRAIN ((size_t)65536) /* Copies are of so many bytes or more, and each has one number. */
#define MOST (160 * MIB)
#define HOST ((CUdeviceptr)1 << 40)
#define DEVICE ((CUdeviceptr)2 << 40)
#define BUFFER(peer) ((CUdeviceptr)(4 + (peer)) << 40)
#define OWN_CONTEXT ((CUcontext)0x1000)
#define PEER_CONTEXT(peer) ((CUcontext)(uintptr_t)(0x2000 + (unsigned)(peer)))
enum { DEVICES = 4, STREAMS = 64, OPS = 4000, EVENTS = 4096 };
#define OWN_STREAM 0u /* Of the program; NULL to the library. */

enum op { COPY, WAIT, RECORD, FILL, CHECK };

static struct {
    /* Streams, by number, and the events, by how often they were recorded and passed. */
    struct {
        enum op op;
        CUdeviceptr dst, src;
        size_t bytes;
        unsigned event, version;
    } op[STREAMS][OPS];
    unsigned queued[STREAMS], done[STREAMS];
    CUcontext made_in[STREAMS];
    unsigned streams, events, recorded[EVENTS], passed[EVENTS], live;
    /* The device. */
    int own, devices, mode, access, native;
    CUcontext current[8];
    unsigned depth;
    unsigned calls, fails; /* The number of the call that fails; 0: none. */
    bool unknown;          /* Nothing is told of events. */
    bool refuses;          /* Copies of the program's stream. */
    unsigned lost;         /* The stream whose wait fails; 0: none. */
    bool joins;            /* No event can be put behind what a link does. */
    bool moves;            /* Copies are those of a block that moves. */
    CUresult enabled;      /* Of a request for peer access. */
    unsigned mode_asked, asked, let, enables, contexts, destroyed, created;
    size_t used, allocated;
    int active;
    unsigned long long now;
    const char *bus[DEVICES];
    /* The neighbours. */
    bool here, closing, known, busy_lock, stuck, leaves;
    unsigned rests; /* A bit for each context of the program's. */
    unsigned locked, others;
    uint64_t stream_id;
    struct zc_job job;
    unsigned relaxed, staged, told, logged, relayed;
    uint64_t relayed_bytes;
    char text[512];
} fake;

static uint32_t host_bytes[MOST / GRAIN + 1], device_bytes[MOST / GRAIN + 1],
    buffer_bytes[DEVICES][48 * MIB / GRAIN];

static bool fails(void)
{
    return ++fake.calls == fake.fails && fake.fails;
}

static uint32_t *at(CUdeviceptr address, size_t bytes)
{
    unsigned region = (unsigned)(address >> 40);
    size_t first = (address & (((CUdeviceptr)1 << 40) - 1)) / GRAIN;
    size_t most = region == 1 || region == 2 ? MOST : 48 * MIB;
    assert_true(region >= 1 && region < 4 + DEVICES && region != 3);
    assert_true(bytes > 0 && first * GRAIN + bytes <= most);
    return (region == 1   ? host_bytes
            : region == 2 ? device_bytes
                          : buffer_bytes[region - 4]) +
           first;
}

/* Copies, and the NULL stream, are of the current context. */
static unsigned number(CUstream stream, enum op op)
{
    unsigned n = (unsigned)(uintptr_t)stream;
    assert_true(n <= fake.streams);
    if (!n || op == COPY)
        assert_ptr_equal(n ? fake.made_in[n] : OWN_CONTEXT, fake.current[fake.depth]);
    return n;
}

/* No event's handle is that of a stream. */
static CUevent event_of(unsigned n)
{
    return (CUevent)(uintptr_t)(0x100000 + n);
}

static unsigned event_number(CUevent event)
{
    assert_true((uintptr_t)event > 0x100000 && (uintptr_t)event < 0x100000 + EVENTS);
    return (unsigned)((uintptr_t)event - 0x100000);
}

static CUresult enqueue(enum op op, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                        CUevent event)
{
    unsigned s = number(stream, op), i = fake.queued[s], e = event ? event_number(event) : 0;
    assert_true(i < OPS && e < EVENTS);
    if (fails() || (op == COPY && !s && fake.refuses) || (op == RECORD && s && fake.joins))
        return CUDA_ERROR_LAUNCH_FAILED;
    fake.op[s][i].op = op;
    fake.op[s][i].dst = dst;
    fake.op[s][i].src = src;
    fake.op[s][i].bytes = bytes;
    fake.op[s][i].event = e;
    fake.op[s][i].version = op == RECORD ? ++fake.recorded[e] : fake.recorded[e];
    fake.queued[s]++;
    return CUDA_SUCCESS;
}

/* Makes one step of a stream; false if it has none that it can make. */
static bool step(unsigned s)
{
    unsigned i = fake.done[s];
    if (i == fake.queued[s])
        return false;
    unsigned e = fake.op[s][i].event, version = fake.op[s][i].version;
    switch (fake.op[s][i].op) {
    case WAIT:
        if (fake.passed[e] < version)
            return false;
        break;
    case RECORD:
        fake.passed[e] = version;
        break;
    case COPY:
        memmove(at(fake.op[s][i].dst, fake.op[s][i].bytes),
                at(fake.op[s][i].src, fake.op[s][i].bytes),
                (fake.op[s][i].bytes + GRAIN - 1) / GRAIN * sizeof(uint32_t));
        break;
    case FILL: /* The program writes the source, and the destination is another one until then. */
        for (size_t g = 0; g < fake.op[s][i].bytes / GRAIN; g++) {
            at(fake.op[s][i].src, MOST)[g] = (uint32_t)(g * 7 + s + i);
            at(fake.op[s][i].dst, MOST)[g] = UINT32_MAX;
        }
        break;
    case CHECK:
        assert_memory_equal(host_bytes, device_bytes,
                            fake.op[s][i].bytes / GRAIN * sizeof(uint32_t));
        break;
    }
    fake.done[s]++;
    return true;
}

/* Runs until nothing is left, in an order of the seed. */
static void run_all(unsigned seed)
{
    for (unsigned idle = 0; idle < 1000;) {
        seed = seed * 1103515245 + 12345;
        unsigned s = (seed >> 16) % (fake.streams + 1), steps = seed >> 28;
        bool any = step(s);
        while (any && steps-- && step(s))
            ;
        idle = any ? 0 : idle + 1;
    }
    for (unsigned s = 0; s <= fake.streams; s++)
        assert_int_equal(fake.done[s], fake.queued[s]);
}

/* The driver. */
static CUresult htod(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    return enqueue(COPY, dst, (CUdeviceptr)src, n, stream, NULL);
}

static CUresult dtoh(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
    return enqueue(COPY, (CUdeviceptr)dst, src, n, stream, NULL);
}

static CUresult dtod(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    assert_true(fake.moves);
    return enqueue(COPY, dst, src, n, stream, NULL);
}

static CUresult fake_let_copy(struct zc_va *va, int device)
{
    assert_true(va->context == OWN_CONTEXT && device != fake.own);
    fake.let++;
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUcontext of_address(CUdeviceptr address)
{
    return address >> 40 == 2 ? OWN_CONTEXT : PEER_CONTEXT((address >> 40) - 4);
}

static CUresult peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
                     CUstream stream)
{
    assert_true(to == of_address(dst) && from == of_address(src) && to != from);
    return enqueue(COPY, dst, src, n, stream, NULL);
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags)
{
    assert_int_equal(flags, 0);
    return enqueue(WAIT, 0, 0, 0, stream, event);
}

static CUresult record(CUevent event, CUstream stream)
{
    return enqueue(RECORD, 0, 0, 0, stream, event);
}

static CUresult make_event(CUevent *event, unsigned flags)
{
    assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
    *event = event_of(++fake.events);
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult end_event(CUevent event)
{
    assert_non_null(event);
    fake.live--;
    return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
    unsigned e = event_number(event);
    if (fails() || fake.unknown)
        return CUDA_ERROR_LAUNCH_FAILED;
    return fake.passed[e] == fake.recorded[e] ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult make_stream(CUstream *stream, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    assert_true(fake.streams + 1 < STREAMS);
    fake.made_in[++fake.streams] = fake.current[fake.depth];
    *stream = (CUstream)(uintptr_t)fake.streams;
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
    unsigned s = (unsigned)(uintptr_t)stream; /* Any context may be current. */
    assert_true(s > 0 && s <= fake.streams);
    for (unsigned i = 0; i < 100000 && fake.done[s] < fake.queued[s]; i++)
        for (unsigned other = 0; other <= fake.streams; other++)
            step(other);
    assert_int_equal(fake.done[s], fake.queued[s]);
    return fake.lost && fake.lost == s ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static CUresult make_context(CUcontext *context, unsigned flags, CUdevice peer_device)
{
    assert_true(flags == 0 && peer_device != fake.own);
    fake.now += 7500000;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *context = fake.current[++fake.depth] = PEER_CONTEXT(peer_device);
    fake.contexts++;
    return CUDA_SUCCESS;
}

static CUresult end_context(CUcontext context)
{
    assert_non_null(context);
    fake.contexts--;
    fake.destroyed++;
    return CUDA_SUCCESS;
}

static CUresult pop_context(CUcontext *context)
{
    assert_true(fake.depth > 0);
    *context = fake.current[fake.depth--];
    return CUDA_SUCCESS;
}

static CUresult alloc(CUdeviceptr *out, size_t n)
{
    *out = BUFFER((uintptr_t)fake.current[fake.depth] - 0x2000);
    fake.allocated = n;
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
    *context = fake.current[fake.depth];
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *out)
{
    *out = fake.current[fake.depth] == OWN_CONTEXT ? fake.own
           : (uintptr_t)fake.current[fake.depth] >= 0x3000
               ? 1
               : (CUdevice)((uintptr_t)fake.current[fake.depth] & 0xff);
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult get_count(int *count)
{
    *count = fake.devices;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult can_access(int *out, CUdevice from, CUdevice to)
{
    assert_true(from != fake.own && to == fake.own);
    fake.asked++;
    *out = fake.access;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult p2p(int *out, CUdevice_P2PAttribute which, CUdevice from, CUdevice to)
{
    assert_true(which == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED && from != to);
    *out = fake.native;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult enable(CUcontext to, unsigned flags)
{
    assert_true(to == OWN_CONTEXT && flags == 0 && fake.current[fake.depth] != to);
    fake.enables++;
    return fails() ? CUDA_ERROR_UNKNOWN : fake.enabled;
}

static CUresult primary_state(CUdevice of, unsigned *flags, int *active)
{
    assert_true(of != fake.own);
    *flags = 0;
    *active = fake.active;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult mem_info(size_t *left, size_t *total)
{
    assert_ptr_not_equal(fake.current[fake.depth], OWN_CONTEXT);
    *total = (size_t)80 << 30;
    *left = *total - fake.used;
    fake.asked++;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult bus_id(char *out, int length, CUdevice of)
{
    snprintf(out, (size_t)length, "%s", fake.bus[of]);
    return fake.bus[of] ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* The neighbours. */
static CUresult fake_push(CUcontext context, bool *pushed)
{
    *pushed = false;
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    *pushed = true;
    fake.current[++fake.depth] = context;
    return CUDA_SUCCESS;
}

static void fake_pop(bool pushed)
{
    fake.depth -= pushed;
}

static CUevent fake_mark(CUstream stream, enum zc_flavour flavour)
{
    (void)flavour;
    CUevent event = event_of(++fake.events);
    if (record(event, stream) != CUDA_SUCCESS)
        return NULL;
    fake.live++;
    return event;
}

static bool fake_stream_here(CUstream stream, enum zc_flavour flavour)
{
    (void)stream, (void)flavour;
    return fake.here;
}

static uint64_t fake_id(CUstream stream, enum zc_flavour flavour)
{
    (void)stream, (void)flavour;
    return fake.stream_id;
}

/* The program's contexts: of its own device, and of device 1. */
static CUcontext fake_context_at(unsigned i, bool *known)
{
    assert_true(fake.locked == !fake.moves);
    *known = fake.known;
    return i == 0 ? OWN_CONTEXT : i <= fake.others ? (CUcontext)(uintptr_t)(0x3000 + i) : NULL;
}

static bool fake_rests_in(CUcontext context, unsigned most_ms)
{
    assert_true(most_ms == 0 && context == fake.current[fake.depth]);
    return fake.rests >> ((uintptr_t)context & 0xff) & 1;
}

static bool fake_driver_lock(void)
{
    fake.locked += !fake.busy_lock;
    return !fake.busy_lock;
}

static void fake_driver_unlock(void)
{
    fake.locked--;
}

static bool fake_leaving(CUcontext context)
{
    return fake.leaves && context != OWN_CONTEXT;
}

static CUstreamCaptureMode fake_relax(void)
{
    fake.relaxed++;
    return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
}

static void fake_restore(CUstreamCaptureMode before)
{
    assert_int_equal(before, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    fake.relaxed--;
}

static CUresult fake_wait(const struct zc_copy *c)
{
    (void)c;
    fake.staged++;
    return CUDA_ERROR_ECC_UNCORRECTABLE;
}

static bool fake_has(int of, CUdevice_attribute attribute)
{
    assert_true(of != fake.own && attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
    fake.mode_asked++;
    return fake.mode;
}

static void fake_message(enum zc_severity severity, const char *code, const char *fmt, ...)
{
    va_list args;
    (void)severity;
    assert_string_equal(code, "links");
    va_start(args, fmt);
    vsnprintf(fake.text, sizeof(fake.text), fmt, args);
    va_end(args);
    fake.told++;
}

static bool fake_log(enum zc_severity severity, const char *code, const char *text)
{
    (void)severity;
    assert_string_equal(code, "links");
    snprintf(fake.text, sizeof(fake.text), "%s", text);
    fake.logged++;
    return true;
}

static void fake_own(unsigned real, uint64_t bytes)
{
    assert_int_equal(real, zc_flow(ZC_DIR_PTOP, ZC_KIND_DEVICE, ZC_KIND_DEVICE));
    fake.relayed++;
    fake.relayed_bytes += bytes;
}

/* `bus` says where the link of a device leads. */
static ssize_t fake_readlink(const char *path, char *out, size_t n)
{
    assert_true(!strncmp(path, "/sys/bus/pci/devices/", 21) && !strchr(path, 'A'));
    if (strstr(path, "none"))
        return -1;
    int length =
        snprintf(out, n, "../../../devices/pci0000:00/0000:00:0%c.0/0000:01:00.0", path[21]);
    out[length] = 'x'; /* readlink(2) ends nothing. */
    return length;
}

#define zc_context_push fake_push
#define zc_context_pop fake_pop
#define zc_stream_mark_here fake_mark
#define zc_stream_here fake_stream_here
#define zc_stream_id fake_id
#define zc_context_at fake_context_at
#define zc_stream_rests_in fake_rests_in
#define zc_driver_lock fake_driver_lock
#define zc_driver_unlock fake_driver_unlock
#define zc_leaving(context) fake_leaving(context)
#define zc_capture_relax fake_relax
#define zc_capture_restore fake_restore
#define zc_staged_wait fake_wait
#define zc_device_has fake_has
#define zc_message fake_message
#define zc_message_first(code) true
#define zc_log_warn fake_log
#define zc_traffic_own fake_own
#define zc_job() (&fake.job)
#define zc_ticks() (fake.now)
#define zc_ticks_to_ns(ticks) (ticks)
#define zc_pinned_stuck(extent) (fake.stuck)
#define zc_life_closing() (fake.closing)
#define readlink fake_readlink
#define zc_access_let_copy fake_let_copy
#include "../../shim/copy/links.c"

static struct zc_policy *const policy = &zc_rules_read;
static struct zc_block pinned, allocated;

static int anew(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    memset(&links, 0, sizeof(links));
    real_without_driver();
    zc_real.cuMemcpyHtoDAsync_v2 = htod;
    zc_real.cuMemcpyDtoHAsync_v2 = dtoh;
    zc_real.cuMemcpyPeerAsync = peer;
    zc_real.cuMemcpyDtoDAsync_v2 = dtod;
    zc_real.cuStreamWaitEvent = wait_event;
    zc_real.cuEventRecord = record;
    zc_real.cuEventCreate = make_event;
    zc_real.cuEventDestroy_v2 = end_event;
    zc_real.cuEventQuery = query;
    zc_real.cuStreamCreate = make_stream;
    zc_real.cuStreamSynchronize = synchronize;
    zc_real.cuCtxCreate_v2 = make_context;
    zc_real.cuCtxDestroy_v2 = end_context;
    zc_real.cuCtxPopCurrent_v2 = pop_context;
    zc_real.cuMemAlloc_v2 = alloc;
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuDeviceGetCount = get_count;
    zc_real.cuDeviceCanAccessPeer = can_access;
    zc_real.cuDeviceGetP2PAttribute = p2p;
    zc_real.cuCtxEnablePeerAccess = enable;
    zc_real.cuDevicePrimaryCtxGetState = primary_state;
    zc_real.cuMemGetInfo_v2 = mem_info;
    zc_real.cuDeviceGetPCIBusId = bus_id;
    fake.current[0] = OWN_CONTEXT;
    fake.devices = DEVICES;
    fake.access = fake.native = 1;
    fake.here = fake.known = true;
    fake.rests = ~1u; /* Its own device is busy. */
    fake.others = 1;
    fake.job.local_world = -1;
    fake.stream_id = 5;
    fake.now = 1000000000000;
    for (unsigned i = 0; i < DEVICES; i++)
        fake.bus[i] = (const char *[]){"1000:A0", "2000:A0", "3000:A0", "4000:A0"}[i];
    policy->links = DEVICES;
    pinned = (struct zc_block){.base = HOST,
                               .size = MOST,
                               .asked = ZC_KIND_PINNED,
                               .real = ZC_KIND_PINNED,
                               .api = ZC_API_cuMemHostAlloc};
    allocated = (struct zc_block){.base = DEVICE,
                                  .size = MOST,
                                  .context = OWN_CONTEXT,
                                  .asked = ZC_KIND_DEVICE,
                                  .real = ZC_KIND_DEVICE,
                                  .api = ZC_API_cuMemAlloc};
    return 0;
}

static struct zc_copy copy_of(size_t bytes, bool in)
{
    struct zc_copy c = {
        .bytes = bytes, .async = true, .links = 1, .copies = 1, .shape = ZC_SHAPE_LINE};
    const struct zc_operand h = {.side = ZC_SIDE_HOST,
                                 .asked = ZC_KIND_PINNED,
                                 .real = ZC_KIND_PINNED,
                                 .address = HOST,
                                 .block = &pinned};
    const struct zc_operand d = {.side = ZC_SIDE_DEVICE,
                                 .asked = ZC_KIND_DEVICE,
                                 .real = ZC_KIND_DEVICE,
                                 .address = DEVICE,
                                 .block = &allocated};
    c.dst = in ? d : h;
    c.src = in ? h : d;
    return c;
}

/* The program's stream gets work of the program's own. */
static void program(enum op op, size_t bytes, bool in)
{
    unsigned fail = fake.fails;
    fake.fails = 0;
    fake.calls--;
    assert_int_equal(enqueue(op, in ? DEVICE : HOST, in ? HOST : DEVICE, bytes, NULL, NULL),
                     CUDA_SUCCESS);
    fake.fails = fail;
}

/* A copy in the order of its stream; whether libzc has made it. */
static bool copied(struct zc_copy *c, size_t bytes, bool in)
{
    *c = copy_of(bytes, in);
    program(FILL, bytes, in);
    struct zc_va range = {.context = OWN_CONTEXT, .device = fake.own}, *va[] = {&range, &range};
    fake.busy_lock |= fake.moves; /* It is held. */
    bool made = zc_links_copy(c, fake.moves ? va : NULL);
    if (made && c->result == CUDA_SUCCESS)
        program(CHECK, bytes, in);
    assert_int_equal(fake.depth, 0);
    assert_int_equal(fake.live, 0);
    assert_int_equal(fake.relaxed, 0);
    assert_int_equal(fake.locked, 0);
    return made;
}

/* A copy that no other follows before it has ended. */
static bool alone(size_t bytes)
{
    struct zc_copy c;
    bool made = copied(&c, bytes, true);
    run_all(1);
    return made && c.result == CUDA_SUCCESS;
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

#endif
