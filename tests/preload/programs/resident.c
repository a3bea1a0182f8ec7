/* SPDX-License-Identifier: MIT */
/* How much memory a program takes, with those that it forked: the sum of their proportional set
 * sizes, in MiB. */
#include <sys/wait.h>
#include <time.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

enum { BLOCKS = 10, WORKERS = 4, TRIES = 400, SMALL = 600, PIECES = 6 };

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

/* Resident memory once libzc has had the chance to give something back: as soon as that is not
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

/* Memory that a program copied once and freed, as a model's weights, is given back while it goes
 * on. */
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

/* Blocks that results come into piece by piece, and none of which gets more than a fifth. */
static void pieces(void)
{
    size_t piece = 8 * MIB;
    CUdeviceptr d = device_block(piece);
    char *h[PIECES];
    CHECK(cuMemsetD8(d, 1, piece));
    for (int i = 0; i < PIECES; i++) {
        h[i] = malloc((size_t)120 * MIB);
        for (int round = 0; round < 4; round++)
            for (size_t at = 0; at < 24 * MIB; at += piece)
                CHECK(cuMemcpyDtoH(h[i] + at, d, piece));
    }
    printf("pieces %ld\n", resident_of(getpid()));
    for (int i = 0; i < PIECES; i++)
        free(h[i]);
}

/* Small blocks that need one unit of the host heap each, and fill little more than half of it. */
static void small(void)
{
    size_t n = 1100 * 1024;
    CUdeviceptr d = device_block(n);
    for (int i = 0; i < SMALL; i++)
        copy(d, filled(n), n);
    printf("small %ld\n", resident_of(getpid()));
}

static void work(int n)
{
    static const size_t mib[] = {56, 28, 40, 20};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof(mib) / sizeof(mib[0]); i++)
            free(filled((mib[i] + (size_t)n) * MIB));
}

/* Forked workers, which never use CUDA. */
struct crew {
    int done[2], end[2];
    pid_t pids[WORKERS];
};

/* On a busy machine the device's thread may not have come to rest in time for the first fork. */
static void crew_start(struct crew *crew, void (*task)(int n))
{
    char byte = 0;
    for (int i = 0; i < TRIES; i++) {
        if (sim_calls("cuMemHostRegister_v2") == sim_calls("cuMemHostUnregister"))
            break;
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        EXPECT(waitpid(pid, NULL, 0) == pid);
    }
    EXPECT(pipe(crew->done) == 0 && pipe(crew->end) == 0);
    for (int i = 0; i < WORKERS; i++)
        if ((crew->pids[i] = fork()) == 0) {
            close(crew->end[1]);
            task(i);
            if (write(crew->done[1], &byte, 1) != 1 || read(crew->end[0], &byte, 1) != 0)
                _exit(1);
            _exit(0);
        }
    for (int i = 0; i < WORKERS; i++)
        EXPECT(read(crew->done[0], &byte, 1) == 1);
}

static long crew_memory(const struct crew *crew)
{
    long sum = 0;
    for (int i = 0; i < WORKERS; i++)
        sum += resident_of(crew->pids[i]);
    return sum;
}

static void crew_end(struct crew *crew)
{
    close(crew->end[1]);
    for (int i = 0; i < WORKERS; i++) {
        int status = 1;
        EXPECT(waitpid(crew->pids[i], &status, 0) == crew->pids[i] && status == 0);
    }
}

static void workers(void)
{
    char *blocks[BLOCKS];
    struct crew crew;
    fill_and_free(blocks, device_block(48 * MIB));
    crew_start(&crew, work);
    printf("workers %ld\n", crew_memory(&crew));
    crew_end(&crew);
}

static void keep(int n)
{
    char *p = filled(40 * MIB);
    EXPECT(p[n] == 1);
}

/* Memory copied and freed just before the workers start. */
static void workers_after(void)
{
    char *blocks[BLOCKS];
    struct crew crew;
    fill_and_free(blocks, device_block(48 * MIB));
    crew_start(&crew, keep);
    printf("workers after %ld\n", resident_of(getpid()) + crew_memory(&crew));
    crew_end(&crew);
}

static char *data[BLOCKS];

static void read_all(int n)
{
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < 48 * MIB; at += 4096)
            EXPECT(data[i][at + (size_t)n] == 1);
}

/* Workers that read what the program copies before and after their start. */
static void workers_read(void)
{
    struct crew crew;
    CUdeviceptr d = device_block(48 * MIB);
    for (int i = 0; i < BLOCKS; i++)
        copy(d, data[i] = filled(48 * MIB), 48 * MIB);
    crew_start(&crew, read_all);
    long before = resident_of(getpid()) + crew_memory(&crew);
    for (int i = 0; i < BLOCKS; i++)
        copy(d, data[i], 48 * MIB);
    long after = resident_of(getpid()) + crew_memory(&crew);
    printf("workers read %ld, then %ld\n", before, after > before ? after : before);
    crew_end(&crew);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"sizes", sizes},
                                          {"never_copied", never_copied},
                                          {"copied_once", copied_once},
                                          {"untouched", untouched},
                                          {"pieces", pieces},
                                          {"small", small},
                                          {"workers", workers},
                                          {"workers_after", workers_after},
                                          {"workers_read", workers_read}};
    return RUN_SCENARIO(all, argc, argv);
}
