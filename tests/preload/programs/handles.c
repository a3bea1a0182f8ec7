/* SPDX-License-Identifier: MIT */
/* Programs that map memory themselves.
 *   handles story   the life of handles and mappings, and what the driver answers about them
 *   handles logged  blocks of several kinds, each of which is gone before the next one is made
 *   handles rights  copies of memory that the CPU may not touch, or not write, at the other side */
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define SIZE (4 * MIB)

static char host[SIZE];

static CUmemAllocationProp properties(void)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes)
{
    const CUmemAllocationProp prop = properties();
    return cuMemCreate(handle, bytes, &prop, 0);
}

static void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemMap(at, bytes, 0, handle, 0));
    CHECK(cuMemSetAccess(at, bytes, &access, 1));
}

static void use(CUdeviceptr at, size_t bytes, int value)
{
    size_t part = bytes < SIZE ? bytes : SIZE;
    memset(host, value, part);
    CHECK(cuMemcpyHtoD(at, host, part));
    fill(at + part / 2, value + 1, part / 2, NULL);
    CHECK(cuMemcpyDtoD(at, at + part / 2, part / 4));
    CHECK(cuMemsetD8(at + part / 4, 7, 16));
    memset(host, 0, part);
    CHECK(cuMemcpyDtoH(host, at, part));
    EXPECT(all_are(host, value + 1, part / 4) && all_are(host + part / 4, 7, 16));
    EXPECT(all_are(host + part / 4 + 16, value, part / 4 - 16));
    EXPECT(all_are(host + part / 2, value + 1, part / 2));
}

/* Questions of a program about an address of a mapping. */
static void ask(CUdeviceptr at)
{
    unsigned type = 99, managed = 99, many_type = 99;
    int ordinal = 99;
    void *on_host = NULL, *many_host = &type;
    unsigned long long rights = 99;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[] = {&many_type, &many_host};
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SHOW(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    SHOW(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    SHOW(cuPointerGetAttribute(&on_host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    SHOW(cuPointerGetAttributes(2, names, data, at));
    SHOW(cuMemGetAccess(&rights, &here, at));
    printf("type %u, managed %u, ordinal %d, host pointer %d, rights %llu, together %u %d\n", type,
           managed, ordinal, on_host != NULL, rights, many_type, many_host != NULL);
}

static void show_properties(CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp prop = {0};
    CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    printf("type %d, location %d %d, exportable %d, compressed %d, for other bus devices %d\n",
           prop.type, prop.location.type, prop.location.id, prop.requestedHandleTypes,
           prop.allocFlags.compressionType, prop.allocFlags.gpuDirectRDMACapable);
}

static void story(void)
{
    CUmemGenericAllocationHandle handle, again = 0, imported = 0;
    CUdeviceptr at, other;
    size_t granularity = 0, base_size = 0;
    CUmemAllocationProp prop = properties();
    int fd = -1;
    CHECK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    SHOW(cuMemCreate(&handle, granularity / 2, &prop, 0));
    SHOW(cuMemCreate(NULL, granularity, &prop, 0));
    SHOW(cuMemCreate(&handle, granularity, NULL, 0));
    CHECK(create(&handle, SIZE));
    show_properties(handle);
    CHECK(cuMemAddressReserve(&at, 2 * SIZE, 0, 0, 0));
    SHOW(cuMemGetAddressRange(&other, &base_size, at));
    map(at, SIZE, handle);
    use(at, SIZE, 1);
    ask(at + 100);
    CHECK(cuMemGetAddressRange(&other, &base_size, at + 100));
    printf("range %d, %zu bytes\n", other == at, base_size);
    SHOW(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemImportFromShareableHandle(&imported, (void *)(size_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CHECK(cuMemRelease(handle));
    CHECK(cuMemRelease(imported));
    SHOW(cuMemRelease(handle));
    CHECK(cuMemRetainAllocationHandle(&again, (void *)(at + 100)));
    show_properties(again);
    map(at + SIZE, SIZE, again);
    use(at, SIZE, 3);
    CHECK(cuMemcpyDtoH(host, at + SIZE, SIZE / 4));
    EXPECT(all_are(host, 4, SIZE / 4)); /* Both mappings are the same memory. */
    CHECK(cuMemRelease(again));
    CHECK(cuMemUnmap(at, 2 * SIZE));
    SHOW(cuMemRetainAllocationHandle(&again, (void *)at));
    CHECK(cuMemAddressFree(at, 2 * SIZE));
}

/* Copies of every kind between a block and memory of the program's own. */
static void both_ways(CUdeviceptr block, CUdeviceptr own)
{
    CUcontext c;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = own,
                          .srcPitch = 512,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = block,
                          .dstPitch = 1024,
                          .WidthInBytes = 100,
                          .Height = 50};
    CHECK(cuCtxGetCurrent(&c));
    SHOW(cuMemcpyDtoD(block, own, SIZE));
    SHOW(cuMemcpyDtoD(own + 100, block, 1000));
    SHOW(cuMemcpyDtoDAsync(block + 5000, own, 4096, NULL));
    SHOW(cuMemcpyDtoDAsync(own + 5000, block, 4096, NULL));
    SHOW(cuMemcpy(block + 10000, own, SIZE / 2));
    SHOW(cuMemcpy(own + 10000, block, SIZE / 2));
    SHOW(cuMemcpyAsync(block, own + 1, 4096, NULL));
    SHOW(cuMemcpyPeer(own + 3, c, block, c, 50000));
    SHOW(cuMemcpyDtoH((void *)(own + 7), block, 3000));
    SHOW(cuMemcpyHtoD(block, (const void *)(own + 9), 3000));
    SHOW(cuMemcpy2D(&rows));
    rows.srcDevice = block;
    rows.dstDevice = own;
    SHOW(cuMemcpy2DAsync(&rows, NULL));
    CHECK(cuCtxSynchronize());
}

static void paint(CUdeviceptr at, unsigned seed)
{
    for (size_t i = 0; i < SIZE; i++)
        host[i] = (char)(i * seed + i / 251);
    CHECK(cuMemcpyHtoD(at, host, SIZE));
}

static void show_bytes(const char *what, CUdeviceptr at)
{
    unsigned long long sum = 5381;
    CHECK(cuMemcpyDtoH(host, at, SIZE));
    for (size_t i = 0; i < SIZE; i++)
        sum = sum * 33 + (unsigned char)host[i];
    printf("%s holds %llx\n", what, sum);
}

/* A handle of device memory or of the host's, which the CPU may touch as `rights` say. */
static void own_handle(CUdeviceptr block, CUmemLocationType type, CUmemAccess_flags rights)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = type}};
    const CUmemAccessDesc cpu = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST}, .flags = rights};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr own;
    CHECK(cuMemCreate(&handle, SIZE, &prop, 0));
    CHECK(cuMemAddressReserve(&own, SIZE, 0, 0, 0));
    map(own, SIZE, handle);
    if (rights)
        SHOW(cuMemSetAccess(own, SIZE, &cpu, 1));
    paint(own, 5);
    paint(block, 3);
    both_ways(block, own);
    show_bytes("the block", block);
    show_bytes("the handle", own);
    CHECK(cuMemUnmap(own, SIZE));
    CHECK(cuMemAddressFree(own, SIZE));
    CHECK(cuMemRelease(handle));
}

/* Memory that was registered to be read by the device. */
static void own_pages(CUdeviceptr block)
{
    char *pages = aligned_alloc(MIB, SIZE);
    memset(pages, 9, SIZE);
    paint(block, 3);
    CHECK(cuMemHostRegister(pages, SIZE, CU_MEMHOSTREGISTER_READ_ONLY));
    both_ways(block, (CUdeviceptr)pages);
    show_bytes("the block", block);
    CHECK(cuMemHostUnregister(pages));
    EXPECT(all_are(pages, 9, SIZE));
    free(pages);
}

static void rights(void)
{
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, SIZE));
    for (int host_memory = 0; host_memory < 2; host_memory++)
        for (int rights = 0; rights <= (host_memory ? 3 : 0); rights += rights ? 2 : 1) {
            printf("== %s memory, the CPU's rights %d\n", host_memory ? "host" : "device", rights);
            own_handle(block,
                       host_memory ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
                       (CUmemAccess_flags)rights);
        }
    printf("== registered to be read\n");
    own_pages(block);
    CHECK(cuMemFree(block));
}

