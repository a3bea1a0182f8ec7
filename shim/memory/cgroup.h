/* SPDX-License-Identifier: MIT */
/* Memory and processors that the host, and this process's control groups, have left. */
#pragma once

#include <stdint.h>

/*
 * Bytes that the control groups of the process, and those above them, leave (cgroups(7), both
 * versions of the memory controller): those of the group that leaves least.  UINT64_MAX without a
 * limit; 0 in a signal handler that interrupted this.  Makes system calls alone.
 */
uint64_t zc_cgroup_left(void);

/* Processors that the CPU quota of these groups is worth, rounded up: with more threads all would
 * stand still until the next period.  UINT64_MAX without a quota, or in such a handler. */
uint64_t zc_cgroup_processors(void);

/* The least of zc_cgroup_left() and of MemAvailable of proc_meminfo(5), which is 0 if it can't be
 * read. */
uint64_t zc_available(void);
