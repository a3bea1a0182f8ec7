/* SPDX-License-Identifier: MIT */
/* Values that a stream writes to memory or waits for: cuStreamWriteValue32/64,
 * cuStreamWaitValue32/64, in both ABIs. */
#include "capture.h"
#include "launch.h"
#include <time.h>

static bool satisfied(uint64_t now, uint64_t wanted, unsigned how, bool wide)
{
    switch (how & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(now - wanted) >= 0
                    : (int32_t)((uint32_t)now - (uint32_t)wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & wanted) != 0;
    default:
        return wide ? ~(now | wanted) != 0 : (uint32_t) ~(now | wanted) != 0;
    }
}

CUresult sim_value_run(struct sim_work *work, int device)
{
    struct sim_place place;
    size_t size = work->u.value.wide ? 8 : 4;
    bool write = work->u.value.write;
    for (;;) {
        sim_relock();
        CUresult r = sim_resolve(work->u.value.address, size, device, write, false, &place);
        sim_unlock();
        if (r != CUDA_SUCCESS)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        void *at = place.pointer;
        if (write) {
            if (work->u.value.wide)
                __atomic_store_n((uint64_t *)at, work->u.value.value, __ATOMIC_SEQ_CST);
            else
                __atomic_store_n((uint32_t *)at, (uint32_t)work->u.value.value, __ATOMIC_SEQ_CST);
            return CUDA_SUCCESS;
        }
        uint64_t now = work->u.value.wide ? __atomic_load_n((uint64_t *)at, __ATOMIC_SEQ_CST)
                                          : __atomic_load_n((uint32_t *)at, __ATOMIC_SEQ_CST);
        if (satisfied(now, work->u.value.value, work->u.value.flags, work->u.value.wide))
            return CUDA_SUCCESS;
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

static CUresult value(CUstream handle, CUdeviceptr address, uint64_t wanted, unsigned flags,
                      bool wide, bool write)
{
    struct sim_stream *s;
    struct sim_place place;
    struct sim_work work = {.kind = SIM_WORK_VALUE,
                            .u.value = {address, wanted, flags, wide, write}};
    size_t size = wide ? 8 : 4;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    r = sim_capture_implicit(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (sim_driver_version() >= SIM_FUTURE && write)
        flags &= ~SIM_FUTURE_FLAG;
    if (address % size || (flags & ~(write ? 1u : 3u | CU_STREAM_WAIT_VALUE_FLUSH)))
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_resolve(address, size, s->ctx->device, write, false, &place);
    /* As an H200 answers: tests/gpu/graph_facts.h200.txt. */
    const struct sim_block *block = sim_block_find(address);
    if (r == CUDA_SUCCESS && (place.kind == SIM_UNIFIED || (block && block->kind == SIM_POOLED)))
        return CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? sim_submit(s, &work) : r;
}

#define VALUE(name, type, wide, write)                                                             \
    SIM_API_PTSZ(name, (CUstream s, CUdeviceptr address, type wanted, unsigned int flags),         \
                 (s, address, wanted, flags))                                                      \
    {                                                                                              \
        return value(s, address, wanted, flags, wide, write);                                      \
    }

VALUE(cuStreamWriteValue32, cuuint32_t, false, true)
VALUE(cuStreamWriteValue32_v2, cuuint32_t, false, true)
VALUE(cuStreamWriteValue64, cuuint64_t, true, true)
VALUE(cuStreamWriteValue64_v2, cuuint64_t, true, true)
VALUE(cuStreamWaitValue32, cuuint32_t, false, false)
VALUE(cuStreamWaitValue32_v2, cuuint32_t, false, false)
VALUE(cuStreamWaitValue64, cuuint64_t, true, false)
VALUE(cuStreamWaitValue64_v2, cuuint64_t, true, false)

/* Barriers and flushes order nothing more here than the stream does. */
static CUresult batch(CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops,
                      unsigned flags)
{
    CUresult r = count && ops && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && r == CUDA_SUCCESS; i++) {
        int type = (int)ops[i].operation;
        bool write =
            type == CU_STREAM_MEM_OP_WRITE_VALUE_32 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        bool wide =
            type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        if (write)
            r = value(stream, ops[i].writeValue.address,
                      wide ? ops[i].writeValue.value64 : ops[i].writeValue.value,
                      ops[i].writeValue.flags, wide, true);
        else if (wide || type == CU_STREAM_MEM_OP_WAIT_VALUE_32)
            r = value(stream, ops[i].waitValue.address,
                      wide ? ops[i].waitValue.value64 : ops[i].waitValue.value,
                      ops[i].waitValue.flags, wide, false);
        else if (type != CU_STREAM_MEM_OP_BARRIER && type != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    return r;
}

SIM_API_PTSZ(cuStreamBatchMemOp,
             (CUstream s, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
             (s, count, ops, flags))
{
    return batch(s, count, ops, flags);
}

SIM_API_PTSZ(cuStreamBatchMemOp_v2,
             (CUstream s, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
             (s, count, ops, flags))
{
    return batch(s, count, ops, flags);
}
