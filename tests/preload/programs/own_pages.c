/* SPDX-License-Identifier: MIT */
/* Changes of programs to the pages of their own host blocks: give them back, put others there, move
 * them, take rights from them and catch the faults. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "shared_scene.h"

#define PAGE ((size_t)4096)

/* A host block that begins with a page, bare as well. */
static unsigned char *aligned_block(size_t n)
{
    void *p = NULL;
    EXPECT(posix_memalign(&p, PAGE, n) == 0);
    return p;
}

static struct pair aligned_pair(size_t n)
{
    struct pair p = {aligned_block(n), 0};
    p.d = device_block(n);
    return p;
}

static struct pair copied_pair(size_t n, unsigned seed)
{
    struct pair p = aligned_pair(n);
    paint(p.h, n, seed);
    CHECK(cuMemcpyHtoD(p.d, p.h, n));
    return p;
}

static uint64_t sum_of(const unsigned char *p, size_t n)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < n; i += sizeof(sum)) {
        uint64_t word = 0;
        memcpy(&word, p + i, n - i < sizeof(word) ? n - i : sizeof(word));
        sum = (sum ^ word) * 1099511628211u;
        sum ^= sum >> 32;
    }
    return sum;
}

static unsigned char seen[SIZE];

/* Prints what h has, and what d gets of it by a copy. */
static void show(const char *what, struct pair p)
{
    printf("%s: h %016lx", what, sum_of(p.h, SIZE));
    CHECK(cuMemcpyDtoH(seen, p.d, SIZE));
    printf(", d %016lx", sum_of(seen, SIZE));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuMemcpyDtoH(seen, p.d, SIZE));
    printf(", copied %016lx\n", sum_of(seen, SIZE));
}

/* Blocks of the same size again: nothing of what was done is left on them. */
static void again(void)
{
    for (int i = 0; i < 3; i++) {
        struct pair p = copied_pair(SIZE, 5);
        show("again", p);
        write_all(p, SIZE, 5, 6);
        give_back(p);
    }
}

/* A few pages, a unit of libzc's, and pages on both sides of its border. */
static const struct {
    size_t from, n;
} ranges[] = {{16 * PAGE, 3 * PAGE}, {UNIT, UNIT}, {2 * UNIT - PAGE, 9 * PAGE}};

static void each_range(unsigned char *h, void (*act)(unsigned char *at, size_t n))
{
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        act(h + ranges[i].from, ranges[i].n);
}

static void discard(unsigned char *at, size_t n)
{
    CHECK(madvise(at, n, MADV_DONTNEED));
}

static void discarded(void)
{
    struct pair p = aligned_pair(SIZE);
    paint(p.h, SIZE, 1);
    each_range(p.h, discard); /* Before the first copy, */
    paint_part(p.h, UNIT, 100, 2);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    show("before", p);
    paint(p.h, SIZE, 3);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    each_range(p.h, discard); /* behind it, */
    show("behind", p);
    paint(p.h, SIZE, 4); /* and where the CPU has written since. */
    each_range(p.h, discard);
    show("written", p);
    give_back(p);
    again();
}

/* A block that kernels wrote to, before anybody copied that back. */
static void discarded_lost(void)
{
    struct pair p = copied_pair(SIZE, 1);
    put(p.d, SIZE, 2);
    CHECK(madvise(p.h, SIZE, MADV_DONTNEED));
    printf("zeroes %d\n", sum_of(p.h, SIZE) == sum_of((unsigned char[SIZE]){0}, SIZE));
    show("lost", p);
    give_back(p);
}

static void advise_else(unsigned char *at, size_t n)
{
    static const int all[] = {MADV_FREE,       MADV_WILLNEED,       MADV_REMOVE,   MADV_HUGEPAGE,
                              MADV_NOHUGEPAGE, MADV_COLD,           MADV_DONTDUMP, MADV_DODUMP,
                              MADV_PAGEOUT,    MADV_POPULATE_WRITE, MADV_DONTFORK, MADV_DOFORK};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        printf("%d -> %d\n", all[i], madvise(at, n, all[i]));
        memset(at, 7, n);
    }
}

