/* SPDX-License-Identifier: MIT */
/*
 * pagerank [scale [edges_a_vertex [seed [iterations]]]]: ranks the pages of a generated graph.
 * The graph is copied to the GPU first and read whole in each iteration.
 */
#include "pagerank.h"

int main(int argc, char **argv)
{
    struct report report = {};
    static struct rmat g;
    unsigned *device_offsets, *device_columns, *device_links;
    float *device_ranks, *device_given;
    size_t iterations = pagerank_arguments(&g, argc, argv, &report);
    size_t vertex_bytes = g.vertices * sizeof(unsigned);

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *offsets = (unsigned *)host_alloc(rmat_offset_bytes(&g));
    unsigned *columns = (unsigned *)host_alloc(rmat_column_bytes(&g));
    CHECK(cudaMalloc(&device_offsets, rmat_offset_bytes(&g)));
    CHECK(cudaMalloc(&device_columns, rmat_column_bytes(&g)));
    unsigned *links = (unsigned *)host_alloc(vertex_bytes);
    float *ranks = (float *)host_alloc(vertex_bytes);
    CHECK(cudaMalloc(&device_links, vertex_bytes));
    CHECK(cudaMalloc(&device_ranks, vertex_bytes));
    CHECK(cudaMalloc(&device_given, vertex_bytes));
    phase_end(&report, "alloc");

    rmat_fill(&g, offsets, columns);
    count_links(&g, columns, links);
    pagerank_start(&g, ranks);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_offsets, offsets, rmat_offset_bytes(&g), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_columns, columns, rmat_column_bytes(&g), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_links, links, vertex_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_ranks, ranks, vertex_bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    pagerank_iterate(&g, device_offsets, device_columns, device_links, device_ranks, device_given,
                     iterations);
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(ranks, device_ranks, vertex_bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = pagerank_verify(&g, offsets, columns, links, ranks, iterations);
    uint64_t checksum = fnv1a(FNV_START, ranks, vertex_bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_offsets));
    CHECK(cudaFree(device_columns));
    free(offsets);
    free(columns);
    CHECK(cudaFree(device_links));
    CHECK(cudaFree(device_ranks));
    CHECK(cudaFree(device_given));
    free(links);
    free(ranks);
    phase_end(&report, "free");
    return report_print(&report, "pagerank", checksum, verified);
}
