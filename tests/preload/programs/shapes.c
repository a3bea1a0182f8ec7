/* SPDX-License-Identifier: MIT */
/*
 * Copies and sets of several rows with wrong fields, one or two at a time, by every call that takes
 * such a description, between device blocks, pinned memory and arrays.  Prints the codes, and a
 * digest of the target where it has changed: the output must not depend on where the blocks are.
 */
#include <stdint.h>

#include "program.h"

#define SIZE (((size_t)1 << 18) - 300)
#define MIDDLE ((size_t)64 << 10) /* Offset of copies in a block. */

static const size_t pitch = 512, rows = 8, endless = SIZE_MAX, widest = INT32_MAX;
static CUcontext context;
static CUstream stream;
static CUdeviceptr device, other, pinned; /* SIZE bytes each. */
static CUarray array;
static unsigned char bytes[SIZE + 300];

/* Two slices of four rows of 100 bytes. */
static CUDA_MEMCPY3D good(CUdeviceptr to, CUdeviceptr from)
{
    CUDA_MEMCPY3D p = {.srcMemoryType = from ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_ARRAY,
                       .srcDevice = from ? from + MIDDLE : 0,
                       .srcArray = from ? NULL : array,
                       .srcPitch = pitch,
                       .srcHeight = rows,
                       .dstMemoryType = to ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_ARRAY,
                       .dstDevice = to ? to + MIDDLE : 0,
                       .dstArray = to ? NULL : array,
                       .dstPitch = pitch,
                       .dstHeight = rows,
                       .WidthInBytes = 100,
                       .Height = 4,
                       .Depth = 2};
    return p;
}

/* Pitches and heights without end are left out: a driver takes them and follows them out of the
 * block (shape_facts of tests/gpu). */
#define CHANGES(X)                                                                                 \
    X(srcPitch = pitch)                                                                            \
    X(srcPitch = 99)                                                                               \
    X(dstPitch = 99)                                                                               \
    X(srcPitch = 0)                                                                                \
    X(dstPitch = 0)                                                                                \
    X(srcPitch = widest + 1)                                                                       \
    X(dstPitch = widest)                                                                           \
    X(srcXInBytes = pitch - 99)                                                                    \
    X(dstXInBytes = pitch - 100)                                                                   \
    X(dstXInBytes = pitch - 99)                                                                    \
    X(srcXInBytes = endless)                                                                       \
    X(srcY = 2)                                                                                    \
    X(srcY = endless)                                                                              \
    X(dstY = rows - 3)                                                                             \
    X(dstY = endless / pitch + 1)                                                                  \
    X(srcZ = 1)                                                                                    \
    X(srcHeight = 3)                                                                               \
    X(dstHeight = 3)                                                                               \
    X(srcHeight = 0)                                                                               \
    X(dstHeight = 0)                                                                               \
    X(srcMemoryType = (CUmemorytype)0)                                                             \
    X(dstMemoryType = (CUmemorytype)5)                                                             \
    X(srcMemoryType = CU_MEMORYTYPE_UNIFIED)                                                       \
    X(dstMemoryType = CU_MEMORYTYPE_ARRAY)                                                         \
    X(srcArray = NULL)                                                                             \
    X(dstArray = NULL)                                                                             \
    X(srcDevice = 0)                                                                               \
    X(dstDevice = 0)                                                                               \
    X(srcDevice += SIZE - MIDDLE - 100)                                                            \
    X(dstDevice += SIZE - MIDDLE - 3 * pitch - 99)                                                 \
    X(dstDevice += SIZE)                                                                           \
    X(srcLOD = 1)                                                                                  \
    X(dstLOD = 1)                                                                                  \
    X(reserved0 = bytes)                                                                           \
    X(reserved1 = bytes)                                                                           \
    X(WidthInBytes = 0)                                                                            \
    X(WidthInBytes = pitch + 1)                                                                    \
    X(WidthInBytes = endless)                                                                      \
    X(Height = 1)                                                                                  \
    X(Height = 0)                                                                                  \
    X(Depth = 1)                                                                                   \
    X(Depth = 0)

static const char *const names[] = {
#define X(change) #change,
    CHANGES(X)
#undef X
};
#define COUNT ((int)(sizeof(names) / sizeof(names[0])))

