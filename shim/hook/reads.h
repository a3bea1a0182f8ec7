/* SPDX-License-Identifier: MIT */
/*
 * Memory of the program that the driver reads by itself, call by call.  It may be in the host block
 * of a pair, whose pages libzc closes, so it is lent to the driver first (shared/access.h).  Copies
 * and sets are not listed here: libzc answers for their blocks and reads their descriptions itself.
 */
#ifndef ZC_HOOK_READS_H
#define ZC_HOOK_READS_H

#include "driver/copy.h"
#include "driver/real.h"
#include "shared/access.h"

/* `count` elements at a pointer. */
#define zc_reads_array(p, count) zc_shared_lend((p), zc_product((count), sizeof(*(p))))
#define zc_reads_one(p) zc_reads_array(p, 1)

void zc_reads_text(const char *text);

/* The arguments of a kernel, in either form. */
void zc_reads_kernel(CUfunction f, void *const *params, void *const *extra);
void zc_reads_config(const CUlaunchConfig *config);
void zc_reads_launches(const CUDA_LAUNCH_PARAMS *list, unsigned count);

/* Code in any form: a fat binary or its wrapper, a cubin, PTX. */
void zc_reads_image(const void *image);

/* Options of the compiler, and the buffers that it fills later. */
void zc_reads_jit(unsigned count, const CUjit_option *options, void *const *values);

/* A node of a graph. */
void zc_reads_kernel_node(const CUDA_KERNEL_NODE_PARAMS_v2 *params);
void zc_reads_kernel_node_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *params);
#if CUDA_VERSION >= 12030
void zc_reads_node(const CUgraphNodeParams *params);
#endif

/* A row: ZC_READS_<base> runs first in the wrapper of that row in driver.def. */
#define ZC_READS(what)                                                                             \
    ~, do                                                                                          \
    {                                                                                              \
        if (__builtin_expect(__atomic_load_n(&zc_shared_writable, __ATOMIC_RELAXED), 0)) {         \
            what;                                                                                  \
        }                                                                                          \
    }                                                                                              \
    while (0)

/* The row of an entry point, or nothing if it has none. */
#define ZC_LEND(base) ZC_LEND_SECOND(ZC_READS_##base, , )
#define ZC_LEND_SECOND(...) ZC_LEND_SECOND_(__VA_ARGS__)
#define ZC_LEND_SECOND_(first, second, ...) second

/* Launches. */
#define ZC_READS_cuLaunchKernel ZC_READS(zc_reads_kernel(f, params, extra))
#define ZC_READS_cuLaunchKernelEx                                                                  \
    ZC_READS((zc_reads_config(config), zc_reads_kernel(f, params, extra)))
#define ZC_READS_cuLaunchCooperativeKernel ZC_READS(zc_reads_kernel(f, params, NULL))
#define ZC_READS_cuLaunchCooperativeKernelMultiDevice ZC_READS(zc_reads_launches(list, count))

/* Code. */
#define ZC_READS_cuModuleLoad ZC_READS(zc_reads_text(file))
#define ZC_READS_cuModuleLoadData ZC_READS(zc_reads_image(image))
#define ZC_READS_cuModuleLoadDataEx                                                                \
    ZC_READS((zc_reads_image(image), zc_reads_jit(count, options, values)))
#define ZC_READS_cuModuleLoadFatBinary ZC_READS(zc_reads_image(image))
#define ZC_READS_cuModuleGetFunction ZC_READS(zc_reads_text(name))
#define ZC_READS_cuModuleGetGlobal ZC_READS(zc_reads_text(name))
#define ZC_READS_cuModuleGetGlobal_v2 ZC_READS(zc_reads_text(name))
#define ZC_READS_cuLibraryLoadData                                                                 \
    ZC_READS((zc_reads_image(image), zc_reads_jit(jit_count, jit, jit_values),                     \
              zc_reads_array(options, count), zc_reads_array(values, count)))
