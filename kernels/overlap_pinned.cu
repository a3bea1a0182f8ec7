/* SPDX-License-Identifier: MIT */
/*
 * overlap_pinned [elements [chunks]]: overlap with page-locked host memory, so that copies in,
 * kernels and copies out of different streams overlap.
 */
#include "overlap.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct overlap o = overlap_arguments(argc, argv, &report);
    unsigned *from, *to;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    CHECK(cudaMallocHost(&from, o.bytes));
    CHECK(cudaMallocHost(&to, o.bytes));
    overlap_open(&o);
    phase_end(&report, "alloc");

    overlap_fill(from, &o);
    phase_end(&report, "fill");

    overlap_run(&o, from, to);
    phase_end(&report, "pipeline");

    int verified = overlap_verify(to, &o);
    uint64_t checksum = fnv1a(FNV_START, to, o.bytes);

    phase_begin(&report);
    overlap_close(&o);
    CHECK(cudaFreeHost(from));
    CHECK(cudaFreeHost(to));
    phase_end(&report, "free");
    return report_print(&report, "overlap_pinned", checksum, verified);
}
