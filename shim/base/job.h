/* SPDX-License-Identifier: MIT */
/* Which process of which job this one is, from the variables that its launcher has set. */
#pragma once

#include <stdint.h>

#define ZC_JOB_ID 64 /* Bytes of a job's id, with the 0. */

struct zc_job {
    const char *launcher; /* As the log names it; NULL outside a job.  A constant. */
    int64_t rank;         /* -1: unknown, as the next one.  At most ten digits. */
    int64_t local_rank;   /* Among the job's processes on this host. */
    int64_t world;        /* Processes of the job; -1: unknown. */
    int64_t local_world;  /* Those of them on this host, at least 1; -1: unknown. */
    char id[ZC_JOB_ID]; /* Letters, digits, '-', '_' and '.', fit for a file's name; "": unknown. */
};

/* Reads the environment by secure_getenv(3).  Called with zc_options_read(), by one thread; under
 * AT_SECURE nothing is known. */
void zc_job_read(void);

/* As last read; never NULL. */
const struct zc_job *zc_job(void);
