/* SPDX-License-Identifier: MIT */
/* The end of pairs, and of the process that has them: contexts that go, frees that are refused,
 * forks and exits. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shared_scene.h"

/* A context goes with its device blocks; host blocks are the program's as before. */
static void reset(void)
{
    struct pair p = filled_pair(SIZE, 1), q = filled_pair(SIZE, 2);
    p.h[UNIT] ^= 1;
    CHECK(cuDevicePrimaryCtxReset(0));
    p.h[UNIT] ^= 1;
    EXPECT(shows(p.h, SIZE, 1) && shows(q.h, SIZE, 2));
    paint(p.h, SIZE, 3);
    start_gpu(0);
    q.d = device_block(SIZE);
    CHECK(cuMemcpyHtoD(q.d, p.h, SIZE));
    EXPECT(sees(q.d, 0, SIZE, 3) && shows(q.h, SIZE, 2));
    CHECK(cuMemFree(q.d));
    free(p.h);
    free(q.h);
}

/* The context in which the host block was copied first goes, and not that of the device block. */
static void outlived(void)
{
    CUcontext home, first = NULL;
    CUdeviceptr other;
    struct pair p = {host_block(SIZE), 0};
    CHECK(cuCtxGetCurrent(&home));
    first = another_context();
    paint(p.h, SIZE, 1);
    CHECK(cuMemAlloc(&other, MIB));
    CHECK(cuMemcpyHtoD(other, p.h, MIB));
    CHECK(cuCtxSetCurrent(home));
    p.d = device_block(SIZE);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuCtxDestroy(first));
    put(p.d, SIZE, 2);
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    EXPECT(shows(p.h, SIZE, 2) && sees(p.d, 0, SIZE, 2));
    give_back(p);
}

static pid_t (*make_child)(void) = fork;

static pid_t fork_flushed(void)
{
    fflush(NULL);
    pid_t child = make_child();
    EXPECT(child >= 0);
    return child;
}

/* A child has host blocks of its own, shared ones and parted ones. */
static void forked(void)
{
    struct pair p = filled_pair(SIZE, 1);
    p.h[UNIT] ^= 1;
    pid_t child = fork_flushed();
    if (!child) {
        p.h[UNIT] ^= 1;
        bool good = shows(p.h, SIZE, 1);
        paint(p.h, SIZE, 2);
        good = good && shows(p.h, SIZE, 2);
        free(p.h);
        _exit(good ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    p.h[UNIT] ^= 1;
    EXPECT(shows(p.h, SIZE, 1));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1));
    give_back(p);
}

static void pass(int fd)
{
    EXPECT(write(fd, "x", 1) == 1);
}

static void await(int fd)
{
    char byte;
    EXPECT(read(fd, &byte, 1) == 1);
}

/* Writes to h before its parent or after it: each has a copy of its own. */
static _Noreturn void write_in_turn(struct pair p, bool first, int go, int done)
{
    if (!first)
        await(go);
    bool good = shows(p.h, SIZE, 1);
    paint(p.h, SIZE, 5);
    if (first) {
        pass(done);
        await(go);
    }
    _exit(good && shows(p.h, SIZE, 5) ? 0 : 1);
}

/* Parent and child write in turn; d keeps what was copied.  So does a block that is copied for the
 * first time after the fork. */
static void forked_in_turn(void)
{
    for (int first = 0; first < 2; first++) {
        struct pair p = filled_pair(SIZE, 1), late = new_pair(SIZE);
        int go[2], done[2], status;
        CHECK(pipe(go));
        CHECK(pipe(done));
        paint(late.h, SIZE, 1);
        pid_t child = fork_flushed();
        if (!child)
            write_in_turn(first ? late : p, first, go[0], done[1]);
        if (first)
            await(done[0]);
        EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1) && shows(late.h, SIZE, 1));
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        CHECK(cuMemcpyHtoD(late.d, late.h, SIZE));
        paint(p.h, SIZE, 2);
        pass(go[1]);
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        EXPECT(shows(p.h, SIZE, 2) && sees(p.d, 0, SIZE, 1) && sees(late.d, 0, SIZE, 1));
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        EXPECT(sees(p.d, 0, SIZE, 2));
        give_back(p);
        give_back(late);
    }
}

