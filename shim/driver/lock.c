/* SPDX-License-Identifier: MIT */
/* The one mutex that is held while the driver is called, and what it keeps from changing. */
#include "driver/lock.h"

#include "base/lock.h"
#include "base/own.h"

#define CONTEXTS_MAX 64u

static ZC_LOCK(driver_lock, ZC_RANK_DRIVER);
static ZC_OWN struct {
    struct zc_leaving *leaving; /* Contexts that are being destroyed. */
    bool awaits;                /* Some stream may wait for the CPU.  Atomic. */
    bool too_many;              /* Contexts, or one was made where the lock was not to be had. */
    unsigned count;
    CUcontext context[CONTEXTS_MAX];
} shown;

bool zc_driver_lock(void)
{
    return zc_lock_take(&driver_lock);
}

void zc_driver_unlock(void)
{
    zc_lock_drop(&driver_lock);
}

bool zc_await_any(void)
{
    return __atomic_load_n(&shown.awaits, __ATOMIC_RELAXED);
}

void zc_await_note(void)
{
    __atomic_store_n(&shown.awaits, true, __ATOMIC_RELAXED);
}

void zc_leaving_begin(struct zc_leaving *l, CUcontext context)
{
    *l = (struct zc_leaving){.context = context, .noted = zc_driver_lock()};
    if (!l->noted)
        return;
    l->next = shown.leaving;
    shown.leaving = l;
    zc_driver_unlock();
}

void zc_leaving_end(struct zc_leaving *l)
{
    if (!l->noted || !zc_driver_lock())
        return;
    struct zc_leaving **at = &shown.leaving;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at) /* Not in a child that a signal handler forked meanwhile. */
        *at = l->next;
    zc_driver_unlock();
}

bool zc_leaving(CUcontext context)
{
    const struct zc_leaving *l = shown.leaving;
    while (l && l->context != context)
        l = l->next;
    return l;
}

void zc_context_note(CUcontext context, bool there)
{
    unsigned i = 0;
    if (!zc_driver_lock()) {
        shown.too_many |= there;
        return;
    }
    while (i < shown.count && shown.context[i] != context)
        i++;
    if (!there && i < shown.count)
        shown.context[i] = shown.context[--shown.count];
    else if (there && i == CONTEXTS_MAX)
        shown.too_many = true;
    else if (there && i == shown.count)
        shown.context[shown.count++] = context;
    zc_driver_unlock();
}

CUcontext zc_context_at(unsigned i, bool *known)
{
    *known = !shown.too_many;
    return i < shown.count ? shown.context[i] : NULL;
}
