/* SPDX-License-Identifier: MIT */
/*
 * Asks a GPU what the steps of moving a block take (shim/vmm/move.c): on an idle GPU, beside a
 * kernel, and beside a copy to the device; and how fast blocks come beside kernels by each way of
 * changing what lies behind an address.  One line each; milliseconds, medians of five.  And which
 * word of a tensor map is the address that it was made for.
 *
 *   move_facts      ends with status 77 where no GPU answers that runs kernels
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define ROUNDS 5
#define COPIED (1024 * MIB) /* Bytes of a copy that others run beside. */
#define STEPS 40            /* Blocks that come in a loop. */

/* Spins for so many nanoseconds. */
static const char spin_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry spin(.param .u64 ns)\n{\n.reg .u64 %t<5>;\n.reg .pred %p;\n"
    "ld.param.u64 %t1, [ns];\nmov.u64 %t2, %globaltimer;\n"
    "again:\nmov.u64 %t3, %globaltimer;\nsub.u64 %t4, %t3, %t2;\n"
    "setp.lt.u64 %p, %t4, %t1;\n@%p bra again;\nret;\n}\n";

enum state { IDLE, KERNEL, COPY, STATES };
static const char *const state_names[] = {"idle", "kernel", "copy"};

static CUfunction spin;
static CUstream kernels, copies; /* The measured calls run beside these. */
static CUdeviceptr target;       /* Device memory that copies go to. */
static void *pinned, *pageable;
static CUmemAllocationProp device_prop, host_prop;
static CUmemAccessDesc to_device, to_both[2];

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "move_facts: %s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(call) check(#call, call)

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void launch(double ms)
{
    unsigned long long ns = (unsigned long long)(ms * 1e6);
    void *args[] = {&ns};
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, kernels, args, NULL));
}

/* Lets the GPU be busy in the way of a state for half a second, or for several copies' time. */
static void enter(enum state state)
{
    CHECK(cuCtxSynchronize());
    if (state == KERNEL)
        launch(500);
    for (int i = 0; state == COPY && i < 8; i++)
        CHECK(cuMemcpyHtoDAsync(target, pinned, COPIED, copies));
}

static bool busy(enum state state)
{
    return state == IDLE || cuStreamQuery(state == KERNEL ? kernels : copies) != CUDA_SUCCESS;
}

struct series {
    double ms[ROUNDS];
    int count;
    bool waited; /* The work beside had ended when a call returned. */
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void add(struct series *s, double start, enum state state)
{
    s->ms[s->count++] = now_ms() - start;
    s->waited |= !busy(state);
}

static void say(const char *what, size_t size, enum state state, struct series *s)
{
    qsort(s->ms, (size_t)s->count, sizeof(*s->ms), compare);
    printf("%s, %zu MiB, %s: %.3f (%.3f to %.3f)%s\n", what, size / MIB, state_names[state],
           s->ms[s->count / 2], s->ms[0], s->ms[s->count - 1], s->waited ? ", waits for it" : "");
    fflush(stdout);
    *s = (struct series){.count = 0};
}

#define TIMED(series, call)                                                                        \
    do {                                                                                           \
        double start_ = now_ms();                                                                  \
        CHECK(call);                                                                               \
        add(&(series), start_, state);                                                             \
    } while (0)

/* Handles one after the other: what each call takes. */
static void steps(const char *of, const CUmemAllocationProp *prop, size_t size, enum state state)
{
    struct series s[9] = {{.count = 0}};
    bool host = prop == &host_prop;
    CUdeviceptr at, beside;
    CHECK(cuMemAddressReserve(&at, size, 0, 0, 0));
    CHECK(cuMemAddressReserve(&beside, size, 0, 0, 0));
    for (int i = 0; i < ROUNDS; i++) {
        CUmemGenericAllocationHandle handle;
        enter(state);
        TIMED(s[0], cuMemCreate(&handle, size, prop, 0));
        TIMED(s[1], cuMemMap(at, size, 0, handle, 0));
        TIMED(s[2], cuMemSetAccess(at, size, &to_device, 1));
        TIMED(s[3], cuMemMap(beside, size, 0, handle, 0));
        TIMED(s[4], cuMemSetAccess(beside, size, &to_device, 1));
        if (host)
            TIMED(s[5], cuMemSetAccess(beside, size, to_both, 2));
        TIMED(s[6], cuMemUnmap(at, size));
        CHECK(cuMemUnmap(beside, size));
        TIMED(s[7], cuMemRelease(handle));
    }
    static const char *const names[] = {"create",     "map",         "open",
                                        "map beside", "open beside", "open beside to the CPU",
                                        "unmap",      "release"};
    for (int i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s: %s", of, names[i]);
        if (s[i].count)
            say(name, size, state, &s[i]);
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemAddressFree(at, size));
    CHECK(cuMemAddressFree(beside, size));
}

static void calls_of_copies(enum state state)
{
    const size_t size = 128 * MIB;
    struct series s[7] = {{.count = 0}};
    CUstream own;
    CUevent event;
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < ROUNDS; i++) {
        enter(state);
        double start = now_ms();
        TIMED(s[0], cuMemcpyHtoDAsync(target + COPIED, pinned, size, own));
        TIMED(s[1], cuEventRecord(event, own));
        TIMED(s[2], cuStreamWaitEvent(own, event, 0));
        start = now_ms();
        cuEventQuery(event);
        add(&s[3], start, state);
        start = now_ms();
        CHECK(cuStreamSynchronize(own));
        add(&s[4], start, state);
        CHECK(cuMemcpyDtoHAsync(pinned, target + COPIED, size, own));
        start = now_ms();
        CHECK(cuStreamSynchronize(own));
        add(&s[5], start, state);
        TIMED(s[6], cuMemcpyHtoDAsync(target + COPIED, pageable, size, own));
    }
    static const char *const names[] = {"cuMemcpyHtoDAsync, pinned, the call",
                                        "cuEventRecord",
                                        "cuStreamWaitEvent",
                                        "cuEventQuery",
                                        "the copy to the device",
                                        "a copy from the device",
                                        "cuMemcpyHtoDAsync, pageable, the call"};
    for (int i = 0; i < 7; i++)
        say(names[i], size, state, &s[i]);
    CHECK(cuCtxSynchronize());
    CHECK(cuEventDestroy(event));
    CHECK(cuStreamDestroy(own));
}

