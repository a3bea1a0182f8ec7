/* SPDX-License-Identifier: MIT */
/*
 * Asks every question about device blocks at each stage of their lives, from the first moment on,
 * when some of them have no memory yet: at their begin, within, at their last byte and behind it.
 * Prints the answers with addresses made relative and ids compared, so that the output must not
 * depend on what lies behind the blocks.
 */
#include "ask.h"

#define MIB ((size_t)1 << 20)
#define SIZE (3 * MIB)
#define BLOCKS 3
#define ATTRIBUTES 23

static struct {
    CUdeviceptr at;
    size_t size;
    unsigned long long id[2]; /* Of the block and of its memory, when it was first asked about. */
} block[BLOCKS];

static unsigned long long id_of(CUdeviceptr at, int attribute)
{
    unsigned long long id = 0;
    CUresult result = cuPointerGetAttribute(&id, (CUpointer_attribute)attribute, at);
    return result == CUDA_SUCCESS ? id : 0;
}

/* Ids only have to be unique, and the block's own as long as it lives. */
static void show_ids(int i, CUdeviceptr at)
{
    static const int attribute[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                    CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};
    for (int k = 0; k < 2; k++) {
        unsigned long long id = id_of(at, attribute[k]);
        if (!block[i].id[k])
            block[i].id[k] = id;
        printf("  id %d: %s", k, !id ? "none" : id == block[i].id[k] ? "kept" : "changed");
        for (int other = 0; id && other < BLOCKS; other++)
            if (other != i && id == block[other].id[k])
                printf(", as block %d", other);
        printf("\n");
    }
}

/* All attributes that exist, in one call; what this prints are those whose values count. */
static void show_at_once(int i, CUdeviceptr at)
{
    CUpointer_attribute names[CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID];
    unsigned char values[CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID][16];
    void *data[CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID];
    unsigned count = 0;
    memset(values, 0x77, sizeof(values));
    for (int a = 1; a <= CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID; a++, count++) {
        names[count] = (CUpointer_attribute)a;
        data[count] = values[count];
    }
    printf("  all at once: code %d\n", (int)cuPointerGetAttributes(count, names, data, at));
    for (unsigned k = 0; k < count; k++) {
        unsigned long long wide;
        memcpy(&wide, values[k], sizeof(wide));
        printf("  at once %d:", (int)names[k]);
        if (names[k] == CU_POINTER_ATTRIBUTE_BUFFER_ID)
            printf(" %s", !wide ? "none" : wide == block[i].id[0] ? "kept" : "changed");
        else if (names_something((int)names[k]))
            printf(" %s", wide ? "set" : "0");
        for (int byte = 0; !names_something((int)names[k]) && byte < 16; byte++)
            printf(" %02x", values[k][byte]);
        printf("\n");
    }
}

