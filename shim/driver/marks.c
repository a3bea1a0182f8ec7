/* SPDX-License-Identifier: MIT */
/* Marks behind launches. */
#include "driver/marks.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"

#define NAP_US 20

static ZC_LOCK(marks_lock, ZC_RANK_MARKS);
/* The context with the driver lock, the rest with `marks_lock`. */
static ZC_OWN struct {
    CUcontext context; /* Of the marked launches. */
    CUstream stream;
    CUevent launched;
    uint64_t *passed; /* The last mark that was passed: written by the GPU. */
    uint64_t given;   /* Marks that the driver has. */
    uint64_t late;    /* Most marks that others were given between both calls for a launch. */
    bool refused;     /* The driver has refused one: nothing is known from then on.  Atomic. */
} marks;

/* Marks given when the thread's launch was prepared. */
static __thread __attribute__((tls_model("initial-exec"))) uint64_t given_before;

static bool make_marks(void)
{
    void *at;
    if (marks.passed)
        return true;
    if (zc_real.cuStreamCreate(&marks.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    if (zc_real.cuEventCreate(&marks.launched, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
        if (zc_real.cuMemHostAlloc(&at, sizeof(*marks.passed), 0) == CUDA_SUCCESS) {
            *(uint64_t *)at = 0;
            marks.passed = at;
            return true;
        }
        zc_real.cuEventDestroy_v2(marks.launched);
    }
    zc_real.cuStreamDestroy_v2(marks.stream);
    return false;
}

static void mark_after(const struct zc_launch *launch)
{
    if (!zc_lock_take(&marks_lock)) {
        __atomic_store_n(&marks.refused, true, __ATOMIC_RELAXED);
        return;
    }
    CUresult result = ZC_FLAVOURED(launch->flavour, cuEventRecord)(marks.launched, launch->stream);
    result = result ?: zc_real.cuStreamWaitEvent(marks.stream, marks.launched, 0) ?:
             zc_real.cuStreamWriteValue64_v2(marks.stream, (CUdeviceptr)marks.passed,
                                             marks.given + 1, 0);
    if (result != CUDA_SUCCESS)
        __atomic_store_n(&marks.refused, true, __ATOMIC_RELAXED);
    marks.given++;
    uint64_t late = marks.given - given_before - 1;
    marks.late = late > marks.late ? late : marks.late;
    zc_lock_drop(&marks_lock);
}

uint64_t zc_mark_launch(void)
{
    CUcontext current = NULL;
    if (zc_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current ||
        (marks.context && marks.context != current) || !make_marks() || !zc_lock_take(&marks_lock))
        return 0;
    marks.context = current;
    given_before = marks.given;
    zc_lock_drop(&marks_lock);
    zc_launch_when_done(mark_after);
    return given_before + 1;
}

bool zc_mark_passed(uint64_t mark, unsigned most_ms)
{
    uint64_t start = zc_ticks();
    if (!mark || !zc_lock_take(&marks_lock))
        return false;
    uint64_t last = mark + marks.late < marks.given ? mark + marks.late : marks.given;
    const uint64_t *passed = marks.passed;
    zc_lock_drop(&marks_lock);
    while (passed && !__atomic_load_n(&marks.refused, __ATOMIC_RELAXED)) {
        if (__atomic_load_n(passed, __ATOMIC_ACQUIRE) >= last)
            return true;
        if (zc_ticks_to_ns(zc_ticks() - start) >= most_ms * UINT64_C(1000000))
            return false;
        zc_nap(NAP_US);
    }
    return false;
}

uint64_t zc_mark_ended(void)
{
    if (!zc_lock_take(&marks_lock))
        return 0;
    uint64_t passed = marks.passed ? __atomic_load_n(marks.passed, __ATOMIC_ACQUIRE) : 0;
    uint64_t sure = passed > marks.late ? passed - marks.late : 0;
    sure = passed >= marks.given ? UINT64_MAX : sure;
    zc_lock_drop(&marks_lock);
    return sure;
}

static void marks_context_gone(CUcontext context)
{
    if (marks.context != context || !zc_lock_take(&marks_lock))
        return;
    marks.context = NULL;
    marks.passed = NULL;
    marks.given = marks.late = 0;
    marks.refused = false;
    zc_lock_drop(&marks_lock);
}

const struct zc_module zc_module_marks = {.context_gone = marks_context_gone};
