/* SPDX-License-Identifier: MIT */
/* Changes that the program makes to pages of the host heap. */
#include "host/retreat.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "host/maps.h"
#include "host/memfile.h"
#include "host/pinned.h"

static int raw_pkey_mprotect(void *at, size_t n, int protection, int key)
{
    return (int)syscall(SYS_pkey_mprotect, at, n, protection, key);
}

struct zc_page_calls zc_page_calls = {zc_memory_map,     zc_memory_unmap,   zc_memory_move,
                                      zc_memory_protect, raw_pkey_mprotect, zc_memory_advise};

/* No handler of the program's may change the same pages meanwhile. */
static uint64_t block_signals(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(before));
    return before;
}

static void unblock_signals(uint64_t before)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

/* True for calls that the kernel refuses before it looks at the pages, or that reach beyond the
 * heap. */
static bool retreat_plain(const void *at, size_t n)
{
    uintptr_t low = (uintptr_t)at, high = zc_page_end(low + n);
    return low != zc_page_start(low) || high <= low || !zc_hostheap_owns(low) ||
           !zc_hostheap_owns(high - 1);
}

typedef bool part_fn(struct zc_extent *extent, uintptr_t low, uintptr_t high, int argument);

/* Calls `change` for the pages of a range that lie in each extent.  To the program, addresses
 * without a block look unmapped. */
static bool on_each(const void *at, size_t n, part_fn *change, int argument)
{
    uintptr_t low = (uintptr_t)at, end = zc_page_end(low + n), high;
    uint64_t mask = block_signals();
    bool done = true;
    for (; done && low < end; low = high) {
        struct zc_extent *e = zc_hostheap_extent(low);
        done = e && (e->use == ZC_EXTENT_BLOCK || e->use == ZC_EXTENT_SLAB);
        if (!done) {
            errno = ENOMEM;
            break;
        }
        uintptr_t last = zc_extent_base(e) + zc_extent_span(e);
        high = last < end ? last : end;
        done = change(e, low, high, argument);
    }
    int error = errno;
    unblock_signals(mask);
    errno = error;
    return done;
}

/* Pages that libzc leaves alone: inherited by a child, pinned memory of the driver to the program,
 * or registered by the program itself. */
static bool programs_own(const struct zc_extent *e, enum zc_extent_pin pin)
{
    return !zc_hostheap_mine(e) || e->owner || pin == ZC_PIN_PROGRAM;
}

/* The pages are the program's own business from now on: no other block gets them, and libzc ends
 * its registration with the next copy, because the driver can't be called here, and makes none any
 * more.  A file becomes a private view first, because libzc maps nothing there any more.  With
 * `if_known` only where the driver, or a device block, may know the pages. */
static bool retreat_from(struct zc_extent *e, uintptr_t low, uintptr_t high, int if_known)
{
    enum zc_extent_pin pin = zc_pinned_hold(e);
    (void)low, (void)high;
    if (!if_known || e->inode || (pin == ZC_PIN_DONE && zc_hostheap_mine(e))) {
        if (e->inode)
            zc_memfile_freeze(e);
        __atomic_store_n(&e->no_reuse, true, __ATOMIC_RELEASE);
        if (!programs_own(e, pin)) {
            __atomic_store_n(&e->stale, true, __ATOMIC_RELEASE);
            pin = pin == ZC_PIN_NONE ? ZC_PIN_REFUSED : pin;
        }
    }
    zc_pinned_release(e, pin);
    return true;
}

bool zc_retreat(const void *at, size_t n)
{
    return retreat_plain(at, n) || on_each(at, n, retreat_from, false);
}

/* To the program the addresses are unmapped, or mapped anew; they stay reserved for the heap. */
static bool map_fresh(void *at, size_t n, int rights)
{
    return zc_page_calls.mmap(at, n, rights,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                              0) != MAP_FAILED;
}

/* Numbers of inodes are a file system's own, and those of System V segments their ids. */
static bool shows_file(const struct zc_extent *e, const struct zc_maps_mapping *m)
{
    return e->inode && m->inode == e->inode && strstr(m->name, "memfd:libzc");
}

/* The pages must really go: whom the program asks to fill missing ones (userfaultfd(2)) sees none
 * that libzc has filled with zeroes.  Of a private view of the extent's file the kernel would show
 * the file again. */
