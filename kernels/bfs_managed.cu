/* SPDX-License-Identifier: MIT */
/*
 * bfs_managed [scale [edges_a_vertex [seed]]]: bfs with its graph in managed memory, whose pages
 * move to the GPU when a kernel first touches them.
 */
#include "managed.cuh"
#include "bfs.h"

int main(int argc, char **argv)
{
    struct report report = {};
    static struct rmat g;
    unsigned *device_levels, *device_found;

    at_most_arguments(argc, argv, 3, "[scale [edges_a_vertex [seed]]]");
    rmat_arguments(&g, argc, argv, 1, &report);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *offsets = (unsigned *)managed_alloc(rmat_offset_bytes(&g));
    unsigned *columns = (unsigned *)managed_alloc(rmat_column_bytes(&g));
    unsigned *levels = (unsigned *)host_alloc(g.vertices * sizeof(unsigned));
    CHECK(cudaMalloc(&device_levels, g.vertices * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_found, sizeof(unsigned)));
    phase_end(&report, "alloc");

    rmat_fill(&g, offsets, columns);
    unsigned root = rmat_hub(&g, offsets);
    phase_end(&report, "fill");

    unsigned count = bfs_search(&g, offsets, columns, device_levels, root, device_found);
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(levels, device_levels, g.vertices * sizeof(unsigned), cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    report_size(&report, "levels", count);
    int verified = bfs_verify(&g, offsets, columns, levels, root, &report);
    uint64_t checksum = fnv1a(FNV_START, levels, g.vertices * sizeof(unsigned));

    phase_begin(&report);
    CHECK(cudaFree(device_levels));
    CHECK(cudaFree(device_found));
    CHECK(cudaFree(offsets));
    CHECK(cudaFree(columns));
    free(levels);
    phase_end(&report, "free");
    return report_print(&report, "bfs_managed", checksum, verified);
}
