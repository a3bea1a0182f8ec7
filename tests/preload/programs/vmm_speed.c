/* SPDX-License-Identifier: MIT */
/* Times what mapping by hand is for, one measurement a run, through the driver API:
 * vmm_speed WHAT [MIB].  Prints lines "NAME VALUE"; milliseconds, microseconds or MiB.  Exits with
 * 77 where there is no GPU, and with 1 if a byte is wrong. */
#include <stdbool.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define FIRST (2 * MIB)
#define TOUCH ((size_t)4096) /* Bytes written at the end of each growth, so that it is real. */
#define STEPS_MAX 64

#define DRIVER(X)                                                                                  \
    COMMON_CALLS(X)                                                                                \
    X(cuCtxSynchronize)                                                                            \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemFree_v2)                                                                                \
    X(cuMemGetInfo_v2)                                                                             \
    X(cuMemsetD8_v2)                                                                               \
    X(cuMemcpyDtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemMap)                                                                                    \
    X(cuMemSetAccess)                                                                              \
    X(cuMemUnmap)                                                                                  \
    X(cuMemRelease)

#include "speed.h"

static size_t bytes;

/* Writes the step's number at the end of a size, which must be found there at the last. */
static void mark(CUdeviceptr array, size_t end, int step)
{
    CHECK(cuMemsetD8_v2, array + end - TOUCH, (unsigned char)step, TOUCH);
}

static void verify(CUdeviceptr array, const size_t *ends, int steps)
{
    static unsigned char host[TOUCH];
    for (int i = 0; i < steps; i++) {
        CHECK(cuMemcpyDtoH_v2, host, array + ends[i] - TOUCH, TOUCH);
        if (host[0] != i + 1 || memcmp(host, host + 1, TOUCH - 1) != 0) {
            fprintf(stderr, "wrong bytes before %zu\n", ends[i]);
            exit(1);
        }
    }
}

/* Milliseconds in which a program doubles an array to `bytes` as programs do: allocate, copy, free.
 * The second time shows what a program sees that did so before. */
static void doubling(void)
{
    start_driver();
    for (int round = 0; round < 2; round++) {
        size_t ends[STEPS_MAX], size = FIRST;
        CUdeviceptr array, more;
        int steps = 1;
        CHECK(cuCtxSynchronize);
        double t = now();
        CHECK(cuMemAlloc_v2, &array, size);
        mark(array, ends[0] = size, 1);
        while (size < bytes) {
            CHECK(cuMemAlloc_v2, &more, 2 * size);
            CHECK(cuMemcpyDtoD_v2, more, array, size);
            CHECK(cuMemFree_v2, array);
            array = more;
            size *= 2;
            ends[steps++] = size;
            mark(array, size, steps);
        }
        CHECK(cuCtxSynchronize);
        printf("%s %.3f\n", round ? "again" : "first", now() - t);
        verify(array, ends, steps);
        CHECK(cuMemFree_v2, array);
    }
}

/* The same by hand, as an expert writes it: addresses reserved for the largest size, memory created
 * and mapped for what each step adds. */
static void map_by_hand(bool open)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    if (open) {
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        prop.allocFlags.gpuDirectRDMACapable = 1;
    }
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    start_driver();
    for (int round = 0; round < 2; round++) {
        CUmemGenericAllocationHandle handles[STEPS_MAX];
        size_t ends[STEPS_MAX], size = 0;
        CUdeviceptr array;
        int steps = 0;
        CHECK(cuCtxSynchronize);
        double t = now();
        CHECK(cuMemAddressReserve, &array, bytes, 0, 0, 0);
        while (size < bytes) {
            size_t more = size ? size : FIRST;
            CHECK(cuMemCreate, &handles[steps], more, &prop, 0);
            CHECK(cuMemMap, array + size, more, 0, handles[steps], 0);
            CHECK(cuMemSetAccess, array + size, more, &access, 1);
            size += more;
            ends[steps++] = size;
            mark(array, size, steps);
        }
        CHECK(cuCtxSynchronize);
        printf("%s %.3f\n", round ? "again" : "first", now() - t);
        verify(array, ends, steps);
        CHECK(cuMemUnmap, array, bytes);
        for (int i = 0; i < steps; i++)
            CHECK(cuMemRelease, handles[i]);
        CHECK(cuMemAddressFree, array, bytes);
    }
}

static void by_hand(void)
{
    map_by_hand(false);
}

/* Memory that other devices of the bus reach, as they do cudaMalloc's, and that can be exported. */
static void by_hand_open(void)
{
    map_by_hand(true);
}

/* Largest size in MiB that an array reaches, growing by a 32nd of what was free each time, and what
 * was free. */
static void reach(void)
{
    size_t available, total, ends[STEPS_MAX];
    CUdeviceptr array, more;
    int steps = 1;
    start_driver();
    CHECK(cuMemGetInfo_v2, &available, &total);
    size_t step = available / 32 / FIRST * FIRST, size = step;
    CHECK(cuMemAlloc_v2, &array, size);
    mark(array, ends[0] = size, 1);
    while (steps < STEPS_MAX && cu.cuMemAlloc_v2(&more, size + step) == CUDA_SUCCESS) {
        CHECK(cuMemcpyDtoD_v2, more, array, size);
        CHECK(cuMemFree_v2, array);
        array = more;
        size += step;
        ends[steps++] = size;
        mark(array, size, steps);
    }
    verify(array, ends, steps);
    printf("reached %zu\nfree %zu\n", size / MIB, available / MIB);
}

/* Median microseconds of an allocation with its free, after some of the same size. */
static void churn(void)
{
    enum { WARM = 5, REPEATS = 50 };
    double us[REPEATS], alloc[REPEATS];
    CUdeviceptr block;
    start_driver();
    for (int i = -WARM; i < REPEATS; i++) {
        double t = now();
        CHECK(cuMemAlloc_v2, &block, bytes);
        double made = now();
        CHECK(cuMemFree_v2, block);
        if (i >= 0) {
            us[i] = (now() - t) * 1e3;
            alloc[i] = (made - t) * 1e3;
        }
    }
    printf("pair %.2f\nallocate %.2f\n", median(us, REPEATS), median(alloc, REPEATS));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"doubling", doubling}, {"by_hand", by_hand}, {"by_hand_open", by_hand_open},
        {"reach", reach},       {"churn", churn},
    };
    bytes = MIB * (argc > 2 ? strtoul(argv[2], NULL, 10) : 64);
    for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
        if (!strcmp(argv[1], all[i].name)) {
            all[i].run();
            return 0;
        }
    fprintf(stderr, "usage: vmm_speed doubling|by_hand|by_hand_open|reach|churn [MIB]\n");
    return 2;
}
