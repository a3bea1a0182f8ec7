/* SPDX-License-Identifier: MIT */
/* Launches: the arguments are copied at the call, the grid runs on the stream's thread. */
#include "capture.h"
#include "launch.h"
#include <stdlib.h>
#include <string.h>

void **sim_kernel_args(const struct sim_function *f, void **args)
{
    size_t bytes = 0;
    for (size_t i = 0; i < f->nparams; i++)
        bytes += (f->sizes[i] + 15) / 16 * 16;
    void **copy = malloc(f->nparams * sizeof *copy + bytes + 32);
    char *at = (char *)(((uintptr_t)(copy + f->nparams) + 15) & ~(uintptr_t)15);
    for (size_t i = 0; i < f->nparams; i++) {
        copy[i] = at;
        memcpy(at, args[i], f->sizes[i]);
        at += (f->sizes[i] + 15) / 16 * 16;
    }
    return copy;
}

/* The arguments packed in one buffer (CU_LAUNCH_PARAM_BUFFER_POINTER), each at its natural
 * alignment. */
static CUresult unpack(const struct sim_function *f, void **extra, void **params)
{
    char *buffer = NULL;
    size_t size = 0, at = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < f->nparams; i++) {
        size_t align = f->sizes[i] >= 8 ? 8 : f->sizes[i];
        at = (at + align - 1) / align * align;
        if (!buffer || at + f->sizes[i] > size)
            return CUDA_ERROR_INVALID_VALUE;
        params[i] = buffer + at;
        at += f->sizes[i];
    }
    return CUDA_SUCCESS;
}

CUresult sim_kernel_work(struct sim_work *out, CUfunction handle, const unsigned grid[3],
                         const unsigned block[3], unsigned shared, void **params, void **extra)
{
    struct sim_function *f = sim_function_of(handle);
    void *unpacked[64];
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffffu || grid[1] > 65535 ||
        grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads == 0 || threads > 1024 || block[2] > 64 || shared > 232448)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->nparams > 64 || (f->nparams && !params && !extra) || (params && extra))
        return CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        CUresult r = unpack(f, extra, unpacked);
        if (r != CUDA_SUCCESS)
            return r;
        params = unpacked;
    }
    memset(out, 0, sizeof *out);
    out->kind = SIM_WORK_KERNEL;
    out->u.kernel.function = f;
    memcpy(out->u.kernel.shape.gridDim, grid, 3 * sizeof *grid);
    memcpy(out->u.kernel.shape.blockDim, block, 3 * sizeof *block);
    out->u.kernel.shape.sharedBytes = shared;
    out->u.kernel.args = sim_kernel_args(f, params);
    return CUDA_SUCCESS;
}

static CUresult grid_run(void *data)
{
    const struct sim_work *w = data;
    return (CUresult)w->u.kernel.function->thunk((void *const *)w->u.kernel.args,
                                                 &w->u.kernel.shape);
}

/* Microseconds that each kernel is said to take, however long the CPU needs for it. */
static uint64_t kernel_us(void)
{
    static int value = -1;
    if (value < 0) {
        const char *text = getenv("SIM_KERNEL_US");
        value = text ? atoi(text) : 1;
    }
    return (uint64_t)value;
}

static uint64_t taken_us[SIM_MAX_DEVICES]; /* atomic */

uint64_t sim_kernel_time_ns(int device)
{
    return __atomic_load_n(&taken_us[device], __ATOMIC_ACQUIRE) * 1000;
}

SIM_EXPORT void sim_kernel_takes(unsigned microseconds)
{
    __atomic_fetch_add(&taken_us[sim_kernel_device], microseconds, __ATOMIC_ACQ_REL);
}

CUresult sim_kernel_run(struct sim_work *work, int device)
{
    __atomic_fetch_add(&taken_us[device], kernel_us(), __ATOMIC_ACQ_REL);
    int outer = sim_kernel_device;
    sim_kernel_device = device;
    CUresult r = sim_guarded(grid_run, work);
    sim_kernel_device = outer;
    return r;
}

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3],
                       unsigned shared, CUstream handle, void **params, void **extra)
{
    struct sim_stream *stream;
    struct sim_work work;
    CUresult r = sim_stream_find(handle, &stream);
    if (r == CUDA_SUCCESS && !stream->capture)
        r = sim_capture_implicit(stream);
    if (r == CUDA_SUCCESS)
        r = sim_kernel_work(&work, f, grid, block, shared, params, extra);
    return r == CUDA_SUCCESS ? sim_submit(stream, &work) : r;
}

SIM_API_PTSZ(cuLaunchKernel,
             (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
              unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
              void **extra),
             (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
{
    return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream, params,
                  extra);
}

SIM_API_PTSZ(cuLaunchCooperativeKernel,
             (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
              unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
              void **params),
             (f, gx, gy, gz, bx, by, bz, shared, stream, params))
{
    return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream, params,
                  NULL);
}

SIM_API_PTSZ(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f, void **params, void **extra),
             (c, f, params, extra))
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(f, (unsigned[]){c->gridDimX, c->gridDimY, c->gridDimZ},
                  (unsigned[]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes,
                  c->hStream, params, extra);
}

static CUresult host_call(CUstream handle, struct sim_work *work)
{
    struct sim_stream *stream;
    CUresult r = sim_stream_find(handle, &stream);
    if (r == CUDA_SUCCESS && !stream->capture)
        r = sim_capture_implicit(stream);
    return r == CUDA_SUCCESS ? sim_submit(stream, work) : r;
}

SIM_API_PTSZ(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data), (stream, fn, data))
{
    struct sim_work work = {.kind = SIM_WORK_HOST, .u.host = {fn, data}};
    return fn ? host_call(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

/* Of no CUDA, see future.c. */
SIM_ALIAS_PTSZ(cuLaunchFutureFunc, body_cuLaunchHostFunc,
               (CUstream stream, CUhostFn fn, void *data), (stream, fn, data))

/* How the driver waits for what is before does not change what is done. */
SIM_API_PTSZ(cuLaunchHostFunc_v2, (CUstream stream, CUhostFn fn, void *data, unsigned int mode),
             (stream, fn, data, mode))
{
    struct sim_work work = {.kind = SIM_WORK_HOST, .u.host = {fn, data}};
    return fn && mode <= 1 ? host_call(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

SIM_API_PTSZ(cuStreamAddCallback,
             (CUstream stream, CUstreamCallback fn, void *data, unsigned int flags),
             (stream, fn, data, flags))
{
    struct sim_work work = {.kind = SIM_WORK_CALLBACK, .u.callback = {fn, stream, data}};
    return fn && !flags ? host_call(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}
