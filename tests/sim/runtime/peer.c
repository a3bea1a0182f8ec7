/* SPDX-License-Identifier: MIT */
/*
 * Several devices: peer access, and copies that name devices.  The runtime has no per-thread twins
 * of cudaMemcpyPeer and cudaMemcpyPeerAsync, so their NULL stream is always the legacy one.
 */
#include "runtime.h"

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    return RT_CALL(cuDeviceCanAccessPeer, can, device, peer);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from,
                                      int to)
{
    return RT_CALL(cuDeviceGetP2PAttribute, value, (CUdevice_P2PAttribute)attribute, from, to);
}

/* The context of a peer device; the error is recorded. */
static cudaError_t peer_context(int peer, CUcontext *context_out)
{
    cudaError_t error = rt_enter();

    if (error == cudaSuccess) {
        error = rt_primary_context(peer, context_out);
        if (error != cudaSuccess)
            rt_fail(error);
    }
    return error;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context;
    cudaError_t error = peer_context(peer, &context);

    return error != cudaSuccess ? error
                                : rt_return(rt_driver.cuCtxEnablePeerAccess(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    cudaError_t error = peer_context(peer, &context);

    return error != cudaSuccess ? error : rt_return(rt_driver.cuCtxDisablePeerAccess(context));
}

/* The contexts of both sides; the error is recorded. */
static cudaError_t contexts_of(int dst_device, int src_device, CUcontext *dst_out,
                               CUcontext *src_out)
{
    cudaError_t error = peer_context(dst_device, dst_out);

    return error != cudaSuccess ? error : peer_context(src_device, src_out);
}

cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t count)
{
    CUcontext to, from;
    cudaError_t error = contexts_of(dst_device, src_device, &to, &from);

    return error != cudaSuccess ? error
                                : rt_return(rt_streams[0].cuMemcpyPeer(
                                      rt_address(dst), to, rt_address(src), from, count));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t count, cudaStream_t stream)
{
    CUcontext to, from;
    cudaError_t error = contexts_of(dst_device, src_device, &to, &from);

    return error != cudaSuccess ? error
                                : rt_return(rt_streams[0].cuMemcpyPeerAsync(
                                      rt_address(dst), to, rt_address(src), from, count, stream));
}
