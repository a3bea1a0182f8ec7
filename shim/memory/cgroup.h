/* SPDX-License-Identifier: MIT */
/* What the host, and the control groups that limit this process, leave of memory. */
#pragma once

#include <stdint.h>

struct zc_cgroup {
    uint64_t id;   /* Inode number of its folder: on one host the same for all its processes. */
    uint64_t left; /* Bytes that it may still have. */
};

#define ZC_CGROUPS 3

struct zc_available {
    uint64_t host; /* MemAvailable of proc_meminfo(5); 0 if it can't be read. */
    unsigned groups;
    struct zc_cgroup group[ZC_CGROUPS];
};

/* Reads both.  Returns the least of all. */
uint64_t zc_available(struct zc_available *out);

/*
 * Fills in the groups of the process and those above them that have a limit (cgroups(7), both
 * versions of the memory controller), the innermost first.  Returns their number; of more than
 * `cap` the one with the most left is dropped.  Makes system calls alone.  Called by one thread at
 * a time.
 */
unsigned zc_cgroup_limits(struct zc_cgroup *out, unsigned cap);
