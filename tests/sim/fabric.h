/* SPDX-License-Identifier: MIT */
/* Arguments of a batch of copies over a fabric, for headers before CUDA 13.5. */
#pragma once

#include "driver/newer.h"

#if CUDA_VERSION < 13050
typedef enum CUfabricCpyOperandType_enum {
    CU_FABRIC_COPY_OPERAND_TYPE_POINTER = 1,
    CU_FABRIC_COPY_OPERAND_TYPE_LOGICAL_ENDPOINT = 2,
    CU_FABRIC_COPY_OPERAND_TYPE_MAX = 0x7FFFFFFF
} CUfabricCpyOperandType;

typedef struct CUfabricCpyOperand_st {
    CUfabricCpyOperandType type;
    union {
        struct {
            CUdeviceptr ptr;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUlogicalEndpointId id;
            cuuint64_t offset;
        } le;
    } op;
} CUfabricCpyOperand;

struct CUDA_FABRIC_COPY_BATCH_OP_st {
    CUfabricCpyOperand src, dst;
    size_t size;
    unsigned int flags;
};
#endif
