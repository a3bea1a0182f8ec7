/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver, and hardware with two GPUs or more, which calls copy and set across both devices'
 * memory of which one side may be mapped host memory: whose device must reach it, the current
 * context's or the stream's, and what a batch, a capture and a node of a graph answer.  Prints one
 * line for each.  A process asks its share of the questions until one ends it, or breaks its
 * context; then another one goes on behind that.
 *
 *   far_facts        ends with status 77 where fewer than two GPUs answer
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)
#define WIDTH ((size_t)4096)
#define WORKERS 8
#define MOST 1000

enum call { ASYNC, DTOD, PEER, FLAT, PEER_3D, BATCH, BATCH_3D, CAPTURE, NODE, UNIFIED, CHANGED };
enum { COPIES = CHANGED + 1, SET = COPIES, CAPTURED_SET, SET_NODE, CHANGED_LINE, CALLS };
static const char *const calls[] = {"cuMemcpyAsync", "DtoDAsync",    "PeerAsync",   "2DAsync",
                                    "3DPeerAsync",   "Batch",        "3DBatch",     "capture",
                                    "node-device",   "node-unified", "execset",     "set",
                                    "captured set",  "set node",     "execset line"};

/* A question: the call, the kinds of memory and their devices, to whom mapped memory is open, the
 * current context's device and the stream's, and whether both contexts have peer access. */
struct row {
    int call;
    const char *src, *dst, *open;
    int src_device, dst_device, current, stream;
    bool peer;
};
static struct row rows[MOST];
static int count;

/* Shared by the processes. */
static struct {
    int at[WORKERS];
    char answer[MOST][160];
} * shared;

static char *said; /* The answer to the current question. */
static CUcontext contexts[2];
static CUstream streams[2];
static unsigned *sent, *seen;

static void say(const char *format, int number)
{
    snprintf(said + strlen(said), sizeof(shared->answer[0]) - strlen(said), format, number);
}

/* Ends the process where a call fails that must work; the question has no other answer then. */
static void check(int line, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    snprintf(said, sizeof(shared->answer[0]), "line %d returned %d", line, (int)result);
    _exit(4);
}
#define CHECK(call) check(__LINE__, call)

/* Memory of a kind that belongs to a device. */
struct memory {
    const char *kind;
    int device;
    CUdeviceptr at;
    CUarray array;
    CUmemGenericAllocationHandle handle; /* of mapped memory */
};

