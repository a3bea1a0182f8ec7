/* SPDX-License-Identifier: MIT */
/* Answers about addresses in, before and behind memory that the program has registered: the
 * output must not depend on whether libzc had pinned that memory before.  Needs a driver alone. */
#include <sys/mman.h>

#include "ask.h"

#define PAGE ((size_t)4096)
#define SIZE (((size_t)20 << 20) + 1000)

static char plain[SIZE + 4 * PAGE] __attribute__((aligned(4096)));
static CUdeviceptr device;
static char *first, *end; /* The registered bytes. */

static bool registered_here(const char *p)
{
    unsigned flags = 0;
    return cuMemHostGetFlags(&flags, (void *)p) == CUDA_SUCCESS;
}

static void show_codes(char *p)
{
    CUdeviceptr at = 0;
    unsigned flags = 77;
    int value = 0;
    SHOW(cuMemHostGetFlags(&flags, p));
    printf("flags %u\n", flags);
    SHOW(cuMemHostGetDevicePointer(&at, p, 0));
    relative("device pointer", at, (CUdeviceptr)p, 0);
    SHOW(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)p));
    SHOW(cuMemFreeHost(p));
    SHOW(cuMemFree((CUdeviceptr)p));
    if (p != first)
        SHOW(cuMemHostUnregister(p));
}

/* Prints a range as what it is to the registered one. */
static void show_bytes(const char *what, CUdeviceptr start, size_t bytes, CUresult result)
{
    bool same = start == (CUdeviceptr)first && bytes == (size_t)(end - first);
    printf("%s: code %d, %s\n", what, (int)result, same ? "what is registered" : "another");
}

/* Of attributes whose values depend on where the block is only the code is shown. */
static void show_all_attributes(CUdeviceptr at)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUdeviceptr on_device = 77, on_host = 77, start = 77;
    unsigned type = 77;
    int ordinal = 77;
    size_t bytes = 77;
    void *data[] = {&type, &on_device, &on_host, &ordinal, &start, &bytes};
    for (int a = 1; a <= 21; a++) {
        unsigned long long value = 0;
        CUresult result = cuPointerGetAttribute(&value, (CUpointer_attribute)a, at);
        bool shown = !names_something(a) && a != CU_POINTER_ATTRIBUTE_RANGE_SIZE &&
                     a != CU_POINTER_ATTRIBUTE_MAPPING_SIZE;
        printf("attribute %d: code %d, %llu\n", a, (int)result, shown ? value : 0);
    }
    CUresult result = cuPointerGetAttributes(6, names, data, at);
    printf("at once: code %d, type %u, ordinal %d\n", (int)result, type, ordinal);
    relative("device pointer", on_device, at, 0);
    relative("host pointer", on_host, at, 0);
    show_bytes("range", start, bytes, result);
    start = bytes = 0;
    result = cuMemGetAddressRange(&start, &bytes, at);
    show_bytes("address range", start, bytes, result);
}

static char *page_of(char *p)
{
    return (char *)((uintptr_t)p & ~(PAGE - 1));
}

static void show_around(void)
{
    char *second = page_of(first) + PAGE, *behind = page_of(end - 1) + PAGE;
    struct {
        const char *name;
        char *at;
    } places[] = {{"in the page before", page_of(first) - 1},
                  {"the first page's first", page_of(first)},
                  {"just before", first - 1},
                  {"the first", first},
                  {"the first but one", first + 1},
                  {"the first page's last", second - 1},
                  {"the second page's first", second},
                  {"in the middle", first + (end - first) / 2},
                  {"the last", end - 1},
                  {"just behind", end},
                  {"the last page's last", behind - 1},
                  {"in the page behind", behind}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        printf("= %s\n", places[i].name);
        show_codes(places[i].at);
        show_all_attributes((CUdeviceptr)places[i].at);
        printf("still registered: %d %d\n", registered_here(first), registered_here(end - 1));
    }
}

static void show_also(const char *name, char *from, char *to)
{
    CUresult made = cuMemHostRegister(from, (size_t)(to - from), 0);
    bool here = registered_here(from), before = registered_here(from - 1);
    bool behind = registered_here(to);
    CUresult ended = made == CUDA_SUCCESS ? cuMemHostUnregister(from) : made;
    printf("also registered, %s: %d, there %d %d %d, ended %d, still registered %d %d\n", name,
           (int)made, before, here, behind, (int)ended, registered_here(first),
           registered_here(end - 1));
}

