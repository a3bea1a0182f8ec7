/* SPDX-License-Identifier: MIT */
/* move_model SEED [STEPS [THREADS [MODE]]]: threads use blocks at random by kernels, copies, sets
 * and graphs, beside a plain record of what each byte of them must be; nothing is printed but what
 * differs.  With MODE `f` calls of the driver are let fail while a single thread launches, and with
 * `u` those that give something back as well; with `r` and `s` (which is `r` and `u`) kernels only
 * read blocks from 4 MiB on, by addresses among their arguments. */
#include <pthread.h>

#include "dice.h"
#include "include/zc.h"
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCKS 5
#define STREAMS 4
#define THREADS 5
#define LARGEST (6 * MIB)

struct block {
    CUdeviceptr at;
    size_t bytes;
    unsigned char *holds; /* The expected bytes. */
};

/* Arguments of a kernel, besides numbers: blocks by addresses in a structure, the second one by an
 * address in memory where `table` is not 0. */
struct work {
    unsigned k;
    unsigned slow; /* Microseconds that it runs. */
    CUdeviceptr to, from, table;
    size_t bytes;
};

static CUcontext context;
static bool fails, gives_back, reads;

static __thread struct block blocks[BLOCKS];
static __thread CUstream streams[STREAMS];
static __thread CUdeviceptr table;
static __thread CUfunction kernels[3];
static __thread CUstream last;
static __thread int number;
static __thread unsigned step;
static __thread unsigned char *read_back;

static unsigned far_away(CUdeviceptr p)
{
    struct zc_memory m = {.device_bytes = -1};
    return zc_query((const void *)p, &m) && m.device_bytes == 0;
}

/* to[i] = 3 * to[i] + from[i] + k. */
static int mix_grid(void *const *args, const struct sim_launch *launch)
{
    struct work w = *(const struct work *)args[0];
    (void)launch;
    if (w.table)
        memcpy(&w.from, sim_gpu_pointer(w.table), sizeof(w.from));
    if (w.slow)
        usleep(w.slow);
    unsigned char *to = sim_gpu_pointer_write(w.to), *from = sim_gpu_pointer(w.from);
    if (!to || !from || !sim_gpu_pointer_write(w.to + w.bytes - 1) ||
        !sim_gpu_pointer(w.from + w.bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < w.bytes; i++)
        to[i] = (unsigned char)(3 * to[i] + from[i] + w.k);
    sim_kernel_takes(5 + 20000 * (far_away(w.to) + far_away(w.from)));
    return 0;
}

static struct block *any_block(void)
{
    return &blocks[below(BLOCKS)];
}

/* Puts a stream behind the work of the last one. */
static CUstream go_on_in(CUstream s)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, last));
    CHECK(cuStreamWaitEvent(s, event, 0));
    CHECK(cuEventDestroy(event));
    return last = s;
}

static CUstream any_stream(void)
{
    CUstream s = streams[below(STREAMS)];
    if (s != last && one_in(2))
        return go_on_in(s);
    if (s != last)
        CHECK(cuStreamSynchronize(last));
    return last = s;
}

static void make(struct block *b)
{
    static const size_t sizes[] = {2 * MIB,     4 * MIB,         4 * MIB, 4 * MIB,     4 * MIB - 1,
                                   4 * MIB + 1, 5 * MIB + 12345, LARGEST, MIB + 300000};
    do
        b->bytes = sizes[below(sizeof(sizes) / sizeof(*sizes))];
    while (reads && (b->bytes < 4 * MIB) != (b < blocks + 2));
    CHECK(cuMemAlloc(&b->at, b->bytes));
    unsigned char v = (unsigned char)below(256);
    CHECK(cuMemsetD8Async(b->at, v, b->bytes, any_stream()));
    memset(b->holds, v, b->bytes);
    if (reads) /* Only what the program has copied into is fetched. */
        CHECK(cuMemcpyHtoDAsync(b->at, b->holds, b->bytes, last));
}

static void compare(struct block *b, size_t low, size_t n)
{
    memset(read_back, 77, n);
    CUstream s = any_stream();
    CHECK(cuMemcpyDtoHAsync(read_back, b->at + low, n, s));
    CHECK(cuStreamSynchronize(s));
    for (size_t i = 0; i < n; i++)
        if (read_back[i] != b->holds[low + i]) {
            printf("thread %d step %u block %d byte %zu of %zu: %d, not %d\n", number, step,
                   (int)(b - blocks), low + i, b->bytes, read_back[i], b->holds[low + i]);
            exit(1);
        }
}

