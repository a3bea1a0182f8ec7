/* SPDX-License-Identifier: MIT */
/*
 * transfer_pinned [bytes [repeats]]: transfer with pinned host memory, for fast copies.
 */
#include "transfer.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct transfer_sizes s = transfer_arguments(argc, argv, &report);
    unsigned *words, *device_words;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    CHECK(cudaMallocHost(&words, s.bytes));
    CHECK(cudaMalloc(&device_words, s.bytes));
    phase_end(&report, "alloc");

    fill_words(words, s.words);
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.repeats; i++) {
        CHECK(cudaMemcpy(device_words, words, s.bytes, cudaMemcpyHostToDevice));
        launch_add_one(device_words, s.words);
        CHECK(cudaMemcpy(words, device_words, s.bytes, cudaMemcpyDeviceToHost));
    }
    phase_end(&report, "transfer");

    int verified = verify_words(words, &s);
    uint64_t checksum = fnv1a(FNV_START, words, s.bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_words));
    CHECK(cudaFreeHost(words));
    phase_end(&report, "free");
    return report_print(&report, "transfer_pinned", checksum, verified);
}
