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
/* Of each device the context with the driver lock, the rest with `marks_lock`. */
static ZC_OWN struct marks {
    CUcontext context; /* Of the marked launches. */
    CUstream stream;
    CUevent launched;
    uint64_t *passed; /* The last mark that was passed: written by the GPU. */
    uint64_t given;   /* Marks that the driver has. */
    uint64_t late;    /* Most marks that others were given between both calls for a launch. */
    bool refused;     /* The driver has refused one: nothing is known from then on.  Atomic. */
} marks[ZC_DEVICES];

/* The thread's launch: whose marks it is given, and those given when it was prepared. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct marks *of;
    uint64_t given_before;
} mine;

static bool make_marks(struct marks *m)
{
    void *at;
    if (m->passed)
        return true;
    if (zc_real.cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    if (zc_real.cuEventCreate(&m->launched, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
        if (zc_real.cuMemHostAlloc(&at, sizeof(*m->passed), 0) == CUDA_SUCCESS) {
            *(uint64_t *)at = 0;
            m->passed = at;
            return true;
        }
        zc_real.cuEventDestroy_v2(m->launched);
    }
    zc_real.cuStreamDestroy_v2(m->stream);
    return false;
}

static void mark_after(const struct zc_launch *launch)
{
    struct marks *m = mine.of;
    if (!zc_lock_take(&marks_lock)) {
        __atomic_store_n(&m->refused, true, __ATOMIC_RELAXED);
        return;
    }
    CUresult result = ZC_FLAVOURED(launch->flavour, cuEventRecord)(m->launched, launch->stream);
    result = result ?: zc_real.cuStreamWaitEvent(m->stream, m->launched, 0) ?:
             zc_real.cuStreamWriteValue64_v2(m->stream, (CUdeviceptr)m->passed, m->given + 1, 0);
    if (result != CUDA_SUCCESS)
        __atomic_store_n(&m->refused, true, __ATOMIC_RELAXED);
    m->given++;
    uint64_t late = m->given - mine.given_before - 1;
    m->late = late > m->late ? late : m->late;
    zc_lock_drop(&marks_lock);
}

uint64_t zc_mark_launch(int device, CUcontext context)
{
    CUcontext current = NULL;
    struct marks *m = &marks[device];
    if (zc_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current || current != context ||
        (m->context && m->context != current) || !make_marks(m) || !zc_lock_take(&marks_lock))
        return 0;
    m->context = current;
    mine.of = m;
    mine.given_before = m->given;
    zc_lock_drop(&marks_lock);
    zc_launch_when_done(mark_after);
    return mine.given_before + 1;
}

bool zc_mark_passed(int device, uint64_t mark, unsigned most_ms)
{
    uint64_t start = zc_ticks();
    struct marks *m = &marks[device];
    if (!mark || !zc_lock_take(&marks_lock))
        return false;
    uint64_t last = mark + m->late < m->given ? mark + m->late : m->given;
    const uint64_t *passed = m->passed;
    zc_lock_drop(&marks_lock);
    while (passed && !__atomic_load_n(&m->refused, __ATOMIC_RELAXED)) {
        if (__atomic_load_n(passed, __ATOMIC_ACQUIRE) >= last)
            return true;
        if (zc_ticks_to_ns(zc_ticks() - start) >= most_ms * UINT64_C(1000000))
            return false;
        zc_nap(NAP_US);
    }
    return false;
}

uint64_t zc_mark_ended(int device)
{
    const struct marks *m = &marks[device];
    if (!zc_lock_take(&marks_lock))
        return 0;
    uint64_t passed = m->passed ? __atomic_load_n(m->passed, __ATOMIC_ACQUIRE) : 0;
    uint64_t sure = passed > m->late ? passed - m->late : 0;
    sure = passed >= m->given ? UINT64_MAX : sure;
    zc_lock_drop(&marks_lock);
    return sure;
}

static void marks_context_gone(CUcontext context)
{
    ZC_LOCK_HELD(held, &marks_lock);
    for (struct marks *m = marks; held && m < marks + ZC_DEVICES; m++)
        if (m->context == context)
            *m = (struct marks){.given = 0};
}

const struct zc_module zc_module_marks = {.context_gone = marks_context_gone};
