/* SPDX-License-Identifier: MIT */
/* Memory of another API's: here an opaque file descriptor is that of a file in memory
 * (memfd_create(2)), whose pages stand for what the other API allocated. */
#define _GNU_SOURCE
#include "memory.h"
#include "pages.h"
#include <stdlib.h>
#include <sys/stat.h>

/* One import; owns the file. */
struct external {
    struct external *next; /* all live imports */
    int fd;
    uint64_t size; /* bytes */
};

static struct external *externals;

static struct external **find(CUexternalMemory handle)
{
    struct external **at = &externals;
    while (*at && (CUexternalMemory)*at != handle)
        at = &(*at)->next;
    return at;
}

SIM_API(cuImportExternalMemory,
        (CUexternalMemory * out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc), (out, desc))
{
    struct sim_context *ctx;
    struct stat stat;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !desc || desc->size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(desc->handle.fd, &stat) != 0 || (uint64_t)stat.st_size < desc->size)
        return CUDA_ERROR_INVALID_VALUE;
    struct external *e = malloc(sizeof *e);
    *e = (struct external){externals, desc->handle.fd, desc->size};
    externals = e;
    *out = (CUexternalMemory)e;
    return CUDA_SUCCESS;
}

/* A device block on the file's pages, which cuMemFree frees. */
SIM_API(cuExternalMemoryGetMappedBuffer,
        (CUdeviceptr * out, CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc),
        (out, handle, desc))
{
    struct sim_context *ctx;
    const struct external *e = *find(handle);
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !desc || desc->flags || desc->size == 0 || desc->offset % 4096 ||
        desc->offset > e->size || desc->size > e->size - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = (desc->size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
    CUdeviceptr va = sim_va_take(bytes, SIM_PAGE);
    if (!va || !sim_device_take(ctx->device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *alias = sim_alias(va, ctx->device);
    sim_mmap(alias, desc->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, e->fd,
             (off_t)desc->offset);
    struct sim_block *b = sim_block_add(va, desc->size, SIM_DEVICE, ctx->device, ctx);
    b->storage = alias;
    b->footprint = bytes;
    *out = va;
    return CUDA_SUCCESS;
}

SIM_API(cuDestroyExternalMemory, (CUexternalMemory handle), (handle))
{
    struct external **at = find(handle), *e = *at;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    *at = e->next;
    close(e->fd);
    free(e);
    return CUDA_SUCCESS;
}
