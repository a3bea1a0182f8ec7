/* SPDX-License-Identifier: MIT */
/* Selects the copies of pageable memory that threads and the copy engine make together. */
#include "copy/parallel.h"

#include <signal.h>

#include "base/life.h"
#include "copy/links.h"
#include "copy/pipeline.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/maps.h"
#include "host/pinned.h"
#include "ledger/rules.h"
#include "memory/crew.h"

/* One H200: 1 GiB is registered in 19 to 28 ms and then copied in 19, in two threads as well,
 * because both need the driver's lock; threads copy it in 24, the ring's making included
 * (tests/gpu/MEASURED.md).  So a block that is copied once gains from this size on, and one that is
 * copied more often loses next to nothing. */
#define FIRST_MIN ((uint64_t)512 << 20)
#define FIRST_CPUS 8u

/* Pageable memory: unknown to the driver.  Calls may name any address as host memory. */
static bool parallel_is_pageable(const struct zc_operand *b)
{
    bool named = b->side == ZC_SIDE_HOST || b->side == ZC_SIDE_ANY;
    return named && b->real == ZC_KIND_PAGEABLE && b->address && (!b->block || b->extent) &&
           !zc_memory_type(b->address);
}

/* A stream of another device can't record the pipeline's events. */
static bool waits_here(const struct zc_copy *c)
{
    return !c->async || zc_stream_here(c->stream, c->flavour);
}

uint32_t zc_parallel_facts(const struct zc_copy *c)
{
    bool in = parallel_is_pageable(&c->src) && zc_operand_on_device(&c->dst, c->bytes);
    bool right = in || (parallel_is_pageable(&c->dst) && zc_operand_on_device(&c->src, c->bytes));
    right =
        right && zc_rules()->pageable_copy == ZC_PAGEABLE_COPY_PARALLEL && (in || waits_here(c));
    return ZC_FACT_IF(THREADS, right) | ZC_FACT_IF(INWARD, right && in);
}

static bool at_once(const struct zc_copy *c)
{
    return waits_here(c) && (!c->async || zc_stream_idle(c->stream, c->flavour));
}

bool zc_parallel_first(const struct zc_copy *c)
{
    const struct zc_operand *host = c->src.extent ? &c->src : &c->dst;
    bool stuck = zc_pinned_stuck(host->extent);
    if ((c->bytes < FIRST_MIN && !stuck) || c->shape != ZC_SHAPE_LINE || zc_copy_peers(c) ||
        zc_life_closing() || !host->extent ||
        !zc_operand_on_device(host == &c->src ? &c->dst : &c->src, c->bytes))
        return false;
    if (stuck)
        return !zc_capture_any() && (at_once(c) || (host == &c->dst && waits_here(c)));
    return zc_pinned_first(host->extent, c->bytes) && at_once(c) && zc_crew_cpus() >= FIRST_CPUS;
}

/* True if a fault ends the process, whichever thread has it. */
static bool faults_end_process(void)
{
    static const int signals[] = {SIGBUS, SIGSEGV};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) != 0 || now.sa_handler != SIG_DFL)
            return false;
    }
    return true;
}

/* Pages of a file are brought in by touching them, wherever a fault can do no more than what the
 * driver's own would do: the kernel populates pages of shared memory one by one under a lock. */
static bool is_reachable(enum zc_maps_answer answer, const struct zc_operand *host)
{
    return answer == ZC_MAPS_YES || (!host->extent && faults_end_process());
}

bool zc_parallel_copy(struct zc_copy *c)
{
    bool in = c->facts & ZC_FACT_INWARD;
    struct zc_operand *host = in ? &c->src : &c->dst, *device = in ? &c->dst : &c->src;
    /* If the CPU may not touch the memory, the driver decides what happens. */
    enum zc_maps_answer answer = zc_maps_ask((char *)host->address, c->bytes, !in);
    const struct zc_pipeline p = {.c = c,
                                  .host = (char *)host->address,
                                  .device = device->address,
                                  .in = in,
                                  .reachable = is_reachable(answer, host)};
    if (answer == ZC_MAPS_NO || !zc_pipeline_run(&p))
        return false;
    host->real = ZC_KIND_PINNED;
    if (c->first)
        __atomic_add_fetch(&host->extent->copied, c->bytes, __ATOMIC_RELAXED);
    return true;
}

/* Every copy of the program passes here, so the most common exclusions are tested first. */
bool zc_parallel_line(const struct zc_copy *c)
{
    bool wanted = zc_rules()->pageable_copy == ZC_PAGEABLE_COPY_PARALLEL || zc_links_large(c);
    return wanted && c->shape == ZC_SHAPE_LINE && !zc_copy_peers(c) && !zc_life_closing();
}