/* A block at an address of its own: its host memory, mapped elsewhere for copies, too. */
struct block {
    CUdeviceptr at, beside;
    CUmemGenericAllocationHandle host;
};
struct slot {
    CUdeviceptr alias;
    CUmemGenericAllocationHandle handle;
    int holds; /* The block that is mapped to it; -1: none. */
};
enum way {
    REACHED,  /* The block that leaves is mapped to host memory, at rest. */
    UNMAPPED, /* It is mapped nowhere, at rest; */
    RUNNING,  /* while kernels run. */
    PAIRS,    /* Both ways at rest, host memory mapped meanwhile. */
    WAYS
};
static const char *const way_names[] = {
    "copied ahead, mapped at rest, what leaves in host memory",
    "copied ahead, mapped at rest, what leaves nowhere",
    "copied ahead, mapped while kernels run, what leaves nowhere", "pairs change places at rest"};
#define BLOCKS 4
#define SLOTS 3

static void map_at(CUdeviceptr at, CUmemGenericAllocationHandle handle, size_t size)
{
    CHECK(cuMemMap(at, size, 0, handle, 0));
    CHECK(cuMemSetAccess(at, size, &to_device, 1));
}

/* A block comes into a slot, and the one that the slot held leaves it. */
static void swap(struct block *blocks, struct slot *slot, int comes, enum way way, size_t size)
{
    if (slot->holds >= 0) {
        CHECK(cuMemUnmap(blocks[slot->holds].at, size));
        if (way == REACHED)
            map_at(blocks[slot->holds].at, blocks[slot->holds].host, size);
    }
    if (way == REACHED)
        CHECK(cuMemUnmap(blocks[comes].at, size));
    map_at(blocks[comes].at, slot->handle, size);
    slot->holds = comes;
}

/* As zc_move() does it: 16 pieces out and in, host memory of the leaver mapped meanwhile. */
static void change_places(struct block *blocks, struct slot *slot, int comes, size_t size,
                          CUstream out, CUstream in, CUevent *gone)
{
    struct block *l = &blocks[slot->holds], *c = &blocks[comes];
    size_t piece = size / 16;
    CHECK(cuMemUnmap(l->at, size));
    for (size_t i = 0; i < 16; i++) {
        CHECK(cuMemcpyDtoDAsync(l->beside + i * piece, slot->alias + i * piece, piece, out));
        CHECK(cuEventRecord(gone[i], out));
    }
    for (size_t i = 0; i < 16; i++) {
        CHECK(cuStreamWaitEvent(in, gone[i], 0));
        CHECK(cuMemcpyDtoDAsync(slot->alias + i * piece, c->beside + i * piece, piece, in));
    }
    map_at(l->at, l->host, size);
    CHECK(cuMemUnmap(c->at, size));
    map_at(c->at, slot->handle, size);
    CHECK(cuStreamSynchronize(in));
    CHECK(cuStreamSynchronize(out));
    slot->holds = comes;
}

static void step(struct block *blocks, struct slot *slots, int i, enum way way, size_t size,
                 double kernel_ms, CUstream out, CUstream in, CUevent *gone)
{
    struct slot *next = &slots[i % SLOTS];
    int comes = i % BLOCKS;
    if (way == PAIRS) {
        CHECK(cuStreamSynchronize(kernels));
        change_places(blocks, next, comes, size, out, in, gone);
        launch(kernel_ms);
        return;
    }
    /* The kernel of the step before runs beside this copy. */
    CHECK(cuMemcpyHtoDAsync(next->alias, (void *)blocks[comes].beside, size, in));
    CHECK(cuStreamSynchronize(in));
    if (way != RUNNING)
        CHECK(cuStreamSynchronize(kernels));
    swap(blocks, next, comes, way, size);
    launch(kernel_ms);
}

