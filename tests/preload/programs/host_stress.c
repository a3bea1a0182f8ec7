/* SPDX-License-Identifier: MIT */
/* Random calls of the whole malloc family by 16 threads, with forks in between:
 * host_stress [STEPS [SEED]], or host_stress many, as rounds.h says.  Every block carries a
 * pattern that is checked before it goes. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rounds.h"

#define THREADS 16
#define BLOCKS 24 /* Of a thread. */
#define SHARED 64 /* Handed from thread to thread. */

struct block {
    unsigned char *p;
    size_t n;
};

static struct block shared[SHARED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_here; /* No thread ends before the last one began. */
static unsigned steps = 600, seed;
static unsigned failures; /* Atomic. */

static void fail(const char *what, const struct block *b)
{
    __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    printf("%s: %p of %zu bytes\n", what, (void *)b->p, b->n);
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The pattern depends on the place in the block alone, so that it survives realloc. */
static void paint(const struct block *b)
{
    for (size_t i = 0; i < b->n; i += i < 256 ? 1 : 509)
        b->p[i] = (unsigned char)(i * 13 + 5);
}

static void check(const struct block *b, size_t n)
{
    for (size_t i = 0; i < n; i += i < 256 ? 1 : 509)
        if (b->p[i] != (unsigned char)(i * 13 + 5)) {
            fail("content", b);
            return;
        }
}

static size_t draw_size(uint64_t *state)
{
    uint64_t r = draw(state);
    switch (r % 8) {
    case 0:
        return r >> 8 & 1023;
    case 1:
        return (r >> 8) % (6 << 20);
    case 2:
        return (size_t)1 << (14 + (r >> 8) % 7);
    default:
        return 60000 + (r >> 8) % 200000;
    }
}

static void allocate(struct block *b, uint64_t *state)
{
    size_t n = b->n = draw_size(state), a = (size_t)16 << draw(state) % 12;
    void *p = NULL;
    switch (draw(state) % 7) {
    case 0:
        p = calloc(n, 1);
        for (size_t i = 0; p && i < n; i += 97)
            if (((unsigned char *)p)[i]) {
                b->p = p;
                fail("not zero", b);
                break;
            }
        break;
    case 1:
        p = aligned_alloc(a, n);
        break;
    case 2:
        if (posix_memalign(&p, a, n) != 0)
            p = NULL;
        break;
    case 3:
        p = memalign(a, n);
        break;
    case 4:
        p = valloc(n);
        break;
    case 5:
        p = reallocarray(NULL, n, 1);
        break;
    default:
        p = malloc(n);
    }
    b->p = p;
    if (!p)
        b->n = 0;
    else if (malloc_usable_size(p) < n)
        fail("size", b);
    paint(b);
}

static void resize(struct block *b, uint64_t *state)
{
    size_t n = draw_size(state) + 1;
    unsigned char *p = realloc(b->p, n);
    if (!p)
        return;
    size_t kept = b->n < n ? b->n : n;
    *b = (struct block){p, n};
    check(b, kept);
    paint(b);
}

static void release(struct block *b)
{
    check(b, b->n);
    errno = 4711;
    free(b->p);
    if (errno != 4711)
        fail("errno", b);
    *b = (struct block){NULL, 0};
}

static void trade(struct block *b, uint64_t *state)
{
    struct block *other = &shared[draw(state) % SHARED], mine = *b;
    pthread_mutex_lock(&lock);
    *b = *other;
    *other = mine;
    pthread_mutex_unlock(&lock);
}

/* The pages inside a block read as zeroes once the program has given them up. */
static void give_up_pages(const struct block *b)
{
    unsigned char *from = (unsigned char *)(((uintptr_t)b->p + 4095) & ~(uintptr_t)4095);
    size_t n = b->n > 8192 ? (b->n - 4096) & ~(size_t)4095 : 0;
    if (n == 0)
        return;
    if (madvise(from, n, MADV_DONTNEED) != 0)
        fail("madvise", b);
    for (size_t i = 0; i < n; i += 509)
        if (from[i] != 0) {
            fail("given up", b);
            break;
        }
    paint(b);
}

static void step(struct block *blocks, uint64_t *state)
{
    struct block *b = &blocks[draw(state) % BLOCKS];
    switch (draw(state) % 4) {
    case 0:
        trade(b, state);
        break;
    case 1:
        if (b->p) {
            if (draw(state) % 8 == 0)
                give_up_pages(b);
            resize(b, state);
            break;
        }
        /* fall through */
    default:
        if (b->p)
            release(b);
        else
            allocate(b, state);
    }
}

/* The child goes on with what its one thread inherited. */
static void try_fork(struct block *blocks, uint64_t *state)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        unsigned before = failures;
        for (int i = 0; i < 40; i++) {
            struct block *b = &blocks[draw(state) % BLOCKS];
            if (b->p)
                release(b);
            else
                allocate(b, state);
        }
        _exit(failures != before);
    }
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) {
        struct block none = {NULL, (size_t)status};
        fail("child", &none);
    }
}

static void *work(void *arg)
{
    struct block blocks[BLOCKS] = {{NULL, 0}};
    uint64_t state = 0x9e3779b97f4a7c15u * ((uintptr_t)arg + (uint64_t)THREADS * seed) + 1;
    pthread_barrier_wait(&all_here);
    for (unsigned i = 0; i < steps; i++) {
        step(blocks, &state);
        if (i % 200 == 100)
            try_fork(blocks, &state);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].p)
            release(&blocks[i]);
    return NULL;
}

static int run(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc > 1)
        steps = (unsigned)atoi(argv[1]);
    if (argc > 2)
        seed = (unsigned)atoi(argv[2]);
    /* libzc maps what it keeps at the first such request.  Where helgrind watches, the memory must
     * not have been another thread's before: it keeps what it knows of addresses when they are
     * unmapped, and takes the first writes for a race. */
    shared[0] = (struct block){malloc(100000), 100000};
    paint(&shared[0]);
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SHARED; i++)
        if (shared[i].p)
            release(&shared[i]);
    pthread_barrier_destroy(&all_here);
    printf("%s\n", failures ? "failed" : "right");
    return failures != 0;
}

int main(int argc, char **argv)
{
    return run_rounds(argc, argv, run);
}
