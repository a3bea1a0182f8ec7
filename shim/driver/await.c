/* Streams that wait for the CPU. */
#include "driver/await.h"

#include "base/module.h"
#include "driver/capture.h"
#include "base/life.h"
#include "vmm/access.h"
#include "vmm/grow.h"
#include "vmm/late.h"

static bool any;     /* Some stream may wait for the CPU.  Atomic. */
static bool settled; /* And nothing is left behind from before that.  Atomic. */

bool zc_await_any(void)
{
    return __atomic_load_n(&any, __ATOMIC_RELAXED);
}

/* During a capture nothing may be waited for, and nothing runs before its graph is launched: then
 * there is another call to begin with. */
CUresult zc_await_begin(enum zc_fn fn)
{
    if (__atomic_load_n(&settled, __ATOMIC_ACQUIRE) || !zc_life_on() || zc_life_closing() ||
        !zc_late_turn_take())
        return CUDA_SUCCESS;
    __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    CUresult result = CUDA_SUCCESS;
    if (!zc_capture_any()) {
        result = zc_grow_copy_all(fn);
        if (result == CUDA_SUCCESS)
            result = zc_access_rest();
        __atomic_store_n(&settled, result == CUDA_SUCCESS, __ATOMIC_RELEASE);
    }
    zc_late_turn_drop();
    return result;
}

static void in_child(void)
{
    any = settled = false;
}

const struct zc_module zc_module_await = {.child = in_child};
