/* SPDX-License-Identifier: MIT */
/* Small copies again and again, of blocks that come and go. */
#include "program.h"

enum { TIMES = 20 };

static char host[4096];

static void copies(CUdeviceptr d, size_t bytes)
{
    for (int i = 0; i < TIMES; i++) {
        CHECK(cuMemcpyHtoD(d, host, bytes));
        CHECK(cuMemsetD8(d, 1, bytes));
        CHECK(cuMemcpyDtoH(host + 2048, d, bytes));
        CHECK(cuMemcpyDtoD(d, d + 2048, bytes));
    }
}

#define REQUEST(name)                                                                              \
    __attribute__((noinline)) static CUdeviceptr name(void)                                        \
    {                                                                                              \
        CUdeviceptr d = 0;                                                                         \
        CHECK(cuMemAlloc(&d, 4096));                                                               \
        return d;                                                                                  \
    }
REQUEST(first)
REQUEST(second)
REQUEST(third)

/* The second one comes to the addresses that the first one had; the third is beside it. */
int main(void)
{
    start_gpu(0);
    CUdeviceptr a = first();
    copies(a, 16);
    CHECK(cuMemFree(a));
    CUdeviceptr b = second();
    EXPECT(a == b);
    copies(b, 32);
    CUdeviceptr c = third();
    copies(b, 32);
    copies(c, 64);
    CHECK(cuMemFree(c));
    copies(b, 32);
    EXPECT(cuMemcpyHtoD(a + 4096, host, 8) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(b));
    EXPECT(cuMemcpyHtoD(a, host, 16) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}
