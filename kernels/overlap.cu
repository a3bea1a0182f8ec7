/* SPDX-License-Identifier: MIT */
/*
 * overlap [elements [chunks]]: chunks of malloc'd memory on several streams, with asynchronous
 * copies that cannot be asynchronous, as the memory is pageable.
 */
#include "overlap.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct overlap o = overlap_arguments(argc, argv, &report);
    unsigned *from, *to;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    from = (unsigned *)host_alloc(o.bytes);
    to = (unsigned *)host_alloc(o.bytes);
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
    free(from);
    free(to);
    phase_end(&report, "free");
    return report_print(&report, "overlap", checksum, verified);
}
