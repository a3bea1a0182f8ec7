/* SPDX-License-Identifier: MIT */
/* Translates the runtime's descriptions of copies with rows and slices to the driver's. */
#include "runtime.h"

#include <string.h>

bool rt_sides_of(enum cudaMemcpyKind kind, CUmemorytype *source_out, CUmemorytype *target_out)
{
    static const struct {
        CUmemorytype source, target;
    } sides[] = {
        [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
        [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
        [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
    };

    if ((unsigned)kind >= sizeof(sides) / sizeof(sides[0]))
        return false;
    *source_out = sides[kind].source;
    *target_out = sides[kind].target;
    return true;
}

void rt_copy_2d(CUDA_MEMCPY2D *copy, const struct rt_side *target, const struct rt_side *source,
                size_t width, size_t height)
{
    *copy = (CUDA_MEMCPY2D){
        .srcXInBytes = source->x,
        .srcY = source->y,
        .srcMemoryType = source->type,
        .srcHost = source->pointer,
        .srcDevice = rt_address(source->pointer),
        .srcArray = source->array,
        .srcPitch = source->pitch,
        .dstXInBytes = target->x,
        .dstY = target->y,
        .dstMemoryType = target->type,
        .dstHost = (void *)(uintptr_t)target->pointer,
        .dstDevice = rt_address(target->pointer),
        .dstArray = target->array,
        .dstPitch = target->pitch,
        .WidthInBytes = width,
        .Height = height,
    };
}

void rt_copy_3d(CUDA_MEMCPY3D *copy, const struct rt_side *target, const struct rt_side *source,
                size_t width, size_t height, size_t depth)
{
    *copy = (CUDA_MEMCPY3D){
        .srcXInBytes = source->x,
        .srcY = source->y,
        .srcZ = source->z,
        .srcMemoryType = source->type,
        .srcHost = source->pointer,
        .srcDevice = rt_address(source->pointer),
        .srcArray = source->array,
        .srcPitch = source->pitch,
        .srcHeight = source->height,
        .dstXInBytes = target->x,
        .dstY = target->y,
        .dstZ = target->z,
        .dstMemoryType = target->type,
        .dstHost = (void *)(uintptr_t)target->pointer,
        .dstDevice = rt_address(target->pointer),
        .dstArray = target->array,
        .dstPitch = target->pitch,
        .dstHeight = target->height,
        .WidthInBytes = width,
        .Height = height,
        .Depth = depth,
    };
}

/*
 * One side of cudaMemcpy3DParms. Positions count elements of the array, or bytes where memory is
 * meant (CUDA Runtime API, cudaMemcpy3D); unit_out is the size of what they count.
 */
static cudaError_t side_of(cudaArray_const_t array, const struct cudaPitchedPtr *memory,
                           struct cudaPos pos, CUmemorytype type, struct rt_side *side_out,
                           size_t *unit_out)
{
    *unit_out = 1;
    *side_out = (struct rt_side){.type = type, .y = pos.y, .z = pos.z};
    if (array != NULL) {
        cudaError_t error = rt_element_bytes(array, unit_out);
        if (error != cudaSuccess)
            return error;
        side_out->type = CU_MEMORYTYPE_ARRAY;
        side_out->array = (CUarray)(uintptr_t)array;
    } else {
        side_out->pointer = memory->ptr;
        side_out->pitch = memory->pitch;
        side_out->height = memory->ysize;
    }
    side_out->x = pos.x * *unit_out;
    return cudaSuccess;
}

cudaError_t rt_copy_of_parms(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *copy)
{
    CUmemorytype source_type, target_type;
    struct rt_side source, target;
    size_t source_unit, target_unit;
    cudaError_t error;
    bool empty;

    if (p == NULL)
        return cudaErrorInvalidValue;
    /* Each side is memory or an array; an empty copy may do without both. */
    empty = p->extent.width == 0 || p->extent.height == 0 || p->extent.depth == 0;
    if (!empty && ((p->srcArray != NULL) == (p->srcPtr.ptr != NULL) ||
                   (p->dstArray != NULL) == (p->dstPtr.ptr != NULL)))
        return cudaErrorInvalidValue;
    if (!rt_sides_of(p->kind, &source_type, &target_type))
        return cudaErrorInvalidMemcpyDirection;
    error = side_of(p->srcArray, &p->srcPtr, p->srcPos, source_type, &source, &source_unit);
    if (error == cudaSuccess)
        error = side_of(p->dstArray, &p->dstPtr, p->dstPos, target_type, &target, &target_unit);
    if (error != cudaSuccess)
        return error;
    /* With an array on either side the extent's width counts that array's elements. */
    rt_copy_3d(copy, &target, &source,
               p->extent.width * (p->srcArray != NULL ? source_unit : target_unit),
               p->extent.height, p->extent.depth);
    return cudaSuccess;
}

cudaError_t rt_copy_of_peer_parms(const struct cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D_PEER *copy)
{
    struct rt_side source, target;
    size_t source_unit, target_unit;
    CUDA_MEMCPY3D plain;
    cudaError_t error;

    if (p == NULL)
        return cudaErrorInvalidValue;
    error =
        side_of(p->srcArray, &p->srcPtr, p->srcPos, CU_MEMORYTYPE_DEVICE, &source, &source_unit);
    if (error == cudaSuccess)
        error = side_of(p->dstArray, &p->dstPtr, p->dstPos, CU_MEMORYTYPE_DEVICE, &target,
                        &target_unit);
    if (error != cudaSuccess)
        return error;
    rt_copy_3d(&plain, &target, &source,
               p->extent.width * (p->srcArray != NULL ? source_unit : target_unit),
               p->extent.height, p->extent.depth);
    /* The peer form is the plain one with a context in each reserved field (cuda.h). */
    _Static_assert(sizeof(plain) == sizeof(*copy), "CUDA_MEMCPY3D_PEER has another layout");
    memcpy(copy, &plain, sizeof(*copy));
    error = rt_primary_context(p->srcDevice, &copy->srcContext);
    return error != cudaSuccess ? error : rt_primary_context(p->dstDevice, &copy->dstContext);
}
