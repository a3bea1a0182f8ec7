/* SPDX-License-Identifier: MIT */
/* All that can write a host block without a function of libc's that libzc could know: raw system
 * calls, the kernel's asynchronous ones, direct I/O, other processes.  Each writes N bytes behind a
 * copy; the device keeps what was copied. */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "shared_scene.h"

#define N ((size_t)4096)

static int source; /* A file of N bytes of 7; opened for direct I/O where that is possible. */

static void open_source(void)
{
    static unsigned char bytes[N] __attribute__((aligned(4096)));
    char name[] = "zc-writers-XXXXXX";
    int fd = mkstemp(name);
    memset(bytes, 7, N);
    EXPECT(fd >= 0 && write(fd, bytes, N) == (ssize_t)N && fsync(fd) == 0);
    source = open(name, O_RDONLY | O_DIRECT);
    if (source < 0)
        source = fd;
    unlink(name);
}

static bool by_syscall(unsigned char *to)
{
    return syscall(SYS_read, source, to, N) == (ssize_t)N;
}

static bool by_direct_read(unsigned char *to)
{
    return syscall(SYS_pread64, source, to, N, 0) == (ssize_t)N;
}

static bool by_aio(unsigned char *to)
{
    aio_context_t context = 0;
    struct iocb job = {.aio_lio_opcode = IOCB_CMD_PREAD,
                       .aio_fildes = (uint32_t)source,
                       .aio_buf = (uintptr_t)to,
                       .aio_nbytes = N};
    struct iocb *jobs[] = {&job};
    struct io_event event = {0};
    if (syscall(SYS_io_setup, 1, &context) != 0)
        return false;
    bool done = syscall(SYS_io_submit, context, 1, jobs) == 1 &&
                syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1;
    syscall(SYS_io_destroy, context);
    return done && event.res == (int64_t)N;
}

/* One read by a ring of one entry; false where the kernel has none for this process. */
static bool by_uring(unsigned char *to)
{
    struct io_uring_params p = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 1, &p);
    if (ring < 0)
        return by_direct_read(to);
    size_t bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned) +
                   p.cq_entries * sizeof(struct io_uring_cqe) + 65536;
    char *rings = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry =
        mmap(NULL, sizeof(*entry), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || entry == MAP_FAILED)
        return by_direct_read(to);
    *entry = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = source, .addr = (uintptr_t)to, .len = (unsigned)N};
    *(unsigned *)(rings + p.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(rings + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    bool done =
        syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, (size_t)0) == 1;
    close(ring);
    munmap(rings, bytes);
    munmap(entry, sizeof(*entry));
    return done;
}

static bool by_vmsplice(unsigned char *to)
{
    int ends[2];
    char bytes[N];
    memset(bytes, 7, N);
    struct iovec part = {to, N};
    EXPECT(pipe(ends) == 0 && write(ends[1], bytes, N) == (ssize_t)N);
    bool done = syscall(SYS_vmsplice, ends[0], &part, 1, 0) == (ssize_t)N;
    close(ends[0]);
    close(ends[1]);
    return done;
}

static bool by_process_vm(unsigned char *to)
{
    char bytes[N];
    memset(bytes, 7, N);
    struct iovec local = {bytes, N}, remote = {to, N};
    return syscall(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0) == (ssize_t)N;
}

/* Small structures, and the rest by hand. */
static bool by_ioctl(unsigned char *to)
{
    int ends[2];
    EXPECT(pipe(ends) == 0 && write(ends[1], "abcdefg", 7) == 7);
    bool done = syscall(SYS_ioctl, ends[0], FIONREAD, to) == 0 && *(int *)to == 7;
    close(ends[0]);
    close(ends[1]);
    memset(to, 7, N);
    return done;
}

static bool by_fstat(unsigned char *to)
{
    struct stat *stat = (struct stat *)to;
    bool done = fstat(source, stat) == 0 && stat->st_size == (off_t)N;
    memset(to, 7, N);
    return done;
}

static bool by_waitpid(unsigned char *to)
{
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    bool done = syscall(SYS_wait4, child, to, 0, NULL) == child && WEXITSTATUS(*(int *)to) == 7;
    memset(to, 7, N);
    return done;
}

static void other_memory(pid_t parent, unsigned char *to)
{
    char path[64], bytes[N];
    memset(bytes, 7, N);
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)parent);
    int fd = open(path, O_RDWR);
    _exit(pwrite(fd, bytes, N, (off_t)(uintptr_t)to) == (ssize_t)N ? 0 : 1);
}

static void other_ptrace(pid_t parent, unsigned char *to)
{
    long word;
    memset(&word, 7, sizeof(word));
    if (ptrace(PTRACE_ATTACH, parent, 0, 0) != 0)
        _exit(1);
    waitpid(parent, NULL, __WALL);
    bool done = true;
    for (size_t at = 0; at < N; at += sizeof(word))
        done = done && ptrace(PTRACE_POKEDATA, parent, to + at, word) == 0;
    ptrace(PTRACE_DETACH, parent, 0, 0);
    _exit(done ? 0 : 1);
}

/* On a host that allows no process to write another's memory, all is written here. */
static bool by_other(unsigned char *to, void (*write_to)(pid_t parent, unsigned char *to))
{
    int status = 1;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t parent = getpid(), child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        write_to(parent, to);
    EXPECT(waitpid(child, &status, 0) == child);
    if (status != 0)
        memset(to, 7, N);
    return true;
}

static bool by_proc_mem(unsigned char *to)
{
    return by_other(to, other_memory);
}

static bool by_ptrace(unsigned char *to)
{
    return by_other(to, other_ptrace);
}

static void raw(void)
{
    static const struct {
        const char *name;
        bool (*write)(unsigned char *to);
    } all[] = {
        {"read", by_syscall},   {"direct", by_direct_read}, {"aio", by_aio},
        {"io_uring", by_uring}, {"vmsplice", by_vmsplice},  {"process_vm_writev", by_process_vm},
        {"ioctl", by_ioctl},    {"fstat", by_fstat},        {"/proc/PID/mem", by_proc_mem},
        {"ptrace", by_ptrace},  {"waitpid", by_waitpid}}; /* The last, because it forks. */
    static unsigned char sevens[N];
    memset(sevens, 7, N);
    open_source();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct pair p = filled_pair(SIZE, 1);
        unsigned char *to = p.h + UNIT + 3 * N - (uintptr_t)p.h % N;
        size_t from = (size_t)(to - p.h);
        bool done = all[i].write(to), there = !memcmp(to, sevens, N);
        bool kept = sees(p.d, 0, SIZE, 1) && shows(p.h, from, 1) &&
                    shows_part(p.h, from + N, SIZE - from - N, 1);
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        static unsigned char back[SIZE];
        CHECK(cuMemcpyDtoH(back, p.d, SIZE));
        printf("%s: %d, in h %d, the device's %d, copied %d\n", all[i].name, done, there, kept,
               !memcmp(back, p.h, SIZE));
        give_back(p);
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"raw", raw}};
    return RUN_SCENES(all, argc, argv);
}
