/* SPDX-License-Identifier: MIT */
/* Virtual memory management: handles of physical memory, reservations of addresses, mappings with
 * rights. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "memory.h"
#include <uthash.h>

/* One allocation of physical memory. Guarded by sim_lock. */
struct sim_handle {
    UT_hash_handle hh;                  /* of all handles with references or mappings */
    CUmemGenericAllocationHandle value; /* the key: what the program has */
    CUmemAllocationProp props;          /* as created */
    size_t size;                        /* bytes */
    int device;                         /* ordinal, -1 for host memory */
    unsigned refs; /* cuMemCreate, cuMemRetainAllocationHandle, cuMemImportFromShareableHandle */
    unsigned mappings; /* cuMemMap */
    int fd;            /* file with its bytes: the common one, or its own where it may be shared */
    bool own_fd;       /* fd is closed with the handle */
    uint64_t offset;   /* of its bytes in the file */
};

/* Properties of a handle. */
const CUmemAllocationProp *sim_handle_props(const struct sim_handle *handle);

/* Allocates a handle; CUDA_ERROR_OUT_OF_MEMORY where the device has not so much. `fd` >= 0 is a
 * file to take over. */
CUresult sim_handle_new(const CUmemAllocationProp *props, size_t size, int fd,
                        struct sim_handle **out);

/* The handle of the program's value with at least one reference, or NULL. */
struct sim_handle *sim_handle_of(CUmemGenericAllocationHandle value);

/* The handle whose file is `fd`'s, or NULL. */
struct sim_handle *sim_handle_by_file(int fd);

/* Drops what has neither references nor mappings. */
void sim_handle_settle(struct sim_handle *handle);

/* Makes the pages of a mapping reachable as `access` says, for one device or for SIM_CPU. */
CUresult sim_mapping_protect(struct sim_block *mapping, int user, unsigned char access);

/* Live reservations, and handles that the program still holds. */
size_t sim_reservations_count(void);
size_t sim_handles_count(void);

#endif
