/* The copy engine: checks the two sides of a copy, stages pageable sources, moves the bytes. */
#include "copy.h"
#include "array.h"
#include "capture.h"
#include <stdlib.h>
#include <string.h>

/* One side of a copy, found in the memory map. */
struct side {
    struct sim_place place; /* first byte of the extent */
    size_t pitch;           /* bytes from row to row */
    size_t slice;           /* bytes from slice to slice */
};

/* The fields of one side of CUDA_MEMCPY3D. */
struct end {
    CUmemorytype type; /* host, device, array or unified */
    CUdeviceptr base;  /* address, for all but arrays */
    CUarray array;     /* for arrays */
    size_t x, y, z;    /* offset: bytes, rows, slices */
    size_t pitch;      /* as given, 0 for packed */
    size_t height;     /* as given, 0 for the extent's */
};

static struct end source_end(const CUDA_MEMCPY3D *c)
{
    CUdeviceptr base =
        c->srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)c->srcHost : c->srcDevice;
    return (struct end){c->srcMemoryType, base,    c->srcArray, c->srcXInBytes,
                        c->srcY,          c->srcZ, c->srcPitch, c->srcHeight};
}

static struct end target_end(const CUDA_MEMCPY3D *c)
{
    CUdeviceptr base =
        c->dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)c->dstHost : c->dstDevice;
    return (struct end){c->dstMemoryType, base,    c->dstArray, c->dstXInBytes,
                        c->dstY,          c->dstZ, c->dstPitch, c->dstHeight};
}

CUDA_MEMCPY3D sim_copy_linear(CUmemorytype dst_type, CUdeviceptr dst, CUmemorytype src_type,
                              CUdeviceptr src, size_t n)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = src_type,
                       .dstMemoryType = dst_type,
                       .WidthInBytes = n,
                       .Height = 1,
                       .Depth = 1};
    c.srcHost = (const void *)(uintptr_t)src;
    c.dstHost = (void *)(uintptr_t)dst;
    c.srcDevice = src;
    c.dstDevice = dst;
    return c;
}

static CUresult array_side(const struct end *e, const CUDA_MEMCPY3D *c, struct side *out)
{
    struct sim_array *a = sim_array_of(e->array);
    if (!a)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->x + c->WidthInBytes > a->row || e->y + c->Height > a->rows ||
        e->z + c->Depth > a->slices)
        return CUDA_ERROR_INVALID_VALUE;
    out->pitch = a->row;
    out->slice = a->row * a->rows;
    out->place = (struct sim_place){a->bytes + e->z * out->slice + e->y * out->pitch + e->x,
                                    SIM_IN_ARRAY, a->device};
    return CUDA_SUCCESS;
}

