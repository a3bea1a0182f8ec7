/* SPDX-License-Identifier: MIT */
/* The cost of a call among many blocks; argv[1] is their number.  A child makes them; its parent
 * then lets it request, copy, launch and free a few step by step, and prints how many instructions
 * libzc took for each, for a question about a pool after as many were destroyed, and for telling of
 * a kernel that failed before; with "deferred" among blocks that were freed.  With
 * "memory" it prints the bytes that libzc takes for itself for each block, with "staged" those that
 * copies of many sizes leave, with "time" how long requests and frees take among more and fewer
 * blocks.  MORE in the environment: bytes by which each block is larger. */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#if defined(__x86_64__) /* It steps through that processor's code. */

#define FEW 2 /* Calls of each kind that are counted. */

static const char *const phases[] = {"request", "copy", "launch", "free", "pool", "told"};

/* From one stop to the next the parent counts. */
static void stop(void)
{
    raise(SIGSTOP);
}

static size_t more_bytes(void)
{
    const char *more = getenv("MORE");
    return more ? strtoul(more, NULL, 10) : 0;
}

static size_t size_of_nth(size_t i)
{
    static const size_t sizes[] = {256, 4096, 100, 70000, 512, 20000, 1000, 8};
    return sizes[i % (sizeof(sizes) / sizeof(sizes[0]))] + more_bytes();
}

/* Calls among many blocks of as many sizes that were freed in the order of a stream, which waits.
 */
static void after_frees(size_t count)
{
    static struct gate gate;
    char byte[8] = {0};
    CUdeviceptr more[FEW + 1], *all = calloc(count, sizeof(*all));
    size_t size = 8192 + more_bytes();
    CUstream stream;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemAlloc(&all[i], size + 512 * i));
    fill(all[0], 1, 8, NULL); /* Does all that waits for the first launch. */
    gate_close(&gate, stream);
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemFreeAsync(all[i], stream));
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1) /* The first does what only a first one does. */
            stop();
        CHECK(cuMemAlloc(&more[i], 4096));
    }
    stop();
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        CHECK(cuMemcpyHtoD(more[i], byte, sizeof(byte)));
    }
    stop();
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        fill(more[i], 1, 8, NULL);
    }
    stop();
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        CHECK(cuMemFreeAsync(more[i], NULL));
    }
    stop();
    _exit(0);
}

/* Makes pools with a block each, and then destroys them. */
static void destroy_pools(size_t count)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool *pools = calloc(count, sizeof(*pools));
    CUdeviceptr block;
    for (size_t i = 0; i < count; i++) {
        CHECK(cuMemPoolCreate(&pools[i], &props));
        CHECK(cuMemAllocFromPoolAsync(&block, 4096, pools[i], NULL));
        CHECK(cuMemFreeAsync(block, NULL));
    }
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemPoolDestroy(pools[i]));
    EXPECT(cuMemAllocFromPoolAsync(&block, 4096, pools[0], NULL) == CUDA_ERROR_INVALID_VALUE);
}

/* The calls that are counted come after one from the same place in the code, which alone finds its
 * call path. */
