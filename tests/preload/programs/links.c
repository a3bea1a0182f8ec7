/* SPDX-License-Identifier: MIT */
/* Large copies of pinned memory, which may go over the links of several GPUs: links SCENARIO. */
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define LARGE (32 * MIB)

static uint64_t word(size_t i, uint64_t seed)
{
    return (i + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

static void scribble(void *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n / 8; i++)
        ((uint64_t *)p)[i] = word(i, seed);
    memset((char *)p + n / 8 * 8, (int)seed, n % 8);
}

/* One device block and two pinned ones. */
struct pair {
    size_t n;
    CUdeviceptr device;
    char *from, *to;
};

static struct pair make_pair(size_t n, uint64_t seed)
{
    struct pair p = {.n = n};
    CHECK(cuMemAlloc(&p.device, n));
    CHECK(cuMemHostAlloc((void **)&p.from, n, CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemHostAlloc((void **)&p.to, n, CU_MEMHOSTALLOC_PORTABLE));
    scribble(p.from, n, seed);
    memset(p.to, 0xa5, n);
    return p;
}

static void end_pair(struct pair *p)
{
    CHECK(cuMemFree(p->device));
    CHECK(cuMemFreeHost(p->from));
    CHECK(cuMemFreeHost(p->to));
}

/* Behind each call the thread may be cancelled as before: it holds nothing of libzc's. */
static void is_free(void)
{
    int cancel = -1;
    EXPECT(!pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel));
    EXPECT(cancel == PTHREAD_CANCEL_ENABLE);
}

static void there_and_back(struct pair *p, CUstream stream)
{
    CHECK(cuMemcpyHtoDAsync(p->device, p->from, p->n, stream));
    is_free();
    CHECK(cuMemcpyDtoHAsync(p->to, p->device, p->n, stream));
    is_free();
}

static bool came_back(const struct pair *p)
{
    return !memcmp(p->from, p->to, p->n);
}

/* Sizes at the borders of parts and chunks, by calls with and without a stream. */
static void sizes(void)
{
    static const size_t all[] = {LARGE - 1,       LARGE,        LARGE + 1, LARGE + 2 * MIB,
                                 48 * MIB + 4097, 64 * MIB - 1, 67 * MIB,  100 * MIB + 8191};
    start_gpu(0);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct pair p = make_pair(all[i], i);
        CHECK(cuMemcpyHtoD(p.device, p.from, p.n));
        CHECK(cuMemcpyDtoH(p.to, p.device, p.n));
        EXPECT(came_back(&p));
        memset(p.to, 1, p.n);
        CHECK(cuMemsetD8(p.device, 2, p.n));
        there_and_back(&p, NULL);
        there_and_back(&p, CU_STREAM_PER_THREAD);
        CHECK(cuStreamSynchronize(NULL));
        CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        EXPECT(came_back(&p));
        end_pair(&p);
    }
}

/* More than is registered at once. */
static void parts(void)
{
    start_gpu(0);
    struct pair p = make_pair(330 * MIB, 1);
    CHECK(cuMemcpyHtoD(p.device, p.from, p.n));
    CHECK(cuMemcpyDtoHAsync(p.to, p.device, p.n, NULL));
    CHECK(cuStreamSynchronize(NULL));
    EXPECT(came_back(&p));
    end_pair(&p);
}

/* Pageable memory to the program: when an asynchronous call returns its source may be written, and
 * what it copied from the device is there. */
static void staged(void)
{
    static const size_t all[] = {40 * MIB, 100 * MIB}; /* Both sides of what the ring holds. */
    CUstream stream;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++) {
        size_t n = all[i / 2];
        char *from = malloc(n), *to = malloc(n);
        CUdeviceptr device;
        CHECK(cuMemAlloc(&device, n));
        memset(from, 1 + i, n);
        CHECK(i % 2 ? cuMemcpyHtoD(device, from, n) : cuMemcpyHtoDAsync(device, from, n, stream));
        memset(from, 9, n);
        CHECK(i % 2 ? cuMemcpyDtoH(to, device, n) : cuMemcpyDtoHAsync(to, device, n, stream));
        EXPECT(all_are(to, (char)(1 + i), n));
        free(from);
        free(to);
        CHECK(cuMemFree(device));
    }
}

