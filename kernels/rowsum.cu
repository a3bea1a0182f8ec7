/* SPDX-License-Identifier: MIT */
/*
 * rowsum [rows [row_bytes [percent [seed]]]]: adds up the words of a few rows of a big table, as
 * a pooled embedding lookup does: gather with a small result.
 */
#include "common.cuh"
#include "gather.h"
#include "rowsum.cuh"

int main(int argc, char **argv)
{
    struct report report = {};
    struct gather_sizes s = gather_arguments(argc, argv, &report);
    unsigned *device_table, *device_picks, *device_sums;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *table = (unsigned *)host_alloc(s.table_bytes);
    unsigned *picks = (unsigned *)host_alloc(s.count * sizeof(unsigned));
    unsigned *sums = (unsigned *)host_alloc(s.count * sizeof(unsigned));
    CHECK(cudaMalloc(&device_table, s.table_bytes));
    CHECK(cudaMalloc(&device_picks, s.count * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_sums, s.count * sizeof(unsigned)));
    phase_end(&report, "alloc");

    fill_table(table, &s);
    pick_rows(picks, &s);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_table, table, s.table_bytes, cudaMemcpyHostToDevice));
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
    CHECK(cudaFree(device_table));
    CHECK(cudaFree(device_picks));
    CHECK(cudaFree(device_sums));
    free(table);
    free(picks);
    free(sums);
    phase_end(&report, "free");
    return report_print(&report, "rowsum", checksum, verified);
}
