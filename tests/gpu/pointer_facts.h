/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs that ask a driver about pointers: the name of a code, and every
 * answer that there is about one address, without addresses and numbers that differ from run to
 * run.
 */
#ifndef POINTER_FACTS_H
#define POINTER_FACTS_H

#include <cuda.h>
#include <stdio.h>

/* The end of a call that the driver follows into memory that is gone. */
#define FAULTED (-1)

static const char *code(long long result)
{
    const char *name = NULL;

    if (result == FAULTED)
        return "SIGSEGV";
    return cuGetErrorName((CUresult)result, &name) == CUDA_SUCCESS ? name : "unknown code";
}

/* How an attribute's value is made the same in every run. */
enum form {
    NUMBER_32, /* printed as it is */
    NUMBER_64, /* printed as it is */
    ADDRESS,   /* printed relative to the pointer that was asked about */
    IDENTITY,  /* printed as 0 or "set" */
};

static const struct {
    CUpointer_attribute attribute; /* The question. */
    const char *name;              /* Its name in cuda.h, without the prefix. */
    enum form form;                /* How its value is printed. */
} pointer_attributes[] = {
    {CU_POINTER_ATTRIBUTE_CONTEXT, "CONTEXT", IDENTITY},
    {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "DEVICE_POINTER", ADDRESS},
    {CU_POINTER_ATTRIBUTE_HOST_POINTER, "HOST_POINTER", ADDRESS},
    {CU_POINTER_ATTRIBUTE_P2P_TOKENS, "P2P_TOKENS", NUMBER_64},
    {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "SYNC_MEMOPS", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_BUFFER_ID, "BUFFER_ID", IDENTITY},
    {CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "DEVICE_ORDINAL", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "IS_LEGACY_CUDA_IPC_CAPABLE", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "RANGE_START_ADDR", ADDRESS},
    {CU_POINTER_ATTRIBUTE_RANGE_SIZE, "RANGE_SIZE", NUMBER_64},
    {CU_POINTER_ATTRIBUTE_MAPPED, "MAPPED", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "ALLOWED_HANDLE_TYPES", NUMBER_64},
    {CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, "IS_GPU_DIRECT_RDMA_CAPABLE", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "ACCESS_FLAGS", NUMBER_32},
    {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "MEMPOOL_HANDLE", IDENTITY},
    {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "MAPPING_SIZE", NUMBER_64},
    {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "MAPPING_BASE_ADDR", ADDRESS},
    {CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, "MEMORY_BLOCK_ID", IDENTITY},
};

static void print_value(enum form form, unsigned long long value, CUdeviceptr pointer)
{
    if (form == NUMBER_32)
        printf("%d\n", (int)value);
    else if (form == NUMBER_64 || value == 0)
        printf("%llu\n", value);
    else if (form == IDENTITY)
        printf("set\n");
    else
        printf("pointer%+lld\n", (long long)(value - pointer));
}

/* Prints every attribute, then what the call for several of them and the range query say. */
static void show(const char *name, CUdeviceptr pointer)
{
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    int type = -9, managed = -9, ordinal = -9;
    CUdeviceptr address = 9, base = 0;
    void *results[] = {&type, &address, &managed, &ordinal};
    size_t size = 0;
    CUresult result;

    for (size_t i = 0; i < sizeof(pointer_attributes) / sizeof(pointer_attributes[0]); i++) {
        unsigned long long value[2] = {0, 0}; /* Room for the tokens, which are the widest. */

        result = cuPointerGetAttribute(value, pointer_attributes[i].attribute, pointer);
        printf("%s %s: ", name, pointer_attributes[i].name);
        if (result == CUDA_SUCCESS)
            print_value(pointer_attributes[i].form, value[0], pointer);
        else
            printf("%s\n", code(result));
    }
    result = cuPointerGetAttributes(4, asked, results, pointer);
    printf("%s several attributes: %s, type %d, managed %d, ordinal %d, address ", name,
           code(result), type, managed, ordinal);
    print_value(ADDRESS, address, pointer);
    result = cuMemGetAddressRange(&base, &size, pointer);
    printf("%s address range: %s, size %zu, base ", name, code(result), size);
    print_value(ADDRESS, base, pointer);
}

#endif
