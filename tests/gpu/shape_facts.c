/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver what it says of copies and sets of several rows whose arguments are wrong, and
 * whether it has written a byte then.  Prints one line a question, so that the simulated GPU can be
 * compared with a real one.  Where the driver itself crashes the line says so.
 *
 *   shape_facts      ends with status 77 where no GPU answers
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_ON 2 /* Exit status after an error that stays. */

/* Constants and no macros, so that questions are printed as they are written. */
static const size_t pitch = 512;            /* from row to row, bytes */
static const size_t rows = 8;               /* of a slice */
static const size_t size = (size_t)1 << 20; /* of a block, bytes */
static const size_t middle = 256 << 10;     /* where the copies begin in a block */
static const size_t endless = SIZE_MAX;

static CUcontext context;
static CUstream stream;
static CUdeviceptr src, dst, host; /* device memory twice, and pinned host memory */
static CUarray array;
static size_t widest; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
static char *pageable;
static int reached; /* questions that this process has come to */

/* Of all processes together. */
static struct {
    int count;          /* questions that were put */
    char question[200]; /* the last one */
} * asked;

static int start(void)
{
    const CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 64, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    void *p = NULL;
    int most = 0;

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 77;
    cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0);
    widest = (size_t)most;
    pageable = calloc(1, size);
    cuMemAlloc(&src, size);
    cuMemAlloc(&dst, size);
    cuMemHostAlloc(&p, size, 0);
    host = (CUdeviceptr)p;
    cuArrayCreate(&array, &desc);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

/* Ones are copied or set over zeroes.  False for a question that an earlier process has put. */
static int prepare(const char *question)
{
    if (reached++ < asked->count)
        return 0;
    asked->count++;
    snprintf(asked->question, sizeof(asked->question), "%s", question);
    cuMemsetD8(src, 1, size);
    cuMemsetD8(dst, 0, size);
    return cuCtxSynchronize() == CUDA_SUCCESS;
}

static void tell(const char *fact, CUresult result)
{
    CUresult ran = cuCtxSynchronize();
    size_t written = 0;

    cuMemcpyDtoH(pageable, dst, size);
    for (size_t i = 0; i < size; i++)
        written += pageable[i] != 0;
    printf("%s: %d, ran %d, written %s\n", fact, (int)result, (int)ran,
           written == 0 ? "nothing" : "something");
    fflush(stdout);
    if (ran != CUDA_SUCCESS)
        _exit(ASK_ON);
}

/* Four rows of 100 bytes. */
static CUDA_MEMCPY2D good_2d(void)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = src + middle,
                           .srcPitch = pitch,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = dst + middle,
                           .dstPitch = pitch,
                           .WidthInBytes = 100,
                           .Height = 4};
}

/* Two slices of four rows of 100 bytes. */
static CUDA_MEMCPY3D good_3d(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = src + middle,
                           .srcPitch = pitch,
                           .srcHeight = rows,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = dst + middle,
                           .dstPitch = pitch,
                           .dstHeight = rows,
                           .WidthInBytes = 100,
                           .Height = 4,
                           .Depth = 2};
}

static CUDA_MEMCPY3D_PEER good_peer(void)
{
    return (CUDA_MEMCPY3D_PEER){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = src + middle,
                                .srcContext = context,
                                .srcPitch = pitch,
                                .srcHeight = rows,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = dst + middle,
                                .dstContext = context,
                                .dstPitch = pitch,
                                .dstHeight = rows,
                                .WidthInBytes = 100,
                                .Height = 4,
                                .Depth = 2};
}

#define ASK(question, call)                                                                        \
    do {                                                                                           \
        if (prepare(question))                                                                     \
            tell(question, call);                                                                  \
    } while (0)