static void apply(int which, CUDA_MEMCPY3D *p)
{
    int i = 0;
#define X(change)                                                                                  \
    if (which == i++)                                                                              \
        p->change;
    CHANGES(X)
#undef X
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *p)
{
    return (CUDA_MEMCPY2D){.srcXInBytes = p->srcXInBytes,
                           .srcY = p->srcY,
                           .srcMemoryType = p->srcMemoryType,
                           .srcDevice = p->srcDevice,
                           .srcArray = p->srcArray,
                           .srcPitch = p->srcPitch,
                           .dstXInBytes = p->dstXInBytes,
                           .dstY = p->dstY,
                           .dstMemoryType = p->dstMemoryType,
                           .dstDevice = p->dstDevice,
                           .dstArray = p->dstArray,
                           .dstPitch = p->dstPitch,
                           .WidthInBytes = p->WidthInBytes,
                           .Height = p->Height};
}

enum call { DEEP, DEEP_ASYNC, FLAT, FLAT_UNALIGNED, FLAT_ASYNC, PEER, PEER_ASYNC, NODE, CALLS };

static CUresult add_node(const CUDA_MEMCPY3D *p)
{
    CUgraph graph;
    CUgraphNode node;
    CHECK(cuGraphCreate(&graph, 0));
    CUresult result = cuGraphAddMemcpyNode(&node, graph, NULL, 0, p, context);
    CHECK(cuGraphDestroy(graph));
    return result;
}

static CUresult make(enum call call, const CUDA_MEMCPY3D *p)
{
    CUDA_MEMCPY2D two = flat(p);
    CUDA_MEMCPY3D_PEER peer;
    memcpy(&peer, p, sizeof(peer));
    peer.srcContext = peer.dstContext = context;
    switch (call) {
    case DEEP:
        return cuMemcpy3D(p);
    case DEEP_ASYNC:
        return cuMemcpy3DAsync(p, stream);
    case FLAT:
        return cuMemcpy2D(&two);
    case FLAT_UNALIGNED:
        return cuMemcpy2DUnaligned(&two);
    case FLAT_ASYNC:
        return cuMemcpy2DAsync(&two, stream);
    case PEER:
        return cuMemcpy3DPeer(&peer);
    case PEER_ASYNC:
        return cuMemcpy3DPeerAsync(&peer, stream);
    default:
        return add_node(p);
    }
}

/* The code, and what the target is then if it is not zeroes any more. */
static void tell(CUresult result, CUdeviceptr to)
{
    uint64_t digest = UINT64_C(14695981039346656037);
    bool changed = false;
    CHECK(cuCtxSynchronize());
    printf(" %d", (int)result);
    if (!to)
        return;
    CHECK(cuMemcpyDtoH(bytes, to, SIZE));
    for (size_t i = 0; i < sizeof(bytes); i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        changed = changed || word;
        digest = (digest ^ word) * UINT64_C(1099511628211);
    }
    if (!changed)
        return;
    printf("(%llx)", (unsigned long long)digest);
    CHECK(cuMemsetD8(to, 0, SIZE));
    CHECK(cuCtxSynchronize());
}

static void try(const char *sides, CUdeviceptr to, CUdeviceptr from, int one, int two, int calls)
{
    printf("%s, %s, %s:", sides, names[one], names[two]);
    for (int call = 0; call < calls; call++) {
        CUDA_MEMCPY3D p = good(to, from);
        apply(one, &p);
        if (two != one)
            apply(two, &p);
        tell(make((enum call)call, &p), call == NODE ? 0 : to);
    }
    printf("\n");
}

/* A driver takes any address that it does not know for the CPU's, where it may be one, and follows
 * it: so kinds of memory that are left open are not wrong in anything else. */
static void copies(const char *sides, CUdeviceptr to, CUdeviceptr from)
{
    for (int i = 0; i < COUNT; i++)
        try(sides, to, from, i, i, CALLS);
    for (int i = 0; i < COUNT; i++)
        for (int k = i + 1; k < COUNT; k++)
            if (!strstr(names[i], "UNIFIED") && !strstr(names[k], "UNIFIED"))
                try(sides, to, from, i, k, 1);
}

/* A pitch is a number with a sign: rows that lie one before the other. */
static void backwards(const char *sides, CUdeviceptr to, CUdeviceptr from)
{
    const size_t steps[] = {pitch, 0 - pitch, 0 - (size_t)100, 0 - (size_t)40, endless};
    const size_t begins[] = {MIDDLE, 3 * pitch, SIZE - 100};
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    CHECK(cuMemcpyHtoD(from, bytes, SIZE));
    for (int i = 0; i < 5 * 5 * 3; i++) {
        printf("%s by %td and %td at %zu:", sides, (ptrdiff_t)steps[i % 5],
               (ptrdiff_t)steps[i / 5 % 5], begins[i / 25]);
        for (int call = 0; call < NODE; call++) {
            CUDA_MEMCPY3D p = good(to, from);
            p.srcPitch = steps[i % 5];
            p.dstPitch = steps[i / 5 % 5];
            p.dstDevice = to + begins[i / 25];
            p.Depth = call % 2 ? 2 : 1;
            tell(make((enum call)call, &p), to);
        }
        printf("\n");
    }
}

