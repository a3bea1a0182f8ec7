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
#define N (2 * MIB)
#define LEAST ((size_t)64 << 10) /* Smaller copies are not told apart. */

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
    unsigned char stack[LEAST] = {1};
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemcpyHtoD(device, stack, sizeof(stack)));
    return unused;
}

/* One copy of a size of its own from each kind of memory, in the order of the words. */
static void sources(void)
{
    unsigned char *a = anonymous(N), *block = malloc(MIB);
    unsigned char stack[LEAST + 3000] = {0};
    int disk = disk_file(N, 1), memory = memory_file(N, 2), shm = file_in("/dev/shm", N, 3);
    pthread_t thread;
    memset(block, 4, MIB);
    in(block, LEAST + 1);
    in(a, LEAST + 2);
    in(map(N, PROT_READ, MAP_PRIVATE, disk), LEAST + 3);
    in(map(N, PROT_READ | PROT_WRITE, MAP_SHARED, disk) + MIB, LEAST + 4);
    in(map(N, PROT_READ, MAP_SHARED, memory), LEAST + 5);
    in(map(N, PROT_READ | PROT_WRITE, MAP_SHARED, shm), LEAST + 6);
    in(stack, LEAST + 7);
    in(variable, LEAST + 8);
    out(variable, LEAST + 9);
    EXPECT(pthread_create(&thread, NULL, from_thread, NULL) == 0 &&
           pthread_join(thread, NULL) == 0);
    in(block, LEAST - 1);
    in(stack, LEAST - 1);
    free(block);
}

/* The rest of a mapping, and what came in the place of its pages. */
static void parts(void)
{
    unsigned char *a = anonymous(4 * MIB);
    int disk = disk_file(MIB, 1);
    EXPECT(munmap(a + MIB, MIB) == 0);
    EXPECT(mmap(a + 3 * MIB, MIB, PROT_READ, MAP_PRIVATE | MAP_FIXED, disk, 0) == a + 3 * MIB);
    in(a + MIB - 2 * LEAST, LEAST + 1);
    in(a + 2 * MIB, LEAST + 2);
    in(a + 3 * MIB, LEAST + 3);
    unsigned char *moved = mremap(a + 2 * MIB, MIB, 2 * MIB, MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED);
    in(moved + MIB, LEAST + 4);
    EXPECT(munmap(a, 4 * MIB) == 0);
    in(moved, LEAST + 5);
    CHECK(cuMemcpyHtoD(device, moved, LEAST + 6)); /* The same bytes again. */
}

/* More mappings than libzc remembers, each copied once.  Neighbours of different rights are not
 * joined. */
static void many(void)
{
    for (int i = 0; i < 100; i++)
        in(map(LEAST, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1),
           LEAST);
}

/* Memory of malloc that no brk(2) gave: blocks with mappings of their own, from their beginning on
 * and from the middle; aligned; and what a thread has. */
static void *of_thread(void *unused)
{
    unsigned char *block = malloc(LEAST);
    CHECK(cuCtxSetCurrent(context));
    memset(block, 1, LEAST);
    in(block, LEAST);
    free(block);
    return unused;
}

static void malloced(void)
{
    unsigned char *blocks[3], *aligned = NULL;
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        memset(blocks[i] = malloc(4 * MIB), i, 4 * MIB);
    EXPECT(posix_memalign((void **)&aligned, 2 * MIB, 4 * MIB) == 0);
    memset(aligned, 3, 4 * MIB);
    in(blocks[1] + 3 * MIB, LEAST + 1);
    in(blocks[0], LEAST + 2);
    in(blocks[0] + 2 * MIB, LEAST + 3);
    in(blocks[2] + MIB, LEAST + 4);
    in(aligned, LEAST + 5);
    EXPECT(pthread_create(&thread, NULL, of_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 3; i++)
        free(blocks[i]);
    free(aligned);
}

/* A process that copies a large file and a large block, until it is killed. */
static void killed(void)
{
    unsigned char *block = malloc(8 * MIB);
    memset(block, 5, 8 * MIB);
    in(block, 8 * MIB);
    in(map(8 * MIB, PROT_READ, MAP_SHARED, disk_file(8 * MIB, 1)), 8 * MIB);
    kill(getpid(), SIGKILL);
}

static const struct scenario all[] = {{"sources", sources},
                                      {"parts", parts},
                                      {"many", many},
                                      {"malloced", malloced},
                                      {"killed", killed}};

int main(int argc, char **argv)
{
    context = start_gpu(0);
    CHECK(cuMemAlloc(&device, 16 * MIB));
    int status = RUN_SCENARIO(all, argc, argv);
    end_gpu(0);
    return status;
}
