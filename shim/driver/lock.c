/* SPDX-License-Identifier: MIT */
/* The one mutex that is held while the driver is called. */
#include "driver/lock.h"

#include "base/module.h"
#include "base/turn.h"

static struct zc_turn turn;

bool zc_driver_lock(void)
{
    return zc_turn_take(&turn);
}

void zc_driver_unlock(void)
{
    zc_turn_drop(&turn);
}

static void in_child(void)
{
    turn = (struct zc_turn){0};
}

const struct zc_module zc_module_driver_lock = {.child = in_child};
