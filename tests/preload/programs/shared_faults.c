/* SPDX-License-Identifier: MIT */
/* Uses of host blocks of pairs by the CPU without a call of CUDA's: reading, writing, signals,
 * system calls, threads. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "shared_scene.h"

static sigjmp_buf way_out;
static char *guard;
static volatile sig_atomic_t caught;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    caught = sig == SIGSEGV && info->si_addr == guard + 5 ? caught + 1 : -100;
    siglongjmp(way_out, 1);
}

static void install(void)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO};
    act.sa_sigaction = on_fault;
    CHECK(sigaction(SIGSEGV, &act, NULL));
}

static void fault_of_its_own(void)
{
    if (!sigsetjmp(way_out, 1))
        *(volatile char *)(guard + 5) = 1;
}

static void handlers(bool before)
{
    guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (before)
        install();
    struct pair p = filled_pair(SIZE, 1);
    if (!before)
        install();
    fault_of_its_own();
    write_all(p, SIZE, 1, 2);
    fault_of_its_own();
    write_all(p, SIZE, 2, 3);
    printf("caught %d\n", (int)caught);
    give_back(p);
}

static void handler_before(void)
{
    handlers(true);
}

static void handler_after(void)
{
    handlers(false);
}

/* The handler of another signal writes to a shared page, in the middle of the program. */
static unsigned char *touched;

static void on_usr1(int sig)
{
    (void)sig;
    touched[UNIT + 9] = 77;
}

static void inside_a_handler(void)
{
    struct pair p = filled_pair(SIZE, 1);
    touched = p.h;
    signal(SIGUSR1, on_usr1);
    raise(SIGUSR1);
    EXPECT(p.h[UNIT + 9] == 77 && copy_sees(p.d, 0, SIZE, 1));
    give_back(p);
}

static void replaced(void)
{
    struct pair p = filled_pair(SIZE, 1);
    signal(SIGSEGV, SIG_DFL);
    write_all(p, SIZE, 1, 2);
    signal(SIGSEGV, SIG_IGN);
    write_all(p, SIZE, 2, 3);
    give_back(p);
}

static CUcontext context;

static void *write_blocked(void *arg)
{
    sigset_t all;
    CHECK(cuCtxSetCurrent(context));
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL));
    write_all(*(struct pair *)arg, SIZE, 1, 2);
    return NULL;
}

static void blocked(void)
{
    struct pair p = filled_pair(SIZE, 1);
    pthread_t thread;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(pthread_create(&thread, NULL, write_blocked, &p));
    CHECK(pthread_join(thread, NULL));
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    write_blocked(&p);
    give_back(p);
}

/* A thread that blocked everything before there was a pair, and is told when there is one. */
static pthread_barrier_t there;

static void *write_half(void *arg)
{
    struct pair *p = arg;
    sigset_t all, now;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL));
    pthread_barrier_wait(&there);
    pthread_barrier_wait(&there);
    paint_part(p->h, SIZE / 2, SIZE / 2, 2);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now));
    EXPECT(sigismember(&now, SIGSEGV) == 1);
    return NULL;
}

static void blocked_before(void)
{
    struct pair p;
    pthread_t thread;
    sigset_t one;
    CHECK(pthread_barrier_init(&there, NULL, 2));
    CHECK(pthread_create(&thread, NULL, write_half, &p));
    sigemptyset(&one);
    sigaddset(&one, SIGSEGV);
    CHECK(sigprocmask(SIG_BLOCK, &one, NULL));
    pthread_barrier_wait(&there);
    p = filled_pair(SIZE, 1);
    pthread_barrier_wait(&there);
    paint_part(p.h, 0, SIZE / 2, 2);
    CHECK(pthread_join(thread, NULL));
    EXPECT(shows(p.h, SIZE, 2) && copy_sees(p.d, 0, SIZE, 1));
    give_back(p);
}

/* The program's handler, in a thread of its own stack, makes its fault good and writes to the pair,
 * all signals blocked. */
static void on_fault_in_thread(int sig, siginfo_t *info, void *unused)
{
    (void)sig;
    (void)unused;
    caught = info->si_addr == guard + 5 ? caught + 1 : -100;
    paint_part(touched, UNIT, UNIT, 2);
    mprotect(guard, 4096, PROT_READ | PROT_WRITE);
}

static void *fault_in_thread(void *unused)
{
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
    CHECK(sigaltstack(&stack, NULL));
    *(volatile char *)(guard + 5) = 1;
    return unused;
}

static void handler_in_thread(void)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct pair p = filled_pair(SIZE, 1);
    pthread_t thread;
    guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touched = p.h;
    act.sa_sigaction = on_fault_in_thread;
    sigfillset(&act.sa_mask);
    CHECK(sigaction(SIGSEGV, &act, NULL));
    CHECK(pthread_create(&thread, NULL, fault_in_thread, NULL));
    paint_part(p.h, 0, UNIT, 2);
    paint_part(p.h, 2 * UNIT, SIZE - 2 * UNIT, 2);
    CHECK(pthread_join(thread, NULL));
    EXPECT(shows(p.h, SIZE, 2) && copy_sees(p.d, 0, SIZE, 1));
    printf("caught %d, guard %d\n", (int)caught, guard[5]);
    give_back(p);
}

