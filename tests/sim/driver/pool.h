/* SPDX-License-Identifier: MIT */
/* Memory pools: a reserve of device memory that stream-ordered blocks are cut from. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "memory.h"

/* One pool. */
struct sim_pool {
    struct sim_pool *next; /* all live pools */
    int device;            /* where its memory is */
    bool builtin;          /* a default pool, which can't be destroyed */
    bool managed;          /* its blocks are managed memory, near no device */
    bool destroyed;        /* gone for the program; freed with its last block */
    CUmemPoolProps props;  /* as created */
    int reuse[3]; /* CU_MEMPOOL_ATTR_REUSE_*: follow event dependencies, opportunistic, internal */
    uint64_t threshold;               /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes */
    uint64_t reserved, reserved_high; /* pages held, bytes */
    uint64_t paged; /* pages with blocks in them, bytes; the rest of `reserved` waits for reuse */
    uint64_t used, used_high;              /* bytes in live blocks */
    size_t blocks;                         /* live blocks */
    size_t freeing;                        /* those of them that a stream will free */
    unsigned char access[SIM_MAX_DEVICES]; /* CUmemAccess_flags of each device */
};

/* The live pool of a handle, or NULL. */
struct sim_pool *sim_pool_of(CUmemoryPool handle);

/* Makes the default pools of all devices. */
void sim_pools_start(void);

/* The pool of managed memory that the driver has by itself. */
struct sim_pool *sim_pool_managed(void);

/* Takes pages for blocks out of the reserve, growing it where needed; or puts them back into it. */
bool sim_pool_take(struct sim_pool *pool, size_t bytes);
void sim_pool_give(struct sim_pool *pool, size_t bytes);

/* Releases the unused reserve of all pools of a device; called when memory is short. */
void sim_pools_trim(int device);

/* Releases the reserve above each pool's threshold; called by every synchronisation. */
void sim_pools_settle(void);

/* Cuts a block from a pool, for a stream of `device`. */
CUresult sim_pool_alloc(struct sim_pool *pool, size_t size, int device, struct sim_block **out);

/* Gives a pooled block back to its pool. */
void sim_pool_free(struct sim_block *block);

/* Number of live pools of the program's own. */
size_t sim_pools_count(void);

#endif
