/* SPDX-License-Identifier: MIT */
/* Nodes of several copies (CUDA 13.5), which captured batches become. */
#include "copy.h"
#include "graph_work.h"
#include <stdlib.h>
#include <string.h>

static void *keep(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    if (bytes)
        memcpy(to, from, bytes);
    return to;
}

static CUDA_MEMCPY3D line(const struct sim_batch *b, size_t i)
{
    return sim_copy_linear(CU_MEMORYTYPE_UNIFIED, b->dsts[i], CU_MEMORYTYPE_UNIFIED, b->srcs[i],
                           b->sizes[i]);
}

CUresult sim_work_of_batch(struct sim_work *out, const struct sim_batch_node *p, int device)
{
    const size_t n = p->count;
    if (!n || !p->dsts || !p->srcs || !p->sizes || !p->attributes || !p->indices ||
        !p->attribute_count)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_batch *b = calloc(1, sizeof *b);
    *b = (struct sim_batch){.count = n,
                            .dsts = keep(p->dsts, n * sizeof *b->dsts),
                            .srcs = keep(p->srcs, n * sizeof *b->srcs),
                            .sizes = keep(p->sizes, n * sizeof *b->sizes),
                            .attributes =
                                keep(p->attributes, p->attribute_count * sizeof *b->attributes),
                            .indices = keep(p->indices, p->attribute_count * sizeof *b->indices),
                            .attribute_count = p->attribute_count,
                            .device = device};
    *out = (struct sim_work){.kind = SIM_WORK_BATCH, .u.batch = b};
    for (size_t i = 0; i < n; i++) {
        CUDA_MEMCPY3D shape = line(b, i);
        if (b->sizes[i] && sim_copy_check(&shape, device) != CUDA_SUCCESS) {
            sim_work_free(out);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

void sim_batch_params(const struct sim_batch *b, struct sim_batch_node *p)
{
    p->count = b->count;
    p->dsts = b->dsts;
    p->srcs = b->srcs;
    p->sizes = b->sizes;
    p->attributes = b->attributes;
    p->indices = b->indices;
    p->attribute_count = b->attribute_count;
}

struct sim_batch *sim_batch_clone(const struct sim_batch *b)
{
    struct sim_batch_node p;
    struct sim_work copy;
    sim_batch_params(b, &p);
    return sim_work_of_batch(&copy, &p, b->device) == CUDA_SUCCESS ? copy.u.batch : NULL;
}

void sim_batch_free(struct sim_batch *b)
{
    free(b->dsts);
    free(b->srcs);
    free(b->sizes);
    free(b->attributes);
    free(b->indices);
    free(b);
}

/* One that was right when its node was made may be of freed memory now. */
CUresult sim_batch_run(struct sim_batch *b)
{
    CUresult r = b ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; b && i < b->count && r == CUDA_SUCCESS; i++) {
        struct sim_work work = {
            .kind = SIM_WORK_COPY,
            .u.copy = {.shape = line(b, i), .device = b->device, .link = b->device}};
        r = b->sizes[i] ? sim_copy_run(&work) : CUDA_SUCCESS;
    }
    return r;
}
