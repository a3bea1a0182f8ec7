/* SPDX-License-Identifier: MIT */
/* Requests of more memory than the device or a limit has. */
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (12 * MIB)

static unsigned char out[BLOCK];

/* A block that is larger than the device. */
static void larger(void)
{
    CUdeviceptr p;
    start_gpu(0);
    CUresult result = cuMemAlloc(&p, BLOCK);
    printf("allocated %d\n", (int)result);
    if (result == CUDA_SUCCESS) {
        fill(p, 9, BLOCK, NULL);
        CHECK(cuMemcpyDtoH(out, p, BLOCK));
        EXPECT(all_are(out, 9, BLOCK));
        CHECK(cuMemFree(p));
    }
    end_gpu(0);
}

/* Blocks that together are larger than the device, none of which is used before all are there. */
static void many(void)
{
    enum { MANY = 12 };
    CUdeviceptr p[MANY];
    start_gpu(0);
    for (int i = 0; i < MANY; i++)
        CHECK(cuMemAlloc(&p[i], 3 * MIB + 1000 + (i % 3 ? 0 : 4 * MIB)));
    for (int i = 0; i < MANY; i++)
        fill(p[i], i, 3 * MIB + 1000, NULL);
    for (int i = 0; i < MANY; i++) {
        CHECK(cuMemcpyDtoH(out, p[i], 3 * MIB + 1000));
        EXPECT(all_are(out, i, 3 * MIB + 1000));
        CHECK(cuMemFree(p[i]));
    }
    end_gpu(0);
}

static size_t show_free(const char *when)
{
    size_t available, total, alone;
    CHECK(cuMemGetInfo(&available, &total));
    CHECK(cuMemGetInfo(NULL, &alone));
    EXPECT(alone == total);
    printf("%s: %zu MiB free, %zu in use\n", when, available >> 20, (total - available) >> 20);
    return available;
}

/* A program that takes all memory that it is told of, in one block. */
static void sized(void)
{
    CUdeviceptr p;
    unsigned char ends[2];
    start_gpu(0);
    size_t n = show_free("at first");
    CHECK(cuMemAlloc(&p, n));
    show_free("with a block of that");
    fill(p, 7, n, NULL);
    CHECK(cuMemcpyDtoH(&ends[0], p, 1));
    CHECK(cuMemcpyDtoH(&ends[1], p + n - 1, 1));
    EXPECT(ends[0] == 7 && ends[1] == 7);
    CHECK(cuMemFree(p));
    show_free("without it");
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"larger", larger}, {"sized", sized}, {"many", many}};
    return RUN_SCENARIO(all, argc, argv);
}