/* Pages that the kernel fills before the first copy, and between two. */
static void populated(void)
{
    for (int advice = MADV_POPULATE_READ; advice <= MADV_POPULATE_WRITE; advice++) {
        unsigned char *h = aligned_block(SIZE);
        printf("%d -> %d\n", advice, madvise(h, SIZE, advice));
        struct pair p = {h, device_block(SIZE)};
        paint(p.h, SIZE, 1);
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        printf("%d -> %d\n", advice, madvise(h, SIZE, advice));
        show("populated", p);
        give_back(p);
    }
}

static void advised(void)
{
    struct pair p = copied_pair(SIZE, 1);
    each_range(p.h, advise_else);
    show("advised", p);
    EXPECT(posix_madvise(p.h, 4 * UNIT / 2, POSIX_MADV_DONTNEED) == 0);
    show("by POSIX", p);
    give_back(p);
    again();
}

/* Whether an access faults. */
static sigjmp_buf way_out;

static void leave(int sig)
{
    (void)sig;
    siglongjmp(way_out, 1);
}

static bool faults(volatile unsigned char *at, bool write)
{
    struct sigaction act = {.sa_handler = leave}, old;
    CHECK(sigaction(SIGSEGV, &act, &old));
    bool faulted = sigsetjmp(way_out, 1);
    if (!faulted && write)
        *at = 9;
    else if (!faulted)
        (void)*at;
    CHECK(sigaction(SIGSEGV, &old, NULL));
    return faulted;
}

static void put_fresh(unsigned char *at, size_t n)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    EXPECT(mmap(at, n, PROT_NONE, flags, -1, 0) == at);
    printf("closed %d %d\n", faults(at, false), faults(at + n - 1, true));
    EXPECT(mmap(at, n, PROT_READ | PROT_WRITE, flags, -1, 0) == at);
    printf("open %d\n", faults(at + 1, true));
}

static void mapped_fresh(void)
{
    struct pair p = copied_pair(SIZE, 1);
    each_range(p.h, put_fresh);
    show("fresh", p);
    paint(p.h, SIZE, 2);
    show("painted", p);
    give_back(p);
    again();
}

/* One file at two places, as rings do it. */
static void mapped_file(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT - 8 * PAGE;
    int fd = memfd_create("ring", 0);
    CHECK(ftruncate(fd, 16 * PAGE));
    unsigned char *other = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    paint_part(other, 0, 16 * PAGE, 2);
    for (size_t i = 0; i < 2; i++)
        EXPECT(mmap(at + i * 16 * PAGE, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    fd, 0) == at + i * 16 * PAGE);
    show("file", p);
    other[5] = 99;
    show("through the file", p);
    put(p.d, SIZE, 3);
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    printf("copied to the file %d %d\n", !memcmp(other, at, 16 * PAGE),
           shows_part(p.h, 0, UNIT - 8 * PAGE, 3) && !shows_part(other, 0, 16 * PAGE, 2));
    give_back(p);
    again();
}

static void drop(unsigned char *at, size_t n)
{
    CHECK(munmap(at, n));
    void *other = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(other, 1, n); /* Wherever it lies: */
    CHECK(munmap(other, n));
    printf("dropped %d %d\n", faults(at, false), faults(at + n - 1, true));
}

static void unmapped(void)
{
    struct pair p = copied_pair(SIZE, 1);
    each_range(p.h, drop);
    CHECK(cuMemcpyDtoH(seen, p.d, SIZE));
    printf("d %016lx\n", sum_of(seen, SIZE));
    each_range(p.h, put_fresh);
    show("back", p);
    give_back(p);
    again();
}

