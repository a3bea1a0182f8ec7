/* SPDX-License-Identifier: MIT */
/*
 * stencil [width [height [steps]]]: a five-point stencil over a plane of whole numbers, from one
 * buffer to the other and back, step after step.  The plane is read and written in every step, so
 * it is worth its place on the GPU.
 */
#include "common.cuh"
#include "parallel.h"
#include "stencil.cuh"

static void fill_plane(unsigned *plane, size_t words)
{
    for (size_t i = 0; i < words; i++)
        plane[i] = (unsigned)i * 2654435761u;
}

/* One step of the CPU over the inner cells of the plane. */
struct step {
    const unsigned *from;
    unsigned *to;
    size_t width, words;
};

static void step_cells(void *job, size_t begin, size_t end)
{
    const struct step *s = (const struct step *)job;
    size_t width = s->width;

    for (size_t i = begin; i < end; i++) {
        int inner = i >= width && i + width < s->words && i % width != 0 && i % width != width - 1;
        s->to[i] = s->from[i];
        if (inner)
            s->to[i] += s->from[i - 1] + s->from[i + 1] + s->from[i - width] + s->from[i + width];
    }
}

/* All steps of the CPU over a copy of the start; unsigned sums wrap alike on both sides. */
static int verify(const unsigned *result, size_t width, size_t height, size_t steps)
{
    size_t words = width * height;
    unsigned *from = (unsigned *)host_alloc(words * sizeof(unsigned));
    unsigned *to = (unsigned *)host_alloc(words * sizeof(unsigned));

    fill_plane(from, words);
    for (size_t i = 0; i < steps; i++) {
        struct step s = {from, to, width, words};
        parallel(words, step_cells, &s);
        unsigned *last = from;
        from = to;
        to = last;
    }
    int same = memcmp(from, result, words * sizeof(unsigned)) == 0;
    free(from);
    free(to);
    return same;
}

int main(int argc, char **argv)
{
    struct report report = {};
    unsigned *from, *to;

    at_most_arguments(argc, argv, 3, "[width [height [steps]]]");
    size_t width = size_argument(argc, argv, 1, "width", 256, 1, 1 << 20);
    size_t height = size_argument(argc, argv, 2, "height", 128, 1, 1 << 20);
    size_t steps = size_argument(argc, argv, 3, "steps", 10, 1, 100000);
    size_t words = width * height, bytes = words * sizeof(unsigned);
    report_size(&report, "width", width);
    report_size(&report, "height", height);
    report_size(&report, "steps", steps);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *plane = (unsigned *)host_alloc(bytes);
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMalloc(&to, bytes));
    phase_end(&report, "alloc");

    fill_plane(plane, words);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(from, plane, bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    dim3 threads(32, 8), blocks((unsigned)(width + 31) / 32, (unsigned)(height + 7) / 8);
    for (size_t s = 0; s < steps; s++) {
        stencil<<<blocks, threads>>>(from, to, (unsigned)width, (unsigned)height);
        unsigned *last = from;
        from = to;
        to = last;
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(plane, from, bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify(plane, width, height, steps);
    uint64_t checksum = fnv1a(FNV_START, plane, bytes);

    phase_begin(&report);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    free(plane);
    phase_end(&report, "free");
    return report_print(&report, "stencil", checksum, verified);
}