/* Work before and behind a copy in its stream. */
static void order(void)
{
    struct gate gate;
    CUstream stream;
    CUevent begun, ended;
    start_gpu(0);
    struct pair p = make_pair(LARGE, 1);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
    CHECK(cuMemsetD8(p.device, 3, p.n)); /* Returns before it is done. */
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, stream);
    CHECK(cuEventRecord(begun, stream));
    CHECK(cuMemcpyDtoHAsync(p.to, p.device, p.n, stream));
    CHECK(cuMemcpyHtoDAsync(p.device, p.from, p.n, stream));
    CHECK(cuEventRecord(ended, stream));
    CHECK(cuMemsetD8Async(p.device + LARGE / 2, 4, 8, stream));
    EXPECT(cuEventQuery(begun) == CUDA_ERROR_NOT_READY);
    EXPECT(cuEventQuery(ended) == CUDA_ERROR_NOT_READY);
    EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    EXPECT(all_are(p.to, (char)0xa5, p.n)); /* Nothing has begun. */
    scribble(p.from, p.n, 7);
    gate_open(&gate);
    CHECK(cuEventSynchronize(ended));
    EXPECT(all_are(p.to, 3, p.n));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(p.to, p.device, p.n));
    memset(p.from + LARGE / 2, 4, 8);
    EXPECT(came_back(&p));
    end_pair(&p);
}

/* A copy in one stream is not held by another one's that waits for the program. */
static void apart(void)
{
    struct gate gate;
    CUstream held, free_one;
    start_gpu(0);
    struct pair a = make_pair(LARGE, 1), b = make_pair(LARGE, 2);
    CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
    there_and_back(&a, free_one);
    CHECK(cuStreamSynchronize(free_one));
    gate_close_by_kernel(&gate, held);
    there_and_back(&a, held);
    there_and_back(&b, free_one);
    CHECK(cuStreamSynchronize(free_one));
    EXPECT(came_back(&b));
    EXPECT(cuStreamQuery(held) == CUDA_ERROR_NOT_READY);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(held));
    EXPECT(came_back(&a));
    there_and_back(&b, free_one);
    CHECK(cuStreamSynchronize(free_one));
    end_pair(&a);
    end_pair(&b);
}

/* Work that waits for the program's on the other device waits for no stream of this one that in
 * turn waits for the program. */
static void freed_there(void)
{
    struct gate gate;
    CUstream held;
    CUdeviceptr block;
    CUcontext far = start_gpu(1), near;
    CHECK(cuMemAlloc(&block, MIB));
    near = start_gpu(0);
    struct pair p = make_pair(LARGE, 1);
    CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    there_and_back(&p, held);
    CHECK(cuStreamSynchronize(held));
    gate_close(&gate, held);
    there_and_back(&p, held);
    CHECK(cuCtxSetCurrent(far));
    CHECK(cuMemFree(block));
    CHECK(cuCtxSynchronize());
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(near));
    CHECK(cuStreamSynchronize(held));
    EXPECT(came_back(&p));
}

/* The program finds nothing of libzc's on the other device. */
static void unseen(void)
{
    unsigned flags;
    int active = 0;
    CUcontext now, mine = start_gpu(0), far;
    struct pair p = make_pair(LARGE, 1);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
    CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT(!active);
    CHECK(cuCtxGetCurrent(&now));
    EXPECT(now == mine);
    CHECK(cuDevicePrimaryCtxRetain(&far, 1));
    CHECK(cuCtxEnablePeerAccess(far, 0));
    CHECK(cuCtxPushCurrent(far));
    CHECK(cuCtxEnablePeerAccess(mine, 0));
    CHECK(cuCtxPopCurrent(&now));
    CHECK(cuDevicePrimaryCtxReset(1));
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
    CHECK(cuDevicePrimaryCtxReset(0));
    start_gpu(0);
    p = make_pair(LARGE, 2);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
}

/* The peer's memory belongs to the program. */
static void full(void)
{
    size_t left, total;
    CUdeviceptr all;
    start_gpu(0);
    struct pair p = make_pair(LARGE, 1);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    start_gpu(1);
    CHECK(cuMemGetInfo(&left, &total));
    CHECK(cuMemAlloc(&all, total));
    start_gpu(0);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
}

