/* SPDX-License-Identifier: MIT */
/* both [bytes [stride]]: two GPUs read one table, of which each gets a copy. */
#include "both.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct both_sizes s = both_arguments(argc, argv, &report);
    unsigned *tables[GPUS];

    for (int d = GPUS - 1; d >= 0; d--) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */
    }

    phase_begin(&report);
    unsigned *table = (unsigned *)host_alloc(s.bytes);
    for (int d = 0; d < GPUS; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMalloc(&tables[d], s.bytes));
    }
    phase_end(&report, "alloc");

    fill_words(table, s.words);
    phase_end(&report, "fill");

    for (int d = 0; d < GPUS; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemcpy(tables[d], table, s.bytes, cudaMemcpyHostToDevice));
    }
    phase_end(&report, "copy");

    unsigned sum = both_add(tables, &s);
    phase_end(&report, "kernel");

    int verified = sum == expected_sum(&s);
    phase_begin(&report);
    for (int d = 0; d < GPUS; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaFree(tables[d]));
    }
    free(table);
    phase_end(&report, "free");
    return report_print(&report, "both", fnv1a(FNV_START, &sum, sizeof(sum)), verified);
}
