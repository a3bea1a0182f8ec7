/* SPDX-License-Identifier: MIT */
/* Pinned memory that is larger than a part in which libzc registers it: what calls make of ranges
 * that cross the borders of parts must not depend on who made the memory. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "ask.h"

#define MIB ((size_t)1 << 20)
#define PART (256 * MIB)
#define SIZE (2 * PART + 40 * MIB)
#define ACROSS (4 * MIB)

static char *block;
static size_t behind = SIZE_MAX; /* Offset of registered memory behind a border; none if so. */
static bool copied;              /* It is a block of malloc's that was copied before. */
static CUdeviceptr device;       /* ACROSS bytes. */

static void register_copied(void)
{
    CUdeviceptr all;
    EXPECT(posix_memalign((void **)&block, 2 * MIB, SIZE) == 0);
    memset(block, 0, SIZE);
    CHECK(cuMemAlloc(&all, SIZE));
    CHECK(cuMemcpyHtoD(all, block, SIZE));
    CHECK(cuMemcpyHtoD(all, block, SIZE));
    CHECK(cuMemFree(all));
    CHECK(cuMemHostRegister(block, SIZE, CU_MEMHOSTREGISTER_PORTABLE));
}

/* The address is the program's to choose. */
static void register_block(void)
{
    char *room =
        mmap(NULL, SIZE + 2 * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        exit(1);
    block = (char *)(((uintptr_t)room + PART - 1) / PART * PART) + behind;
    CHECK(cuMemHostRegister(block, SIZE, CU_MEMHOSTREGISTER_PORTABLE));
}

static void start(void)
{
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&device, ACROSS));
    if (behind == SIZE_MAX)
        CHECK(cuMemHostAlloc((void **)&block, SIZE, CU_MEMHOSTALLOC_PORTABLE));
    else if (copied)
        register_copied();
    else
        register_block();
    memset(block + PART - ACROSS, 1, 2 * ACROSS);
}

static void end(void)
{
    SHOW(behind == SIZE_MAX ? cuMemFreeHost(block) : cuMemHostUnregister(block));
    end_gpu(0);
}

static void answers(void)
{
    static const size_t places[] = {0, PART - 1, PART, 2 * PART, SIZE - 1};
    CUdeviceptr at = 0, base;
    CUipcMemHandle ipc;
    unsigned flags = 77;
    int value = 1;
    start();
    base = (CUdeviceptr)block;
    SHOW(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base + PART));
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        printf("at %zu\n", places[i]);
        show_attributes(base + places[i]);
        show_pointer_attributes(base + places[i], base);
        show_many_attributes(base + places[i], base);
        show_range(base + places[i], base);
        SHOW(cuMemHostGetDevicePointer(&at, block + places[i], 0));
        relative("device pointer", at, base, 0);
        SHOW(cuMemHostGetFlags(&flags, block + places[i]));
        printf("flags %u\n", flags);
        if (i || behind == SIZE_MAX)
            SHOW(cuMemHostUnregister(block + places[i]));
        SHOW(cuMemHostRegister(block + places[i], 1, 0));
    }
    SHOW(cuIpcGetMemHandle(&ipc, base + PART));
    SHOW(cuMemFreeHost(block + PART));
    end();
}

/* The device's bytes of the range, and the range of the device, after a call. */
static void show_both(const char *what, CUresult result, const char *at, size_t bytes)
{
    static char back[ACROSS];
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(back, device, bytes));
    printf("%s: code %d, on the device %d, in the range %d %d\n", what, (int)result,
           all_are(back, back[0], bytes) ? back[0] : -1, at[0], all_are(at, at[0], bytes));
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        memset(at, ++turn, bytes);                                                                 \
        CHECK(cuMemsetD8(device, 100, bytes));                                                     \
        CHECK(cuCtxSynchronize());                                                                 \
        show_both(#call, call, at, bytes);                                                         \
    } while (0)

static CUDA_MEMCPY3D box(char *at, size_t bytes, bool out)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = bytes / 4, .Height = 2, .Depth = 2};
    c.srcPitch = c.dstPitch = bytes / 4;
    c.srcHeight = c.dstHeight = 2;
    c.srcMemoryType = out ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.dstMemoryType = out ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    c.srcHost = out ? at : NULL;
    c.dstHost = out ? NULL : at;
    c.srcDevice = out ? 0 : device;
    c.dstDevice = out ? device : 0;
    return c;
}

