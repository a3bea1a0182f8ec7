/* SPDX-License-Identifier: MIT */
/* Handles of physical memory to which a rule applies, and their mappings. */
#pragma once

#include "base/list.h"
#include "hook/request.h"

/*
 * The decision of a rule about one cuMemCreate.  The memory and this record live while the program
 * holds the handle or has it mapped (CUDA Driver API, cuMemRelease).  All fields except the counts
 * and `handle` are constant.
 */
struct zc_handle {
    CUmemGenericAllocationHandle handle; /* Valid while `held` is not 0; under the lock. */
    unsigned held;                       /* References of the program; under the lock. */
    unsigned mapped;                     /* Mappings, and calls in progress; under the lock. */
    CUmemAllocationProp asked;           /* As the program gave it. */
    const struct zc_rule *rule;          /* The rule. */
    struct zc_backing *backing;          /* The host memory; NULL if it is device memory. */
    size_t size;                         /* Bytes. */
    bool budget;                         /* It counts against the rule's budget. */
    char why[128];                       /* Why it is not in the rule's first place, or "". */
    UT_hash_handle hh;                   /* While `held` is not 0; under the lock. */
};

/* True while there are handles to which a rule applies. */
bool zc_handle_any(void);

/* The record of a handle that is about to be mapped; NULL if no rule applies.  It stays until
 * zc_handle_unmap(). */
struct zc_handle *zc_handle_map(CUmemGenericAllocationHandle handle);

/* A mapping is gone, or could not be made. */
void zc_handle_unmap(struct zc_handle *handle);