#define ZC_READS_cuLibraryLoadFromFile                                                             \
    ZC_READS((zc_reads_text(file), zc_reads_jit(jit_count, jit, jit_values),                       \
              zc_reads_array(options, count), zc_reads_array(values, count)))
#define ZC_READS_cuLibraryGetKernel ZC_READS(zc_reads_text(name))
#define ZC_READS_cuLibraryGetGlobal ZC_READS(zc_reads_text(name))
#define ZC_READS_cuLibraryGetManaged ZC_READS(zc_reads_text(name))
#define ZC_READS_cuLinkCreate ZC_READS(zc_reads_jit(count, options, values))
#define ZC_READS_cuLinkCreate_v2 ZC_READS(zc_reads_jit(count, options, values))
#define ZC_READS_cuLinkAddData                                                                     \
    ZC_READS((zc_shared_lend(data, n), zc_reads_text(name), zc_reads_jit(count, options, values)))
#define ZC_READS_cuLinkAddData_v2                                                                  \
    ZC_READS((zc_shared_lend(data, n), zc_reads_text(name), zc_reads_jit(count, options, values)))
#define ZC_READS_cuLinkAddFile ZC_READS((zc_reads_text(file), zc_reads_jit(count, options, values)))
#define ZC_READS_cuLinkAddFile_v2                                                                  \
    ZC_READS((zc_reads_text(file), zc_reads_jit(count, options, values)))

/* Graphs. */
#define ZC_READS_cuStreamBeginCaptureToGraph                                                       \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_array(edges, count)))
#define ZC_READS_cuGraphAddKernelNode                                                              \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_kernel_node_v1(params)))
#define ZC_READS_cuGraphAddKernelNode_v2                                                           \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_kernel_node(params)))
#define ZC_READS_cuGraphKernelNodeSetParams ZC_READS(zc_reads_kernel_node_v1(params))
#define ZC_READS_cuGraphKernelNodeSetParams_v2 ZC_READS(zc_reads_kernel_node(params))
#define ZC_READS_cuGraphExecKernelNodeSetParams ZC_READS(zc_reads_kernel_node_v1(params))
#define ZC_READS_cuGraphExecKernelNodeSetParams_v2 ZC_READS(zc_reads_kernel_node(params))
#define ZC_READS_cuGraphAddNode                                                                    \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_node(params)))
#define ZC_READS_cuGraphAddNode_v2                                                                 \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_array(edges, count),                   \
              zc_reads_node(params)))
#define ZC_READS_cuGraphNodeSetParams ZC_READS(zc_reads_node(params))
#define ZC_READS_cuGraphExecNodeSetParams ZC_READS(zc_reads_node(params))
#define ZC_READS_cuGraphAddMemAllocNode                                                            \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_one(params)))
#define ZC_READS_cuGraphAddMemFreeNode ZC_READS(zc_reads_array(dependencies, count))
#define ZC_READS_cuGraphAddMemcpyNode                                                              \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_one(params)))
#define ZC_READS_cuGraphAddMemsetNode                                                              \
    ZC_READS((zc_reads_array(dependencies, count), zc_reads_one(params)))
#define ZC_READS_cuGraphMemcpyNodeSetParams ZC_READS(zc_reads_one(params))
#define ZC_READS_cuGraphMemsetNodeSetParams ZC_READS(zc_reads_one(params))
#define ZC_READS_cuGraphExecMemcpyNodeSetParams ZC_READS(zc_reads_one(params))
#define ZC_READS_cuGraphExecMemsetNodeSetParams ZC_READS(zc_reads_one(params))
#define ZC_READS_cuGraphInstantiateWithParams ZC_READS(zc_reads_one(params))

/* Batches. */
#define ZC_READS_cuStreamBatchMemOp ZC_READS(zc_reads_array(ops, count))
#define ZC_READS_cuStreamBatchMemOp_v2 ZC_READS(zc_reads_array(ops, count))
#define ZC_READS_cuMemcpyBatchAsync                                                                \
    ZC_READS((zc_reads_array(dsts, count), zc_reads_array(srcs, count),                            \
              zc_reads_array(sizes, count), zc_reads_array(attrs, attr_count),                     \
              zc_reads_array(attr_indices, attr_count)))