/* Rows behind the first one of a slice that has no height. */
static CUDA_MEMCPY3D rows(char *at, size_t bytes)
{
    CUDA_MEMCPY3D c = box(at - bytes / 4, bytes, true);
    c.srcHeight = c.dstHeight = 0;
    c.srcY = 1;
    c.Height = 4;
    c.Depth = 1;
    return c;
}

static CUDA_MEMCPY3D_PEER peers(char *at, size_t bytes)
{
    const CUDA_MEMCPY3D c = box(at, bytes, true);
    CUDA_MEMCPY3D_PEER p;
    memcpy(&p, &c, sizeof(p));
    p.srcContext = p.dstContext = context;
    return p;
}

static CUresult batch(char *at, size_t bytes)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr to[2] = {device + bytes / 2, device};
    CUdeviceptr from[2] = {(CUdeviceptr)at + bytes / 4, (CUdeviceptr)at};
    size_t sizes[2] = {bytes / 2, bytes / 2}, first = 0;
#if CUDA_VERSION >= 13000
    return cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream);
#else
    size_t failed;
    return cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, &failed, stream);
#endif
}

/* Launches a graph that has one node, and what came of the call that added it. */
static CUresult launched(CUgraph graph, CUresult added)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    return added;
}

static CUresult captured(char *at, size_t bytes)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CUresult result = cuMemcpyHtoDAsync(device, at, bytes, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    return launched(graph, result);
}

static CUresult copy_node(char *at, size_t bytes, bool out)
{
    CUDA_MEMCPY3D c = box(at, bytes, out);
    CUgraph graph;
    CUgraphNode node;
    CHECK(cuGraphCreate(&graph, 0));
    return launched(graph, cuGraphAddMemcpyNode(&node, graph, NULL, 0, &c, context));
}

static CUresult set_node(char *at, size_t bytes)
{
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = (CUdeviceptr)at, .elementSize = 4, .value = 0x36363636, .width = bytes / 4};
    CUgraph graph;
    CUgraphNode node;
    set.height = 1;
    CHECK(cuGraphCreate(&graph, 0));
    return launched(graph, cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
}

/* By way of an array of 16,384 elements of 4 bytes, or fewer bytes. */
static CUresult array_and_back(char *at, size_t bytes)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 16384, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    size_t n = bytes < 65536 ? bytes : 65536;
    char *from = at + (bytes - n) / 2;
    CUarray array;
    CHECK(cuArrayCreate(&array, &shape));
    CUresult result = cuMemcpyHtoA(array, 0, from, n);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyAtoHAsync(from, array, 0, n, stream);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoA(array, 0, (CUdeviceptr)from, n);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyAtoD(device, array, 0, n);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuArrayDestroy(array));
    return result;
}

#if CUDA_VERSION >= 13000
static CUresult box_batch(char *at, size_t bytes)
{
    CUDA_MEMCPY3D_BATCH_OP box = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                                  .extent = {bytes / 2, 2, 1}};
    box.src =
        (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = (CUdeviceptr)at};
    box.dst = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = device};
    return cuMemcpy3DBatchAsync(1, &box, 0, stream);
}
#else
static CUresult box_batch(char *at, size_t bytes)
{
    return cuMemcpyHtoDAsync(device, at, bytes, stream);
}
#endif

