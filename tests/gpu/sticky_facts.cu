/* SPDX-License-Identifier: MIT */
/*
 * Asks hardware what is left of a context in which a kernel has failed: which calls report the
 * error, before and after one of them did, and what takes it away.  Then which context the runtime
 * takes for a thread that has one of its own, or whose device was reset.  Prints one line a fact,
 * so that the simulated GPU can be compared with a real one.
 *
 *   sticky_facts      ends with status 77 where no GPU answers
 */
#include "facts.cuh"

#include <cuda.h>

#define SAY(call) say_driver(#call, call)

/* Objects that exist when the kernel fails. */
static CUdeviceptr block, spare_block, pooled, managed, reserved, mapped, result_at;
static CUdevice device;
static CUcontext context, other;
static CUstream stream;
static CUevent event;
static CUmemoryPool pool;
static CUmemGenericAllocationHandle memory, result_handle;
static void *host, *spare_host, *result_host;
static char *pages, *more_pages;
static CUmemAllocationProp properties;
static CUmemAccessDesc rights;
static size_t a_size, b_size;
static unsigned long long value;
static unsigned flags;
static int number;
static char buffer[4096];
static CUmemLocation here;

static void say_driver(const char *fact, CUresult result)
{
    say(fact, (cudaError_t)result);
}

static char *anonymous(void)
{
    return (char *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void prepare(void)
{
    cuDeviceGet(&device, 0);
    cuCtxGetCurrent(&context);
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = here;
    rights.location = here;
    rights.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cuMemAlloc(&block, PAGE);
    cuMemAlloc(&spare_block, PAGE);
    cuMemAllocManaged(&managed, PAGE, CU_MEM_ATTACH_GLOBAL);
    cuMemHostAlloc(&host, PAGE, 0);
    cuMemHostAlloc(&spare_host, PAGE, 0);
    pages = anonymous();
    more_pages = anonymous();
    cuMemHostRegister(pages, PAGE, 0);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&event, CU_EVENT_DEFAULT);
    cuEventRecord(event, stream);
    cuDeviceGetDefaultMemPool(&pool, device);
    cuMemAllocAsync(&pooled, PAGE, stream);
    cuMemAddressReserve(&reserved, 4 * PAGE, 0, 0, 0);
    mapped = reserved + 2 * PAGE;
    cuMemCreate(&memory, PAGE, &properties, 0);
    cuMemMap(mapped, PAGE, 0, memory, 0);
    cuMemSetAccess(mapped, PAGE, &rights, 1);
    say_driver("prepared", cuCtxSynchronize());
}

/* A write to an address that nothing is at. */
static void fail(void)
{
    store_number<<<1, 1>>>((int *)16, 1);
}

static void failed(void)
{
    prepare();
    fail();
    say("the kernel", cudaDeviceSynchronize());
}

static void queries(void)
{
    failed();
    SAY(cuCtxGetCurrent(&other));
    SAY(cuCtxGetDevice(&device));
    SAY(cuCtxGetFlags(&flags));
    SAY(cuCtxGetApiVersion(context, &flags));
    SAY(cuCtxGetId(context, &value));
    SAY(cuCtxGetLimit(&a_size, CU_LIMIT_STACK_SIZE));
    SAY(cuCtxGetStreamPriorityRange(&number, &number));
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &number));
    SAY(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    SAY(cuDeviceTotalMem(&a_size, device));
    SAY(cuMemGetInfo(&a_size, &b_size));
    SAY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    SAY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
    SAY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_SIZE, mapped));
    SAY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pages));
    SAY(cuMemGetAddressRange(&result_at, &a_size, block));
    SAY(cuMemHostGetFlags(&flags, host));
    SAY(cuMemHostGetDevicePointer(&result_at, host, 0));
    SAY(cuMemGetAllocationGranularity(&a_size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    SAY(cuMemGetAccess(&value, &here, mapped));
    SAY(cuMemGetAllocationPropertiesFromHandle(&properties, memory));
    SAY(cuMemRangeGetAttribute(&number, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, PAGE));
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    SAY(cuDeviceGetDefaultMemPool(&pool, device));
    SAY(cuStreamQuery(stream));
    SAY(cuStreamGetFlags(stream, &flags));
    SAY(cuStreamGetId(stream, &value));
    SAY(cuStreamGetCtx(stream, &other));
    SAY(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)&number));
    SAY(cuEventQuery(event));
    say("cudaPeekAtLastError", cudaPeekAtLastError());
    say("cudaGetLastError", cudaGetLastError());
    say("cudaGetLastError again", cudaGetLastError());
    say("cudaMalloc", cudaMalloc(&result_host, PAGE));
    say("cudaMemGetInfo", cudaMemGetInfo(&a_size, &b_size));
    say("cudaStreamQuery", cudaStreamQuery(stream));
    say("cudaSetDevice", cudaSetDevice(0));
    say("cudaFree of nothing", cudaFree(NULL));
}

