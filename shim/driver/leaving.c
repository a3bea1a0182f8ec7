/* SPDX-License-Identifier: MIT */
/* Contexts that a thread of the program is destroying. */
#include "driver/leaving.h"

#include "base/own.h"
#include "driver/lock.h"

static ZC_OWN struct zc_leaving *all;

void zc_leaving_begin(struct zc_leaving *l, CUcontext context)
{
    *l = (struct zc_leaving){.context = context, .noted = zc_driver_lock()};
    if (!l->noted)
        return;
    l->next = all;
    all = l;
    zc_driver_unlock();
}

void zc_leaving_end(struct zc_leaving *l)
{
    if (!l->noted || !zc_driver_lock())
        return;
    struct zc_leaving **at = &all;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at) /* Not in a child that a signal handler forked meanwhile. */
        *at = l->next;
    zc_driver_unlock();
}

bool zc_leaving(CUcontext context)
{
    const struct zc_leaving *l = all;
    while (l && l->context != context)
        l = l->next;
    return l;
}
