/* SPDX-License-Identifier: MIT */
/* Batches of decompression. An H200 has no engine for it, and no algorithm
 * (CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK is 0). With SIM_ATTR=136=MASK there is one
 * that takes compressed bytes for what they stand for, so that blocks are copied. */
#include "memory.h"
#include "stream.h"
#include <stdlib.h>
#include <string.h>

/* The operations of a call, owned by the work. */
struct batch {
    struct sim_context *ctx;
    size_t count;
    CUmemDecompressParams op[];
};

static CUdeviceptr address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* Memory of the device's, as IS_HW_DECOMPRESS_CAPABLE says. */
static bool find(const void *p, size_t size, int device, bool write, char **out)
{
    struct sim_place place;
    bool fine = size &&
                sim_resolve(address(p), size, device, write, false, &place) == CUDA_SUCCESS &&
                place.kind == SIM_ON_DEVICE;
    *out = fine ? place.pointer : NULL;
    return fine;
}

static bool find_all(const CUmemDecompressParams *op, int device, char **src, char **dst,
                     char **written)
{
    return find(op->src, op->srcNumBytes, device, false, src) &&
           find(op->dst, op->srcNumBytes, device, true, dst) &&
           find(op->dstActBytes, sizeof *op->dstActBytes, device, true, written);
}

static CUresult check(const CUmemDecompressParams *op, int device)
{
    char *src, *dst, *written;
    int mask = 0;
    sim_device_attribute(&mask, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, device);
    for (size_t i = 0; i < sizeof op->padding; i++)
        if (op->padding[i])
            return CUDA_ERROR_INVALID_VALUE;
    if (!((int)op->algo & mask))
        return CUDA_ERROR_NOT_SUPPORTED;
    return find_all(op, device, &src, &dst, &written) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* In the stream's thread. */
static void run(void *data)
{
    struct batch *b = data;
    sim_relock();
    for (size_t i = 0; i < b->count; i++) {
        uint32_t n = (uint32_t)b->op[i].srcNumBytes;
        char *src, *dst, *written;
        if (find_all(&b->op[i], b->ctx->device, &src, &dst, &written)) {
            memmove(dst, src, n);
            memcpy(written, &n, sizeof n);
        } else {
            sim_context_fail(b->ctx, CUDA_ERROR_ILLEGAL_ADDRESS); /* freed since then */
        }
    }
    sim_unlock();
    free(b);
}

SIM_API_PTSZ(cuMemBatchDecompressAsync,
             (CUmemDecompressParams * ops, size_t count, unsigned int flags, size_t *failed,
              CUstream handle),
             (ops, count, flags, failed, handle))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ops || count == 0 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (size_t i = 0; i < count; i++)
        if ((r = check(&ops[i], s->ctx->device)) != CUDA_SUCCESS) {
            if (failed)
                *failed = i;
            return r;
        }
    struct batch *b = malloc(sizeof *b + count * sizeof *ops);
    b->ctx = s->ctx;
    b->count = count;
    memcpy(b->op, ops, count * sizeof *ops);
    struct sim_work work = {.kind = SIM_WORK_HOST, .u.host = {run, b}};
    return sim_submit(s, &work);
}
