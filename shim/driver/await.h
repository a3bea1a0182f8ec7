/* SPDX-License-Identifier: MIT */
/* Streams that wait for the CPU. */
#ifndef ZC_DRIVER_AWAIT_H
#define ZC_DRIVER_AWAIT_H

#include "driver/real.h"

/*
 * A host function, or a wait for a value in memory or a semaphore, may end only after something
 * that the program's CPU still has to do.  If libzc waited for the stream in a call that would not
 * have, the program would stand still.  So from the first such work on nothing is left behind that
 * a later call has to wait for: no copy stays pending and no free is deferred; and a synchronous
 * call that would not have waited, because all its memory is the device's, does not in other
 * places.  A kernel that waits for the CPU is not told from others.
 */

/* True for calls that give a stream work which may wait for the CPU. */
static inline bool zc_await_call(enum zc_fn fn)
{
    switch (fn) {
    case ZC_FN_cuLaunchHostFunc:
    case ZC_FN_cuLaunchHostFunc_ptsz:
    case ZC_FN_cuStreamAddCallback:
    case ZC_FN_cuStreamAddCallback_ptsz:
    case ZC_FN_cuStreamWaitValue32:
    case ZC_FN_cuStreamWaitValue32_ptsz:
    case ZC_FN_cuStreamWaitValue64:
    case ZC_FN_cuStreamWaitValue64_ptsz:
    case ZC_FN_cuStreamWaitValue32_v2:
    case ZC_FN_cuStreamWaitValue32_v2_ptsz:
    case ZC_FN_cuStreamWaitValue64_v2:
    case ZC_FN_cuStreamWaitValue64_v2_ptsz:
    case ZC_FN_cuStreamBatchMemOp:
    case ZC_FN_cuStreamBatchMemOp_ptsz:
    case ZC_FN_cuStreamBatchMemOp_v2:
    case ZC_FN_cuStreamBatchMemOp_v2_ptsz:
    case ZC_FN_cuWaitExternalSemaphoresAsync:
    case ZC_FN_cuWaitExternalSemaphoresAsync_ptsz:
        return true;
    default:
        return false;
    }
}

/* True for a node of a graph that may wait for the CPU. */
static inline bool zc_await_node(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_HOST || type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
           type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
}

/* A stream is given such work, and nothing may be left behind from here on.  With driver/lock.h. */
void zc_await_note(void);

/* True once some stream was given such work.  With driver/lock.h it stays as it is. */
bool zc_await_any(void);

#endif