static void open_to(CUdeviceptr at, CUmemLocationType type, int id)
{
    CUmemAccessDesc desc = {.location = {.type = type},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    desc.location.id = id;
    CHECK(cuMemSetAccess(at, BYTES, &desc, 1));
}

/* Mapped device or host memory, open to its device ("own"), and to the other one ("both"), or the
 * CPU ("cpu"), or both of them ("all"). */
static void map(struct memory *m, const char *open)
{
    bool host = !strcmp(m->kind, "host"), all = !strcmp(open, "all");
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = host ? 0 : m->device;
    CHECK(cuMemAddressReserve(&m->at, BYTES, 0, 0, 0));
    CHECK(cuMemCreate(&m->handle, BYTES, &prop, 0));
    CHECK(cuMemMap(m->at, BYTES, 0, m->handle, 0));
    open_to(m->at, CU_MEM_LOCATION_TYPE_DEVICE, m->device);
    if (all || !strcmp(open, "both"))
        open_to(m->at, CU_MEM_LOCATION_TYPE_DEVICE, !m->device);
    if (host && (all || !strcmp(open, "cpu")))
        open_to(m->at, CU_MEM_LOCATION_TYPE_HOST, 0);
}

static struct memory make(const char *kind, int device, const char *open)
{
    const CUDA_ARRAY_DESCRIPTOR desc = {.Width = WIDTH,
                                        .Height = BYTES / WIDTH,
                                        .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                        .NumChannels = 1};
    struct memory m = {.kind = kind, .device = device};
    CHECK(cuCtxSetCurrent(contexts[device]));
    if (!strcmp(kind, "alloc")) {
        CHECK(cuMemAlloc(&m.at, BYTES));
    } else if (!strcmp(kind, "pool")) {
        CHECK(cuMemAllocAsync(&m.at, BYTES, streams[device]));
        CHECK(cuStreamSynchronize(streams[device]));
    } else if (!strcmp(kind, "managed")) {
        CHECK(cuMemAllocManaged(&m.at, BYTES, CU_MEM_ATTACH_GLOBAL));
    } else if (!strcmp(kind, "pinned")) {
        CHECK(cuMemHostAlloc((void **)&m.at, BYTES, 0));
    } else if (!strcmp(kind, "array")) {
        CHECK(cuArrayCreate(&m.array, &desc));
    } else {
        map(&m, open);
    }
    return m;
}

static void drop(struct memory *m)
{
    CHECK(cuCtxSetCurrent(contexts[m->device]));
    if (m->handle) {
        CHECK(cuMemUnmap(m->at, BYTES));
        CHECK(cuMemRelease(m->handle));
        CHECK(cuMemAddressFree(m->at, BYTES));
    } else if (m->array) {
        CHECK(cuArrayDestroy(m->array));
    } else {
        CHECK(!strcmp(m->kind, "pinned") ? cuMemFreeHost((void *)m->at) : cuMemFree(m->at));
    }
}

/* All bytes, as rows. */
static CUDA_MEMCPY3D box(const struct memory *dst, const struct memory *src, CUmemorytype type)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = src->array ? CU_MEMORYTYPE_ARRAY : type,
                       .srcDevice = src->at,
                       .srcArray = src->array,
                       .dstMemoryType = dst->array ? CU_MEMORYTYPE_ARRAY : type,
                       .dstDevice = dst->at,
                       .dstArray = dst->array,
                       .WidthInBytes = WIDTH,
                       .Height = BYTES / WIDTH,
                       .Depth = 1};
    c.srcPitch = src->array ? 0 : c.WidthInBytes;
    c.srcHeight = src->array ? 0 : c.Height;
    c.dstPitch = dst->array ? 0 : c.WidthInBytes;
    c.dstHeight = dst->array ? 0 : c.Height;
    return c;
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *c)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = c->srcMemoryType,
                           .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray,
                           .srcPitch = c->srcPitch,
                           .dstMemoryType = c->dstMemoryType,
                           .dstDevice = c->dstDevice,
                           .dstArray = c->dstArray,
                           .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height};
}

static CUresult peer_3d(const CUDA_MEMCPY3D *c, int dst_device, int src_device, CUstream stream)
{
    const CUDA_MEMCPY3D_PEER p = {.srcMemoryType = c->srcMemoryType,
                                  .srcDevice = c->srcDevice,
                                  .srcArray = c->srcArray,
                                  .srcPitch = c->srcPitch,
                                  .srcHeight = c->srcHeight,
                                  .srcContext = contexts[src_device],
                                  .dstMemoryType = c->dstMemoryType,
                                  .dstDevice = c->dstDevice,
                                  .dstArray = c->dstArray,
                                  .dstPitch = c->dstPitch,
                                  .dstHeight = c->dstHeight,
                                  .dstContext = contexts[dst_device],
                                  .WidthInBytes = c->WidthInBytes,
                                  .Height = c->Height,
                                  .Depth = c->Depth};
    return cuMemcpy3DPeerAsync(&p, stream);
}

static CUresult batch(const struct memory *dst, const struct memory *src, CUstream stream)
{
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr to = dst->at, from = src->at;
    size_t bytes = BYTES, first = 0;
#if CUDA_VERSION >= 13000
    return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &how, &first, 1, stream);
#else
    size_t failed;
    return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &how, &first, 1, &failed, stream);
#endif
}

static CUmemcpy3DOperand operand(const struct memory *m)
{
    CUmemcpy3DOperand o = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY};
    if (m->array) {
        o.op.array.array = m->array;
        return o;
    }
    o.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    o.op.ptr.ptr = m->at;
    o.op.ptr.rowLength = WIDTH;
    o.op.ptr.layerHeight = BYTES / WIDTH;
    return o;
}

static CUresult batch_3d(const struct memory *dst, const struct memory *src, CUstream stream)
{
    CUDA_MEMCPY3D_BATCH_OP o = {.src = operand(src),
                                .dst = operand(dst),
                                .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                .extent = {WIDTH, BYTES / WIDTH, 1}};
#if CUDA_VERSION >= 13000
    return cuMemcpy3DBatchAsync(1, &o, 0, stream);
#else
    size_t failed;
    return cuMemcpy3DBatchAsync(1, &o, &failed, 0, stream);
#endif
}

