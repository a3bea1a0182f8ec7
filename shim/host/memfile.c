/* SPDX-License-Identifier: MIT */
/* Extents whose memory is a file without a name. */
#include "host/memfile.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "host/extent.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "memory/thread.h"

#define OPEN (PROT_READ | PROT_WRITE)

/* Of vm.max_map_count, the most files: each takes three mappings, and five once it is copied. */
#define MAPS_PART 16

/*
 * No descriptor is kept, because programs close files that they do not know.  Where `view` points
 * there are two mappings of all of the file, without rights, so that nothing is touched there: a
 * private one, and behind it a shared one.  All others are copies of these (mremap(2)).  A child
 * would see what its parent writes into the file, so none gets them.  One whose fork no handler
 * sees ends by SIGSEGV where it touches the extent; for others it is mapped privately, and frozen,
 * before the fork.
 */
static bool memfile_map(void *at, size_t n, int kind, int fd)
{
    return zc_memory_map(at, n, PROT_NONE, kind | MAP_FIXED | MAP_NORESERVE, fd, 0) != MAP_FAILED &&
           zc_memory_advise(at, n, MADV_DONTFORK) == 0;
}

/* Beyond RLIMIT_FSIZE setting a length raises SIGXFSZ (setrlimit(2)). */
static bool set_length(int fd, size_t span)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= span &&
           ftruncate(fd, (off_t)span) == 0;
}

/* A file that is about to be an extent's. */
struct file {
    char *base, *view;
    size_t span;
    uint64_t inode; /* 0 where it could not be made. */
};

static void make_file(void *arg)
{
    struct file *f = arg;
    struct stat stat;
    int fd = memfd_create("libzc", MFD_CLOEXEC);
    if (fd >= 0 && set_length(fd, f->span) && fstat(fd, &stat) == 0 &&
        memfile_map(f->view, f->span, MAP_PRIVATE, fd) &&
        memfile_map(f->view + f->span, f->span, MAP_SHARED, fd) &&
        memfile_map(f->base, f->span, MAP_SHARED, fd))
        f->inode = stat.st_ino;
    zc_file_close(fd);
}

/* Aside, because another thread of the program may close the descriptor meanwhile, and have its own
 * file by that number: that would be lengthened, and mapped. */
void zc_memfile_open(struct zc_extent *e)
{
    struct file f = {.base = (char *)zc_extent_base(e), .span = zc_extent_span(e)};
    if (__atomic_load_n(&zc_extent_files, __ATOMIC_RELAXED) >= zc_limits_maps() / MAPS_PART)
        return;
    f.view = zc_memory_fresh(2 * f.span, PROT_NONE);
    if (!f.view)
        return;
    if (zc_thread_aside(make_file, &f) && f.inode) {
        __atomic_fetch_add(&zc_extent_files, 1, __ATOMIC_RELAXED);
        e->view = f.view;
        e->inode = f.inode;
    } else {
        zc_memory_unmap(f.view, 2 * f.span);
        zc_memfile_reserve((uintptr_t)f.base, f.span);
    }
}

void zc_memfile_reserve(uintptr_t at, size_t n)
{
    zc_memory_map((void *)at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                  -1, 0);
}

/* An old length of 0 means another mapping of the same pages. */
bool zc_memfile_show(const struct zc_extent *e, uintptr_t at)
{
    size_t span = zc_extent_span(e);
    if (e->view &&
        zc_memory_move((char *)e->view + span, 0, span, MREMAP_MAYMOVE | MREMAP_FIXED,
                       (void *)at) != MAP_FAILED &&
        zc_memory_protect((void *)at, span, OPEN) == 0)
        return true;
    zc_memfile_reserve(at, span);
    return false;
}

/*
 * Bytes [from, from + n) of the extent become a private view of the file at `view`.  What was set
 * for the mapping in its place holds for the new one: huge pages.  The kernel may refuse memory for
 * a mapping after it has unmapped what was there, so the view is made elsewhere, and takes its
 * place in one step, so that no other thread sees a gap.  If the program has locked its memory
 * (mlockall(2)), pages of a locked view would be copied there as soon as it may be written, and not
 * have what other threads write until it takes the place.  MREMAP_DONTUNMAP: from Linux 5.13 on for
 * files.
 */
