/* How bytes get from one side of a copy to the other when pages of a pair are among them. */
#include "shared/route.h"

#include <sys/mman.h>

#include "place/copy.h"
#include "place/ring.h"
#include "place/stream.h"
#include "place/workers.h"
#include "shared/pair.h"

#define BOUNCE ((size_t)1 << 20) /* Bytes of the memory that stands in for a slot of the ring. */

/* Where the CPU finds an address of a side, and in *n how far it reaches. */
static uintptr_t cpu_view(const struct zc_box *b, CUdeviceptr address, size_t *n)
{
    uint64_t end, low;
    if (!b->pair || b->host)
        return (uintptr_t)address;
    low = address - b->pair->pages.base;
    uintptr_t at = zc_coherent_alias(&b->pair->pages, low, low + *n, &end);
    *n = (size_t)(end - low);
    return at;
}

static CUresult link_copy(const struct zc_copy *c, CUdeviceptr device, void *cpu, size_t n, bool in)
{
    CUresult result =
        in ? ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(device, cpu, n, c->stream)
           : ZC_FLAVOURED(c->flavour, cuMemcpyDtoHAsync_v2)(cpu, device, n, c->stream);
    return result != CUDA_SUCCESS ? result : zc_stream_drain(c->stream, c->flavour);
}

/* The driver would read and write what the GPU sees at the address, so it gets another one. */
static CUresult through(struct zc_copy *c, char *memory, size_t cap, CUdeviceptr device, char *cpu,
                        size_t n, bool in)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t at = 0, step; at < n && result == CUDA_SUCCESS; at += step) {
        step = n - at < cap ? n - at : cap;
        if (in)
            zc_workers_copy(memory, cpu + at, step);
        result = link_copy(c, device + at, memory, step, in);
        if (!in && result == CUDA_SUCCESS)
            zc_workers_copy(cpu + at, memory, step);
    }
    return result;
}

static CUresult bounced(struct zc_copy *c, CUdeviceptr device, char *cpu, size_t n, bool in)
{
    unsigned slot = zc_ring_take();
    char *ring = zc_ring_memory(slot), *memory = ring;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!ring)
        memory = mmap(NULL, BOUNCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        result = through(c, memory, ring ? ZC_RING_SLOT : BOUNCE, device, cpu, n, in);
    if (!ring && memory != MAP_FAILED)
        munmap(memory, BOUNCE);
    zc_ring_give(slot, NULL);
    return result;
}

static bool on_cpu(const struct zc_box *b)
{
    return b->pair || zc_copy_cpu_side(b);
}

CUresult zc_shared_route(struct zc_copy *c, CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    bool to_cpu = on_cpu(&c->dst), from_cpu = on_cpu(&c->src);
    CUresult result = CUDA_SUCCESS;
    for (size_t step; n && result == CUDA_SUCCESS; dst += step, src += step, n -= step) {
        step = n;
        uintptr_t to = cpu_view(&c->dst, dst, &step), from = cpu_view(&c->src, src, &step);
        if (to_cpu && from_cpu)
            zc_workers_copy((void *)to, (const void *)from, step);
        else if (from_cpu)
            result = bounced(c, dst, (char *)from, step, true);
        else
            result = bounced(c, src, (char *)to, step, false);
        c->part[to_cpu && from_cpu ? ZC_CPU : ZC_MOVED] += step;
    }
    return result;
}
