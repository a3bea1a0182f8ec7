/* SPDX-License-Identifier: MIT */
/* Threads that allocate, copy, write and free host and device blocks of the same few sizes in any
 * order: each block must keep its bytes.  Each thread has both sides of its pairs (`rounds`), and
 * launches kernels too (`launches`), or some threads have host blocks only and others device blocks
 * only (`across`), or some copy results elsewhere and others launch (`results`), or two threads
 * give each block its halves (`halves`).  Or threads copy between the same two pairs, in both
 * directions (`crossing`). shared_stress SCENE [SEED [TIMES]], or shared_stress many, as rounds.h
 * says. */
#include <pthread.h>

#include "shared_scene.h"

#include "rounds.h"

#define THREADS 8

static CUcontext context;

/* xorshift: the same choices in every run of a thread. */
static unsigned roll(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state >> 3;
}

/* One byte in every page of 4 KiB, so that a round takes little time. */
static void mark(unsigned char *h, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i += 4096)
        h[i] = (unsigned char)(seed + i / 4096);
}

static bool marked(const unsigned char *h, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i += 4096)
        if (h[i] != (unsigned char)(seed + i / 4096))
            return false;
    return true;
}

static struct pair some_pair(size_t n, bool device_first)
{
    struct pair p = {NULL, 0};
    if (device_first)
        CHECK(cuMemAlloc(&p.d, n));
    p.h = malloc(n);
    EXPECT(p.h);
    if (!device_first)
        CHECK(cuMemAlloc(&p.d, n));
    return p;
}

static void round_of(unsigned *dice, unsigned char *seen)
{
    size_t n = UNIT + roll(dice) % 3 * UNIT;
    struct pair p = some_pair(n, roll(dice) % 2);
    unsigned seed = roll(dice), at_device = seed;
    mark(p.h, n, seed);
    CHECK(cuMemcpyHtoD(p.d, p.h, n));
    for (unsigned step = roll(dice) % 4; step; step--) {
        if (roll(dice) % 2) {
            seed = roll(dice);
            mark(p.h, n, seed);
        }
        if (roll(dice) % 2) {
            CHECK(cuMemcpyHtoD(p.d, p.h, n));
            at_device = seed;
        }
        if (roll(dice) % 4 == 0) {
            p.h = realloc(p.h, n);
            EXPECT(p.h);
        }
        EXPECT(marked(p.h, n, seed));
    }
    CHECK(cuMemcpyDtoH(seen, p.d, n));
    EXPECT(marked(seen, n, at_device) && marked(p.h, n, seed));
    if (roll(dice) % 2) {
        CHECK(cuMemcpyDtoH(p.h, p.d, n));
        seed = at_device;
    }
    if (roll(dice) % 2) {
        CHECK(cuMemFree(p.d));
        EXPECT(marked(p.h, n, seed));
        free(p.h);
    } else {
        free(p.h);
        CHECK(cuMemcpyDtoH(seen, p.d, n));
        EXPECT(marked(seen, n, at_device));
        CHECK(cuMemFree(p.d));
    }
}

#define SMALL ((size_t)512 << 10) /* No rule places device blocks of this size. */

/* A host block that another thread's device block may move into at any time. */
static void host_round(unsigned *dice, unsigned char *seen)
{
    size_t n = UNIT + roll(dice) % 3 * UNIT;
    unsigned seed = roll(dice);
    unsigned char *h = malloc(n);
    CUdeviceptr elsewhere;
    EXPECT(h);
    CHECK(cuMemAlloc(&elsewhere, SMALL));
    mark(h, n, seed);
    for (unsigned step = roll(dice) % 6; step; step--) {
        size_t at = roll(dice) % (n / SMALL) * SMALL;
        if (roll(dice) % 2) {
            seed = roll(dice);
            mark(h, n, seed);
        }
        CHECK(cuMemcpyHtoD(elsewhere, h + at, SMALL));
        CHECK(cuMemcpyDtoH(seen, elsewhere, SMALL));
        EXPECT(marked(seen, SMALL, seed + (unsigned)(at / 4096)));
        CHECK(cuMemcpyDtoH(h + at, elsewhere, SMALL));
        EXPECT(marked(h, n, seed));
    }
    CHECK(cuMemFree(elsewhere));
    free(h);
}

