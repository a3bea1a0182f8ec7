/* SPDX-License-Identifier: MIT */
/* Takes libzc's own page faults early, where they cost nothing. */
#include "base/populate.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"

#ifndef MADV_POPULATE_READ /* Of <linux/mman.h>; glibc has them since 2.35. */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* From the linker: the start of this object's first segment, and of its uninitialised variables. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char __bss_start[] __attribute__((visibility("hidden")));

static void populate(const char *from, const char *to, int how)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)from / page * page;
    int saved = errno;
    syscall(SYS_madvise, first, (uintptr_t)to - first, how);
    errno = saved;
}

void zc_populate(void)
{
    char *end, *at = zc_arena_ahead(&end);
    populate(__ehdr_start, __bss_start, MADV_POPULATE_READ);
    if (at)
        populate(at, end, MADV_POPULATE_WRITE);
}