static void child(size_t count)
{
    char byte[8] = {0};
    CUmemoryPool pool;
    cuuint64_t used;
    CUdeviceptr more[FEW + 1], *all = calloc(count, sizeof(*all));
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    start_gpu(0);
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemAlloc(&all[i], size_of_nth(i)));
    fill(all[0], 1, 8, NULL); /* Does all that waits for the first launch. */
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        CHECK(cuMemAlloc(&more[i], 4096 + more_bytes()));
    }
    stop();
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        CHECK(cuMemcpyHtoD(all[i], byte, sizeof(byte)));
    }
    stop();
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        fill(more[i], 1, 8, NULL);
    }
    stop();
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        CHECK(cuMemFree(all[i]));
        CHECK(cuMemFree(more[i]));
    }
    stop();
    destroy_pools(count);
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    for (size_t i = 0; i <= FEW; i++) {
        if (i == 1)
            stop();
        CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    }
    stop();
    sim_fail("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS, 0);
    EXPECT(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    stop();
    for (size_t i = 0; i < FEW; i++)
        EXPECT(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    stop();
    _exit(0);
}

/* Makes a fifth of the blocks, and the others between two stops. */
static void grow(size_t count)
{
    CUdeviceptr block;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    start_gpu(0);
    for (size_t i = 0; i < count; i++) {
        if (i == count / 5)
            stop();
        CHECK(cuMemAlloc(&block, size_of_nth(i)));
    }
    stop();
    _exit(0);
}

static size_t own_pages(void)
{
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    EXPECT(statm && fscanf(statm, "%zu", &pages) == 1);
    fclose(statm);
    return pages;
}

/* `count` times some copies from pageable memory that have to wait for their stream, the first time
 * of the most bytes.  Prints by how many bytes the process grows after that. */
static int staged(size_t count)
{
    const size_t most = (size_t)1 << 20;
    char *from = calloc(1, most);
    size_t pages = 0;
    struct gate gate;
    CUdeviceptr to;
    CUstream stream;
    start_gpu(0);
    CHECK(cuMemAlloc(&to, most));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < count; i++) {
        gate_close(&gate, stream);
        for (int waiting = 0; waiting < 8; waiting++)
            CHECK(cuMemcpyHtoDAsync(to, from, most - i * (most / count), stream));
        gate_open(&gate);
        CHECK(cuStreamSynchronize(stream));
        pages = i == 0 ? own_pages() : pages;
    }
    printf("%ld\n", ((long)own_pages() - (long)pages) * sysconf(_SC_PAGESIZE));
    return 0;
}

/* Finds libzc's code in a process. */
static void find_code(pid_t pid, unsigned long long *from, unsigned long long *to)
{
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long long low, high;
        char rights[8];
        if (strstr(line, "/libzc.so") && sscanf(line, "%llx-%llx %7s", &low, &high, rights) == 3 &&
            rights[2] == 'x') {
            *from = low;
            *to = high;
        }
    }
    if (maps)
        fclose(maps);
}

static bool stopped(pid_t pid, int *status)
{
    EXPECT(waitpid(pid, status, 0) == pid);
    EXPECT(WIFSTOPPED(*status));
    return WSTOPSIG(*status) == SIGSTOP;
}

static void to_stop(pid_t pid)
{
    int status;
    while (!stopped(pid, &status))
        EXPECT(ptrace(PTRACE_CONT, pid, NULL, (void *)(long)WSTOPSIG(status)) == 0);
}

/* Lets a function that libzc has called run to its end, uncounted.  False if a signal came first.
 */