static CUresult launch(CUgraph graph, CUstream stream)
{
    CUgraphExec exec;
    CUresult result = cuGraphInstantiate(&exec, graph, 0);
    say(" instantiate %d", (int)result);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuGraphLaunch(exec, stream);
    say(" launch %d", (int)result);
    return result;
}

/* The end of a capture of one call, which gave `result`. */
static CUresult captured(CUresult result, CUstream stream)
{
    CUgraph graph;
    CUresult end = cuStreamEndCapture(stream, &graph);
    say(" captured %d", (int)result);
    say(" %d", (int)end);
    return result || end ? CUDA_ERROR_UNKNOWN : launch(graph, stream);
}

static CUresult node(const CUDA_MEMCPY3D *c, CUcontext context, CUstream stream)
{
    CUgraph graph;
    CUgraphNode added;
    CHECK(cuGraphCreate(&graph, 0));
    CUresult result = cuGraphAddMemcpyNode(&added, graph, NULL, 0, c, context);
    say(" add %d", (int)result);
    return result ? result : launch(graph, stream);
}

/* A node in an executable graph that copied between memory of cuMemAlloc of the same devices. */
static CUresult changed(const CUDA_MEMCPY3D *c, const struct row *r, CUstream stream)
{
    struct memory to = make(c->dstArray ? "array" : "alloc", r->dst_device, "");
    struct memory from = make(c->srcArray ? "array" : "alloc", r->src_device, "");
    CUDA_MEMCPY3D before = box(&to, &from, CU_MEMORYTYPE_DEVICE);
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode added;
    if (c->Height == 1) {
        before.WidthInBytes = before.srcPitch = before.dstPitch = BYTES;
        before.Height = before.srcHeight = before.dstHeight = 1;
    }
    CHECK(cuCtxSetCurrent(contexts[r->current]));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&added, graph, NULL, 0, &before, contexts[r->current]));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CUresult result = cuGraphExecMemcpyNodeSetParams(exec, added, c, contexts[r->current]);
    say(" set %d", (int)result);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuGraphLaunch(exec, stream);
    say(" launch %d", (int)result);
    return result;
}

static CUresult by_graph(const struct row *r, const struct memory *dst, const struct memory *src)
{
    CUmemorytype type = r->call == UNIFIED ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
    CUDA_MEMCPY3D c = box(dst, src, type);
    CUDA_MEMCPY2D f = flat(&c);
    CUstream stream = streams[r->stream];
    if (r->call == CAPTURE) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        return captured(dst->array || src->array ? cuMemcpy2DAsync(&f, stream)
                                                 : cuMemcpyAsync(dst->at, src->at, BYTES, stream),
                        stream);
    }
    if (r->call == CHANGED_LINE) {
        c.WidthInBytes = c.srcPitch = c.dstPitch = BYTES;
        c.Height = c.srcHeight = c.dstHeight = 1;
    }
    return r->call == NODE || r->call == UNIFIED ? node(&c, contexts[r->current], stream)
                                                 : changed(&c, r, stream);
}

static CUresult copy(const struct row *r, const struct memory *dst, const struct memory *src)
{
    CUDA_MEMCPY3D c = box(dst, src, CU_MEMORYTYPE_DEVICE);
    CUDA_MEMCPY2D f = flat(&c);
    CUstream stream = streams[r->stream];
    switch (r->call) {
    case ASYNC:
        return cuMemcpyAsync(dst->at, src->at, BYTES, stream);
    case DTOD:
        return cuMemcpyDtoDAsync(dst->at, src->at, BYTES, stream);
    case PEER:
        return cuMemcpyPeerAsync(dst->at, contexts[dst->device], src->at, contexts[src->device],
                                 BYTES, stream);
    case FLAT:
        return cuMemcpy2DAsync(&f, stream);
    case PEER_3D:
        return peer_3d(&c, dst->device, src->device, stream);
    case BATCH:
        return batch(dst, src, stream);
    case BATCH_3D:
        return batch_3d(dst, src, stream);
    default:
        return by_graph(r, dst, src);
    }
}

