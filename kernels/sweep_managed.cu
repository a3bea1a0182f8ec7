/* SPDX-License-Identifier: MIT */
/*
 * sweep_managed [blocks [MiB [blocks that fit [sweeps [touches]]]]]: sweep with managed memory that
 * is prefetched: no more than what fits is on the GPU at once, the next block comes while a kernel
 * runs, and the oldest one goes.  All of it must fit into the GPU that runs this.
 */
#include "managed.cuh"
#include "sweep.h"

static void send(enum side side, uint4 *block, size_t bytes, cudaStream_t stream)
{
#if CUDART_VERSION >= 13000
    CHECK(cudaMemPrefetchAsync(block, bytes, location_of(side), 0, stream));
#else
    CHECK(cudaMemPrefetchAsync(block, bytes, location_of(side), stream));
#endif
}

int main(int argc, char **argv)
{
    struct report report = {};
    const struct sweep s = sweep_arguments(argc, argv, &report);
    uint4 *block[SWEEP_MOST];
    cudaStream_t in, out;
    cudaEvent_t came[SWEEP_MOST], used[SWEEP_MOST], gone[SWEEP_MOST];
    size_t available, total, all = s.blocks * s.sweeps;
    uint64_t checksum = FNV_START;
    int verified = 1;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */
    CHECK(cudaMemGetInfo(&available, &total));
    if (s.blocks * s.bytes > available / 2) {
        fprintf(stderr, "sweep_managed: the blocks must fit into half of the GPU's free memory\n");
        return EXIT_USAGE;
    }

    phase_begin(&report);
    CHECK(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
    for (size_t b = 0; b < s.blocks; b++) {
        block[b] = (uint4 *)managed_alloc(s.bytes);
        CHECK(cudaEventCreateWithFlags(&came[b], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&used[b], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&gone[b], cudaEventDisableTiming));
    }
    phase_end(&report, "alloc");

    for (size_t b = 0; b < s.blocks; b++)
        sweep_fill(block[b], b, &s);
    phase_end(&report, "fill");

    for (size_t n = 0, ahead = 0; n < all; n++) {
        for (; ahead < all && ahead < n + s.fit - 1; ahead++) {
            size_t b = ahead % s.blocks;
            /* It must have gone, and left room, before it comes again. */
            if (ahead >= s.fit)
                CHECK(cudaStreamWaitEvent(in, gone[(ahead - s.fit) % s.blocks], 0));
            send(SIDE_GPU, block[b], s.bytes, in);
            CHECK(cudaEventRecord(came[b], in));
        }
        size_t b = n % s.blocks;
        CHECK(cudaStreamWaitEvent(0, came[b], 0));
        sweep_launch(block[b], &s, 0);
        CHECK(cudaEventRecord(used[b], 0));
        CHECK(cudaStreamWaitEvent(out, used[b], 0));
        if (s.blocks > s.fit)
            send(SIDE_CPU, block[b], s.bytes, out);
        CHECK(cudaEventRecord(gone[b], out));
    }
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    for (size_t b = 0; b < s.blocks; b++) {
        verified = verified && sweep_verify(block[b], b, &s);
        checksum = fnv1a(checksum, block[b], s.bytes);
    }

    phase_begin(&report);
    for (size_t b = 0; b < s.blocks; b++) {
        CHECK(cudaFree(block[b]));
        CHECK(cudaEventDestroy(came[b]));
        CHECK(cudaEventDestroy(used[b]));
        CHECK(cudaEventDestroy(gone[b]));
    }
    CHECK(cudaStreamDestroy(in));
    CHECK(cudaStreamDestroy(out));
    phase_end(&report, "free");
    return report_print(&report, "sweep_managed", checksum, verified);
}