#define TELL(type, good, call, change)                                                             \
    do {                                                                                           \
        type copy = good();                                                                        \
        copy.change;                                                                               \
        ASK(#call " with " #change, call);                                                         \
    } while (0)
/* One field is wrong. */
#define TELL_2D(change) TELL(CUDA_MEMCPY2D, good_2d, cuMemcpy2D(&copy), change)
#define TELL_UNALIGNED(change) TELL(CUDA_MEMCPY2D, good_2d, cuMemcpy2DUnaligned(&copy), change)
#define TELL_3D(change) TELL(CUDA_MEMCPY3D, good_3d, cuMemcpy3D(&copy), change)
#define TELL_3D_ASYNC(change) TELL(CUDA_MEMCPY3D, good_3d, cuMemcpy3DAsync(&copy, stream), change)
#define TELL_PEER(change) TELL(CUDA_MEMCPY3D_PEER, good_peer, cuMemcpy3DPeer(&copy), change)

#define BAD_PLACES(PUT)                                                                            \
    PUT(srcPitch = 99);                                                                            \
    PUT(dstPitch = 99);                                                                            \
    PUT(srcPitch = 0);                                                                             \
    PUT(dstPitch = 0);                                                                             \
    PUT(srcPitch = endless);                                                                       \
    PUT(dstPitch = endless);                                                                       \
    PUT(srcPitch = (size_t)0 - pitch);                                                             \
    PUT(srcPitch = widest + 1);                                                                    \
    PUT(dstPitch = widest + 1);                                                                    \
    PUT(srcXInBytes = pitch - 99);                                                                 \
    PUT(dstXInBytes = pitch - 99);                                                                 \
    PUT(srcXInBytes = endless);                                                                    \
    PUT(srcY = endless);                                                                           \
    PUT(dstY = endless);                                                                           \
    PUT(srcDevice = 0);                                                                            \
    PUT(dstDevice = 0);                                                                            \
    PUT(srcDevice = src + size);                                                                   \
    PUT(dstDevice = dst + size);                                                                   \
    PUT(dstDevice = dst + size - 3 * pitch - 99);                                                  \
    PUT(srcMemoryType = (CUmemorytype)0);                                                          \
    PUT(dstMemoryType = (CUmemorytype)5);                                                          \
    PUT(srcMemoryType = CU_MEMORYTYPE_HOST);                                                       \
    PUT(srcMemoryType = CU_MEMORYTYPE_UNIFIED);                                                    \
    PUT(srcMemoryType = CU_MEMORYTYPE_ARRAY);                                                      \
    PUT(srcArray = array);                                                                         \
    PUT(WidthInBytes = 0);                                                                         \
    PUT(WidthInBytes = pitch + 1);                                                                 \
    PUT(WidthInBytes = endless);                                                                   \
    PUT(Height = 0);                                                                               \
    PUT(Height = endless)
#define BAD_SLICES(PUT)                                                                            \
    BAD_PLACES(PUT);                                                                               \
    PUT(srcHeight = 3);                                                                            \
    PUT(dstHeight = 3);                                                                            \
    PUT(srcHeight = 0);                                                                            \
    PUT(dstHeight = 0);                                                                            \
    PUT(srcHeight = endless);                                                                      \
    PUT(dstHeight = endless);                                                                      \
    PUT(srcY = rows - 3);                                                                          \
    PUT(dstY = rows - 3);                                                                          \
    PUT(srcZ = endless);                                                                           \
    PUT(srcLOD = 1);                                                                               \
    PUT(dstLOD = 1);                                                                               \
    PUT(Depth = 0)

/* A depth without end makes a driver loop. */
static void copies(void)
{
    BAD_PLACES(TELL_2D);
    BAD_PLACES(TELL_UNALIGNED);
    BAD_SLICES(TELL_3D);
    TELL_3D(reserved0 = pageable);
    TELL_3D(reserved1 = pageable);
    BAD_SLICES(TELL_3D_ASYNC);
    BAD_SLICES(TELL_PEER);
    TELL_PEER(srcContext = NULL);
}

/* Each of these is right by itself where only one row or one slice is copied. */
static void copies_of_one_row(void)
{
    CUDA_MEMCPY2D row = good_2d();
    CUDA_MEMCPY3D slice = good_3d();

    row.Height = 1;
    row.srcPitch = row.dstPitch = 0;
    ASK("one row without pitch", cuMemcpy2D(&row));
    row.srcPitch = 50;
    ASK("one row of a pitch below its width", cuMemcpy2D(&row));
    row.srcPitch = widest + 1;
    ASK("one row of a pitch above the largest", cuMemcpy2D(&row));
    slice.Depth = 1;
    slice.srcHeight = slice.dstHeight = 0;
    ASK("one slice without height", cuMemcpy3D(&slice));
    slice.srcHeight = 3;
    ASK("one slice of a height below its rows", cuMemcpy3D(&slice));
    slice.srcHeight = endless;
    ASK("one slice of a height without end", cuMemcpy3D(&slice));
    slice.Height = 1;
    slice.srcPitch = slice.dstPitch = 0;
    ASK("one row of one slice, without pitch", cuMemcpy3D(&slice));
}

#define TELL_SET(call) ASK(#call, call)

static void sets(void)
{
    const CUdeviceptr at = dst + middle;

    TELL_SET(cuMemsetD2D8(at, 99, 1, 100, 4));
    TELL_SET(cuMemsetD2D8(at, 0, 1, 100, 4));
    TELL_SET(cuMemsetD2D8(at, 0, 1, 100, 1));
    TELL_SET(cuMemsetD2D8(at, 99, 1, 100, 1));
    TELL_SET(cuMemsetD2D8(at, endless, 1, 100, 4));
    TELL_SET(cuMemsetD2D8(at, widest + 1, 1, 100, 4));
    TELL_SET(cuMemsetD2D8(at, widest + 1, 1, 100, 1));
    TELL_SET(cuMemsetD2D8(at, pitch, 1, 0, 4));
    TELL_SET(cuMemsetD2D8(at, pitch, 1, 100, 0));
    TELL_SET(cuMemsetD2D8(at, pitch, 1, endless, 4));
    TELL_SET(cuMemsetD2D8(0, pitch, 1, 100, 4));
    TELL_SET(cuMemsetD2D16(at + 1, pitch, 1, 100, 4));
    TELL_SET(cuMemsetD2D16(at, pitch + 1, 1, 100, 4));
    TELL_SET(cuMemsetD2D32(at + 2, pitch, 1, 100, 4));
    TELL_SET(cuMemsetD2D32(at, pitch + 2, 1, 100, 4));
    TELL_SET(cuMemsetD2D32(at, pitch, 1, pitch / 4 + 1, 4));
    TELL_SET(cuMemsetD2D8Async(at, 99, 1, 100, 4, stream));
    TELL_SET(cuMemsetD2D8Async(at, endless, 1, 100, 4, stream));
    TELL_SET(cuMemsetD16(at + 1, 1, 100));
    TELL_SET(cuMemsetD32(at + 2, 1, 100));
    TELL_SET(cuMemsetD32(at, 1, endless / 4 + 2));
    TELL_SET(cuMemsetD8(0, 1, 100));
    TELL_SET(cuMemsetD8(0, 1, 0));
}

/* Just before and behind a block of a pool, by every kind of copy. */
static void beside_a_pools_block(void)
{
    CUdeviceptr pooled = 0, before;

    cuMemAllocAsync(&pooled, size, stream);
    before = pooled - 16;
    pooled += size;
    TELL_SET(cuMemcpy(dst, pooled, 16));
    TELL_SET(cuMemcpy(pooled, dst, 16));
    TELL_SET(cuMemcpy(dst, before, 16));
    TELL_SET(cuMemcpy(dst, pooled - 8, 16));
    TELL_SET(cuMemcpy(host, pooled, 16));
    TELL_SET(cuMemcpyAsync(dst, pooled, 16, stream));
    TELL_SET(cuMemcpyAsync(host, pooled, 16, stream));
    TELL_SET(cuMemcpyDtoD(dst, pooled, 16));
    TELL_SET(cuMemcpyDtoH(pageable, pooled, 16));
    TELL_SET(cuMemcpyHtoD(dst, (void *)pooled, 16));
    TELL_SET(cuMemcpyHtoD(pooled, pageable, 16));
    TELL_SET(cuMemsetD8(pooled, 1, 16));
}

/* Each after the others, in as many processes as it takes. */
static int ask_all(void)
{
    int status = start();

    if (status != 0)
        return status;
    copies();
    copies_of_one_row();
    sets();
    beside_a_pools_block();
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(void)
{
    int status = 0;

    asked = mmap(NULL, sizeof(*asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asked == MAP_FAILED)
        return 1;
    do {
        pid_t child = fork();

        if (child == 0) {
            alarm(120);
            _exit(ask_all());
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
        if (WIFSIGNALED(status))
            printf("%s: signal %d\n", asked->question, WTERMSIG(status));
        fflush(stdout);
    } while (WIFSIGNALED(status) || WEXITSTATUS(status) == ASK_ON);
    if (WEXITSTATUS(status) == 77)
        fputs("shape_facts: no GPU answers\n", stderr);
    return WEXITSTATUS(status);
}
