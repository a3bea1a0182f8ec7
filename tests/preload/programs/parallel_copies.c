/* SPDX-License-Identifier: MIT */
/* Copies of memory that no malloc gave, of many sizes, to the device and back: parallel_copies
 * THREADS.  Each thread says of each size whether every byte came back and none beside them
 * changed. */
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "host_scene.h"

#define SIZES 12
#define MARGIN ((size_t)4096) /* Bytes on both sides of what is copied. */

/* Both sides of the smallest size, of a part's and of twice a part's; more than the ring holds. */
static const size_t sizes[SIZES] = {MIB,         4 * MIB - 1,  4 * MIB,     4 * MIB + 1,
                                    8 * MIB - 1, 8 * MIB,      8 * MIB + 1, 12 * MIB + 4097,
                                    16 * MIB,    16 * MIB + 1, 67 * MIB,    141 * MIB + 7};

static uint64_t word(size_t i, uint64_t seed)
{
    return (i + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill(unsigned char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = word(i, seed);
        memcpy(p + i, &w, n - i < 8 ? n - i : 8);
    }
}

static bool has(const unsigned char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = word(i, seed);
        if (memcmp(p + i, &w, n - i < 8 ? n - i : 8) != 0)
            return false;
    }
    return true;
}

static bool all(const unsigned char *p, size_t n, unsigned char value)
{
    return p[0] == value && memcmp(p, p + 1, n - 1) == 0;
}

static bool there_and_back(unsigned char *host, CUdeviceptr memory, size_t n, uint64_t seed)
{
    unsigned char *p = host + MARGIN + 3;
    fill(p, n, seed);
    CHECK(cuMemcpyHtoD_v2, memory, p, n);
    memset(host, 0xa5, n + 2 * MARGIN);
    CHECK(cuMemcpyDtoH_v2, p, memory, n);
    return has(p, n, seed) && all(host, MARGIN + 3, 0xa5) && all(p + n, MARGIN - 3, 0xa5);
}

static void *copies(void *arg)
{
    uintptr_t thread = (uintptr_t)arg;
    size_t most = sizes[SIZES - 1];
    CUdeviceptr memory;
    void *host =
        mmap(NULL, most + 2 * MARGIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(cuCtxSetCurrent, context);
    CHECK(cuMemAlloc_v2, &memory, most);
    for (int i = 0; i < SIZES; i++)
        if (!there_and_back(host, memory, sizes[i], thread * SIZES + (unsigned)i))
            printf("thread %zu: %zu bytes differ\n", (size_t)thread, sizes[i]);
    CHECK(cuMemFree_v2, memory);
    munmap(host, most + 2 * MARGIN);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MOST = 8 };
    pthread_t threads[MOST];
    int count = argc > 1 ? atoi(argv[1]) : 1;
    start();
    for (int i = 0; i < count && i < MOST; i++)
        pthread_create(&threads[i], NULL, copies, (void *)(uintptr_t)i);
    for (int i = 0; i < count && i < MOST; i++)
        pthread_join(threads[i], NULL);
    printf("done\n");
    fprintf(stderr, "parts %u\n",
            cu.sim_calls ? (unsigned)cu.sim_calls("cuMemcpyHtoDAsync_v2") : 0);
    return 0;
}
