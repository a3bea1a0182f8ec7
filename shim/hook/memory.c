/* SPDX-License-Identifier: MIT */
/*
 * Changes that the program makes to pages of its own blocks: munmap, mmap over them, mremap,
 * mprotect, madvise.  The GPU's page table holds registered pages by itself, and protection keeps
 * pairs apart.  So blocks of the host heap are changed in a way that looks to the program as it
 * would without libzc; all other calls pass straight through.
 *
 * Until the first malloc looks up the functions behind libzc's, raw system calls replace them: a
 * look-up in here could come from inside an allocator.
 */
#include "hook/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "driver/real.h"
#include "host/maps.h"
#include "host/memfile.h"
#include "host/pinned.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW __attribute__((noinline)) static

/* Of <linux/pidfd.h>: Linux 6.14. */
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#define PIDFD_SELF_THREAD_GROUP (-10001)
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

#define GUARD (PROT_READ | PROT_WRITE | PROT_EXEC)

/* The header declares it with an ellipsis, which uses the same registers. */
EXPORT void *zc_hook_mremap(void *at, size_t n, size_t now, int flags, void *to) __asm__("mremap");

static int raw_pkey_mprotect(void *at, size_t n, int protection, int key)
{
    return (int)syscall(SYS_pkey_mprotect, at, n, protection, key);
}

static struct __attribute__((aligned(64))) {
    void *(*mmap)(void *at, size_t n, int protection, int flags, int fd, off_t from);
    int (*munmap)(void *at, size_t n);
    void *(*mremap)(void *at, size_t n, size_t now, int flags, void *to);
    int (*mprotect)(void *at, size_t n, int protection);
    int (*pkey_mprotect)(void *at, size_t n, int protection, int key);
    int (*madvise)(void *at, size_t n, int advice);
} next = {zc_memory_map,     zc_memory_unmap,   zc_memory_move,
          zc_memory_protect, raw_pkey_mprotect, zc_memory_advise};

