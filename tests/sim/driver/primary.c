/* SPDX-License-Identifier: MIT */
/* Primary contexts: one a device, shared by all users of the runtime. */
#include "context.h"

CUresult sim_primary_retain(int device, struct sim_context **out)
{
    struct sim_device *d = &sim_devices[device];
    if (d->failed != CUDA_SUCCESS && !(d->primary && d->primary->alive))
        return d->failed;
    if (!d->primary) {
        d->primary = sim_context_new(device, 0, 3020);
        d->primary->primary = true;
    } else if (!d->primary->alive) {
        sim_context_begin(d->primary, d->primary->flags);
    }
    d->primary->retained++;
    *out = d->primary;
    return CUDA_SUCCESS;
}

CUresult sim_primary_release(int device)
{
    struct sim_context *ctx = sim_devices[device].primary;
    if (!ctx || ctx->retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--ctx->retained == 0 && ctx->alive)
        sim_context_end(ctx);
    return CUDA_SUCCESS;
}

SIM_API(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice dev), (out, dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return out ? sim_primary_retain(dev, (struct sim_context **)out) : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev))
{
    return sim_device_valid(dev) ? sim_primary_release(dev) : CUDA_ERROR_INVALID_DEVICE;
}
SIM_ALIAS(cuDevicePrimaryCtxRelease, body_cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev))

/* Destroys all state; the references stay, and the next retain brings the context back. */
SIM_API(cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_context *ctx = sim_devices[dev].primary;
    if (ctx && ctx->alive)
        sim_context_end(ctx);
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuDevicePrimaryCtxReset, body_cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev))

SIM_API(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int *flags, int *active),
        (dev, flags, active))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *ctx = sim_devices[dev].primary;
    *flags = ctx ? ctx->flags : 0;
    *active = ctx && ctx->alive;
    return CUDA_SUCCESS;
}

SIM_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), (dev, flags))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *d = &sim_devices[dev];
    if (!d->primary) {
        d->primary = sim_context_new(dev, flags, 3020);
        d->primary->primary = true;
        sim_context_end(d->primary); /* known, but not active before the first retain */
    }
    d->primary->flags = flags;
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuDevicePrimaryCtxSetFlags, body_cuDevicePrimaryCtxSetFlags_v2,
          (CUdevice dev, unsigned int flags), (dev, flags))
