/* SPDX-License-Identifier: MIT */
/* A program that copies from and to malloc'd memory through the driver API, one scene a run:
 * host_copies SCENE.  It prints what it finds; the tests compare that with and without libzc. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host_scene.h"

/* A block from before the driver was there, and one from after. */
static int scene_roundtrip(void)
{
    unsigned char *before = filled(malloc(BLOCK), BLOCK, 1);
    start();
    unsigned char *after = filled(malloc(BLOCK), BLOCK, 2);
    CHECK(cuMemcpyHtoD_v2, device, before, BLOCK);
    CHECK(cuMemcpyHtoD_v2, device + BLOCK, after, BLOCK);
    memset(before, 0, BLOCK);
    CHECK(cuMemcpyDtoH_v2, before, device, BLOCK);
    CHECK(cuMemcpyDtoH_v2, after, device + BLOCK, BLOCK);
    printf("content %d %d\n", holds(before, BLOCK, 1), holds(after, BLOCK, 2));
    fprintf(stderr, "registrations %u\n", registrations());
    free(before);
    free(after);
    void *volatile never_copied = malloc(BLOCK);
    free(never_copied);
    return 0;
}

/* Every program may do this with pageable memory: overwrite the source once the call returned. */
static int scene_overwrite(void)
{
    CUstream stream;
    start();
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 3);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CHECK(cuLaunchHostFunc, stream, work, NULL);
    filled(p, BLOCK, 4);
    CHECK(cuMemcpyHtoDAsync_v2, device, p, BLOCK, stream);
    bool returned = !work_ended;
    call_returned = true;
    filled(p, BLOCK, 5);
    CHECK(cuStreamSynchronize, stream);
    printf("first content %d\n", device_holds(BLOCK, 4));
    fprintf(stderr, "returned before the stream %d\n", returned);
    free(p);
    return 0;
}

/* And read the target once the call returned. */
static int scene_arrived(void)
{
    CUstream stream;
    start();
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 6);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CHECK(cuLaunchHostFunc, stream, sleep_a_little, NULL);
    memset(p, 0, BLOCK);
    CHECK(cuMemcpyDtoHAsync_v2, p, device, BLOCK, stream);
    printf("arrived %d\n", holds(p, BLOCK, 6));
    CHECK(cuStreamSynchronize, stream);
    free(p);
    return 0;
}

/* More than the ring of staging memory holds, in many copies behind one another. */
enum { MANY = 6 * BLOCK + 1 };

static int scene_many(void)
{
    CUstream stream;
    bool right = true;
    start();
    unsigned char *p = filled(malloc(MANY), MANY, 7);
    CHECK(cuMemcpyHtoD_v2, device, p, MANY);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    for (unsigned round = 0; round < 4; round++) {
        CHECK(cuLaunchHostFunc, stream, sleep_a_little, NULL);
        for (unsigned i = 0; i < 3; i++) {
            filled(p, MANY, 8 + i);
            CHECK(cuMemcpyHtoDAsync_v2, device, p, MANY, stream);
        }
        memset(p, 0, MANY);
        CHECK(cuStreamSynchronize, stream);
        right = right && device_holds(MANY, 10);
    }
    printf("last content %d\n", right);
    free(p);
    return 0;
}

/* When the ring was full once, all of it is there again for the next copies. */
static int scene_again(void)
{
    CUstream stream;
    start();
    unsigned char *p = filled(malloc(MANY), MANY, 7);
    CHECK(cuMemcpyHtoD_v2, device, p, MANY);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 10; i++)
        CHECK(cuLaunchHostFunc, stream, sleep_a_little, NULL);
    for (unsigned i = 0; i < 4; i++)
        CHECK(cuMemcpyHtoDAsync_v2, device, p, MANY, stream);
    CHECK(cuStreamSynchronize, stream);
    CHECK(cuLaunchHostFunc, stream, work, NULL);
    CHECK(cuMemcpyHtoDAsync_v2, device, p, MANY, stream);
    bool returned = !work_ended;
    call_returned = true;
    CHECK(cuStreamSynchronize, stream);
    printf("content %d\n", device_holds(MANY, 7));
    fprintf(stderr, "returned before the stream %d\n", returned);
    free(p);
    return 0;
}