/* Lines to and from an array that is wrong, which leave the block or do not. */
static void lines(CUdeviceptr at)
{
    const CUarray arrays[] = {array, NULL};
    for (int a = 0; a < 2; a++)
        for (int left = 0; left < 200; left += 60) {
            CUdeviceptr end = at + SIZE - (size_t)left;
            printf("array %d, %d left:", a, left);
            tell(cuMemcpyDtoA(arrays[a], 0, end, 100), at);
            tell(cuMemcpyAtoD(end, arrays[a], 0, 100), at);
            if (!left) { /* As host memory nothing is there that a driver could not follow. */
                printf("\n");
                continue;
            }
            tell(cuMemcpyHtoA(arrays[a], 0, (void *)end, 100), at);
            tell(cuMemcpyAtoH((void *)end, arrays[a], 0, 100), at);
            tell(cuMemcpyHtoAAsync(arrays[a], 0, (void *)end, 100, stream), at);
            tell(cuMemcpyAtoHAsync((void *)end, arrays[a], 0, 100, stream), at);
            printf("\n");
        }
}

static void sets(CUdeviceptr at)
{
    const size_t pitches[] = {99, 0, 100, 101, 400, pitch, widest + 1, endless};
    const size_t widths[] = {0, 1, 100, endless}, heights[] = {0, 1, 4, endless};
    for (int i = 0; i < 8 * 4 * 4 * 4; i++) {
        size_t p = pitches[i % 8], w = widths[i / 8 % 4], h = heights[i / 32 % 4];
        CUdeviceptr to = at + MIDDLE + (CUdeviceptr)(i / 128);
        printf("set at +%d, pitch %zu, width %zu, height %zu:", i / 128, p, w, h);
        tell(cuMemsetD2D8(to, p, 1, w, h), at);
        tell(cuMemsetD2D16(to, p, 1, w, h), at);
        tell(cuMemsetD2D32(to, p, 1, w, h), at);
        tell(cuMemsetD2D32Async(to, p, 1, w, h, stream), at);
        printf("\n");
    }
}

/* Calls that are wrong in what they name, and in where they are made. */
static void nowhere(CUdeviceptr at)
{
    CUstream gone;
    CUDA_MEMCPY3D p = good(at + SIZE, at);
    CHECK(cuStreamCreate(&gone, 0));
    CHECK(cuStreamDestroy(gone));
    SHOW(cuMemcpy3DAsync(&p, gone));
    SHOW(cuMemcpyDtoDAsync(at, at + SIZE, 100, gone));
    SHOW(cuMemsetD8Async(at + SIZE, 1, 100, gone));
    CHECK(cuCtxSetCurrent(NULL));
    SHOW(cuMemcpy3D(&p));
    SHOW(cuMemcpyDtoD(at, at + SIZE, 100));
    SHOW(cuMemsetD8(at + SIZE, 1, 100));
    CHECK(cuCtxSetCurrent(context));
}

int main(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 1024,
                                          .Height = 16,
                                          .Depth = 4,
                                          .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                          .NumChannels = 1};
    CUdeviceptr apart[4];
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&apart[0], SIZE)); /* Freed again, so that nothing is beside the others. */
    CHECK(cuMemAlloc(&device, SIZE));
    CHECK(cuMemAlloc(&apart[1], SIZE));
    CHECK(cuMemAlloc(&other, SIZE));
    CHECK(cuMemAlloc(&apart[2], SIZE));
    CHECK(cuMemHostAlloc((void **)&pinned, SIZE, 0));
    CHECK(cuMemAlloc(&apart[3], SIZE));
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFree(apart[i]));
    CHECK(cuArray3DCreate(&array, &desc));
    CHECK(cuMemsetD8(device, 0, SIZE));
    CHECK(cuMemsetD8(pinned, 0, SIZE));
    CHECK(cuMemsetD8(other, 1, SIZE));
    copies("device from device", device, other);
    copies("device from array", device, 0);
    copies("array from device", 0, device);
    copies("device from pinned", device, pinned);
    copies("pinned from device", pinned, device);
    lines(device);
    sets(device);
    nowhere(device);
    backwards("device from device", device, other);
    backwards("pinned from device", pinned, other);
    backwards("device from pinned", device, pinned);
    return 0;
}
