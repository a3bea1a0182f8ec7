/* SPDX-License-Identifier: MIT */
/* train: what a training does to the link, for the pictures of the documentation: weights are
 * copied in once, batches from one buffer again and again, results come back asynchronously. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS ((size_t)96 << 20)
#define BATCH ((size_t)8 << 20)
#define OUTPUT ((size_t)2 << 20)
#define BATCHES 18
#define EPOCH 12       /* Batches before a second model is needed. */
#define KERNEL_US 9000 /* Length of an imagined kernel. */

static void check(CUresult result)
{
    if (result != CUDA_SUCCESS)
        exit(1);
}

static CUdeviceptr load_weights(void)
{
    char *host = malloc(WEIGHTS);
    CUdeviceptr weights;

    if (host == NULL)
        exit(1);
    memset(host, 1, WEIGHTS);
    check(cuMemAlloc(&weights, WEIGHTS));
    check(cuMemcpyHtoD(weights, host, WEIGHTS));
    free(host);
    return weights;
}

static CUdeviceptr make_batch_buffer(void)
{
    CUdeviceptr batch;

    check(cuMemAlloc(&batch, BATCH));
    return batch;
}

static void *make_output(void)
{
    void *output;

    check(cuMemHostAlloc(&output, OUTPUT, 0));
    return output;
}

int main(void)
{
    CUdeviceptr weights, batch, second = 0;
    char *input = malloc(BATCH);
    CUcontext context;
    CUstream stream;
    void *output;

    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxSetCurrent(context));
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    weights = load_weights();
    batch = make_batch_buffer();
    output = make_output();
    for (int i = 0; i < BATCHES; i++) {
        memset(input, i, BATCH);
        if (i == EPOCH)
            check(cuMemAlloc(&second, WEIGHTS / 2));
        check(cuMemcpyHtoD(batch, input, BATCH));
        usleep(KERNEL_US);
        check(cuMemcpyDtoHAsync(output, weights, OUTPUT, stream));
    }
    check(cuStreamSynchronize(stream));
    check(cuMemFree(second));
    check(cuMemFree(batch));
    check(cuMemFree(weights));
    check(cuMemFreeHost(output));
    free(input);
    return 0;
}