/* Both processes go on behind a fork. */
static void forked(void)
{
    int status;
    start_gpu(0);
    struct pair p = make_pair(LARGE, 1);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    pid_t child = fork();
    if (!child)
        _exit(0);
    waitpid(child, &status, 0);
    EXPECT(!status);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
}

/* Memory that the driver or the program knows in another way goes as it always did. */
static void others(void)
{
    char *pageable = malloc(LARGE), *registered = aligned_alloc(MIB, LARGE);
    CUdeviceptr pooled, managed;
    start_gpu(0);
    struct pair p = make_pair(LARGE, 1);
    CHECK(cuMemAllocAsync(&pooled, LARGE, NULL));
    CHECK(cuMemAllocManaged(&managed, LARGE, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemcpyHtoDAsync(pooled, p.from, LARGE, NULL));
    CHECK(cuMemcpyHtoDAsync(managed, p.from, LARGE, NULL));
    CHECK(cuMemcpyDtoD(p.device, pooled, LARGE));
    CHECK(cuMemcpyDtoH(pageable, p.device, LARGE));
    EXPECT(!memcmp(pageable, p.from, LARGE));
    memset(registered, 5, LARGE);
    CHECK(cuMemHostRegister(registered, LARGE, 0));
    CHECK(cuMemcpyHtoD(p.device, registered, LARGE));
    CHECK(cuMemHostUnregister(registered));
    CHECK(cuMemcpyDtoH(pageable, p.device, LARGE));
    EXPECT(all_are(pageable, 5, LARGE));
    EXPECT(cuMemcpyHtoD(p.device, p.from, LARGE + 1) != CUDA_SUCCESS);
}

static CUDA_MEMCPY3D rows_of(const struct pair *p, size_t pitch, size_t rows)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = p->from,
                           .srcPitch = pitch,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = p->device,
                           .dstPitch = pitch,
                           .WidthInBytes = pitch - 8,
                           .Height = rows,
                           .Depth = 1};
}

/* Large copies by calls that are for more than one line, one stream or one device. */
static void shapes(void)
{
    CUcontext far = start_gpu(1), near;
    CUdeviceptr there;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CHECK(cuMemAlloc(&there, LARGE));
    near = start_gpu(0);
    struct pair p = make_pair(2 * LARGE, 1);
    CUDA_MEMCPY3D rows = rows_of(&p, 4096, p.n / 4096), line = rows_of(&p, p.n, 1);
    CHECK(cuMemcpy3D(&rows));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &line, near));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyPeer(there, far, p.device, near, LARGE));
#if CUDA_VERSION >= 13000
    CUdeviceptr to[] = {p.device, p.device + LARGE};
    CUdeviceptr from[] = {(CUdeviceptr)p.from, (CUdeviceptr)p.from + LARGE};
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t sizes[] = {LARGE, LARGE}, first = 0;
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, stream));
#endif
    CHECK(cuCtxSynchronize());
    CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p.device,
                          .srcPitch = 4096,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = p.to,
                          .dstPitch = 4096,
                          .WidthInBytes = 4088,
                          .Height = p.n / 4096};
    CHECK(cuMemcpy2DAsync(&back, NULL));
    CHECK(cuCtxSynchronize());
    for (size_t i = 0; i < p.n; i += 4096)
        EXPECT(!memcmp(p.to + i, p.from + i, 4088) && all_are(p.to + i + 4088, (char)0xa5, 8));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* A captured copy is one of its graph. */