static bool discard(struct zc_extent *e, uintptr_t low, uintptr_t high, int advice)
{
    struct zc_maps_mapping r = {.end = high};
    bool done = true;
    if (e->owner) /* Pinned memory of the driver keeps its pages. */
        return true;
    retreat_from(e, low, high, true);
    for (; done && low < high; low = (uintptr_t)r.end) {
        if (e->inode && !zc_maps_find(low, &r)) {
            errno = ENOMEM;
            return false;
        }
        r.end = r.end < high ? r.end : high;
        size_t n = (size_t)r.end - low;
        done = shows_file(e, &r) ? map_fresh((void *)low, n, r.rights)
                                 : zc_page_calls.madvise((void *)low, n, advice) == 0;
    }
    return done;
}

int zc_retreat_unmap(void *at, size_t n)
{
    if (retreat_plain(at, n))
        return zc_page_calls.munmap(at, n);
    return zc_retreat(at, n) && map_fresh(at, n, PROT_NONE) ? 0 : -1;
}

/* The old addresses must never be free, and a private view of a file could not grow elsewhere.  So
 * the content moves to fresh memory; nobody may use the old addresses meanwhile. */
static void *move_away(void *at, size_t n, size_t now, int flags, void *to)
{
    int fixed = flags & MREMAP_FIXED;
    struct zc_maps_mapping r;
    if (!zc_maps_find((uintptr_t)at, &r) || r.end < (uintptr_t)at + n) {
        errno = EFAULT; /* As of a range with several mappings. */
        return MAP_FAILED;
    }
    if (fixed && (char *)to < (char *)at + n && (char *)to + now > (char *)at) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (!zc_retreat(at, n))
        return MAP_FAILED;
    char *got = zc_page_calls.mmap(fixed ? to : NULL, now, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
    if (got == MAP_FAILED)
        return got;
    zc_memory_protect(at, n, PROT_READ);
    __builtin_memcpy(got, at, n < now ? n : now);
    zc_memory_protect(got, now, r.rights);
    map_fresh(at, n, flags & MREMAP_DONTUNMAP ? r.rights : PROT_NONE);
    return got;
}

/* Moves pages from a block to where the kernel chooses. */
static void *move_from(void *at, size_t n, size_t now, int flags, void *to)
{
    now = zc_page_end(now);
    n = zc_page_end(n);
    if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) || (now > n && (flags & MREMAP_MAYMOVE)))
        return move_away(at, n, now, flags, to);
    if (now > n) {
        errno = ENOMEM; /* Another mapping follows. */
        return MAP_FAILED;
    }
    return now == n || zc_retreat_unmap((char *)at + now, n - now) == 0 ? at : MAP_FAILED;
}

void *zc_retreat_move(void *at, size_t n, size_t now, int flags, void *to)
{
    if ((flags & MREMAP_FIXED) && zc_retreat_meets(to, now) && !zc_retreat(to, now))
        return MAP_FAILED;
    return zc_retreat_meets(at, n) && !retreat_plain(at, n) && now
               ? move_from(at, n, now, flags, to)
               : zc_page_calls.mremap(at, n, now, flags, to);
}

/* Advice that leaves the CPU and the driver the same pages. */
static bool harmless(int advice)
{
    switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
    case MADV_HUGEPAGE:
    case MADV_COLD:
    case MADV_PAGEOUT:
        return true;
    default:
        return false;
    }
}

/* The kernel has other answers for a file than for malloc's memory. */
static bool is_file(const void *at)
{
    const struct zc_extent *e = zc_hostheap_extent((uintptr_t)at);
    return e && e->inode;
}

int zc_retreat_advise(void *at, size_t n, int advice)
{
    if (retreat_plain(at, n))
        return zc_page_calls.madvise(at, n, advice);
    if (advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED ||
        (advice == MADV_FREE && is_file(at)))
        return on_each(at, n, discard, advice) ? 0 : -1;
    if (advice == MADV_REMOVE && is_file(at)) {
        errno = EINVAL;
        return -1;
    }
    if (zc_page_calls.madvise(at, 0, advice) != 0) /* The kernel does not know it. */
        return -1;
    /* Of a private view of the file the kernel would show the file again. */
    if (advice == MADV_GUARD_INSTALL && is_file(at) && !on_each(at, n, discard, MADV_DONTNEED))
        return -1;
    if (!harmless(advice))
        zc_retreat(at, n);
    return zc_page_calls.madvise(at, n, advice);
}