extern pid_t _Fork(void) __attribute__((weak)); /* From glibc 2.34 on. */
static volatile pid_t made_in_handler;

static void on_signal(int sig)
{
    (void)sig;
    made_in_handler = _Fork();
}

static pid_t fork_in_handler(void)
{
    raise(SIGUSR1);
    return made_in_handler;
}

/* The same with children of which libc tells no handler. */
static void forked_in_handler(void)
{
    if (_Fork) {
        signal(SIGUSR1, on_signal);
        make_child = fork_in_handler;
    }
    forked();
    forked_in_turn();
}

/* Whether a child that the kernel alone knows of ends well: one that writes to a block, or has the
 * kernel read it, and sees what was there, and one that touches none. */
static bool clone_ends(unsigned char *h, void (*use)(unsigned char *h))
{
    int status;
    fflush(NULL);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        use(h);
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(status == 0 || WTERMSIG(status) == SIGSEGV);
    return status == 0;
}

static void write_block(unsigned char *h)
{
    bool good = shows(h, SIZE, 1);
    paint(h, SIZE, 2);
    _exit(good && shows(h, SIZE, 2) ? 0 : 1);
}

static void write_page(unsigned char *h)
{
    h[SIZE - 1] ^= 1;
}

static void pass_block(unsigned char *h)
{
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], h, 1) != 1)
        h[0] ^= 1;
}

static void pass_by(unsigned char *h)
{
    (void)h;
}

/* Such children have blocks of their own or none, never their parent's. */
static void cloned(void)
{
    struct pair p = filled_pair(SIZE, 1), alone = new_pair(SIZE);
    paint(alone.h, SIZE, 1);
    for (int after = 0; after < 2; after++) {
        int good = 0;
        unsigned char *blocks[] = {p.h, alone.h};
        for (int i = 0; i < 2; i++) {
            good += clone_ends(blocks[i], write_block) + clone_ends(blocks[i], write_page);
            good += clone_ends(blocks[i], pass_block);
            EXPECT(clone_ends(blocks[i], pass_by) && shows(blocks[i], SIZE, 1));
        }
        TELL("%s a fork: %d\n", after ? "after" : "before", good);
        pid_t child = fork_flushed();
        if (!child)
            _exit(0);
        EXPECT(waitpid(child, NULL, 0) == child);
    }
    EXPECT(sees(p.d, 0, SIZE, 1));
    give_back(p);
    give_back(alone);
}

/* The program closes all files that it does not know but the driver's, which come first, and gets
 * their numbers for its own. */
static void closed_files(void)
{
    enum { FIRST = 100, FILES = 600 };
    static unsigned char byte;
    struct pair p = filled_pair(SIZE, 1), q = new_pair(SIZE);
    int status, fd = 0;
    paint(q.h, SIZE, 2);
    for (int i = FIRST; i < FILES; i++)
        close(i);
    while (fd < FILES) {
        fd = memfd_create("own", 0);
        EXPECT(fd >= 0 && pwrite(fd, "o", 1, SIZE - 1) == 1);
    }
    CHECK(cuMemcpyHtoD(q.d, q.h, SIZE));
    p.h[UNIT] ^= 1;
    pid_t child = fork_flushed();
    if (!child) {
        p.h[UNIT] ^= 1;
        bool good = shows(p.h, SIZE, 1) && shows(q.h, SIZE, 2);
        paint(q.h, SIZE, 3);
        _exit(good && shows(q.h, SIZE, 3) ? 0 : 1);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(sees(p.d, 0, SIZE, 1) && sees(q.d, 0, SIZE, 2) && shows(q.h, SIZE, 2));
    paint(p.h, SIZE, 4);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 4));
    give_back(p);
    give_back(q);
    for (; fd >= FIRST; fd--)
        EXPECT(pread(fd, &byte, 1, SIZE - 1) == 1 && byte == 'o');
}

/* A free that the driver refuses leaves both sides what they are; then it is freed, and the driver
 * copies from what was the host side.  The failure is one that only libzc's own call can have. */
