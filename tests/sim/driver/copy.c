/* SPDX-License-Identifier: MIT */
/* The copy engine: checks the two sides of a copy, stages pageable sources, moves the bytes. */
#include "copy.h"
#include "array.h"
#include "capture.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of the longest copy from pinned memory to a device that the H200's driver makes with the
 * CPU. */
#define SHORT ((size_t)24576)

/* One side of a copy, found in the memory map. */
struct side {
    struct sim_place place; /* first byte of the extent */
    char *cpu;              /* the same as the program's CPU finds it; NULL for what only the GPU's
                               copy engine moves here: arrays, mappings for devices, and pageable
                               memory that is named as the device's */
    size_t pitch;           /* bytes from row to row */
    size_t slice;           /* bytes from slice to slice */
    bool astray;            /* only the first and the last byte are where they should be */
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

static bool holds(size_t all, size_t from, size_t count)
{
    return from <= all && count <= all - from;
}

static CUresult array_side(const struct end *e, const CUDA_MEMCPY3D *c, struct side *out)
{
    struct sim_array *a = sim_array_of(e->array);
    if (!a)
        return e->array ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    size_t element = a->row / a->desc.Width;
    if (e->x % element || !holds(a->row, e->x, c->WidthInBytes) ||
        !holds(a->rows, e->y, c->Height) || !holds(a->slices, e->z, c->Depth))
        return CUDA_ERROR_INVALID_VALUE;
    out->pitch = a->row;
    out->slice = a->row * a->rows;
    out->astray = false;
    out->cpu = NULL;
    out->place = (struct sim_place){a->bytes + e->z * out->slice + e->y * out->pitch + e->x,
                                    SIM_IN_ARRAY, a->device, false, false};
    return CUDA_SUCCESS;
}

/* The steps from row to row and from slice to slice; false where rows or slices do not fit into
 * them, or rows follow each other in more than CU_DEVICE_ATTRIBUTE_MAX_PITCH. A driver takes the
 * pitch for a number with a sign, so that rows may go backwards, and looks at no level of detail
 * and no reserved field (measured). */
static bool steps_of(const struct end *e, const CUDA_MEMCPY3D *c, struct side *out)
{
    bool flat = c->Height <= 1 && c->Depth <= 1;
    size_t rows = e->height ? e->height : c->Height, row, behind;
    if ((!flat && (ptrdiff_t)e->pitch > SIM_MAX_PITCH) ||
        __builtin_add_overflow(c->WidthInBytes, e->x, &row) ||
        __builtin_add_overflow(c->Height, e->y, &behind))
        return false;
    out->pitch = e->pitch ? e->pitch : flat ? c->WidthInBytes : row;
    out->slice = out->pitch * rows;
    return (out->pitch >= row || (flat && !e->pitch)) &&
           (rows >= behind || (c->Depth <= 1 && !e->height));
}

/* The range from the lowest to behind the highest byte of a side, from its first byte on. */
struct extent {
    __int128 low, high;
};

static struct extent extent_of(const CUDA_MEMCPY3D *c, const struct end *e, size_t pitch)
{
    size_t rows = e->height ? e->height : c->Height;
    __int128 step = (ptrdiff_t)pitch, down = step * (c->Height - 1);
    __int128 back = c->Depth > 1 ? step * rows * (c->Depth - 1) : 0;
    return (struct extent){(down < 0 ? down : 0) + (back < 0 ? back : 0),
                           (down > 0 ? down : 0) + (back > 0 ? back : 0) + c->WidthInBytes};
}

/* Finds the bytes of a side. A driver computes where the last one is in 64 bits, and takes a copy
 * of which it is in the block of the first; what lies between may be elsewhere, and is a fault of
 * the GPU's when it gets there (measured). */
static CUresult resolve(const struct end *e, const CUDA_MEMCPY3D *c, int device, bool write,
                        CUdeviceptr first, struct side *out)
{
    bool pageable = e->type != CU_MEMORYTYPE_DEVICE;
    struct extent x = extent_of(c, e, out->pitch);
    size_t low = (size_t)x.low, span = (size_t)(x.high - x.low);
    struct sim_place *place = &out->place;
    bool known = x.low >= PTRDIFF_MIN && x.high <= PTRDIFF_MAX;
    if (known && sim_resolve(first + low, span, device, write, pageable, place) == CUDA_SUCCESS) {
        place->pointer -= low;
        return CUDA_SUCCESS;
    }
    CUdeviceptr last =
        first + (c->Depth - 1) * out->slice + (c->Height - 1) * out->pitch + c->WidthInBytes - 1;
    const struct sim_block *b = sim_block_find(first);
    out->astray = b && b == sim_block_find(last);
    return out->astray ? sim_resolve(first, 1, device, write, pageable, place)
                       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult find_side(const struct end *e, const CUDA_MEMCPY3D *c, int device, bool write,
                          struct side *out)
{
    if (e->type == CU_MEMORYTYPE_ARRAY)
        return array_side(e, c, out);
    if (e->type < CU_MEMORYTYPE_HOST || e->type > CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    out->astray = false;
    if (!steps_of(e, c, out))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr first = e->base + e->z * out->slice + e->y * out->pitch + e->x;
    CUresult r = resolve(e, c, device, write, first, out);
    const struct sim_block *b = r == CUDA_SUCCESS ? sim_block_find(first) : NULL;
    bool mapping = b && b->kind == SIM_VMM && out->place.kind != SIM_PAGEABLE;
    bool reached = e->type == CU_MEMORYTYPE_DEVICE && out->place.kind == SIM_PAGEABLE;
    out->cpu = mapping || reached ? NULL : (char *)(uintptr_t)first;
    return r;
}

/* A peer copy names the context of each side in the reserved fields; its device reaches the side,
 * whether or not the one that copies does (measured on two H200). */
static int side_device(const void *named, int device)
{
    struct sim_context *ctx = named ? sim_context_of((CUcontext)named) : NULL;
    return ctx ? ctx->device : device;
}

/* The mapping of host memory that a side begins in, or NULL; one that no device reaches is the
 * CPU's own memory. */
static const struct sim_block *mapped_host(const struct end *e)
{
    bool named = e->type == CU_MEMORYTYPE_DEVICE || e->type == CU_MEMORYTYPE_UNIFIED;
    const struct sim_block *b = named ? sim_block_find(e->base) : NULL;
    bool host = b && b->kind == SIM_VMM && b->device < 0;
    for (int d = 0; host && d < SIM_MAX_DEVICES; d++)
        if (b->access[d])
            return b;
    return NULL;
}

/* A device that reaches the side: mapped host memory needs not be open to the one that copies
 * (tests/gpu/peer_facts.c). */
static int reaching(const struct end *e, const void *named, int device)
{
    const struct sim_block *b = mapped_host(e);
    int other = side_device(named, device);
    for (int d = 0; b && !b->access[other] && d < SIM_MAX_DEVICES; d++)
        other = b->access[d] ? d : other;
    return other;
}

static CUresult find_sides(const CUDA_MEMCPY3D *c, int device, struct side *src, struct side *dst)
{
    struct end from = source_end(c), to = target_end(c);
    CUresult r = find_side(&from, c, reaching(&from, c->reserved0, device), false, src);
    if (r != CUDA_SUCCESS)
        return r;
    return find_side(&to, c, reaching(&to, c->reserved1, device), true, dst);
}

/* The device that has the memory of a side, or `device`. */
static int owner(const struct side *s, int device)
{
    bool has = s->place.kind == SIM_ON_DEVICE || s->place.kind == SIM_IN_ARRAY;
    return has ? s->place.device : device;
}

/* Mapped host memory of one side, and memory that device `other` has. The CPU copies what the
 * device that copies does not reach; what that reaches `other` has to reach, too, but for a source
 * of a device that reaches `other`, and in a graph. */
static CUresult far_side(const struct sim_block *b, int device, int other, bool write, bool node)
{
    if (!b || (b->access[device] && b->access[other]))
        return CUDA_SUCCESS;
    if (!write && b->access[device] && (node || sim_has_peer(device, other)))
        return CUDA_SUCCESS;
    if (!b->access[SIM_CPU] || (b->access[device] && write && !node))
        sim_crash();
    return b->access[device] && !write ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

/* The same of a call that names both devices: `far` is the target, where that is such memory, else
 * the source, and `near` the other side. */
static CUresult far_named(const struct sim_block *far, bool write, const struct side *near,
                          int device, int one)
{
    if (near->place.kind == SIM_PINNED)
        return write && !far->access[device] ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (near->place.kind == SIM_UNIFIED && far->access[device])
        return CUDA_SUCCESS;
    if (write)
        sim_crash();
    if (near->place.kind == SIM_UNIFIED)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return sim_has_peer(one, near->place.device) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

/* A copy between two devices' memory with mapped host memory that is not open to both of them ends
 * the process, or fails when it runs, or is refused (two H200s, tests/gpu/far_facts.c). */
static CUresult far_host(const struct sim_work *work, const struct side *src,
                         const struct side *dst)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    struct end from = source_end(c), to = target_end(c);
    const struct sim_block *a = mapped_host(&from), *b = mapped_host(&to);
    int device = work->u.copy.device;
    if (c->reserved0 && c->reserved1) {
        int one = side_device(c->reserved0, device), two = side_device(c->reserved1, device);
        bool far_src = a && !(a->access[one] && a->access[two]);
        bool far_dst = b && !(b->access[one] && b->access[two]);
        if ((far_src && !a->access[SIM_CPU]) || (far_dst && !b->access[SIM_CPU]))
            sim_crash();
        return far_dst   ? far_named(b, true, src, device, one)
               : far_src ? far_named(a, false, dst, device, one)
                         : CUDA_SUCCESS;
    }
    CUresult r = far_side(a, device, owner(dst, device), false, work->u.copy.node);
    return r == CUDA_SUCCESS ? far_side(b, device, owner(src, device), true, work->u.copy.node) : r;
}

static bool is_empty(const CUDA_MEMCPY3D *c)
{
    return c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0;
}

enum operand { HOST_OPERAND, LEFT_OPEN, ARRAY_OPERAND, OF_CONTEXT, OF_NONE };

/* Pools' memory and mappings are of no context. Host memory is of one kind where a copy leaves open
 * what both sides are. */
static enum operand operand_of(const struct end *e, const struct end *other)
{
    const struct sim_block *b = sim_block_find(e->base);
    bool open = e->type == CU_MEMORYTYPE_UNIFIED;
    if (e->type == CU_MEMORYTYPE_ARRAY)
        return ARRAY_OPERAND;
    if (e->type == CU_MEMORYTYPE_HOST || !b ||
        (open && (b->kind == SIM_HOST || b->kind == SIM_REGISTERED)))
        return open && other->type == CU_MEMORYTYPE_UNIFIED ? LEFT_OPEN : HOST_OPERAND;
    return b->kind == SIM_POOLED || b->kind == SIM_VMM ? OF_NONE : OF_CONTEXT;
}

static bool on_device(const struct side *s)
{
    return s->place.kind == SIM_ON_DEVICE || s->place.kind == SIM_IN_ARRAY;
}

void sim_copy_remember(struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    struct end from = source_end(c), to = target_end(c);
    struct side src, dst;
    work->u.copy.node = true;
    work->u.copy.operand[0] = (unsigned char)operand_of(&to, &from);
    work->u.copy.operand[1] = (unsigned char)operand_of(&from, &to);
    bool found = !is_empty(c) && find_sides(c, work->u.copy.device, &src, &dst) == CUDA_SUCCESS;
    work->u.copy.peer =
        found && on_device(&src) && on_device(&dst) && src.place.device != dst.place.device;
}

static bool between(const struct side *src, const struct side *dst, enum sim_traffic_kind a,
                    enum sim_traffic_kind b)
{
    return (src->place.kind == a && dst->place.kind == b) ||
           (src->place.kind == b && dst->place.kind == a);
}

bool sim_copy_frail(const struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    struct side src, dst;
    return !is_empty(c) && find_sides(c, work->u.copy.device, &src, &dst) == CUDA_SUCCESS &&
           between(&src, &dst, SIM_PINNED, SIM_UNIFIED);
}

static bool has_rows(const CUDA_MEMCPY3D *c)
{
    return c->Height > 1 || c->Depth > 1;
}

/* Rows stay as they are; a line goes between the same kinds of memory, and devices or not. */
bool sim_copy_may_become(const struct sim_work *now, const struct sim_work *then)
{
    const CUDA_MEMCPY3D *a = &now->u.copy.shape, *b = &then->u.copy.shape;
    if (memcmp(a, b, sizeof *a) == 0)
        return true;
    return !has_rows(a) && !has_rows(b) && now->u.copy.peer == then->u.copy.peer &&
           memcmp(now->u.copy.operand, then->u.copy.operand, 2) == 0;
}

/* A graph is not instantiated that would copy from mapped host memory, open to the CPU, to another
 * device that reaches neither that nor is reached. */
bool sim_copy_refused(const struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    int device = work->u.copy.device;
    struct end from = source_end(c);
    struct side src, dst;
    const struct sim_block *a = mapped_host(&from);
    if (!a || !a->access[device] || !a->access[SIM_CPU] || (c->reserved0 && c->reserved1) ||
        is_empty(c) || find_sides(c, device, &src, &dst) != CUDA_SUCCESS)
        return false;
    int other = owner(&dst, device);
    return !a->access[other] && !sim_has_peer(device, other);
}

/* A side that a call names as device memory, and of which the copy engine alone reads or writes a
 * line: the other one is device memory or an array. */
static bool by_engine(const CUDA_MEMCPY3D *c, CUmemorytype type, const struct side *other)
{
    return type == CU_MEMORYTYPE_DEVICE && c->Height == 1 && c->Depth == 1 && !other->place.mixed &&
           (other->place.kind == SIM_ON_DEVICE || other->place.kind == SIM_IN_ARRAY);
}

/* Copies of device handles and host handles side by side end the process, but for those that were
 * seen to work. */
static bool crashes(const CUDA_MEMCPY3D *c, const struct side *src, const struct side *dst)
{
    return (src->place.mixed && !by_engine(c, c->srcMemoryType, dst)) ||
           (dst->place.mixed && !by_engine(c, c->dstMemoryType, src));
}

CUresult sim_copy_check(const CUDA_MEMCPY3D *c, int device)
{
    struct side src, dst;
    return is_empty(c) ? CUDA_SUCCESS : find_sides(c, device, &src, &dst);
}

bool sim_copy_crashes(const struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    struct side src, dst;
    return !is_empty(c) && find_sides(c, work->u.copy.device, &src, &dst) == CUDA_SUCCESS &&
           crashes(c, &src, &dst);
}

/* Rows to move. */
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

static size_t bytes_of(const CUDA_MEMCPY3D *c)
{
    return c->WidthInBytes * c->Height * c->Depth;
}

/* The rows of a copy side by side in memory of the driver's own. */
static struct side packed(const CUDA_MEMCPY3D *c, char *bytes)
{
    return (struct side){.place = {.pointer = bytes},
                         .cpu = bytes,
                         .pitch = c->WidthInBytes,
                         .slice = c->WidthInBytes * c->Height};
}

/* Moves rows with the caller's CPU, at the addresses that the program gave. A real driver has no
 * handler for faults there: they are the program's own. The handler may call the driver. */
static void move_by_cpu(const CUDA_MEMCPY3D *c, const struct side *dst, const struct side *src)
{
    struct move m = {dst->cpu, src->cpu, *dst, *src, c->WidthInBytes, c->Height, c->Depth};
    sim_unlock();
    move_rows(&m);
    sim_relock();
}

/* Packs a source that the driver reads with the CPU. */
static CUresult stage(const struct side *src, struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    char *bytes = malloc(bytes_of(c));
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct side staging = packed(c, bytes);
    move_by_cpu(c, &staging, src);
    work->u.copy.staging = bytes;
    return CUDA_SUCCESS;
}

CUresult sim_copy_run(struct sim_work *work)
{
    const CUDA_MEMCPY3D *c = &work->u.copy.shape;
    struct side src, dst;
    if (is_empty(c))
        return CUDA_SUCCESS;
    sim_relock();
    CUresult r = find_sides(c, work->u.copy.device, &src, &dst), far = CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        far = far_host(work, &src, &dst);
    if (r == CUDA_SUCCESS && far == CUDA_SUCCESS)
        sim_traffic_copy(&src.place, &dst.place, work->u.copy.link, bytes_of(c));
    sim_unlock();
    if (r == CUDA_SUCCESS && work->u.copy.frail &&
        (src.place.kind == SIM_PAGEABLE || dst.place.kind == SIM_PAGEABLE))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (r != CUDA_SUCCESS || src.astray || dst.astray)
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* else it was right when it was queued: freed since */
    if (crashes(c, &src, &dst))
        sim_crash();
    if (far != CUDA_SUCCESS)
        return far;
    if (work->u.copy.staging)
        src = packed(c, work->u.copy.staging);
    if (work->u.copy.landing)
        dst = packed(c, work->u.copy.landing);
    struct move m = {dst.place.pointer, src.place.pointer, dst,     src,
                     c->WidthInBytes,   c->Height,         c->Depth};
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
    if (mode == SIM_COPY_IN_CALL || (mode == SIM_COPY_IN_ORDER && src->place.kind == SIM_PAGEABLE))
        return true;
    if (mode == SIM_COPY_SYNC)
        return on_host(src) || on_host(dst) || src->place.kind == SIM_UNIFIED ||
               dst->place.kind == SIM_UNIFIED;
    return dst->place.kind == SIM_PAGEABLE || (on_host(src) && on_host(dst));
}

enum sim_copy_mode sim_copy_mode_of(int order)
{
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM            ? SIM_COPY_IN_ORDER
           : order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? SIM_COPY_IN_CALL
                                                                 : SIM_COPY_ASYNC;
}

/* Memory of a graph allocation node can be named in a capture before a launch allocates it. */
static bool touches_dormant(CUdeviceptr va)
{
    const struct sim_block *b = sim_block_find(va);
    return b && b->dormant;
}

/* Whether the driver reads the source with the CPU before the call returns. Hardware was asked
 * (tests/gpu/copy_facts.c): all pageable memory, what goes from host to host, and short runs of
 * pinned memory, but these not while earlier work of the stream is left, which may write there. */
static bool cpu_reads(const struct sim_stream *stream, const struct side *src,
                      const struct side *dst, const CUDA_MEMCPY3D *c)
{
    if (src->place.kind != SIM_PINNED || !src->cpu)
        return src->place.kind == SIM_PAGEABLE && src->cpu;
    return on_host(dst) || (dst->place.kind == SIM_ON_DEVICE && c->Height == 1 && c->Depth == 1 &&
                            c->WidthInBytes <= SHORT && sim_stream_idle(stream));
}

/* Whether the driver writes the target with the CPU before the call returns. */
static bool cpu_writes(const struct side *src, const struct side *dst)
{
    return dst->cpu &&
           (dst->place.kind == SIM_PAGEABLE || (dst->place.kind == SIM_PINNED && on_host(src)));
}

/* Makes a copy in the order of its stream, with the caller's CPU where the driver uses it. Takes
 * over what the work owns. */
static CUresult run_and_wait(struct sim_stream *stream, struct sim_work *work,
                             const struct side *src, const struct side *dst)
{
    const CUDA_MEMCPY3D c = work->u.copy.shape;
    struct sim_work nothing = {.kind = SIM_WORK_EMPTY};
    char *landing = NULL;
    CUresult r = CUDA_SUCCESS;
    if (cpu_reads(stream, src, dst, &c)) {
        r = sim_run(stream, &nothing);
        if (r == CUDA_SUCCESS)
            r = stage(src, work);
    }
    if (r == CUDA_SUCCESS && cpu_writes(src, dst))
        r = (landing = malloc(bytes_of(&c))) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    work->u.copy.landing = landing;
    if (r == CUDA_SUCCESS)
        r = sim_run(stream, work);
    else
        sim_work_free(work);
    if (r == CUDA_SUCCESS && landing) {
        struct side from = packed(&c, landing);
        move_by_cpu(&c, dst, &from);
    }
    free(landing);
    return r;
}

/* Queues a copy that the caller does not wait for. Takes over what the work owns. */
static CUresult queue(struct sim_stream *stream, struct sim_work *work, const struct side *src,
                      const struct side *dst)
{
    CUresult r = CUDA_SUCCESS;
    if (cpu_reads(stream, src, dst, &work->u.copy.shape))
        r = stage(src, work);
    if (r == CUDA_SUCCESS)
        return sim_submit(stream, work);
    sim_work_free(work);
    return r;
}

CUresult sim_copy_launch(struct sim_stream *stream, struct sim_work *work)
{
    struct side src, dst;
    if (is_empty(&work->u.copy.shape) ||
        find_sides(&work->u.copy.shape, work->u.copy.device, &src, &dst) != CUDA_SUCCESS ||
        on_host(&dst))
        return sim_submit(stream, work); /* what is wrong fails at its turn, as a launch does */
    sim_stream_ref(stream);
    CUresult r = queue(stream, work, &src, &dst);
    sim_stream_unref(stream);
    return r;
}

CUresult sim_copy_for(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode,
                      int device)
{
    struct sim_stream *stream;
    struct side src, dst;
    struct sim_work work = {.kind = SIM_WORK_COPY, .u.copy = {.shape = *shape, .device = device}};
    CUresult r = sim_stream_find(handle, &stream);
    if (r == CUDA_SUCCESS && !stream->capture)
        r = sim_capture_implicit(stream);
    if (r != CUDA_SUCCESS || is_empty(shape))
        return r;
    work.u.copy.link = stream->ctx->device;
    if (stream->capture && (touches_dormant(shape->srcDevice) || touches_dormant(shape->dstDevice)))
        return sim_submit(stream, &work);
    r = find_sides(shape, work.u.copy.device, &src, &dst);
    if (r != CUDA_SUCCESS)
        return r == CUDA_ERROR_INVALID_HANDLE ? r : CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_submit(stream, &work);
    if (crashes(shape, &src, &dst))
        sim_crash();
    if (far_host(&work, &src, &dst) == CUDA_ERROR_INVALID_VALUE)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream_ref(stream);
    if (caller_waits(mode, &src, &dst)) {
        r = run_and_wait(stream, &work, &src, &dst);
        if (r == CUDA_ERROR_ILLEGAL_ADDRESS && sim_context_error(stream->ctx) == CUDA_SUCCESS)
            r = CUDA_ERROR_INVALID_VALUE;
    } else {
        r = queue(stream, &work, &src, &dst);
    }
    sim_stream_unref(stream);
    return r;
}

/* Whichever device's stream makes a copy, the current one's rights count (measured on two H200s).
 */
CUresult sim_copy(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode)
{
    struct sim_context *ctx;
    struct sim_stream *stream;
    CUresult r = sim_stream_find(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    return sim_copy_for(shape, handle, mode,
                        sim_current(&ctx) == CUDA_SUCCESS ? ctx->device : stream->ctx->device);
}

/* Work of the legacy stream of another context comes before what `stream` is given from
 * here on; `back`: the other way round. */
static void join(struct sim_stream *stream, struct sim_stream *legacy, bool back)
{
    struct sim_stream *first = back ? stream : legacy, *then = back ? legacy : stream;
    struct sim_work nothing = {.kind = SIM_WORK_EMPTY};
    if (stream->ctx != legacy->ctx && sim_submit(first, &nothing) == CUDA_SUCCESS)
        sim_stream_wait_point(then, sim_stream_point(first));
}

static bool lets_in(const struct sim_context *memory, const struct sim_context *user)
{
    return user->device == memory->device || user->peer[memory->device];
}

/* Both contexts must exist, and a capture takes no copy between devices without peer access (two
 * H200s: 900); with unified addressing the addresses alone say where the bytes are.
 * Without a stream the copy is in order with the work of the current device and of both named ones
 * (CUDA Runtime API, cudaMemcpyPeer). */
CUresult sim_copy_peer(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode)
{
    struct sim_context *a = sim_context_of(shape->reserved0), *b = sim_context_of(shape->reserved1);
    struct sim_stream *stream;
    if (!a || !b || !a->alive || !b->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = sim_stream_find(handle, &stream);
    if (r == CUDA_SUCCESS && stream->capture && !lets_in(a, b) && !lets_in(b, a))
        r = sim_capture_unsafe_stream(stream);
    if (r != CUDA_SUCCESS || mode == SIM_COPY_ASYNC)
        return r != CUDA_SUCCESS ? r : sim_copy(shape, handle, mode);
    join(stream, a->legacy, false);
    join(stream, b->legacy, false);
    r = sim_copy(shape, handle, mode);
    join(stream, a->legacy, true);
    join(stream, b->legacy, true);
    return r;
}
