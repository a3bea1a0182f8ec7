/* SPDX-License-Identifier: MIT */
/* Arrays and mipmapped arrays: create, describe, destroy. Their contents are reached by copies
 * alone. */
#include "array.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

#define MAX_LEVELS 20

/* One mipmapped array. */
struct sim_mipmap {
    struct sim_mipmap *next;             /* all live ones */
    struct sim_context *ctx;             /* dies with it */
    unsigned levels;                     /* how many */
    struct sim_array *level[MAX_LEVELS]; /* owned */
};

static struct sim_array *arrays;
static struct sim_mipmap *mipmaps;

struct sim_array *sim_array_of(CUarray handle)
{
    for (struct sim_array *a = arrays; a; a = a->next)
        if ((CUarray)a == handle)
            return a;
    return NULL;
}

size_t sim_arrays_count(void)
{
    size_t n = 0;
    for (struct sim_array *a = arrays; a; a = a->next)
        n += !a->level_of;
    for (struct sim_mipmap *m = mipmaps; m; m = m->next)
        n++;
    return n;
}

static size_t format_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static void array_free(struct sim_array *array)
{
    struct sim_array **p = &arrays;
    while (*p != array)
        p = &(*p)->next;
    *p = array->next;
    sim_device_give(array->device, array->footprint);
    free(array->bytes);
    free(array);
}

static CUresult array_new(const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sim_context *ctx,
                          struct sim_array **out)
{
    size_t element = format_bytes(desc->Format) * desc->NumChannels;
    bool channels = desc->NumChannels == 1 || desc->NumChannels == 2 || desc->NumChannels == 4;
    if (!element || !channels || desc->Width == 0 ||
        (desc->Height == 0 && desc->Depth > 0 && !(desc->Flags & 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->Width > 131072 || desc->Height > 131072 || desc->Depth > 16384)
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = element * desc->Width;
    size_t rows = desc->Height ? desc->Height : 1, slices = desc->Depth ? desc->Depth : 1;
    size_t footprint = (row * rows * slices + 511) / 512 * 512;
    if (!sim_device_take(ctx->device, footprint))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_array *a = calloc(1, sizeof *a);
    *a = (struct sim_array){arrays,    sim_context_base(ctx), ctx->device, *desc, row, rows, slices,
                            footprint, malloc(footprint),     NULL};
    memset(a->bytes, 0xA5, footprint);
    arrays = a;
    *out = a;
    return CUDA_SUCCESS;
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct sim_context *ctx;
    struct sim_array *a;
    CUresult r = sim_current_unsafe(&ctx);
    if (r == CUDA_SUCCESS)
        r = array_new(desc, ctx, &a);
    if (r == CUDA_SUCCESS)
        *out = (CUarray)a;
    return r;
}

SIM_API(cuArrayCreate_v2, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR *desc), (out, desc))
{
    if (!out || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = desc->Width,
                                 .Height = desc->Height,
                                 .Format = desc->Format,
                                 .NumChannels = desc->NumChannels};
    return create(out, &d);
}

SIM_API(cuArray3DCreate_v2, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *desc), (out, desc))
{
    return out && desc ? create(out, desc) : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR * out, CUarray handle), (out, handle))
{
    struct sim_array *a = sim_array_of(handle);
    if (!a || !out)
        return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *out = (CUDA_ARRAY_DESCRIPTOR){.Width = a->desc.Width,
                                   .Height = a->desc.Height,
                                   .Format = a->desc.Format,
                                   .NumChannels = a->desc.NumChannels};
    return CUDA_SUCCESS;
}

SIM_API(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray handle), (out, handle))
{
    struct sim_array *a = sim_array_of(handle);
    if (!a || !out)
        return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *out = a->desc;
    return CUDA_SUCCESS;
}

SIM_API(cuArrayGetMemoryRequirements,
        (CUDA_ARRAY_MEMORY_REQUIREMENTS * out, CUarray handle, CUdevice dev), (out, handle, dev))
{
    struct sim_array *a = sim_array_of(handle);
    if (!a || !out || !sim_device_valid(dev))
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    out->size = a->footprint;
    out->alignment = 512;
    return CUDA_SUCCESS;
}

SIM_API(cuArrayDestroy, (CUarray handle), (handle))
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    struct sim_array *a = sim_array_of(handle);
    if (r != CUDA_SUCCESS)
        return r;
    if (!a || a->level_of)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_device_wait(a->device);
    if (sim_array_of(handle))
        array_free(a);
    return CUDA_SUCCESS;
}

static struct sim_mipmap *mipmap_of(CUmipmappedArray handle)
{
    for (struct sim_mipmap *m = mipmaps; m; m = m->next)
        if ((CUmipmappedArray)m == handle)
            return m;
    return NULL;
}

static void mipmap_free(struct sim_mipmap *mipmap)
{
    struct sim_mipmap **p = &mipmaps;
    while (*p != mipmap)
        p = &(*p)->next;
    *p = mipmap->next;
    for (unsigned i = 0; i < mipmap->levels; i++)
        array_free(mipmap->level[i]);
    free(mipmap);
}

static size_t halved(size_t n, unsigned times)
{
    return n && n >> times == 0 ? 1 : n >> times;
}

SIM_API(cuMipmappedArrayCreate,
        (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels),
        (out, desc, levels))
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !desc || levels == 0 || levels > MAX_LEVELS)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mipmap *m = calloc(1, sizeof *m);
    m->ctx = sim_context_base(ctx);
    m->next = mipmaps;
    mipmaps = m;
    for (unsigned i = 0; i < levels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR d = *desc;
        d.Width = halved(desc->Width, i);
        d.Height = halved(desc->Height, i);
        d.Depth = halved(desc->Depth, i);
        r = array_new(&d, ctx, &m->level[i]);
        if (r != CUDA_SUCCESS) {
            mipmap_free(m);
            return r;
        }
        m->level[i]->level_of = m;
        m->levels++;
    }
    *out = (CUmipmappedArray)m;
    return CUDA_SUCCESS;
}

SIM_API(cuMipmappedArrayGetLevel, (CUarray * out, CUmipmappedArray handle, unsigned int level),
        (out, handle, level))
{
    struct sim_mipmap *m = mipmap_of(handle);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || level >= m->levels)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUarray)m->level[level];
    return CUDA_SUCCESS;
}

SIM_API(cuMipmappedArrayDestroy, (CUmipmappedArray handle), (handle))
{
    struct sim_mipmap *m = mipmap_of(handle);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    mipmap_free(m);
    return CUDA_SUCCESS;
}

void sim_arrays_context_end(struct sim_context *ctx)
{
    for (struct sim_mipmap *m = mipmaps, *next; m; m = next) {
        next = m->next;
        if (m->ctx == ctx)
            mipmap_free(m);
    }
    for (struct sim_array *a = arrays, *next; a; a = next) {
        next = a->next;
        if (a->ctx == ctx)
            array_free(a);
    }
}
