/* SPDX-License-Identifier: MIT */
/*
 * pooled [elements [rounds [streams]]]: stream-ordered memory.  Every round allocates its buffer on
 * a stream, sets, computes, copies back and frees it on that stream; even rounds use the default
 * pool (cudaMallocAsync), odd ones a pool of the program's own (cudaMallocFromPoolAsync).
 */
#include "common.cuh"
#include "pooled.cuh"

#define MAX_STREAMS 16

/* A pool on device 0 that keeps its memory between rounds. */
static cudaMemPool_t create_pool(void)
{
    cudaMemPoolProps props = {};
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;

    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypeNone;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return pool;
}

static void run_round(size_t round, cudaMemPool_t pool, cudaStream_t stream, unsigned *result,
                      unsigned n)
{
    const unsigned threads = 256;
    size_t bytes = n * sizeof(unsigned);
    unsigned *words;

    if (round % 2 == 0)
        CHECK(cudaMallocAsync(&words, bytes, stream));
    else
        CHECK(cudaMallocFromPoolAsync(&words, bytes, pool, stream));
    CHECK(cudaMemsetAsync(words, (int)(round % 251), bytes, stream));
    add_ramp<<<(n + threads - 1) / threads, threads, 0, stream>>>(words, n, (unsigned)round);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(result, words, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(words, stream));
}

static int verify(const unsigned *results, size_t rounds, unsigned n)
{
    for (size_t round = 0; round < rounds; round++) {
        unsigned set = (unsigned)(round % 251) * 0x01010101u;
        for (unsigned i = 0; i < n; i++) {
            if (results[round * n + i] != set + (unsigned)round + i)
                return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct report report = {};
    cudaStream_t stream[MAX_STREAMS];
    int supported = 0;

    at_most_arguments(argc, argv, 3, "[elements [rounds [streams]]]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 16, 1, (size_t)1 << 28);
    size_t rounds = size_argument(argc, argv, 2, "rounds", 12, 1, 1024);
    size_t streams = size_argument(argc, argv, 3, "streams", 3, 1, MAX_STREAMS);
    size_t bytes = n * sizeof(unsigned);
    report_size(&report, "elements", n);
    report_size(&report, "rounds", rounds);
    report_size(&report, "streams", streams);

    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    if (!supported) {
        fprintf(stderr, "cudaDeviceGetAttribute: the device has no memory pools\n");
        return EXIT_CUDA;
    }
    double start = now_ms();
    cudaMemPool_t pool = create_pool();
    unsigned *results = (unsigned *)host_alloc(rounds * bytes);
    for (size_t s = 0; s < streams; s++)
        CHECK(cudaStreamCreate(&stream[s]));
    report_ms(&report, "setup", now_ms() - start);

    start = now_ms();
    for (size_t round = 0; round < rounds; round++)
        run_round(round, pool, stream[round % streams], results + round * n, (unsigned)n);
    for (size_t s = 0; s < streams; s++)
        CHECK(cudaStreamSynchronize(stream[s]));
    report_ms(&report, "rounds", now_ms() - start);

    int verified = verify(results, rounds, (unsigned)n);
    uint64_t checksum = fnv1a(FNV_START, results, rounds * bytes);
    for (size_t s = 0; s < streams; s++)
        CHECK(cudaStreamDestroy(stream[s]));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
    free(results);
    return report_print(&report, "pooled", checksum, verified);
}
