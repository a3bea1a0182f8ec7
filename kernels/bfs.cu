/* SPDX-License-Identifier: MIT */
/*
 * bfs [scale [edges_a_vertex [seed]]]: breadth-first search of a generated graph, level by level,
 * from its vertex with the most neighbours.  The whole graph is copied to the GPU first.
 * `23 16` makes a list of neighbours of 512 MiB.
 */
#include "bfs.h"

int main(int argc, char **argv)
{
    struct report report = {};
    static struct rmat g;
    unsigned *device_offsets, *device_columns, *device_levels, *device_found;

    at_most_arguments(argc, argv, 3, "[scale [edges_a_vertex [seed]]]");
    rmat_arguments(&g, argc, argv, 1, &report);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *offsets = (unsigned *)host_alloc(rmat_offset_bytes(&g));
    unsigned *columns = (unsigned *)host_alloc(rmat_column_bytes(&g));
    unsigned *levels = (unsigned *)host_alloc(g.vertices * sizeof(unsigned));
    CHECK(cudaMalloc(&device_offsets, rmat_offset_bytes(&g)));
    CHECK(cudaMalloc(&device_columns, rmat_column_bytes(&g)));
    CHECK(cudaMalloc(&device_levels, g.vertices * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_found, sizeof(unsigned)));
    phase_end(&report, "alloc");

    rmat_fill(&g, offsets, columns);
    unsigned root = rmat_hub(&g, offsets);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_offsets, offsets, rmat_offset_bytes(&g), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_columns, columns, rmat_column_bytes(&g), cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    unsigned count =
        bfs_search(&g, device_offsets, device_columns, device_levels, root, device_found);
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(levels, device_levels, g.vertices * sizeof(unsigned), cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    report_size(&report, "levels", count);
    int verified = bfs_verify(&g, offsets, columns, levels, root, &report);
    uint64_t checksum = fnv1a(FNV_START, levels, g.vertices * sizeof(unsigned));

    phase_begin(&report);
    CHECK(cudaFree(device_offsets));
    CHECK(cudaFree(device_columns));
    CHECK(cudaFree(device_levels));
    CHECK(cudaFree(device_found));
    free(offsets);
    free(columns);
    free(levels);
    phase_end(&report, "free");
    return report_print(&report, "bfs", checksum, verified);
}
