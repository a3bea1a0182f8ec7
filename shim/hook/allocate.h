/* SPDX-License-Identifier: MIT */
/* Allocates: by a place of the request's rule, or by the program's own call. */
#pragma once

#include "hook/request.h"

/* The program's own call, made if no place takes the request. */
struct zc_original {
    CUresult (*call)(const struct zc_original *f); /* Makes the call. */
    void *real;                                    /* The driver's function. */
    CUdeviceptr *dptr; /* Receives the address; may be NULL if the program said so. */
    size_t bytes;      /* Requested size. */
    CUstream stream;   /* cuMemAllocAsync and related calls. */
    CUmemoryPool pool; /* cuMemAllocFromPoolAsync */
    size_t *pitch;     /* cuMemAllocPitch, with its three sizes. */
    size_t width, height;
    unsigned element;
    unsigned flags; /* cuMemHostAlloc */
};

/* Defines such a `call`, of the driver's function `base` with these arguments. */
#define ZC_ORIGINAL(call, base, ...)                                                               \
    static CUresult call(const struct zc_original *f)                                              \
    {                                                                                              \
        return ((__typeof__(base) *)f->real)(__VA_ARGS__);                                         \
    }

/*
 * Finds the rule of a request, tries its list, and enters the block into the ledger.  `unfit`: why
 * the places of a rule are impossible, else NULL.  Returns the driver's code; on success the
 * address is in *f->dptr.
 */
CUresult zc_allocate(struct zc_request *request, const struct zc_original *f, const char *unfit);
