/* SPDX-License-Identifier: MIT */
/* The part of the summary about limits that processes share. */
#pragma once

#include <stdint.h>

#include "log/line.h"

#define ZC_LOG_BUDGETS 33

struct zc_log_budget {
    const char *limit; /* The policy's key. */
    int device;        /* CUDA ordinal; -1: the host. */
    unsigned processes;
    uint64_t limit_bytes; /* For all processes, as this one's policy has it. */
    uint64_t bytes, peak_bytes;
    uint64_t host_bytes, host_peak_bytes; /* Of all processes, as this one saw them. */
    uint64_t refused;                     /* Requests that the others' bytes were in the way of. */
};

struct zc_log_budgets {
    const char *alone; /* Why nothing is shared, a string constant; NULL if it is. */
    unsigned rows;     /* With no rows and no reason the summary has nothing to tell. */
    struct zc_log_budget row[ZC_LOG_BUDGETS];
};

/* To be filled in before the summary is written. */
extern struct zc_log_budgets zc_log_budgets;

/* Appends them. */
void zc_line_budgets(struct zc_line *line);
