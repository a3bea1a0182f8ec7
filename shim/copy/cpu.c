/* SPDX-License-Identifier: MIT */
/* Transfers with a mapped block on at least one side: the CPU does them where both sides are its
 * own memory, because there is no device memory to move anything to. */
#include "copy/cpu.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/life.h"
#include "base/memory.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "memory/place.h"
#include "memory/workers.h"

/* Up to here a line from pageable memory that must wait for its stream is staged, so that the call
 * need not wait.  Above, the call waits: CUDA Driver API, "API synchronization behavior", allows
 * both. */
#define STAGE_MAX ((uint64_t)1 << 20)

/* A copy between two ranges of host memory. */
struct job {
    char *dst;
    const char *src;
    size_t extent[3];   /* Bytes of a row, rows of a slice, slices. */
    size_t dst_step[3]; /* Bytes from row to row [1] and from slice to slice [2]. */
    size_t src_step[3];
};

/* A job that waits for its stream. */
struct pending {
    struct job job;
    size_t record; /* Allocated bytes of this record, with the staged data. */
    char staged[];
};

static bool mapped(const struct zc_operand *b)
{
    return zc_operand_converted(b) && b->block->place == ZC_PLACE_MAPPED;
}

/* True for memory that the CPU may copy.  An address outside the ledger that a call names as host
 * memory may still be device memory unknown to libzc: unified addressing allows that. */
bool zc_copy_cpu_side(const struct zc_operand *b)
{
    unsigned type;
    if (mapped(b))
        return true;
    if (b->block)
        return b->real == ZC_KIND_PINNED || b->extent;
    if (b->real != ZC_KIND_PAGEABLE || !b->address)
        return false;
    return zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->address) !=
           CUDA_SUCCESS;
}

static bool pageable(const struct zc_operand *b)
{
    return b->real == ZC_KIND_PAGEABLE || b->staged;
}

/* Reading write-combined memory by the CPU is many times slower than by DMA (CUDA C++ Programming
 * Guide, "Write-Combining Memory"). */
static bool slow_to_read(const struct zc_operand *b)
{
    return mapped(b) && b->block->rule >= 0 && zc_rules()->rules[b->block->rule].write_combined;
}

static struct job job_of(const struct zc_copy *c)
{
    struct job job = {.dst = (char *)c->dst.address,
                      .src = (const char *)c->src.address,
                      .extent = {c->bytes, 1, 1}};
    for (int i = 0; i < 3 && c->strided; i++)
        job.extent[i] = c->extent[i];
    job.dst_step[1] = c->dst.pitch;
    job.dst_step[2] = c->dst.slice;
    job.src_step[1] = c->src.pitch;
    job.src_step[2] = c->src.slice;
    return job;
}

static void run(const struct job *job)
{
    for (size_t z = 0; z < job->extent[2]; z++)
        for (size_t y = 0; y < job->extent[1]; y++)
            zc_workers_copy(job->dst + z * job->dst_step[2] + y * job->dst_step[1],
                            job->src + z * job->src_step[2] + y * job->src_step[1], job->extent[0]);
}

/* The arena keeps freed memory for requests of the same size only.  So small records come from it,
 * in few sizes; others get pages of their own, which are given back. */
#define RECORD_FIRST ((size_t)256)
#define RECORD_MAX ((size_t)16 << 10)

static size_t record_size(size_t bytes)
{
    size_t size = RECORD_FIRST;
    while (size < bytes)
        size *= 4;
    return size <= RECORD_MAX ? size : bytes;
}

static struct pending *get_record(size_t size)
{
    if (size <= RECORD_MAX)
        return zc_arena_get(size);
    void *p = zc_memory_map(NULL, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

static void put_record(struct pending *p)
{
    if (p->record <= RECORD_MAX)
        zc_arena_put(p, p->record);
    else
        zc_memory_unmap(p, p->record);
}

static void CUDA_CB run_pending(void *data)
{
    struct pending *p = data;
    run(&p->job);
    put_record(p);
}

static bool copy_now(struct zc_copy *c)
{
    struct job job = job_of(c);
    run(&job);
    c->outcome = ZC_CPU;
    return true;
}

CUresult zc_copy_drain(const struct zc_copy *c)
{
    const CUcontext named[] = {c->dst.context, c->src.context};
    CUresult result = zc_stream_drain(c->stream, c->flavour);
    for (int i = 0; i < 2 && !c->async && result == CUDA_SUCCESS; i++)
        if (named[i])
            result = zc_stream_drain_context(named[i]);
    return result;
}

/* Waits as the call would, and copies. */
static bool copy_drained(struct zc_copy *c)
{
    c->result = zc_copy_drain(c);
    return c->result != CUDA_SUCCESS || copy_now(c);
}

/* Puts the copy into the stream.  The driver's own copy between two host ranges would wait for the
 * stream, and a program whose kernel waits for something after the call would deadlock. */
static bool copy_in_order(struct zc_copy *c, bool stage)
{
    size_t record = record_size(sizeof(struct pending) + (stage ? c->bytes : 0));
    struct pending *p = get_record(record);
    if (!p)
        return copy_drained(c);
    p->job = job_of(c);
    p->record = record;
    if (stage) {
        memcpy(p->staged, p->job.src, c->bytes);
        p->job.src = p->staged;
    }
    c->outcome = ZC_CPU;
    c->result = zc_stream_call(c->stream, c->flavour, run_pending, p);
    if (c->result != CUDA_SUCCESS)
        put_record(p);
    return true;
}

static bool elsewhere(const struct zc_operand *b)
{
    return zc_operand_converted(b) && b->real != ZC_KIND_DEVICE;
}

/* The driver knows memory that libzc did not make better than the ledger does, which may list a
 * module's managed variable as device memory. */
static bool device_memory(const struct zc_operand *b)
{
    unsigned type, managed;
    if (b->side == ZC_SIDE_NONE || b->side == ZC_SIDE_ARRAY)
        return true;
    if (zc_operand_converted(b))
        return b->asked == ZC_KIND_DEVICE;
    return zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->address) ==
               CUDA_SUCCESS &&
           zc_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, b->address) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE && !managed;
}

/* CUDA Runtime API, "API synchronization behavior".  A copy that names a pair waits, because its
 * address may mean the host block. */
bool zc_place_unwaited(const struct zc_copy *c)
{
    return c->sync && zc_await_any() && (elsewhere(&c->dst) || elsewhere(&c->src)) &&
           (c->set || !(c->dst.pair || c->src.pair)) && !zc_capture_any() &&
           device_memory(&c->dst) && device_memory(&c->src);
}

bool zc_place_copy(struct zc_copy *c)
{
    if (!(c->linear || c->strided) || !(mapped(&c->dst) || mapped(&c->src)))
        return false;
    if (!zc_copy_well_formed(c))
        return false;
    /* During a capture waiting and querying are forbidden; the driver captures or copies itself. */
    if (zc_capture_any() || !zc_copy_cpu_side(&c->dst) || !zc_copy_cpu_side(&c->src) ||
        slow_to_read(&c->src))
        return false;
    if (!c->async)
        return copy_drained(c);
    if (zc_stream_idle(c->stream, c->flavour))
        return copy_now(c);
    /* The meaning for pageable memory: a copy to it is complete when the call returns, and a copy
     * from it has read it (CUDA Driver API, "API synchronization behavior"). */
    if (pageable(&c->dst))
        return copy_drained(c);
    if (!pageable(&c->src))
        return copy_in_order(c, false);
    return c->linear && c->bytes <= STAGE_MAX ? copy_in_order(c, true) : copy_drained(c);
}
