/* SPDX-License-Identifier: MIT */
/*
 * gather [rows [row_bytes [percent [seed]]]]: reads a few rows of a big table, as an embedding
 * lookup does.  The whole table is copied to the GPU although the kernel reads only `percent` of
 * its rows.
 */
#include "common.cuh"
#include "gather.cuh"
#include "gather.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct gather_sizes s = gather_arguments(argc, argv, &report);
    unsigned *device_table, *device_picks, *device_out;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *table = (unsigned *)host_alloc(s.table_bytes);
    unsigned *picks = (unsigned *)host_alloc(s.count * sizeof(unsigned));
    unsigned *out = (unsigned *)host_alloc(s.out_bytes);
    CHECK(cudaMalloc(&device_table, s.table_bytes));
    CHECK(cudaMalloc(&device_picks, s.count * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_out, s.out_bytes));
    phase_end(&report, "alloc");

    fill_table(table, &s);
    pick_rows(picks, &s);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_table, table, s.table_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_picks, picks, s.count * sizeof(unsigned), cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    gather<<<(unsigned)s.count, 128>>>(device_table, device_picks, device_out, (unsigned)s.words);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(out, device_out, s.out_bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify_rows(out, picks, &s);
    uint64_t checksum = fnv1a(FNV_START, out, s.out_bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_table));
    CHECK(cudaFree(device_picks));
    CHECK(cudaFree(device_out));
    free(table);
    free(picks);
    free(out);
    phase_end(&report, "free");
    return report_print(&report, "gather", checksum, verified);
}