/* Between the program's bytes and memory of any kind. */
static void move(struct memory *m, const void *from, void *to)
{
    struct memory bytes = {0};
    CUDA_MEMCPY3D c =
        from ? box(m, &bytes, CU_MEMORYTYPE_DEVICE) : box(&bytes, m, CU_MEMORYTYPE_DEVICE);
    CUDA_MEMCPY2D f = flat(&c);
    CHECK(cuCtxSetCurrent(contexts[m->device]));
    if (!m->array) {
        CHECK(cuMemcpy(from ? m->at : (CUdeviceptr)to, from ? (CUdeviceptr)from : m->at, BYTES));
    } else if (from) {
        f.srcMemoryType = CU_MEMORYTYPE_HOST;
        f.srcHost = from;
        CHECK(cuMemcpy2D(&f));
    } else {
        f.dstMemoryType = CU_MEMORYTYPE_HOST;
        f.dstHost = to;
        CHECK(cuMemcpy2D(&f));
    }
    CHECK(cuCtxSynchronize());
}

static CUresult set(const struct row *r, const struct memory *m)
{
    const CUDA_MEMSET_NODE_PARAMS params = {
        .dst = m->at, .value = 9, .elementSize = 1, .width = BYTES, .height = 1};
    CUstream stream = streams[r->stream];
    CUgraph graph;
    CUgraphNode added;
    if (r->call == SET)
        return cuMemsetD8Async(m->at, 9, BYTES, stream);
    if (r->call == CAPTURED_SET) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        return captured(cuMemsetD8Async(m->at, 9, BYTES, stream), stream);
    }
    CHECK(cuGraphCreate(&graph, 0));
    CUresult result = cuGraphAddMemsetNode(&added, graph, NULL, 0, &params, contexts[r->current]);
    say(" add %d", (int)result);
    return result ? result : launch(graph, stream);
}

static void ask_set(const struct row *r)
{
    char after[100];
    struct memory m = make(r->dst, r->dst_device, r->open);
    CHECK(cuCtxSetCurrent(contexts[r->current]));
    CUresult result = set(r, &m), then = cuStreamSynchronize(streams[r->stream]);
    snprintf(after, sizeof(after), "%d%s %d", (int)result, said, (int)then);
    strcpy(said, after);
    if (then != CUDA_SUCCESS)
        _exit(3);
    drop(&m);
}

static void ask(const struct row *r)
{
    char after[100];
    size_t wrong = 0;
    struct memory src = make(r->src, r->src_device, r->open);
    struct memory dst = make(r->dst, r->dst_device, r->open);
    memset(seen, 7, BYTES);
    move(&src, sent, NULL);
    move(&dst, seen, NULL);
    CHECK(cuCtxSetCurrent(contexts[r->current]));
    CUresult result = copy(r, &dst, &src), then = cuStreamSynchronize(streams[r->stream]);
    snprintf(after, sizeof(after), "%d%s", (int)result, said);
    strcpy(said, after);
    if (then != CUDA_SUCCESS) {
        say(", then %d", (int)then);
        _exit(3);
    }
    if (result == CUDA_SUCCESS)
        move(&dst, NULL, seen);
    for (size_t i = 0; result == CUDA_SUCCESS && i < BYTES / sizeof(*sent); i++)
        wrong += sent[i] != seen[i];
    if (result == CUDA_SUCCESS)
        say(wrong ? " WRONG" : " right", 0);
    drop(&src);
    drop(&dst);
}

static void let_peers(bool peer)
{
    static bool is;
    for (int i = 0; i < 2 && is != peer; i++) {
        CHECK(cuCtxSetCurrent(contexts[i]));
        CHECK(peer ? cuCtxEnablePeerAccess(contexts[!i], 0) : cuCtxDisablePeerAccess(contexts[!i]));
    }
    is = peer;
}

static void add(int call, const char *src, const char *dst, const char *open, int dst_device,
                int current, int stream)
{
    if (count == MOST)
        exit(1);
    rows[count++] = (struct row){call, src, dst, open, 0, dst_device, current, stream, false};
}

static const char *const pairs[][2] = {{"host", "alloc"},  {"alloc", "host"},   {"host", "host"},
                                       {"host", "array"},  {"array", "host"},   {"host", "pool"},
                                       {"pool", "host"},   {"host", "managed"}, {"managed", "host"},
                                       {"pinned", "host"}, {"host", "pinned"}};
enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]), DEVICE_PAIRS = 3 };

