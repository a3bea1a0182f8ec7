/* SPDX-License-Identifier: MIT */
/* The memory map: every range of addresses that the simulated driver knows, and what may touch it.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "driver.h"
#include "view.h"

/* Kinds of blocks. */
enum sim_kind {
    SIM_DEVICE,     /* cuMemAlloc, cuMemAllocPitch */
    SIM_POOLED,     /* cuMemAllocAsync, cuMemAllocFromPoolAsync, graph allocation nodes */
    SIM_HOST,       /* cuMemHostAlloc, cuMemAllocHost */
    SIM_REGISTERED, /* cuMemHostRegister */
    SIM_MANAGED,    /* cuMemAllocManaged */
    SIM_VMM,        /* one mapping of a cuMemCreate handle */
    SIM_GLOBAL      /* a __device__ or __constant__ variable */
};

/* Memory kinds as CUPTI's activity records name them. */
enum sim_traffic_kind {
    SIM_PAGEABLE,
    SIM_PINNED,
    SIM_ON_DEVICE,
    SIM_IN_ARRAY,
    SIM_UNIFIED,
    SIM_TRAFFIC_KINDS
};

#define SIM_CPU SIM_MAX_DEVICES /* the CPU's place in an access table */

/* A run of addresses with one meaning. Blocks never overlap. Guarded by sim_lock. */
struct sim_block {
    CUdeviceptr va;          /* first address, as the program knows it */
    size_t size;             /* bytes asked for */
    enum sim_kind kind;      /* what it is */
    int device;              /* owner's ordinal */
    struct sim_context *ctx; /* dies with it; NULL where the block belongs to no context */
    unsigned flags;          /* flags of the request */
    unsigned long long id;   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    int sync_memops;         /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    char *storage;    /* where the GPU, played by the CPU, finds the bytes; NULL for SIM_VMM, whose
                         bytes are at the alias of its address */
    size_t footprint; /* bytes that it takes of the device, or of the host; 0 for parts of chunks */
    size_t taken;     /* managed: bytes of the footprint that the device has */
    struct sim_view view;    /* pinned host memory: the GPU's mapping of its pages */
    struct sim_chunk *chunk; /* small device blocks: where they lie */
    struct sim_slab *slab;   /* small blocks of pinned memory from the driver: where they lie */
    struct sim_pool *pool;   /* pooled and managed blocks: where they came from */
    bool counted;            /* pooled blocks: among the bytes that the pool has in use */
    bool freeing;            /* pooled blocks: freed by a call, not yet by the stream, */
    unsigned long long freeing_in; /* which has this id */
    unsigned reused;     /* pooled blocks: frees that streams have yet to come to, and that are void
                            because the block was given again */
    unsigned graph_refs; /* blocks of graph allocation nodes: nodes that have this address */
    bool dormant;        /* blocks of graph allocation nodes: not allocated at present */
    struct sim_handle *handle; /* mappings: the memory */
    unsigned char
        access[SIM_MAX_DEVICES + 1]; /* mappings: CUmemAccess_flags of each device and of SIM_CPU */
    bool read_mostly;                /* managed: advice */
    bool accessed_by[SIM_MAX_DEVICES + 1]; /* managed: advice; SIM_CPU is the host */
    CUmemLocation preferred; /* managed: advice; type CU_MEM_LOCATION_TYPE_INVALID for none */
    CUmemLocation
        prefetched; /* managed: last prefetch; type CU_MEM_LOCATION_TYPE_INVALID for none */
};

/* Reserves the public range and the alias ranges of sim_device_count devices. */
CUresult sim_memory_start(void);

/* True where an address is the driver's: in the range that device addresses come from, or in a
 * reservation at a hint outside of it. The CPU can't touch it, unless the program maps pages there.
 */
bool sim_va_reserved(CUdeviceptr va);

/* A range of addresses. */
struct sim_range {
    CUdeviceptr base; /* first address */
    size_t size;      /* bytes */
};