static CUresult find_side(const struct end *e, const CUDA_MEMCPY3D *c, int device, bool write,
                          struct side *out)
{
    if (e->type == CU_MEMORYTYPE_ARRAY)
        return array_side(e, c, out);
    if (e->type < CU_MEMORYTYPE_HOST || e->type > CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    bool flat = c->Height <= 1 && c->Depth <= 1;
    size_t rows = e->height ? e->height : c->Height;
    out->pitch = e->pitch ? e->pitch : c->WidthInBytes + (flat ? 0 : e->x);
    out->slice = out->pitch * rows;
    if (!flat && (out->pitch < c->WidthInBytes + e->x || (c->Depth > 1 && rows < c->Height + e->y)))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr first = e->base + e->z * out->slice + e->y * out->pitch + e->x;
    size_t span = (c->Depth - 1) * out->slice + (c->Height - 1) * out->pitch + c->WidthInBytes;
    return sim_resolve(first, span, device, write, e->type != CU_MEMORYTYPE_DEVICE, &out->place);
}

static CUresult find_sides(const CUDA_MEMCPY3D *c, int device, struct side *src, struct side *dst)
{
    struct end from = source_end(c), to = target_end(c);
    CUresult r = find_side(&from, c, device, false, src);
    return r == CUDA_SUCCESS ? find_side(&to, c, device, true, dst) : r;
}

static bool is_empty(const CUDA_MEMCPY3D *c)
{
    return c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0;
}

CUresult sim_copy_check(const CUDA_MEMCPY3D *c, int device)
{
    struct side src, dst;
    return is_empty(c) ? CUDA_SUCCESS : find_sides(c, device, &src, &dst);
}

/* Rows to move, for a guarded call. */
struct move {
    char *dst;                   /* first byte of the target */
    const char *src;             /* first byte of the source */
    struct side to, from;        /* steps */
    size_t width, height, depth; /* bytes, rows, slices */
};

static CUresult move_rows(void *data)
{
    const struct move *m = data;
    if (m->to.pitch == m->width && m->from.pitch == m->width && m->depth == 1) {
        memmove(m->dst, m->src, m->width * m->height);
        return CUDA_SUCCESS;
    }
    for (size_t z = 0; z < m->depth; z++)
        for (size_t y = 0; y < m->height; y++)
            memmove(m->dst + z * m->to.slice + y * m->to.pitch,
                    m->src + z * m->from.slice + y * m->from.pitch, m->width);
    return CUDA_SUCCESS;
}

/* Packs a pageable source into memory of the driver's own. CUDA_ERROR_INVALID_VALUE where the CPU
 * can't read it. */
static CUresult stage(const CUDA_MEMCPY3D *c, const struct side *src, struct sim_work *work)
{
    char *packed = malloc(c->WidthInBytes * c->Height * c->Depth);
    if (!packed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct move m = {packed,
                     src->place.pointer,
                     {.pitch = c->WidthInBytes, .slice = c->WidthInBytes * c->Height},
                     *src,
                     c->WidthInBytes,
                     c->Height,
                     c->Depth};
    if (sim_guarded(move_rows, &m) != CUDA_SUCCESS) {
        free(packed);
        return CUDA_ERROR_INVALID_VALUE;
    }
    work->u.copy.staging = packed;
    return CUDA_SUCCESS;
}

CUresult sim_copy_run(struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    struct side src, dst;
    if (is_empty(c))
        return CUDA_SUCCESS;
    sim_relock();
    CUresult r = find_sides(c, work->u.copy.device, &src, &dst);
    if (r == CUDA_SUCCESS)
        sim_traffic_copy(&src.place, &dst.place, c->WidthInBytes * c->Height * c->Depth);
    sim_unlock();
    if (r != CUDA_SUCCESS)
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* it was right when it was queued: freed since then */
    struct move m = {dst.place.pointer, src.place.pointer, dst,     src,
                     c->WidthInBytes,   c->Height,         c->Depth};
    if (work->u.copy.staging) {
        m.src = work->u.copy.staging;
        m.from.pitch = c->WidthInBytes;
        m.from.slice = c->WidthInBytes * c->Height;
    }
    return sim_guarded(move_rows, &m);
}

static bool on_host(const struct side *s)
{
    return s->place.kind == SIM_PAGEABLE || s->place.kind == SIM_PINNED;
}

/* Whether the caller waits (CUDA driver API, "API synchronization behavior"): synchronous copies
 * wait unless both sides are on devices; asynchronous ones wait between host and host, and from
 * anything to pageable memory. */
static bool caller_waits(enum sim_copy_mode mode, const struct side *src, const struct side *dst)
{
    if (mode == SIM_COPY_SYNC)
        return on_host(src) || on_host(dst) || src->place.kind == SIM_UNIFIED ||
               dst->place.kind == SIM_UNIFIED;
    return dst->place.kind == SIM_PAGEABLE || (on_host(src) && on_host(dst));
}

/* Memory of a graph allocation node can be named in a capture before a launch allocates it. */
static bool touches_dormant(CUdeviceptr va)
{
    const struct sim_block *b = sim_block_find(va);
    return b && b->dormant;
}

CUresult sim_copy(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode)
{
    struct sim_stream *stream;
    struct side src, dst;
    struct sim_work work = {.kind = SIM_WORK_COPY, .u.copy = {.shape = *shape}};
    CUresult r = sim_stream_find(handle, &stream);
    if (r == CUDA_SUCCESS && !stream->capture)
        r = sim_capture_implicit(stream);
    if (r != CUDA_SUCCESS || is_empty(shape))
        return r;
    work.u.copy.device = stream->ctx->device;
    if (stream->capture && (touches_dormant(shape->srcDevice) || touches_dormant(shape->dstDevice)))
        return sim_submit(stream, &work);
    r = find_sides(shape, work.u.copy.device, &src, &dst);
    if (r != CUDA_SUCCESS)
        return r == CUDA_ERROR_INVALID_HANDLE ? r : CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_submit(stream, &work);
    if (caller_waits(mode, &src, &dst)) {
        r = sim_run(stream, &work);
        return r == CUDA_ERROR_ILLEGAL_ADDRESS && stream->ctx->sticky == CUDA_SUCCESS
                   ? CUDA_ERROR_INVALID_VALUE
                   : r;
    }
    if (src.place.kind == SIM_PAGEABLE)
        r = stage(shape, &src, &work);
    return r == CUDA_SUCCESS ? sim_submit(stream, &work) : r;
}
