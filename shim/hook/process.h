/* SPDX-License-Identifier: MIT */
/* Starting with the first CUDA call, ending with the process, starting anew in a forked child. */
#ifndef ZC_HOOK_PROCESS_H
#define ZC_HOOK_PROCESS_H

/* Makes forks known to libzc: as early as a library's constructor may have forks be known to it. */
void zc_process_watch_forks(void);

#endif
