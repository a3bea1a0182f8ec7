/* requests [-a] [-f] MIB...: asks for device blocks of so many MiB each, in stream order with -a,
 * writes and reads each, prints the code of each request, and frees them at the end, with -f each
 * at once. */
#include "program.h"

#define BLOCKS_MAX 32

static CUstream stream;
static bool async, at_once;

static CUresult request(CUdeviceptr *block, size_t bytes)
{
    return async ? cuMemAllocAsync(block, bytes, stream) : cuMemAlloc(block, bytes);
}

static void give_back(CUdeviceptr block)
{
    CHECK(async ? cuMemFreeAsync(block, stream) : cuMemFree(block));
    CHECK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    static char host[4096];
    CUdeviceptr blocks[BLOCKS_MAX];
    int count = 0;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 1; i < argc && count < BLOCKS_MAX; i++) {
        size_t bytes = (size_t)(atof(argv[i]) * 1024 * 1024);
        async |= !strcmp(argv[i], "-a");
        at_once |= !strcmp(argv[i], "-f");
        if (argv[i][0] == '-')
            continue;
        CUresult result = request(&blocks[count], bytes);
        printf("%d\n", (int)result);
        if (result != CUDA_SUCCESS)
            continue;
        fill(blocks[count], i, bytes, stream);
        CHECK(cuMemcpyDtoHAsync(host, blocks[count] + bytes - sizeof(host), sizeof(host), stream));
        EXPECT(all_are(host, i, sizeof(host)));
        if (at_once)
            give_back(blocks[count]);
        else
            count++;
    }
    while (count)
        give_back(blocks[--count]);
    end_gpu(0);
    return 0;
}
