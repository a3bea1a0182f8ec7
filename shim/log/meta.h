/* SPDX-License-Identifier: MIT */
/* The log's first line: program, machine and policy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ZC_LOG_GPUS 16 /* Most devices that `meta` lists. */

struct zc_log_gpu {
    char pci[16];           /* cuDeviceGetPCIBusId's text; "" if unknown. */
    unsigned char uuid[16]; /* cuDeviceGetUuid_v2's bytes: of a MIG instance its own. */
    bool known;             /* The UUID is. */
};

/* The contents of `meta`.  Strings may be NULL if unknown, which gives null.  They belong to the
 * caller, and are needed only during the call. */
struct zc_log_meta {
    const char *policy_file;             /* Path of the policy; NULL for none. */
    uint64_t policy_hash;                /* FNV-1a of its text. */
    const char *gpu;                     /* Name of device 0. */
    int driver;                          /* cuDriverGetVersion's number, 0 unknown. */
    int devices;                         /* Device count, -1 unknown. */
    struct zc_log_gpu gpus[ZC_LOG_GPUS]; /* Of the first `devices`. */
};

/* Writes the first line.  Earlier messages follow as `warn` lines. */
void zc_log_meta(const struct zc_log_meta *meta);