/* All that the driver can be asked about an address. */
static void ask_about(const char *name, void *p)
{
    printf("%s:", name);
    for (int a = 1; a <= 21; a++) {
        char data[64] = {0};
        printf(" %d", (int)cu.cuPointerGetAttribute(data, (CUpointer_attribute)a, (CUdeviceptr)p));
    }
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 9, managed = 9;
    CUdeviceptr dptr = 9, base = 0;
    void *host = NULL, *data[] = {&type, &dptr, &host, &managed, &(int){9}};
    size_t bytes = 0;
    unsigned flags = 0;
    printf(" all %d", (int)cu.cuPointerGetAttributes(5, which, data, (CUdeviceptr)p));
    printf(" type %u pointer %d host %d managed %u ordinal %d", type, dptr != 0, host != NULL,
           managed, *(int *)data[4]);
    printf(" range %d", (int)cu.cuMemGetAddressRange_v2(&base, &bytes, (CUdeviceptr)p));
    printf(" device %d", (int)cu.cuMemHostGetDevicePointer_v2(&dptr, p, 0));
    printf(" flags %d", (int)cu.cuMemHostGetFlags(&flags, p));
    printf(" freehost %d", (int)cu.cuMemFreeHost(p));
    printf(" free %d\n", (int)cu.cuMemFree_v2((CUdeviceptr)p));
}

static int scene_attributes(void)
{
    start();
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    ask_about("begin", p);
    ask_about("inside", p + 100);
    printf("unregister %d %d\n", (int)cu.cuMemHostUnregister(p),
           (int)cu.cuMemHostUnregister(p + 1));
    printf("as device memory %d %d %d\n", (int)cu.cuMemcpyDtoD_v2(device, (CUdeviceptr)p, 16),
           (int)cu.cuMemcpyHtoD_v2((CUdeviceptr)p, p + 64, 16),
           (int)cu.cuMemsetD8_v2((CUdeviceptr)p, 1, 16));
    printf("unified %d %d\n", (int)cu.cuMemcpy(device, (CUdeviceptr)p, 16),
           (int)cu.cuMemcpy((CUdeviceptr)p, (CUdeviceptr)p + 64, 16));
    printf("content %d\n", holds(p, 16, 65));
    free(p);
    return 0;
}

/* The program pins its own malloc'd memory, before or after it was copied from. */
static void pin_oneself(bool copied)
{
    CUdeviceptr dptr = 0;
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    if (copied)
        CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    printf("register %d\n", (int)cu.cuMemHostRegister_v2(p + 4096, MIB, 0));
    printf("again %d\n", (int)cu.cuMemHostRegister_v2(p + 4096, MIB, 0));
    printf("whole %d\n", (int)cu.cuMemHostRegister_v2(p, BLOCK, 0));
    printf("device %d", (int)cu.cuMemHostGetDevicePointer_v2(&dptr, p + 4096, 0));
    printf(" same %d\n", dptr == (CUdeviceptr)(p + 4096));
    ask_about("registered", p + 5000);
    ask_about("beside", p);
    CHECK(cuMemcpyHtoD_v2, device, p + 4096, MIB);
    printf("unregister %d", (int)cu.cuMemHostUnregister(p));
    printf(" %d", (int)cu.cuMemHostUnregister(p + 4096));
    printf(" %d\n", (int)cu.cuMemHostUnregister(p + 4096));
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    ask_about("afterwards", p + 5000);
    printf("content %d\n", device_holds(BLOCK, 1));
    free(p);
}

static int scene_register(void)
{
    start();
    pin_oneself(false);
    pin_oneself(true);
    return 0;
}

