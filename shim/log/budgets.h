/* SPDX-License-Identifier: MIT */
/* The part of the summary about limits. */
#pragma once

#include <stdint.h>

#include "log/line.h"

#define ZC_LOG_BUDGETS 33

struct zc_log_budget {
    const char *limit; /* The policy's key. */
    int device;        /* CUDA ordinal; -1: what the process has on all, or on the host. */
    uint64_t ranks;    /* Processes of the job that the limit is divided among, at least 1. */
    uint64_t limit_bytes, bytes, peak_bytes; /* Of this process. */
    uint64_t refused;                        /* Requests that did not fit. */
};

struct zc_log_budgets {
    unsigned rows;
    struct zc_log_budget row[ZC_LOG_BUDGETS];
};

/* To be filled in before the summary is written. */
extern struct zc_log_budgets zc_log_budgets;

/* Appends them, if there are any. */
void zc_line_budgets(struct zc_line *line);