/* Pages that go, pages that come, and pages that come back. */
static void moved(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT - 4 * PAGE;
    unsigned char *to = mremap(at, 8 * PAGE, 12 * PAGE, MREMAP_MAYMOVE);
    EXPECT(to != MAP_FAILED && to != at);
    printf("moved %016lx, left %d\n", sum_of(to, 8 * PAGE), faults(at, false));
    paint_part(to, 0, 8 * PAGE, 2);
    EXPECT(mremap(to, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
    CHECK(munmap(to + 8 * PAGE, 4 * PAGE));
    show("back", p);
    unsigned char *cut = p.h + UNIT + 8 * PAGE;
    EXPECT(mremap(cut, 4 * PAGE, PAGE, 0) == cut);
    printf("cut %d %d\n", faults(cut, false), faults(cut + PAGE, false));
    give_back(p);
    again();
}

/* A handler that lets the access go on, and counts. */
static unsigned char *barrier;
static size_t barrier_bytes;
static volatile sig_atomic_t hits;

static void open_page(int sig, siginfo_t *info, void *context)
{
    unsigned char *page = (unsigned char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    (void)context;
    if (page < barrier || page >= barrier + barrier_bytes)
        signal(sig, SIG_DFL);
    hits++;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void install(void)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO};
    act.sa_sigaction = open_page;
    CHECK(sigaction(SIGSEGV, &act, NULL));
}

static void raise_barrier(unsigned char *at, size_t n, int rights)
{
    barrier = at;
    barrier_bytes = n;
    hits = 0;
    CHECK(mprotect(at, n, rights));
}

static void say_hits(const char *what)
{
    printf("%s: %d hits\n", what, (int)hits);
}

/* A collector's barrier: writes are seen page by page, before and after copies. */
static void barriers(void)
{
    struct pair p = aligned_pair(SIZE);
    unsigned char *at = p.h + UNIT - 4 * PAGE;
    paint(p.h, SIZE, 1);
    install();
    for (int round = 0; round < 3; round++) {
        raise_barrier(at, 16 * PAGE, PROT_READ);
        (void)*(volatile unsigned char *)at;
        at[3] = at[5 * PAGE] = at[8 * PAGE + 7] = (unsigned char)round;
        say_hits("written");
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        at[PAGE] = at[5 * PAGE + 1] = 77;
        say_hits("written after the copy");
        show("barrier", p);
        raise_barrier(at, 16 * PAGE, PROT_READ);
        at[9 * PAGE] = 78;
        say_hits("raised after the copy");
    }
    give_back(p);
    again();
}

/* Pages that a copy of pageable memory would touch with the CPU it touches, once a page. */
static void barriers_and_copies(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT - 4 * PAGE;
    install();
    raise_barrier(at, 8 * PAGE, PROT_NONE);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    say_hits("read by a copy");
    raise_barrier(at, 8 * PAGE, PROT_READ);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    say_hits("read by a copy that may");
    put(p.d, SIZE, 2);
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    say_hits("written by a copy");
    show("copied", p);
    give_back(p);
    again();
}

static void guards(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT;
    CHECK(mprotect(at, PAGE, PROT_NONE));
    CHECK(mprotect(at + 4 * PAGE, PAGE, PROT_READ));
    p.h[0] = at[-1] = at[PAGE] = at[5 * PAGE] = 1; /* Next to both. */
    printf("guards %d %d, %d %d, beside %d %d\n", faults(at, false), faults(at, true),
           faults(at + 4 * PAGE, false), faults(at + 4 * PAGE, true), faults(at - 1, true),
           faults(at + 2 * PAGE, true));
    int pipes[2];
    CHECK(pipe(pipes));
    EXPECT(write(pipes[1], "abc", 3) == 3);
    printf("read %zd", read(pipes[0], at + 4 * PAGE, 3));
    printf(", %zd\n", read(pipes[0], at + 3 * PAGE, 3));
    CHECK(mprotect(at, 5 * PAGE, PROT_READ | PROT_WRITE));
    show("opened", p);
    give_back(p);
    again();
}

/* The device writes while a guard is up; the host's side opens it before it looks. */
static void guards_and_kernels(void)
{
    struct pair p = copied_pair(SIZE, 1);
    CHECK(mprotect(p.h + UNIT, UNIT, PROT_NONE));
    put(p.d, SIZE, 2);
    CHECK(mprotect(p.h + UNIT, UNIT, PROT_READ | PROT_WRITE));
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    CHECK(mprotect(p.h, UNIT, PROT_READ));
    EXPECT(shows(p.h, SIZE, 2) && copy_sees(p.d, 0, SIZE, 2));
    printf("writes %d %d\n", faults(p.h + 8, true), faults(p.h + 2 * UNIT, true));
    CHECK(mprotect(p.h, UNIT, PROT_READ | PROT_WRITE));
    show("kernels", p);
    give_back(p);
    again();
}

/* One side goes while rights are away. */
static void freed(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT;
    CHECK(mprotect(at, PAGE, PROT_READ));
    CHECK(cuMemFree(p.d));
    printf("still %d %d\n", faults(at, true), shows(p.h, SIZE, 1));
    CHECK(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    paint(p.h, SIZE, 2);
    free(p.h);
    p = copied_pair(SIZE, 3);
    CHECK(mprotect(p.h + UNIT, PAGE, PROT_READ | PROT_WRITE));
    CHECK(mprotect(p.h + UNIT, PAGE, PROT_NONE));
    CHECK(munmap(p.h + UNIT + PAGE, PAGE));
    free(p.h);
    EXPECT(copy_sees(p.d, 0, SIZE, 3));
    CHECK(cuMemFree(p.d));
    again();
}

/* Many small blocks, some of which share what libzc registers. */
static void small(void)
{
    enum { COUNT = 40, BYTES = 256 << 10 };
    static unsigned char *blocks[COUNT];
    CUdeviceptr d = device_block(BYTES);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            paint(blocks[i] = aligned_block(BYTES), BYTES, (unsigned)i);
        for (int i = 0; i < COUNT; i++) {
            unsigned char *at = blocks[i];
            CHECK(cuMemcpyHtoD(d, blocks[i], BYTES));
            if (i % 4 == 1)
                CHECK(madvise(at, 8 * PAGE, MADV_DONTNEED));
            if (i % 4 == 2)
                CHECK(mprotect(at, PAGE, PROT_READ));
            CHECK(cuMemcpyHtoD(d, blocks[i], BYTES));
            CHECK(cuMemcpyDtoH(seen, d, BYTES));
            EXPECT(!memcmp(seen, blocks[i], BYTES) && (i % 4 != 1 || !at[0]));
            EXPECT(i % 4 != 2 || faults(at, true));
        }
        for (int i = 0; i < COUNT; i++) {
            if (i % 4 == 2)
                CHECK(mprotect(blocks[i], PAGE, PROT_READ | PROT_WRITE));
            free(blocks[i]);
        }
    }
    CHECK(cuMemFree(d));
}

/* Guards of the kernel's (Linux 6.13), set and removed by each of both calls. */
static int advise_self(void *at, size_t n, int advice, bool by_process)
{
    struct iovec range = {at, n};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    errno = 0;
    long done = by_process ? process_madvise(self, &range, 1, advice, 0) : madvise(at, n, advice);
    close(self);
    return done < 0 ? errno : 0;
}

static void kernel_guards(void)
{
    for (int by_process = 0; by_process < 2; by_process++) {
        struct pair p = copied_pair(SIZE, 1);
        unsigned char *at = p.h + UNIT;
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        int refused = advise_self(at, 4 * PAGE, 102, by_process);
        printf("%d, faults %d %d\n", refused, faults(at + PAGE, false), faults(at - 1, true));
        printf("%d\n", advise_self(at, 6 * PAGE, 103, by_process));
        printf("%d %d\n", at[PAGE], at[5 * PAGE]);
        show("guards removed", p);
        printf("%d\n", advise_self(at + UNIT / 2, 4 * PAGE, MADV_DONTNEED, by_process));
        show("dropped", p);
        give_back(p);
    }
    again();
}

/* A segment over a block, which a copy then brings, and which leaves nothing behind. */
static void segment(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT;
    int id = shmget(IPC_PRIVATE, 3 * PAGE, 0600 | IPC_CREAT);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(shmat(id, at, SHM_REMAP) == at && shmctl(id, IPC_RMID, NULL) == 0);
    memset(at, 7, 3 * PAGE);
    show("attached", p);
    EXPECT(mprotect(at + PAGE, PAGE, PROT_READ) == 0); /* It is several mappings from now on. */
    EXPECT(shmdt(at) == 0 && shmctl(id, IPC_STAT, &(struct shmid_ds){0}) != 0);
    EXPECT(faults(at, false) && faults(at + 2 * PAGE, false) && !faults(at + 3 * PAGE, true));
    EXPECT(shmdt(at) != 0);
    EXPECT(mmap(at, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) == at);
    show("detached", p);
    give_back(p);
    again();
}

/* A forked child has what its parent made of its pages. */
static void forked(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT;
    int status = 0;
    CHECK(mprotect(at, PAGE, PROT_READ));
    CHECK(madvise(at + PAGE, PAGE, MADV_DONTNEED));
    pid_t pid = fork();
    if (pid == 0) {
        bool right = faults(at, true) && at[PAGE] == 0 && shows_part(p.h, 0, UNIT, 1);
        CHECK(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
        memset(p.h, 3, SIZE);
        CHECK(madvise(p.h, 2 * UNIT, MADV_DONTNEED));
        _exit(right && all_are(p.h, 0, 2 * UNIT) && p.h[2 * UNIT] == 3 ? 0 : 1);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    printf("child %d, here %d\n", status, faults(at, true));
    show("parent", p);
    give_back(p);
}

/* Threads that discard, guard and copy blocks of their own. */
static CUcontext context;

static void *work(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    CHECK(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < 20; i++) {
        unsigned char *h = aligned_block(SIZE), *at = h + (i % 3) * UNIT / 2;
        static __thread unsigned char got[SIZE];
        CUdeviceptr d = device_block(SIZE);
        paint(h, SIZE, seed + i);
        CHECK(cuMemcpyHtoD(d, h, SIZE));
        CHECK(mprotect(at, 3 * PAGE, PROT_READ));
        CHECK(mprotect(at, 3 * PAGE, PROT_READ | PROT_WRITE));
        CHECK(madvise(at + PAGE, UNIT, MADV_DONTNEED));
        EXPECT(at[PAGE] == 0 && at[UNIT] == 0 && at[0] != 0x100);
        CHECK(cuMemcpyHtoD(d, h, SIZE));
        CHECK(cuMemcpyDtoH(got, d, SIZE));
        EXPECT(!memcmp(got, h, SIZE));
        CHECK(cuMemFree(d));
        free(h);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    CHECK(cuCtxGetCurrent(&context));
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, work, (void *)i));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(all[i], NULL));
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        int got = (call);                                                                          \
        printf("%s: %d, %d\n", #call, got, errno);                                                 \
    } while (0)

/* Calls that the kernel refuses, over blocks as elsewhere. */
static void refused(void)
{
    struct pair p = copied_pair(SIZE, 1);
    unsigned char *at = p.h + UNIT;
    TRY(madvise(at + 1, PAGE, MADV_DONTNEED));
    TRY(madvise(at, PAGE, 12345));
    TRY(madvise(at, 0, MADV_DONTNEED));
    TRY(mprotect(at + 1, PAGE, PROT_READ));
    TRY(mprotect(at, PAGE, 1 << 20));
    TRY(mprotect(at, 0, PROT_NONE));
    TRY(munmap(at, 0));
    TRY(mmap(at, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED);
    TRY(mmap(at, UNIT, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED);
    show("refused", p);
    give_back(p);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"discarded", discarded},
        {"discarded_lost", discarded_lost},
        {"populated", populated},
        {"advised", advised},
        {"mapped_fresh", mapped_fresh},
        {"mapped_file", mapped_file},
        {"unmapped", unmapped},
        {"moved", moved},
        {"barriers", barriers},
        {"barriers_and_copies", barriers_and_copies},
        {"guards", guards},
        {"guards_and_kernels", guards_and_kernels},
        {"freed", freed},
        {"small", small},
        {"kernel_guards", kernel_guards},
        {"segment", segment},
        {"forked", forked},
        {"threads", threads},
        {"refused", refused},
    };
    return RUN_SCENES(all, argc, argv);
}
