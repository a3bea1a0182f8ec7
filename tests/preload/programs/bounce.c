/* bounce SCENARIO: large copies between pinned memory and device blocks.  Prints how many copies
 * the driver made inside the device for them. */
#include <pthread.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define SIZE (41 * MIB + 12345)
#define PARTS 6 /* That a copy of so many bytes has. */
#define MORE_THAN_A_STREAM_TAKES (513 * MIB)

static unsigned char *from, *to; /* Pinned, SIZE bytes. */
static CUdeviceptr block, other;

static void allocate(void)
{
    start_gpu(0);
    CHECK(cuMemHostAlloc((void **)&from, SIZE, 0));
    CHECK(cuMemHostAlloc((void **)&to, SIZE, 0));
    CHECK(cuMemAlloc(&block, SIZE));
    CHECK(cuMemAlloc(&other, SIZE));
}

static void make(void)
{
    allocate();
    CHECK(cuMemcpyHtoD(block, from, SIZE));
    CHECK(cuMemcpyHtoD(other, from, SIZE));
}

static unsigned long long inside(void)
{
    return sim_calls("cuMemcpyDtoDAsync_v2");
}

static void unmake(void)
{
    CHECK(cuMemFree(block));
    CHECK(cuMemFree(other));
    CHECK(cuMemFreeHost(from));
    CHECK(cuMemFreeHost(to));
    end_gpu(0);
}

/* Each byte depends on the round and on where it is. */
static void write_round(unsigned round)
{
    for (size_t i = 0; i < SIZE; i++)
        from[i] = (unsigned char)(i * 7 + i / 4096 + round);
    memset(to, 0, SIZE);
}

/* There and back, without a stream (NULL) or in one, at the beginning of the block or in it. */
static void there_and_back(size_t at, size_t bytes, const CUstream *stream)
{
    static unsigned round;
    write_round(++round);
    if (stream) {
        CHECK(cuMemcpyHtoDAsync(block + at, from + at, bytes, *stream));
        CHECK(cuMemcpyDtoHAsync(to + at, block + at, bytes, *stream));
        CHECK(cuStreamSynchronize(*stream));
    } else {
        CHECK(cuMemcpyHtoD(block + at, from + at, bytes));
        CHECK(cuMemcpyDtoH(to + at, block + at, bytes));
    }
    EXPECT(!memcmp(to + at, from + at, bytes));
    EXPECT(all_are(to, 0, at) && all_are(to + at + bytes, 0, SIZE - at - bytes));
}

static void copies(void)
{
    CUstream streams[] = {NULL, NULL, NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    make();
    unsigned long long before = inside();
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&streams[2], CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i <= sizeof(streams) / sizeof(streams[0]); i++) {
        const CUstream *stream = i ? &streams[i - 1] : NULL;
        there_and_back(0, SIZE, stream);
        there_and_back(3, 16 * MIB, stream);
        there_and_back(4097, 24 * MIB + 1, stream);
    }
    printf("inside %llu\n", inside() - before);
    CHECK(cuStreamDestroy(streams[1]));
    CHECK(cuStreamDestroy(streams[2]));
    unmake();
}

static void small(void)
{
    make();
    unsigned long long before = inside();
    there_and_back(5, 16 * MIB - 1, NULL);
    printf("inside %llu\n", inside() - before);
    unmake();
}

