/* SPDX-License-Identifier: MIT */
/*
 * Asks the CUDA driver what it says of an address whose backing changes: a reserved one without and
 * with device memory, with the CPU's own pages and with registered ones; and how the numbers of
 * CU_POINTER_ATTRIBUTE_BUFFER_ID go on from one block to the next.  Prints one line a fact, so that
 * the simulated GPU can be compared with a real one.
 *
 *   query_facts      ends with status 77 where no driver answers
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pointer_facts.h"

#define PART ((size_t)2 << 20) /* Granularity of device memory. */

static CUcontext context;
static CUstream stream;
static CUdeviceptr at; /* The reservation, of three parts. */

static void say(const char *fact, CUresult result)
{
    printf("%s: %s\n", fact, code(result));
}

static CUmemGenericAllocationHandle created(void)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle = 0;

    say("memory created", cuMemCreate(&handle, PART, &properties, 0));
    return handle;
}

static void map(CUdeviceptr where, CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    say("mapped", cuMemMap(where, PART, 0, handle, 0));
    say("access set", cuMemSetAccess(where, PART, &access, 1));
}

/* Pages of a file at an address, as the CPU sees them. */
static void put_pages(CUdeviceptr where, int protection, int file)
{
    if (mmap((void *)where, PART, protection, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        perror("mmap");
}

/* The first part is device memory, the second nothing, the third the CPU's pages. */
static void reservation(int file)
{
    CUmemGenericAllocationHandle handle;

    say("reserved", cuMemAddressReserve(&at, 3 * PART, 0, 0, 0));
    show("reserved without memory", at + 100);
    handle = created();
    say("mapped", cuMemMap(at, PART, 0, handle, 0));
    show("memory without access", at + 100);
    say("unmapped", cuMemUnmap(at, PART));
    map(at, handle);
    show("memory with access", at + 100);
    show("reserved beside memory", at + PART + 100);
    put_pages(at + 2 * PART, PROT_READ | PROT_WRITE, file);
    show("pages of the CPU", at + 2 * PART + 100);
    say("registered", cuMemHostRegister((void *)(at + 2 * PART), PART, 0));
    show("registered pages", at + 2 * PART + 100);
    say("unregistered", cuMemHostUnregister((void *)(at + 2 * PART)));
    show("unregistered pages", at + 2 * PART + 100);
    put_pages(at + 2 * PART, PROT_READ, file);
    say("registered for reading",
        cuMemHostRegister((void *)(at + 2 * PART), PART, CU_MEMHOSTREGISTER_READ_ONLY));
    show("pages registered for reading", at + 2 * PART + 100);
    say("unregistered", cuMemHostUnregister((void *)(at + 2 * PART)));
    map(at + 2 * PART, handle);
    show("memory over pages of the CPU", at + 2 * PART + 100);
    say("unmapped", cuMemUnmap(at + 2 * PART, PART));
    show("pages of the CPU after the memory", at + 2 * PART + 100);
    say("unmapped", cuMemUnmap(at, PART));
    show("reserved after the memory", at + 100);
    say("released", cuMemRelease(handle));
    say("addresses freed", cuMemAddressFree(at, 3 * PART));
    show("freed addresses", at + 100);
}

static unsigned long long id_of(CUdeviceptr pointer)
{
    unsigned long long id = 0;

    return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer) == CUDA_SUCCESS ? id
                                                                                               : 0;
}

static void compare(const char *fact, unsigned long long before, unsigned long long after)
{
    printf("%s: %s\n", fact,
           !before || !after ? "none"
           : after > before  ? "greater"
           : after < before  ? "less"
                             : "the same");
}

static void ids_of_blocks(void)
{
    CUdeviceptr a = 0, b = 0, c = 0;
    unsigned long long first;

    say("two small blocks", cuMemAlloc(&a, 1000) | cuMemAlloc(&b, 1000));
    compare("id of the second block", id_of(a), id_of(b));
    compare("id inside a block", id_of(a), id_of(a + 500));
    first = id_of(b);
    say("freed, and as much again", cuMemFree(b) | cuMemAlloc(&c, 1000));
    printf("it is at the same address: %d\n", b == c);
    compare("id of the new block", first, id_of(c));
    say("a large block", cuMemAlloc(&b, 8 * PART));
    first = id_of(b);
    say("freed, and as much again", cuMemFree(b) | cuMemAlloc(&a, 8 * PART));
    printf("it is at the same address: %d\n", a == b);
    compare("id of the new block", first, id_of(a));
    say("a pool's block", cuMemAllocAsync(&a, PART, stream) | cuStreamSynchronize(stream));
    first = id_of(a);
    say("freed, and as much again", cuMemFreeAsync(a, stream) | cuMemAllocAsync(&b, PART, stream));
    printf("it is at the same address: %d\n", a == b);
    compare("id of the new block", first, id_of(b));
    say("managed memory", cuMemAllocManaged(&a, PART, CU_MEM_ATTACH_GLOBAL));
    first = id_of(a);
    say("freed, and as much again",
        cuMemFree(a) | cuMemAllocManaged(&b, PART, CU_MEM_ATTACH_GLOBAL));
    printf("it is at the same address: %d\n", a == b);
    compare("id of the new block", first, id_of(b));
}

static void ids_of_host_memory(void)
{
    void *a = NULL, *b = NULL;
    unsigned long long first;
    char *pages = mmap(NULL, 2 * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    say("pinned memory", cuMemHostAlloc(&a, PART, 0));
    first = id_of((CUdeviceptr)a);
    say("freed, and as much again", cuMemFreeHost(a) | cuMemHostAlloc(&b, PART, 0));
    printf("it is at the same address: %d\n", a == b);
    compare("id of the new block", first, id_of((CUdeviceptr)b));
    say("registered", cuMemHostRegister(pages, PART, 0));
    first = id_of((CUdeviceptr)pages);
    say("registered behind it", cuMemHostRegister(pages + PART, PART, 0));
    compare("id of the second range", first, id_of((CUdeviceptr)pages + PART));
    say("registered again", cuMemHostUnregister(pages) | cuMemHostRegister(pages, PART, 0));
    compare("id of the same pages", first, id_of((CUdeviceptr)pages));
}

static void ids_of_mappings(void)
{
    CUmemGenericAllocationHandle one, other;
    unsigned long long first;

    say("reserved", cuMemAddressReserve(&at, 3 * PART, 0, 0, 0));
    one = created();
    other = created();
    map(at, one);
    first = id_of(at);
    map(at + PART, one);
    compare("id of the same memory mapped twice", first, id_of(at + PART));
    map(at + 2 * PART, other);
    compare("id of other memory beside it", first, id_of(at + 2 * PART));
    say("unmapped", cuMemUnmap(at, PART));
    map(at, one);
    compare("id of the same memory mapped again", first, id_of(at));
    say("unmapped", cuMemUnmap(at, PART));
    map(at, other);
    compare("id of other memory there", first, id_of(at));
}

int main(void)
{
    int file = memfd_create("facts", MFD_CLOEXEC);

    if (file < 0 || ftruncate(file, PART) != 0) {
        perror("memfd_create");
        return 1;
    }
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        fputs("query_facts: no GPU answers\n", stderr);
        return 77;
    }
    say("stream", cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    reservation(file);
    ids_of_blocks();
    ids_of_host_memory();
    ids_of_mappings();
    return fflush(stdout) == 0 ? 0 : 1;
}
