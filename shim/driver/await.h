/* SPDX-License-Identifier: MIT */
/* Streams that may wait for the CPU. */
#pragma once

#include "driver/lock.h"

/*
 * A host function, or a wait for a value in memory or for a semaphore, may depend on something that
 * the program's CPU still has to do.  If libzc waited for such a stream in a call that does not
 * wait by itself, the program could deadlock.  So from the first such work on, libzc defers nothing
 * that a later call would have to wait for: no copy stays pending, and no free is deferred.  And a
 * synchronous call that would not have waited, because all its memory is on the device, does not
 * wait when the memory is elsewhere, either.  A kernel that waits for the CPU can't be recognised.
 */

/* True for calls that give a stream work which may wait for the CPU. */
static inline bool zc_await_call(enum zc_fn fn)
{
    switch (fn) {
#define ZC_AWAIT(name, base, flavour, params, args, describe) case ZC_FN_##name:
#include "driver.def"
        return true;
    default:
        return false;
    }
}

/* True for those of them whose work looks at no device memory. */
static inline bool zc_await_host(enum zc_fn fn)
{
    switch (fn) {
#define ZC_HOST(name, base, flavour, params, args, describe) case ZC_FN_##name:
#include "driver.def"
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
