/* SPDX-License-Identifier: MIT */
/*
 * Times a block of pinned memory, and how long another process waits meanwhile:
 *
 *   pin_speed alloc|register|touch GIB
 *
 * alloc: cuMemHostAlloc; register: cuMemHostRegister of memory that nobody has touched; touch: no
 * more than that, by a thread for each processor, because a virtual machine may get its memory only
 * then.  The others print lines "NAME VALUE": milliseconds until the block is there, GB/s of the
 * first copies out of all of it, milliseconds until it is freed, resident MiB of the process by the
 * block, the longest that the other process waited in cuMemGetInfo, cuMemAlloc and a set (a launch)
 * before and while the block was made, and how often it waited for more than 20 ms meanwhile.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PIECE (1024 * MIB)
#define SLOW_MS 20

#define DRIVER(X)                                                                                  \
    COMMON_CALLS(X)                                                                                \
    X(cuMemGetInfo_v2)                                                                             \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemFree_v2)                                                                                \
    X(cuMemsetD8_v2)                                                                               \
    X(cuMemcpyHtoDAsync_v2)                                                                        \
    X(cuCtxSynchronize)                                                                            \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemHostRegister_v2)                                                                        \
    X(cuMemHostUnregister)

#include "speed.h"

enum call { INFO, ALLOC, LAUNCH, CALLS };
static const char *const call_name[CALLS] = {"info", "alloc", "launch"};

/* Shared with the other process. */
static struct {
    atomic_bool ready, making;
    double most[2][CALLS]; /* Milliseconds before, and while the block is made. */
    unsigned slow[CALLS];  /* Of more than SLOW_MS meanwhile. */
} * shared;

static void timed(enum call call, CUdeviceptr mine)
{
    size_t free, total;
    CUdeviceptr p;
    bool before = atomic_load(&shared->making);
    double start = now();
    if (call == INFO)
        CHECK(cuMemGetInfo_v2, &free, &total);
    else if (call == ALLOC)
        CHECK(cuMemAlloc_v2, &p, MIB);
    else
        CHECK(cuMemsetD8_v2, mine, 1, 4096);
    bool meanwhile = before || atomic_load(&shared->making);
    double ms = now() - start, *most = &shared->most[meanwhile][call];
    if (ms > *most)
        *most = ms;
    shared->slow[call] += meanwhile && ms > SLOW_MS;
    if (call == ALLOC)
        CHECK(cuMemFree_v2, p);
}

static void be_a_neighbour(void)
{
    CUdeviceptr mine;
    start_driver();
    CHECK(cuMemAlloc_v2, &mine, MIB);
    for (int i = 0; i < 30; i++)
        timed((enum call)(i % CALLS), mine);
    memset(shared->most, 0, sizeof(shared->most));
    for (int i = 0;; i++) {
        timed((enum call)(i % CALLS), mine);
        atomic_store(&shared->ready, i > 600);
        usleep(500);
    }
}

static double resident_mib(void)
{
    long pages = 0, skip;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &skip, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (double)MIB;
}

static void *make(bool registers, size_t bytes)
{
    void *p = NULL;
    if (!registers) {
        CHECK(cuMemHostAlloc, &p, bytes, 0);
        return p;
    }
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    CHECK(cuMemHostRegister_v2, p, bytes, 0);
    return p;
}

struct touched {
    char *memory;
    size_t bytes;
    atomic_size_t next;
};

static void *touch_pieces(void *arg)
{
    struct touched *t = arg;
    for (size_t at; (at = atomic_fetch_add(&t->next, PIECE)) < t->bytes;)
        memset(t->memory + at, 1, t->bytes - at < PIECE ? t->bytes - at : PIECE);
    return NULL;
}

static void touch(size_t bytes)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    struct touched all = {.bytes = bytes};
    all.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all.memory == MAP_FAILED)
        exit(1);
    madvise(all.memory, bytes, MADV_HUGEPAGE);
    while (started < MOST && started < cpus &&
           pthread_create(&thread[started], NULL, touch_pieces, &all) == 0)
        started++;
    touch_pieces(&all);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

static void measure(bool registers, size_t bytes)
{
    CUdeviceptr device;
    start_driver();
    CHECK(cuMemAlloc_v2, &device, PIECE);
    while (!atomic_load(&shared->ready))
        usleep(1000);
    double had = resident_mib(), start = now();
    atomic_store(&shared->making, true);
    char *block = make(registers, bytes);
    double ms = now() - start;
    atomic_store(&shared->making, false);
    double more = resident_mib() - had;
    start = now();
    for (size_t at = 0; at < bytes; at += PIECE)
        CHECK(cuMemcpyHtoDAsync_v2, device, block + at, bytes - at < PIECE ? bytes - at : PIECE,
              NULL);
    CHECK(cuCtxSynchronize);
    double copied = now() - start;
    start = now();
    if (registers)
        CHECK(cuMemHostUnregister, block);
    else
        CHECK(cuMemFreeHost, block);
    printf("made %.2f\nspeed %.2f\nfreed %.2f\nresident %.0f\n", ms, (double)bytes / 1e6 / copied,
           now() - start, more);
}

int main(int argc, char **argv)
{
    double gib = argc > 2 ? atof(argv[2]) : 0;
    bool registers = argc > 1 && !strcmp(argv[1], "register");
    bool touches = argc > 1 && !strcmp(argv[1], "touch");
    if (gib <= 0 || (!registers && !touches && strcmp(argv[1], "alloc") != 0)) {
        fprintf(stderr, "pin_speed alloc|register|touch GIB\n");
        return 2;
    }
    if (touches) {
        touch((size_t)(gib * 1024) * MIB);
        return 0;
    }
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t neighbour = fork();
    if (neighbour == 0)
        be_a_neighbour();
    measure(registers, (size_t)(gib * 1024) * MIB);
    kill(neighbour, SIGKILL);
    waitpid(neighbour, NULL, 0);
    for (int i = 0; i < CALLS; i++)
        printf("%s_before %.2f\n%s_meanwhile %.2f\n%s_slow %u\n", call_name[i], shared->most[0][i],
               call_name[i], shared->most[1][i], call_name[i], shared->slow[i]);
    return 0;
}
