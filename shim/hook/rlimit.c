/* SPDX-License-Identifier: MIT */
/*
 * Functions that set RLIMIT_AS and RLIMIT_DATA, and mlockall.  The heap's reserved addresses count
 * against RLIMIT_AS and RLIMIT_MEMLOCK, used or not, and its pool against RLIMIT_DATA.  So libzc
 * gives back what it can, or the program could map or lock nothing more.
 *
 * In glibc all of them are one system call, made directly here.  Sanitizers call these functions
 * before anything can be looked up, and before instrumented code may touch memory.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "place/hostmem.h"

#define EXPORT __attribute__((visibility("default")))

_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "prlimit64(2) takes either");

/* A process may be named by any of its threads. */
static bool own(pid_t pid)
{
    if (pid == 0)
        return true;
    int saved = errno;
    bool found = syscall(SYS_tgkill, getpid(), pid, 0) == 0;
    errno = saved;
    return found;
}

static int rlimit_exchange(pid_t pid, int resource, const void *limit, void *old)
{
    long result = syscall(SYS_prlimit64, pid, resource, limit, old);
    bool counts = resource == RLIMIT_AS || resource == RLIMIT_DATA;
    if (result == 0 && limit && counts && own(pid))
        zc_hostmem_fit(false);
    return (int)result;
}

#define SET(name, type)                                                                            \
    EXPORT int name(__rlimit_resource_t resource, const struct type *limit)                        \
    {                                                                                              \
        return rlimit_exchange(0, (int)resource, limit, NULL);                                     \
    }

#define EXCHANGE(name, type)                                                                       \
    EXPORT int name(pid_t pid, enum __rlimit_resource resource, const struct type *limit,          \
                    struct type *old)                                                              \
    {                                                                                              \
        return rlimit_exchange(pid, (int)resource, limit, old);                                    \
    }

SET(setrlimit, rlimit)
SET(setrlimit64, rlimit64)
EXCHANGE(prlimit, rlimit)
EXCHANGE(prlimit64, rlimit64)

/* Placed blocks keep their addresses; later ones get none where the limit counts. */
EXPORT int mlockall(int flags)
{
    int result = (int)syscall(SYS_mlockall, flags);
    if (result == 0 || errno != ENOMEM)
        return result;
    zc_hostmem_fit(true);
    return (int)syscall(SYS_mlockall, flags);
}
