/* SPDX-License-Identifier: MIT */
/* Copies by the CPU, at once or in the order of their stream. */
#include "copy/cpu.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "driver/stream.h"
#include "ledger/unwind.h"
#include "memory/workers.h"

/* Up to here a line is short. */
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

static bool is_mapped(const struct zc_operand *b)
{
    return zc_operand_converted(b) &&
           (b->block->place == ZC_PLACE_MAPPED ||
            ((b->block->place == ZC_PLACE_SHARED || b->block->place == ZC_PLACE_VMM) &&
             b->real == ZC_KIND_PINNED));
}

/* True for memory that the CPU may copy.  An address outside the ledger that a call names as host
 * memory may still be device memory unknown to libzc: unified addressing allows that.  One that a
 * call leaves open may be nobody's, which the driver refuses. */
static bool cpu_side(const struct zc_operand *b)
{
    if (is_mapped(b))
        return true;
    if (b->block)
        return !zc_is_mapping(b->block) && (b->real == ZC_KIND_PINNED || b->extent);
    return b->real == ZC_KIND_PAGEABLE && !zc_memory_type(b->address) &&
           (b->side == ZC_SIDE_ANY ? zc_readable(b->address) : b->address != 0);
}

static bool cpu_is_pageable(const struct zc_operand *b)
{
    return b->real == ZC_KIND_PAGEABLE || b->staged;
}

static struct job job_of(const struct zc_copy *c)
{
    struct job job = {.dst = (char *)c->dst.address,
                      .src = (const char *)c->src.address,
                      .extent = {c->bytes, 1, 1}};
    for (int i = 0; i < 3 && c->shape == ZC_SHAPE_STRIDED; i++)
        job.extent[i] = c->extent[i];
    job.dst_step[1] = c->dst.pitch;
    job.dst_step[2] = c->dst.slice;
    job.src_step[1] = c->src.pitch;
    job.src_step[2] = c->src.slice;
    return job;
}

static void job_run(const struct job *job)
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
    job_run(&p->job);
    put_record(p);
}

static void cpu_copy_now(const struct zc_copy *c)
{
    struct job job = job_of(c);
    job_run(&job);
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
static void copy_drained(struct zc_copy *c)
{
    c->result = zc_copy_drain(c);
    if (c->result == CUDA_SUCCESS)
        cpu_copy_now(c);
}

/* Puts the copy into the stream.  The driver's own copy between two host ranges would wait for the
 * stream, and a program whose kernel waits for something after the call would deadlock. */
static void copy_in_order(struct zc_copy *c, bool stage)
{
    size_t record = record_size(sizeof(struct pending) + (stage ? c->bytes : 0));
    struct pending *p = get_record(record);
    if (!p) {
        copy_drained(c);
        return;
    }
    p->job = job_of(c);
    p->record = record;
    if (stage) {
        memcpy(p->staged, p->job.src, c->bytes);
        p->job.src = p->staged;
    }
    c->result = ZC_FLAVOURED(c->flavour, cuLaunchHostFunc)(c->stream, run_pending, p);
    if (c->result != CUDA_SUCCESS)
        put_record(p);
}

void zc_cpu_copy(struct zc_copy *c)
{
    if (c->way == ZC_WAY_CPU)
        cpu_copy_now(c);
    else if (c->way == ZC_WAY_CPU_WAIT)
        copy_drained(c);
    else
        copy_in_order(c, c->way == ZC_WAY_CPU_STAGED);
}

static bool is_elsewhere(const struct zc_operand *b)
{
    return zc_operand_converted(b) && b->real != ZC_KIND_DEVICE;
}

/* The driver knows memory that libzc did not make better than the ledger does, which may list a
 * module's managed variable as device memory. */
static bool device_memory(const struct zc_operand *b)
{
    if (b->side == ZC_SIDE_NONE || b->side == ZC_SIDE_ARRAY)
        return true;
    if (zc_operand_converted(b))
        return b->asked == ZC_KIND_DEVICE;
    return zc_memory_type(b->address) == CU_MEMORYTYPE_DEVICE && !zc_memory_managed(b->address);
}

/* CUDA Runtime API, "API synchronization behavior". */
bool zc_cpu_unwaited(const struct zc_copy *c)
{
    return (is_elsewhere(&c->dst) || is_elsewhere(&c->src)) && device_memory(&c->dst) &&
           device_memory(&c->src);
}

/* The driver refuses to write what the program has registered to be read. */
static bool read_only(const struct zc_operand *b)
{
    return b->block && (b->block->flags & ZC_BLOCK_READ_ONLY);
}

bool zc_cpu_able(const struct zc_copy *c)
{
    return cpu_side(&c->dst) && cpu_side(&c->src) && !read_only(&c->dst);
}

uint32_t zc_cpu_facts(const struct zc_copy *c)
{
    bool line = c->shape == ZC_SHAPE_LINE, copy = line || c->shape == ZC_SHAPE_STRIDED;
    bool in_order = c->order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    bool in_call = c->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    return ZC_FACT_IF(MAPPED, copy && (is_mapped(&c->dst) || is_mapped(&c->src))) |
           ZC_FACT_IF(SHORT, line && c->bytes <= STAGE_MAX && !in_order) |
           ZC_FACT_IF(TO_PAGEABLE, cpu_is_pageable(&c->dst)) |
           ZC_FACT_IF(FROM_PAGEABLE, cpu_is_pageable(&c->src) || in_call);
}
