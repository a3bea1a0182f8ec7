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

/* The answer of one call for several attributes, and of which it wrote a value. */
static void ask_list(const char *name, unsigned count, const int *which, CUdeviceptr pointer)
{
    enum { ALL = sizeof(pointer_attributes) / sizeof(pointer_attributes[0]) };
    CUpointer_attribute attributes[ALL];
    unsigned long long value[ALL][2], untouched[2];
    void *data[ALL];

    memset(value, 0x77, sizeof(value));
    memset(untouched, 0x77, sizeof(untouched));
    for (unsigned i = 0; i < count; i++) {
        attributes[i] = pointer_attributes[which[i]].attribute;
        data[i] = value[i];
    }
    printf("list of %s:", name);
    for (unsigned i = 0; i < count; i++)
        printf(" %s", pointer_attributes[which[i]].name);
    printf(": %s", code(cuPointerGetAttributes(count, attributes, data, pointer)));
    for (unsigned i = 0; i < count; i++)
        printf(memcmp(value[i], untouched, sizeof(untouched)) ? ", written" : ", not");
    printf("\n");
}

/* Each attribute alone, and behind and before each of a few others. */
static void ask_lists(const char *name, CUdeviceptr pointer)
{
    static const int few[] = {1, 2, 3, 8, 10, 11};
    const int count = (int)(sizeof(pointer_attributes) / sizeof(pointer_attributes[0]));

    for (int i = 0; i < count; i++)
        ask_list(name, 1, &i, pointer);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            ask_list(name, 2, (int[]){few[i], few[k]}, pointer);
    ask_list(name, 6, few, pointer);
    ask_list(name, 4, few, pointer);
}

static void lists(void)
{
    static char memory[2 * PART];
    CUdeviceptr block = 0, pooled = 0, managed = 0;
    void *pinned = NULL;

    say("blocks", cuMemAlloc(&block, PART) | cuMemAllocAsync(&pooled, PART, stream) |
                      cuMemAllocManaged(&managed, PART, CU_MEM_ATTACH_GLOBAL) |
                      cuMemHostAlloc(&pinned, PART, 0));
    ask_lists("a block", block);
    ask_lists("the inside of a block", block + 100);
    ask_lists("a pool's block", pooled);
    ask_lists("managed memory", managed);
    ask_lists("a mapping", at + PART);
    ask_lists("pinned memory", (CUdeviceptr)pinned);
    ask_lists("pageable memory", (CUdeviceptr)memory);
    say("registered", cuMemHostRegister(memory, PART, 0));
    ask_lists("registered memory", (CUdeviceptr)memory);
    ask_lists("the inside of registered memory", (CUdeviceptr)memory + 100);
    ask_lists("behind registered memory", (CUdeviceptr)memory + PART);
    say("unregistered", cuMemHostUnregister(memory));
    say("registered for all contexts",
        cuMemHostRegister(memory, PART,
                          CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    ask_lists("memory registered for all contexts", (CUdeviceptr)memory);
    say("unregistered", cuMemHostUnregister(memory));
}

/* Ends of registrations that there are not. */
static void unregister_wrongly(const char *state, CUdeviceptr block)
{
    const struct {
        const char *name;
        CUdeviceptr at;
    } where[] = {{"NULL", 0},
                 {"before a block", block - 1},
                 {"a block", block},
                 {"inside a block", block + 1},
                 {"behind a block", block + 4 * PART},
                 {"reserved addresses", at + 4 * PART},
                 {"just before a mapping", at + PART - 1},
                 {"a mapping", at + PART},
                 {"inside a mapping", at + PART + 1},
                 {"pageable memory", (CUdeviceptr)&context}};

    for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
        printf("%s, %s unregistered: ", state, where[i].name);
        printf("%s\n", code(cuMemHostUnregister((void *)where[i].at)));
        printf("%s, %s freed as pinned: ", state, where[i].name);
        printf("%s\n", code(cuMemFreeHost((void *)where[i].at)));
    }
}

/* The block had neighbours, so that nothing is beside it. */
static void frees(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr block = 0, before = 0, behind = 0;

    say("reserved", cuMemAddressReserve(&at, 8 * PART, 0, 0, 0));
    handle = created();
    map(at + PART, handle);
    say("blocks", cuMemAlloc(&before, 4 * PART) | cuMemAlloc(&block, 4 * PART) |
                      cuMemAlloc(&behind, 4 * PART));
    say("freed", cuMemFree(before) | cuMemFree(behind));
    unregister_wrongly("with a context", block);
    say("where a block was freed", cuMemHostUnregister((void *)before));
    say("context popped", cuCtxPopCurrent(&context));
    unregister_wrongly("without a context", block);
    say("inside a block without a context", cuMemFree(block + 1));
    say("where a block was freed without a context", cuMemHostUnregister((void *)before));
    say("nothing without a context", cuMemFree(0));
    say("context pushed", cuCtxPushCurrent(context));
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
    lists();
    frees();
    return fflush(stdout) == 0 ? 0 : 1;
}
