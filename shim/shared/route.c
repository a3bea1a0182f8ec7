/* SPDX-License-Identifier: MIT */
/* Moves the bytes of a copy when pages of a pair are among them. */
#include "shared/route.h"

#include "base/memory.h"
#include "copy/cpu.h"
#include "copy/ring.h"
#include "driver/stream.h"
#include "memory/workers.h"
#include "shared/sides.h"

#define BOUNCE ((size_t)1 << 20) /* Bytes of the memory that replaces a slot of the ring. */

/* The address at which the CPU sees an open side; *n is how far that reaches. */
static uintptr_t cpu_view(const struct zc_operand *b, CUdeviceptr address, size_t *n)
{
    uint64_t end, low;
    if (!b || !b->pair || b->host)
        return (uintptr_t)address;
    low = address - b->pair->pages.base;
    uintptr_t at = zc_coherent_alias(&b->pair->pages, low, low + *n, &end);
    *n = (size_t)(end - low);
    return at;
}

/* Copies a part by the CPU.  An address that belongs to neither side is libzc's own memory. */
static CUresult cpu_copy(struct zc_sides *s, CUdeviceptr to, CUdeviceptr from, size_t n)
{
    CUresult result = zc_sides_open(s);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t step; n; to += step, from += step, n -= step) {
        step = n;
        uintptr_t target = cpu_view(s->dst, to, &step), source = cpu_view(s->src, from, &step);
        zc_workers_copy((void *)target, (const void *)source, step);
    }
    zc_sides_close(s);
    return CUDA_SUCCESS;
}

/* The stream for the driver's part of a copy. */
struct lane {
    CUstream stream;
    enum zc_flavour flavour;
    bool own; /* Created for this copy, in a context that was made current for it. */
};

/* A context that the call names may reach memory that another device's stream may not.  The call's
 * stream is drained already, and a stream of its own waits for nothing. */
static CUresult open_lane(const struct zc_copy *c, CUcontext named, struct lane *lane)
{
    CUcontext popped;
    *lane = (struct lane){c->stream, c->flavour, false};
    if (!named || named == zc_stream_context(c->stream, c->flavour))
        return CUDA_SUCCESS;
    CUresult result = zc_real.cuCtxPushCurrent_v2(named);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING);
    lane->own = result == CUDA_SUCCESS;
    if (!lane->own)
        zc_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

static void close_lane(const struct lane *lane)
{
    CUcontext popped;
    if (!lane->own)
        return;
    zc_real.cuStreamDestroy_v2(lane->stream);
    zc_real.cuCtxPopCurrent_v2(&popped);
}

static CUresult link_copy(const struct lane *lane, CUdeviceptr device, void *cpu, size_t n, bool in)
{
    CUstream stream = lane->stream;
    CUresult result =
        in ? ZC_FLAVOURED(lane->flavour, cuMemcpyHtoDAsync_v2)(device, cpu, n, stream)
           : ZC_FLAVOURED(lane->flavour, cuMemcpyDtoHAsync_v2)(cpu, device, n, stream);
    return result != CUDA_SUCCESS ? result : zc_stream_drain(stream, lane->flavour);
}

/* The driver would see the GPU's pages at the address, so it gets buffers instead. */
static CUresult through(struct zc_copy *c, char *memory, size_t cap, struct zc_sides *s)
{
    struct lane lane;
    CUresult result = open_lane(c, s->src ? c->dst.context : c->src.context, &lane);
    for (size_t at = 0, step; at < s->bytes && result == CUDA_SUCCESS; at += step) {
        step = s->bytes - at < cap ? s->bytes - at : cap;
        if (s->src) {
            result = cpu_copy(s, (CUdeviceptr)memory, s->from + at, step);
            if (result == CUDA_SUCCESS)
                result = link_copy(&lane, s->to + at, memory, step, true);
        } else {
            result = link_copy(&lane, s->from + at, memory, step, false);
            if (result == CUDA_SUCCESS)
                result = cpu_copy(s, s->to + at, (CUdeviceptr)memory, step);
        }
    }
    close_lane(&lane);
    return result;
}

static CUresult bounced(struct zc_copy *c, struct zc_sides *s)
{
    unsigned slot = zc_ring_take();
    char *ring = zc_ring_memory(slot), *memory = ring;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!ring)
        memory =
            zc_memory_map(NULL, BOUNCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        result = through(c, memory, ring ? ZC_RING_SLOT : BOUNCE, s);
    if (!ring && memory != MAP_FAILED)
        zc_memory_unmap(memory, BOUNCE);
    zc_ring_give(slot, NULL, NULL);
    return result;
}

/* True for memory that the CPU copies, even host blocks that the program has registered. */
static bool on_cpu(const struct zc_operand *b)
{
    return b->pair || zc_copy_cpu_side(b) || (b->block && b->real == ZC_KIND_PAGEABLE);
}

CUresult zc_shared_route(struct zc_copy *c, CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    bool to_cpu = on_cpu(&c->dst), from_cpu = on_cpu(&c->src), both = to_cpu && from_cpu;
    struct zc_sides sides = {.copy = c,
                             .dst = to_cpu ? &c->dst : NULL,
                             .src = from_cpu ? &c->src : NULL,
                             .to = dst,
                             .from = src,
                             .bytes = n};
    CUresult result = both ? cpu_copy(&sides, dst, src, n) : bounced(c, &sides);
    if (result == CUDA_SUCCESS)
        c->part[both ? ZC_CPU : ZC_MOVED] += n;
    return result;
}
