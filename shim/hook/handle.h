/* SPDX-License-Identifier: MIT */
/* Handles of physical memory that a rule decided on, and the mappings of them. */
#ifndef ZC_HOOK_HANDLE_H
#define ZC_HOOK_HANDLE_H

#include "hook/request.h"

/*
 * What a rule decided about the memory of one cuMemCreate.  The memory lives while the program
 * holds the handle or has it mapped, and so does this record (CUDA Driver API, cuMemRelease).  All
 * fields but the counts and `handle` are constant.
 */
struct zc_handle {
    struct zc_handle *next;              /* In its bucket; under the lock. */
    CUmemGenericAllocationHandle handle; /* Valid while `held`; under the lock. */
    unsigned held;                       /* References that the program has; under the lock. */
    unsigned mapped;                     /* Mappings, and calls under way; under the lock. */
    CUmemAllocationProp asked;           /* As the program gave it. */
    const struct zc_rule *rule;          /* That decided. */
    struct zc_backing *backing; /* The host memory; NULL where the memory is the device's. */
    size_t size;                /* Bytes. */
    bool budget;                /* Counts against the rule's budget. */
    char why[128];              /* Why not the first place of the rule, "" if it is. */
};

/* The record of a handle that is about to be mapped, NULL for handles that no rule decided on.  It
 * stays until zc_handle_unmap(). */
struct zc_handle *zc_handle_map(CUmemGenericAllocationHandle handle);

/* A mapping is gone, or was not made. */
void zc_handle_unmap(struct zc_handle *handle);

/* The mapping that an address lies in, if its memory is the host's by a rule; else NULL. */
struct zc_block *zc_handle_mapping_at(CUdeviceptr address);

/*
 * What the driver would answer for device memory where an address lies in such a mapping: true with
 * the result for attributes that host memory answers otherwise.
 */
bool zc_handle_answer(CUdeviceptr ptr, void *data, CUpointer_attribute attribute, CUresult *result);

#endif