/* The reservation that holds an address of a mapping. */
struct sim_range sim_reservation_of(CUdeviceptr va);

/* True where a live reservation of the program's holds the range. */
bool sim_reservation_holds(CUdeviceptr va, size_t size);

/* Address at which device `device` (simulated by the CPU) sees a public address. */
char *sim_alias(CUdeviceptr va, int device);

/* Public addresses. sim_va_take gives 0 where none are left. */
CUdeviceptr sim_va_take(size_t size, size_t alignment);
void sim_va_give(CUdeviceptr va, size_t size);

/* Addresses for a reservation at a hint, which may be any that is free, or 0. sim_va_end gives a
 * reservation's addresses back, with the pages that the CPU has there. */
CUdeviceptr sim_va_take_hint(CUdeviceptr hint, size_t size);
void sim_va_end(CUdeviceptr va, size_t size);

/* Puts anonymous memory behind [va, va+size) on one device and fills it with 0xA5; or takes it
 * away. */
bool sim_alias_back(CUdeviceptr va, size_t size, int device);
void sim_alias_drop(CUdeviceptr va, size_t size, int device);

/* The block that contains an address, the first that overlaps a range, or NULL. */
struct sim_block *sim_block_find(CUdeviceptr va);
struct sim_block *sim_block_overlap(CUdeviceptr va, size_t size);

/* A zeroed block in the map, with its own id. The range must be free. */
struct sim_block *sim_block_add(CUdeviceptr va, size_t size, enum sim_kind kind, int device,
                                struct sim_context *ctx);

/* Takes a block out of the map and frees the struct, not the memory. */
void sim_block_remove(struct sim_block *block);

/* Walks the map in address order: the i-th block, or NULL. */
struct sim_block *sim_block_at(size_t i);

/* Allocates device memory of any size >= 1 at a multiple of 512 bytes; CUDA_ERROR_OUT_OF_MEMORY
 * where it does not fit. kind is SIM_DEVICE or, with a pool, SIM_POOLED; the pages of pooled blocks
 * come from the pool's reserve. */
CUresult sim_device_alloc(size_t size, enum sim_kind kind, struct sim_context *ctx, int device,
                          struct sim_pool *pool, struct sim_block **out);

/* Allocates managed memory of any size >= 1, counted against a device; `pool` may be NULL. */
CUresult sim_managed_alloc(size_t size, struct sim_context *ctx, int device, struct sim_pool *pool,
                           struct sim_block **out);

/* Frees what sim_device_alloc gave. */
void sim_device_free(struct sim_block *block);

/* Frees a block of any kind but SIM_VMM and SIM_GLOBAL, with its memory. */
void sim_block_free(struct sim_block *block);

/* Frees all memory of a context. */
void sim_memory_context_end(struct sim_context *ctx);

/* The rights of a copy at an address. */
struct sim_place {
    char *pointer;              /* where the bytes are for the CPU */
    enum sim_traffic_kind kind; /* as CUPTI would say */
    int device;                 /* owner of device or managed memory, else -1 */
    bool mixed;                 /* device handles and host handles side by side */
    bool hosted;                /* handles side by side, one of them of host memory */
};

/* Finds the bytes [va, va+size) for a copy of `device`'s, or CUDA_ERROR_INVALID_VALUE: addresses
 * that were freed, that run past their block, that the device may not touch in this way. An address
 * that nobody registered is the CPU's own memory if `pageable` allows it. */
CUresult sim_resolve(CUdeviceptr va, size_t size, int device, bool write, bool pageable,
                     struct sim_place *out);

/* Whether kernels and sets of a device reach a block of cuMemAlloc or a variable: its own device's
 * do, others once peer access is enabled. */
bool sim_reaches(const struct sim_block *block, int device);

/* Whether a live context of a device has peer access to another device. */
bool sim_has_peer(int device, int other);

/* Ordinal of the device whose kernel the calling thread runs, or -1. */
extern __thread int sim_kernel_device;

#endif
