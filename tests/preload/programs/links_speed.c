/* SPDX-License-Identifier: MIT */
/*
 * Times copies between pinned memory and the first GPU, which may go over the links of others:
 *
 *   links_speed WARM_GIB MIB...
 *
 * Copies so many GiB before anything is timed, because `links = idle` takes peers only then.
 * Prints lines "NAME_MIB VALUE" for each size: GB/s of one copy at a time, to the GPU and from it,
 * and of eight queued.  Exits with 1 where the bytes that came back are not those that went.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define QUEUED 8

#define DRIVER(X)                                                                                  \
    COMMON_CALLS(X)                                                                                \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemcpyHtoDAsync_v2)                                                                        \
    X(cuMemcpyDtoHAsync_v2)                                                                        \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)

#include "speed.h"

static CUdeviceptr device;
static char *from, *to;
static CUstream stream;

/* Milliseconds of so many copies, queued. */
static double copies(bool in, size_t bytes, int count)
{
    double start = now();
    for (int i = 0; i < count; i++)
        if (in)
            CHECK(cuMemcpyHtoDAsync_v2, device, from, bytes, stream);
        else
            CHECK(cuMemcpyDtoHAsync_v2, to, device, bytes, stream);
    CHECK(cuStreamSynchronize, stream);
    return now() - start;
}

static void measure(const char *name, bool in, size_t bytes, int count)
{
    double ms[9];
    int rounds = bytes * (size_t)count > 2048 * MIB ? 3 : 9;
    for (int i = 0; i < rounds; i++)
        ms[i] = copies(in, bytes, count);
    printf("%s_%zu %.2f\n", name, bytes / MIB,
           (double)bytes * count / 1e6 / median(ms, (size_t)rounds));
}

int main(int argc, char **argv)
{
    size_t most = 0, warm = argc > 1 ? strtoul(argv[1], NULL, 10) * 1024 * MIB : 0;
    for (int i = 2; i < argc; i++)
        most = strtoul(argv[i], NULL, 10) * MIB > most ? strtoul(argv[i], NULL, 10) * MIB : most;
    if (!most) {
        fprintf(stderr, "links_speed WARM_GIB MIB...\n");
        return 2;
    }
    start_driver();
    CHECK(cuMemAlloc_v2, &device, most);
    CHECK(cuMemHostAlloc, (void **)&from, most, 0);
    CHECK(cuMemHostAlloc, (void **)&to, most, 0);
    for (size_t i = 0; i < most / 8; i++)
        ((uint64_t *)from)[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    memset(to, 0, most);
    printf("first_%zu %.2f\n", most / MIB, (double)most / 1e6 / copies(true, most, 1));
    for (size_t done = 0; done < warm; done += most)
        copies(true, most, 1);
    for (int i = 2; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10) * MIB;
        measure("to", true, bytes, 1);
        measure("from", false, bytes, 1);
        if (bytes > 1024 * MIB)
            continue;
        measure("to_queued", true, bytes, QUEUED);
        measure("from_queued", false, bytes, QUEUED);
    }
    copies(false, most, 1);
    return memcmp(from, to, most) != 0;
}