/* What stands before a copy in its stream is done first, what comes later sees it. */
static void in_order(void)
{
    struct gate gate;
    CUstream stream;
    make();
    memset(from, 4, SIZE);
    memset(to, 0, SIZE);
    unsigned long long before = inside();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, stream);
    fill(block, 3, SIZE, stream);
    CHECK(cuMemcpyDtoHAsync(to, block, SIZE, stream));
    CHECK(cuMemcpyHtoDAsync(block, from, SIZE, stream));
    fill(block, 5, MIB, stream);
    CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    EXPECT(all_are(to, 3, SIZE));
    CHECK(cuMemcpyDtoHAsync(to, block, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(all_are(to, 5, MIB) && all_are(to + MIB, 4, SIZE - MIB));
    printf("inside %llu\n", inside() - before);
    CHECK(cuStreamDestroy(stream));
    unmake();
}

/* A stream that is held up holds up no other one's copy. */
static void two_streams(void)
{
    struct gate gate;
    CUstream held, stream;
    make();
    memset(from, 6, SIZE);
    CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, held);
    unsigned long long before = inside();
    CHECK(cuMemcpyHtoDAsync(block, from, SIZE, held));
    printf("held up: inside %llu\n", inside() - before);
    before = inside();
    CHECK(cuMemcpyHtoDAsync(other, from, SIZE, stream));
    CHECK(cuMemcpyDtoHAsync(to, other, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(all_are(to, 6, SIZE));
    printf("beside it: inside %llu\n", inside() - before);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(held));
    before = inside();
    CHECK(cuMemcpyDtoHAsync(to, block, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(all_are(to, 6, SIZE));
    printf("later: inside %llu\n", inside() - before);
    CHECK(cuStreamDestroy(held));
    CHECK(cuStreamDestroy(stream));
    unmake();
}

/* A copy that the driver refuses is refused at once, whatever its stream waits for. */
static void refused(void)
{
    struct gate gate;
    CUstream stream;
    make();
    void *constant = aligned_alloc(4096, 48 * MIB);
    CHECK(cuMemHostRegister(constant, 48 * MIB, CU_MEMHOSTREGISTER_READ_ONLY));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, stream);
    SHOW(cuMemcpyDtoHAsync(constant, block, SIZE, stream));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    there_and_back(0, SIZE, &stream);
    CHECK(cuStreamDestroy(stream));
    CHECK(cuMemHostUnregister(constant));
    free(constant);
    unmake();
}

static void captured(void)
{
    CUstream stream;
    CUgraph graph;
    make();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    unsigned long long before = inside();
    CHECK(cuMemcpyHtoDAsync(block, from, SIZE, stream));
    CHECK(cuMemcpyHtoD(other, from, SIZE));
    printf("inside %llu\n", inside() - before);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    unmake();
}

/* A call that need not wait must not: a stream takes so many calls and no more. */
static void enormous(void)
{
    void *pinned;
    CUdeviceptr large;
    start_gpu(0);
    CHECK(cuMemHostAlloc(&pinned, MORE_THAN_A_STREAM_TAKES, 0));
    CHECK(cuMemAlloc(&large, MORE_THAN_A_STREAM_TAKES));
    CHECK(cuMemcpyHtoDAsync(large, pinned, MORE_THAN_A_STREAM_TAKES, NULL));
    printf("inside %llu\n", inside());
    CHECK(cuMemcpyHtoD(large, pinned, MORE_THAN_A_STREAM_TAKES));
    printf("waiting: inside %llu\n", inside());
    CHECK(cuMemFreeHost(pinned));
    end_gpu(0);
}

/* Nor must calls that come while their stream is held up. */
static void queued(void)
{
    struct gate gate;
    CUstream stream;
    make();
    memset(from, 8, SIZE);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, stream);
    unsigned long long before = inside();
    for (int i = 0; i < 12; i++)
        CHECK(cuMemcpyHtoDAsync(block, from, SIZE, stream));
    printf("inside %llu\n", inside() - before);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    before = inside();
    CHECK(cuMemcpyDtoHAsync(to, block, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(all_are(to, 8, SIZE));
    printf("later: inside %llu\n", inside() - before);
    CHECK(cuStreamDestroy(stream));
    unmake();
}

/* What the device has free is the program's, after the first copy, which gets the buffers, as
 * before. */
static void memory(void)
{
    size_t before, after, total;
    CUdeviceptr rest;
    allocate();
    memset(from, 7, SIZE);
    CHECK(cuMemGetInfo(&before, &total));
    CHECK(cuMemcpyHtoD(block, from, SIZE));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(before == after);
    CHECK(cuMemAlloc(&rest, after));
    CHECK(cuMemcpyHtoD(block, from, SIZE));
    CHECK(cuMemcpyDtoH(to, block, SIZE));
    EXPECT(all_are(to, 7, SIZE));
    CHECK(cuMemFree(rest));
    unmake();
    puts("all of it");
}

static struct gate gate;

static void *open_late(void *unused)
{
    usleep(100000);
    gate_open(&gate);
    return unused;
}

/* Requests all that two blocks leave of the device beside a stream that is held, if `copies` with a
 * copy behind that; and if `late` until a while after the request began, and by a kernel. */
static void request_rest(bool copies, bool late)
{
    size_t before, total;
    CUstream stream;
    CUdeviceptr rest = 0;
    pthread_t thread;
    make();
    memset(from, 8, SIZE);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemGetInfo(&before, &total));
    if (late)
        gate_close_by_kernel(&gate, stream);
    else
        gate_close(&gate, stream);
    if (copies)
        CHECK(cuMemcpyHtoDAsync(block, from, SIZE, stream));
    if (late)
        CHECK(pthread_create(&thread, NULL, open_late, NULL));
    SHOW(cuMemAlloc(&rest, total - 2 * (44 * MIB)));
    gate_open(&gate);
    if (late)
        CHECK(pthread_join(thread, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(to, block, SIZE));
    EXPECT(!copies || all_are(to, 8, SIZE));
    CHECK(cuMemFree(rest));
    CHECK(cuStreamDestroy(stream));
    unmake();
}

static void rest_beside(void)
{
    request_rest(false, false);
}

static void rest_behind(void)
{
    request_rest(true, true);
}

static void rest_awaited(void)
{
    request_rest(true, false);
}

static void *copy_and_wait(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemcpyHtoD(block, from, SIZE));
    return NULL;
}

/* As rest_behind(), while another thread waits for the copy. */
static void rest_meanwhile(void)
{
    CUcontext context;
    CUdeviceptr rest = 0;
    pthread_t copying, opening;
    size_t total;
    make();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuDeviceTotalMem(&total, 0));
    memset(from, 8, SIZE);
    unsigned long long before = inside();
    gate_close_by_kernel(&gate, NULL);
    CHECK(pthread_create(&copying, NULL, copy_and_wait, context));
    while (inside() < before + PARTS)
        usleep(200);
    CHECK(pthread_create(&opening, NULL, open_late, NULL));
    SHOW(cuMemAlloc(&rest, total - 2 * (44 * MIB)));
    CHECK(pthread_join(opening, NULL));
    CHECK(pthread_join(copying, NULL));
    CHECK(cuMemcpyDtoH(to, block, SIZE));
    EXPECT(all_are(to, 8, SIZE));
    CHECK(cuMemFree(rest));
    unmake();
}

/* A copy that names contexts is behind what the other device has to do, too. */
static void peers(void)
{
    CUcontext first, second = start_gpu(1);
    CUdeviceptr far;
    pthread_t opening;
    CHECK(cuMemAlloc(&far, SIZE));
    make();
    CHECK(cuCtxGetCurrent(&first));
    unsigned long long before = inside();
    CHECK(cuCtxSetCurrent(second));
    gate_close_by_kernel(&gate, NULL);
    fill(far, 9, SIZE, NULL);
    CHECK(cuCtxSetCurrent(first));
    CHECK(pthread_create(&opening, NULL, open_late, NULL));
    CHECK(cuMemcpyPeer(block, first, far, second, SIZE));
    CHECK(pthread_join(opening, NULL));
    printf("inside %llu\n", inside() - before);
    CHECK(cuMemcpyDtoH(to, block, SIZE));
    EXPECT(all_are(to, 9, SIZE));
    CHECK(cuCtxSetCurrent(second));
    CHECK(cuMemFree(far));
    CHECK(cuCtxSetCurrent(first));
    unmake();
    end_gpu(1);
}

static CUcontext stays;

static void *request_beside_copies(void *bytes)
{
    CUdeviceptr rest;
    CHECK(cuCtxSetCurrent(stays));
    if (cuMemAlloc(&rest, *(size_t *)bytes) == CUDA_SUCCESS)
        CHECK(cuMemFree(rest));
    return NULL;
}

/* A context goes while a request of another one, for so many bytes, waits for the copies that have
 * its buffers. */
static void go_meanwhile(size_t bytes)
{
    pthread_t requesting;
    CUstream stream;
    CUcontext goes = another_context();
    hold_kernel = NULL;
    CHECK(cuMemHostAlloc((void **)&from, SIZE, 0));
    CHECK(cuMemAlloc(&block, SIZE));
    CHECK(cuMemcpyHtoD(block, from, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate_close_by_kernel(&gate, stream);
    CHECK(cuMemcpyHtoDAsync(block, from, SIZE, stream));
    unsigned long long waits = sim_calls("cuEventSynchronize");
    CHECK(pthread_create(&requesting, NULL, request_beside_copies, &bytes));
    while (sim_calls("cuEventSynchronize") == waits)
        usleep(200);
    gate_open(&gate);
    CHECK(cuCtxDestroy(goes));
    CHECK(pthread_join(requesting, NULL));
    CHECK(cuCtxSetCurrent(stays));
}

/* However the two threads come to their ends, the device has free what it had. */
static void context_goes(void)
{
    size_t before, after, total;
    stays = start_gpu(0);
    CHECK(cuMemGetInfo(&before, &total));
    for (int i = 0; i < 30; i++) {
        go_meanwhile(total - 44 * MIB);
        CHECK(cuMemGetInfo(&after, &total));
        EXPECT(after == before);
    }
    end_gpu(0);
}

/* A context takes the buffers along. */
static void reset(void)
{
    for (int round = 0; round < 2; round++) {
        unsigned long long before = inside();
        make();
        there_and_back(0, SIZE, NULL);
        printf("inside %llu\n", inside() - before);
        CHECK(cuMemFreeHost(from));
        CHECK(cuMemFreeHost(to));
        end_gpu(0);
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"copies", copies},
        {"small", small},
        {"in_order", in_order},
        {"captured", captured},
        {"refused", refused},
        {"enormous", enormous},
        {"queued", queued},
        {"two_streams", two_streams},
        {"memory", memory},
        {"reset", reset},
        {"context_goes", context_goes},
        {"peers", peers},
        {"rest_beside", rest_beside},
        {"rest_behind", rest_behind},
        {"rest_awaited", rest_awaited},
        {"rest_meanwhile", rest_meanwhile},
    };
    return RUN_SCENARIO(all, argc, argv);
}
