/* SPDX-License-Identifier: MIT */
/* Sets: cuMemsetD8/16/32, one- and two-dimensional. */
#include "capture.h"
#include "copy.h"
#include <string.h>

/* Bytes from the lowest to behind the highest, and those before the first row: a driver takes the
 * pitch for a number with a sign, so that rows may go backwards (measured).  False where a size_t
 * does not hold them. */
static bool span_of(const CUDA_MEMSET_NODE_PARAMS *s, size_t *span, size_t *before)
{
    bool backwards = (ptrdiff_t)s->pitch < 0;
    size_t rows, row;
    if (__builtin_mul_overflow(s->height - 1, backwards ? 0 - s->pitch : s->pitch, &rows))
        return false;
    *before = backwards ? rows : 0;
    return !__builtin_mul_overflow(s->width, s->elementSize, &row) &&
           !__builtin_add_overflow(rows, row, span);
}

static bool is_out_of_reach(const CUDA_MEMSET_NODE_PARAMS *s, int device)
{
    const struct sim_block *b = sim_block_find(s->dst);
    return b && (!sim_reaches(b, device) || (b->kind == SIM_VMM && !b->access[device]));
}

static CUresult find_target(const CUDA_MEMSET_NODE_PARAMS *s, int device, struct sim_place *out)
{
    size_t span, before;
    if (s->elementSize != 1 && s->elementSize != 2 && s->elementSize != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->dst % s->elementSize ||
        (s->height > 1 && (s->pitch < s->width * s->elementSize || s->pitch % s->elementSize)))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_out_of_reach(s, device))
        return CUDA_ERROR_INVALID_VALUE;
    if (!span_of(s, &span, &before) ||
        sim_resolve(s->dst - before, span, device, true, false, out) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    out->pointer += before;
    return out->hosted ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; /* measured */
}

static bool is_empty(const CUDA_MEMSET_NODE_PARAMS *s)
{
    return s->width == 0 || s->height == 0;
}

CUresult sim_set_check(const CUDA_MEMSET_NODE_PARAMS *s, int device)
{
    struct sim_place place;
    return is_empty(s) ? CUDA_SUCCESS : find_target(s, device, &place);
}

bool sim_set_refused(const struct sim_work *work)
{
    return is_out_of_reach(&work->u.set.shape, work->u.set.device);
}

/* A line may become any other one; rows stay as many and as wide. */
bool sim_set_may_become(const struct sim_work *now, const struct sim_work *then)
{
    const CUDA_MEMSET_NODE_PARAMS *a = &now->u.set.shape, *b = &then->u.set.shape;
    bool same = a->height == b->height && a->width == b->width && a->elementSize == b->elementSize;
    return same || (a->height == 1 && b->height == 1);
}

/* Needs of a guarded fill. */
struct fill {
    const CUDA_MEMSET_NODE_PARAMS *shape; /* extent and value */
    char *bytes;                          /* first byte */
};

static CUresult fill_rows(void *data)
{
    const struct fill *f = data;
    const CUDA_MEMSET_NODE_PARAMS *s = f->shape;
    for (size_t y = 0; y < s->height; y++) {
        char *row = f->bytes + y * s->pitch;
        if (s->elementSize == 1)
            memset(row, (int)(s->value & 0xff), s->width);
        else if (s->elementSize == 2)
            for (size_t x = 0; x < s->width; x++)
                ((uint16_t *)(void *)row)[x] = (uint16_t)s->value;
        else
            for (size_t x = 0; x < s->width; x++)
                ((uint32_t *)(void *)row)[x] = s->value;
    }
    return CUDA_SUCCESS;
}

CUresult sim_set_run(struct sim_work *work)
{
    const CUDA_MEMSET_NODE_PARAMS *s = &work->u.set.shape;
    struct sim_place place;
    if (is_empty(s))
        return CUDA_SUCCESS;
    sim_relock();
    CUresult r = find_target(s, work->u.set.device, &place);
    if (r == CUDA_SUCCESS)
        sim_traffic_set(&place, s->width * s->elementSize * s->height);
    sim_unlock();
    if (r != CUDA_SUCCESS)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    struct fill f = {s, place.pointer};
    return sim_guarded(fill_rows, &f);
}

/* Sets of device memory do not wait, also the synchronous ones; those of pinned and managed memory
 * do (CUDA driver API, "API synchronization behavior"). */
static CUresult set(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width,
                    size_t height, CUstream handle, bool sync)
{
    struct sim_stream *stream;
    struct sim_place place;
    struct sim_work work = {.kind = SIM_WORK_SET};
    CUresult r = sim_stream_find(handle, &stream);
    if (r == CUDA_SUCCESS && sync)
        r = sim_capture_unsafe_call();
    if (r == CUDA_SUCCESS && !stream->capture)
        r = sim_capture_implicit(stream);
    if (r != CUDA_SUCCESS)
        return r;
    work.u.set.shape = (CUDA_MEMSET_NODE_PARAMS){.dst = dst,
                                                 .pitch = pitch,
                                                 .value = value,
                                                 .elementSize = element,
                                                 .width = width,
                                                 .height = height};
    work.u.set.device = stream->ctx->device;
    if (is_empty(&work.u.set.shape))
        return CUDA_SUCCESS;
    const struct sim_block *block = sim_block_find(dst);
    if (stream->capture && block && (block->dormant || sim_set_refused(&work)))
        return sim_submit(stream, &work); /* allocated by a node, or refused later (measured) */
    r = find_target(&work.u.set.shape, work.u.set.device, &place);
    if (r != CUDA_SUCCESS)
        return r;
    if (sync && place.kind != SIM_ON_DEVICE && !stream->capture)
        return sim_run(stream, &work);
    return sim_submit(stream, &work);
}

/* A driver takes the product of count and element as 64 bits hold it (measured). */
#define LINEAR(name, type, bytes)                                                                  \
    SIM_API_PTDS(name##_v2, (CUdeviceptr dst, type value, size_t n), (dst, value, n))              \
    {                                                                                              \
        return set(dst, 0, value, bytes, n * bytes / bytes, 1, NULL, true);                        \
    }                                                                                              \
    SIM_API_PTSZ(name##Async, (CUdeviceptr dst, type value, size_t n, CUstream s),                 \
                 (dst, value, n, s))                                                               \
    {                                                                                              \
        return set(dst, 0, value, bytes, n * bytes / bytes, 1, s, false);                          \
    }

#define PITCHED(name, type, bytes)                                                                 \
    SIM_API_PTDS(name##_v2,                                                                        \
                 (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),         \
                 (dst, pitch, value, width, height))                                               \
    {                                                                                              \
        return set(dst, pitch, value, bytes, width, height, NULL, true);                           \
    }                                                                                              \
    SIM_API_PTSZ(                                                                                  \
        name##Async,                                                                               \
        (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream s),      \
        (dst, pitch, value, width, height, s))                                                     \
    {                                                                                              \
        return set(dst, pitch, value, bytes, width, height, s, false);                             \
    }

LINEAR(cuMemsetD8, unsigned char, 1)
LINEAR(cuMemsetD16, unsigned short, 2)
LINEAR(cuMemsetD32, unsigned int, 4)
PITCHED(cuMemsetD2D8, unsigned char, 1)
PITCHED(cuMemsetD2D16, unsigned short, 2)
PITCHED(cuMemsetD2D32, unsigned int, 4)
