/* SPDX-License-Identifier: MIT */
/* Memory pools.  Requests in stream order stay in theirs. */
#pragma once

#include "memory/device.h"

/* The program has had a pool whose memory is not a device's: then the driver is asked what kind of
 * memory a request from a pool has got.  Atomic. */
extern bool zc_pool_other;

/* The program made a pool, or got one of the driver's. */
static inline void zc_pool_note(const CUmemLocation *location, CUmemAllocationType type)
{
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED || zc_location_device(location) < 0)
        __atomic_store_n(&zc_pool_other, true, __ATOMIC_RELAXED);
}
