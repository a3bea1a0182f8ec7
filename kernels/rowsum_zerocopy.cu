/* SPDX-License-Identifier: MIT */
/*
 * rowsum_zerocopy [rows [row_bytes [percent [seed]]]]: rowsum as an expert writes it for a table of
 * which little is read: the table is pinned host memory that the kernel reads over the link.
 */
#include "common.cuh"
#include "gather.h"
#include "rowsum.cuh"

int main(int argc, char **argv)
{
    struct report report = {};
    struct gather_sizes s = gather_arguments(argc, argv, &report);
    unsigned *table, *device_table, *device_picks, *device_sums;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    CHECK(cudaHostAlloc(&table, s.table_bytes, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device_table, table, 0));
    unsigned *picks = (unsigned *)host_alloc(s.count * sizeof(unsigned));
    unsigned *sums = (unsigned *)host_alloc(s.count * sizeof(unsigned));
    CHECK(cudaMalloc(&device_picks, s.count * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_sums, s.count * sizeof(unsigned)));
    phase_end(&report, "alloc");

    fill_table(table, &s);
    pick_rows(picks, &s);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_picks, picks, s.count * sizeof(unsigned), cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    row_sums<<<(unsigned)s.count, ROWSUM_THREADS>>>(device_table, device_picks, device_sums,
                                                    (unsigned)s.words);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(sums, device_sums, s.count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify_sums(sums, picks, &s);
    uint64_t checksum = fnv1a(FNV_START, sums, s.count * sizeof(unsigned));

    phase_begin(&report);
    CHECK(cudaFree(device_picks));
    CHECK(cudaFree(device_sums));
    CHECK(cudaFreeHost(table));
    free(picks);
    free(sums);
    phase_end(&report, "free");
    return report_print(&report, "rowsum_zerocopy", checksum, verified);
}
