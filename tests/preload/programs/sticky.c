/* SPDX-License-Identifier: MIT */
/*
 * A kernel fails, and its error stays: prints what each call returns then, as the first one after
 * the failure, in a process of its own, and as one of many after the error was reported.
 */
#include <sys/wait.h>

#include "program.h"

#define SIZE ((size_t)3 << 20)

static CUcontext context;
static CUstream stream;
static CUdeviceptr block, other, small, large, pooled, result;
static char *filled, *plain, *pages; /* Of malloc: copied to `block`, not copied, registered. */
static void *pinned, *requested;
static char little[64];
static size_t pitch, size;
static unsigned flags;
static unsigned long long rights;
static int value;
static CUfunction bad;
static CUipcMemHandle ipc;
static CUmemGenericAllocationHandle handle;
static const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

#if CUDA_VERSION >= 13000
#define ADVISE(at) cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, here)
#define PREFETCH(at) cuMemPrefetchAsync(at, SIZE, here, 0, stream)
#else
#define ADVISE(at) cuMemAdvise(at, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0)
#define PREFETCH(at) cuMemPrefetchAsync(at, SIZE, 0, stream)
#endif

/* Frees come last: what they free is used before. */
#define CALLS(X)                                                                                   \
    X(cuMemAlloc(&result, SIZE))                                                                   \
    X(cuMemAlloc(&result, 1000))                                                                   \
    X(cuMemAlloc(&result, 0))                                                                      \
    X(cuMemAllocPitch(&result, &pitch, (size_t)1 << 20, 4, 4))                                     \
    X(cuMemAllocManaged(&result, SIZE, CU_MEM_ATTACH_GLOBAL))                                      \
    X(cuMemAllocAsync(&result, SIZE, stream))                                                      \
    X(cuMemHostAlloc(&requested, SIZE, 0))                                                         \
    X(cuMemAllocHost(&requested, SIZE))                                                            \
    X(cuMemHostRegister(plain, SIZE, 0))                                                           \
    X(cuMemHostRegister(filled, SIZE, 0))                                                          \
    X(cuMemHostRegister(pinned, SIZE, 0))                                                          \
    X(cuMemcpyHtoD(block, filled, SIZE))                                                           \
    X(cuMemcpyHtoDAsync(block, filled, SIZE, stream))                                              \
    X(cuMemcpyDtoH(filled, block, SIZE))                                                           \
    X(cuMemcpyDtoHAsync(filled, block, SIZE, stream))                                              \
    X(cuMemcpyHtoD(other, plain, SIZE))                                                            \
    X(cuMemcpyHtoDAsync(other, little, sizeof(little), stream))                                    \
    X(cuMemcpyHtoDAsync(other, pinned, SIZE, stream))                                              \
    X(cuMemcpyDtoH(little, other, sizeof(little)))                                                 \
    X(cuMemcpyDtoH(little, other, 0))                                                              \
    X(cuMemcpyDtoD(other, block, 100))                                                             \
    X(cuMemcpyDtoDAsync(other, block, 100, stream))                                                \
    X(cuMemcpyDtoD(large, small, SIZE))                                                            \
    X(cuMemcpyDtoDAsync(large, small, SIZE, NULL))                                                 \
    X(cuMemcpy(other, block, SIZE))                                                                \
    X(cuMemcpyPeer(other, context, block, context, SIZE))                                          \
    X(cuMemcpyHtoD(other + SIZE - 1, plain, 2))                                                    \
    X(cuMemcpyDtoDAsync(other + 1, block, SIZE, stream))                                           \
    X(cuMemsetD8(other, 1, SIZE))                                                                  \
    X(cuMemsetD8Async(other, 1, SIZE, stream))                                                     \
    X(cuMemsetD8(other, 1, SIZE + 1))                                                              \
    X(PREFETCH(other))                                                                             \
    X(ADVISE(other))                                                                               \
    X(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, other, SIZE))          \
    X(cuStreamAttachMemAsync(stream, other, 0, CU_MEM_ATTACH_SINGLE))                              \
    X(cuMemGetAddressRange(&result, &size, other))                                                 \
    X(cuMemHostGetDevicePointer(&result, pinned, 0))                                               \
    X(cuMemHostGetDevicePointer(&result, (void *)other, 0))                                        \
    X(cuMemHostGetFlags(&flags, pinned))                                                           \
    X(cuMemHostGetFlags(&flags, (void *)other))                                                    \
    X(cuMemGetInfo(&size, &pitch))                                                                 \
    X(cuMemGetAccess(&rights, &here, other))                                                       \
    X(cuMemRetainAllocationHandle(&handle, (void *)other))                                         \
    X(cuIpcGetMemHandle(&ipc, other))                                                              \
    X(cuStreamSynchronize(stream))                                                                 \
    X(cuMemHostUnregister(pages))                                                                  \
    X(cuMemHostUnregister(plain))                                                                  \
    X(cuMemHostUnregister(pinned))                                                                 \
    X(cuMemHostUnregister((void *)other))                                                          \
    X(cuMemFreeHost((void *)other))                                                                \
    X(cuMemFreeHost(pinned))                                                                       \
    X(cuMemFree(other + 1))                                                                        \
    X(cuMemFree(small))                                                                            \
    X(cuMemFree(large))                                                                            \
    X(cuMemFree(block))                                                                            \
    X(cuMemFree(other))                                                                            \
    X(cuMemFreeAsync(pooled, stream))

