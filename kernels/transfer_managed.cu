/* SPDX-License-Identifier: MIT */
/*
 * transfer_managed [bytes [repeats]]: transfer with one managed buffer, prefetched to the GPU and
 * back instead of copied.
 */
#include "managed.cuh"
#include "transfer.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct transfer_sizes s = transfer_arguments(argc, argv, &report);

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *words = (unsigned *)managed_alloc(s.bytes);
    phase_end(&report, "alloc");

    fill_words(words, s.words);
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.repeats; i++) {
        prefetch_to(SIDE_GPU, words, s.bytes);
        launch_add_one(words, s.words);
        prefetch_to(SIDE_CPU, words, s.bytes);
        CHECK(cudaDeviceSynchronize());
    }
    phase_end(&report, "transfer");

    int verified = verify_words(words, &s);
    uint64_t checksum = fnv1a(FNV_START, words, s.bytes);

    phase_begin(&report);
    CHECK(cudaFree(words));
    phase_end(&report, "free");
    return report_print(&report, "transfer_managed", checksum, verified);
}
