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

/* Threads are started from here on; below, and so in all signal handlers, the caller copies. */
#define THREADS_FROM ((size_t)64 << 20)

#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static uint32_t last_error; /* Of the last change that the kernel refused; atomic. */

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

/* mremap(2): "If the value of old_size is zero, and old_address refers to a shareable mapping, then
 * mremap() will create a new mapping of the same pages." */
static bool map_again(uintptr_t from, uintptr_t to, size_t n)
{
    return note(zc_memory_move((void *)from, 0, n, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) !=
                MAP_FAILED);
}

static bool set_protection(uintptr_t at, size_t n, int protection)
{
    return note(zc_memory_protect((void *)at, n, protection) == 0);
}

void zc_view_reserve(uintptr_t at, size_t n)
{
    note(zc_memory_map((void *)at, n, PROT_NONE, RESERVED | MAP_FIXED, -1, 0) != MAP_FAILED);
}

bool zc_view_alias(uintptr_t from, uintptr_t to, size_t n)
{
    if (map_again(from, to, n) && set_protection(to, n, ZC_VIEW_OPEN))
        return true;
    zc_view_reserve(to, n);
    return false;
}

bool zc_view_protect(uintptr_t at, size_t n, int protection)
{
    const struct zc_extent *e = zc_hostheap_extent(at);
    bool done = true;
    if (!e || !zc_overlay_any(e))
        return set_protection(at, n, protection);
    for (uintptr_t high = at + n, end; at < high && done; at = end) {
        int rights = zc_overlay_run(e, at, high, &end);
        done = (rights & ZC_OVERLAY_FOREIGN) ||
               set_protection(at, end - at, rights & (protection | PROT_EXEC));
    }
    return done;
}

static void copy_pages(uintptr_t to, uintptr_t from, size_t n)
{
    if (n >= THREADS_FROM)
        zc_workers_copy((void *)to, (const void *)from, n);
    else
        memcpy((void *)to, (const void *)from, n);
}

/* Private pages at addresses of the kernel's choice that begin a huge page; 0 where it has none. */
static uintptr_t fresh_pages(size_t n)
{
    char *p = zc_memory_map(NULL, n + ZC_HOST_UNIT, PROT_READ | PROT_WRITE, RESERVED, -1, 0);
    if (!note(p != MAP_FAILED))
        return 0;
    size_t skip = -(uintptr_t)p & (ZC_HOST_UNIT - 1);
    if (skip)
        zc_memory_unmap(p, skip);
    zc_memory_unmap(p + skip + n, ZC_HOST_UNIT - skip);
    zc_memory_advise(p + skip, n, MADV_HUGEPAGE);
    return (uintptr_t)p + skip;
}

/* What is moved takes the place of what was there in one step, so that no other thread sees a gap:
 * mremap(2), MREMAP_FIXED. */
static bool move_over(uintptr_t from, uintptr_t to, size_t n)
{
    if (note(zc_memory_move((void *)from, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) !=
             MAP_FAILED))
        return true;
    zc_memory_unmap((void *)from, n);
    return false;
}

static bool part_once(uintptr_t at, size_t n, bool copy)
{
    uintptr_t own = fresh_pages(n);
    if (!own)
        return false;
    if (copy)
        copy_pages(own, at, n);
    if (!move_over(own, at, n))
        return false;
    const struct zc_extent *e = zc_hostheap_extent(at);
    if (e && zc_overlay_any(e))
        zc_view_protect(at, n, ZC_VIEW_OPEN);
    return true;
}

/* A range for which there is no memory at once is done page by page. */
size_t zc_view_part(uintptr_t at, size_t n, bool copy)
{
    size_t done = 0;
    if (!set_protection(at, n, PROT_READ))
        return 0;
    if (part_once(at, n, copy))
        return n;
    for (size_t piece = ZC_HOST_UNIT; done < n && n > ZC_HOST_UNIT; done += piece) {
        piece = n - done < ZC_HOST_UNIT ? n - done : ZC_HOST_UNIT;
        if (!part_once(at + done, piece, copy))
            break;
    }
    return done;
}

bool zc_view_show(uintptr_t at, uintptr_t alias, size_t n)
{
    uintptr_t again = fresh_pages(n);
    if (!again)
        return false;
    if (!map_again(alias, again, n) || !set_protection(again, n, PROT_READ)) {
        zc_memory_unmap((void *)again, n);
        return false;
    }
    return move_over(again, at, n);
}

size_t zc_view_merge(uintptr_t at, uintptr_t alias, size_t n)
{
    size_t done = 0;
    if (zc_view_show(at, alias, n))
        return n;
    while (done < n && n > ZC_HOST_UNIT && zc_view_show(at + done, alias + done, ZC_HOST_UNIT))
        done += ZC_HOST_UNIT;
    return done;
}
