/* SPDX-License-Identifier: MIT */
/* The CPU's view of shared pages: mprotect(2) and mremap(2). */
#include "shared/view.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "host/hostheap.h"
#include "host/overlay.h"
#include "memory/limits.h"
#include "memory/workers.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7. */
#endif

/* From this size on threads help.  Below it, and so in all signal handlers, the caller copies
 * alone. */
#define THREADS_FROM ((size_t)64 << 20)

static uintptr_t nursery; /* Distance from an address in the heap to its nursery. */
static size_t reserved;   /* Bytes of the heap that both ranges cover.  Atomic. */

/* Keeps addresses reserved, without memory. */
static bool view_reserve(uintptr_t at, size_t n)
{
    void *p = zc_memory_map((void *)at, n, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return p != MAP_FAILED && (zc_memory_advise(p, n, MADV_HUGEPAGE), true);
}

static bool reserve_range(uintptr_t *distance)
{
    size_t bytes = zc_hostheap.bytes + ZC_HOST_UNIT;
    char *p =
        zc_memory_map(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    uintptr_t base = ((uintptr_t)p + ZC_HOST_UNIT - 1) & ~(uintptr_t)(ZC_HOST_UNIT - 1);
    zc_memory_advise((void *)base, zc_hostheap.bytes, MADV_HUGEPAGE);
    *distance = base - zc_hostheap.base;
    return true;
}

/* A kernel that can't keep the old mapping in place would leave holes.  Returns errno. */
static int move_in_place(void)
{
    uintptr_t from = zc_hostheap.base + zc_view_shadow, to = zc_hostheap.base + nursery;
    bool moved =
        zc_memory_protect((void *)from, ZC_HOST_UNIT, PROT_READ | PROT_WRITE) == 0 &&
        zc_memory_move((void *)from, ZC_HOST_UNIT, ZC_HOST_UNIT,
                       MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (void *)to) != MAP_FAILED;
    int error = moved ? 0 : errno;
    return view_reserve(from, ZC_HOST_UNIT) && view_reserve(to, ZC_HOST_UNIT) ? error : errno;
}

bool zc_view_open(const char **why)
{
    static int opened; /* 1: open; -1: refused. */
    static const char *reason;
    if (!opened) {
        opened = -1;
        uintptr_t shadow = 0;
        int error = EINVAL;
        if (reserve_range(&shadow) && reserve_range(&nursery)) {
            zc_view_shadow = shadow;
            error = move_in_place();
            opened = error ? -1 : 1;
            __atomic_store_n(&reserved, zc_hostheap.bytes, __ATOMIC_RELEASE);
        } else {
            error = errno;
        }
        reason = error == EINVAL ? "it needs mremap(2) of Linux 5.7"
                                 : zc_limits_reason(error, zc_hostheap.bytes);
    }
    *why = reason;
    return opened > 0;
}

void zc_view_fit(void)
{
    size_t left = __atomic_load_n(&zc_hostheap.bytes, __ATOMIC_ACQUIRE);
    size_t was = __atomic_load_n(&reserved, __ATOMIC_ACQUIRE);
    while (left < was && !__atomic_compare_exchange_n(&reserved, &was, left, false,
                                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    if (left >= was)
        return;
    uintptr_t end = zc_hostheap.base + left;
    zc_memory_unmap((void *)(end + zc_view_shadow), was - left);
    zc_memory_unmap((void *)(end + nursery), was - left);
}

static uint32_t last_error; /* Errno of the last refused change.  Atomic. */

static bool note(bool done)
{
    if (!done)
        __atomic_store_n(&last_error, (uint32_t)errno, __ATOMIC_RELAXED);
    return done;
}

const char *zc_view_reason(void)
{
    return zc_limits_reason((int)__atomic_load_n(&last_error, __ATOMIC_RELAXED), ZC_HOST_UNIT);
}

static bool set_protection(uintptr_t at, size_t n, int protection)
{
    return note(zc_memory_protect((void *)at, n, protection) == 0);
}

/* Sets rights, except those that the program itself took away. */
static bool protect_run(uintptr_t at, uintptr_t end, int rights, int protection)
{
    int both = (rights & protection) | (protection & PROT_READ ? rights & PROT_EXEC : 0);
    return (rights & ZC_OVERLAY_FOREIGN) || set_protection(at, end - at, both);
}

bool zc_view_protect(uintptr_t at, size_t n, int protection)
{
    const struct zc_extent *e = zc_hostheap_extent(at);
    bool done = true;
    if (!e || !zc_overlay_any(e))
        return set_protection(at, n, protection);
    for (uintptr_t high = at + n, end; at < high && done; at = end) {
        int rights = zc_overlay_run(e, at, high, &end);
        done = protect_run(at, end, rights, protection);
    }
    return done;
}

bool zc_view_expose(uintptr_t at, size_t n, int protection)
{
    return set_protection(at, n, protection);
}

/* Pages that were moved to the address get the rights that both program and libzc allow. */
static void restrict_view(uintptr_t at, size_t n, int protection)
{
    const struct zc_extent *e = n ? zc_hostheap_extent(at) : NULL;
    if (e && zc_overlay_any(e))
        zc_view_protect(at, n, protection);
}

static bool move_once(uintptr_t from, uintptr_t to, size_t n)
{
    return zc_memory_move((void *)from, n, n, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                          (void *)to) != MAP_FAILED;
}

/* mremap(2) moves one mapping at a time, and a range may consist of several.  The mapping left
 * behind is empty. */
static size_t move(uintptr_t from, uintptr_t to, size_t n)
{
    size_t done = 0;
    if (move_once(from, to, n))
        return n;
    while (done < n && note(move_once(from + done, to + done, ZC_HOST_UNIT)))
        done += ZC_HOST_UNIT;
    return done;
}

static void copy_pages(uintptr_t to, uintptr_t from, size_t n)
{
    if (n >= THREADS_FROM)
        zc_workers_copy((void *)to, (const void *)from, n);
    else
        memcpy((void *)to, (const void *)from, n);
}

/* Between the two moves the address shows nothing.  So it is closed before: a thread that looks
 * meanwhile must fault, and not read zeroes. */
static size_t move_aside(uintptr_t at, size_t n)
{
    uintptr_t shadow = at + zc_view_shadow;
    if (!set_protection(at, n, PROT_NONE))
        return 0;
    size_t moved = move(at, shadow, n);
    if (!set_protection(shadow, moved, PROT_READ | PROT_WRITE))
        return moved - move(shadow, at, moved);
    return moved;
}

size_t zc_view_part(uintptr_t at, size_t n, bool copy)
{
    uintptr_t own = at + nursery;
    if (!set_protection(at, n, PROT_READ) || !set_protection(own, n, PROT_READ | PROT_WRITE))
        return 0;
    if (copy)
        copy_pages(own, at, n);
    size_t aside = move_aside(at, n), placed = move(own, at, aside);
    if (placed < aside) /* Pages that found no counterpart move back. */
        zc_view_merge(at + placed, aside - placed);
    if (aside < n)
        zc_view_protect(at + aside, n - aside, PROT_READ);
    view_reserve(own, n);
    restrict_view(at, placed, ZC_VIEW_OPEN);
    return placed;
}

/* After a move the old address is empty if the pages are private, but still shows them if they are
 * shared memory. */
size_t zc_view_aside(uintptr_t at, size_t n)
{
    size_t moved = move_aside(at, n);
    view_reserve(at, moved);
    return moved;
}

size_t zc_view_merge(uintptr_t at, size_t n)
{
    uintptr_t shadow = at + zc_view_shadow;
    if (!set_protection(shadow, n, PROT_READ))
        return 0;
    size_t moved = move(shadow, at, n);
    view_reserve(shadow, moved);
    restrict_view(at, moved, PROT_READ);
    return moved;
}

void zc_view_forget(uintptr_t at, size_t n)
{
    view_reserve(at + zc_view_shadow, n);
}
