/* SPDX-License-Identifier: MIT */
/* The kinds of queued operations: their effects, and what they own. */
#include "copy.h"
#include "event.h"
#include "graph.h"
#include "launch.h"
#include "pool.h"
#include "stream.h"
#include <stdlib.h>
#include <string.h>

static CUresult free_run(CUdeviceptr dptr)
{
    CUresult r = CUDA_SUCCESS;
    sim_relock();
    struct sim_block *b = sim_block_find(dptr);
    if (b && b->va == dptr && b->reused)
        b->reused--;
    else if (b && b->va == dptr && !b->dormant)
        sim_block_free(b);
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return r;
}

static __thread bool in_host_function;

bool sim_in_host_function(void)
{
    return in_host_function;
}

CUresult sim_work_run(struct sim_work *w, struct sim_context *ctx)
{
    switch (w->kind) {
    case SIM_WORK_KERNEL:
        return sim_kernel_run(w, ctx->device);
    case SIM_WORK_COPY:
        return sim_node_lost(w) ? CUDA_ERROR_LAUNCH_FAILED : sim_copy_run(w);
    case SIM_WORK_SET:
        return sim_set_run(w);
    case SIM_WORK_HOST:
        in_host_function = true;
        w->u.host.fn(w->u.host.data);
        in_host_function = false;
        return CUDA_SUCCESS;
    case SIM_WORK_CALLBACK:
        in_host_function = true;
        w->u.callback.fn(w->u.callback.stream, sim_context_error(ctx), w->u.callback.data);
        in_host_function = false;
        return CUDA_SUCCESS;
    case SIM_WORK_EVENT_RECORD:
        sim_event_reached(w->u.event);
        return CUDA_SUCCESS;
    case SIM_WORK_EVENT_WAIT:
        sim_event_wait(w->u.event);
        return CUDA_SUCCESS;
    case SIM_WORK_FREE:
        return free_run(w->u.free);
    case SIM_WORK_VALUE:
        return sim_value_run(w, ctx->device);
    case SIM_WORK_GRAPH:
        return sim_graph_exec_run(w->u.exec, ctx);
    case SIM_WORK_CHILD:
        return sim_graph_run(w->u.child, ctx);
    case SIM_WORK_ALLOC:
        return sim_graph_alloc_run(w);
    case SIM_WORK_CONDITIONAL:
        return sim_bodies_run(w->u.bodies, ctx);
    case SIM_WORK_BATCH:
        return sim_batch_run(w->u.batch);
    case SIM_WORK_EMPTY:
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_UNKNOWN;
}

void sim_work_free(struct sim_work *w)
{
    switch (w->kind) {
    case SIM_WORK_KERNEL:
        free(w->u.kernel.args);
        break;
    case SIM_WORK_COPY:
        free(w->u.copy.staging);
        break;
    case SIM_WORK_EVENT_RECORD:
    case SIM_WORK_EVENT_WAIT:
        sim_event_unref(w->u.event);
        break;
    case SIM_WORK_GRAPH:
        sim_graph_exec_unref(w->u.exec);
        break;
    case SIM_WORK_CHILD:
        sim_graph_free(w->u.child);
        break;
    case SIM_WORK_CONDITIONAL:
        sim_bodies_free(w->u.bodies);
        break;
    case SIM_WORK_BATCH:
        if (w->u.batch)
            sim_batch_free(w->u.batch);
        break;
    case SIM_WORK_ALLOC:
        sim_graph_alloc_unref(w->u.alloc.params.dptr);
        break;
    default:
        break;
    }
    memset(w, 0, sizeof *w);
    w->kind = SIM_WORK_EMPTY;
}

struct sim_work sim_work_clone(const struct sim_work *w)
{
    struct sim_work c = *w;
    switch (w->kind) {
    case SIM_WORK_KERNEL:
        c.u.kernel.args = sim_kernel_args(w->u.kernel.function, w->u.kernel.args);
        break;
    case SIM_WORK_COPY:
        c.u.copy.staging = NULL;
        break;
    case SIM_WORK_EVENT_RECORD:
    case SIM_WORK_EVENT_WAIT:
        sim_event_ref(c.u.event);
        break;
    case SIM_WORK_CHILD:
        c.u.child = sim_graph_clone(w->u.child);
        break;
    case SIM_WORK_CONDITIONAL:
        c.u.bodies = sim_bodies_clone(w->u.bodies);
        break;
    case SIM_WORK_BATCH:
        c.u.batch = sim_batch_clone(w->u.batch);
        break;
    case SIM_WORK_ALLOC:
        sim_graph_alloc_ref(w->u.alloc.params.dptr);
        break;
    default:
        break;
    }
    return c;
}
