/* SPDX-License-Identifier: MIT */
/* CUDA arrays.  A cudaArray_t and a CUarray are one handle (CUDA Runtime API, "Interactions"). */
#include "runtime.h"

#include <string.h>

/* The driver's element format for a channel: kind and bits. */
static bool format_of(enum cudaChannelFormatKind kind, int bits, CUarray_format *format_out)
{
    static const struct {
        enum cudaChannelFormatKind kind;
        int bits;
        CUarray_format format;
    } formats[] = {
        {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
        {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
        {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
        {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
        {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
        {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
        {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
        {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT},
    };

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (formats[i].kind == kind && formats[i].bits == bits) {
            *format_out = formats[i].format;
            return true;
        }
    }
    return false;
}

static size_t bytes_of_format(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

static cudaError_t create_array(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                struct cudaExtent extent, unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {
        .Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    CUarray created;
    cudaError_t error;

    if (array == NULL || desc == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (!format_of(desc->f, desc->x, &descriptor.Format))
        return rt_fail(cudaErrorInvalidChannelDescriptor);
    descriptor.NumChannels = 1u + (desc->y > 0) + (desc->z > 0) + (desc->w > 0);
    error = RT_CALL(cuArray3DCreate, &created, &descriptor);
    if (error == cudaSuccess)
        *array = (cudaArray_t)created;
    return error;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                            size_t width, size_t height, unsigned int flags)
{
    struct cudaExtent extent = {.width = width, .height = height};

    return create_array(array, desc, extent, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    return create_array(array, desc, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    cudaError_t error = rt_enter();

    if (error != cudaSuccess || array == NULL)
        return error;
    return rt_return(rt_driver.cuArrayDestroy((CUarray)array));
}

cudaError_t rt_element_bytes(cudaArray_const_t array, size_t *bytes_out)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    CUresult result = rt_driver.cuArray3DGetDescriptor(&descriptor, (CUarray)(uintptr_t)array);

    if (result == CUDA_SUCCESS)
        *bytes_out = bytes_of_format(descriptor.Format) * descriptor.NumChannels;
    return (cudaError_t)result;
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                             unsigned int *flags, cudaArray_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t error = RT_CALL(cuArray3DGetDescriptor, &d, (CUarray)array);
    enum cudaChannelFormatKind kind;
    int bits;

    if (error != cudaSuccess)
        return error;
    bits = (int)bytes_of_format(d.Format) * 8;
    kind = d.Format == CU_AD_FORMAT_HALF || d.Format == CU_AD_FORMAT_FLOAT
               ? cudaChannelFormatKindFloat
           : d.Format < CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindUnsigned
                                                 : cudaChannelFormatKindSigned;
    if (desc != NULL)
        *desc = (struct cudaChannelFormatDesc){.x = bits,
                                               .y = d.NumChannels > 1 ? bits : 0,
                                               .z = d.NumChannels > 2 ? bits : 0,
                                               .w = d.NumChannels > 3 ? bits : 0,
                                               .f = kind};
    if (extent != NULL)
        *extent = (struct cudaExtent){.width = d.Width, .height = d.Height, .depth = d.Depth};
    if (flags != NULL)
        *flags = d.Flags;
    return cudaSuccess;
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = kind};
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}
