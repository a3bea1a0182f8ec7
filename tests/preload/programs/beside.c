/* A program that names addresses just before and behind its blocks, which are nobody's: beside
 * SCENE.  It prints what the calls give; the tests compare that with and without libzc. */
#include "program.h"

#define MIB ((size_t)1 << 20)

static char host[64];

/* All kinds of calls that begin at `at`, which is `offset` bytes from its block. */
static void ask(CUdeviceptr d, CUdeviceptr at, long offset)
{
    CUdeviceptr base;
    size_t size;
    unsigned type;
    int yes = 1;
    CUpointer_attribute types[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void *data[] = {&type};
    printf("at %ld\n", offset);
    SHOW(cuMemsetD8(at, 1, 8));
    SHOW(cuMemsetD32Async(at & ~3ull, 1, 2, NULL));
    SHOW(cuMemsetD2D8(at, 16, 1, 4, 2));
    SHOW(cuMemcpyHtoD(at, host, 8));
    SHOW(cuMemcpyHtoDAsync(at, host, 8, NULL));
    SHOW(cuMemcpyDtoH(host, at, 8));
    SHOW(cuMemcpyDtoHAsync(host, at, 8, NULL));
    SHOW(cuMemcpyDtoD(at, d, 8));
    SHOW(cuMemcpyDtoD(d, at, 8));
    SHOW(cuMemcpyDtoDAsync(d, at, 8, NULL));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = at,
                          .srcPitch = 16,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = 16,
                          .WidthInBytes = 8,
                          .Height = 2};
    SHOW(cuMemcpy2D(&rows));
    SHOW(cuMemGetAddressRange(&base, &size, at));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SHOW(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    SHOW(cuPointerGetAttributes(1, types, data, at));
    printf("type %u\n", type);
    SHOW(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SHOW(cuMemHostGetFlags(&type, (void *)at));
    SHOW(cuMemFree(at));
    SHOW(cuMemFreeHost((void *)at));
    SHOW(cuCtxSynchronize());
}

/* Not all the way through another block's memory: such addresses may be that one's. */
static void around(CUdeviceptr d, size_t size, bool before)
{
    static const long behind[] = {0, 1, 4096, 64 << 10};
    printf("%zu bytes\n", size);
    SHOW(cuMemsetD8(d + size - 1, 1, 1));
    SHOW(cuMemsetD8(d + size - 1, 1, 2));
    for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
        ask(d, d + size + (CUdeviceptr)behind[i], behind[i]);
    if (before) {
        ask(d, d - 1, -1);
        ask(d, d - 4096, -4096);
    }
    SHOW(cuMemcpyDtoH(host, d, 8));
}

/* A block alone, before and after all of it was used. */
static void device(void)
{
    static const size_t sizes[] = {3 * MIB + 512, 5 * MIB + 1, 7 * MIB - 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CUdeviceptr d;
        CHECK(cuMemAlloc(&d, sizes[i]));
        around(d, sizes[i], true);
        CHECK(cuMemsetD8(d, 1, sizes[i]));
        around(d, sizes[i], true);
        CHECK(cuMemFree(d));
        printf("freed\n");
        ask(0, d, 0);
        ask(0, d + 4096, 4096);
    }
}

/* A block that is paired with a host block of its size. */
static void paired(void)
{
    size_t size = 5 * MIB + 512;
    char *h = malloc(size);
    CUdeviceptr d;
    memset(h, 3, size);
    CHECK(cuMemAlloc(&d, size));
    CHECK(cuMemcpyHtoD(d, h, size));
    around(d, size, true);
    EXPECT(all_are(h, 3, size));
    CHECK(cuMemFree(d));
    free(h);
}

static void pool(void)
{
    size_t size = 5 * MIB + 512;
    CUdeviceptr d;
    CHECK(cuMemAllocAsync(&d, size, NULL));
    around(d, size, true);
    CHECK(cuMemFreeAsync(d, NULL));
    CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"device", device}, {"paired", paired}, {"pool", pool}};
    start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    end_gpu(0);
    return status;
}
