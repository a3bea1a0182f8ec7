/* SPDX-License-Identifier: MIT */
/* Copies and sets that touch a pair. */
#include "shared/transfer.h"

#include <string.h>

#include "copy/cpu.h"
#include "copy/staged.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/overlay.h"
#include "memory/workers.h"
#include "shared/hostblock.h"
#include "shared/pair.h"
#include "shared/report.h"
#include "shared/route.h"
#include "shared/sides.h"

/* True if an address of a pair means the host block when the call does not say: a device block
 * freed in stream order stays only until its stream reaches the free. */
static bool host_alone(const struct zc_operand *b)
{
    return b->side == ZC_SIDE_ANY && b->block &&
           __atomic_load_n(&b->block->state, __ATOMIC_ACQUIRE) == ZC_BLOCK_FREEING;
}

bool zc_shared_resolve(struct zc_operand *b)
{
    struct zc_shared *p = zc_shared_at(b->address);
    if (!p || (!b->block && !zc_shared_has_host(p)))
        return false;
    b->pair = p;
    b->host = zc_shared_has_host(p) &&
              (b->side == ZC_SIDE_HOST || !__atomic_load_n(&p->pages.device, __ATOMIC_ACQUIRE) ||
               host_alone(b));
    if (b->host)
        b->block = zc_hostblock_find(b->address);
    return true;
}

static bool refuse(struct zc_copy *c, const struct zc_shared *p, CUresult code, const char *why)
{
    c->result = zc_shared_refused(p, c->fn, code, why);
    c->answered = true;
    return true;
}

static uint64_t offset_of(const struct zc_shared *p, CUdeviceptr address)
{
    return address - p->pages.base;
}

typedef enum zc_effect (*step_fn)(struct zc_coherent *pages, uint64_t low, uint64_t high, void *arg,
                                  uint64_t *at_out);

/* Makes a step of the state machine, under the lock. */
static CUresult apply(struct zc_copy *c, step_fn step, uint64_t low, uint64_t high, void *arg)
{
    struct zc_shared *p = c->dst.pair;
    struct zc_shared_hold hold;
    uint64_t at = low;
    if (!zc_shared_lock(p, &hold)) {
        c->answered = true; /* The program has freed the block meanwhile. */
        return CUDA_ERROR_INVALID_VALUE;
    }
    enum zc_effect v = step(&p->pages, low, high, arg, &at);
    zc_shared_unlock(p, &hold);
    return zc_sides_answer(c, p, v, at);
}

static enum zc_effect step_in(struct zc_coherent *pages, uint64_t low, uint64_t high, void *arg,
                              uint64_t *at_out)
{
    if (zc_coherent_cooling(pages)) {
        enum zc_effect v = zc_coherent_cool(pages);
        if (v != ZC_EFFECT_DONE)
            return v;
    }
    return zc_coherent_to_device(pages, low, high, arg, at_out);
}

static enum zc_effect step_out(struct zc_coherent *pages, uint64_t low, uint64_t high, void *arg,
                               uint64_t *at_out)
{
    return zc_coherent_to_host(pages, low, high, arg, at_out);
}

/* Copies between both sides of one pair, at the same offset. */
static CUresult between(struct zc_copy *c, CUdeviceptr address, size_t n)
{
    struct zc_moved moved = {0, 0};
    uint64_t low = offset_of(c->dst.pair, address);
    CUresult result = apply(c, c->src.host ? step_in : step_out, low, low + n, &moved);
    c->part[ZC_ELIDED] += moved.elided;
    c->part[ZC_CPU] += moved.copied;
    return result;
}

/* Prepares the target's bytes for the driver. */
static CUresult prepare(struct zc_copy *c)
{
    struct zc_sides sides = {.copy = c, .dst = &c->dst, .to = c->dst.address, .bytes = c->dst.span};
    CUresult result = zc_sides_open(&sides);
    if (result == CUDA_SUCCESS)
        zc_sides_close(&sides);
    return result;
}