#define THREADS 8
#define WIDE (16 * MIB)

struct part {
    struct pair p;
    unsigned me;
};

/* Each thread writes every eighth byte, so that all of them write all pages at once. */
static void *write_part(void *arg)
{
    struct part *part = arg;
    for (size_t i = part->me; i < WIDE; i += THREADS)
        part->p.h[i] = pattern(i, 2);
    return NULL;
}

static void threads(void)
{
    struct pair p = filled_pair(WIDE, 1);
    pthread_t thread[THREADS];
    struct part part[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        part[i] = (struct part){p, i};
        CHECK(pthread_create(&thread[i], NULL, write_part, &part[i]));
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL));
    EXPECT(shows(p.h, WIDE, 2) && copy_sees(p.d, 0, WIDE, 1));
    give_back(p);
}

/* A kernel writes what it was said to read only. */
static void written_by_kernel(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CHECK(try_kernel(PAINT, p.d, 0, SIZE, 2, NULL, NULL));
    SHOW(cuCtxSynchronize());
    EXPECT(shows(p.h, SIZE, 1));
}

/* Programs that wait for nothing between launches see the error there first. */
static void told_by_launch(void)
{
    static int shown, *result = &shown;
    struct pair p = filled_pair(SIZE, 1);
    size_t from = 0, n = 1;
    unsigned seed = 1;
    void *args[] = {&p.d, &from, &n, &seed, &result};
    CUfunction shows = kernel_of(SHOWS); /* It could not be loaded after the error. */
    CUresult code = CUDA_SUCCESS;
    CHECK(try_kernel(PAINT, p.d, 0, SIZE, 2, NULL, NULL));
    for (int i = 0; i < 10000 && code == CUDA_SUCCESS; i++, usleep(1000))
        code = cuLaunchKernel(shows, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    printf("launch -> %d\n", (int)code);
}

static void no_huge_pages(void)
{
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    struct pair p = filled_pair(SIZE, 1);
    write_all(p, SIZE, 1, 2);
    put(p.d, SIZE, 3);
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    EXPECT(shows(p.h, SIZE, 3));
    give_back(p);
}

enum { ROOM = 200000 };

/* Leaves nearly no mappings to part pages with, until its result is unmapped. */
static char *take_mappings(void)
{
    char *room = mmap(NULL, (size_t)ROOM * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t taken = 0;
    while (taken < ROOM && mprotect(room + taken * 4096, 4096, PROT_READ) == 0)
        taken += 2;
    TELL("mappings %zu\n", taken);
    mprotect(room, (size_t)8 * 4096, PROT_READ);
    return room;
}

/* A set that finds no mapping to part its page with is refused, and the host block stays. */
static void few_mappings_set(void)
{
    struct pair p = filled_pair(16 * MIB, 1);
    unsigned refused = 0;
    char *room = take_mappings();
    for (size_t at = UNIT; at < 16 * MIB; at += 2 * UNIT)
        refused += cuMemsetD8(p.d + at, 9, 1) != CUDA_SUCCESS;
    munmap(room, (size_t)ROOM * 4096);
    TELL("refused sets %u\n", refused);
    EXPECT(shows(p.h, 16 * MIB, 1));
    give_back(p);
}

/* Every second page is written, the first of them by the kernel. */
static void few_mappings(void)
{
    struct pair p = filled_pair(16 * MIB, 1);
    int file = memfd_create("file", 0);
    EXPECT(pwrite(file, p.h, UNIT, 0) == (ssize_t)UNIT);
    char *room = take_mappings();
    EXPECT(pread(file, p.h, UNIT, 0) == (ssize_t)UNIT);
    for (size_t at = UNIT; at < 16 * MIB; at += 2 * UNIT)
        p.h[at] ^= 1;
    munmap(room, (size_t)ROOM * 4096);
    for (size_t at = UNIT; at < 16 * MIB; at += 2 * UNIT)
        p.h[at] ^= 1;
    EXPECT(shows(p.h, 16 * MIB, 1) && copy_sees(p.d, 0, 16 * MIB, 1));
    give_back(p);
}

static void roundtrip(void)
{
    struct pair p = filled_pair(SIZE, 1);
    write_all(p, SIZE, 1, 2);
    give_back(p);
}

/* ROOM_MIB MiB of addresses are left when the first block is asked for. */
static void few_addresses(void)
{
    struct rlimit limit;
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    EXPECT(statm && fscanf(statm, "%zu", &pages) == 1);
    CHECK(getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = pages * 4096 + strtoul(getenv("ROOM_MIB"), NULL, 10) * MIB;
    CHECK(setrlimit(RLIMIT_AS, &limit));
    roundtrip();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"handler_before", handler_before},
        {"handler_after", handler_after},
        {"inside_a_handler", inside_a_handler},
        {"replaced", replaced},
        {"blocked", blocked},
        {"blocked_before", blocked_before},
        {"handler_in_thread", handler_in_thread},
        {"threads", threads},
        {"written_by_kernel", written_by_kernel},
        {"told_by_launch", told_by_launch},
        {"no_huge_pages", no_huge_pages},
        {"few_mappings", few_mappings},
        {"few_mappings_set", few_mappings_set},
        {"roundtrip", roundtrip},
        {"few_addresses", few_addresses},
    };
    return RUN_SCENES(all, argc, argv);
}
