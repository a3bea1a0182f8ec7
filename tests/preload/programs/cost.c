/* SPDX-License-Identifier: MIT */
/*
 * cost [NAME]: counts the instructions, the system calls and the driver's calls of calls, or of
 * those with names that begin so, one by one: a child makes them, and its parent steps it through
 * each. What the program, the driver and the kernel's vDSO do is not counted, so that what is left
 * of a driver's call is libzc's and takes no time into account.  Prints
 * "call<tab>instructions<tab>system calls<tab>driver's calls", the least of some rounds.  Exit
 * status 77 where nobody may step.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "program.h"

#define WARM 80  /* Rounds before the first that counts: tables grow, and names are bound. */
#define ROUNDS 5 /* Rounds that count. */
#define SKIPPED 77
#define LARGE ((size_t)16 << 20)

typedef struct user_regs_struct registers;

/* The instruction for a debugger, the one for the kernel, and the processor's registers. */
#if defined(__x86_64__)
#define MARK() __asm__ volatile("int3" ::: "memory")
#define MARK_CODE 0xccul
#define MARK_MASK 0xfful
#define MARK_PASSED 1 /* The processor stands here when it has met a mark. */
#define SYSTEM_CALL_CODE 0x050ful
#define SYSTEM_CALL_MASK 0xfffful
#define PC(r) ((r)->rip)
#define SP(r) ((r)->rsp)
#define RETURN_OF(child, r) text_at(child, (r)->rsp) /* Of a function that is about to begin. */
#elif defined(__aarch64__)
#define MARK() __asm__ volatile("brk #0" ::: "memory")
#define MARK_CODE 0xd4200000ul
#define MARK_MASK 0xfffffffful
#define MARK_PASSED 0
#define SYSTEM_CALL_CODE 0xd4000001ul
#define SYSTEM_CALL_MASK 0xfffffffful
#define PC(r) ((r)->pc)
#define SP(r) ((r)->sp)
#define RETURN_OF(child, r) ((r)->regs[30])
#endif
#define MARK_BYTES (MARK_MASK == 0xff ? 1u : 4u)

/* The calls. */

static CUdeviceptr device, small, near, far;
static CUstream stream;
static CUfunction kernel;
static void *pinned, *block, *large, *table, *taken;

static void nothing(void)
{
}

static void settle(void)
{
    CHECK(cuStreamSynchronize(stream));
}

#define COPIES(name, memory)                                                                       \
    static void in_##name(void)                                                                    \
    {                                                                                              \
        CHECK(cuMemcpyHtoD(device, memory, 8));                                                    \
    }                                                                                              \
    static void out_##name(void)                                                                   \
    {                                                                                              \
        CHECK(cuMemcpyDtoH(memory, device, 8));                                                    \
    }                                                                                              \
    static void in_later_##name(void)                                                              \
    {                                                                                              \
        CHECK(cuMemcpyHtoDAsync(device, memory, 8, stream));                                       \
    }                                                                                              \
    static void out_later_##name(void)                                                             \
    {                                                                                              \
        CHECK(cuMemcpyDtoHAsync(memory, device, 8, stream));                                       \
    }

/* Memory of the stack that lives as long as the copy. */
static char *stack;
COPIES(stack, stack)
COPIES(malloc, block)
COPIES(large, large)
COPIES(pinned, pinned)

static void within(void)
{
    CHECK(cuMemcpyDtoD(device, device + 2048, 8));
}

static void set(void)
{
    CHECK(cuMemsetD8(device, 1, 8));
}

static void set_later(void)
{
    CHECK(cuMemsetD8Async(device, 1, 8, stream));
}

static void launch_with(CUdeviceptr p)
{
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&p, &p, &p, &(int){0}},
                         NULL));
}

static void launch(void)
{
    launch_with(device);
}

static void launch_large(void)
{
    launch_with(near);
}

/* In a context that has nothing but its primary stream. */
static CUcontext beside;

static void enter_beside(void)
{
    CHECK(cuCtxPushCurrent(beside));
}

static void launch_beside(void)
{
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
                         (void *[]){&device, &device, &device, &(int){0}}, NULL));
}

