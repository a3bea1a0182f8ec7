/* SPDX-License-Identifier: MIT */
/* Sharing with other processes by cuIpc*. Only cuMemAlloc memory has handles; to open one in the
 * process that made it is an error, and the memory of another process is not simulated. */
#include "memory.h"
#include <string.h>
#include <unistd.h>

/* The content of a handle. */
struct ipc {
    char mark[16];  /* "simulated GPU" */
    long pid;       /* process that made it */
    CUdeviceptr va; /* block */
    size_t size;    /* of the block */
};

_Static_assert(sizeof(struct ipc) <= CU_IPC_HANDLE_SIZE, "an IPC handle has 64 bytes");

SIM_API(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr dptr), (out, dptr))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = sim_block_find(dptr);
    if (!out || !b || b->kind != SIM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    struct ipc h = {"simulated GPU", (long)getpid(), b->va, b->size};
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

SIM_API(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags),
        (out, handle, flags))
{
    struct ipc h;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&h, &handle, sizeof h);
    if (!out || strcmp(h.mark, "simulated GPU") != 0 || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return h.pid == (long)getpid() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_SUPPORTED;
}
SIM_ALIAS(cuIpcOpenMemHandle, body_cuIpcOpenMemHandle_v2,
          (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags), (out, handle, flags))

SIM_API(cuIpcCloseMemHandle, (CUdeviceptr dptr), (dptr))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    (void)dptr; /* nothing was ever opened */
    return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}