static bool same_place(const struct zc_copy *c, CUdeviceptr dst, CUdeviceptr src)
{
    return c->dst.pair && c->dst.pair == c->src.pair && c->dst.host != c->src.host && dst == src;
}

static CUresult line(struct zc_copy *c, CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    if (same_place(c, dst, src))
        return between(c, dst, n);
    if (c->dst.pair && !c->dst.host && c->src.side == ZC_SIDE_HOST && c->src.pair != c->dst.pair)
        zc_shared_mismatch(c->dst.pair, src);
    return zc_shared_route(c, dst, src, n);
}

/* True if the rows of both sides are contiguous, so the copy is one line. */
static bool dense(const struct zc_copy *c)
{
    const size_t *e = c->extent;
    return (e[1] < 2 || (c->dst.pitch == e[0] && c->src.pitch == e[0])) &&
           (e[2] < 2 || (c->dst.slice == e[0] * e[1] && c->src.slice == e[0] * e[1]));
}

static CUresult box(struct zc_copy *c)
{
    CUresult result = CUDA_SUCCESS;
    if (c->shape == ZC_SHAPE_LINE || dense(c))
        return line(c, c->dst.address, c->src.address, c->bytes);
    for (size_t z = 0; z < c->extent[2]; z++)
        for (size_t y = 0; y < c->extent[1] && result == CUDA_SUCCESS; y++)
            result = line(c, c->dst.address + z * c->dst.slice + y * c->dst.pitch,
                          c->src.address + z * c->src.slice + y * c->src.pitch, c->extent[0]);
    return result;
}

static void fill(char *to, size_t n, unsigned value, uint8_t unit)
{
    if (unit == 1) {
        memset(to, (int)value, n);
        return;
    }
    for (size_t at = 0; at < n; at += unit)
        memcpy(to + at, &value, unit); /* Little-endian, as every machine that runs CUDA. */
}

/* Sets bytes of the device block where the CPU can reach them. */
static CUresult set_line(struct zc_copy *c, CUdeviceptr dst, size_t n)
{
    struct zc_shared *p = c->dst.pair;
    struct zc_sides sides = {.copy = c, .dst = &c->dst, .to = dst, .bytes = n};
    uint64_t low = offset_of(p, dst), high = low + n, end;
    CUresult result = zc_sides_open(&sides);
    if (result != CUDA_SUCCESS)
        return result;
    for (; low < high; low = end) {
        uintptr_t at = zc_coherent_alias(&p->pages, low, high, &end);
        fill((char *)at, end - low, c->value, c->unit);
    }
    zc_sides_close(&sides);
    c->part[ZC_CPU] += n;
    return CUDA_SUCCESS;
}

static CUresult set(struct zc_copy *c)
{
    CUresult result = CUDA_SUCCESS;
    if (c->extent[1] < 2)
        return set_line(c, c->dst.address, c->bytes);
    for (size_t y = 0; y < c->extent[1] && result == CUDA_SUCCESS; y++)
        result = set_line(c, c->dst.address + y * c->dst.pitch, c->extent[0]);
    return result;
}

/* The GPU's page table shows the device block.  If the GPU may write it, the driver sets it in
 * stream order, and the call need not wait. */
static bool set_by_driver(struct zc_copy *c)
{
    c->result = prepare(c);
    return c->result != CUDA_SUCCESS;
}

/* A copy to the device over pages that both sides share needs no wait: nothing that still runs on
 * the stream writes them. */
static bool nothing_to_do(const struct zc_copy *c)
{
    const struct zc_shared *p = c->dst.pair;
    return c->async && c->shape == ZC_SHAPE_LINE && same_place(c, c->dst.address, c->src.address) &&
           c->src.host &&
           __atomic_load_n(&p->pages.count[ZC_PAGE_SAME], __ATOMIC_ACQUIRE) == p->pages.pages;
}

