/* SPDX-License-Identifier: MIT */
/* One large copy between pageable memory and a device, through the ring. */
#pragma once

#include "driver/copy.h"

struct zc_pipeline {
    struct zc_copy *c;  /* Its bytes, stream, flavour, `result` and `copies` are set. */
    char *host;         /* The program's memory. */
    CUdeviceptr device; /* The device's. */
    bool in;            /* The copy goes to the device. */
    bool reachable;     /* Threads may touch the program's memory as it is. */
};

/*
 * Threads move bytes between the program's memory and the ring while the copy engine moves others
 * between the ring and the device.  Returns when all have arrived or the driver refused one, with
 * c->result, and with the number of the driver's copies in c->copies.  False if there is no pinned
 * memory, event or thread, or the CPU may not access some of the memory: then the driver has to
 * make the copy, all of it.  Parts that were moved before that are in their place.
 */
bool zc_pipeline_run(const struct zc_pipeline *p);
