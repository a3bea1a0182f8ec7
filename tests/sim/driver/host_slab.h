/* SPDX-License-Identifier: MIT */
/* Slabs of pinned host memory for small requests. Guarded by sim_lock. */
#ifndef SIM_HOST_SLAB_H
#define SIM_HOST_SLAB_H

#include "memory.h"

/* Requests of up to so many bytes share slabs of SIM_PAGE. */
#define SIM_SLAB_BLOCK (SIM_PAGE / 2)

/* Memory of zeroes for a block of up to SIM_SLAB_BLOCK bytes, at a multiple of 512 bytes or of a
 * page: the CPU's address, with the slab and the GPU's address; NULL where there is none. */
void *sim_slab_take(size_t size, struct sim_slab **slab, char **alias);

/* Takes it back, whatever the program has mapped at the CPU's side of it. */
void sim_slab_give(struct sim_slab *slab, void *block, size_t size);

/* The CPU's first address of a slab. */
CUdeviceptr sim_slab_base(const struct sim_slab *slab);

#endif
