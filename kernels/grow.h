/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs of grow: a vector on the GPU to which a kernel appends chunks
 * until it has its full length.  They differ in how the memory behind it grows.
 */
#ifndef KERNELS_GROW_H
#define KERNELS_GROW_H

#include "common.cuh"
#include "grow.cuh"

/* Sizes of one run, in bytes. */
struct grow_sizes {
    size_t full;  /* in the end; a multiple of chunk */
    size_t chunk; /* appended at a time, and the first capacity; a multiple of 4 */
    size_t step;  /* what the capacity grows by; 0: it doubles */
};

/* Reads [chunks [chunk [step]]], step in chunks, and writes the sizes into the report. */
static inline struct grow_sizes grow_arguments(int argc, char **argv, struct report *report)
{
    struct grow_sizes s;

    at_most_arguments(argc, argv, 3, "[chunks [chunk_bytes [step_chunks]]]");
    size_t chunks = size_argument(argc, argv, 1, "chunks", 20, 1, 1 << 20);
    s.chunk = size_argument(argc, argv, 2, "chunk_bytes", 65536, 4, (size_t)1 << 32);
    size_t step = size_argument(argc, argv, 3, "step_chunks", 0, 0, 1 << 20);
    if (s.chunk % sizeof(unsigned) != 0 || chunks > ((size_t)1 << 40) / s.chunk) {
        fprintf(stderr, "%s: chunk_bytes must be a multiple of 4 and the vector at most 1 TiB\n",
                argv[0]);
        exit(EXIT_USAGE);
    }
    s.full = chunks * s.chunk;
    s.step = step * s.chunk;
    report_size(report, "bytes", s.full);
    report_size(report, "chunk_bytes", s.chunk);
    report_size(report, "step_bytes", s.step);
    return s;
}

/* The capacity that follows the given one. */
static inline size_t next_capacity(const struct grow_sizes *s, size_t capacity)
{
    return s->step == 0 ? 2 * capacity : capacity + s->step;
}

static inline void launch_append(unsigned *vector, size_t used, const struct grow_sizes *s)
{
    const unsigned threads = 256;
    size_t words = s->chunk / sizeof(unsigned);

    append<<<(unsigned)((words + threads - 1) / threads), threads>>>(
        vector, used / sizeof(unsigned), words);
    CHECK(cudaGetLastError());
}

/* Copies the vector to the CPU chunk by chunk, compares every word and gives the checksum. */
static inline int grow_verify(const unsigned *vector, const struct grow_sizes *s,
                              uint64_t *checksum_out)
{
    unsigned *words = (unsigned *)host_alloc(s->chunk);
    size_t count = s->chunk / sizeof(unsigned);
    int same = 1;

    *checksum_out = FNV_START;
    for (size_t first = 0; first < s->full / sizeof(unsigned); first += count) {
        CHECK(cudaMemcpy(words, vector + first, s->chunk, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; i++)
            same &= words[i] == (unsigned)(first + i) * 2654435761u;
        *checksum_out = fnv1a(*checksum_out, words, s->chunk);
    }
    free(words);
    return same;
}

#endif
