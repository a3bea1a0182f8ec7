/* Threads that allocate, copy, write and free host and device blocks of the same few sizes in any
 * order: each block must keep its bytes. */
#include <pthread.h>

#include "shared_scene.h"

#define THREADS 8
#define ROUNDS 60

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

static void *work(void *arg)
{
    static unsigned char seen[THREADS][3 * UNIT]; /* Memory that no rule can place. */
    unsigned me = (unsigned)(size_t)arg, dice = 2463534242u + me * 7919u;
    CHECK(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < ROUNDS; i++)
        round_of(&dice, seen[me]);
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    context = start_gpu(0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)i));
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL));
    end_gpu(0);
    return 0;
}
