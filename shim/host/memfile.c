/* SPDX-License-Identifier: MIT */
/* Extents whose memory is a file without a name. */
#include "host/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "host/extent.h"
#include "memory/pages.h"

#define OPEN (PROT_READ | PROT_WRITE)

#define FD_PART 4 /* Of RLIMIT_NOFILE, the most that is taken. */

static uint32_t opened; /* Files; atomic. */

/* Where a file may not grow, setting its length raises SIGXFSZ (setrlimit(2), RLIMIT_FSIZE). */
static bool within_limits(size_t span, uint32_t files)
{
    struct rlimit size, count;
    return getrlimit(RLIMIT_FSIZE, &size) == 0 && getrlimit(RLIMIT_NOFILE, &count) == 0 &&
           size.rlim_cur >= span && files <= count.rlim_cur / FD_PART;
}

static int make_file(size_t span)
{
    int low = memfd_create("libzc", MFD_CLOEXEC), fd = -1;
    if (low < 0)
        return -1;
    if (ftruncate(low, (off_t)span) == 0)
        fd = fcntl(low, F_DUPFD_CLOEXEC, ZC_FILE_FIRST);
    if (fd < 0)
        fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
    zc_file_close(low);
    return fd;
}

/* A child would see what its parent writes into the file: one that no handler sees has none of it,
 * and ends by SIGSEGV.  For others it is mapped privately, and frozen, before the fork. */
static bool map_shared(const struct zc_extent *e, uintptr_t at, int fd, int rights)
{
    size_t n = zc_extent_span(e);
    return zc_memory_map((void *)at, n, rights, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED &&
           zc_memory_advise((void *)at, n, MADV_DONTFORK) == 0;
}

/* A private view of all of the file, of which nothing is touched: for when the program has closed
 * the file, as some close all that they do not know. */
static void *map_reserve(int fd, size_t span)
{
    return zc_memory_map(NULL, span, PROT_NONE, MAP_PRIVATE, fd, 0);
}

static bool map_file(struct zc_extent *e, size_t span)
{
    struct stat stat;
    int fd = make_file(span);
    if (fd < 0)
        return false;
    void *view = map_reserve(fd, span);
    if (view != MAP_FAILED && fstat(fd, &stat) == 0 &&
        map_shared(e, zc_extent_base(e), fd, PROT_NONE)) {
        e->fd = fd;
        e->inode = stat.st_ino;
        e->view = view;
        return true;
    }
    if (view != MAP_FAILED)
        zc_memory_unmap(view, span);
    zc_memfile_reserve(zc_extent_base(e), span);
    zc_file_close(fd);
    return false;
}

void zc_memfile_open(struct zc_extent *e)
{
    size_t span = zc_extent_span(e);
    uint32_t files = __atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED);
    if (!within_limits(span, files) || !map_file(e, span))
        __atomic_fetch_sub(&opened, 1, __ATOMIC_RELAXED);
}

/* Programs that close files get their numbers again for others. */
static bool ours(const struct zc_extent *e)
{
    struct stat stat;
    return fstat(e->fd, &stat) == 0 && stat.st_ino == e->inode;
}

void zc_memfile_close(struct zc_extent *e)
{
    if (!e->fd)
        return;
    if (ours(e))
        zc_file_close(e->fd);
    if (e->view)
        zc_memory_unmap(e->view, zc_extent_span(e));
    e->fd = 0;
    __atomic_fetch_sub(&opened, 1, __ATOMIC_RELAXED);
}

void zc_memfile_reserve(uintptr_t at, size_t n)
{
    zc_memory_map((void *)at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                  -1, 0);
}

bool zc_memfile_show(const struct zc_extent *e, uintptr_t at)
{
    errno = EBADF;
    if (ours(e) && map_shared(e, at, e->fd, OPEN))
        return true;
    int error = errno;
    zc_memfile_reserve(at, zc_extent_span(e));
    errno = error;
    return false;
}

/* What was set for the mapping in its place holds for the new one: huge pages, and the node, which
 * pages of the file have from the file.  It takes that place in one step, so that no other thread
 * sees a gap: mremap(2), MREMAP_FIXED. */