/* Memory that the program has freed.  libc maps blocks of this size one by one, and unmaps them. */
static int scene_register_freed(void)
{
    size_t n = 48 * MIB;
    start();
    for (int copies = 0; copies < 3; copies++) {
        unsigned char *behind = malloc(n), *p = filled(malloc(n), n, 1);
        for (int i = 0; i < copies; i++)
            CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
        volatile uintptr_t freed = (uintptr_t)p;
        free(p);
        uintptr_t at = freed;
        printf("register %d", (int)cu.cuMemHostRegister_v2((void *)at, n, 0));
        printf(" %d", (int)cu.cuMemHostRegister_v2((void *)(at + MIB), MIB, 0));
        printf(" %d", (int)cu.cuMemHostRegister_v2((void *)(at - MIB), 2 * MIB, 0));
        printf(" unregister %d\n", (int)cu.cuMemHostUnregister((void *)at));
        unsigned char *again = filled(malloc(n), n, 1);
        CHECK(cuMemcpyHtoD_v2, device, again, BLOCK);
        printf("content %d\n", device_holds(BLOCK, 1));
        free(again);
        free(behind);
    }
    return 0;
}

/* A captured copy reads what is there when the graph runs. */
static int scene_capture(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    start();
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    unsigned char *q = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(cuMemcpyHtoDAsync_v2, device, p, BLOCK, stream);
    CHECK(cuMemcpyDtoHAsync_v2, q, device, BLOCK, stream);
    CHECK(cuStreamEndCapture, stream, &graph);
    CHECK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    filled(p, BLOCK, 9);
    CHECK(cuGraphLaunch, exec, stream);
    CHECK(cuStreamSynchronize, stream);
    printf("content %d\n", holds(q, BLOCK, 9));
    free(p);
    free(q);
    return 0;
}

/* The child has the parent's memory, and no CUDA. */
static int scene_fork(void)
{
    int status;
    start();
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        unsigned char *q = filled(malloc(BLOCK), BLOCK, 2);
        bool right = holds(p, BLOCK, 1) && holds(q, BLOCK, 2);
        p = realloc(p, 2 * BLOCK);
        right = right && p && holds(p, BLOCK, 1);
        free(p);
        free(q);
        for (int i = 0; i < 20; i++)
            free(filled(malloc(BLOCK), BLOCK, 3));
        _exit(right ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(cuMemcpyDtoH_v2, p, device, BLOCK);
    printf("child %d content %d\n", status, holds(p, BLOCK, 1));
    free(p);
    return 0;
}

/* A freed block's memory comes back, registered, and calloc's is zero. */
static int scene_pool(void)
{
    bool zero = true;
    start();
    for (unsigned i = 0; i < 10; i++) {
        unsigned char *p = calloc(BLOCK / 4, 4);
        for (size_t at = 0; at < BLOCK; at++)
            zero = zero && p[at] == 0;
        CHECK(cuMemcpyHtoD_v2, device, filled(p, BLOCK, i), BLOCK);
        zero = zero && device_holds(BLOCK, i);
        free(p);
    }
    printf("zero %d\n", zero);
    fprintf(stderr, "registrations %u\n", registrations());
    return 0;
}

/* Many blocks at a time, freed; then a call that waits for the device anyway. */
static int scene_trim(void)
{
    enum { BLOCKS = 16 };
    unsigned char *p[BLOCKS];
    CUdeviceptr other;
    start();
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK(cuMemcpyHtoD_v2, device, p[i] = filled(malloc(BLOCK), BLOCK, i), BLOCK);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(p[i]);
    CHECK(cuMemAlloc_v2, &other, 1024);
    CHECK(cuMemFree_v2, other);
    printf("content %d\n", device_holds(BLOCK, BLOCKS - 1));
    fprintf(stderr, "registrations %u unregistrations %u\n", registrations(),
            cu.sim_calls ? (unsigned)cu.sim_calls("cuMemHostUnregister") : 0);
    return 0;
}

/* Small blocks share what is registered. */
static int scene_small(void)
{
    enum { BLOCKS = 64, BYTES = 100000 };
    unsigned char *p[BLOCKS];
    bool right = true;
    start();
    for (unsigned i = 0; i < BLOCKS; i++)
        p[i] = filled(malloc(BYTES), BYTES, i);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < BLOCKS; i++) {
            CHECK(cuMemcpyHtoD_v2, device, p[i], BYTES);
            right = right && device_holds(BYTES, i);
        }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(p[i]);
    printf("content %d\n", right);
    fprintf(stderr, "registrations %u\n", registrations());
    return 0;
}

