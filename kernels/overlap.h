/* SPDX-License-Identifier: MIT */
/*
 * Shared by overlap and overlap_pinned: chunks go to the GPU, are mixed there by the
 * kernel of pipeline and come back, on several streams.  They differ in the host's memory.
 */
#ifndef KERNELS_OVERLAP_H
#define KERNELS_OVERLAP_H

#include "common.cuh"
#include "pipeline.cuh"

#define OVERLAP_ROUNDS 512u /* about as long in the kernel as on the link, on one H200 */
#define OVERLAP_STREAMS 4

/* One run: sizes, streams, and a slot of device memory a stream. */
struct overlap {
    size_t chunk; /* words a chunk */
    size_t chunks;
    size_t bytes; /* of all chunks */
    cudaStream_t stream[OVERLAP_STREAMS];
    unsigned *in[OVERLAP_STREAMS], *out[OVERLAP_STREAMS]; /* device, one chunk each */
};

/* Reads [elements [chunks]] and writes the sizes into the report. */
static inline struct overlap overlap_arguments(int argc, char **argv, struct report *report)
{
    struct overlap o = {};

    at_most_arguments(argc, argv, 2, "[elements [chunks]]");
    size_t elements = size_argument(argc, argv, 1, "elements", 1 << 16, 1, (size_t)1 << 32);
    o.chunks = size_argument(argc, argv, 2, "chunks", 16, 1, 4096);
    if (elements % o.chunks != 0 || elements / o.chunks > ((size_t)1 << 30)) {
        fprintf(stderr, "%s: elements must be a multiple of chunks, at most 2^30 a chunk\n",
                argv[0]);
        exit(EXIT_USAGE);
    }
    o.chunk = elements / o.chunks;
    o.bytes = elements * sizeof(unsigned);
    report_size(report, "elements", elements);
    report_size(report, "chunks", o.chunks);
    return o;
}

static inline void overlap_open(struct overlap *o)
{
    for (size_t s = 0; s < OVERLAP_STREAMS; s++) {
        CHECK(cudaStreamCreateWithFlags(&o->stream[s], cudaStreamNonBlocking));
        CHECK(cudaMalloc(&o->in[s], o->chunk * sizeof(unsigned)));
        CHECK(cudaMalloc(&o->out[s], o->chunk * sizeof(unsigned)));
    }
}

static inline void overlap_close(struct overlap *o)
{
    for (size_t s = 0; s < OVERLAP_STREAMS; s++) {
        CHECK(cudaFree(o->in[s]));
        CHECK(cudaFree(o->out[s]));
        CHECK(cudaStreamDestroy(o->stream[s]));
    }
}

static inline void overlap_fill(unsigned *from, const struct overlap *o)
{
    for (size_t i = 0; i < o->chunk * o->chunks; i++)
        from[i] = (unsigned)i * 2246822519u;
}

/* Sends all chunks through the GPU and waits for the last. */
static inline void overlap_run(const struct overlap *o, const unsigned *from, unsigned *to)
{
    const unsigned threads = 256, n = (unsigned)o->chunk;
    size_t bytes = o->chunk * sizeof(unsigned);

    for (size_t c = 0; c < o->chunks; c++) {
        size_t s = c % OVERLAP_STREAMS;
        CHECK(cudaMemcpyAsync(o->in[s], from + c * o->chunk, bytes, cudaMemcpyHostToDevice,
                              o->stream[s]));
        mix<<<(n + threads - 1) / threads, threads, 0, o->stream[s]>>>(o->in[s], o->out[s], n,
                                                                       OVERLAP_ROUNDS);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(to + c * o->chunk, o->out[s], bytes, cudaMemcpyDeviceToHost,
                              o->stream[s]));
    }
    CHECK(cudaDeviceSynchronize());
}

/* All rounds of the kernel are one multiplication and one addition, whose factors come here. */
static inline int overlap_verify(const unsigned *to, const struct overlap *o)
{
    unsigned factor = 1, sum = 0;

    for (unsigned r = 0; r < OVERLAP_ROUNDS; r++) {
        factor *= 1664525u;
        sum = sum * 1664525u + 1013904223u;
    }
    for (size_t i = 0; i < o->chunk * o->chunks; i++) {
        if (to[i] != (unsigned)i * 2246822519u * factor + sum)
            return 0;
    }
    return 1;
}

#endif
