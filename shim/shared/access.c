/* SPDX-License-Identifier: MIT */
/* Accesses of the CPU's to host blocks that are one with a device block. */
#include "shared/access.h"

#include "base/clock.h"
#include "base/lock.h"
#include "fault/fault.h"
#include "host/overlay.h"
#include "shared/pair.h"
#include "shared/report.h"

static __thread uint32_t ends __attribute__((tls_model("initial-exec"))); /* That this thread has
                                                                           * tried again after. */

/* A page may have been closed for a moment by a pair that has ended before the handler came to
 * look: the first fault of a thread after an end is tried again, and comes again if it is the
 * program's own. */
static bool ended_since(void)
{
    return __atomic_load_n(&zc_shared_ends, __ATOMIC_ACQUIRE) != ends;
}

static bool owns(uintptr_t address)
{
    return zc_shared_at(address) || (zc_hostheap_owns(address) && ended_since());
}

/* Whether the CPU may do that at an address, asked without the lock. */
static bool permits(const struct zc_shared *p, uintptr_t address, bool write)
{
    uint64_t page = (address - p->pages.host) >> ZC_HOST_UNIT_SHIFT;
    const uint8_t *state = p->pages.state;
    return !write || !state || page >= p->pages.pages ||
           __atomic_load_n(&state[page], __ATOMIC_RELAXED) != ZC_PAGE_SAME;
}

/* Who holds the lock may be this thread, or wait for it, in a copy over a page that something else
 * than the pair has closed for a moment: so nobody waits for the lock where the access needs
 * nothing, but tries it again. */
static bool try_again(const struct zc_shared *p, uintptr_t address, bool write)
{
    return __atomic_load_n(&p->owner, __ATOMIC_ACQUIRE) && permits(p, address, write);
}

/* The pair may have ended meanwhile: then the access is tried again. */
static bool serve(struct zc_shared *p, uintptr_t address, bool write)
{
    struct zc_shared_hold hold;
    bool done = true;
    if (!zc_shared_lock_host(p, zc_hostheap_extent(address), &hold))
        return true;
    uint64_t offset = address - p->pages.host;
    if (offset >> ZC_HOST_UNIT_SHIFT < p->pages.pages)
        done = zc_coherent_touch(&p->pages, offset, write);
    zc_shared_unlock(p, &hold);
    return done;
}

static bool program_permits(uintptr_t address, bool write)
{
    const struct zc_extent *e = zc_hostheap_extent(address);
    return e && zc_overlay_permits(e, address, write);
}

static bool fault(uintptr_t address, bool write)
{
    uint64_t start = zc_ticks();
    struct zc_shared *p = zc_shared_at(address);
    if (!p) {
        bool again = ended_since();
        ends = __atomic_load_n(&zc_shared_ends, __ATOMIC_ACQUIRE);
        return again;
    }
    if (!program_permits(address, write))
        return false;
    if (try_again(p, address, write))
        return true;
    if (!serve(p, address, write))
        zc_shared_stop(p);
    __atomic_fetch_add(&p->faults, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&p->fault_ticks, zc_ticks() - start, __ATOMIC_RELAXED);
    return true;
}

/* Another thread may hold the lock, with a page closed that is open by its state. */
static void wait_for_owner(struct zc_shared *p, uintptr_t address)
{
    struct zc_shared_hold hold;
    if (__atomic_load_n(&p->owner, __ATOMIC_ACQUIRE) &&
        zc_shared_lock_host(p, zc_hostheap_extent(address), &hold))
        zc_shared_unlock(p, &hold);
}

static bool open_range(uintptr_t low, uintptr_t high, bool refused)
{
    bool changed = false;
    for (uintptr_t at = low; at < high; at = (at | (ZC_HOST_UNIT - 1)) + 1) {
        struct zc_shared *p = zc_shared_at(at);
        if (!p)
            continue;
        if (refused)
            wait_for_owner(p, at);
        /* Another thread may have opened it since. */
        changed |= permits(p, at, true) ? program_permits(at, true) : fault(at, true);
    }
    return changed;
}

bool zc_shared_access_open(const char **why)
{
    static const struct zc_fault_ops ops = {owns, fault, program_permits, open_range};
    static ZC_LOCK(opening, ZC_RANK_FAULTS);
    const char *reason = "called from a signal handler";
    if (zc_lock_take(&opening)) {
        reason = zc_fault_start(&ops);
        zc_lock_drop(&opening);
    }
    *why = reason ? reason : *why;
    return !reason;
}
