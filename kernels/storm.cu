/* SPDX-License-Identifier: MIT */
/*
 * storm [copies [bytes]]: many small copies to the GPU, each to its own slot of a ring, and all
 * of the ring back at the end.
 */
#include "common.cuh"

#define SLOTS 64

static int verify(const unsigned char *ring, size_t copies, size_t bytes)
{
    for (size_t slot = 0; slot < SLOTS && slot < copies; slot++) {
        /* The last copy that went to this slot. */
        size_t last = (copies - 1 - slot) / SLOTS * SLOTS + slot;
        for (size_t i = 0; i < bytes; i++) {
            if (ring[slot * bytes + i] != (unsigned char)(last * 31 + i))
                return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct report report = {};
    unsigned char *device_ring;

    at_most_arguments(argc, argv, 2, "[copies [bytes]]");
    size_t copies = size_argument(argc, argv, 1, "copies", 10000, 1, (size_t)1 << 30);
    size_t bytes = size_argument(argc, argv, 2, "bytes", 64, 1, 1 << 20);
    report_size(&report, "copies", copies);
    report_size(&report, "bytes", bytes);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned char *ring = (unsigned char *)host_alloc(SLOTS * bytes);
    unsigned char *piece = (unsigned char *)host_alloc(bytes);
    CHECK(cudaMalloc(&device_ring, SLOTS * bytes));
    CHECK(cudaMemset(device_ring, 0, SLOTS * bytes));
    phase_end(&report, "alloc");

    for (size_t c = 0; c < copies; c++) {
        /* The last copy to each slot is what the ring holds in the end. */
        if (c + SLOTS >= copies) {
            for (size_t i = 0; i < bytes; i++)
                piece[i] = (unsigned char)(c * 31 + i);
        }
        CHECK(cudaMemcpy(device_ring + c % SLOTS * bytes, piece, bytes, cudaMemcpyHostToDevice));
    }
    phase_end(&report, "copy");

    CHECK(cudaMemcpy(ring, device_ring, SLOTS * bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify(ring, copies, bytes);
    uint64_t checksum = fnv1a(FNV_START, ring, SLOTS * bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_ring));
    free(piece);
    free(ring);
    phase_end(&report, "free");
    return report_print(&report, "storm", checksum, verified);
}
