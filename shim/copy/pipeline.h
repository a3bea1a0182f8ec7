/* SPDX-License-Identifier: MIT */
/* One large copy between pageable memory and a device, through the ring. */
#ifndef ZC_COPY_PIPELINE_H
#define ZC_COPY_PIPELINE_H

#include "driver/copy.h"

struct zc_pipeline {
    struct zc_copy *c; /* The copy: its bytes, stream and flavour; `result` and `copies` are set. */
    char *host;        /* The program's memory. */
    CUdeviceptr device; /* The device's. */
    bool in;            /* To the device. */
    bool reachable;     /* The CPU surely may touch the program's memory. */
};

/*
 * Threads move the bytes between the program's memory and the ring while the copy engine moves
 * others between the ring and the device; returns when all have arrived or the driver refused one,
 * with c->result, and with c->copies the number of the driver's copies.  False when there is no
 * pinned memory, event or thread to be had, or the CPU may not touch the memory: then the program's
 * memory and the device's are as they were.
 */
bool zc_pipeline_run(const struct zc_pipeline *p);

#endif