static bool map_private(const struct zc_extent *e, char *view, size_t from, size_t n)
{
    void *copy = zc_memory_move(view + from, n, n, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (copy == MAP_FAILED)
        return false;
    zc_memory_advise(copy, n, e->small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    if (munlock(copy, n) == 0 && zc_memory_protect(copy, n, OPEN) == 0 &&
        zc_memory_move(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED,
                       (void *)(zc_extent_base(e) + from)) != MAP_FAILED)
        return true;
    zc_memory_unmap(copy, n);
    return false;
}

/* Under the heap's lock.  A private view is not mapped again, which would drop written pages. */
static bool make_private(struct zc_extent *e, size_t bytes)
{
    size_t had = e->private_bytes, now = (bytes + ZC_HOST_UNIT - 1) & ~(ZC_HOST_UNIT - 1);
    if (now <= had)
        return true;
    if (e->no_reuse || !e->view || !map_private(e, e->view, had, now - had))
        return false;
    __atomic_store_n(&e->private_bytes, now, __ATOMIC_RELEASE);
    return true;
}

bool zc_memfile_make_private(struct zc_extent *e, size_t bytes)
{
    if (bytes <= __atomic_load_n(&e->private_bytes, __ATOMIC_ACQUIRE))
        return true;
    ZC_HEAP_HELD mine = zc_heap_lock();
    return mine && make_private(e, bytes);
}

/* Under the heap's lock. */
static bool memfile_freeze(struct zc_extent *e)
{
    if (!zc_memfile_shareable(e))
        return true;
    if (!make_private(e, zc_extent_span(e)))
        return false;
    __atomic_store_n(&e->stale, true, __ATOMIC_RELEASE);
    __atomic_store_n(&e->frozen, true, __ATOMIC_SEQ_CST);
    return zc_memory_advise((void *)zc_extent_base(e), zc_extent_span(e), MADV_DOFORK) == 0;
}

bool zc_memfile_freeze(struct zc_extent *e)
{
    if (!zc_memfile_shareable(e))
        return true;
    ZC_HEAP_HELD mine = zc_heap_lock();
    return mine && memfile_freeze(e);
}

void zc_memfile_forget(const struct zc_extent *e, size_t from, size_t n)
{
    char *shared = (char *)e->view + zc_extent_span(e) + from;
    ZC_HEAP_HELD mine = zc_heap_lock();
    if (mine && e->private_bytes && !e->inherited && zc_memory_protect(shared, n, OPEN) == 0) {
        zc_memory_advise(shared, n, MADV_REMOVE);
        zc_memory_protect(shared, n, PROT_NONE);
    }
}

void zc_memfile_drop_private(struct zc_extent *e)
{
    if (!e->private_bytes)
        return;
    bool done = zc_hostheap_mine(e) && zc_memfile_shareable(e) && !e->no_reuse &&
                zc_memfile_show(e, zc_extent_base(e));
    e->private_bytes = done ? 0 : e->private_bytes;
    __atomic_store_n(done ? &e->stale : &e->no_reuse, true, __ATOMIC_RELEASE);
}

/* A child has the parent's blocks as they are at the fork, whatever both write later. */
static void freeze_for_child(struct zc_extent *e, void *failed)
{
    if (!zc_hostheap_mine(e) || !zc_memfile_shareable(e))
        return;
    if (e->use != ZC_EXTENT_FREE) {
        *(bool *)failed |= !memfile_freeze(e);
        return;
    }
    zc_extent_unpool(e); /* The pool counts those that nobody may get again. */
    e->no_reuse = true;
    zc_extent_pool(e);
}

void zc_memfile_before_fork(void)
{
    bool failed = false;
    zc_extent_each(freeze_for_child, &failed);
    if (failed)
        zc_message(ZC_URGENT, "fork",
                   "the kernel gives no memory to keep host blocks of place 'shared' apart: a "
                   "forked child that touches one is ended by SIGSEGV");
}