static void captured(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    start_gpu(0);
    struct pair p = make_pair(LARGE, 1);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    there_and_back(&p, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(all_are(p.to, (char)0xa5, p.n));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(came_back(&p));
}

/* Copies until those so far pay for a context on the peer, then two more. */
static void many(void)
{
    start_gpu(0);
    struct pair p = make_pair(128 * MIB, 1);
    for (int i = 0; i < 34; i++)
        there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
}

/* MiB of a copy that came over the links of devices 0, 1 and 2. */
struct over {
    unsigned mib[3];
};

static struct over one_copy(const struct pair *p, bool in)
{
    struct over over;
    unsigned long long before[3], all = 0;
    for (int i = 0; i < 3; i++)
        before[i] = sim_link_bytes(i);
    CHECK(in ? cuMemcpyHtoD(p->device, p->from, p->n) : cuMemcpyDtoH(p->to, p->device, p->n));
    for (int i = 0; i < 3; i++) {
        unsigned long long bytes = sim_link_bytes(i) - before[i];
        over.mib[i] = (unsigned)(bytes >> 20);
        all += bytes;
    }
    EXPECT(all == p->n);
    return over;
}

/* Parts of several chunks of 16 MiB, and parts that are smaller. */
static void equal(void)
{
    start_gpu(0);
    struct pair large = make_pair(192 * MIB, 1), small = make_pair(48 * MIB, 2);
    for (int in = 0; in < 2; in++) {
        struct over over = one_copy(&large, in);
        EXPECT(over.mib[0] == 64 && over.mib[1] == 64 && over.mib[2] == 64);
        over = one_copy(&small, in);
        EXPECT(over.mib[0] == 16 && over.mib[1] == 16 && over.mib[2] == 16);
    }
    there_and_back(&large, NULL);
    there_and_back(&small, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&large) && came_back(&small));
    end_pair(&large);
    end_pair(&small);
}

/* No large copies for long, then many. */
static void rested(void)
{
    many();
    struct pair p = make_pair(8, 1);
    for (int i = 0; i < 4200; i++)
        CHECK(cuMemcpyHtoD(p.device, p.from, 8));
    many();
}

/* The peer has work of the program's. */
static void busy(void)
{
    struct gate gate;
    CUstream far;
    start_gpu(1);
    CHECK(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
    gate_close_by_kernel(&gate, far);
    many();
    gate_open(&gate);
}

#define LANES 3
#define STEPS 30
#define LANE_BYTES (34 * MIB)

/* A stream with blocks of its own, and what they hold once it has done what it was given. */
struct lane {
    struct pair pair;
    char *device, *to; /* Of pair.device, pair.to. */
    CUstream stream;
    bool blocking;
    unsigned dice;
    CUcontext context;
};

static size_t below(struct lane *l, size_t n)
{
    return (size_t)rand_r(&l->dice) % n;
}

static void lane_check(struct lane *l)
{
    CHECK(cuStreamSynchronize(l->stream));
    EXPECT(!memcmp(l->to, l->pair.to, LANE_BYTES));
}

/* Whether one of the next calls of the driver fails, which one and when. */
static bool failing;

static void fail_somewhere(struct lane *l)
{
    static const char *const calls[] = {
        "cuCtxCreate_v2",        "cuMemAlloc_v2",        "cuStreamCreate",
        "cuEventCreate",         "cuEventRecord",        "cuEventQuery",
        "cuStreamWaitEvent",     "cuMemcpyPeerAsync",    "cuCtxEnablePeerAccess",
        "cuMemcpyHtoDAsync_v2",  "cuMemcpyDtoHAsync_v2", "cuCtxPushCurrent_v2",
        "cuDeviceCanAccessPeer", "cuDeviceGetCount",     "cuStreamSynchronize"};
    if (failing)
        sim_fail(calls[below(l, sizeof(calls) / sizeof(*calls))],
                 below(l, 2) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY,
                 1 + (unsigned)below(l, 30));
}

/* A copy that has failed is made again: all of its bytes are as if it had been made once. */
static void lane_copy(struct lane *l, bool waits, size_t at, size_t from, size_t n, bool in)
{
    struct pair *p = &l->pair;
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < 2 && result != CUDA_SUCCESS; i++) {
        if (i == 0)
            fail_somewhere(l);
        if (in)
            result = waits ? cuMemcpyHtoD(p->device + at, p->from + from, n)
                           : cuMemcpyHtoDAsync(p->device + at, p->from + from, n, l->stream);
        else
            result = waits ? cuMemcpyDtoH(p->to + at, p->device + from, n)
                           : cuMemcpyDtoHAsync(p->to + at, p->device + from, n, l->stream);
        sim_fail(NULL, CUDA_SUCCESS, 0);
    }
    CHECK(result);
}

