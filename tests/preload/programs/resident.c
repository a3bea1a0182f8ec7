/* SPDX-License-Identifier: MIT */
/* How much memory a program takes, with those that it forked: the sum of their proportional set
 * sizes, in MiB. */
#include <sys/wait.h>
#include <time.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

enum { BLOCKS = 10, WORKERS = 4, TRIES = 400 };

/* Pss of proc_pid_smaps_rollup(5). */
static long resident_of(pid_t pid)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Pss: %ld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib / 1024;
}

/* What the process has once libzc has had the chance to give something back: as soon as that is not
 * more than `enough`, or at last. */
static long settled(CUdeviceptr d, long enough)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    char small[64] = {0};
    long now = resident_of(getpid());
    for (int i = 0; i < TRIES && now > enough; i++) {
        nanosleep(&nap, NULL);
        CHECK(cuMemcpyHtoD(d, small, sizeof(small)));
        now = resident_of(getpid());
    }
    return now;
}

static CUdeviceptr device_block(size_t n)
{
    CUdeviceptr d = 0;
    start_gpu(0);
    CHECK(cuMemAlloc(&d, n));
    return d;
}

static char *filled(size_t n)
{
    char *p = malloc(n);
    memset(p, 1, n);
    return p;
}

static void copy(CUdeviceptr d, const char *h, size_t n)
{
    CHECK(cuMemcpyHtoD(d, h, n));
    CHECK(cuMemcpyHtoD(d, h, n));
}

/* One block after the other, each of another size. */
static void sizes(void)
{
    CUdeviceptr d = device_block(160 * MIB);
    long before = resident_of(getpid());
    for (int round = 0; round < 3; round++)
        for (size_t mib = 16; mib <= 160; mib += mib / 3) {
            char *h = filled(mib * MIB);
            copy(d, h, mib * MIB);
            free(h);
        }
    long now = resident_of(getpid()), soon = settled(d, before + 160 + 256);
    printf("sizes %ld\n", now < soon ? now : soon);
}

static void fill_and_free(char **blocks, CUdeviceptr d)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = filled(48 * MIB);
        if (d)
            copy(d, blocks[i], 48 * MIB);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* What a program copied once and freed, as a model's weights, is given back while it goes on. */
static void copied_once(void)
{
    char *blocks[BLOCKS];
    CUdeviceptr d = device_block(48 * MIB);
    long before = resident_of(getpid());
    fill_and_free(blocks, d);
    printf("copied once %ld\n", settled(d, before + 64 + 48));
}

/* Before any CUDA call. */
static void never_copied(void)
{
    char *blocks[BLOCKS];
    fill_and_free(blocks, 0);
    printf("never copied %ld\n", resident_of(getpid()));
}

/* A large block of which the program needs a part. */
static void untouched(void)
{
    CUdeviceptr d = device_block(96 * MIB);
    char *h = malloc((size_t)1024 * MIB);
    memset(h, 1, 96 * MIB);
    for (int i = 0; i < 4; i++)
        copy(d, h, 96 * MIB);
    printf("untouched %ld\n", resident_of(getpid()));
    free(h);
}

static void work(int n)
{
    static const size_t mib[] = {56, 28, 40, 20};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof(mib) / sizeof(mib[0]); i++)
            free(filled((mib[i] + (size_t)n) * MIB));
}

/* Forked workers, which never use CUDA, at rest. */
static void workers(void)
{
    char *blocks[BLOCKS], byte = 0;
    int done[2], end[2];
    pid_t pids[WORKERS];
    fill_and_free(blocks, device_block(48 * MIB));
    EXPECT(pipe(done) == 0 && pipe(end) == 0);
    for (int i = 0; i < WORKERS; i++)
        if ((pids[i] = fork()) == 0) {
            close(end[1]);
            work(i);
            if (write(done[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0)
                _exit(1);
            _exit(0);
        }
    for (int i = 0; i < WORKERS; i++)
        EXPECT(read(done[0], &byte, 1) == 1);
    long sum = 0;
    for (int i = 0; i < WORKERS; i++)
        sum += resident_of(pids[i]);
    close(end[1]);
    for (int i = 0; i < WORKERS; i++) {
        int status = 1;
        EXPECT(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    }
    printf("workers %ld\n", sum);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"sizes", sizes},
                                          {"never_copied", never_copied},
                                          {"copied_once", copied_once},
                                          {"untouched", untouched},
                                          {"workers", workers}};
    return RUN_SCENARIO(all, argc, argv);
}