static bool choose(struct work *w, struct block **to, struct block **from)
{
    *to = reads ? &blocks[below(2)] : any_block();
    *from = any_block();
    if (*to == *from)
        return false;
    size_t low = one_in(2) ? 0 : below(MIB / 8), other = one_in(2) ? 0 : below(MIB / 8);
    size_t most = (*to)->bytes - low, also = (*from)->bytes - other;
    most = most < also ? most : also;
    *w = (struct work){.k = below(256),
                       .slow = one_in(6) ? below(3000) : 0,
                       .to = (*to)->at + low,
                       .from = (*from)->at + other,
                       .bytes = 1 + below(one_in(2) ? most : 4096)};
    return true;
}

static void apply(const struct work *w, struct block *to, struct block *from)
{
    unsigned char *t = to->holds + (w->to - to->at), *f = from->holds + (w->from - from->at);
    for (size_t i = 0; i < w->bytes; i++)
        t[i] = (unsigned char)(3 * t[i] + f[i] + w->k);
}

static CUresult launch_in(CUstream s, struct work *w)
{
    void *args[] = {w};
    return cuLaunchKernel(kernels[below(3)], 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
}

/* A call of the driver will fail soon; only with `u` one that gives something back. */
static void let_fail(void)
{
    static const char *const names[] = {"cuMemCreate",
                                        "cuMemAddressReserve",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemcpyDtoDAsync_v2",
                                        "cuEventCreate",
                                        "cuStreamWaitEvent",
                                        "cuEventQuery",
                                        "cuEventRecord",
                                        "cuStreamSynchronize",
                                        "cuStreamQuery",
                                        "cuMemGetInfo_v2",
                                        "cuStreamCreate",
                                        "cuCtxGetCurrent",
                                        "cuMemUnmap",
                                        "cuMemRelease",
                                        "cuMemAddressFree",
                                        "cuEventDestroy_v2",
                                        "cuStreamDestroy_v2",
                                        "cuStreamWriteValue64_v2",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemHostAlloc"};
    sim_fail(names[below(reads ? 22 : gives_back ? 19 : 14)], CUDA_ERROR_UNKNOWN, 1 + below(6));
}

static void launch(void)
{
    struct work w;
    struct block *to, *from;
    if (!choose(&w, &to, &from))
        return;
    for (unsigned t = 1 + below(3); t > 0; t--) {
        CUstream s = any_stream();
        if (one_in(3) && !(reads && from->bytes >= 4 * MIB)) {
            CUdeviceptr at = w.from;
            CHECK(cuMemcpyHtoDAsync(table, &at, sizeof(at), s));
            w.table = table;
        }
        if (fails && one_in(2))
            let_fail();
        CUresult code = launch_in(s, &w);
        if (fails)
            sim_fail(NULL, 0, 0);
        if (code == CUDA_SUCCESS)
            apply(&w, to, from);
        else
            EXPECT(fails);
        w.table = 0;
    }
}

static void set(void)
{
    struct block *b = any_block();
    size_t low = one_in(2) ? 0 : below(b->bytes), n = 1 + below(b->bytes - low);
    unsigned char v = (unsigned char)below(256);
    CHECK(cuMemsetD8Async(b->at + low, v, n, any_stream()));
    memset(b->holds + low, v, n);
}

static void copy(void)
{
    struct block *to = any_block(), *from = any_block();
    if (to == from)
        return;
    size_t most = to->bytes < from->bytes ? to->bytes : from->bytes, low = below(most);
    size_t n = 1 + below(most - low);
    CHECK(cuMemcpyDtoDAsync(to->at + low, from->at + low, n, any_stream()));
    memcpy(to->holds + low, from->holds + low, n);
}

static void bring(void)
{
    struct block *b = any_block();
    size_t low = below(b->bytes), n = 1 + below(b->bytes - low);
    CHECK(cuStreamSynchronize(last));
    memset(b->holds + low, (int)below(256), n);
    CHECK(cuMemcpyHtoD(b->at + low, b->holds + low, n));
}

static void look(void)
{
    struct block *b = any_block();
    size_t low = one_in(2) ? 0 : below(b->bytes);
    compare(b, low, 1 + below(b->bytes - low));
}

static void renew(void)
{
    struct block *b = any_block();
    if (one_in(2))
        CHECK(cuStreamSynchronize(last));
    if (one_in(3))
        CHECK(cuMemFreeAsync(b->at, last));
    else
        CHECK(cuMemFree(b->at));
    make(b);
}

static void renew_stream(void)
{
    CUstream *s = &streams[2 + below(2)];
    if (*s == last)
        go_on_in(streams[one_in(2)]);
    CHECK(cuStreamDestroy(*s));
    CHECK(cuStreamCreate(s, s == &streams[2] ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

static void graph(void)
{
    struct work w[3];
    struct block *to[3], *from[3];
    unsigned n = 0;
    CUgraph made;
    CUgraphExec exec;
    CUstream s = streams[3];
    if (reads && !one_in(4)) /* A block that a graph names stays. */
        return;
    CHECK(cuStreamSynchronize(last));
    last = s;
    while (n < 3)
        n += choose(&w[n], &to[n], &from[n]);
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (unsigned i = 0; i < n; i++)
        CHECK(launch_in(s, &w[i]));
    bool sets = one_in(4);
    if (sets)
        CHECK(cuMemsetD8Async(to[0]->at, 9, to[0]->bytes, s));
    CHECK(cuStreamEndCapture(s, &made));
    CHECK(cuGraphInstantiate(&exec, made, 0));
    CHECK(cuGraphDestroy(made));
    for (unsigned t = 1 + below(4); t > 0; t--) {
        CHECK(cuGraphLaunch(exec, any_stream()));
        for (unsigned i = 0; i < n; i++)
            apply(&w[i], to[i], from[i]);
        if (sets)
            memset(to[0]->holds, 9, to[0]->bytes);
        if (one_in(2))
            launch();
    }
    CHECK(cuStreamSynchronize(last));
    CHECK(cuGraphExecDestroy(exec));
}

static void ask(void)
{
    struct block *b = any_block();
    CUdeviceptr base;
    size_t bytes, total;
    CHECK(cuMemGetAddressRange(&base, &bytes, b->at + below(b->bytes)));
    EXPECT(base == b->at && bytes == b->bytes);
    CHECK(cuMemGetInfo(&bytes, &total));
    EXPECT(bytes <= total);
    CHECK(cuStreamSynchronize(last));
}

static void *run(void *arg)
{
    static const struct choice choices[] = {{launch, 60}, {set, 6},   {copy, 8},
                                            {bring, 5},   {look, 10}, {renew, 5},
                                            {graph, 4},   {ask, 6},   {renew_stream, 2}};
    static const char *const names[] = {"mix", "mix1", "mix2"};
    static const size_t sizes[] = {sizeof(struct work)};
    const uint64_t *job = arg;
    number = (int)job[2];
    dice = job[0] * 0x9e3779b97f4a7c15ull + job[2];
    for (int i = 0; i < 8; i++)
        below(2);
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 3; i++)
        kernels[i] = load_kernel(names[i], mix_grid, 1, sizes);
    CHECK(cuMemAlloc(&table, 4096));
    read_back = malloc(LARGEST);
    streams[0] = last = NULL;
    streams[1] = CU_STREAM_PER_THREAD;
    CHECK(cuStreamCreate(&streams[2], CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&streams[3], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i].holds = malloc(LARGEST);
        make(&blocks[i]);
    }
    for (step = 0; step < job[1]; step++)
        chosen(choices, sizeof(choices) / sizeof(*choices))->run();
    for (int i = 0; i < BLOCKS; i++) {
        compare(&blocks[i], 0, blocks[i].bytes);
        CHECK(cuMemFree(blocks[i].at));
        free(blocks[i].holds);
    }
    CHECK(cuMemFree(table));
    for (int i = 2; i < STREAMS; i++)
        CHECK(cuStreamDestroy(streams[i]));
    free(read_back);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t jobs[THREADS][3];
    pthread_t handles[THREADS];
    unsigned long threads = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    char mode = argc > 4 ? argv[4][0] : 0;
    fails = mode && mode != 'r';
    gives_back = mode == 'u' || mode == 's';
    reads = mode == 'r' || mode == 's';
    EXPECT(threads <= THREADS);
    context = start_gpu(0);
    for (unsigned long i = 0; i < threads; i++) {
        jobs[i][0] = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
        jobs[i][1] = argc > 2 ? strtoull(argv[2], NULL, 10) : 200;
        jobs[i][2] = i;
        CHECK(pthread_create(&handles[i], NULL, run, jobs[i]));
    }
    for (unsigned long i = 0; i < threads; i++)
        CHECK(pthread_join(handles[i], NULL));
    end_gpu(0);
    return 0;
}