/* Several threads may run this at once; all store the same values. */
void zc_memory_find(void)
{
#define FIND(name)                                                                                 \
    do {                                                                                           \
        void *found_##name = zc_real_dlsym(RTLD_NEXT, #name);                                      \
        if (found_##name)                                                                          \
            __atomic_store_n((void **)&next.name, found_##name, __ATOMIC_RELEASE);                 \
    } while (0)
    FIND(mmap);
    FIND(munmap);
    FIND(mremap);
    FIND(mprotect);
    FIND(pkey_mprotect);
    FIND(madvise);
}

/* True if a range may overlap the host heap.  The kernel refuses one that wraps around. */
static bool placed(const void *at, size_t n)
{
    uintptr_t base = __atomic_load_n(&zc_hostheap.base, __ATOMIC_RELAXED), low = (uintptr_t)at;
    size_t bytes = __atomic_load_n(&zc_hostheap.bytes, __ATOMIC_RELAXED);
    return __builtin_expect(low < base + bytes && low + n > base, 0);
}

/* Pages of one extent that a call changes. */
struct piece {
    struct zc_extent *extent;
    uintptr_t low, high;
};

/* A change and its arguments. */
struct change {
    bool (*apply)(const struct piece *piece, int argument);
    int argument;
};

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
static bool plain(const void *at, size_t n)
{
    uintptr_t low = (uintptr_t)at, high = zc_page_end(low + n);
    return low != zc_page_start(low) || high <= low || !zc_hostheap_owns(low) ||
           !zc_hostheap_owns(high - 1);
}

static bool next_piece(struct piece *piece, uintptr_t end)
{
    uintptr_t low = piece->high;
    struct zc_extent *e = low < end ? zc_hostheap_extent(low) : NULL;
    if (!e || (e->use != ZC_EXTENT_BLOCK && e->use != ZC_EXTENT_SLAB))
        return false;
    uintptr_t last = zc_extent_base(e) + zc_extent_span(e);
    *piece = (struct piece){e, low, last < end ? last : end};
    return true;
}

/* To the program, addresses without a block look unmapped. */
static bool on_each(const void *at, size_t n, struct change change)
{
    uintptr_t end = zc_page_end((uintptr_t)at + n);
    struct piece piece = {.high = (uintptr_t)at};
    uint64_t mask = block_signals();
    bool done = true;
    while (done && piece.high < end) {
        done = next_piece(&piece, end);
        if (done)
            done = change.apply(&piece, change.argument);
        else
            errno = ENOMEM;
    }
    int error = errno;
    unblock_signals(mask);
    errno = error;
    return done;
}

static void *start_of(const struct piece *p)
{
    return (void *)p->low;
}

static size_t bytes_of(const struct piece *p)
{
    return p->high - p->low;
}

/* Pages that libzc leaves alone: inherited by a child, pinned memory of the driver to the program,
 * or registered by the program itself. */
static bool programs_own(const struct zc_extent *e, enum zc_extent_pin pin)
{
    return !zc_hostheap_mine(e) || e->owner || pin == ZC_PIN_PROGRAM;
}

/* The program is about to change mappings of an extent, whose memory no other block gets then.  One
 * that is a file becomes a private view first, because libzc maps nothing there any more.  `stale`:
 * the CPU's pages are no longer those that the driver knows, nor for libzc to register. */
static void retreat(struct zc_extent *e, bool stale)
{
    enum zc_extent_pin pin = zc_pinned_hold(e);
    if (e->fd)
        zc_memfile_freeze(e);
    __atomic_store_n(&e->odd, true, __ATOMIC_RELEASE);
    if (stale && !programs_own(e, pin)) {
        __atomic_store_n(&e->stale, true, __ATOMIC_RELEASE);
        pin = pin == ZC_PIN_NONE ? ZC_PIN_REFUSED : pin;
    }
    zc_pinned_let_go(e, pin);
}

static bool give_up(const struct piece *p, int stale)
{
    retreat(p->extent, stale);
    return true;
}

static bool map_fresh(const struct piece *p, int rights)
{
    return next.mmap(start_of(p), bytes_of(p), rights,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* Of a private view of the extent's file the kernel would show the file again. */
static bool discard_view(const struct piece *p, int advice)
{
    struct zc_maps_mapping r;
    bool done = true;
    for (struct piece part = *p; part.low < p->high && done; part.low = part.high) {
        errno = ENOMEM;
        done = zc_maps_find(part.low, &r);
        part.high = done && r.end < p->high ? (uintptr_t)r.end : p->high;
        if (done)
            done = r.inode == p->extent->inode
                       ? map_fresh(&part, r.rights)
                       : next.madvise(start_of(&part), bytes_of(&part), advice) == 0;
    }
    return done;
}

/* The pages must really go: whom the program asks to fill missing ones (userfaultfd(2)) sees none
 * that libzc has filled with zeroes. */
static bool discard(const struct piece *p, int advice)
{
    struct zc_extent *e = p->extent;
    if (e->owner) /* Pinned memory of the driver keeps its pages. */
        return true;
    enum zc_extent_pin pin = zc_pinned_hold(e);
    bool registered = pin == ZC_PIN_DONE && zc_hostheap_mine(e);
    bool odd = __atomic_load_n(&e->odd, __ATOMIC_ACQUIRE);
    zc_pinned_let_go(e, pin);
    if (registered || e->fd)
        retreat(e, true);
    if (!e->fd)
        return next.madvise(start_of(p), bytes_of(p), advice) == 0;
    return odd ? discard_view(p, advice) : map_fresh(p, PROT_READ | PROT_WRITE);
}

static bool guard(const struct piece *p, int protection)
{
    retreat(p->extent, true);
    return next.mprotect(start_of(p), bytes_of(p), protection) == 0;
}

/* To the program the addresses are unmapped, or mapped anew; they stay reserved for the heap. */
static bool replace(const struct piece *p, int protection)
{
    retreat(p->extent, true);
    return map_fresh(p, protection);
}

SLOW int change_rights(void *at, size_t n, int protection)
{
    if (plain(at, n) || (protection & ~GUARD))
        return next.mprotect(at, n, protection);
    return on_each(at, n, (struct change){guard, protection}) ? 0 : -1;
}

EXPORT int mprotect(void *at, size_t n, int protection)
{
    return placed(at, n) ? change_rights(at, n, protection) : next.mprotect(at, n, protection);
}

SLOW int change_key(void *at, size_t n, int protection, int key)
{
    if (plain(at, n) || (protection & ~GUARD))
        return next.pkey_mprotect(at, n, protection, key);
    if (key == -1)
        return change_rights(at, n, protection);
    return on_each(at, n, (struct change){give_up, true})
               ? next.pkey_mprotect(at, n, protection, key)
               : -1;
}

EXPORT int pkey_mprotect(void *at, size_t n, int protection, int key)
{
    return placed(at, n) ? change_key(at, n, protection, key)
                         : next.pkey_mprotect(at, n, protection, key);
}

static bool empty(void *at, size_t n, int protection)
{
    return on_each(at, n, (struct change){replace, protection});
}

SLOW int unmap(void *at, size_t n)
{
    if (plain(at, n))
        return next.munmap(at, n);
    return empty(at, n, PROT_NONE) ? 0 : -1;
}

EXPORT int munmap(void *at, size_t n)
{
    return placed(at, n) ? unmap(at, n) : next.munmap(at, n);
}

/* True for fresh private memory, which is what blocks consist of anyway. */
static bool fresh_memory(int protection, int flags)
{
    int known = MAP_TYPE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE | MAP_STACK;
    return (flags & MAP_ANONYMOUS) && (flags & MAP_TYPE) == MAP_PRIVATE && !(flags & ~known) &&
           !(protection & ~GUARD);
}

SLOW void *map_over(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    if (plain(at, n))
        return next.mmap(at, n, protection, flags, fd, from);
    if (fresh_memory(protection, flags))
        return empty(at, n, protection) ? at : MAP_FAILED;
    return on_each(at, n, (struct change){give_up, true})
               ? next.mmap(at, n, protection, flags, fd, from)
               : MAP_FAILED;
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    bool over = (flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE);
    return over && placed(at, n) ? map_over(at, n, protection, flags, fd, from)
                                 : next.mmap(at, n, protection, flags, fd, from);
}

EXPORT void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t from)
{
    return mmap(at, n, protection, flags, fd, from);
}

static void reserve(void *at, size_t n)
{
    zc_memory_map(at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Behind a private view of a file nothing could grow, so its content moves to fresh memory: nobody
 * may use the old addresses meanwhile. */
static void *move_content(const struct piece *from, size_t now, int flags, void *to, int rights)
{
    size_t n = bytes_of(from);
    int fixed = flags & MREMAP_FIXED;
    if (fixed && (uintptr_t)to < from->high && (uintptr_t)to + now > from->low) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    char *got = next.mmap(fixed ? to : NULL, now, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
    if (got == MAP_FAILED)
        return got;
    zc_memory_protect(start_of(from), n, PROT_READ);
    __builtin_memcpy(got, start_of(from), n < now ? n : now);
    zc_memory_protect(got, now, rights);
    map_fresh(from, flags & MREMAP_DONTUNMAP ? rights : PROT_NONE);
    return got;
}

/* The old addresses must never be free, so the pages move in two steps. */
static void *move_mappings(void *at, size_t n, size_t now, int flags, void *to)
{
    void *got = next.mremap(at, n, n, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (got == MAP_FAILED)
        return got;
    void *end = next.mremap(got, n, now, flags & ~MREMAP_DONTUNMAP, to);
    int error = errno;
    if (end == MAP_FAILED)
        next.mremap(got, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    else if (!(flags & MREMAP_DONTUNMAP))
        reserve(at, n);
    errno = error;
    return end;
}

static void *move_away(void *at, size_t n, size_t now, int flags, void *to)
{
    struct piece from = {zc_hostheap_extent((uintptr_t)at), (uintptr_t)at, (uintptr_t)at + n};
    struct zc_maps_mapping r;
    if (!on_each(at, n, (struct change){give_up, true}))
        return MAP_FAILED;
    bool of_file = from.extent->fd && zc_maps_find(from.low, &r) && r.end >= from.high &&
                   r.inode == from.extent->inode;
    return of_file ? move_content(&from, now, flags, to, r.rights)
                   : move_mappings(at, n, now, flags, to);
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
    return now == n || empty((char *)at + now, n - now, PROT_NONE) ? at : MAP_FAILED;
}

SLOW void *move_pages(void *at, size_t n, size_t now, int flags, void *to)
{
    bool onto = (flags & MREMAP_FIXED) && placed(to, now) && !plain(to, now);
    bool from = placed(at, n) && !plain(at, n) && now;
    if (onto && !on_each(to, now, (struct change){give_up, true}))
        return MAP_FAILED;
    return from ? move_from(at, n, now, flags, to) : next.mremap(at, n, now, flags, to);
}

EXPORT void *zc_hook_mremap(void *at, size_t n, size_t now, int flags, void *to)
{
    return placed(at, n) || ((flags & MREMAP_FIXED) && placed(to, now))
               ? move_pages(at, n, now, flags, to)
               : next.mremap(at, n, now, flags, to);
}

/* What advice means for a block: nothing; that its memory must be private, while the CPU and the
 * driver keep the same pages; or anything, as that which is not known here. */
enum meaning { HARMLESS, PRIVATE, ANYTHING };

static enum meaning meaning_of(int advice)
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
        return HARMLESS;
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_COLLAPSE:
        return PRIVATE;
    default:
        return ANYTHING;
    }
}

/* The kernel has other answers for a file than for malloc's memory. */
static bool is_file(const void *at)
{
    const struct zc_extent *e = zc_hostheap_extent((uintptr_t)at);
    return e && e->fd;
}

SLOW int advise(void *at, size_t n, int advice)
{
    if (plain(at, n))
        return next.madvise(at, n, advice);
    if (advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED ||
        (advice == MADV_FREE && is_file(at)))
        return on_each(at, n, (struct change){discard, advice}) ? 0 : -1;
    if (advice == MADV_REMOVE && is_file(at)) {
        errno = EINVAL;
        return -1;
    }
    if (next.madvise(at, 0, advice) != 0) /* The kernel does not know it. */
        return -1;
    /* Of a private view of the file the kernel would show the file again. */
    if (advice == MADV_GUARD_INSTALL && is_file(at) &&
        !on_each(at, n, (struct change){discard, MADV_DONTNEED}))
        return -1;
    if (meaning_of(advice) != HARMLESS)
        on_each(at, n, (struct change){give_up, meaning_of(advice) == ANYTHING});
    return next.madvise(at, n, advice);
}

EXPORT int madvise(void *at, size_t n, int advice)
{
    return placed(at, n) ? advise(at, n, advice) : next.madvise(at, n, advice);
}

static bool is_self(int process)
{
    char file[48];
    uint64_t pid;
    struct zc_text t = zc_text_on(file, sizeof(file));
    if (process == PIDFD_SELF_THREAD || process == PIDFD_SELF_THREAD_GROUP)
        return true;
    zc_text_fmt(&t, "/proc/self/fdinfo/%d", process);
    return zc_file_number(zc_text_cstr(&t), "Pid:\t", &pid) && pid == (uint64_t)getpid();
}

/* For this process the same as the call for each range. */
EXPORT ssize_t process_madvise(int process, const struct iovec *ranges, size_t count, int advice,
                               unsigned flags)
{
    bool any = false;
    ssize_t done = 0;
    for (size_t i = 0; i < count && !any; i++)
        any = placed(ranges[i].iov_base, ranges[i].iov_len);
    if (!any || !is_self(process) ||
        syscall(SYS_process_madvise, process, ranges, (size_t)0, advice, flags) != 0)
        return syscall(SYS_process_madvise, process, ranges, count, advice, flags);
    for (size_t i = 0; i < count; i++) {
        if (madvise(ranges[i].iov_base, ranges[i].iov_len, advice) != 0)
            return done ? done : -1;
        done += (ssize_t)ranges[i].iov_len;
    }
    return done;
}

/* Bytes of a segment of System V's shared memory; 0 if it can't be attached. */
static size_t segment_bytes(int id)
{
    struct shmid_ds segment;
    return shmctl(id, IPC_STAT, &segment) == 0 ? segment.shm_segsz : 0;
}

EXPORT void *shmat(int id, const void *at, int flags)
{
    uintptr_t low = flags & SHM_RND ? zc_page_start((uintptr_t)at) : (uintptr_t)at;
    size_t n = flags & SHM_REMAP ? segment_bytes(id) : 0;
    if (n && placed((void *)low, n) && !plain((void *)low, n) &&
        !on_each((void *)low, n, (struct change){give_up, true}))
        return (void *)-1;
    return (void *)syscall(SYS_shmat, id, at, flags);
}

/* The addresses of a block stay reserved: what comes in place of a segment detaches it. */
EXPORT int shmdt(const void *at)
{
    struct zc_maps_mapping m = {.inode = 0}, more;
    uintptr_t low = (uintptr_t)at;
    if (!placed(at, 1) || !zc_maps_find(low, &m) || m.start != low || !m.inode)
        return (int)syscall(SYS_shmdt, at);
    while (zc_maps_find(m.end, &more) && more.inode == m.inode)
        m.end = more.end;
    return on_each(at, m.end - low, (struct change){replace, PROT_NONE}) ? 0 : -1;
}