static void leave_beside(void)
{
    CUcontext left;
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxPopCurrent(&left));
}

static void type_of(CUdeviceptr address)
{
    unsigned type;
    (void)cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

static void ask_device(void)
{
    type_of(device);
}

static void ask_host(void)
{
    type_of((CUdeviceptr)block);
}

static void take_small(void)
{
    CHECK(cuMemAlloc(&small, 4096));
}

static void give_small(void)
{
    CHECK(cuMemFree(small));
}

static void take(size_t n)
{
    taken = malloc(n);
    __asm__ volatile("" ::"r"(taken) : "memory");
}

static void take_100(void)
{
    take(100);
}

static void take_mib(void)
{
    take((size_t)1 << 20);
}

static void take_large(void)
{
    take(LARGE);
}

static void give(void)
{
    free(taken);
}

static void map(void)
{
    taken = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(taken != MAP_FAILED);
}

static void unmap(void)
{
    EXPECT(munmap(taken, 4096) == 0);
}

#define COPY_ROWS(name)                                                                            \
    {"HtoD " #name, nothing, in_##name, nothing}, {"DtoH " #name, nothing, out_##name, nothing},   \
        {"HtoDAsync " #name, nothing, in_later_##name, settle},                                    \
    {                                                                                              \
        "DtoHAsync " #name, nothing, out_later_##name, settle                                      \
    }

static const struct {
    const char *name;
    void (*before)(void), (*counted)(void), (*after)(void);
} calls[] = {
    COPY_ROWS(stack),
    COPY_ROWS(malloc),
    COPY_ROWS(large),
    COPY_ROWS(pinned),
    {"DtoD", nothing, within, nothing},
    {"Memset", nothing, set, nothing},
    {"MemsetAsync", nothing, set_later, settle},
    {"Launch", nothing, launch, settle},
    {"Launch 16 MiB", nothing, launch_large, settle},
    {"Launch in another context", enter_beside, launch_beside, leave_beside},
    {"attribute of device memory", nothing, ask_device, nothing},
    {"attribute of host memory", nothing, ask_host, nothing},
    {"cuMemAlloc 4 KiB", nothing, take_small, give_small},
    {"cuMemFree 4 KiB", take_small, give_small, nothing},
    {"malloc 100 B", nothing, take_100, give},
    {"free 100 B", take_100, give, nothing},
    {"malloc 1 MiB", nothing, take_mib, give},
    {"malloc 16 MiB", nothing, take_large, give},
    {"free 1 MiB", take_mib, give, nothing},
    {"free 16 MiB", take_large, give, nothing},
    {"mmap", nothing, map, unmap},
    {"munmap", map, unmap, nothing},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static const char *counted_names = "";

static bool is_counted(size_t i)
{
    return !strncmp(calls[i].name, counted_names, strlen(counted_names));
}

static void make_calls(void)
{
    char here[64] = {0};
    CUmodule module;
    stack = here;
    start_gpu(0);
    beside = another_context();
    CHECK(cuCtxPopCurrent(&beside));
    CHECK(cuModuleLoadData(&module, ""));
    CHECK(cuModuleGetFunction(&kernel, module, "saxpy"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&device, 4096));
    CHECK(cuMemAllocHost(&pinned, 4096));
    block = calloc(1, 100);
    large = calloc(1, LARGE);
    CHECK(cuMemAlloc(&near, LARGE));
    CHECK(cuMemAlloc(&far, LARGE));
    CHECK(cuMemcpyHtoD(near, table = calloc(1, LARGE), LARGE));
    for (size_t i = 0; i < CALLS; i++)
        for (int round = 0; is_counted(i) && round < WARM + ROUNDS; round++) {
            calls[i].before();
            if (round < WARM) {
                calls[i].counted();
            } else {
                MARK();
                calls[i].counted();
                MARK();
            }
            calls[i].after();
        }
}

/* The parent, which sees the child's addresses because it has forked it. */

struct range {
    uintptr_t low, high;
};
static struct range program, driver, vdso;

static struct range range_of(const struct dl_phdr_info *info)
{
    struct range r = {UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        r.low = start < r.low ? start : r.low;
        r.high = start + segment->p_memsz > r.high ? start + segment->p_memsz : r.high;
    }
    return r;
}

static int find_range(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    (void)bytes, (void)arg;
    if (!*info->dlpi_name)
        program = range_of(info);
    else if (strstr(info->dlpi_name, "libcuda.so"))
        driver = range_of(info);
    else if (strstr(info->dlpi_name, "linux-vdso"))
        vdso = range_of(info);
    return 0;
}

static bool in(const struct range *r, uintptr_t address)
{
    return address >= r->low && address < r->high;
}

static unsigned long text_at(pid_t child, uintptr_t address)
{
    errno = 0;
    long text = ptrace(PTRACE_PEEKTEXT, child, address, NULL);
    EXPECT(errno == 0);
    return (unsigned long)text;
}

static void set_text(pid_t child, uintptr_t address, unsigned long text)
{
    EXPECT(ptrace(PTRACE_POKETEXT, child, address, text) == 0);
}

static registers registers_of(pid_t child)
{
    registers r;
    struct iovec all = {&r, sizeof(r)};
    EXPECT(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all) == 0);
    return r;
}

static void set_pc(pid_t child, uintptr_t pc)
{
    registers r = registers_of(child);
    PC(&r) = pc;
    EXPECT(ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &(struct iovec){&r, sizeof(r)}) == 0);
}

/* Waits for the child's next stop, and returns its signal; 0 when the child has ended as it
 * should. */
static int stop_of(pid_t child)
{
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        exit(SKIPPED);
    EXPECT(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

/* Lets the child run to its next mark; false when it ends before. */
static bool run_to_mark(pid_t child)
{
    int signal = 0;
    do {
        EXPECT(ptrace(PTRACE_CONT, child, NULL, signal) == 0);
        signal = stop_of(child);
    } while (signal && signal != SIGTRAP);
    return signal;
}

/* Lets the child run until the function that it is about to enter has returned. */
static void pass(pid_t child, const registers *r)
{
    uintptr_t back = RETURN_OF(child, r);
    unsigned long text = text_at(child, back);
    set_text(child, back, (text & ~MARK_MASK) | MARK_CODE);
    EXPECT(run_to_mark(child));
    set_text(child, back, text);
    set_pc(child, back);
}

struct counts {
    unsigned long instructions, system_calls, drivers;
};

/* Steps the child from one mark, which it has met, to the next. */
static struct counts count(pid_t child)
{
    struct counts n = {0};
    registers r = registers_of(child);
    set_pc(child, PC(&r) - MARK_PASSED + MARK_BYTES);
    for (;;) {
        r = registers_of(child);
        unsigned long text = text_at(child, PC(&r));
        if ((text & MARK_MASK) == MARK_CODE)
            break;
        if (in(&driver, PC(&r))) {
            n.drivers++;
            pass(child, &r);
            continue;
        }
        if (!in(&program, PC(&r)) && !in(&vdso, PC(&r))) {
            n.instructions++;
            n.system_calls += (text & SYSTEM_CALL_MASK) == SYSTEM_CALL_CODE;
        }
        EXPECT(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 && stop_of(child) == SIGTRAP);
    }
    set_pc(child, PC(&r) + MARK_BYTES);
    return n;
}

static void watch(pid_t child)
{
    struct counts n, least = {0};
    EXPECT(stop_of(child) == SIGSTOP);
    for (size_t i = 0; i < CALLS; i++)
        for (unsigned round = 0; is_counted(i) && round < ROUNDS; round++) {
            EXPECT(run_to_mark(child));
            n = count(child);
            if (round == 0 || n.instructions < least.instructions)
                least = n;
            if (round == ROUNDS - 1)
                printf("%s\t%lu\t%lu\t%lu\n", calls[i].name, least.instructions, least.system_calls,
                       least.drivers);
        }
    EXPECT(!run_to_mark(child));
}

int main(int argc, char **argv)
{
    counted_names = argc > 1 ? argv[1] : counted_names;
    dl_iterate_phdr(find_range, NULL);
    EXPECT(driver.high && program.high);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(SKIPPED);
        raise(SIGSTOP);
        make_calls();
        _exit(0);
    }
    watch(child);
    return 0;
}
