/* SPDX-License-Identifier: MIT */
/* Gives memory back that libzc keeps after the program freed it. */
#include "memory/reclaim.h"

#include "base/life.h"
#include "base/module.h"
#include "driver/capture.h"
#include "memory/release.h"
#include "policy/policy.h"

/* Other threads that allocate and free could go on giving back too little for ever. */
#define TRIES_MAX 64

bool zc_reclaim(struct zc_reclaim *request)
{
    if (request->tries++ == TRIES_MAX || zc_capture_any() || zc_life_closing())
        return false;
    unsigned given = zc_modules_reclaim(ZC_PLACE_COUNT);
    if (!given && zc_modules_reclaim_waiting() > 0)
        given = 1 + zc_modules_reclaim(ZC_PLACE_COUNT);
    return given > 0 || zc_release_wait(&request->seen);
}
