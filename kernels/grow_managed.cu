/* SPDX-License-Identifier: MIT */
/*
 * grow_managed [chunks [chunk_bytes [step_chunks]]]: grow with managed memory of the full length
 * from the start, whose pages come when the kernel first writes them; the step plays no part.
 */
#include "grow.h"
#include "managed.cuh"

int main(int argc, char **argv)
{
    struct report report = {};
    struct grow_sizes s = grow_arguments(argc, argv, &report);
    uint64_t checksum;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *vector = (unsigned *)managed_alloc(s.full);
    for (size_t used = 0; used < s.full; used += s.chunk)
        launch_append(vector, used, &s);
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "grow");

    int verified = grow_verify(vector, &s, &checksum);

    phase_begin(&report);
    CHECK(cudaFree(vector));
    phase_end(&report, "free");
    return report_print(&report, "grow_managed", checksum, verified);
}
