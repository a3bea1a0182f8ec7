/* SPDX-License-Identifier: MIT */
/* Starts libzc at the first CUDA call, ends it with the process, and starts it anew in a forked
 * child. */
#pragma once

/* Registers the fork handlers, as early as a library's constructor can. */
void zc_process_watch_forks(void);