static void note_elision(struct zc_copy *c)
{
    struct zc_shared *p = c->dst.pair ? c->dst.pair : c->src.pair;
    if (!p) /* Another thread has freed the device block, so nothing was elided. */
        return;
    __atomic_fetch_add(&p->elided_bytes, c->part[ZC_ELIDED], __ATOMIC_RELAXED);
    if (c->part[ZC_ELIDED] == c->bytes)
        __atomic_fetch_add(&p->elided_copies, 1, __ATOMIC_RELAXED);
}

static bool two_views(const struct zc_operand *b)
{
    return b->pair && zc_shared_has_host(b->pair);
}

/* The driver alone carries out captured copies, each time the graph is launched.  It can write the
 * device block, which the GPU's page table shows.  But it may read small sources with the CPU,
 * which may see something else if there is a host block. */
static bool captured(struct zc_copy *c)
{
    bool writes = !c->dst.host && c->dst.side == ZC_SIDE_DEVICE && !c->src.pair &&
                  (c->shape == ZC_SHAPE_SET || !zc_copy_cpu_side(&c->src));
    bool exact = writes || (!two_views(&c->dst) && !two_views(&c->src));
    if (exact && (!c->dst.pair || c->dst.pair->pages.writable))
        return false;
    return refuse(c, c->dst.pair ? c->dst.pair : c->src.pair, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  exact ? "its stream is being captured, and a graph can't write what 'access = "
                          "read' keeps from writing"
                        : "its stream is being captured, and a graph can't do this copy");
}

/* With both sides alive, an address alone does not say which side is meant. */
static bool unclear(const struct zc_operand *b)
{
    return two_views(b) && !b->host && b->side == ZC_SIDE_ANY;
}

static bool one_view(struct zc_shared *p, uint64_t low, uint64_t high)
{
    struct zc_shared_hold hold;
    if (!zc_shared_lock(p, &hold))
        return false;
    bool one = zc_coherent_one_view(&p->pages, low, high);
    zc_shared_unlock(p, &hold);
    return one;
}

/* If host and device block are equal, it does not matter which one is read, nor in which direction
 * one is copied to the other.  In every other case the written side must be known. */
static bool made_clear(struct zc_copy *c)
{
    struct zc_operand *b = &c->src;
    bool target = unclear(&c->dst),
         itself = c->shape == ZC_SHAPE_LINE && c->dst.address == b->address;
    if (!target && !unclear(b))
        return true;
    if (!unclear(b) || (target && !itself))
        return false;
    uint64_t low = offset_of(b->pair, b->address);
    if (!one_view(b->pair, low, low + b->span))
        return false;
    struct zc_block *host = target ? zc_hostblock_find(b->address) : NULL;
    if (host) {
        b->block = host;
        b->asked = (enum zc_kind)host->asked;
    }
    b->host = target;
    return true;
}

/* The driver may read less pinned memory than this with the CPU. */
#define READ_BY_GPU ((uint64_t)64 << 10)

/* Arrays have no address, so the driver makes the copy, and sees what the GPU sees.  It must not
 * find a device block under the host block that it writes. */
static bool by_driver(struct zc_copy *c)
{
    struct zc_operand *b = c->dst.pair ? &c->dst : &c->src;
    const struct zc_coherent *pages = &b->pair->pages;
    uint64_t low = offset_of(b->pair, b->address);
    bool target = b == &c->dst, small = !target && c->bytes < READ_BY_GPU;
    bool one = b->host && target ? pages->count[ZC_PAGE_ALONE] == pages->pages
                                 : zc_coherent_one_view(pages, low, low + b->span);
    if ((b->host || small) && !one)
        return refuse(c, b->pair, CUDA_ERROR_INVALID_VALUE,
                      "host and device block lie apart, and the driver itself copies arrays");
    if (target && !b->host && !pages->writable)
        return refuse(c, b->pair, CUDA_ERROR_INVALID_VALUE,
                      "the driver itself copies arrays, and can't write what 'access = read' keeps "
                      "from writing");
    if (target && !b->host)
        c->result = prepare(c);
    return c->result != CUDA_SUCCESS;
}

static CUresult wait_for_stream(const struct zc_copy *c)
{
    return zc_capture_any() ? zc_staged_wait(c) : zc_copy_drain(c);
}

