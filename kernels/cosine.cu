/* SPDX-License-Identifier: MIT */
/*
 * cosine [targets [queries [dimensions [batches]]]]: finds the most similar of many target
 * vectors for each of a batch of queries.  The targets are copied to the GPU once and only read
 * there.
 */
#include "cosine.h"

int main(int argc, char **argv)
{
    struct report report = {};
    float *device_targets, *device_queries;
    unsigned long long *device_best;

    at_most_arguments(argc, argv, 4, "[targets [queries [dimensions [batches]]]]");
    struct cosine_sizes s = cosine_arguments(argc, argv, &report);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    float *targets = (float *)host_alloc(s.target_bytes);
    float *queries = (float *)host_alloc(s.query_bytes);
    unsigned long long *best = (unsigned long long *)host_alloc(s.best_bytes);
    CHECK(cudaMalloc(&device_targets, s.target_bytes));
    CHECK(cudaMalloc(&device_queries, s.query_bytes));
    CHECK(cudaMalloc(&device_best, s.best_bytes));
    phase_end(&report, "alloc");

    fill_vectors(targets, s.targets * s.dimensions, 1);
    fill_vectors(queries, s.queries * s.dimensions, 2);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_targets, targets, s.target_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_queries, queries, s.query_bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    cosine_ask(&s, device_queries, device_targets, device_best);
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(best, device_best, s.best_bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = cosine_verify(&s, queries, targets, best);
    uint64_t checksum = fnv1a(FNV_START, best, s.best_bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_targets));
    CHECK(cudaFree(device_queries));
    CHECK(cudaFree(device_best));
    free(targets);
    free(queries);
    free(best);
    phase_end(&report, "free");
    return report_print(&report, "cosine", checksum, verified);
}