static void lane_step(struct lane *l)
{
    struct pair *p = &l->pair;
    size_t n = below(l, 4) ? LARGE + below(l, LANE_BYTES - LARGE) : 1 + below(l, MIB);
    size_t at = below(l, LANE_BYTES - n + 1), from = below(l, LANE_BYTES - n + 1);
    bool waits = l->blocking && !below(l, 3);
    CHECK(cuCtxSetCurrent(l->context));
    switch (below(l, 8)) {
    case 0:
        CHECK(cuMemsetD8Async(p->device + at, (unsigned char)n, n, l->stream));
        memset(l->device + at, (int)(n & 255), n);
        break;
    case 1:
        lane_check(l);
        break;
    case 2:
    case 3:
    case 4:
        lane_copy(l, waits, at, from, n, true);
        memcpy(l->device + at, p->from + from, n);
        break;
    default:
        lane_copy(l, waits, at, from, n, false);
        memcpy(l->to + at, l->device + from, n);
    }
}

static void lane_start(struct lane *l, int device, unsigned seed)
{
    l->context = start_gpu(device);
    l->dice = seed;
    l->blocking = seed % 2;
    CHECK(cuStreamCreate(&l->stream, l->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    l->pair = make_pair(LANE_BYTES, seed);
    l->device = calloc(1, LANE_BYTES);
    l->to = malloc(LANE_BYTES);
    memcpy(l->to, l->pair.to, LANE_BYTES);
    CHECK(cuMemsetD8Async(l->pair.device, 0, LANE_BYTES, l->stream));
}

static void *lane_run(void *arg)
{
    for (int i = 0; i < STEPS; i++)
        lane_step(arg);
    lane_check(arg);
    return NULL;
}

static struct lane lanes[LANES];

static void start_lanes(void)
{
    int devices;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    unsigned seed = (unsigned)atoi(getenv("SEED") ? getenv("SEED") : "1");
    for (unsigned i = 0; i < LANES; i++)
        lane_start(&lanes[i], i == 2 && devices > 1, seed * LANES + i);
}

/* Random copies in several streams, one of them on another device: of one thread, in turns, */
static void lanes_in_turns(void)
{
    start_lanes();
    for (int i = 0; i < STEPS * LANES; i++)
        lane_step(&lanes[below(&lanes[0], LANES)]);
    for (int i = 0; i < LANES; i++)
        lane_check(&lanes[i]);
}

/* with a call of the driver that fails at each step, */
static void lanes_failing(void)
{
    failing = true;
    lanes_in_turns();
}

/* or of a thread each. */
static void lanes_at_once(void)
{
    pthread_t threads[LANES];
    start_lanes();
    for (int i = 0; i < LANES; i++)
        pthread_create(&threads[i], NULL, lane_run, &lanes[i]);
    for (int i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
}

static char **arguments;

/* The nth of the calls that libzc makes for a copy fails: call_fails CALL NTH.  Says where the
 * program gets its code. */
static void call_fails(void)
{
    start_gpu(0);
    struct pair p = make_pair(LARGE + 4096, 1);
    sim_fail(arguments[0], CUDA_ERROR_NOT_SUPPORTED, (unsigned)atoi(arguments[1]));
    CUresult in = cuMemcpyHtoDAsync(p.device, p.from, p.n, NULL);
    CUresult out = cuMemcpyDtoHAsync(p.to, p.device, p.n, NULL);
    sim_fail(NULL, CUDA_SUCCESS, 0);
    CHECK(cuCtxSynchronize());
    if (in == CUDA_SUCCESS && out == CUDA_SUCCESS)
        EXPECT(came_back(&p));
    else
        printf("to %d, from %d\n", (int)in, (int)out);
    there_and_back(&p, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(came_back(&p));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"sizes", sizes},
                                          {"parts", parts},
                                          {"staged", staged},
                                          {"order", order},
                                          {"apart", apart},
                                          {"freed_there", freed_there},
                                          {"unseen", unseen},
                                          {"full", full},
                                          {"forked", forked},
                                          {"others", others},
                                          {"shapes", shapes},
                                          {"captured", captured},
                                          {"many", many},
                                          {"equal", equal},
                                          {"rested", rested},
                                          {"busy", busy},
                                          {"lanes_in_turns", lanes_in_turns},
                                          {"lanes_failing", lanes_failing},
                                          {"lanes_at_once", lanes_at_once},
                                          {"call_fails", call_fails}};
    arguments = argv + 2;
    return RUN_SCENARIO(all, argc, argv);
}
