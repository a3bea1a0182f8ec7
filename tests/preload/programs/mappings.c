/* SPDX-License-Identifier: MIT */
/* Copies of host memory that malloc never gave: mappings of files, of memory and of nothing, stacks
 * and variables. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define N (2 * MIB)

static CUcontext context;
static CUdeviceptr device;
static unsigned char variable[MIB];

static unsigned char *map(size_t n, int protection, int flags, int fd)
{
    void *p = mmap(NULL, n, protection, flags, fd, 0);
    EXPECT(p != MAP_FAILED);
    return p;
}

static unsigned char *anonymous(size_t n)
{
    return map(n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* A file of n bytes of the given value, without a name. */
static int file_in(const char *folder, size_t n, int value)
{
    char name[200], bytes[4096];
    snprintf(name, sizeof(name), "%s/mappings.XXXXXX", folder);
    int fd = mkstemp(name);
    EXPECT(fd >= 0 && unlink(name) == 0);
    memset(bytes, value, sizeof(bytes));
    for (size_t i = 0; i < n; i += sizeof(bytes))
        EXPECT(write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
    return fd;
}

static int disk_file(size_t n, int value)
{
    return file_in(getenv("ON_DISK"), n, value);
}

static int memory_file(size_t n, int value)
{
    int fd = memfd_create("mappings", 0);
    EXPECT(fd >= 0 && ftruncate(fd, (off_t)n) == 0);
    unsigned char *p = map(n, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    memset(p, value, n);
    EXPECT(munmap(p, n) == 0);
    return fd;
}

static void in(const void *p, size_t n)
{
    CHECK(cuMemcpyHtoD(device, p, n));
}

static void out(void *p, size_t n)
{
    CHECK(cuMemcpyDtoH(p, device, n));
}

static void *from_thread(void *unused)
{
    unsigned char stack[1000] = {1};
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemcpyHtoD(device, stack, sizeof(stack)));
    return unused;
}

/* One copy of a size of its own from each kind of memory, in the order of the words. */
static void sources(void)
{
    unsigned char *a = anonymous(N), *block = malloc(MIB);
    unsigned char stack[3000] = {0};
    int disk = disk_file(N, 1), memory = memory_file(N, 2), shm = file_in("/dev/shm", N, 3);
    pthread_t thread;
    memset(block, 4, MIB);
    in(block, 1001);
    in(a, 1002);
    in(map(N, PROT_READ, MAP_PRIVATE, disk), 1003);
    in(map(N, PROT_READ | PROT_WRITE, MAP_SHARED, disk) + MIB, 1004);
    in(map(N, PROT_READ, MAP_SHARED, memory), 1005);
    in(map(N, PROT_READ | PROT_WRITE, MAP_SHARED, shm), 1006);
    in(stack, 1007);
    in(variable, 1008);
    out(variable, 1009);
    EXPECT(pthread_create(&thread, NULL, from_thread, NULL) == 0 &&
           pthread_join(thread, NULL) == 0);
    free(block);
}

/* What is left of a mapping, and what came in the place of its pages. */
static void parts(void)
{
    unsigned char *a = anonymous(4 * MIB);
    int disk = disk_file(MIB, 1);
    EXPECT(munmap(a + MIB, MIB) == 0);
    EXPECT(mmap(a + 3 * MIB, MIB, PROT_READ, MAP_PRIVATE | MAP_FIXED, disk, 0) == a + 3 * MIB);
    in(a + MIB - PAGE, 2001);
    in(a + 2 * MIB, 2002);
    in(a + 3 * MIB, 2003);
    unsigned char *moved = mremap(a + 2 * MIB, MIB, 2 * MIB, MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED);
    in(moved + MIB, 2004);
    EXPECT(munmap(a, 4 * MIB) == 0);
    in(moved, 2005);
    CHECK(cuMemcpyHtoD(device, moved, 2006)); /* The same bytes again. */
}

/* Tens of thousands of mappings, each copied once; then gone. */
static void many(void)
{
    enum { COUNT = 20000 };
    static unsigned char *p[COUNT];
    for (int i = 0; i < COUNT; i++) { /* Neighbours of different rights are not joined. */
        p[i] =
            map(PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        in(p[i], 64);
    }
    for (int i = 0; i < COUNT; i++)
        EXPECT(munmap(p[i], PAGE) == 0);
}

/* What a large file and a large block are copied by, until the process is killed. */
static void killed(void)
{
    unsigned char *block = malloc(8 * MIB);
    memset(block, 5, 8 * MIB);
    in(block, 8 * MIB);
    in(map(8 * MIB, PROT_READ, MAP_SHARED, disk_file(8 * MIB, 1)), 8 * MIB);
    kill(getpid(), SIGKILL);
}

static const struct scenario all[] = {
    {"sources", sources}, {"parts", parts}, {"many", many}, {"killed", killed}};

int main(int argc, char **argv)
{
    context = start_gpu(0);
    CHECK(cuMemAlloc(&device, 16 * MIB));
    int status = RUN_SCENARIO(all, argc, argv);
    end_gpu(0);
    return status;
}
