/* SPDX-License-Identifier: MIT */
/* The context that places make memory in. */
#include "memory/place.h"

#include "driver/stream.h"

CUcontext zc_place_home(const struct zc_want *want, enum zc_place_id place)
{
    bool goes = want->stream_ordered && (place == ZC_PLACE_MAPPED || place == ZC_PLACE_MANAGED);
    CUcontext primary = goes ? zc_context_primary(want->device) : NULL;
    return primary ? primary : want->context;
}

bool zc_place_enter(const struct zc_want *want, struct zc_backing *out)
{
    if (out->context == want->context)
        return false;
    if (zc_real.cuCtxPushCurrent_v2(out->context) == CUDA_SUCCESS)
        return true;
    out->context = want->context; /* The other context has been destroyed in the meantime. */
    return false;
}