static void requests(void)
{
    CUdeviceptr pitched;

    failed();
    SAY(cuMemAlloc(&result_at, PAGE));
    SAY(cuMemAlloc(&result_at, 0));
    SAY(cuMemAllocPitch(&pitched, &a_size, 100, 100, 4));
    SAY(cuMemAllocManaged(&result_at, PAGE, CU_MEM_ATTACH_GLOBAL));
    SAY(cuMemAllocAsync(&result_at, PAGE, stream));
    SAY(cuMemHostAlloc(&result_host, PAGE, 0));
    SAY(cuMemHostAlloc(&result_host, 0, 0));
    SAY(cuMemHostRegister(more_pages, PAGE, 0));
    SAY(cuMemHostRegister(pages, PAGE, 0));
    SAY(cuMemAddressReserve(&result_at, PAGE, 0, 0, 0));
    SAY(cuMemCreate(&result_handle, PAGE, &properties, 0));
    SAY(cuMemMap(reserved, PAGE, 0, memory, 0));
    SAY(cuMemSetAccess(reserved, PAGE, &rights, 1));
    SAY(cuMemSetAccess(mapped, PAGE, &rights, 1));
    SAY(cuMemExportToShareableHandle(&number, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemRetainAllocationHandle(&result_handle, (void *)mapped));
    SAY(cuMemcpyHtoD(block, buffer, sizeof(buffer)));
    SAY(cuMemcpyDtoH(buffer, block, sizeof(buffer)));
    SAY(cuMemcpyDtoH(buffer, block, 0));
    SAY(cuMemcpyHtoDAsync(block, host, PAGE, stream));
    SAY(cuMemsetD8(block, 1, PAGE));
    SAY(cuMemsetD8Async(block, 1, PAGE, stream));
    SAY(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    SAY(cuEventCreate(&event, CU_EVENT_DEFAULT));
    SAY(cuEventRecord(event, stream));
    SAY(cuEventSynchronize(event));
    SAY(cuStreamSynchronize(stream));
    SAY(cuCtxSynchronize());
    store_number<<<1, 1>>>((int *)block, 1);
    say("a launch", cudaGetLastError());
}

static void frees(void)
{
    failed();
    SAY(cuMemUnmap(mapped, PAGE));
    SAY(cuMemRelease(memory));
    SAY(cuMemAddressFree(reserved, 4 * PAGE));
    SAY(cuMemHostUnregister(pages));
    SAY(cuMemHostUnregister(more_pages));
    SAY(cuMemFreeHost(host));
    SAY(cuMemFreeHost(host));
    SAY(cuMemFreeAsync(pooled, stream));
    SAY(cuMemFree(managed));
    SAY(cuMemFree(block));
    SAY(cuMemFree(block));
    SAY(cuMemFree(0));
    SAY(cuEventDestroy(event));
    SAY(cuStreamDestroy(stream));
}

static void no_context(void)
{
    failed();
    SAY(cuCtxSetCurrent(NULL));
    SAY(cuMemAlloc(&result_at, PAGE));
    SAY(cuMemAddressReserve(&result_at, PAGE, 0, 0, 0));
    SAY(cuMemCreate(&result_handle, PAGE, &properties, 0));
    SAY(cuMemMap(reserved, PAGE, 0, memory, 0));
    SAY(cuMemSetAccess(reserved, PAGE, &rights, 1));
    SAY(cuMemHostUnregister(pages));
    SAY(cuMemFreeHost(host));
    SAY(cuMemFree(block));
    SAY(cuCtxSetCurrent(context));
}

/* The kernel has failed, and no call was made that could have reported it. */
#define FIRST(name, call)                                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        prepare();                                                                                 \
        fail();                                                                                    \
        usleep(200000);                                                                            \
        say_driver(#call, call);                                                                   \
        SAY(cuCtxSynchronize());                                                                   \
    }
FIRST(first_alloc, cuMemAlloc(&result_at, PAGE))
FIRST(first_create, cuMemCreate(&result_handle, PAGE, &properties, 0))
FIRST(first_map, cuMemMap(reserved, PAGE, 0, memory, 0))
FIRST(first_access, cuMemSetAccess(mapped, PAGE, &rights, 1))
FIRST(first_register, cuMemHostRegister(more_pages, PAGE, 0))
FIRST(first_attribute, cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block))
FIRST(first_info, cuMemGetInfo(&a_size, &b_size))
FIRST(first_query, cuStreamQuery(stream))
FIRST(first_event, cuEventQuery(event))
FIRST(first_free, cuMemFree(block))
FIRST(first_unmap, cuMemUnmap(mapped, PAGE))
FIRST(first_flags, cuCtxGetFlags(&flags))
FIRST(first_copy, cuMemcpyHtoD(block, buffer, sizeof(buffer)))

static CUresult create_context(CUcontext *created)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(created, NULL, 0, device);
#else
    return cuCtxCreate(created, 0, device);
#endif
}

