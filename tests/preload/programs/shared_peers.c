/* SPDX-License-Identifier: MIT */
/* Copies between a pair and memory of another device, by calls that name both contexts. */
#include "shared_scene.h"

static unsigned char plain[SIZE]; /* Memory that no rule can place. */

/* Memory that only kernels and copies of the current device, number 1, reach. */
static CUdeviceptr mapped_block(size_t n)
{
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CHECK(cuMemAddressReserve(&at, n, 0, 0, 0));
    CHECK(cuMemCreate(&handle, n, &prop, 0));
    CHECK(cuMemMap(at, n, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemSetAccess(at, n, &access, 1));
    return at;
}

/* The contexts of the two devices; a pair is the first one's. */
static CUcontext contexts[2];

enum way { AT_ONCE, AS_BOX, IN_ORDER, WAYS };

/* A copy whose call names the contexts, in the order of the one that is current. */
static void peer_copy(CUdeviceptr to, int dst, CUdeviceptr from, int src, size_t n, enum way way)
{
    CUstream stream;
    CUcontext a = contexts[dst], b = contexts[src];
    if (way == AS_BOX) {
        const CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                        .srcDevice = from,
                                        .srcContext = b,
                                        .srcPitch = n,
                                        .srcHeight = 1,
                                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                        .dstDevice = to,
                                        .dstContext = a,
                                        .dstPitch = n,
                                        .dstHeight = 1,
                                        .WidthInBytes = n,
                                        .Height = 1,
                                        .Depth = 1};
        CHECK(cuMemcpy3DPeer(&box));
        CHECK(cuCtxSynchronize());
        return;
    }
    if (way == AT_ONCE) {
        CHECK(cuMemcpyPeer(to, a, from, b, n));
        CHECK(cuCtxSynchronize());
        return;
    }
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyPeerAsync(to, a, from, b, n, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
}

/* There and back, with each of the contexts current. */
static void there_and_back(struct pair p, CUdeviceptr far, size_t n, enum way way)
{
    for (int current = 0; current < 2; current++) {
        CHECK(cuCtxSetCurrent(contexts[current]));
        peer_copy(far, 1, p.d, 0, n, way);
        CHECK(cuCtxSetCurrent(contexts[1]));
        EXPECT(copy_sees(far, 0, n, 1));
        paint(plain, n, 2);
        CHECK(cuMemcpyHtoD(far, plain, n));
        CHECK(cuCtxSetCurrent(contexts[current]));
        peer_copy(p.d, 0, far, 1, n, way);
        CHECK(cuCtxSetCurrent(contexts[0]));
        EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, n, 2) && sees(p.d, n, SIZE - n, 1));
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    }
}

/* Copies between a pair and memory of another device, before and after peer access is enabled. */
static void peers(void)
{
    CUdeviceptr far, mapped;
    contexts[1] = start_gpu(1);
    CHECK(cuMemAlloc(&far, UNIT / 4));
    mapped = mapped_block(UNIT);
    contexts[0] = start_gpu(0);
    struct pair p = filled_pair(SIZE, 1);
    for (int enabled = 0; enabled < 2; enabled++) {
        for (enum way way = AT_ONCE; way < WAYS; way++) {
            there_and_back(p, far, UNIT / 4, way);
            there_and_back(p, mapped, UNIT, way);
        }
        for (int i = 0; i < 2 && !enabled; i++) {
            CHECK(cuCtxSetCurrent(contexts[i]));
            CHECK(cuCtxEnablePeerAccess(contexts[!i], 0));
        }
    }
    CHECK(cuMemUnmap(mapped, UNIT));
    CHECK(cuMemAddressFree(mapped, UNIT));
    CHECK(cuMemFree(far));
    CHECK(cuCtxSetCurrent(contexts[0]));
    give_back(p);
    end_gpu(1);
}

/* A copy in the order of a stream waits for nothing else that the other device has to do. */
static void busy_peer(void)
{
    CUdeviceptr mapped;
    struct gate gate;
    contexts[1] = start_gpu(1);
    mapped = mapped_block(UNIT);
    gate_close(&gate, NULL);
    contexts[0] = start_gpu(0);
    struct pair p = filled_pair(SIZE, 1);
    peer_copy(mapped, 1, p.d, 0, UNIT, IN_ORDER);
    CHECK(cuMemsetD8(p.d, 7, UNIT));
    CHECK(cuCtxSynchronize());
    peer_copy(p.d, 0, mapped, 1, UNIT, IN_ORDER);
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    gate_open(&gate);
    give_back(p);
    CHECK(cuCtxSetCurrent(contexts[1]));
    CHECK(cuMemUnmap(mapped, UNIT));
    CHECK(cuMemAddressFree(mapped, UNIT));
    end_gpu(1);
    CHECK(cuCtxSetCurrent(contexts[0]));
}

/* Kernels of the second device read a block of the first one, as collectives do. */
static void peer_kernel(void)
{
    contexts[1] = start_gpu(1);
    contexts[0] = start_gpu(0);
    struct pair p = filled_pair(SIZE, 1);
    CHECK(cuCtxSetCurrent(contexts[1]));
    CHECK(cuCtxEnablePeerAccess(contexts[0], 0));
    EXPECT(gpu_sees(p.d, 0, SIZE, 1));
    paint(p.h, SIZE, 2);
    EXPECT(gpu_sees(p.d, 0, SIZE, 1));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuCtxSynchronize());
    EXPECT(gpu_sees(p.d, 0, SIZE, 2));
    CHECK(cuCtxSetCurrent(contexts[0]));
    CHECK(cuMemsetD8(p.d, 7, UNIT));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(contexts[1]));
    EXPECT(gpu_sees(p.d, UNIT, SIZE - UNIT, 2) && shows(p.h, SIZE, 2));
    CHECK(cuCtxDisablePeerAccess(contexts[0]));
    end_gpu(1);
    CHECK(cuCtxSetCurrent(contexts[0]));
    give_back(p);
}

/* One host block for both devices, and one for the second alone. */
static void each_device(void)
{
    contexts[1] = start_gpu(1);
    struct pair q = filled_pair(SIZE, 1), other;
    contexts[0] = start_gpu(0);
    struct pair p = filled_pair(SIZE, 2);
    CHECK(cuCtxSetCurrent(contexts[1]));
    other.d = device_block(SIZE);
    CHECK(cuMemcpyHtoD(other.d, p.h, SIZE));
    EXPECT(sees(other.d, 0, SIZE, 2) && sees(q.d, 0, SIZE, 1));
    paint(p.h, SIZE, 3);
    CHECK(cuMemcpyHtoD(other.d, p.h, SIZE));
    EXPECT(sees(other.d, 0, SIZE, 3) && shows(q.h, SIZE, 1));
    CHECK(cuMemFree(other.d));
    give_back(q);
    CHECK(cuCtxSetCurrent(contexts[0]));
    EXPECT(sees(p.d, 0, SIZE, 2) && shows(p.h, SIZE, 3));
    give_back(p);
    end_gpu(1);
    CHECK(cuCtxSetCurrent(contexts[0]));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"peers", peers},
                                          {"busy_peer", busy_peer},
                                          {"peer_kernel", peer_kernel},
                                          {"each_device", each_device}};
    return RUN_SCENES(all, argc, argv);
}
