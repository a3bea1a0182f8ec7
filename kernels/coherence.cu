/* SPDX-License-Identifier: MIT */
/*
 * coherence [elements [rounds]]: what mapped host memory guarantees between CPU and GPU.
 *   counter    kernels and CPU add to one counter in turn; at the same time where the device
 *              says that its atomic operations reach the CPU's (hostNativeAtomicSupported)
 *   handshake  CPU and a kernel that runs on pass a flag to and fro and change the same words
 *   output     the CPU fills a write-combined buffer that a kernel reads, and reads what it wrote
 */
#include "coherence.cuh"
#include "common.cuh"

#define WORDS 64u

/* Mapped host memory; *device_out is its address for kernels. */
static unsigned *mapped_words(size_t count, unsigned flags, unsigned **device_out)
{
    unsigned *p;

    CHECK(cudaHostAlloc(&p, count * sizeof(unsigned), cudaHostAllocMapped | flags));
    CHECK(cudaHostGetDevicePointer(device_out, p, 0));
    return p;
}

static int counter(size_t rounds, unsigned *total_out)
{
    const unsigned blocks = 8, threads = 64, each = 4;
    unsigned *device, *words = mapped_words(1, 0, &device), expected = 0;
    int native;

    CHECK(cudaDeviceGetAttribute(&native, cudaDevAttrHostNativeAtomicSupported, 0));
    *words = 0;
    for (size_t r = 0; r < rounds; r++) {
        count_up<<<blocks, threads>>>(device, each);
        CHECK(cudaGetLastError());
        if (!native)
            CHECK(cudaDeviceSynchronize());
        for (unsigned i = 0; i < 1000; i++)
            __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
        CHECK(cudaDeviceSynchronize());
        expected += blocks * threads * each + 1000;
    }
    *total_out = *words;
    CHECK(cudaFreeHost(words));
    return *total_out == expected;
}

static int handshake(size_t rounds, unsigned *sum_out)
{
    unsigned *device, *words = mapped_words(WORDS + 1, 0, &device);
    unsigned *turn = words + WORDS;
    int same = 1;

    memset(words, 0, (WORDS + 1) * sizeof(unsigned));
    answer<<<1, 1>>>(device + WORDS, device, WORDS, (unsigned)rounds);
    CHECK(cudaGetLastError());
    for (size_t r = 0; r < rounds; r++) {
        for (unsigned i = 0; i < WORDS; i++)
            words[i] += i;
        __atomic_store_n(turn, (unsigned)(2 * r + 1), __ATOMIC_SEQ_CST);
        while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) != 2 * r + 2) {
        }
        for (unsigned i = 0; i < WORDS; i++)
            same &= words[i] == (r + 1) * (i + 1);
    }
    CHECK(cudaDeviceSynchronize());
    *sum_out = words[WORDS - 1];
    CHECK(cudaFreeHost(words));
    return same;
}

static int output(size_t n, uint64_t *checksum_out)
{
    const unsigned threads = 256;
    unsigned *device_in, *device_out;
    unsigned *in = mapped_words(n, cudaHostAllocWriteCombined, &device_in);
    unsigned *out = mapped_words(n, 0, &device_out);
    int same = 1;

    for (size_t i = 0; i < n; i++)
        in[i] = (unsigned)i * 2654435761u;
    write_out<<<(unsigned)((n + threads - 1) / threads), threads>>>(device_out, device_in, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < n; i++)
        same &= out[i] == ((unsigned)i * 2654435761u ^ 0x5a5a5a5au);
    *checksum_out = fnv1a(*checksum_out, out, n * sizeof(unsigned));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
    return same;
}

int main(int argc, char **argv)
{
    struct report report = {};
    unsigned total, sum;

    at_most_arguments(argc, argv, 2, "[elements [rounds]]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 16, 1, (size_t)1 << 30);
    size_t rounds = size_argument(argc, argv, 2, "rounds", 20, 1, 1000000);
    report_size(&report, "elements", n);
    report_size(&report, "rounds", rounds);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    int verified = counter(rounds, &total);
    phase_end(&report, "counter");
    verified &= handshake(rounds, &sum);
    phase_end(&report, "handshake");
    uint64_t checksum = fnv1a(fnv1a(FNV_START, &total, sizeof(total)), &sum, sizeof(sum));
    verified &= output(n, &checksum);
    phase_end(&report, "output");
    return report_print(&report, "coherence", checksum, verified);
}
