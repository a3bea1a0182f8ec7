/* SPDX-License-Identifier: MIT */
/*
 * pipeline [elements [streams [chunks]]]: copies in, kernel and copies out of many chunks overlap
 * on several streams.  Even chunks come from and go to cudaMallocHost memory, odd ones to malloc
 * memory; an event a stream tells when all of its chunks are done.
 */
#include "common.cuh"
#include "pipeline.cuh"

#define ROUNDS 4u
#define MAX_STREAMS 64

/* The words of one run: the host's two sides, and one slot of device memory a stream. */
struct pipeline {
    unsigned *pinned_in, *pinned_out;     /* cudaMallocHost, all chunks; the even ones are used */
    unsigned *pageable_in, *pageable_out; /* malloc, all chunks; the odd ones are used */
    size_t chunk;                         /* words a chunk */
    size_t chunks;
    size_t streams;
    cudaStream_t stream[MAX_STREAMS];
    cudaEvent_t done[MAX_STREAMS];
    unsigned *slot_in[MAX_STREAMS], *slot_out[MAX_STREAMS]; /* device, one chunk each */
};

static unsigned input_word(size_t i)
{
    return (unsigned)(i * 2246822519u + 3266489917u);
}

static unsigned expected_word(size_t i)
{
    unsigned x = input_word(i);

    for (unsigned r = 0; r < ROUNDS; r++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static unsigned *chunk_of(const struct pipeline *p, unsigned *pinned, unsigned *pageable, size_t c)
{
    return (c % 2 == 0 ? pinned : pageable) + c * p->chunk;
}

static void open_pipeline(struct pipeline *p)
{
    size_t bytes = p->chunk * sizeof(unsigned);

    CHECK(cudaMallocHost(&p->pinned_in, p->chunks * bytes));
    CHECK(cudaMallocHost(&p->pinned_out, p->chunks * bytes));
    p->pageable_in = (unsigned *)host_alloc(p->chunks * bytes);
    p->pageable_out = (unsigned *)host_alloc(p->chunks * bytes);
    for (size_t c = 0; c < p->chunks; c++) {
        unsigned *in = chunk_of(p, p->pinned_in, p->pageable_in, c);
        for (size_t i = 0; i < p->chunk; i++)
            in[i] = input_word(c * p->chunk + i);
    }
    for (size_t s = 0; s < p->streams; s++) {
        CHECK(cudaStreamCreateWithFlags(&p->stream[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&p->done[s]));
        CHECK(cudaMalloc(&p->slot_in[s], bytes));
        CHECK(cudaMalloc(&p->slot_out[s], bytes));
    }
}

static void run_chunk(const struct pipeline *p, size_t c)
{
    const unsigned threads = 256;
    size_t s = c % p->streams;
    size_t bytes = p->chunk * sizeof(unsigned);
    unsigned n = (unsigned)p->chunk;

    CHECK(cudaMemcpyAsync(p->slot_in[s], chunk_of(p, p->pinned_in, p->pageable_in, c), bytes,
                          cudaMemcpyHostToDevice, p->stream[s]));
    mix<<<(n + threads - 1) / threads, threads, 0, p->stream[s]>>>(p->slot_in[s], p->slot_out[s], n,
                                                                   ROUNDS);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(chunk_of(p, p->pinned_out, p->pageable_out, c), p->slot_out[s], bytes,
                          cudaMemcpyDeviceToHost, p->stream[s]));
}

static int verify(const struct pipeline *p, uint64_t *checksum_out)
{
    uint64_t checksum = FNV_START;

    for (size_t c = 0; c < p->chunks; c++) {
        const unsigned *out = chunk_of(p, p->pinned_out, p->pageable_out, c);
        for (size_t i = 0; i < p->chunk; i++) {
            if (out[i] != expected_word(c * p->chunk + i))
                return 0;
        }
        checksum = fnv1a(checksum, out, p->chunk * sizeof(unsigned));
    }
    *checksum_out = checksum;
    return 1;
}

static void close_pipeline(struct pipeline *p)
{
    for (size_t s = 0; s < p->streams; s++) {
        CHECK(cudaFree(p->slot_in[s]));
        CHECK(cudaFree(p->slot_out[s]));
        CHECK(cudaEventDestroy(p->done[s]));
        CHECK(cudaStreamDestroy(p->stream[s]));
    }
    CHECK(cudaFreeHost(p->pinned_in));
    CHECK(cudaFreeHost(p->pinned_out));
    free(p->pageable_in);
    free(p->pageable_out);
}

int main(int argc, char **argv)
{
    struct report report = {};
    struct pipeline p = {};
    uint64_t checksum = 0;

    at_most_arguments(argc, argv, 3, "[elements [streams [chunks]]]");
    size_t elements = size_argument(argc, argv, 1, "elements", 1 << 20, 1, (size_t)1 << 32);
    p.streams = size_argument(argc, argv, 2, "streams", 4, 1, MAX_STREAMS);
    p.chunks = size_argument(argc, argv, 3, "chunks", 16, 1, 4096);
    if (elements % p.chunks != 0 || elements / p.chunks > ((size_t)1 << 30)) {
        fprintf(stderr, "%s: elements must be a multiple of chunks, at most 2^30 a chunk\n",
                argv[0]);
        return EXIT_USAGE;
    }
    p.chunk = elements / p.chunks;
    report_size(&report, "elements", elements);
    report_size(&report, "streams", p.streams);
    report_size(&report, "chunks", p.chunks);

    double start = now_ms();
    open_pipeline(&p);
    report_ms(&report, "allocate", now_ms() - start);

    start = now_ms();
    for (size_t c = 0; c < p.chunks; c++)
        run_chunk(&p, c);
    for (size_t s = 0; s < p.streams; s++)
        CHECK(cudaEventRecord(p.done[s], p.stream[s]));
    report_ms(&report, "issue", now_ms() - start);
    for (size_t s = 0; s < p.streams; s++)
        CHECK(cudaEventSynchronize(p.done[s]));
    report_ms(&report, "finish", now_ms() - start);

    int verified = verify(&p, &checksum);
    close_pipeline(&p);
    return report_print(&report, "pipeline", checksum, verified);
}
