/* SPDX-License-Identifier: MIT */
/* Selects the copies of pageable memory that threads and the copy engine make together. */
#include "copy/parallel.h"

#include "base/life.h"
#include "copy/maps.h"
#include "copy/pipeline.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/passthrough.h"
#include "ledger/rules.h"

/* Pageable memory: unknown to the driver.  Calls may name any address as host memory. */
static bool pageable(const struct zc_operand *b)
{
    unsigned type;
    bool named = b->side == ZC_SIDE_HOST || b->side == ZC_SIDE_ANY;
    if (!named || b->real != ZC_KIND_PAGEABLE || !b->address || (b->block && !b->extent))
        return false;
    return zc_real.cuPointerGetAttribute &&
           zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->address) !=
               CUDA_SUCCESS;
}

/* Device memory, with the whole range inside a block; otherwise the driver would refuse. */
static bool on_device(const struct zc_operand *b, uint64_t bytes)
{
    return b->block && b->asked == ZC_KIND_DEVICE && b->real == ZC_KIND_DEVICE &&
           bytes <= b->block->base + b->block->size - b->address;
}

/* Who copies it: as the block's rule says, else as [defaults] says. */
static bool by_threads(const struct zc_operand *host)
{
    const struct zc_policy *policy = zc_rules();
    const struct zc_rule *rule = host->extent ? &policy->rules[host->block->rule]
                                 : policy->needs & ZC_NEED_PAGEABLE_COPY
                                     ? zc_passthrough_rule(host->address)
                                     : NULL;
    return (rule && rule->given & ZC_KEY_BIT(ZC_KEY_RULE_PAGEABLE_COPY)
                ? rule->pageable_copy
                : policy->pageable_copy) == ZC_PAGEABLE_COPY_PARALLEL;
}

static bool copy(struct zc_copy *c)
{
    struct zc_pipeline p = {.c = c};
    p.in = pageable(&c->src) && on_device(&c->dst, c->bytes);
    if (!p.in && !(pageable(&c->dst) && on_device(&c->src, c->bytes)))
        return false;
    if (!by_threads(p.in ? &c->src : &c->dst))
        return false;
    /* The driver's asynchronous copy to the device need not wait for its stream; this one would.  A
     * stream of another device can't record the pipeline's events. */
    if (c->async && !(p.in ? zc_stream_idle : zc_stream_here)(c->stream, c->flavour))
        return false;
    p.host = (char *)(p.in ? c->src.address : c->dst.address);
    p.device = p.in ? c->dst.address : c->src.address;
    /* If the CPU may not touch the memory, the driver decides what happens. */
    enum zc_maps_answer answer = zc_maps_ask(p.host, c->bytes, !p.in);
    p.reachable = answer == ZC_MAPS_YES;
    c->result = CUDA_SUCCESS;
    if (answer == ZC_MAPS_NO || !zc_pipeline_run(&p))
        return false;
    *(p.in ? &c->src.real : &c->dst.real) = ZC_KIND_PINNED;
    return true;
}

/* Every copy of the program passes here, so the most common exclusions are tested first. */
bool zc_parallel_copy(struct zc_copy *c)
{
    const struct zc_policy *policy = zc_rules();
    if (c->bytes < ZC_PASSTHROUGH_MIN ||
        (policy->pageable_copy != ZC_PAGEABLE_COPY_PARALLEL &&
         !(policy->needs & ZC_NEED_PAGEABLE_COPY)) ||
        !c->linear || c->set || zc_copy_peers(c) || zc_capture_any() || zc_life_closing())
        return false;
    return copy(c);
}
