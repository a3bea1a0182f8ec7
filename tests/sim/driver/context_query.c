/* SPDX-License-Identifier: MIT */
/* Questions of a program about its context, and peer access between contexts. */
#include <stdlib.h>
#include <string.h>

#include "../sim.h"
#include "driver.h"

#if CUDA_VERSION >= 13000
SIM_API(cuCtxGetDevice_v2, (CUdevice * dev, CUcontext handle), (dev, handle))
{
    struct sim_context *ctx = sim_context_of(handle);
    if (!ctx || !ctx->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    *dev = ctx->device;
    return CUDA_SUCCESS;
}
#endif

/* Device and flags are known also of a context with an error. */
SIM_API(cuCtxGetDevice, (CUdevice * dev), (dev))
{
    struct sim_context *ctx;
    CUresult r = sim_current_any(&ctx);
    if (r != CUDA_SUCCESS || !dev)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    *dev = ctx->device;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetFlags, (unsigned int *flags), (flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current_any(&ctx);
    if (r == CUDA_SUCCESS)
        *flags = ctx->flags;
    return r;
}

SIM_API(cuCtxSetFlags, (unsigned int flags), (flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS)
        ctx->flags = flags;
    return r;
}

SIM_API(cuCtxGetId, (CUcontext handle, unsigned long long *id), (handle, id))
{
    struct sim_context *ctx = sim_context_of(handle);
    if (!ctx || !id)
        return ctx ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    *id = ctx->id;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetApiVersion, (CUcontext handle, unsigned int *version), (handle, version))
{
    struct sim_context *ctx = sim_context_of(handle);
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = ctx->version;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetLimit, (size_t * value, CUlimit limit), (value, limit))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!value || (unsigned)limit >= CU_LIMIT_MAX)
        return value ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    *value = ctx->limits[limit];
    return CUDA_SUCCESS;
}

SIM_API(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetCacheConfig, (CUfunc_cache * config), (config))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS)
        *config = ctx->cache;
    return r;
}

SIM_API(cuCtxSetCacheConfig, (CUfunc_cache config), (config))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS)
        ctx->cache = config;
    return r;
}

SIM_API(cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxResetPersistingL2Cache, (void), ())
{
    struct sim_context *ctx;
    return sim_current(&ctx);
}

/* True if SIM_PEERS says so of what leads from device to device. */
static bool peers_by(const char *what)
{
    const char *said = getenv("SIM_PEERS");
    return said && strcmp(said, what) == 0;
}

SIM_API(cuDeviceCanAccessPeer, (int *can, CUdevice dev, CUdevice peer), (can, dev, peer))
{
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(dev) || !sim_device_valid(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = dev != peer && !peers_by("none");
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetP2PAttribute,
        (int *value, CUdevice_P2PAttribute attr, CUdevice src, CUdevice dst),
        (value, attr, src, dst))
{
    if (!sim_device_valid(src) || !sim_device_valid(dst))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || src == dst)
        return CUDA_ERROR_INVALID_VALUE;
    *value = !peers_by("none") &&
             (attr == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
              (attr == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED && !peers_by("pcie")));
    return CUDA_SUCCESS;
}

/* Finds the current context and a live peer on another device. */
static CUresult peers(CUcontext handle, struct sim_context **ctx, struct sim_context **peer)
{
    CUresult r = sim_current(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    *peer = handle ? sim_context_of(handle) : NULL;
    if (!*peer || !(*peer)->alive || *peer == *ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxEnablePeerAccess, (CUcontext handle, unsigned int flags), (handle, flags))
{
    struct sim_context *ctx, *peer;
    CUresult r = peers(handle, &ctx, &peer);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer->device == ctx->device || peers_by("none"))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (ctx->peer[peer->device])
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    ctx->peer[peer->device] = true;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxDisablePeerAccess, (CUcontext handle), (handle))
{
    struct sim_context *ctx, *peer;
    CUresult r = peers(handle, &ctx, &peer);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ctx->peer[peer->device])
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    ctx->peer[peer->device] = false;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult sim_error(void)
{
    struct sim_context *ctx;
    return sim_current(&ctx);
}
