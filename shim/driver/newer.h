/* SPDX-License-Identifier: MIT */
/*
 * Declarations of headers newer than the oldest supported one (CUDA 12.0), as far as libzc uses
 * them.  With it a build knows the same calls, whichever cuda.h it has.  Types stand in `#if` until
 * the version that brought them; the assertions at the end hold for these here, and for cuda.h's
 * own where it has them.  The numbers are compared with cuda.h by tests/driver_names.py. Prototypes
 * of rows with wrappers are made from the table (driver/real.h).
 */
#pragma once

#include <cuda.h>
#include <stddef.h>

/* Only passed on. */
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUgraphNodeParams_st CUgraphNodeParams;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
typedef cuuint32_t CUlogicalEndpointId;

/* In the place of enumerators, also where cuda.h has them. */
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ((CUdevice_attribute)134)
#define CU_GRAPH_NODE_TYPE_CONDITIONAL ((CUgraphNodeType)13)
#define CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH ((CUgraphNodeType)18)
#define CU_GRAPH_NODE_TYPE_MEMCPY_BATCH ((CUgraphNodeType)14)
#define CU_MEM_ALLOCATION_TYPE_MANAGED ((CUmemAllocationType)2)
#define CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN ((CUmemLocationType)6)
#define CU_MEM_LOCATION_TYPE_HOST ((CUmemLocationType)2)
#define CU_MEM_LOCATION_TYPE_HOST_NUMA ((CUmemLocationType)3)
#define CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ((CUmemLocationType)4)
#define CU_MEM_LOCATION_TYPE_NONE ((CUmemLocationType)0)
#define CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE ((CUpointer_attribute)21)
#define CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL ((CUpointer_attribute)22)

#if CUDA_VERSION < 12060
typedef struct CUmemDecompressParams_st {
    size_t srcNumBytes, dstNumBytes;
    cuuint32_t *dstActBytes;
    const void *src;
    void *dst;
    int algo;
    unsigned char padding[20];
} CUmemDecompressParams;
#endif

#if CUDA_VERSION < 12080
typedef enum CUmemcpySrcAccessOrder_enum {
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1,
    CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 2,
    CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3,
    CU_MEMCPY_SRC_ACCESS_ORDER_MAX = 0x7FFFFFFF
} CUmemcpySrcAccessOrder;

typedef struct CUmemcpyAttributes_st {
    CUmemcpySrcAccessOrder srcAccessOrder;
    CUmemLocation srcLocHint, dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;

typedef enum CUmemcpy3DOperandType_enum {
    CU_MEMCPY_OPERAND_TYPE_POINTER = 1,
    CU_MEMCPY_OPERAND_TYPE_ARRAY = 2,
    CU_MEMCPY_OPERAND_TYPE_MAX = 0x7FFFFFFF
} CUmemcpy3DOperandType;

typedef struct CUoffset3D_st {
    size_t x, y, z;
} CUoffset3D;

typedef struct CUextent3D_st {
    size_t width, height, depth;
} CUextent3D;

typedef struct CUmemcpy3DOperand_st {
    CUmemcpy3DOperandType type;
    union {
        struct {
            CUdeviceptr ptr;
            size_t rowLength, layerHeight;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUarray array;
            CUoffset3D offset;
        } array;
    } op;
} CUmemcpy3DOperand;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
    CUmemcpy3DOperand src, dst;
    CUextent3D extent;
    CUmemcpySrcAccessOrder srcAccessOrder;
    unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;
#endif

#if CUDA_VERSION < 13030
typedef enum CUgraphRecaptureStatus_enum {
    CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE = 0,
    CU_GRAPH_RECAPTURE_INELIGIBLE_FOR_UPDATE = 1,
    CU_GRAPH_RECAPTURE_ERROR = 2
} CUgraphRecaptureStatus;

typedef CUresult(CUDA_CB *CUgraphRecaptureCallback)(void *data, CUgraphNode node,
                                                    const CUgraphNodeParams *before,
                                                    const CUgraphNodeParams *now,
                                                    CUgraphRecaptureStatus status);
#endif

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

typedef struct CUDA_FABRIC_COPY_BATCH_OP_st {
    CUfabricCpyOperand src, dst;
    size_t size;
    unsigned int flags;
} CUDA_FABRIC_COPY_BATCH_OP;
#endif

/* The part of a CUgraphNodeParams that libzc reads, in all its versions. */
struct zc_node_params {
    CUgraphNodeType type;
    int zero[3];
    union {
        struct {
            int flags, reserved;
            CUcontext context;
            CUDA_MEMCPY3D params;
        } copy;
        struct {
            CUDA_MEMSET_NODE_PARAMS params;
            CUcontext context;
        } set;
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        struct {
            CUgraph graph;
            int ownership;
        } child;
        struct {
            cuuint64_t handle;
            int type;
            unsigned count;
            CUgraph *bodies;
            CUcontext context;
        } conditional;
        struct {
            size_t count;
            CUdeviceptr *dsts, *srcs;
            size_t *sizes;
            CUmemcpyAttributes *attributes;
            size_t *indices, attribute_count;
            CUcontext context;
        } batch;
        struct {
            size_t count;
            CUDA_FABRIC_COPY_BATCH_OP *ops;
            unsigned long long flags;
            CUcontext context;
        } fabric;
        char bytes[240];
    };
} __attribute__((may_alias));

/* Called by libzc alone. */
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *bytes);
CUresult CUDAAPI cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *params);
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes);

#define ZC_LAYOUT(type, last, offset, size)                                                        \
    _Static_assert(offsetof(type, last) == (offset) && sizeof(type) == (size), #type)

ZC_LAYOUT(CUmemLocation, id, 4, 8);
ZC_LAYOUT(CUmemDecompressParams, dst, 32, 64);
ZC_LAYOUT(CUfabricCpyOperand, op, 8, 24);
ZC_LAYOUT(CUDA_FABRIC_COPY_BATCH_OP, flags, 56, 64);
ZC_LAYOUT(CUmemcpyAttributes, flags, 20, 24);
ZC_LAYOUT(CUmemcpy3DOperand, op, 8, 40);
ZC_LAYOUT(CUDA_MEMCPY3D_BATCH_OP, flags, 108, 112);
#define ZC_MEMBER(ours, its)                                                                       \
    _Static_assert(offsetof(struct zc_node_params, ours) == offsetof(CUgraphNodeParams, its), #its)
#if CUDA_VERSION >= 12030
_Static_assert(sizeof(CUgraphNodeParams) == sizeof(struct zc_node_params), "CUgraphNodeParams");
ZC_MEMBER(copy.params, memcpy.copyParams);
ZC_MEMBER(set.context, memset.ctx);
ZC_MEMBER(child.graph, graph.graph);
ZC_MEMBER(alloc.dptr, alloc.dptr);
ZC_MEMBER(conditional.count, conditional.size);
ZC_MEMBER(conditional.bodies, conditional.phGraph_out);
#endif
#if CUDA_VERSION >= 13050
ZC_MEMBER(batch.sizes, memcpyBatch.sizes);
ZC_MEMBER(batch.attribute_count, memcpyBatch.numAttrs);
ZC_MEMBER(fabric.ops, fabricCpyBatch.opList);
#endif