/* A device block that another thread's host block may join at any time. */
static void device_round(unsigned *dice, unsigned char *seen)
{
    size_t n = UNIT + roll(dice) % 3 * UNIT;
    unsigned seed = roll(dice);
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, n));
    for (unsigned step = roll(dice) % 3 + 1; step; step--) {
        mark(seen, n, ++seed);
        CHECK(cuMemcpyHtoD(d, seen, n));
        memset(seen, 0, n);
        CHECK(cuMemcpyDtoH(seen, d, n));
        EXPECT(marked(seen, n, seed));
    }
    CHECK(cuMemFree(d));
}

/* Kernels see what was copied last, whatever other threads allocate and launch meanwhile. */
static void launch_round(unsigned *dice, unsigned char *seen)
{
    size_t n = UNIT + roll(dice) % 2 * UNIT;
    struct pair p = some_pair(n, roll(dice) % 2);
    unsigned seed = roll(dice);
    (void)seen;
    for (unsigned step = 0; step < 3; step++) {
        paint(p.h, n, ++seed);
        CHECK(cuMemcpyHtoD(p.d, p.h, n));
        EXPECT(gpu_sees(p.d, 0, n, seed));
        CHECK(cuMemcpyDtoH(p.h, p.d, n));
        EXPECT(shows(p.h, n, seed));
    }
    CHECK(cuMemFree(p.d));
    free(p.h);
}

static struct pair crossed[2]; /* That threads copy to each other. */

static void cross(int from)
{
    for (unsigned i = 0; i < 200; i++)
        CHECK(cuMemcpyDtoD(crossed[!from].d, crossed[from].d, 64));
}

/* Each copy holds both pairs.  Threads that waited for each other would wait for ever, so that the
 * alarm ends the process. */
static void forth_round(unsigned *dice, unsigned char *seen)
{
    (void)dice, (void)seen;
    cross(0);
}

static void back_round(unsigned *dice, unsigned char *seen)
{
    (void)dice, (void)seen;
    cross(1);
}

typedef void (*round_fn)(unsigned *dice, unsigned char *seen);

static const struct scene {
    const char *name;
    unsigned rounds;
    round_fn even, odd; /* Of every second thread. */
} scenes[] = {{"rounds", 60, round_of, round_of},
              {"across", 60, device_round, host_round},
              {"launches", 8, launch_round, launch_round},
              {"crossing", 20, forth_round, back_round}};
static const struct scene *chosen;
static unsigned seed, times;

static void *work(void *arg)
{
    static unsigned char seen[THREADS][3 * UNIT]; /* Memory that no rule can place. */
    unsigned me = (unsigned)(size_t)arg, dice = 2463534242u + seed * 7927u + me * 7919u;
    CHECK(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < times; i++)
        (me % 2 ? chosen->odd : chosen->even)(&dice, seen[me]);
    return NULL;
}

static int run(int argc, char **argv)
{
    pthread_t thread[THREADS];
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        if (argc > 1 && !strcmp(argv[1], scenes[i].name))
            chosen = &scenes[i];
    EXPECT(chosen);
    seed = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    times = argc > 3 ? (unsigned)atoi(argv[3]) : chosen->rounds;
    context = start_gpu(0);
    for (int i = 0; i < 2 && chosen->even == forth_round; i++)
        crossed[i] = filled_pair(SIZE, 1);
    alarm(chosen->even == forth_round ? 30 : 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)i));
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL));
    for (int i = 0; i < 2 && chosen->even == forth_round; i++) {
        EXPECT(shows(crossed[i].h, SIZE, 1) && copy_sees(crossed[i].d, 0, SIZE, 1));
        give_back(crossed[i]);
    }
    end_gpu(0);
    return 0;
}

int main(int argc, char **argv)
{
    return run_rounds(argc, argv, run);
}