static void loop(enum way way, size_t size, double kernel_ms)
{
    struct block blocks[BLOCKS];
    struct slot slots[SLOTS];
    CUstream out, in;
    CUevent gone[16];
    CHECK(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 16; i++)
        CHECK(cuEventCreate(&gone[i], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cuMemCreate(&blocks[i].host, size, &host_prop, 0));
        CHECK(cuMemAddressReserve(&blocks[i].at, size, 0, 0, 0));
        CHECK(cuMemAddressReserve(&blocks[i].beside, size, 0, 0, 0));
        map_at(blocks[i].beside, blocks[i].host, size);
        if (way == REACHED || (way == PAIRS && i >= SLOTS))
            map_at(blocks[i].at, blocks[i].host, size);
    }
    for (int i = 0; i < SLOTS; i++) {
        CHECK(cuMemCreate(&slots[i].handle, size, &device_prop, 0));
        CHECK(cuMemAddressReserve(&slots[i].alias, size, 0, 0, 0));
        map_at(slots[i].alias, slots[i].handle, size);
        slots[i].holds = -1;
        if (way == PAIRS) {
            map_at(blocks[i].at, slots[i].handle, size);
            slots[i].holds = i;
        }
    }
    double start = 0;
    for (int i = 0; i < STEPS + BLOCKS * SLOTS; i++) { /* First it fills the slots. */
        if (i == BLOCKS * SLOTS) {
            CHECK(cuCtxSynchronize());
            start = now_ms();
        }
        /* Of pairs one block is always in host memory, and it comes into the next slot. */
        int j = way == PAIRS ? i + SLOTS : i;
        step(blocks, slots, j, way, size, kernel_ms, out, in, gone);
    }
    CHECK(cuCtxSynchronize());
    printf("%s, %zu MiB, kernels of %.2f ms: %.2f a step\n", way_names[way], size / MIB, kernel_ms,
           (now_ms() - start) / STEPS);
    fflush(stdout);
    for (int i = 0; i < BLOCKS; i++) {
        cuMemUnmap(blocks[i].at, size);
        CHECK(cuMemUnmap(blocks[i].beside, size));
        CHECK(cuMemRelease(blocks[i].host));
        CHECK(cuMemAddressFree(blocks[i].at, size));
        CHECK(cuMemAddressFree(blocks[i].beside, size));
    }
    for (int i = 0; i < SLOTS; i++) {
        CHECK(cuMemUnmap(slots[i].alias, size));
        CHECK(cuMemRelease(slots[i].handle));
        CHECK(cuMemAddressFree(slots[i].alias, size));
    }
    for (int i = 0; i < 16; i++)
        CHECK(cuEventDestroy(gone[i]));
    CHECK(cuStreamDestroy(out));
    CHECK(cuStreamDestroy(in));
}

/* Only kernels' arguments tell which blocks they use (spill = fetch): a map is one of them. */
static void tensor_map(void)
{
    CUtensorMap map;
    const cuuint64_t dim[] = {256, 256}, strides[] = {256};
    const cuuint32_t box[] = {64, 64}, steps_of[] = {1, 1};
    int word = -1;
    CUresult result = cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)target, dim, strides, box, steps_of,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    for (int i = 0; result == CUDA_SUCCESS && i < 16; i++)
        if (map.opaque[i] == target)
            word = i;
    printf("tensor map: returned %d, its address is word %d\n", (int)result, word);
}

static bool prepare(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return false;
    CHECK(cuCtxSetCurrent(context));
    if (cuModuleLoadData(&module, spin_ptx) != CUDA_SUCCESS ||
        cuModuleGetFunction(&spin, module, "spin") != CUDA_SUCCESS)
        return false;
    CHECK(cuStreamCreate(&kernels, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&target, COPIED + 128 * MIB));
    CHECK(cuMemHostAlloc(&pinned, COPIED, 0));
    pageable = malloc(128 * MIB);
    if (!pageable)
        exit(1);
    memset(pageable, 1, 128 * MIB);
    device_prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    device_prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    device_prop.location.id = device;
    host_prop = device_prop;
    host_prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    host_prop.location.id = 0;
    to_device = (CUmemAccessDesc){device_prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    to_both[0] = to_device;
    to_both[1] = (CUmemAccessDesc){host_prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return true;
}

int main(void)
{
    static const size_t sizes[] = {2 * MIB, 32 * MIB, 128 * MIB};
    static const double times[] = {0.5, 3, 10};
    if (!prepare())
        return 77;
    tensor_map();
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < 2; k++)
            for (enum way w = 0; w < WAYS; w++)
                loop(w, sizes[1 + k], times[i]);
    for (int i = 0; i < 3; i++)
        for (enum state s = 0; s < STATES; s++) {
            steps("device memory", &device_prop, sizes[i], s);
            steps("host memory", &host_prop, sizes[i], s);
        }
    for (enum state s = 0; s < STATES; s++)
        calls_of_copies(s);
    return 0;
}
