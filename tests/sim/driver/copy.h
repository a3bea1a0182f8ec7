/* SPDX-License-Identifier: MIT */
/* The copy engine: every copy is a CUDA_MEMCPY3D, every set a CUDA_MEMSET_NODE_PARAMS. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "memory.h"
#include "stream.h"

/* How a copy call behaves towards its caller. */
enum sim_copy_mode {
    SIM_COPY_SYNC,     /* returns when the bytes are there; between devices, when it is queued */
    SIM_COPY_ASYNC,    /* returns when queued, or as CUDA's rules for pageable memory want it */
    SIM_COPY_IN_ORDER, /* the same; the source is read at the copy's turn in the stream */
    SIM_COPY_IN_CALL   /* the source has been read when it returns */
};

/* The mode for a CUmemcpySrcAccessOrder; of an order that there is. */
enum sim_copy_mode sim_copy_mode_of(int order);

/* The shape of a linear copy. memory types: of the host (any address), of the device, or
 * CU_MEMORYTYPE_UNIFIED. */
CUDA_MEMCPY3D sim_copy_linear(CUmemorytype dst_type, CUdeviceptr dst, CUmemorytype src_type,
                              CUdeviceptr src, size_t n);

/* The shape of a copy whose lengths may count elements of an array; CUDA_ERROR_INVALID_VALUE for
 * what is none. */
CUresult sim_copy_of_op(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *shape);

/* Checks a copy and does or queues it on the stream of `handle`. */
CUresult sim_copy(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode);

/* The same with the rights of `device`. */
CUresult sim_copy_for(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode,
                      int device);

/* The same for a call that names the context of the source in `reserved0` and that of the target in
 * `reserved1`. */
CUresult sim_copy_peer(const CUDA_MEMCPY3D *shape, CUstream handle, enum sim_copy_mode mode);

/* Launches a graph of that one copy on a stream that is not being captured, whose driver reads what
 * it would read of a copy by itself. Takes over what the work owns. */
CUresult sim_copy_launch(struct sim_stream *stream, struct sim_work *work);

/* CUDA_ERROR_INVALID_VALUE where the copy could not run on `device`. */
CUresult sim_copy_check(const CUDA_MEMCPY3D *shape, int device);

/* Whether a driver crashes when it makes a copy, which it takes into a graph (measured). */
bool sim_copy_crashes(const struct sim_work *work);

/* Whether a driver refuses to instantiate a graph of a copy that it took into it (measured). */
bool sim_copy_refused(const struct sim_work *work);

/* Notes what a node copies, which may be freed before it is changed. */
void sim_copy_remember(struct sim_work *work);

/* Whether a driver lets a node of an executable graph copy something else (measured). */
bool sim_copy_may_become(const struct sim_work *now, const struct sim_work *then);

/* Whether a graph is instantiated with a copy between managed and pinned memory, which may become
 * one of pageable memory, and then ends with 700 when it runs (an H200, chain_facts). */
bool sim_copy_frail(const struct sim_work *work);

/* Moves the bytes. Called without sim_lock. */
CUresult sim_copy_run(struct sim_work *work);

/* The same for sets. */
CUresult sim_set_check(const CUDA_MEMSET_NODE_PARAMS *shape, int device);
bool sim_set_refused(const struct sim_work *work);
bool sim_set_may_become(const struct sim_work *now, const struct sim_work *then);
CUresult sim_set_run(struct sim_work *work);

/* Counts one executed copy or set (`set` ignores the source) for SIM_COPIES. Called with sim_lock.
 */
void sim_traffic_copy(const struct sim_place *src, const struct sim_place *dst, int device,
                      uint64_t bytes);
void sim_traffic_set(const struct sim_place *dst, uint64_t bytes);

#endif
