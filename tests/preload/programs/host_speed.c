/* SPDX-License-Identifier: MIT */
/* Times what the host heap is for, one measurement a run, through the driver API:
 * host_speed WHAT [MIB].  Prints lines "NAME VALUE"; milliseconds, GB/s or nanoseconds. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define REPEATS 5

#define DRIVER(X)                                                                                  \
    COMMON_CALLS(X)                                                                                \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemcpyHtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)

#include "speed.h"

static CUdeviceptr device;
static size_t bytes;

static void start(void)
{
    start_driver();
    CHECK(cuMemAlloc_v2, &device, bytes);
    /* The driver makes its own staging memory at the first copy of pageable memory. */
    static char warm[65536];
    CHECK(cuMemcpyHtoD_v2, device, warm, sizeof(warm));
    CHECK(cuMemcpyDtoH_v2, warm, device, sizeof(warm));
}

static double speed(double *ms)
{
    return (double)bytes / 1e6 / median(ms, REPEATS);
}

static void copy_both_ways(const char *name, void *host)
{
    double in[REPEATS], out[REPEATS];
    CHECK(cuMemcpyHtoD_v2, device, host, bytes);
    for (int i = 0; i < REPEATS; i++) {
        double t = now();
        CHECK(cuMemcpyHtoD_v2, device, host, bytes);
        in[i] = now() - t;
        t = now();
        CHECK(cuMemcpyDtoH_v2, host, device, bytes);
        out[i] = now() - t;
    }
    printf("%s_htod %.2f\n%s_dtoh %.2f\n", name, speed(in), name, speed(out));
}

/* GB/s of a malloc'd buffer, and of cuMemHostAlloc's in the same process. */
static void copy(void)
{
    void *ours = malloc(bytes), *theirs = NULL;
    start();
    memset(ours, 1, bytes);
    CHECK(cuMemHostAlloc, &theirs, bytes, 0);
    memset(theirs, 1, bytes);
    copy_both_ways("malloc", ours);
    copy_both_ways("hostalloc", theirs);
}

/* GB/s of memory that no malloc gave, and of cuMemHostAlloc's in the same process. */
static void pageable(void)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pinned = NULL;
    start();
    memset(map, 1, bytes);
    copy_both_ways("pageable", map);
    CHECK(cuMemHostAlloc, &pinned, bytes, 0);
    memset(pinned, 1, bytes);
    copy_both_ways("hostalloc", pinned);
}

/* ms of malloc and the first fill, with CUDA not up yet. */
static void fill(void)
{
    double t = now();
    volatile char *p = memset(malloc(bytes), 1, bytes);
    printf("fill %.2f\n", now() - t + (p[bytes / 2] == 1 ? 0 : 1e9));
}

/* ms until pinned memory is there: cuMemHostAlloc; malloc with what its first copy takes longer
 * than its second; the same again from what was freed. */
static void allocate(void)
{
    void *theirs = NULL;
    start();
    double t = now();
    CHECK(cuMemHostAlloc, &theirs, bytes, 0);
    printf("hostalloc %.3f\n", now() - t);
    CHECK(cuMemFreeHost, theirs);
    for (int round = 0; round < 2; round++) {
        t = now();
        void *p = malloc(bytes);
        double made = now();
        CHECK(cuMemcpyHtoD_v2, device, p, bytes);
        double first = now();
        CHECK(cuMemcpyHtoD_v2, device, p, bytes);
        double second = now() - first, pin = first - made - second;
        printf("%s %.3f\n", round ? "pool" : "cold", made - t + (pin > 0 ? pin : 0));
        free(p);
    }
}

/* ms of cuMemHostAlloc for the first time and after a free of as much, ms of the free, and GB/s. */
static void request(void)
{
    void *p = NULL;
    start();
    for (int round = 0; round < 2; round++) {
        double t = now();
        CHECK(cuMemHostAlloc, &p, bytes, 0);
        printf("%s %.3f\n", round ? "again" : "first", now() - t);
        memset(p, 1, bytes);
        if (round)
            copy_both_ways("asked", p);
        t = now();
        CHECK(cuMemFreeHost, p);
        printf("%s %.3f\n", round ? "free_again" : "free_first", now() - t);
    }
}

