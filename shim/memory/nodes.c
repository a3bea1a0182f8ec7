/* SPDX-License-Identifier: MIT */
/* The NUMA nodes that new pages come from, as threads choose them. */
#include "memory/nodes.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <linux/mempolicy.h>, which needs kernel headers. */
#define MPOL_DEFAULT 0
#define MPOL_PREFERRED 1

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
