/* SPDX-License-Identifier: MIT */
/* Takes libzc's own page faults early, where they cost nothing. */
#include "base/populate.h"

#include <errno.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/memory.h"

/* From the linker: the start of this object's first segment, and of its uninitialised variables. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char __bss_start[] __attribute__((visibility("hidden")));

static void populate(const char *from, const char *to, int how)
{
    uintptr_t first = zc_page_start((uintptr_t)from);
    int saved = errno;
    zc_memory_advise((void *)first, (uintptr_t)to - first, how);
    errno = saved;
}

void zc_populate(void)
{
    char *end, *at = zc_arena_ahead(&end);
    populate(__ehdr_start, __bss_start, MADV_POPULATE_READ);
    if (at)
        populate(at, end, MADV_POPULATE_WRITE);
}