/* Reads the extent, which lives as long as the program's block; the pair may end meanwhile. */
static bool outside(const struct zc_operand *b)
{
    const struct zc_extent *e = b->pair ? zc_hostheap_extent(b->address) : NULL;
    return e && b->span > zc_extent_base(e) + zc_extent_span(e) - b->address;
}

static void probe_rows(const struct zc_copy *c, const struct zc_operand *b, bool write)
{
    const struct zc_extent *e = zc_hostheap_extent(b->address);
    if (c->shape != ZC_SHAPE_STRIDED) {
        zc_overlay_probe(e, b->address, c->bytes, write);
        return;
    }
    for (size_t z = 0; z < c->extent[2]; z++)
        for (size_t y = 0; y < c->extent[1]; y++)
            zc_overlay_probe(e, b->address + z * b->slice + y * b->pitch, c->extent[0], write);
}

/* A copy of pageable memory faults in the calling thread where the program took rights away, and
 * its handler may restore them.  So this is done before anything is locked. */
static void probe(const struct zc_copy *c)
{
    if (c->src.pair && c->src.host)
        probe_rows(c, &c->src, false);
    if (c->dst.pair && c->dst.host)
        probe_rows(c, &c->dst, true);
}

/* Carries out a copy.  It waits for its stream and its own parts, even while another stream
 * captures. */
static bool carry_out(struct zc_copy *c)
{
    c->result = wait_for_stream(c);
    if (c->result != CUDA_SUCCESS)
        return true;
    if (c->dst.side == ZC_SIDE_ARRAY || c->src.side == ZC_SIDE_ARRAY)
        return by_driver(c);
    c->result = c->shape == ZC_SHAPE_SET ? set(c) : box(c);
    if (c->result == CUDA_SUCCESS)
        note_elision(c);
    return true;
}

bool zc_shared_copy(struct zc_copy *c)
{
    if (outside(&c->dst) || outside(&c->src))
        return refuse(c, c->dst.pair ? c->dst.pair : c->src.pair, CUDA_ERROR_INVALID_VALUE,
                      "the copy leaves it");
    if (c->facts & ZC_FACT_CAPTURED)
        return captured(c);
    if (!made_clear(c))
        return refuse(c, unclear(&c->dst) ? c->dst.pair : c->src.pair, CUDA_ERROR_INVALID_VALUE,
                      "the call leaves open which of the two it means (cudaMemcpyDefault), and "
                      "they differ or it writes one of them");
    probe(c);
    c->part[ZC_MOVED] = c->part[ZC_CPU] = c->part[ZC_ELIDED] = 0;
    if (nothing_to_do(c)) { /* Then nothing else asks the driver about the stream. */
        CUdevice device;
        c->result = zc_stream_device(c->stream, c->flavour, &device);
        c->answered = c->result != CUDA_SUCCESS;
        if (c->answered)
            return true;
        c->part[ZC_ELIDED] = c->bytes;
        note_elision(c);
        return true;
    }
    if (c->shape == ZC_SHAPE_SET && c->dst.pair->pages.writable)
        return set_by_driver(c);
    CUstreamCaptureMode before = zc_capture_relax();
    bool done = carry_out(c);
    zc_capture_restore(before);
    return done;
}

static CUresult keep_out(enum zc_fn fn, CUdeviceptr address, CUresult code, const char *why)
{
    const struct zc_shared *p = zc_shared_at(address);
    return p && zc_shared_has_host(p) ? zc_shared_refused(p, fn, code, why) : CUDA_SUCCESS;
}

CUresult zc_shared_keep_out(enum zc_fn fn, CUdeviceptr address)
{
    return keep_out(fn, address, CUDA_ERROR_NOT_SUPPORTED,
                    "graphs and batches leave it to the driver which of the two they copy");
}

CUresult zc_shared_keep_registered(enum zc_fn fn, CUdeviceptr address)
{
    return keep_out(fn, address, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                    "its pages are registered for the device block, and kernels reach the host "
                    "block by no other pointer");
}
