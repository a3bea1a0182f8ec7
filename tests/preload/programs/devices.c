/* Two devices: a copy that goes through a stream of the other device waits for that stream. */
#include "program.h"

#define BYTES 4096

static void other_device_stream(void)
{
    static char host[BYTES], seen[BYTES];
    CUdeviceptr block;
    CUstream far;
    struct gate gate;
    start_gpu(1);
    CHECK(cuStreamCreate(&far, 0));
    start_gpu(0);
    CHECK(cuMemHostRegister(host, BYTES, 0));
    CHECK(cuMemAlloc(&block, BYTES));
    CHECK(cuMemsetD8(block, 1, BYTES));

    gate_close(&gate, far);
    memset(host, 9, BYTES);
    CHECK(cuMemcpyHtoDAsync(block, host, BYTES, far));
    CHECK(cuMemcpyDtoH(seen, block, BYTES));
    EXPECT(all_are(seen, 1, BYTES)); /* The copy stands behind the gate. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(far));
    CHECK(cuMemcpyDtoH(seen, block, BYTES));
    EXPECT(all_are(seen, 9, BYTES));
    CHECK(cuMemHostUnregister(host));
    CHECK(cuMemFree(block));
    CHECK(cuStreamDestroy(far));
}

static void freed_in_other_device_stream(void)
{
    CUdeviceptr block, next;
    CUstream far;
    struct gate gate;
    start_gpu(1);
    CHECK(cuStreamCreate(&far, 0));
    start_gpu(0);
    CHECK(cuMemAllocAsync(&block, BYTES, NULL));
    CHECK(cuMemsetD8(block, 1, BYTES));
    CHECK(cuCtxSynchronize()); /* A set of device memory need not have run when the call returns. */

    gate_close(&gate, far);
    CHECK(cuMemFreeAsync(block, far));
    CHECK(cuMemAllocAsync(&next, BYTES, NULL));
    EXPECT(next != block); /* The freed block is still in use by the other stream. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(far));
    CHECK(cuMemFreeAsync(next, NULL));
    CHECK(cuStreamSynchronize(NULL));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"copy", other_device_stream},
                                          {"free", freed_in_other_device_stream}};
    return RUN_SCENARIO(all, argc, argv);
}