static void show_sync_memops(CUdeviceptr at)
{
    for (unsigned value = 0, is = 77; value < 2; value++) {
        SHOW(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
        (void)cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
        printf("  it waits: %u\n", is);
    }
}

/* Questions about other kinds of memory. */
static void show_others(CUdeviceptr at, size_t bytes)
{
    CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemGenericAllocationHandle handle;
    unsigned long long rights;
    CUdeviceptr p;
    unsigned flags;
    int value = 0;
    size_t four = 4;
    void *data = &value;
    SHOW(cuMemGetAccess(&rights, &here, at));
    SHOW(cuMemRetainAllocationHandle(&handle, (void *)at));
    SHOW(cuMemRangeGetAttribute(&value, 4, mostly, at, bytes));
    SHOW(cuMemRangeGetAttributes(&data, &four, &mostly, 1, at, bytes));
    SHOW(cuMemHostGetDevicePointer(&p, (void *)at, 0));
    SHOW(cuMemHostGetFlags(&flags, (void *)at));
}

/* Questions that the driver answers, of memory that it knows: each the first one about a block. */
static void show_unknown(void)
{
    for (int k = 0; k < 3; k++) {
        unsigned value = 0;
        void *data = &value;
        CUpointer_attribute future = (CUpointer_attribute)SIM_POINTER_ATTRIBUTE_FUTURE;
        int fd = -1;
        CUdeviceptr at;
        CHECK(cuMemAlloc(&at, SIZE));
        if (k == 0)
            SHOW(cuPointerGetAttribute(&value, future, at + SIZE / 2));
        else if (k == 1)
            SHOW(cuPointerGetAttributes(1, &future, &data, at + SIZE / 2));
        else
            SHOW(cuMemGetHandleForAddressRange(&fd, at, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                               0));
        printf("  which is %u\n", value);
        if (fd >= 0)
            close(fd);
        SHOW(cuMemsetD8(at, 1, SIZE));
        CHECK(cuMemFree(at));
    }
}

static void show_at(int i, CUdeviceptr at)
{
    CUdeviceptr base = block[i].at;
    show_attributes(at);
    show_ids(i, at);
    show_pointer_attributes(at, base);
    show_at_once(i, at);
    show_many_attributes(at, base);
    show_range(at, base);
    show_sync_memops(at);
    show_others(at, base + block[i].size - at);
    CHECK(cuCtxSetCurrent(NULL));
    show_attributes(at);
    CHECK(cuCtxSetCurrent(context));
}

static void ask_all(const char *when)
{
    for (int i = 0; i < BLOCKS; i++) {
        const size_t offset[] = {0, 1, block[i].size / 2, block[i].size - 1, block[i].size};
        for (int k = 0; block[i].at && k < 5; k++) {
            printf("%s: block %d at %zu\n", when, i, offset[k]);
            show_at(i, block[i].at + offset[k]);
        }
    }
}

/* One question alone, which is the first about a block. */
static void ask_first(int attribute)
{
    unsigned char value[16];
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cuMemAlloc(&block[i].at, SIZE));
        block[i].size = SIZE;
        printf("first %d of block %d: code %d\n", attribute, i,
               (int)cuPointerGetAttribute(value, (CUpointer_attribute)attribute,
                                          block[i].at + SIZE / 2));
    }
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree(block[i].at));
}

static int read_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    return sim_gpu_pointer(*(CUdeviceptr *)args[0]) ? 0 : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void launch(void)
{
    static const size_t sizes[] = {sizeof(CUdeviceptr)};
    CUfunction kernel = load_kernel("read", read_grid, 1, sizes);
    for (int i = 0; i < BLOCKS; i++) {
        void *args[] = {&block[i].at};
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    }
    CHECK(cuCtxSynchronize());
}

/* The first block grows: a larger one gets its content, and then it goes. */
static void grow(void)
{
    CUdeviceptr small = block[0].at;
    CHECK(cuMemAlloc(&block[0].at, 2 * SIZE));
    CHECK(cuMemcpyDtoD(block[0].at, small, SIZE));
    block[0].size = 2 * SIZE;
    block[0].id[0] = block[0].id[1] = 0;
    ask_all("growing");
    CHECK(cuMemFree(small));
    ask_all("grown");
}

int main(void)
{
    char *host[BLOCKS];
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaSetDevice(0));
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int attribute = 0; attribute <= ATTRIBUTES; attribute++)
        ask_first(attribute);
    show_unknown();
    for (int i = 0; i < BLOCKS; i++) {
        host[i] = malloc(SIZE);
        memset(host[i], 'a' + i, SIZE);
        CHECK(cuMemAlloc(&block[i].at, SIZE));
    }
    ask_all("requested");
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemcpyHtoD(block[i].at, host[i], SIZE));
    ask_all("copied");
    launch();
    ask_all("used");
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cuMemcpyDtoH(host[i], block[i].at, SIZE));
        EXPECT(all_are(host[i], 'a' + i, SIZE));
        free(host[i]);
    }
    grow();
    CHECK(cuMemFree(block[1].at));
    CHECK(cuMemAlloc(&block[1].at, SIZE)); /* Mostly at the same address: another block. */
    printf("its successor has %s id\n",
           id_of(block[1].at, CU_POINTER_ATTRIBUTE_BUFFER_ID) == block[1].id[0] ? "the same"
                                                                                : "another");
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree(block[i].at));
    return 0;
}
