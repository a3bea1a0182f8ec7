/* SPDX-License-Identifier: MIT */
/* Extents whose memory is a file without a name. */
#include "host/memfile.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "host/extent.h"
#include "host/overlay.h"

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

/* What a child wrote to it would be written to its parent's: a child that no handler sees has none
 * of it, and ends by SIGSEGV.  For others it is mapped privately before the fork. */
static bool map_shared(const struct zc_extent *e, int rights, int fd)
{
    void *base = (void *)zc_extent_base(e);
    size_t span = zc_extent_span(e);
    return zc_memory_map(base, span, rights, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED &&
           zc_memory_advise(base, span, MADV_DONTFORK) == 0;
}

static bool map_file(struct zc_extent *e, size_t span)
{
    struct stat stat;
    int fd = make_file(span);
    if (fd < 0)
        return false;
    if (fstat(fd, &stat) == 0 && map_shared(e, PROT_NONE, fd)) {
        e->fd = fd;
        e->inode = stat.st_ino;
        return true;
    }
    zc_extent_unback(e);
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

/* Some programs close all files that they do not know, and get the numbers again for others. */
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
    e->fd = 0;
    __atomic_fetch_sub(&opened, 1, __ATOMIC_RELAXED);
}

void zc_memfile_exchange(struct zc_extent *from, struct zc_extent *to)
{
    int fd = from->fd;
    uint64_t inode = from->inode;
    from->fd = to->fd;
    from->inode = to->inode;
    to->fd = fd;
    to->inode = inode;
    if (!ours(from) || !map_shared(from, PROT_READ | PROT_WRITE, from->fd))
        __atomic_store_n(&from->odd, true, __ATOMIC_RELEASE);
}

static bool part_run(const struct zc_extent *e, uintptr_t at, size_t n, int rights)
{
    if (ours(e))
        return zc_memory_map((void *)at, n, rights, MAP_PRIVATE | MAP_FIXED, e->fd,
                             (off_t)(at - zc_extent_base(e))) != MAP_FAILED;
    /* Without the file the pages are copied. */
    void *own = zc_memory_map(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return false;
    if (zc_memory_protect((void *)at, n, PROT_READ) == 0) {
        memcpy(own, (void *)at, n);
        if (zc_memory_protect(own, n, rights) == 0 &&
            zc_memory_move(own, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) != MAP_FAILED)
            return true;
        zc_memory_protect((void *)at, n, rights);
    }
    zc_memory_unmap(own, n);
    return false;
}

bool zc_memfile_part(const struct zc_extent *e, uintptr_t at, size_t n, bool write)
{
    bool done = true;
    for (uintptr_t high = at + n, end; at < high && done; at = end) {
        int rights = zc_overlay_run(e, at, high, &end);
        if (!(rights & ZC_OVERLAY_FOREIGN))
            done = part_run(e, at, end - at, write ? rights : rights & ~PROT_WRITE);
    }
    return done;
}

bool zc_memfile_freeze(struct zc_extent *e)
{
    if (!zc_memfile_shareable(e))
        return true;
    if (!zc_memfile_part(e, zc_extent_base(e), zc_extent_span(e), true))
        return false;
    __atomic_store_n(&e->odd, true, __ATOMIC_RELEASE);
    __atomic_store_n(&e->stale, true, __ATOMIC_RELEASE);
    __atomic_store_n(&e->frozen, true, __ATOMIC_RELEASE);
    return true;
}

/* A child has the parent's blocks as they are at the fork, whatever both write later, and that
 * holds of private mappings alone.  Extents of pairs are not for this module. */
static void freeze_for_child(struct zc_extent *e, void *failed)
{
    bool pooled = e->use == ZC_EXTENT_FREE;
    if (!zc_hostheap_mine(e) || e->shared)
        return;
    if (pooled)
        zc_extent_unpool(e); /* The pool counts those that nobody may get again. */
    if (!zc_memfile_freeze(e))
        *(bool *)failed = true;
    if (pooled)
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
