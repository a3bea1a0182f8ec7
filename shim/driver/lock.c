/* SPDX-License-Identifier: MIT */
/* The one mutex that is held while the driver is called. */
#include "driver/lock.h"

#include "base/lock.h"
#include "base/module.h"

static struct zc_lock lock = ZC_LOCK(ZC_RANK_DRIVER);

bool zc_driver_lock(void)
{
    return zc_lock_take(&lock);
}

void zc_driver_unlock(void)
{
    zc_lock_drop(&lock);
}

static void in_child(void)
{
    zc_lock_reset(&lock);
}

const struct zc_module zc_module_driver_lock = {.child = in_child};