/* A rectangle out of a busy stream's way, whose rows come one behind or one before the other. */
static int rectangle(bool backwards)
{
    CUstream stream;
    size_t last = backwards ? BLOCK - 4096 : 0;
    start();
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CHECK(cuLaunchHostFunc, stream, sleep_a_little, NULL);
    filled(p, BLOCK, 2);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = p + last,
                          .srcPitch = backwards ? -(size_t)4096 : 4096,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = device + last,
                          .dstPitch = backwards ? -(size_t)4096 : 4096,
                          .WidthInBytes = 4096,
                          .Height = BLOCK / 4096};
    CHECK(cuMemcpy2DAsync_v2, &copy, stream);
    filled(p, BLOCK, 3);
    CHECK(cuStreamSynchronize, stream);
    printf("first content %d\n", device_holds(BLOCK, 2));
    free(p);
    return 0;
}

static int scene_rectangle(void)
{
    return rectangle(false);
}

static int scene_backwards(void)
{
    return rectangle(true);
}

/* Memory that no malloc gave: globals, the stack, a mapped file. */
static int scene_others(void)
{
    static unsigned char global[24 * MIB + 77];
    unsigned char local[6 * MIB];
    char path[] = "/tmp/zc-host-file-XXXXXX";
    int fd = mkstemp(path);
    start();
    CHECK(cuMemcpyHtoD_v2, device, filled(global, sizeof(global), 1) + 5, sizeof(global) - 5);
    memset(global, 0, sizeof(global));
    CHECK(cuMemcpyDtoH_v2, global + 5, device, sizeof(global) - 5);
    global[0] = global[1] = global[2] = global[3] = global[4] = 0;
    filled(global, 5, 1);
    printf("global %d\n", holds(global, sizeof(global), 1));
    CHECK(cuMemcpyHtoD_v2, device, filled(local, sizeof(local), 2), sizeof(local));
    memset(local, 0, sizeof(local));
    CHECK(cuMemcpyDtoH_v2, local, device, sizeof(local));
    printf("local %d\n", holds(local, sizeof(local), 2));
    unlink(path);
    if (ftruncate(fd, 7 * MIB) != 0)
        return 1;
    unsigned char *file = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(cuMemcpyHtoD_v2, device, filled(file, 7 * MIB, 3), 7 * MIB);
    memset(file, 0, 7 * MIB);
    CHECK(cuMemcpyDtoH_v2, file, device, 7 * MIB);
    printf("file %d\n", holds(file, 7 * MIB, 3));
    printf("too much %d\n", (int)cu.cuMemcpyHtoD_v2(device + 60 * MIB, global, 7 * MIB));
    fprintf(stderr, "parts %u\n",
            cu.sim_calls ? (unsigned)cu.sim_calls("cuMemcpyHtoDAsync_v2") : 0);
    return 0;
}

/* A mapped file of 16 MiB, parts of which the CPU cannot touch, and the fault that this led to. */
static struct {
    unsigned char *bytes;         /* the mapping */
    int fd;                       /* the file */
    pthread_t caller;             /* who copies */
    volatile sig_atomic_t signal; /* the fault's, 0 for none, -1 for one of another thread's */
} torn;

static void mend(int signal)
{
    torn.signal = pthread_equal(pthread_self(), torn.caller) ? signal : -1;
    if (ftruncate(torn.fd, 16 * MIB) != 0 || mmap(torn.bytes, 16 * MIB, PROT_READ | PROT_WRITE,
                                                  MAP_SHARED | MAP_FIXED, torn.fd, 0) == MAP_FAILED)
        _exit(3);
}

static void print_fault(const char *what, CUresult result)
{
    printf("%s: %d, signal %d\n", what, (int)result, (int)torn.signal);
    torn.signal = 0;
}