static void copies_at(char *at, size_t bytes)
{
    CUdeviceptr range = (CUdeviceptr)at;
    CUDA_MEMCPY3D out = box(at, bytes, true), in = box(at, bytes, false);
    CUDA_MEMCPY3D_PEER peer = peers(at, bytes);
    CUDA_MEMCPY3D behind_one = rows(at, bytes);
    int turn = 0;
    TRY(cuMemcpyHtoD(device, at, bytes));
    TRY(cuMemcpyHtoDAsync(device, at, bytes, stream));
    TRY(cuMemcpyDtoH(at, device, bytes));
    TRY(cuMemcpyDtoHAsync(at, device, bytes, stream));
    TRY(cuMemcpy(device, range, bytes));
    TRY(cuMemcpyAsync(range, device, bytes, stream));
    TRY(cuMemcpyDtoD(range, device, bytes));
    TRY(cuMemcpyDtoDAsync(device, range, bytes, stream));
    TRY(cuMemcpyPeer(device, context, range, context, bytes));
    TRY(cuMemcpyPeer(device, context, range, NULL, bytes));
    TRY(cuMemcpyPeer(device, NULL, range, context, bytes));
    TRY(cuMemcpy3D(&out));
    TRY(cuMemcpy3DAsync(&in, stream));
    TRY(cuMemcpy3D(&behind_one));
    TRY(cuMemcpy3DPeer(&peer));
    TRY(cuMemcpy3DPeerAsync(&peer, stream));
    TRY(cuMemsetD8(range, 50, bytes));
    TRY(cuMemsetD32Async(range, 0x33333333, bytes / 4, stream));
    TRY(cuMemsetD2D8(range, bytes / 2, 52, bytes / 2, 2));
    TRY(captured(at, bytes));
    TRY(batch(at, bytes));
    TRY(box_batch(at, bytes));
    TRY(copy_node(at, bytes, true));
    TRY(copy_node(at, bytes, false));
    TRY(set_node(at, bytes));
    TRY(array_and_back(at, bytes));
    TRY(cuMemcpyHtoD(device, at, bytes + SIZE));
}

static void copies(void)
{
    start();
    copies_at(block + PART - ACROSS / 2, ACROSS);
    copies_at(block + PART - 4, 64);
    copies_at(block + 2 * PART - 8192, 64 << 10);
    copies_at(block + PART, ACROSS);
    end();
}

/* Batches over a border, as CUDA 12.8 has them: with an order for each copy, and with one that
 * fails. */