/* Nobody knows whose the page before a block's first one is. */
static void show_second(void)
{
    char *before = page_of(first) == first ? first : first - 8;
    char *behind = page_of(end - 1) + PAGE;
    show_also("the same", first, end);
    show_also("inside", first + 5, first + 100);
    show_also("the second page", page_of(first) + PAGE, page_of(first) + 2 * PAGE);
    show_also("over the first byte", before, first + 8);
    show_also("over the last byte", end - 8, end + 8);
    show_also("all around", before, end + 8);
    if (before != first)
        show_also("before, in its page", before, first);
    if (end != behind)
        show_also("behind, in its page", end, end + 8);
}

/* How the range lies in its block: both ends are the block's, or whole pages are registered. */
static void put_range(int which, char *block)
{
    first = which == 0 ? block : which == 3 ? block + PAGE + 100 : page_of(block);
    end = which < 2 ? block + SIZE : page_of(block + SIZE);
    if (which == 2)
        end += PAGE;
}

/* Registers a range, asks, and ends that, of a block that was copied so often before. */
static void show_registered(int turn, char *block)
{
    int copies = turn & 8 ? 2 : 0, which = turn % 4;
    unsigned flags = turn & 4 ? 3 : 0;
    memset(block, 3, SIZE);
    for (int i = 0; i < copies; i++)
        CHECK(cuMemcpyHtoD(device, block, SIZE));
    put_range(which, block);
    printf("== range %d, flags %u, after %d copies\n", which, flags, copies);
    SHOW(cuMemHostRegister(first, (size_t)(end - first), flags));
    show_around();
    show_second();
    SHOW(cuMemHostUnregister(first));
    SHOW(cuMemHostUnregister(first));
    show_codes(first + 1);
}

/* Some addresses are nobody's between the device block and what the program gets from then on. */
static void begin(void)
{
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuMemAlloc(&device, SIZE));
    EXPECT(mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static void variable(void)
{
    begin();
    for (int i = 0; i < 16; i++)
        show_registered(i, plain + PAGE + 48);
    end_gpu(0);
}

static void of_malloc(void)
{
    begin();
    for (int i = 0; i < 16; i++) {
        char *block = malloc(SIZE);
        show_registered(i, block);
        free(block);
    }
    end_gpu(0);
}

static void aligned(void)
{
    begin();
    for (int i = 0; i < 16; i++) {
        void *block = NULL;
        EXPECT(posix_memalign(&block, PAGE, SIZE) == 0);
        show_registered(i, block);
        free(block);
    }
    end_gpu(0);
}

static void show_beside_capture(const char *name, CUresult (*call)(void *p), void *p)
{
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUresult result = call(p);
    CUresult ended = cuStreamEndCapture(stream, &graph);
    printf("%s: %d, the capture %d\n", name, (int)result, (int)ended);
    if (graph)
        CHECK(cuGraphDestroy(graph));
}

static CUresult register_page(void *p)
{
    return cuMemHostRegister(p, PAGE, 0);
}

/* Each refused call ends a capture, as one that does what it says. */
static void captured(void)
{
    begin();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int copies = 0; copies <= 2; copies += 2) {
        void *block = NULL, *pinned;
        EXPECT(posix_memalign(&block, PAGE, SIZE) == 0);
        for (int i = 0; i < copies; i++)
            CHECK(cuMemcpyHtoD(device, block, SIZE));
        first = block;
        end = first + SIZE;
        CHECK(cuMemHostAlloc(&pinned, SIZE, 0));
        CHECK(cuMemHostRegister(first, SIZE, 0));
        show_beside_capture("ending what is not registered", cuMemHostUnregister, plain);
        show_beside_capture("ending it inside", cuMemHostUnregister, first + PAGE);
        show_beside_capture("ending it behind", cuMemHostUnregister, end);
        show_beside_capture("ending it", cuMemHostUnregister, first);
        show_beside_capture("ending pinned memory", cuMemHostUnregister, pinned);
        show_beside_capture("ending device memory", cuMemHostUnregister, (void *)device);
        show_beside_capture("freeing it as pinned", cuMemFreeHost, first);
        show_beside_capture("freeing device memory as pinned", cuMemFreeHost, (void *)device);
        show_beside_capture("registering it again", register_page, first);
        show_beside_capture("registering pinned memory", register_page, pinned);
        show_beside_capture("registering device memory", register_page, (void *)device);
        printf("still registered: %d %d\n", registered_here(first), registered_here(end - 1));
        CHECK(cuMemHostUnregister(first));
        CHECK(cuMemFreeHost(pinned));
        free(block);
    }
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"variable", variable},
                                          {"malloc", of_malloc},
                                          {"aligned", aligned},
                                          {"captured", captured}};
    return RUN_SCENARIO(all, argc, argv);
}