static const char *const names[] = {
#define X(call) #call,
    CALLS(X)
#undef X
};
#define COUNT ((int)(sizeof(names) / sizeof(names[0])))

static CUresult make(int which)
{
    int i = 0;
#define X(call)                                                                                    \
    if (which == i++)                                                                              \
        return call;
    CALLS(X)
#undef X
    return CUDA_ERROR_UNKNOWN;
}

static int bad_grid(void *const *args, const struct sim_launch *launch)
{
    (void)args;
    (void)launch;
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void prepare(void)
{
    static const size_t sizes[] = {sizeof(CUdeviceptr)};
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    bad = load_kernel("bad", bad_grid, 1, sizes);
    filled = malloc(SIZE);
    plain = malloc(SIZE);
    pages = aligned_alloc(4096, SIZE);
    memset(filled, 1, SIZE);
    memset(plain, 2, SIZE);
    memset(pages, 3, SIZE);
    CHECK(cuMemHostRegister(pages, SIZE, 0));
    CHECK(cuMemHostAlloc(&pinned, SIZE, 0));
    CHECK(cuMemAlloc(&block, SIZE));
    CHECK(cuMemAlloc(&other, SIZE));
    CHECK(cuMemAlloc(&small, SIZE));
    CHECK(cuMemcpyHtoD(block, filled, SIZE));
    CHECK(cuMemcpyHtoD(other, pages, SIZE));
    CHECK(cuMemcpyHtoD(small, pages, SIZE));
    CHECK(cuMemAlloc(&large, 2 * SIZE));
    CHECK(cuMemAllocAsync(&pooled, SIZE, stream));
    CHECK(cuMemAlloc(&result, SIZE)); /* Memory for the next request. */
    CHECK(cuMemFree(result));
    CHECK(cuStreamSynchronize(stream));
}

static void fail(void)
{
    void *args[] = {&block};
    CHECK(cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    wait_for_error();
}

/* Nothing of the driver's runs in this process, so that its children may use it. */
int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int first = 0; first < COUNT; first++) {
        pid_t child = fork();
        int status;
        EXPECT(child >= 0);
        if (child == 0) {
            prepare();
            fail();
            printf("first %s: %d\n", names[first], (int)make(first));
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    prepare();
    fail();
    printf("reported: %d\n", (int)cuCtxSynchronize());
    for (int i = 0; i < COUNT; i++)
        printf("then %s: %d\n", names[i], (int)make(i));
    return 0;
}