/* Memory that the CPU cannot touch: the driver's copy faults in the thread that called it. */
static int scene_unreachable(void)
{
    char path[] = "/tmp/zc-host-file-XXXXXX";
    struct sigaction action = {.sa_handler = mend};
    torn.fd = mkstemp(path);
    torn.caller = pthread_self();
    start();
    unlink(path);
    if (ftruncate(torn.fd, 10 * MIB) != 0)
        return 1;
    torn.bytes = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, torn.fd, 0);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    print_fault("behind its end", cu.cuMemcpyHtoD_v2(device, torn.bytes, 16 * MIB));
    mprotect(torn.bytes, 8 * MIB, PROT_READ);
    print_fault("read-only, read", cu.cuMemcpyHtoD_v2(device, torn.bytes, 8 * MIB));
    print_fault("read-only, written", cu.cuMemcpyDtoH_v2(torn.bytes, device, 8 * MIB));
    munmap(torn.bytes + 5 * MIB, MIB);
    print_fault("unmapped", cu.cuMemcpyHtoD_v2(device, torn.bytes, 8 * MIB));
    return 0;
}

/* The same behind the end of a file in a program that handles no signal. */
static int scene_shrunk(void)
{
    char path[] = "/tmp/zc-host-file-XXXXXX";
    int fd = mkstemp(path);
    start();
    unlink(path);
    if (ftruncate(fd, 16 * MIB) != 0)
        return 1;
    unsigned char *file = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(cuMemcpyHtoD_v2, device, filled(file, 16 * MIB, 1), 16 * MIB);
    printf("whole %d\n", device_holds(16 * MIB, 1));
    fflush(stdout);
    if (ftruncate(fd, 10 * MIB) != 0)
        return 1;
    CHECK(cuMemcpyHtoD_v2, device, file, 16 * MIB);
    return 1;
}

/* A large copy keeps its place in the stream. */
static int scene_order(void)
{
    static unsigned char a[20 * MIB], b[20 * MIB];
    CUstream stream;
    start();
    filled(a, sizeof(a), 1);
    CHECK(cuStreamCreate, &stream, CU_STREAM_DEFAULT);
    CHECK(cuLaunchHostFunc, stream, sleep_a_little, NULL);
    CHECK(cuMemcpyHtoDAsync_v2, device, a, sizeof(a), stream);
    filled(a, sizeof(a), 2);
    CHECK(cuMemcpyHtoD_v2, device + sizeof(a), a, sizeof(a));
    CHECK(cuMemcpyDtoHAsync_v2, b, device, sizeof(b), stream);
    printf("first %d\n", holds(b, sizeof(b), 1));
    CHECK(cuMemcpyDtoH_v2, b, device + sizeof(a), sizeof(b));
    printf("second %d\n", holds(b, sizeof(b), 2));
    return 0;
}

static void copy_in_parts(const char *what, unsigned char *p, size_t n)
{
    unsigned before = cu.sim_calls ? (unsigned)cu.sim_calls("cuMemcpyHtoDAsync_v2") : 0;
    CHECK(cuMemcpyHtoD_v2, device, p, n);
    fprintf(stderr, "%s %u ", what,
            cu.sim_calls ? (unsigned)cu.sim_calls("cuMemcpyHtoDAsync_v2") - before : 0);
    printf("%s %d\n", what, device_holds(n, p[0]));
}

/* Large blocks of malloc and realloc, at addresses that come again. */
static int scene_staying(void)
{
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    unsigned char *p = filled(malloc(9 * MIB), 9 * MIB, 1);
    start();
    copy_in_parts("malloc", p, 9 * MIB);
    copy_in_parts("inside", p + MIB, 7 * MIB);
    p = realloc(p, 12 * MIB);
    copy_in_parts("realloc", filled(p, 12 * MIB, 2), 12 * MIB);
    free(p);
    return 0;
}

static size_t resident(void)
{
    char text[128] = "";
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || !fgets(text, sizeof(text), f))
        exit(1);
    fclose(f);
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Blocks just above the smallest that are placed, of which little is touched; then a part of them
 * is copied, twice. */
