/* SPDX-License-Identifier: MIT */
/* Granting a request for memory: by a place of its rule, or by the program's own call. */
#ifndef ZC_HOOK_ALLOCATE_H
#define ZC_HOOK_ALLOCATE_H

#include "hook/request.h"

/* The program's own call, to be made where no place takes the request. */
struct zc_forward {
    CUresult (*call)(const struct zc_forward *f); /* Makes it. */
    void *real;                                   /* The driver's function. */
    CUdeviceptr *dptr; /* Where the block's address goes; NULL as the program may have given. */
    size_t bytes;      /* Size, as the program gave it. */
    CUstream stream;   /* cuMemAllocAsync and kin. */
    CUmemoryPool pool; /* cuMemAllocFromPoolAsync */
    size_t *pitch;     /* cuMemAllocPitch, with its three sizes. */
    size_t width, height;
    unsigned element;
    unsigned flags; /* cuMemHostAlloc */
};

/*
 * Finds the rule of a request and walks its list; enters the block into the ledger.  `unfit` is why
 * a rule's places are not possible for it, NULL if they are.  Returns the driver's code, with the
 * block's address in *f->dptr on success.
 */
CUresult zc_allocate(struct zc_ask *ask, const struct zc_forward *f, const char *unfit);

#endif
