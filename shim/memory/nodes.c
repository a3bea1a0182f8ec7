/* SPDX-License-Identifier: MIT */
/* The NUMA nodes that new pages come from, as threads choose them. */
#include "memory/nodes.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "log/lines.h"

/* <linux/mempolicy.h>, which needs kernel headers. */
#define MPOL_DEFAULT 0
#define MPOL_PREFERRED 1

#define LOOKS 16 /* Pages of a block that are asked for. */

bool zc_nodes_anywhere(void)
{
    int policy = MPOL_DEFAULT, saved = errno;
    bool any = syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul) == 0;
    errno = saved;
    return any && policy == MPOL_DEFAULT;
}

void zc_nodes_prefer(int node)
{
    int saved = errno;
    unsigned long mask = node >= 0 && node < 64 ? 1ul << node : 0;
    syscall(SYS_set_mempolicy, mask ? MPOL_PREFERRED : MPOL_DEFAULT, mask ? &mask : NULL,
            mask ? 65ul : 0ul);
    errno = saved;
}

void zc_nodes_note(uint32_t site, const void *memory, size_t bytes, int near)
{
    int node[LOOKS], saved = errno;
    void *page[LOOKS];
    uint64_t far = 0;
    for (unsigned i = 0; i < LOOKS; i++)
        page[i] = (void *)zc_page_start((uintptr_t)memory + bytes / LOOKS * i);
    if (near >= 0 && syscall(SYS_move_pages, 0, (unsigned long)LOOKS, page, NULL, node, 0) == 0)
        for (unsigned i = 0; i < LOOKS; i++)
            far += node[i] >= 0 && node[i] != near;
    errno = saved;
    if (far)
        zc_log_count_far(site, bytes / LOOKS * far, near);
}