/* Copies of one device's memory: whose device decides. */
static void list_own(int call)
{
    static const char *const own[][2] = {
        {"device", "device"}, {"alloc", "device"}, {"host", "device"}, {"device", "pinned"}};
    for (int who = 0; who < 4; who++)
        for (int p = 0; p < 4; p++)
            add(call, own[p][0], own[p][1], "own", 0, who & 1, who >> 1);
}

/* Copies between both devices' memory; these calls have no arrays. */
static void list_pairs(int call)
{
    bool lines = call == ASYNC || call == DTOD || call == PEER || call == BATCH;
    for (int open = 0; open < 2; open++)
        for (int p = 0; p < PAIRS; p++)
            for (int d = 0; d < 2; d++)
                if (!lines || (strcmp(pairs[p][0], "array") && strcmp(pairs[p][1], "array")))
                    add(call, pairs[p][0], pairs[p][1], open ? "cpu" : "all", 1, d, d);
    for (int p = 0; p < DEVICE_PAIRS; p++) {
        add(call, pairs[p][0], pairs[p][1], "all", 1, 0, 1);
        add(call, pairs[p][0], pairs[p][1], "all", 1, 1, 0);
        add(call, pairs[p][0], pairs[p][1], "cpu", 1, 0, 0);
        rows[count - 1].peer = true;
    }
}

static void list(void)
{
    static const char *const sets[][2] = {
        {"host", "own"}, {"host", "cpu"}, {"host", "both"}, {"device", "own"}, {"alloc", ""}};
    static const char *const lines[][2] = {
        {"alloc", "alloc"},  {"device", "alloc"},  {"alloc", "device"},  {"alloc", "pool"},
        {"pool", "alloc"},   {"managed", "alloc"}, {"alloc", "managed"}, {"pinned", "alloc"},
        {"alloc", "pinned"}, {"host", "alloc"},    {"alloc", "host"}};
    for (int call = 0; call < COPIES; call++) {
        list_own(call);
        list_pairs(call);
    }
    for (int call = SET; call <= SET_NODE; call++)
        for (int d = 0; d < 2; d++)
            for (int s = 0; s < 5; s++)
                add(call, "-", sets[s][0], sets[s][1], 0, d, d);
    for (int l = 0; l < 11; l++)
        for (int far = 0; far < 2; far++)
            for (int d = 0; d < 2; d++)
                add(CHANGED_LINE, lines[l][0], lines[l][1], "all", far, d, d);
}

static void answer(int worker)
{
    int devices = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    if (devices < 2)
        _exit(77);
    for (int d = 0; d < 2; d++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[d], d));
        CHECK(cuCtxSetCurrent(contexts[d]));
        CHECK(cuStreamCreate(&streams[d], CU_STREAM_NON_BLOCKING));
    }
    sent = malloc(BYTES);
    seen = malloc(BYTES);
    for (size_t i = 0; i < BYTES / sizeof(*sent); i++)
        sent[i] = (unsigned)(i * 2654435761u);
    for (int *at = &shared->at[worker]; *at < count; *at += WORKERS) {
        said = shared->answer[*at];
        let_peers(rows[*at].peer);
        if (rows[*at].call >= SET && rows[*at].call <= SET_NODE)
            ask_set(&rows[*at]);
        else
            ask(&rows[*at]);
    }
    _exit(0);
}

/* Starts processes until one has asked the last question of a worker. */
static void work(int worker)
{
    int *at = &shared->at[worker];
    for (*at = worker; *at < count;) {
        int status = 1;
        said = shared->answer[*at];
        pid_t child = fork();
        if (!child)
            answer(worker);
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            _exit(77);
        if (WIFSIGNALED(status))
            snprintf(shared->answer[*at], sizeof(shared->answer[*at]), "signal %d",
                     WTERMSIG(status));
        *at += status ? WORKERS : 0;
    }
    _exit(0);
}

int main(void)
{
    int status, worst = 0;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    list();
    for (int w = 0; w < WORKERS; w++)
        if (!fork())
            work(w);
    while (wait(&status) > 0)
        worst = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : worst;
    for (int i = 0; i < count && !worst; i++) {
        const struct row *r = &rows[i];
        printf("%s %s@%d -> %s@%d open %s cur %d stream %d%s: %s\n", calls[r->call], r->src,
               r->src_device, r->dst, r->dst_device, r->open, r->current, r->stream,
               r->peer ? " peer access" : "", shared->answer[i]);
    }
    return worst;
}
