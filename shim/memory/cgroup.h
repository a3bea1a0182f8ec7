/* SPDX-License-Identifier: MIT */
/* Memory that the host, and the control groups that limit this process, have left. */
#pragma once

#include <stdint.h>

/*
 * Bytes that the control groups of the process, and those above them, leave (cgroups(7), both
 * versions of the memory controller): those of the group that leaves least.  UINT64_MAX without a
 * limit; 0 in a signal handler that interrupted this.  Makes system calls alone.
 */
uint64_t zc_cgroup_left(void);

/* The least of that and of MemAvailable of proc_meminfo(5), which is 0 if it can't be read. */
uint64_t zc_available(void);
