/* SPDX-License-Identifier: MIT */
/* The one mutex that is held while the driver is called. */
#include "driver/lock.h"

#include "base/lock.h"

static ZC_LOCK(lock, ZC_RANK_DRIVER);

bool zc_driver_lock(void)
{
    return zc_lock_take(&lock);
}

void zc_driver_unlock(void)
{
    zc_lock_drop(&lock);
}