static bool run_to(pid_t pid, unsigned long long address, int *status)
{
    const long trap = 0xcc;
    long word = ptrace(PTRACE_PEEKTEXT, pid, (void *)address, NULL);
    struct user_regs_struct now;
    EXPECT(ptrace(PTRACE_POKETEXT, pid, (void *)address, (void *)((word & ~0xffl) | trap)) == 0);
    EXPECT(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
    stopped(pid, status);
    EXPECT(ptrace(PTRACE_POKETEXT, pid, (void *)address, (void *)word) == 0);
    EXPECT(ptrace(PTRACE_GETREGS, pid, NULL, &now) == 0);
    if (now.rip != address + 1)
        return false;
    now.rip = address;
    EXPECT(ptrace(PTRACE_SETREGS, pid, NULL, &now) == 0);
    return true;
}

/* Lets the child run to its next stop, uncounted. */
static void go_on(pid_t pid)
{
    EXPECT(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
    to_stop(pid);
}

/* Steps the child to its next stop, and returns how many steps were libzc's. */
static size_t count_steps(pid_t pid, unsigned long long from, unsigned long long to)
{
    struct user_regs_struct now, last = {0};
    size_t count = 0;
    int status = 0;
    for (bool on = true; on;) {
        EXPECT(ptrace(PTRACE_GETREGS, pid, NULL, &now) == 0);
        bool inside = now.rip >= from && now.rip < to;
        bool left = !inside && last.rip >= from && last.rip < to && now.rsp <= last.rsp;
        last = now;
        count += inside;
        if (left) {
            long back = ptrace(PTRACE_PEEKDATA, pid, (void *)now.rsp, NULL);
            EXPECT(run_to(pid, (unsigned long long)back, &status));
            continue;
        }
        EXPECT(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0);
        on = !stopped(pid, &status);
        EXPECT(!on || WSTOPSIG(status) == SIGTRAP);
    }
    return count;
}

/* Lets the child make its blocks and counts the bytes that libzc's arena maps meanwhile.  It maps
 * by syscall(2), whose caller's address is on top of the stack then. */
static size_t count_mapped(pid_t pid, unsigned long long from, unsigned long long to)
{
    struct user_regs_struct now;
    unsigned long long call = (unsigned long long)(uintptr_t)syscall;
    size_t bytes = 0;
    int status;
    for (bool entry = true;; entry = !entry) {
        EXPECT(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
        if (stopped(pid, &status))
            return bytes;
        EXPECT(WSTOPSIG(status) == (SIGTRAP | 0x80));
        EXPECT(ptrace(PTRACE_GETREGS, pid, NULL, &now) == 0);
        if (!entry || now.orig_rax != SYS_mmap || now.rip < call || now.rip > call + 64)
            continue;
        unsigned long long back =
            (unsigned long long)ptrace(PTRACE_PEEKDATA, pid, (void *)now.rsp, NULL);
        bytes += back >= from && back < to ? now.rsi : 0;
    }
}

/* Prints the bytes of libzc's own for each of the later blocks. */
static int memory(size_t count)
{
    unsigned long long from = 0, to = 0;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        grow(count);
    to_stop(pid);
    find_code(pid, &from, &to);
    EXPECT(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD) == 0);
    printf("%zu\n", count_mapped(pid, from, to) / (count - count / 5));
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 0;
}

/* Prints how long each 1,000 of `calls` calls took since *then. */
static void say_time(const char *what, size_t blocks, size_t calls, struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double ms =
        (double)(now.tv_sec - then->tv_sec) * 1e3 + (double)(now.tv_nsec - then->tv_nsec) / 1e6;
    printf("%s at %zu blocks: %.2f ms for 1,000\n", what, blocks, ms * 1e3 / (double)calls);
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, then);
}

/* Asks for many blocks and frees them in another order, and says how long a thousand took in
 * each quarter. */
static int timed(size_t count)
{
    CUdeviceptr *all = calloc(count, sizeof(*all));
    struct timespec then;
    start_gpu(0);
    clock_gettime(CLOCK_MONOTONIC, &then);
    for (size_t i = 0; i < count; i++) {
        CHECK(cuMemAlloc(&all[i], 8 + i % 500 + more_bytes()));
        if ((i + 1) % (count / 4) == 0)
            say_time("request", i + 1, count / 4, &then);
    }
    for (size_t i = 0; i + 1 < count; i++) {
        size_t other = i + ((size_t)rand() << 16 ^ (size_t)rand()) % (count - i);
        CUdeviceptr block = all[i];
        all[i] = all[other];
        all[other] = block;
    }
    clock_gettime(CLOCK_MONOTONIC, &then);
    for (size_t i = 0; i < count; i++) {
        CHECK(cuMemFree(all[i]));
        if ((i + 1) % (count / 4) == 0)
            say_time("free", count - i - 1, count / 4, &then);
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long long from = 0, to = 0;
    int status;
    EXPECT(argc > 1);
    if (argc > 2 && strcmp(argv[2], "memory") == 0)
        return memory((size_t)atol(argv[1]));
    if (argc > 2 && strcmp(argv[2], "staged") == 0)
        return staged((size_t)atol(argv[1]));
    if (argc > 2 && strcmp(argv[2], "time") == 0)
        return timed((size_t)atol(argv[1]));
    pid_t pid = fork();
    if (pid == 0 && argc > 2)
        after_frees((size_t)atol(argv[1]));
    if (pid == 0)
        child((size_t)atol(argv[1]));
    to_stop(pid);
    find_code(pid, &from, &to);
    for (size_t i = 0; i < (argc > 2 ? 4 : sizeof(phases) / sizeof(phases[0])); i++) {
        if (i > 0) /* The first ones are not counted. */
            go_on(pid);
        printf("%s %zu\n", phases[i], count_steps(pid, from, to));
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 0;
}

#else

int main(void)
{
    return 77;
}

#endif