static bool move_over(const struct zc_extent *e, void *view, size_t from, size_t n, int flags)
{
    zc_memory_advise(view, n, MADV_DONTFORK);
    zc_memory_advise(view, n, e->small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    zc_pages_bind(view, n, e->node, false);
    return zc_memory_move(view, n, n, MREMAP_MAYMOVE | MREMAP_FIXED | flags,
                          (void *)(zc_extent_base(e) + from)) != MAP_FAILED;
}

/* The kernel may refuse memory for a mapping after it has unmapped what was there, so the view
 * comes from elsewhere. */
static bool map_private(const struct zc_extent *e, size_t from, size_t n, int fd)
{
    void *view = zc_memory_map(NULL, n, OPEN, MAP_PRIVATE | MAP_NORESERVE, fd, (off_t)from);
    if (view == MAP_FAILED)
        return false;
    bool done = move_over(e, view, from, n, 0);
    if (!done)
        zc_memory_unmap(view, n);
    return done;
}

/* The kernel counts the view and what replaces it (RLIMIT_DATA), and looks after it has unmapped
 * what was there: too late. */
static bool has_room(size_t n)
{
    void *other = zc_memory_map(NULL, n, OPEN, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return other != MAP_FAILED && zc_memory_unmap(other, n) == 0;
}

/* MREMAP_DONTUNMAP: from Linux 5.13 on for files. */
static bool take_view(const struct zc_extent *e, size_t from, size_t n)
{
    char *view = (char *)e->view + from;
    bool done = zc_memory_protect(view, n, OPEN) == 0 && has_room(n) &&
                move_over(e, view, from, n, MREMAP_DONTUNMAP);
    zc_memory_protect(view, n, PROT_NONE);
    return done;
}

/* Under the heap's lock.  What is a private view already is not mapped again: that would drop the
 * pages that were written. */
static bool part(struct zc_extent *e, size_t bytes)
{
    size_t had = e->apart, now = (bytes + ZC_HOST_UNIT - 1) & ~(ZC_HOST_UNIT - 1);
    if (now <= had)
        return true;
    if (e->odd || !(ours(e) ? map_private(e, had, now - had, e->fd) : take_view(e, had, now - had)))
        return false;
    __atomic_store_n(&e->apart, now, __ATOMIC_RELEASE);
    return true;
}

bool zc_memfile_part(struct zc_extent *e, size_t bytes)
{
    if (bytes <= __atomic_load_n(&e->apart, __ATOMIC_ACQUIRE))
        return true;
    if (!zc_heap_lock())
        return false;
    bool done = part(e, bytes);
    zc_heap_unlock();
    return done;
}

/* Under the heap's lock. */
static bool freeze(struct zc_extent *e)
{
    if (!zc_memfile_shareable(e))
        return true;
    if (!part(e, zc_extent_span(e)))
        return false;
    __atomic_store_n(&e->stale, true, __ATOMIC_RELEASE);
    __atomic_store_n(&e->frozen, true, __ATOMIC_SEQ_CST);
    return zc_memory_advise((void *)zc_extent_base(e), zc_extent_span(e), MADV_DOFORK) == 0;
}

bool zc_memfile_freeze(struct zc_extent *e)
{
    if (!zc_memfile_shareable(e))
        return true;
    if (!zc_heap_lock())
        return false;
    bool done = freeze(e);
    zc_heap_unlock();
    return done;
}

void zc_memfile_merge(struct zc_extent *e)
{
    if (!e->apart)
        return;
    bool done = zc_hostheap_mine(e) && zc_memfile_shareable(e) && !e->odd && ours(e) &&
                map_shared(e, zc_extent_base(e), e->fd, OPEN);
    e->apart = done ? 0 : e->apart;
    __atomic_store_n(done ? &e->stale : &e->odd, true, __ATOMIC_RELEASE);
}

static void swap_files(struct zc_extent *a, struct zc_extent *b)
{
    int fd = a->fd;
    uint64_t inode = a->inode;
    void *view = a->view;
    a->fd = b->fd;
    a->inode = b->inode;
    a->view = b->view;
    b->fd = fd;
    b->inode = inode;
    b->view = view;
}

bool zc_memfile_exchange(struct zc_extent *from, struct zc_extent *to)
{
    if (!ours(from) || !ours(to) || !zc_heap_lock())
        return false;
    bool done = map_private(to, 0, zc_extent_span(to), from->fd);
    if (done) {
        swap_files(from, to);
        __atomic_store_n(&to->apart, zc_extent_span(to), __ATOMIC_RELEASE);
        if (!map_shared(from, zc_extent_base(from), from->fd, OPEN))
            __atomic_store_n(&from->odd, true, __ATOMIC_RELEASE);
    }
    zc_heap_unlock();
    return done;
}

/* A child has the parent's blocks as they are at the fork, whatever both write later. */
static void freeze_for_child(struct zc_extent *e, void *failed)
{
    if (!zc_hostheap_mine(e) || !zc_memfile_shareable(e))
        return;
    if (e->use != ZC_EXTENT_FREE) {
        *(bool *)failed |= !freeze(e);
        return;
    }
    zc_extent_unpool(e); /* The pool counts those that nobody may get again. */
    e->odd = true;
    zc_extent_pool(e);
}

void zc_memfile_before_fork(void)
{
    bool failed = false;
    if (__atomic_load_n(&opened, __ATOMIC_RELAXED))
        zc_extent_each(freeze_for_child, &failed);
    if (failed)
        zc_message(ZC_ERROR, "fork",
                   "the kernel gives no memory to keep host blocks of place 'shared' apart: a "
                   "forked child that touches one is ended by SIGSEGV");
}