static void batches(void)
{
    CUresult (*call)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *,
                     size_t, size_t *, CUstream) = NULL;
    CUmemcpyAttributes each[3];
    size_t sizes[3] = {ACROSS / 4, ACROSS / 4, ACROSS / 4}, firsts[3] = {0, 1, 2}, failed;
    start();
    *(void **)&call = dlsym(RTLD_DEFAULT, "cuMemcpyBatchAsync");
    char *at = block + PART - ACROSS / 8;
    CUdeviceptr to[3] = {device, device + ACROSS / 4, device + ACROSS / 2};
    CUdeviceptr from[3] = {(CUdeviceptr)at, (CUdeviceptr)at, (CUdeviceptr)at};
    memset(each, 0, sizeof(each));
    for (int i = 0; i < 3; i++)
        each[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    for (int bad = 3; bad >= 0; bad--) {
        if (bad < 3)
            to[bad] = device + ACROSS - 4;
        failed = 77;
        SHOW(call(to, from, sizes, 3, each, firsts, 3, &failed, stream));
        if (bad < 3)
            printf("%zu\n", failed);
        SHOW(call(to, from, sizes, 3, each, firsts, 4, &failed, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    end();
}

/* The program writes the source again as soon as the call has returned. */
static void overwritten(void)
{
    start();
    char *at = block + PART - ACROSS / 2;
    size_t bytes = ACROSS;
    memset(at, 7, bytes);
    CUresult result = box_batch(at, bytes);
    if (CUDA_VERSION < 13000)
        CHECK(cuStreamSynchronize(stream));
    memset(at, 9, bytes);
    show_both("box_batch", result, at, bytes);
    end();
}

/* A node inside of a part is given a range over a border. */
static void changed(void)
{
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 1, .value = 3, .width = 64, .height = 1};
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode copies, sets;
    start();
    char *border = copied ? (char *)((uintptr_t)block / PART * PART + PART) : block + PART;
    CUDA_MEMCPY3D inside = box(block, 64, true), across = box(border - 32, 64, true);
    CHECK(cuGraphCreate(&graph, 0));
    set.dst = (CUdeviceptr)block;
    CHECK(cuGraphAddMemcpyNode(&copies, graph, NULL, 0, &inside, context));
    CHECK(cuGraphAddMemsetNode(&sets, graph, NULL, 0, &set, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    set.dst = (CUdeviceptr)border - 32;
    SHOW(cuGraphMemcpyNodeSetParams(copies, &across));
    SHOW(cuGraphMemsetNodeSetParams(sets, &set));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, copies, &across, context));
    SHOW(cuGraphExecMemsetNodeSetParams(exec, sets, &set, context));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    end();
}

/* A copy over all of the block, which has two borders. */
static void whole(void)
{
    CUdeviceptr all;
    start();
    CHECK(cuMemAlloc(&all, SIZE));
    for (size_t i = 0; i < SIZE; i += 4096)
        block[i] = (char)(i >> 20);
    CHECK(cuMemcpyHtoDAsync(all, block, SIZE, stream));
    CHECK(cuMemsetD8Async((CUdeviceptr)block, 0, SIZE, stream));
    CHECK(cuMemcpyDtoHAsync(block, all, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    bool right = true;
    for (size_t i = 0; i < SIZE; i += 4096)
        right = right && block[i] == (char)(i >> 20);
    printf("it is right: %d\n", right);
    fill((CUdeviceptr)block + PART - 4096, 9, 8192, stream);
    CHECK(cuStreamSynchronize(stream));
    printf("a kernel wrote over the border: %d\n", all_are(block + PART - 4096, 9, 8192));
    end();
}

/* Memory of the program's own that nobody has touched, and whether it is there once the driver was
 * asked. */
static void own(void)
{
    static unsigned char there[40 * MIB / 4096];
    size_t pages = 0;
    start();
    char *p = mmap(NULL, 40 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(cuMemHostRegister(p, 40 * MIB, 0));
    CHECK(mincore(p, 40 * MIB, there));
    for (size_t i = 0; i < sizeof(there); i++)
        pages += there[i] & 1;
    fprintf(stderr, "%zu pages\n", pages);
    SHOW(cuMemsetD8((CUdeviceptr)p, 5, 40 * MIB));
    SHOW(cuMemHostUnregister(p));
    printf("it was written: %d\n", all_are(p, 5, 40 * MIB));
    munmap(p, 40 * MIB);
    end();
}

/* Several blocks where a larger one was, of which libzc registers what the program asked for. */
static void smaller(void)
{
    enum { BYTES = 600 << 10, COUNT = 4 };
    char *one[COUNT];
    start_gpu(0);
    CHECK(cuMemHostAlloc((void **)&block, 2 * BYTES, 0));
    CHECK(cuMemFreeHost(block));
    for (int i = 0; i < COUNT; i++)
        CHECK(cuMemHostAlloc((void **)&one[i], BYTES, 0));
    for (int i = 0; i < COUNT; i++) {
        fill((CUdeviceptr)one[i], i, BYTES, NULL);
        SHOW(cuCtxSynchronize());
        printf("a kernel wrote all of it: %d\n", all_are(one[i], i, BYTES));
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(cuMemFreeHost(one[i]));
}

/* The same of a block of malloc's that the program registers. */
static void copied_whole(void)
{
    copied = true;
    behind = 0;
    whole();
}

static void copied_answers(void)
{
    copied = true;
    behind = 0;
    answers();
}

static void copied_copies(void)
{
    copied = true;
    behind = 0;
    copies();
}

static void copied_changed(void)
{
    copied = true;
    behind = 0;
    changed();
}

/* Neither end lies at the border of a part, or of a page. */
static void own_whole(void)
{
    behind = 5 * MIB + 4096 + 64;
    whole();
}

static bool over; /* Atomic. */

/* Forks for as long as the others work. */
static void *forks(void *arg)
{
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int status = 1;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        *(bool *)arg = *(bool *)arg && status == 0;
        usleep(5000);
    }
    return NULL;
}

static void on_timer(int number)
{
    (void)number;
}

/* Blocks come while signals arrive, another thread forks, nothing may be locked, and the program
 * has bound its memory to a node. */
static void disturbed(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    const struct rlimit none = {0, 0};
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    unsigned long node = 1, nodes = 0;
    bool children = true;
    int mode = 0;
    pthread_t thread;
    long bound = syscall(SYS_set_mempolicy, MPOL_BIND, &node, 8 * sizeof(node));
    CHECK(setrlimit(RLIMIT_MEMLOCK, &none));
    CHECK(sigaction(SIGALRM, &action, NULL));
    CHECK(pthread_create(&thread, NULL, forks, &children));
    CHECK(setitimer(ITIMER_REAL, &often, NULL));
    whole();
    CHECK(setitimer(ITIMER_REAL, &never, NULL));
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL));
    long asked = syscall(SYS_get_mempolicy, &mode, &nodes, 8 * sizeof(nodes), NULL, 0);
    printf("children ended well: %d, bound %ld, still %ld: %d to %lu\n", children, bound, asked,
           mode, nodes);
}

/* More than the host has left. */
static void too_much(void)
{
    struct rusage usage;
    size_t kib = 0;
    char line[100];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof(line), file) && sscanf(line, "MemAvailable: %zu", &kib) != 1)
        ;
    start_gpu(0);
    SHOW(cuMemHostAlloc((void **)&block, (kib << 10) + (size_t)1024 * MIB, 0));
    CHECK(getrusage(RUSAGE_SELF, &usage));
    printf("the process stayed small: %d\n", usage.ru_maxrss < 512 << 10);
}

static size_t resident(void)
{
    size_t all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%zu %zu", &all, &pages) != 2)
        exit(1);
    fclose(file);
    return pages * 4096;
}

static size_t mappings(void)
{
    size_t lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c = file ? getc(file) : EOF; c != EOF; c = getc(file))
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* Three more blocks while one is live, of each of which a part may be refused.  The simulated
 * driver's own have no pages until they are used. */
static void three_more(void)
{
    const size_t had = resident();
    size_t first = 0;
    start();
    for (size_t n = 0; n < 3; n++) {
        char *more;
        CHECK(cuMemHostAlloc((void **)&more, SIZE, 0));
        printf("zero: %d\n", all_are(more + PART - 4096, 0, 8192));
        copies_at(more + PART - ACROSS / 2, ACROSS);
        printf("resident is one: %d\n", resident() <= had + SIZE + 100 * MIB);
        SHOW(cuMemFreeHost(more));
        first = first ? first : mappings();
    }
    printf("mappings as behind the first: %d\n", mappings() == first);
    end();
}

/* The kernel has no huge pages for the process. */
static void no_huge_pages(void)
{
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    whole();
}

/* Nor threads; those of the simulated driver are there. */
static void no_threads(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
    pthread_t thread;
    start();
    CHECK(cuMemsetD8(device, 3, ACROSS));
    CHECK(cuCtxSynchronize());
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    CHECK(pthread_create(&thread, NULL, forks, NULL) != EAGAIN);
    CHECK(cuMemFreeHost(block));
    CHECK(cuMemHostAlloc((void **)&block, 2 * SIZE, 0));
    printf("zero: %d\n", all_are(block, 0, 2 * SIZE));
    CHECK(cuMemcpyDtoH(block + PART - ACROSS / 2, device, ACROSS));
    printf("copied: %d\n", all_are(block + PART - ACROSS / 2, 3, ACROSS));
    end();
}

/* The process may have no more addresses, and then some again. */
static void no_addresses(void)
{
    struct rlimit all, few;
    char *more = NULL;
    start();
    CHECK(getrlimit(RLIMIT_AS, &all));
    few = all;
    few.rlim_cur = SIZE;
    CHECK(setrlimit(RLIMIT_AS, &few));
    SHOW(cuMemHostAlloc((void **)&more, SIZE, 0));
    CHECK(setrlimit(RLIMIT_AS, &all));
    SHOW(cuMemHostAlloc((void **)&more, SIZE, 0));
    copies_at(more + PART - ACROSS / 2, ACROSS);
    SHOW(cuMemFreeHost(more));
    end();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"answers", answers},
                                          {"copies", copies},
                                          {"batches", batches},
                                          {"overwritten", overwritten},
                                          {"changed", changed},
                                          {"whole", whole},
                                          {"own", own},
                                          {"smaller", smaller},
                                          {"disturbed", disturbed},
                                          {"too_much", too_much},
                                          {"three_more", three_more},
                                          {"no_huge_pages", no_huge_pages},
                                          {"no_threads", no_threads},
                                          {"no_addresses", no_addresses},
                                          {"copied_answers", copied_answers},
                                          {"copied_copies", copied_copies},
                                          {"copied_changed", copied_changed},
                                          {"copied_whole", copied_whole},
                                          {"own_whole", own_whole}};
    return RUN_SCENARIO(all, argc, argv);
}
