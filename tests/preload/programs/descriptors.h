/* SPDX-License-Identifier: MIT */
/* How many descriptors the table of a process has room for. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* From proc_pid_status(5); 0 if it does not say. */
static inline size_t descriptors(void)
{
    char line[256];
    size_t size = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        sscanf(line, "FDSize: %zu", &size);
    return status && fclose(status) == 0 ? size : 0;
}
