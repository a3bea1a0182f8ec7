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

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"larger", larger}, {"many", many}};
    return RUN_SCENARIO(all, argc, argv);
}
