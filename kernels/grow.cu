/* SPDX-License-Identifier: MIT */
/*
 * grow [chunks [chunk_bytes [step_chunks]]]: a vector that grows on the GPU as std::vector does:
 * a larger block is allocated, the old one copied into it and freed.
 */
#include "grow.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct grow_sizes s = grow_arguments(argc, argv, &report);
    unsigned *vector, *larger;
    size_t capacity = s.chunk;
    uint64_t checksum;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    CHECK(cudaMalloc(&vector, capacity));
    for (size_t used = 0; used < s.full; used += s.chunk) {
        if (used + s.chunk > capacity) {
            capacity = next_capacity(&s, capacity);
            CHECK(cudaMalloc(&larger, capacity));
            CHECK(cudaMemcpy(larger, vector, used, cudaMemcpyDeviceToDevice));
            CHECK(cudaFree(vector));
            vector = larger;
        }
        launch_append(vector, used, &s);
    }
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "grow");

    int verified = grow_verify(vector, &s, &checksum);
    report_size(&report, "capacity_bytes", capacity);

    phase_begin(&report);
    CHECK(cudaFree(vector));
    phase_end(&report, "free");
    return report_print(&report, "grow", checksum, verified);
}
