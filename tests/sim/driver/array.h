/* SPDX-License-Identifier: MIT */
/* CUDA arrays: opaque device memory without an address. */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "driver.h"

/* One array, or the whole of a mipmapped array's levels is a list of them. Guarded by sim_lock. */
struct sim_array {
    struct sim_array *next;       /* all live arrays */
    struct sim_context *ctx;      /* dies with it */
    int device;                   /* where its memory is counted */
    CUDA_ARRAY3D_DESCRIPTOR desc; /* as created */
    size_t row, rows, slices;     /* extent: bytes, rows, slices (layers included) */
    size_t footprint;             /* device memory taken, bytes */
    char *bytes;                  /* owned storage */
    struct sim_mipmap *level_of;  /* part of a mipmapped array, which owns it; or NULL */
};

/* The array of a handle, or NULL. */
struct sim_array *sim_array_of(CUarray handle);

/* Frees the arrays of a context. */
void sim_arrays_context_end(struct sim_context *ctx);

/* Number of live arrays and mipmapped arrays of the program's. */
size_t sim_arrays_count(void);

#endif