#define ZC_READS_cuMemcpyBatchAsync_v2                                                             \
    ZC_READS((zc_reads_array(dsts, count), zc_reads_array(srcs, count),                            \
              zc_reads_array(sizes, count), zc_reads_array(attrs, attr_count),                     \
              zc_reads_array(attr_indices, attr_count)))
#define ZC_READS_cuMemcpy3DBatchAsync ZC_READS(zc_reads_array(ops, count))
#define ZC_READS_cuMemcpy3DBatchAsync_v2 ZC_READS(zc_reads_array(ops, count))
#define ZC_READS_cuMemPrefetchBatchAsync                                                           \
    ZC_READS((zc_reads_array(ptrs, count), zc_reads_array(sizes, count),                           \
              zc_reads_array(locations, location_count), zc_reads_array(indices, location_count)))
#define ZC_READS_cuMemDiscardBatchAsync                                                            \
    ZC_READS((zc_reads_array(ptrs, count), zc_reads_array(sizes, count)))
#define ZC_READS_cuMemDiscardAndPrefetchBatchAsync                                                 \
    ZC_READS((zc_reads_array(ptrs, count), zc_reads_array(sizes, count),                           \
              zc_reads_array(locations, location_count), zc_reads_array(indices, location_count)))
#define ZC_READS_cuSignalExternalSemaphoresAsync                                                   \
    ZC_READS((zc_reads_array(semaphores, count), zc_reads_array(params, count)))
#define ZC_READS_cuWaitExternalSemaphoresAsync                                                     \
    ZC_READS((zc_reads_array(semaphores, count), zc_reads_array(params, count)))
#define ZC_READS_cuGraphicsMapResources ZC_READS(zc_reads_array(resources, count))
#define ZC_READS_cuGraphicsUnmapResources ZC_READS(zc_reads_array(resources, count))

/* Descriptions and questions. */
#define ZC_READS_cuMemPoolSetAccess ZC_READS(zc_reads_array(map, count))
#define ZC_READS_cuMemPoolCreate ZC_READS(zc_reads_one(props))
#define ZC_READS_cuMemPoolImportPointer ZC_READS(zc_reads_one(data))
#define ZC_READS_cuMemCreate ZC_READS(zc_reads_one(prop))
#define ZC_READS_cuMemSetAccess ZC_READS(zc_reads_array(desc, count))
#define ZC_READS_cuMemGetAccess ZC_READS(zc_reads_one(location))
#define ZC_READS_cuPointerGetAttributes                                                            \
    ZC_READS((zc_reads_array(attributes, count), zc_reads_array(data, count)))
#define ZC_READS_cuPointerSetAttribute ZC_READS(zc_shared_lend(value, sizeof(int)))
#define ZC_READS_cuMemRangeGetAttributes                                                           \
    ZC_READS((zc_reads_array(data, count), zc_reads_array(sizes, count),                           \
              zc_reads_array(attributes, count)))
#define ZC_READS_cuTexRefSetAddress2D ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuTexRefSetAddress2D_v2 ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuTexRefSetAddress2D_v3 ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuTexObjectCreate                                                                 \
    ZC_READS((zc_reads_one(resource), zc_reads_one(desc), zc_reads_one(view)))
#define ZC_READS_cuSurfObjectCreate ZC_READS(zc_reads_one(resource))
#define ZC_READS_cuImportExternalMemory ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuExternalMemoryGetMappedBuffer ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuExternalMemoryGetMappedMipmappedArray ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuArrayCreate ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuArrayCreate_v2 ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuArray3DCreate ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuArray3DCreate_v2 ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuMipmappedArrayCreate ZC_READS(zc_reads_one(desc))
#define ZC_READS_cuStreamSetAttribute ZC_READS(zc_reads_one(value))

#endif
