/* SPDX-License-Identifier: MIT */
/*
 * Changes that the program makes to pages of its own blocks: munmap, mmap over them, mremap,
 * mprotect, madvise.  Blocks of the host heap retreat (host/retreat.h); all other calls pass
 * straight through.
 *
 * Until the first malloc looks up the functions behind libzc's, raw system calls replace them: a
 * look-up in here could come from inside an allocator.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "driver/real.h"
#include "hook/process.h"
#include "host/maps.h"
#include "place/hostmem.h"

#define EXPORT __attribute__((visibility("default")))

/* Of <linux/pidfd.h>: Linux 6.14. */
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#define PIDFD_SELF_THREAD_GROUP (-10001)
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* The header declares it with an ellipsis, which uses the same registers. */
EXPORT void *zc_hook_mremap(void *at, size_t n, size_t now, int flags, void *to) __asm__("mremap");

/* Several threads may run this at once; all store the same values. */
void zc_memory_find(void)
{
#define FIND(name)                                                                                 \
    do {                                                                                           \
        void *found_##name = zc_real_dlsym(RTLD_NEXT, #name);                                      \
        if (found_##name)                                                                          \
            __atomic_store_n((void **)&zc_page_calls.name, found_##name, __ATOMIC_RELEASE);        \
    } while (0)
    FIND(mmap);
    FIND(munmap);
    FIND(mremap);
    FIND(mprotect);
    FIND(pkey_mprotect);
    FIND(madvise);
}

EXPORT int mprotect(void *at, size_t n, int protection)
{
    return zc_retreat_meets(at, n) && !zc_retreat(at, n)
               ? -1
               : zc_page_calls.mprotect(at, n, protection);
}

EXPORT int pkey_mprotect(void *at, size_t n, int protection, int key)
{
    return zc_retreat_meets(at, n) && !zc_retreat(at, n)
               ? -1
               : zc_page_calls.pkey_mprotect(at, n, protection, key);
}

EXPORT int munmap(void *at, size_t n)
{
    return zc_retreat_meets(at, n) ? zc_retreat_unmap(at, n) : zc_page_calls.munmap(at, n);
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    bool over = (flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE);
    return over && zc_retreat_meets(at, n) && !zc_retreat(at, n)
               ? MAP_FAILED
               : zc_page_calls.mmap(at, n, protection, flags, fd, from);
}

EXPORT void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t from)
{
    return mmap(at, n, protection, flags, fd, from);
}

EXPORT void *zc_hook_mremap(void *at, size_t n, size_t now, int flags, void *to)
{
    return zc_retreat_meets(at, n) || ((flags & MREMAP_FIXED) && zc_retreat_meets(to, now))
               ? zc_retreat_move(at, n, now, flags, to)
               : zc_page_calls.mremap(at, n, now, flags, to);
}

EXPORT int madvise(void *at, size_t n, int advice)
{
    return zc_retreat_meets(at, n) ? zc_retreat_advise(at, n, advice)
                                   : zc_page_calls.madvise(at, n, advice);
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
        any = zc_retreat_meets(ranges[i].iov_base, ranges[i].iov_len);
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
    if (n && zc_retreat_meets((void *)low, n) && !zc_retreat((void *)low, n))
        return (void *)-1;
    return (void *)syscall(SYS_shmat, id, at, flags);
}

/* The addresses of a block stay reserved: what comes in place of a segment detaches it. */
EXPORT int shmdt(const void *at)
{
    struct zc_maps_mapping m = {.inode = 0}, more;
    uintptr_t low = (uintptr_t)at;
    if (!zc_retreat_meets(at, 1) || !zc_maps_find(low, &m) || m.start != low || !m.inode)
        return (int)syscall(SYS_shmdt, at);
    while (zc_maps_find(m.end, &more) && more.inode == m.inode && !strcmp(more.name, m.name))
        m.end = more.end;
    return zc_retreat_unmap((void *)low, m.end - low);
}