/* Whether kernels and copies work in the current context. */
static void works(void)
{
    say("cudaMalloc", cudaMalloc((void **)&out, PAGE));
    say("a set", cudaMemset(out, 0, PAGE));
    store_number<<<1, 1>>>(out, 5);
    say("a kernel", cudaDeviceSynchronize());
    kernel_reads("it reads", out);
}

static void reset_by_the_runtime(void)
{
    failed();
    say("reset", cudaDeviceReset());
    SAY(cuCtxGetCurrent(&other));
    show("the thread has a context", other != NULL);
    works();
}

static void reset_by_the_driver(void)
{
    failed();
    SAY(cuDevicePrimaryCtxReset(device));
    SAY(cuDevicePrimaryCtxRetain(&other, device));
    show("it is the same context", other == context);
    SAY(cuCtxSetCurrent(other));
    SAY(cuMemAlloc(&result_at, PAGE));
    SAY(cuCtxSynchronize());
    works();
}

static void released(void)
{
    failed();
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &number));
    show("it is active", number);
    SAY(cuDevicePrimaryCtxRetain(&other, device));
    SAY(cuCtxSetCurrent(other));
    SAY(cuMemAlloc(&result_at, PAGE));
    works();
}

static void context_beside(void)
{
    prepare();
    SAY(create_context(&other));
    SAY(cuMemAlloc(&result_at, PAGE));
    SAY(cuCtxSetCurrent(context));
    fail();
    say("the kernel", cudaDeviceSynchronize());
    SAY(cuCtxSetCurrent(other));
    SAY(cuMemsetD8(result_at, 1, PAGE));
    SAY(cuMemAlloc(&result_at, PAGE));
    SAY(cuCtxSynchronize());
    SAY(cuCtxDestroy(other));
}

static void context_after(void)
{
    failed();
    SAY(create_context(&other));
    SAY(cuMemAlloc(&result_at, PAGE));
    SAY(cuCtxSynchronize());
}

static void own_context_destroyed(void)
{
    prepare();
    SAY(create_context(&other));
    fail();
    say("the kernel", cudaDeviceSynchronize());
    SAY(cuCtxDestroy(other));
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemsetD8(block, 1, PAGE));
    SAY(cuCtxSynchronize());
    works();
}

/* Whose the memory is that the runtime gives, and what is the thread's context then. */
static void whose(const char *fact)
{
    CUcontext now = NULL, owner = NULL;
    void *p = NULL;

    printf("# %s\n", fact);
    say("cudaMalloc", cudaMalloc(&p, PAGE));
    cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)p);
    cuCtxGetCurrent(&now);
    show("in the primary context", owner == context);
    show("in the thread's own", owner == other);
    show("the primary one is current", now == context);
    show("the thread's own is current", now == other);
}

static void contexts_of_the_runtime(void)
{
    prepare();
    SAY(create_context(&other));
    whose("a context made after the primary one");
    say("reset", cudaDeviceReset());
    whose("after a reset");
    SAY(cuCtxSetCurrent(other));
    whose("made current again");
    say("cudaSetDevice", cudaSetDevice(0));
    whose("after cudaSetDevice");
    SAY(cuCtxSetCurrent(other));
    SAY(cuDevicePrimaryCtxReset(device));
    whose("after a reset by the driver, the thread's own current");
    SAY(cuCtxSetCurrent(NULL));
    whose("after a reset by the driver, none current");
    SAY(cuCtxSetCurrent(other));
    SAY(cuCtxDestroy(other));
    whose("after its own was destroyed");
}

static void reset_under_the_primary(void)
{
    prepare();
    say("reset", cudaDeviceReset());
    cuCtxGetCurrent(&other);
    show("the thread has a context", other != NULL);
    show("it is the primary one", other == context);
    SAY(cuMemAlloc(&result_at, PAGE));
    whose("the next call of the runtime");
    SAY(cuMemAlloc(&result_at, PAGE));
}

#define GROUP(function)                                                                            \
    {                                                                                              \
#function, function, false                                                                 \
    }
static const struct group groups[] = {
    GROUP(queries),
    GROUP(requests),
    GROUP(frees),
    GROUP(no_context),
    GROUP(first_alloc),
    GROUP(first_create),
    GROUP(first_map),
    GROUP(first_access),
    GROUP(first_register),
    GROUP(first_attribute),
    GROUP(first_info),
    GROUP(first_query),
    GROUP(first_event),
    GROUP(first_free),
    GROUP(first_unmap),
    GROUP(first_flags),
    GROUP(first_copy),
    GROUP(reset_by_the_runtime),
    GROUP(reset_by_the_driver),
    GROUP(released),
    GROUP(context_beside),
    GROUP(context_after),
    GROUP(own_context_destroyed),
    GROUP(contexts_of_the_runtime),
    GROUP(reset_under_the_primary),
};

int main(void)
{
    return run_groups("sticky_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