/* ms of a program that allocates, fills, copies once and frees. */
static void once(void)
{
    start();
    double t = now();
    void *p = memset(malloc(bytes), 1, bytes);
    CHECK(cuMemcpyHtoD_v2, device, p, bytes);
    free(p);
    printf("once %.2f\n", now() - t);
}

/* ms of a block that grows by doubling from 16 MiB on, each part filled when it is there. */
static void grow(void)
{
    double t = now();
    size_t n = 16 * MIB;
    char *p = memset(malloc(n), 1, n);
    for (; n < bytes; n *= 2) {
        p = realloc(p, 2 * n);
        memset(p + n, 1, n);
    }
    printf("grow %.2f\n", now() - t + (p[n / 2] == 1 ? 0 : 1e9));
    free(p);
}

#define THREADS 16
#define ROUNDS 9
#define LIVE 512 /* Blocks of a thread. */

/* A thread of the crowd, on a processor of its own where there are enough. */
struct churn {
    pthread_t thread;
    int number;
    double ns; /* Of a round, the median of all. */
};

static pthread_barrier_t together;

static void keep_to_one_processor(int number)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    number %= CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && number-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
            return;
        }
}

/* Blocks of 16 B to 4 KiB come and go in no order, and are written to: what programs do. */
static double churn_round(char **live, size_t n, uint64_t *random)
{
    double t = now();
    for (size_t i = 0; i < n; i++) {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        size_t size = 16 + (*random >> 20) % 4080;
        free(live[*random % LIVE]);
        live[*random % LIVE] = memset(malloc(size), 1, size);
    }
    return (now() - t) * 1e6 / (double)n;
}

static void *churn(void *arg)
{
    struct churn *c = arg;
    char *live[LIVE] = {NULL};
    double ns[ROUNDS];
    uint64_t random = 0x9e3779b97f4a7c15u * (uint64_t)(c->number + 1);
    keep_to_one_processor(c->number);
    churn_round(live, 20000, &random);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&together);
        ns[i] = churn_round(live, 60000, &random);
    }
    c->ns = median(ns, ROUNDS);
    for (size_t i = 0; i < LIVE; i++)
        free(live[i]);
    return NULL;
}

/* ns of malloc and free of 64 B. */
static void small(void)
{
    enum { PAIRS = 2000000 };
    double ns[ROUNDS];
    keep_to_one_processor(0);
    for (int round = 0; round < ROUNDS; round++) {
        double t = now();
        for (size_t i = 0; i < PAIRS; i++) {
            void *volatile p = malloc(64);
            free(p);
        }
        ns[round] = (now() - t) * 1e6 / PAIRS;
    }
    printf("pair %.3f\n", median(ns, ROUNDS));
}

/* Millions of rounds a second of sixteen threads together. */
static void sixteen(void)
{
    static struct churn crowd[THREADS];
    double sum = 0;
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        crowd[i].number = i;
        pthread_create(&crowd[i].thread, NULL, churn, &crowd[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(crowd[i].thread, NULL);
        sum += 1e3 / crowd[i].ns;
    }
    printf("sixteen %.4f\n", sum);
}

static const struct {
    const char *name;
    void (*run)(void);
} all[] = {{"copy", copy},         {"pageable", pageable}, {"fill", fill},
           {"allocate", allocate}, {"once", once},         {"small", small},
           {"sixteen", sixteen},   {"grow", grow},         {"request", request}};

int main(int argc, char **argv)
{
    bytes = (argc > 2 ? strtoul(argv[2], NULL, 0) : 256) * MIB;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (argc > 1 && strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    fprintf(stderr, "usage: %s WHAT [MIB]\n", argv[0]);
    return 2;
}
