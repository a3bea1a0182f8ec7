/* SPDX-License-Identifier: MIT */
/* How an entry point is written: the macros that give each exported symbol its record, count, trace
 * and fault injection.
 *
 * A body runs with sim_lock held. It may wait on sim_progress, or drop the lock for a while with
 * sim_unlock and sim_relock. A body that exists in both stream flavours asks sim_default_stream()
 * what NULL means. */
#ifndef SIM_CALL_H
#define SIM_CALL_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL /* every ABI version and stream flavour is itself (cuda.h,     \
                                       "API versioning support") */
#endif
#include "driver/newer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))

/* When an entry point answers. */
enum sim_when {
    SIM_ALWAYS,     /* also before cuInit */
    SIM_AFTER_INIT, /* CUDA_ERROR_NOT_INITIALIZED before */
    SIM_STUB        /* CUDA_ERROR_NOT_SUPPORTED at any time: not simulated */
};

/* One exported entry point. The records lie in the ELF section sim_calls, which is the table of all
 * of them. */
struct sim_call {
    const char *name;     /* exported symbol */
    void *address;        /* the function itself */
    enum sim_when when;   /* when it answers */
    CUstream null_stream; /* what a NULL stream means: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD */
    _Atomic unsigned long long count; /* calls since start or sim_reset_counts */
};

/* Counts the call, injects an ordered failure, checks the life of the driver and takes sim_lock.
 * Returns false, with the code in *result, where the body must not run. */
bool sim_enter(struct sim_call *call, CUresult *result);

/* Releases sim_lock where sim_enter took it and writes the trace line. Returns `result`. */
CUresult sim_leave(struct sim_call *call, bool entered, CUresult result);

/* The record of an exported name, or NULL. A simulated entry point hides the stub of the same name.
 */
struct sim_call *sim_call_find(const char *name);

/* The version that the driver claims to be of (SIM_DRIVER). */
int sim_driver_version(void);

/* Values that no CUDA has: drivers of version SIM_FUTURE on take them (future.c). */
#define SIM_FUTURE 99000
#define SIM_FUTURE_OPERAND 9 /* CUmemcpy3DOperandType: as a pointer. */
#define SIM_FUTURE_NODE 99   /* CUgraphNodeType: as a copy. */
#define SIM_FUTURE_FLAG 256u /* Of cuStreamWriteValue: means nothing. */

/* The meaning of a NULL stream in the call that the thread is in. */
CUstream sim_default_stream(void);

#define SIM_ENTRY(symbol, body, when_, stream_, params, args)                                      \
    SIM_EXPORT CUresult CUDAAPI symbol params;                                                     \
    static struct sim_call sim_call_##symbol = {#symbol, (void *)symbol, when_, stream_, 0};       \
    static struct sim_call *const sim_row_##symbol __attribute__((section("sim_calls"), used)) =   \
        &sim_call_##symbol;                                                                        \
    SIM_EXPORT CUresult CUDAAPI symbol params                                                      \
    {                                                                                              \
        CUresult result_ = CUDA_SUCCESS;                                                           \
        bool entered_ = sim_enter(&sim_call_##symbol, &result_);                                   \
        if (entered_)                                                                              \
            result_ = body args;                                                                   \
        return sim_leave(&sim_call_##symbol, entered_, result_);                                   \
    }

/* An entry point of one flavour, followed by its body. */
#define SIM_API(name, params, args)                                                                \
    static CUresult body_##name params;                                                            \
    SIM_ENTRY(name, body_##name, SIM_AFTER_INIT, CU_STREAM_LEGACY, params, args)                   \
    static CUresult body_##name params

/* An entry point that also answers before cuInit. */
#define SIM_API_ALWAYS(name, params, args)                                                         \
    static CUresult body_##name params;                                                            \
    SIM_ENTRY(name, body_##name, SIM_ALWAYS, CU_STREAM_LEGACY, params, args)                       \
    static CUresult body_##name params

/* An older or newer ABI version that has the signature and meaning of a body already written. */
#define SIM_ALIAS(name, body, params, args)                                                        \
    SIM_ENTRY(name, body, SIM_AFTER_INIT, CU_STREAM_LEGACY, params, args)

/* The same with a per-thread twin NAME_ptsz. */
#define SIM_ALIAS_PTSZ(name, body, params, args)                                                   \
    SIM_ENTRY(name, body, SIM_AFTER_INIT, CU_STREAM_LEGACY, params, args)                          \
    SIM_ENTRY(name##_ptsz, body, SIM_AFTER_INIT, CU_STREAM_PER_THREAD, params, args)

#define SIM_TWINS_(name, twin, params, args)                                                       \
    static CUresult body_##name params;                                                            \
    SIM_ENTRY(name, body_##name, SIM_AFTER_INIT, CU_STREAM_LEGACY, params, args)                   \
    SIM_ENTRY(twin, body_##name, SIM_AFTER_INIT, CU_STREAM_PER_THREAD, params, args)               \
    static CUresult body_##name params

/* An entry point with a stream argument and its per-thread twin NAME_ptsz, followed by the body of
 * both. */
#define SIM_API_PTSZ(name, params, args) SIM_TWINS_(name, name##_ptsz, params, args)

/* A synchronous entry point and its per-thread twin NAME_ptds, followed by the body of both. */
#define SIM_API_PTDS(name, params, args) SIM_TWINS_(name, name##_ptds, params, args)

#endif
