/* SPDX-License-Identifier: MIT */
/*
 * Declarations of headers newer than the oldest that libzc is built with (CUDA 12.8), as far as it
 * uses them.  With it a build knows the same calls, whichever cuda.h it has.  Types stand in `#if`
 * until the version that brought them.  The numbers are compared with cuda.h by
 * tests/driver_names.py.
 * Prototypes of rows with wrappers are made from the table (driver/real.h).
 */
#pragma once

#include <cuda.h>

#if CUDA_VERSION < 12080
#error "libzc needs headers of CUDA 12.8 or newer to be built, and runs with older drivers, too: \
scripts/deps.sh headers 12.8, then make CUDA_HOME=build/deps/cuda-12.8"
#endif

/* Only passed on. */
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP;
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
typedef cuuint32_t CUlogicalEndpointId;
#if CUDA_VERSION < 13030
typedef void (*CUgraphRecaptureCallback)(void);
#endif

/* In the place of enumerators, also where cuda.h has them. */
#define CU_MEM_ALLOCATION_TYPE_MANAGED ((CUmemAllocationType)2)
#define CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN ((CUmemLocationType)6)
#define CU_MEM_LOCATION_TYPE_NONE ((CUmemLocationType)0)
#define CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE ((CUpointer_attribute)21)
#define CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL ((CUpointer_attribute)22)
