/* SPDX-License-Identifier: MIT */
/* Memory that the host and the control groups leave, in a file of its own, so that tests can tell
 * another number. */
#include "base/file.h"
#include "memory/cgroup.h"

uint64_t zc_available(void)
{
    uint64_t kib, left = zc_cgroup_left();
    uint64_t host = zc_file_number("/proc/meminfo", "MemAvailable:", &kib) ? kib << 10 : 0;
    return host < left ? host : left;
}