/* One call unmaps two mappings of one handle. */
static void map_twice(void)
{
    CUdeviceptr range;
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemAddressReserve(&range, 2 * SIZE, 0, 0, 0));
    CHECK(create(&handle, SIZE));
    map(range, SIZE, handle);
    map(range + SIZE, SIZE, handle);
    CHECK(cuMemcpyHtoD(range + SIZE, host, SIZE));
    CHECK(cuMemUnmap(range, 2 * SIZE));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(range, 2 * SIZE));
}

static void import(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = {.size = MIB};
    CUexternalMemory memory;
    CUdeviceptr buffer;
    from.handle.fd = memfd_create("external", 0);
    EXPECT(ftruncate(from.handle.fd, (off_t)MIB) == 0);
    CHECK(cuImportExternalMemory(&memory, &from));
    CHECK(cuExternalMemoryGetMappedBuffer(&buffer, memory, &whole));
    CHECK(cuMemcpyHtoD(buffer, host, MIB / 2));
    CHECK(cuMemFree(buffer));
    CHECK(cuDestroyExternalMemory(memory));
}

static void logged(void)
{
    CUdeviceptr block;
    map_twice();
    import();
    CHECK(cuMemAlloc(&block, 3 * MIB));
    CHECK(cuMemcpyHtoD(block, host, MIB));
    CHECK(cuMemFree(block));
    CHECK(cuMemAlloc(&block, 5 * MIB));
    CHECK(cuMemFree(block));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"story", story}, {"logged", logged}, {"rights", rights}};
    start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    end_gpu(0);
    return status;
}
