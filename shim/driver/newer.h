/* SPDX-License-Identifier: MIT */
/*
 * What newer headers than the oldest supported one (CUDA 12.0) declare and libzc uses.  With it a
 * build knows the same calls, whichever cuda.h it has.  Types and constants stand in `#if` until
 * the version that brought them; the assertions at the end hold for these here, and for cuda.h's
 * own where it has them.  Prototypes of rows with wrappers are made from the table (driver/real.h).
 */
#pragma once

#include <cuda.h>
#include <stddef.h>

/* Only passed on. */
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUgraphNodeParams_st CUgraphNodeParams;
typedef struct CUgreenCtx_st *CUgreenCtx;

#if CUDA_VERSION < 12020
#define CU_MEM_LOCATION_TYPE_HOST ((CUmemLocationType)2)
#define CU_MEM_LOCATION_TYPE_HOST_NUMA ((CUmemLocationType)3)
#define CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ((CUmemLocationType)4)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ((CUdevice_attribute)134)
#endif
#if CUDA_VERSION < 13000
#define CU_MEM_LOCATION_TYPE_NONE ((CUmemLocationType)0)
#define CU_MEM_ALLOCATION_TYPE_MANAGED ((CUmemAllocationType)2)
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

/* What libzc reads of a CUmemPoolProps; until 12.3 the largest size is among the reserved bytes. */
struct zc_pool_props {
    char begin[24];
    size_t max_size;
} __attribute__((may_alias));

/* What libzc reads of a CUgraphNodeParams, in all its versions. */
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
        char bytes[240];
    };
} __attribute__((may_alias));

/* Called by libzc alone. */
CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction f);
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *bytes);
CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel kernel);
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes);

#define ZC_NUMBER(name, number) _Static_assert((int)(name) == (number), #name)
#define ZC_LAYOUT(type, last, offset, size)                                                        \
    _Static_assert(offsetof(type, last) == (offset) && sizeof(type) == (size), #type)

ZC_NUMBER(CU_MEM_LOCATION_TYPE_NONE, 0);
ZC_NUMBER(CU_MEM_LOCATION_TYPE_HOST, 2);
ZC_NUMBER(CU_MEM_LOCATION_TYPE_HOST_NUMA, 3);
ZC_NUMBER(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 4);
ZC_NUMBER(CU_MEM_ALLOCATION_TYPE_MANAGED, 2);
ZC_NUMBER(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134);
ZC_NUMBER(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 1);
ZC_NUMBER(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, 2);
ZC_NUMBER(CU_MEMCPY_SRC_ACCESS_ORDER_ANY, 3);
ZC_NUMBER(CU_MEMCPY_OPERAND_TYPE_POINTER, 1);
ZC_NUMBER(CU_MEMCPY_OPERAND_TYPE_ARRAY, 2);
ZC_LAYOUT(CUmemLocation, id, 4, 8);
ZC_LAYOUT(CUmemcpyAttributes, flags, 20, 24);
ZC_LAYOUT(CUmemcpy3DOperand, op, 8, 40);
ZC_LAYOUT(CUDA_MEMCPY3D_BATCH_OP, flags, 108, 112);
_Static_assert(offsetof(CUmemPoolProps, win32SecurityAttributes) + sizeof(void *) ==
                   offsetof(struct zc_pool_props, max_size),
               "CUmemPoolProps");
#if CUDA_VERSION >= 12030
_Static_assert(sizeof(CUgraphNodeParams) == sizeof(struct zc_node_params), "CUgraphNodeParams");
_Static_assert(offsetof(CUgraphNodeParams, memcpy.copyParams) ==
                       offsetof(struct zc_node_params, copy.params) &&
                   offsetof(CUgraphNodeParams, memset.ctx) ==
                       offsetof(struct zc_node_params, set.context) &&
                   offsetof(CUgraphNodeParams, alloc.dptr) ==
                       offsetof(struct zc_node_params, alloc.dptr),
               "CUgraphNodeParams");
#endif