static int scene_sparse(void)
{
    enum { COUNT = 4000, COPIED = 280 };
    static unsigned char *p[COUNT];
    bool right = true;
    start();
    size_t before = resident();
    for (unsigned i = 0; i < COUNT; i++) {
        p[i] = malloc((64 << 10) + i * 37 % 1024);
        *p[i] = (unsigned char)i;
    }
    fprintf(stderr, "resident %zu ", resident() - before);
    for (unsigned i = 0; i < 2 * COPIED; i++)
        CHECK(cuMemcpyHtoD_v2, device, p[i % COPIED], 64 << 10);
    for (unsigned i = 0; i < COUNT; i++)
        right = right && *p[i] == (unsigned char)i;
    printf("content %d\n", right);
    fprintf(stderr, "registrations %u\n", registrations());
    for (unsigned i = 0; i < COUNT; i++)
        free(p[i]);
    return 0;
}

static bool many_processors;

/* libzc asks this for what the machine of the test may not have. */
int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set)
{
    if (!many_processors)
        return (int)syscall(SYS_sched_getaffinity, process, size, set) < 0 ? -1 : 0;
    CPU_ZERO(set);
    for (int i = 0; i < 16; i++)
        CPU_SET(i, set);
    return 0;
}

static void tell_calls(const char *what)
{
    static unsigned long long registered, parts;
    unsigned long long r = registrations();
    unsigned long long p =
        cu.sim_calls ? cu.sim_calls("cuMemcpyHtoDAsync_v2") + cu.sim_calls("cuMemcpyDtoHAsync_v2")
                     : 0;
    fprintf(stderr, "%s: %llu registered, %llu parts\n", what, r - registered, p - parts);
    registered = r;
    parts = p;
}

/* The first and the second copy of blocks, to the device and back, and of one for which threads
 * can't be had.  Little of them is not zero. */
static int scene_first(void)
{
    const size_t size = 512 * MIB;
    void (*fail)(const char *, CUresult, unsigned);
    CUdeviceptr memory;
    many_processors = true;
    start();
    fail = (__typeof__(fail))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "sim_fail");
    CHECK(cuMemAlloc_v2, &memory, size);
    unsigned char *in = malloc(size), *out = malloc(size);
    for (size_t i = 0; i < size; i += MIB)
        in[i + i / MIB] = (unsigned char)(i / MIB + 1);
    CHECK(cuMemcpyHtoD_v2, memory, in, size);
    tell_calls("in");
    CHECK(cuMemcpyDtoH_v2, out, memory, size);
    tell_calls("out");
    printf("there and back %d\n", memcmp(in, out, size) == 0);
    CHECK(cuMemcpyHtoD_v2, memory, in, size);
    tell_calls("in again");
    unsigned char *late = malloc(size);
    late[size / 2] = 7;
    if (fail)
        fail("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY, 0);
    CHECK(cuMemcpyHtoDAsync_v2, memory, late, size, NULL);
    late[size / 2] = 8;
    tell_calls("late");
    CHECK(cuMemcpyDtoH_v2, in, memory, size);
    printf("late %d\n", in[size / 2]);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} scenes[] = {
    {"roundtrip", scene_roundtrip},
    {"overwrite", scene_overwrite},
    {"arrived", scene_arrived},
    {"many", scene_many},
    {"again", scene_again},
    {"attributes", scene_attributes},
    {"register", scene_register},
    {"register_freed", scene_register_freed},
    {"capture", scene_capture},
    {"fork", scene_fork},
    {"pool", scene_pool},
    {"trim", scene_trim},
    {"small", scene_small},
    {"rectangle", scene_rectangle},
    {"backwards", scene_backwards},
    {"others", scene_others},
    {"unreachable", scene_unreachable},
    {"shrunk", scene_shrunk},
    {"order", scene_order},
    {"staying", scene_staying},
    {"sparse", scene_sparse},
    {"first", scene_first},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        if (argc > 1 && strcmp(argv[1], scenes[i].name) == 0)
            return scenes[i].run();
    fprintf(stderr, "usage: %s SCENE\n", argv[0]);
    return 2;
}