static void refused_free(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr other;
    CHECK(cuMemAllocAsync(&other, SIZE, NULL));
    paint(p.h, SIZE, 2);
    sim_fail("cuMemHostUnregister", CUDA_ERROR_UNKNOWN, 1);
    CUresult freed = cuMemFree(p.d);
    sim_fail(NULL, CUDA_SUCCESS, 0);
    TELL("free %d\n", (int)freed);
    if (freed != CUDA_SUCCESS) {
        EXPECT(shows(p.h, SIZE, 2) && sees(p.d, 0, SIZE, 1));
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        EXPECT(sees(p.d, 0, SIZE, 2));
        CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
        paint(p.h, SIZE, 3);
        CHECK(cuMemFree(p.d));
    }
    paint(p.h, SIZE, 4);
    CHECK(cuMemcpyHtoDAsync(other, p.h, SIZE, NULL));
    EXPECT(copy_sees(other, 0, SIZE, 4));
    CHECK(cuMemFree(other));
    free(p.h);
}

/* The same where no call is left that could fail. */
static void refused_behind(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr other;
    CHECK(cuMemAllocAsync(&other, SIZE, NULL));
    paint(p.h, SIZE, 2);
    CHECK(cuMemFreeAsync(p.d, NULL));
    sim_fail("cuMemHostUnregister", CUDA_ERROR_UNKNOWN, 1);
    CHECK(cuMemFree(device_block(SIZE + UNIT)));
    sim_fail(NULL, CUDA_SUCCESS, 0);
    CHECK(cuMemcpyHtoDAsync(other, p.h, SIZE, NULL));
    EXPECT(copy_sees(other, 0, SIZE, 2));
    CHECK(cuMemFree(other));
    free(p.h);
}

/* Behind cudaFreeAsync the address is the host block's alone, also while the stream has not come to
 * the free. */
static void freed_in_order(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr other;
    CHECK(cuMemAllocAsync(&other, SIZE, NULL));
    paint(p.h, SIZE, 2);
    CHECK(cuMemFreeAsync(p.d, NULL));
    CHECK(cuMemcpy(other, (CUdeviceptr)(uintptr_t)p.h, SIZE));
    EXPECT(copy_sees(other, 0, SIZE, 2));
    paint(p.h, SIZE, 3);
    CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)p.h, other, SIZE));
    EXPECT(shows(p.h, SIZE, 2));
    CHECK(cuMemFree(other));
    free(p.h);
}

/* Pairs that kernels use while the process exits. */
static struct pair fresh, copied;

static void launch_at_exit(void)
{
    if (!fresh.h)
        return;
    gpu_paint(fresh.d, 0, SIZE, 3); /* Its host block was never copied. */
    CHECK(cuMemcpyDtoH(copied.h, fresh.d, UNIT));
    EXPECT(sees(fresh.d, 0, SIZE, 3) && sees(copied.d, 0, SIZE, 2));
    EXPECT(shows(fresh.h, SIZE, 1) && shows(copied.h, UNIT, 3));
    printf("%d\n", shows_part(copied.h, UNIT, SIZE - UNIT, 2));
}

/* Handlers that were registered before the first CUDA call run after all others. */
static __attribute__((constructor)) void register_handler(void)
{
    atexit(launch_at_exit);
}

static void exiting(void)
{
    fresh = new_pair(SIZE);
    paint(fresh.h, SIZE, 1);
    copied = filled_pair(SIZE, 2);
    exit(0);
}

/* The addresses that a limit leaves are the program's, and pairs go on. */
static void limited(void)
{
    struct rlimit limit = {(size_t)3 << 40, RLIM_INFINITY};
    start_gpu(0);
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE);
    paint(h, SIZE, 1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(setrlimit(RLIMIT_AS, &limit));
    EXPECT(mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    paint(h, SIZE, 2);
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    printf("%d\n", shows(h, SIZE, 1));
    CHECK(cuMemFree(d));
    free(h);
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"reset", reset},
        {"outlived", outlived},
        {"forked", forked},
        {"forked_in_turn", forked_in_turn},
        {"forked_in_handler", forked_in_handler},
        {"cloned", cloned},
        {"closed_files", closed_files},
        {"refused_free", refused_free},
        {"refused_behind", refused_behind},
        {"freed_in_order", freed_in_order},
        {"exiting", exiting},
        {"limited", limited},
    };
    return RUN_SCENES(all, argc, argv);
}
