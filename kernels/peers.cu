/* SPDX-License-Identifier: MIT */
/*
 * peers [elements]: two GPUs.  A kernel on the second reads and writes vectors of the first, and
 * vectors go back and forth by peer copies, synchronous and on a stream.  Exits with 77 where there
 * are fewer than two GPUs, or they can't reach each other.
 */
#include "common.cuh"
#include "peers.cuh"

#define EXIT_SKIPPED 77

static float *vector_on(int device, size_t bytes)
{
    float *v;

    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&v, bytes));
    return v;
}

/* Skips the program where the machine can't run it. */
static void need_two_gpus(void)
{
    int devices, can = 0;

    CHECK(cudaGetDeviceCount(&devices));
    if (devices >= 2)
        CHECK(cudaDeviceCanAccessPeer(&can, 1, 0));
    if (!can) {
        fprintf(stderr, "peers: needs two GPUs that reach each other\n");
        exit(EXIT_SKIPPED);
    }
}

int main(int argc, char **argv)
{
    const unsigned threads = 256;
    struct report report = {};
    cudaStream_t stream;

    at_most_arguments(argc, argv, 1, "[elements]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 18, 1, (size_t)1 << 30);
    size_t bytes = n * sizeof(float);
    report_size(&report, "elements", n);
    need_two_gpus();

    float *host = (float *)host_alloc(bytes);
    for (size_t i = 0; i < n; i++)
        host[i] = (float)(i % 1000);
    float *first = vector_on(0, bytes), *first_out = vector_on(0, bytes);
    float *second = vector_on(1, bytes), *second_copy = vector_on(1, bytes);
    CHECK(cudaMemcpy(first, host, bytes, cudaMemcpyHostToDevice));

    double start = now_ms();
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaStreamCreate(&stream));
    scale_from_peer<<<(unsigned)((n + threads - 1) / threads), threads, 0, stream>>>(first, second,
                                                                                     first_out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyPeerAsync(second_copy, 1, first_out, 0, bytes, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpyPeer(first, 0, second, 1, bytes));
    CHECK(cudaMemcpy(first_out, second_copy, bytes, cudaMemcpyDefault));
    report_ms(&report, "peers", now_ms() - start);

    int verified = 1;
    uint64_t checksum = FNV_START;
    CHECK(cudaMemcpy(host, first, bytes, cudaMemcpyDeviceToHost));
    checksum = fnv1a(checksum, host, bytes);
    for (size_t i = 0; i < n; i++)
        verified &= host[i] == 2.0f * (float)(i % 1000);
    CHECK(cudaMemcpy(host, first_out, bytes, cudaMemcpyDeviceToHost));
    checksum = fnv1a(checksum, host, bytes);
    for (size_t i = 0; i < n; i++)
        verified &= host[i] == (float)(i % 1000) + 1.0f;

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaDeviceDisablePeerAccess(0));
    CHECK(cudaFree(second));
    CHECK(cudaFree(second_copy));
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(first));
    CHECK(cudaFree(first_out));
    free(host);
    return report_print(&report, "peers", checksum, verified);
}
