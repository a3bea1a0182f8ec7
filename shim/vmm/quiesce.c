/* SPDX-License-Identifier: MIT */
/* Waits for deferred work before a stream may wait for the CPU. */
#include "vmm/quiesce.h"

#include "base/life.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "memory/reclaim.h"
#include "vmm/access.h"
#include "vmm/grow.h"

static bool settled; /* No deferred work is left to wait for.  Atomic. */

/* Does nothing during a capture: nothing may be waited for then, and nothing runs before the graph
 * is launched, by another call. */
CUresult zc_quiesce(enum zc_fn fn)
{
    if (__atomic_load_n(&settled, __ATOMIC_ACQUIRE) || !zc_life_on() || zc_life_closing() ||
        !zc_driver_lock())
        return CUDA_SUCCESS;
    zc_release_await();
    CUresult result = CUDA_SUCCESS;
    if (!zc_capture_any()) {
        result = zc_grow_copy_all(fn);
        if (result == CUDA_SUCCESS)
            result = zc_access_quiesce();
        __atomic_store_n(&settled, result == CUDA_SUCCESS, __ATOMIC_RELEASE);
    }
    zc_driver_unlock();
    return result;
}

static void in_child(void)
{
    settled = false;
}

const struct zc_module zc_module_quiesce = {.child = in_child};
